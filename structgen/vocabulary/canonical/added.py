"""Added tokens must not be spelled by other tokens: an encoder takes their contents out of a text before it encodes.

The state of a text is its longest suffix that is a proper prefix of a content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from structgen.memo import cached_up_to
from structgen.vocabulary.packed import Words, packed
from structgen.vocabulary.trie import Trie


class AddedContents:
    """The contents of added tokens.

    Args:
        contents: of all added tokens, in bytes.
        tokens: the bytes of each ordinary token by id; empty for others.
        trie: of all tokens.

    Attributes:
        whole: the tokens that contain a content.
        beginning: the tokens that end with a proper prefix of a content.
    """

    def __init__(self, contents: Iterable[bytes], tokens: Sequence[bytes], trie: Trie) -> None:
        self._contents = sorted(set(contents) - {b""})
        self._beginnings = {content[:size] for content in self._contents for size in range(1, len(content))}
        self._longest = max(map(len, self._contents), default=0)
        self._tokens, self._trie = tokens, trie
        nothing = rb"(?!)"
        self._anywhere = re.compile(b"|".join(map(re.escape, self._contents)) or nothing)
        openings = {content[:1] for content in self._contents}
        self._opening = re.compile(b"[" + b"".join(map(re.escape, sorted(openings))) + b"]" if openings else nothing)
        ends = {i: self.begun(b"", tokens[i]) for i, token in enumerate(tokens) if self._opening.search(token)}
        self.whole = [i for i, end in ends.items() if end is None]
        self.beginning = [i for i, end in ends.items() if end]

    def begun(self, before: bytes, text: bytes) -> bytes | None:
        """The state behind more text; None where a content is complete.

        Args:
            before: the state.
            text: the new bytes.
        """
        if not before and self._opening.search(text) is None:
            return b""
        text = before + text
        if self._anywhere.search(text) is not None:
            return None
        for start in range(max(0, len(text) - self._longest + 1), len(text)):
            if text[start:] in self._beginnings:
                return text[start:]
        return b""

    @cached_up_to(256)
    def harmless(self, before: bytes) -> Words:
        """uint32[words]: the tokens that complete no content behind a text.

        Args:
            before: what `begun` gives for the text.
        """
        flags = np.ones(len(self._tokens), np.bool_)
        flags[self.whole] = False
        for content in self._contents if before else ():
            for size in range(1, len(content)):
                if before.endswith(content[:size]):
                    flags[self._trie.tokens_from(content[size:])] = False
        return packed(flags)
