"""Tokenizers of Hugging Face `tokenizers` (every fast tokenizer of transformers, and raw ones), and which of the tokens
that are added to a tokenizer are text.

The tokenizer cuts added tokens out of the input before it encodes the rest, so the text of an added token is always
written with that one token. Special ones are never text. The others are of two kinds, which tokenizers do not tell
apart:

- *control tokens* that were not marked as special (`<think>`, `<tool_call>`, `[INST]`): a value must not hold them,
  because the model and its chat template read them as commands;
- *words*: runs of blanks (Phi, Gemma), elements of HTML (Gemma), or words that someone added before fine-tuning. Only
  the added token writes this text canonically. It stands for its content as it is, also where a byte-level decoder
  takes the letters for bytes: it makes U+0011 of the first letter of `đem`.

A control token is recognised by its brackets, unless plain words are in them that name no command (`<td>`,
`[loc_1]`) and the chat template does not write it. So are the user-defined pieces of a SentencePiece model: Gemma has
its `<start_of_turn>` and its runs of blanks as such pieces.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from structgen.vocabulary.canonical import Encoder
from structgen.vocabulary.decoders import byte_level, spell
from structgen.vocabulary.table import TokenTable, VocabularySource, digest, digest_tokens

_BRACKETS = {"<": ">", "[": "]"}
_WORD = re.compile(r"/?[^\W_]+(?:[-_.:][^\W_]+)* ?/?")
_BYTE = re.compile(r"0x[0-9A-F]{2}")
_COMMANDS = frozenset(
    """action answer arg args assistant audio begin bom bos call cls content end endoftext eod eog eom eop eos
    eot extra fim function functions gmask human im image img inst instruction mask message middle model null
    observation output pad param parameter pause placeholder plan prefix prompt reasoning repo reserved response
    result role s scratchpad sep smask sop special speech start stop suffix sys system task text think thinking
    thought thoughts token tool tools turn unk unknown unused user video vision""".split()
)
"""Words that are commands to a model where they are in brackets."""


def fast_source(backend: Any, special: frozenset[int], ends: list[int], template: str = "") -> VocabularySource:
    """The source of a `tokenizers.Tokenizer`.

    Args:
        special: the ids that its transformers wrapper, if any, holds to be special.
        ends: the ids that the wrapper declares to end a text.
        template: the wrapper's chat template. What it writes in brackets is a command.
    """
    added: dict[int, Any] = backend.get_added_tokens_decoder()
    special |= {i for i, token in added.items() if in_brackets(token.content) and token.content.strip() in template}
    pieces = _pieces(backend, added)
    decoder = None if backend.decoder is None else json.loads(backend.decoder.__getstate__())
    unknown = _unknown_ids(backend)
    described = sorted((i, token.content, token.special) for i, token in added.items())
    notes = repr((described, sorted(unknown), sorted(special), decoder))
    signature = digest("tokenizers", notes, digest_tokens(pieces))

    def table() -> TokenTable:
        not_text = special | unknown | {i for i, token in added.items() if token.special}
        words = {i: token.content for i, token in added.items() if i not in not_text}
        spelled = spell((piece or "" for piece in pieces), decoder)
        literal = _literal(backend, words, spelled)
        read = _table(pieces, spelled, added, not_text, literal)
        written = [i for i in added if i not in literal and read.tokens[i]]
        read.require_decoded(written, lambda ids: backend.decode(ids, skip_special_tokens=True))
        return read

    return VocabularySource(ends, signature, table, _encoder(backend))


def _encoder(backend: Any) -> Encoder:
    cuts = None if backend.pre_tokenizer is None else partial(_cuts, backend.pre_tokenizer)
    words = None if cuts is None or backend.padding is not None else partial(_words, backend)
    return Encoder(partial(_encoded, backend), cuts, backend, words)


def _words(backend: Any, text: str) -> tuple[list[int], list[int | None]]:
    encoding = backend.encode(text, add_special_tokens=False)
    return encoding.ids, encoding.word_ids


def _encoded(backend: Any, text: str) -> list[int]:
    encoding = backend.encode(text, add_special_tokens=False)
    if backend.padding is None:
        return list(encoding.ids)
    return [i for i, is_token in zip(encoding.ids, encoding.attention_mask, strict=True) if is_token]


def _cuts(pre_tokenizer: Any, text: str) -> list[int]:
    return [start for _, (start, _) in pre_tokenizer.pre_tokenize_str(text)]


def _literal(backend: Any, words: Mapping[int, str], spelled: Sequence[bytes]) -> dict[int, bytes]:
    """The bytes of the words, of those that were added, whose letters a byte-level decoder takes for other bytes.

    A word that the model has as well stands for those bytes in other texts: it is left out, and so never written.
    """
    read = zip(words.items(), byte_level([*words.values()]), strict=True)
    taken = {i: word for (i, word), other in read if other == spelled[i] != word.encode()}
    own = backend.get_vocab(with_added_tokens=False) if taken else {}
    return {i: word.encode() for i, word in taken.items() if word not in own}


def _table(
    pieces: Sequence[str | None],
    spelled: Sequence[bytes],
    added: Mapping[int, Any],
    special: frozenset[int],
    literal: Mapping[int, bytes],
) -> TokenTable:
    tokens = [None if piece is None else literal.get(i, spelled[i]) for i, piece in enumerate(pieces)]
    # The normalizer may write an added token in another way: Llama 2's makes `▁đem` of `đem`, which stands for " đem".
    special |= {i for i, token in added.items() if not is_word(pieces[i] or token.content, tokens[i] or b"")}
    for i in special:
        tokens[i] = None
    return TokenTable(tokens, {i: str(added[i].content) if i in added else pieces[i] or "" for i in special})


def _pieces(backend: Any, added: Mapping[int, Any]) -> list[str | None]:
    """The tokens by id as the decoder is given them; None for an unused id."""
    count: int = backend.get_vocab_size(with_added_tokens=True)
    rows = max(count, max(added, default=-1) + 1)
    pieces = [backend.id_to_token(i) for i in range(rows)]
    if rows - pieces.count(None) < count:
        # There are holes, so ids go beyond the count; the dictionary is slower to read but complete.
        highest = max(backend.get_vocab(with_added_tokens=True).values())
        pieces += [backend.id_to_token(i) for i in range(rows, highest + 1)]
    return pieces


def _unknown_ids(backend: Any) -> frozenset[int]:
    """The id that stands for "unknown": what it is decoded to is nobody's text."""
    model = backend.model
    if hasattr(model, "unk_token"):
        unknown = None if model.unk_token is None else backend.token_to_id(model.unk_token)
    else:
        state = re.match(rb'\{"type":"Unigram","unk_id":(\d+)', model.__getstate__())
        unknown = None if state is None else int(state[1])
    return frozenset() if unknown is None else frozenset({unknown})


def declared_special(tokenizer: Any, added: Mapping[int, Any]) -> frozenset[int]:
    """The ids that a tokenizer of transformers holds to be special.

    `all_special_ids` also lists the user-defined symbols of a SentencePiece model (braces, digits), which are added
    tokens like any word: they are not special to the tokenizer's own decoder, and have no role such as `eos_token`.
    """
    roles = {text for text in getattr(tokenizer, "special_tokens_map", {}).values() if isinstance(text, str)}
    return frozenset(
        i
        for i in tokenizer.all_special_ids
        if i is not None  # the configuration has a special token that is not in the vocabulary
        and (i not in added or added[i].special or added[i].content in roles)
    )


def is_word(content: str, spelled: bytes) -> bool:
    """True for an added token, not marked as special, that may appear inside text.

    Args:
        content: the text that the token stands for in the input.
        spelled: what the tokenizer's decoder makes of it, which must be `content` again.
    """
    blank_again = spelled.decode("utf-8", "replace").replace("\u2581", " ")
    if blank_again != content.replace("\u2581", " "):
        return False
    return not looks_like_control(content)


def in_brackets(content: str) -> bool:
    """True for a text in angle or square brackets; blanks around it do not count."""
    text = content.strip(" \t\r\n\u2581")
    return bool(text) and _BRACKETS.get(text[0]) == text[-1]


def looks_like_control(content: str) -> bool:
    """True for a text in brackets, unless it is plain words that name no command, as `<td>`, `[loc_1]` or `<日本>`."""
    unmarked = "".join(char for char in content if unicodedata.category(char)[0] != "M")
    inner = unmarked.strip(" \t\r\n\u2581")[1:-1]
    parts = {part.rstrip("0123456789") for part in re.split(r"[\W_]+", inner.lower())}
    named = not _COMMANDS.isdisjoint(parts | {part.removesuffix("s") for part in parts})
    return in_brackets(content) and (named or _WORD.fullmatch(inner) is None or _BYTE.fullmatch(inner) is not None)
