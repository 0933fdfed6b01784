"""The call formats of tokenizers: each is derived once and remembered."""

from __future__ import annotations

import weakref
from typing import Any

from structgen.chat.call_format import CallFormat
from structgen.chat.derive import derive
from structgen.chat.templates import JinjaTemplate, TokenizerTemplate
from structgen.errors import OptionError, excerpt
from structgen.vocabulary import Vocabulary

_known: weakref.WeakKeyDictionary[Any, tuple[Any, CallFormat | str]] = weakref.WeakKeyDictionary()


def call_format(source: Any, vocabulary: Vocabulary | None = None) -> CallFormat:
    """Returns how a model writes calls, derived from its chat template.

    Args:
        source: a transformers tokenizer with a chat template, or the Jinja source of one.
        vocabulary: the vocabulary of the tokenizer, which knows the tokens that end a text.

    Raises:
        OptionError: the template renders no calls, or no format can be derived from them; the message says why.
    """
    ends = [] if vocabulary is None else _ends(vocabulary)
    if isinstance(source, str):
        return derive(JinjaTemplate(source), ends=ends)
    key = str(getattr(source, "chat_template", None)), tuple(ends)
    known = _known.get(source)
    if known is None or known[0] != key:
        derived: CallFormat | str
        try:
            derived = derive(TokenizerTemplate(source), ends=ends)
        except OptionError as refusal:
            derived = str(refusal)
        known = _known[source] = key, derived
    if isinstance(known[1], str):
        raise OptionError(excerpt(known[1]))
    return known[1]


def _ends(vocabulary: Vocabulary) -> list[str]:
    return sorted(name for name, i in vocabulary.special_names.items() if i in vocabulary.end_ids)
