"""The control tokens of a tokenizer, which data never becomes: their names in it are encoded as text.

In the data of a conversation each name is put between two marks before the chat template writes it. After the template
the marks tell these names from those that the template itself has written. `sanitize_control_tokens` of transformers
does the same with marks that Python's `repr` escapes, so a template with `{{ tool | string }}` loses them, and it
leaves out the keys of mappings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from structgen.errors import OptionError, quoted
from structgen.memo import once_per_object

Span = tuple[int, int]


@once_per_object
def _names(tokenizer: Any, template: str) -> re.Pattern[str] | None:
    added: Any = getattr(tokenizer, "added_tokens_decoder", None)
    if added is None and hasattr(tokenizer, "get_added_tokens_decoder"):
        added = tokenizer.get_added_tokens_decoder()
    texts = {token.content for token in (added or {}).values() if token.special or token.content in template}
    longest_first = sorted((text for text in texts if text.strip()), key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def control_names(tokenizer: Any) -> re.Pattern[str] | None:
    """Returns a pattern of the texts that a tokenizer reads as control tokens; None if there are none.

    These are its special tokens, and other added tokens that its chat template writes. Some kinds of tokenizers, such
    as mistral-common's, read no text as a control token.
    """
    return _names(tokenizer, str(getattr(tokenizer, "chat_template", "")))


@dataclass(frozen=True, slots=True)
class Marking:
    """Marks the names of control tokens in data. The mark is new for each conversation, so that none can be forged."""

    names: re.Pattern[str]
    mark: str

    @classmethod
    def of(cls, names: re.Pattern[str] | None, data: Any) -> Marking | None:
        """Returns what marks the names in data; None if it has none."""
        return None if names is None or not _has(data, names) else cls(names, f"x{token_hex(8)}x")

    def marked(self, data: Any) -> Any:
        """Returns data of JSON with its marks, also in the keys of mappings."""
        if isinstance(data, str):
            return self.names.sub(f"{self.mark}\\g<0>{self.mark}", data)
        if isinstance(data, Mapping):
            return {self.marked(key): self.marked(each) for key, each in data.items()}
        return [self.marked(each) for each in data] if isinstance(data, (list, tuple)) else data

    def read(self, text: str) -> tuple[str, list[Span]]:
        """Returns a text that a template has made of marked data, without marks, and where names of data are."""
        pieces = re.split(f"{self.mark}({self.names.pattern}){self.mark}|{self.mark}", text)
        spans, written = [], ""
        for place, piece in enumerate(pieces):
            if place % 2 and piece:
                spans.append((len(written), len(written) + len(piece)))
            written += piece or ""
        return written, spans


def _has(data: Any, names: re.Pattern[str]) -> bool:
    if isinstance(data, str):
        return names.search(data) is not None
    if isinstance(data, Mapping):
        return any(_has(key, names) or _has(each, names) for key, each in data.items())
    return isinstance(data, (list, tuple)) and any(_has(each, names) for each in data)


def plain_ids(tokenizer: Any, text: str, data: Sequence[Span], *, special: bool = True) -> list[int] | None:
    """Returns the ids of a text in which data names a control token; None if none does, so that the text is as any.

    Args:
        data: the places of data in the text, as (start, end).
        special: put the tokens around it that the tokenizer puts around any text.

    Raises:
        OptionError: such a name cannot be written as text.
    """
    names = control_names(tokenizer)
    found = [match.span() for match in names.finditer(text)] if names is not None and data else []
    named = [(start, end) for start, end in found if any(start < last and first < end for first, last in data)]
    if names is None or not named:
        return None
    ids, done = list[int](), 0
    for start, end in named:
        ids += _piece(tokenizer, text[done:start], first=done == 0)
        ids += _spelled(tokenizer, names, text[start:end], first=start == 0)
        done = end
    ids += _piece(tokenizer, text[done:], first=False)
    before, behind = _around(tokenizer) if special else ([], [])
    return [*before, *ids, *behind]


def ids_behind(tokenizer: Any, text: str) -> list[int]:
    """Returns the ids of data that continues after other text."""
    ids = plain_ids(tokenizer, text, [(0, len(text))], special=False)
    return _piece(tokenizer, text, first=False) if ids is None else ids


def _spelled(tokenizer: Any, names: re.Pattern[str], name: str, *, first: bool) -> list[int]:
    """Returns the name of a control token in two halves, each of them text."""
    for middle in range(1, len(name)):
        halves = name[:middle], name[middle:]
        if not any(map(names.search, halves)):
            return _piece(tokenizer, halves[0], first=first) + _piece(tokenizer, halves[1], first=False)
    raise OptionError(f"data has the control token {quoted(name)}, which cannot be written as text")


def _piece(tokenizer: Any, text: str, *, first: bool) -> list[int]:
    """Returns the ids of a piece of text; after others it has no prefix of its own, as SentencePiece would add."""
    if first or not text:
        return encoded_bare(tokenizer, text)
    line = encoded_bare(tokenizer, "\n")
    ids = encoded_bare(tokenizer, "\n" + text)
    return ids[len(line) :] if ids[: len(line)] == line else encoded_bare(tokenizer, text)


def encoded_bare(tokenizer: Any, text: str) -> list[int]:
    """Returns the ids of a text, without those that the tokenizer puts around every text."""
    encoded = tokenizer.encode(text, add_special_tokens=False) if text else []
    return list(getattr(encoded, "ids", encoded))


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Returns the ids that the tokenizer puts before and after every text."""
    encoded, bare = tokenizer.encode("a"), encoded_bare(tokenizer, "a")
    whole = list(getattr(encoded, "ids", encoded))
    start = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), 0)
    return whole[:start], whole[start + len(bare) :]
