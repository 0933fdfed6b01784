"""A cache of compiled grammars: the same schema in the next call starts with the masks that are known."""

from __future__ import annotations

import gc
import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from sys import getsizeof
from threading import Lock
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from structgen.automaton.tables import Tables
from structgen.constraints.basic import Constraint, JsonSchema
from structgen.constraints.compositions import Composition
from structgen.decoding.ahead.forced import Spans
from structgen.endings.closing import TokenSpeller
from structgen.endings.nesting import nested
from structgen.errors import OptionError, SchemaError
from structgen.masks import Grammar
from structgen.masks.slices import Slices
from structgen.memo import forget_schemas
from structgen.models.model import Model
from structgen.options import DEFAULT_DEPTH
from structgen.telemetry import Operation
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical.asked import Canonical

REMEMBERED = 128
"""The most grammars that are kept; the least recently used goes first."""
REMEMBERED_BYTES = 48 << 20
"""The most bytes of all grammars that are kept: their tables, masks and objects. One that has more is not kept."""
GROWN = 64
"""A grammar is measured again when it has this many states and masks more."""
DROPPED_BYTES = 32 << 20
"""Garbage is collected when grammars of so many bytes were dropped: they hold cycles, and the collector counts objects,
of which large tables are one."""
FAILED_BYTES = 4 << 20
"""What a compilation that came to a limit or was interrupted is taken to leave."""
_SHARED = (
    type,
    ModuleType,
    BuiltinFunctionType,
    Vocabulary,
    Canonical,
    TokenSpeller,
    Slices,
    Tables,
    memoryview,
)  # of tables


@dataclass(slots=True)
class _Kept:
    """A grammar in the cache, and the bytes of its tables and objects when it had this many states and masks."""

    key: Hashable
    grammar: Grammar
    size: int
    counted: int = -GROWN  # its objects are measured when it was used

    def held(self) -> int:
        """The bytes of its tables and objects, without its masks."""
        count = self.grammar.automaton.tables.n_states + self.grammar.n_places
        if count - self.counted >= GROWN:
            self.counted, self.size = count, _bytes_of([self.key, self.grammar]) + self.grammar.nbytes
        return self.size


_grammars: OrderedDict[Hashable, _Kept] = OrderedDict()  # by hand: grammars grow after they were added
_lock = Lock()
_dropped = 0


def grammar_for(constraint: Constraint, vocabulary: Vocabulary, max_depth: int = DEFAULT_DEPTH) -> Grammar:
    """The constraint compiled for the vocabulary, cached by value if it has a hashable one.

    Args:
        max_depth: the most containers inside each other, see `Limits`.
    """
    try:
        key = (_value(constraint), vocabulary.fingerprint, max_depth)
    except (TypeError, ValueError, RecursionError):
        return _compiled(constraint, vocabulary, max_depth)
    with _lock:
        if key in _grammars:
            _grammars.move_to_end(key)
            return _grammars[key].grammar
    grammar = _compiled(constraint, vocabulary, max_depth)
    with _lock:
        masks = {number: size for kept in _grammars.values() for number, size in kept.grammar.mask_sizes.items()}
        held = sum(masks.values()) + sum(kept.held() for kept in _grammars.values()) + grammar.nbytes
        _grammars[key], dropped = _Kept(key, grammar, grammar.nbytes), 0
        while _grammars and (len(_grammars) > REMEMBERED or held - dropped > REMEMBERED_BYTES):
            dropped += _grammars.popitem(last=False)[1].size
    _drop(dropped)
    return grammar


def _drop(size: int) -> None:
    """Forgets parts of schemas and collects garbage when enough was dropped."""
    global _dropped
    _dropped += size
    if _dropped > DROPPED_BYTES:
        _dropped = 0
        forget_schemas()
        gc.collect()


def _bytes_of(level: list[Any]) -> int:
    """The bytes of objects and of all that they refer to, without what other grammars share, up to about
    `REMEMBERED_BYTES`."""
    seen, size, shared = set(map(id, level)), 0, _Shared()
    while level and size < REMEMBERED_BYTES:
        size += sum(map(getsizeof, level))
        referents = (each.__closure__ if type(each) is FunctionType else each for each in gc.get_referents(*level))
        found = {id(each): each for each in referents if not shared[type(each)]}
        level = [each for number, each in found.items() if number not in seen]
        seen.update(found)
    return size


class _Shared(dict[type, bool]):
    """For each class: do grammars share its objects?"""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, _SHARED)
        return self[kind]


def _compiled(constraint: Constraint, vocabulary: Vocabulary, max_depth: int) -> Grammar:
    operation = Operation(
        "compile", {"structgen.constraint": type(constraint).__name__, "structgen.vocabulary_width": vocabulary.width}
    )
    try:
        grammar = constraint.compile(vocabulary)
    except BaseException as error:  # an interrupted compilation has ended, too
        operation.end({}, error)
        if not isinstance(error, (OptionError, SchemaError)):
            _drop(FAILED_BYTES)
        raise
    operation.end({"structgen.grammar_bytes": grammar.nbytes})
    bounded = grammar.nesting is not None or grammar.depths is not None
    return nested(grammar, max_depth) if bounded and max_depth != DEFAULT_DEPTH else grammar


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
        content = None
        if isinstance(given.schema, dict):  # by content: the caller may change it
            content, given = json.dumps(given.schema), replace(given, schema=None)
        if not isinstance(given.order, str):
            given = replace(given, order=tuple(given.order))
        return hash(given), content, given  # a registry of documents has no hash
    if isinstance(given, Composition):
        values = [getattr(given, field.name) for field in fields(given)]
        return type(given), *map(_value, values)
    if isinstance(given, tuple):
        return tuple(map(_value, given))
    return hash(given), given
