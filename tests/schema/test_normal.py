"""A field that a reader of the normal form does not know makes the reader refuse: here is one that none knows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from structgen.chat.keyed.nested import PYTHON
from structgen.chat.keyed.nested_plans import NestedPlans
from structgen.chat.literals import Literals
from structgen.errors import UnsupportedSchema
from structgen.phrases.progress import _parts
from structgen.schema.algebra import Algebra
from structgen.schema.disjoint import Disjointness
from structgen.schema.normal import ANY, NEVER, Arrays, Node, Numbers, Objects, Property, Shape, Strings
from structgen.schema.scalars import numbers_and, numbers_not, strings_and, strings_not
from structgen.schema.whole_numbers import _converted
from structgen.values.emptiness import Emptiness
from structgen.values.finite import FewValues
from structgen.values.lockstep import Lockstep
from structgen.values.object_progress import UnorderedMembers
from structgen.values.objects import _takes_all
from structgen.values.owed_names import _Owed
from structgen.values.sets.numbers import number_language
from structgen.values.sets.strings import string_language


@dataclass(slots=True, eq=False)
class _Objects(Objects):
    new: int = 0


@dataclass(slots=True, eq=False)
class _Arrays(Arrays):
    new: int = 0


@dataclass(frozen=True, slots=True)
class _Strings(Strings):
    new: int = 0


@dataclass(frozen=True, slots=True)
class _Numbers(Numbers):
    new: int = 0


ONE = Node("", lambda: (Shape(null=True),))
INTEGER = Node("", lambda: (Shape(numbers=Numbers(True)),))
ALGEBRA, EMPTINESS = Algebra(), Emptiness(Algebra())
RAISE = {
    "objects and": lambda new: ALGEBRA.objects(Objects(min_properties=1), _Objects(rest=ANY, new=new)),
    "objects not": lambda new: ALGEBRA.objects_not(_Objects(rest=ANY, new=new)),
    "objects' members": lambda new: EMPTINESS.inhabited(_Objects(rest=ANY, new=new)),
    "empty objects": lambda new: EMPTINESS.objects(_Objects(rest=ANY, new=new)),
    "arrays and": lambda new: ALGEBRA.arrays(Arrays(min_items=1), _Arrays(rest=ANY, new=new)),
    "arrays not": lambda new: ALGEBRA.arrays_not(_Arrays(rest=ANY, new=new)),
    "arrays' items": lambda new: EMPTINESS.items.plan(_Arrays(rest=ANY, new=new)),
    "empty arrays": lambda new: EMPTINESS.arrays(_Arrays(rest=ANY, new=new)),
    "phrases in objects": lambda new: [*_parts(Node("", lambda: (Shape(objects=_Objects(new=new)),)), "*")],
    "phrases in arrays": lambda new: [*_parts(Node("", lambda: (Shape(arrays=_Arrays(new=new)),)), "*")],
    "strings and": lambda new: strings_and(Strings(1), _Strings(new=new)),
    "strings": lambda new: string_language(_Strings(new=new)),
    "numbers and": lambda new: numbers_and(Numbers(True), _Numbers(new=new)),
    "numbers": lambda new: number_language(_Numbers(new=new)),
}


@pytest.mark.parametrize("reader", RAISE)
def test_a_reader_of_all_fields_raises_where_it_does_not_know_one(reader):
    RAISE[reader](0)
    with pytest.raises(UnsupportedSchema, match="with new"):
        RAISE[reader](1)


def _apart(new: int) -> bool:
    needs_a = Objects((Property("a", ANY, required=True),), rest=ANY)
    other = _Objects(rest=NEVER, new=new)
    return Disjointness(ALGEBRA, lambda node: node.shapes).unions((Shape(objects=needs_a),), (Shape(objects=other),))


def _against_any(new: int) -> list[str]:
    """The names that stop an object that accepts now, and that another one must not accept."""
    watched = _Objects((Property("a", ONE, required=False),), rest=ANY, new=new)
    excluded = Node("", lambda: (Shape(objects=watched),))
    lanes = Lockstep((Node("", lambda: (Shape(objects=Objects(rest=ANY, without=(excluded,))),)),)).objects.lanes
    return _Owed(lanes, [UnorderedMembers(k, lane.part) for k, lane in enumerate(lanes)]).by_drivers()


def _is_int_in(shape: Shape, value: object) -> bool:
    return ".0" not in repr(_converted(value, [Node("", lambda: (shape,))]))


CAUTIOUS = {
    "ints in objects": lambda new: _is_int_in(Shape(objects=_Objects(rest=INTEGER, new=new)), {"a": 1.0}),
    "ints in arrays": lambda new: _is_int_in(Shape(arrays=_Arrays(rest=INTEGER, new=new)), [1.0]),
    "disjoint": _apart,
    "takes all": lambda new: _takes_all(UnorderedMembers(0, _Objects(rest=ANY, new=new))),
    "owed names": lambda new: bool(_against_any(new)),
    "few objects": lambda new: FewValues()(Node("", lambda: (Shape(objects=_Objects(new=new)),))) is not None,
    "few arrays": lambda new: FewValues()(Node("", lambda: (Shape(arrays=_Arrays(new=new)),))) is not None,
    "free strings": lambda new: _Strings(new=new).free,
}


@pytest.mark.parametrize("reader", CAUTIOUS)
def test_a_reader_that_looks_for_a_plain_case_does_not_find_it(reader):
    assert CAUTIOUS[reader](0)
    assert not CAUTIOUS[reader](1)


def test_complements_of_scalars_keep_the_field():
    assert strings_not(_Strings(new=1)) == [Strings(without=(_Strings(new=1),))]
    assert numbers_not(_Numbers(new=1)) == [Numbers(without=(_Numbers(new=1),))]


@pytest.mark.parametrize(
    "shape", [lambda new: Shape(objects=_Objects(new=new)), lambda new: Shape(arrays=_Arrays(new=new))]
)
def test_a_call_format_leaves_the_value_to_a_check(shape):
    told = list[str]()
    plans = NestedPlans(PYTHON, Literals(()), ")", told.append)
    type_ = "object" if shape(0).objects is not None else "array"
    assert plans.values([shape(0)], type_)
    assert told == []
    assert plans.values([shape(1)], type_)
    assert told
