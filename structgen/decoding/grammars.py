"""A cache of compiled grammars: the same schema in the next call starts with the masks that are known."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import fields, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from structgen.constraints.basic import Constraint, JsonSchema
from structgen.constraints.compositions import Composition
from structgen.decoding.ahead.forced import Spans
from structgen.masks import Grammar
from structgen.models.model import Model
from structgen.telemetry import Operation
from structgen.vocabulary import Vocabulary

REMEMBERED = 128
"""The most grammars that are kept; the least recently used goes first."""
REMEMBERED_BYTES = 256 << 20
"""The most bytes of all tables and masks, counted when a grammar is added. The new one is always kept."""

_grammars: OrderedDict[Hashable, Grammar] = OrderedDict()  # by hand: grammars grow after they were added
_lock = Lock()


def grammar_for(constraint: Constraint, vocabulary: Vocabulary) -> Grammar:
    """The constraint compiled for the vocabulary, cached by value if it has a hashable one."""
    try:
        key = (_value(constraint), vocabulary.fingerprint)
    except (TypeError, ValueError, RecursionError):
        return _compiled(constraint, vocabulary)
    with _lock:
        if key in _grammars:
            _grammars.move_to_end(key)
            return _grammars[key]
    grammar = _compiled(constraint, vocabulary)
    with _lock:
        _grammars[key] = grammar
        held = sum(each.nbytes + each.mask_nbytes for each in _grammars.values())
        while len(_grammars) > REMEMBERED or (held > REMEMBERED_BYTES and len(_grammars) > 1):
            _, oldest = _grammars.popitem(last=False)
            held -= oldest.nbytes + oldest.mask_nbytes
    return grammar


def _compiled(constraint: Constraint, vocabulary: Vocabulary) -> Grammar:
    operation = Operation(
        "compile", {"structgen.constraint": type(constraint).__name__, "structgen.vocabulary_width": vocabulary.width}
    )
    try:
        grammar = constraint.compile(vocabulary)
    except BaseException as error:  # an interrupted compilation has ended, too
        operation.end({}, error)
        raise
    operation.end({"structgen.grammar_bytes": grammar.nbytes})
    return grammar


_Spans = WeakKeyDictionary[Grammar, tuple[Any, Spans]]
_spans: WeakKeyDictionary[Any, _Spans] = WeakKeyDictionary()
"""By model and grammar: the tokenizer and the spans in its tokens. Grammars outlive models; spans hold tokenizers."""


def spans_for(grammar: Grammar, model: Model) -> Spans:
    """The forced spans of the grammar in the model's own tokens, cached while both are there."""
    known = _spans.setdefault(model.module, WeakKeyDictionary())
    tokenizer, spans = known.get(grammar, (None, None))
    if spans is None or tokenizer is not model.tokenizer:
        spans = Spans(grammar.vocabulary, model.tokenizer)
        known[grammar] = model.tokenizer, spans
    return spans


def _value(given: Any) -> Hashable:
    """A key that is equal for equal constraints, or parts of them.

    Raises:
        TypeError, ValueError, RecursionError: there is none.
    """
    if isinstance(given, JsonSchema):
        order = given.order if isinstance(given.order, str) else tuple(given.order)
        content = None
        if isinstance(given.schema, dict):  # by content: the caller may change it
            content, given = json.dumps(given.schema), replace(given, schema=None)
        given = replace(given, order=order)
        return hash(given), content, given  # a registry of documents has no hash
    if isinstance(given, Composition):
        values = [getattr(given, field.name) for field in fields(given)]
        return type(given), *map(_value, values)
    if isinstance(given, tuple):
        return tuple(map(_value, given))
    return hash(given), given
