"""Keywords that apply other schemas to the same value; one function each (see `facts.py`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from structgen.schema.algebra import Shapes, pack
from structgen.schema.keywords.facts import Facts
from structgen.schema.normal import ANY, NEVER, Objects, Property, Shape

# Other schemas in the same place.


def ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$ref").shapes)


def dynamic_ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$dynamicRef").shapes)


def recursive_ref(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.target(facts.place, "$recursiveRef").shapes)


def all_of(facts: Facts, value: Any) -> None:
    facts.factors.extend(node.shapes for node in facts.branches("allOf"))


def any_of(facts: Facts, value: Any) -> None:
    facts.factors.append(pack([shape for node in facts.branches("anyOf") for shape in node.shapes]))


def one_of(facts: Facts, value: Any) -> None:
    facts.exclusive = facts.branches("oneOf")


def not_(facts: Facts, value: Any) -> None:
    facts.factors.append(facts.reader.algebra.negation(facts.branch(value, "not")).shapes)


def if_(facts: Facts, value: Any) -> None:
    """(if and then) or (not if and else)."""
    schema, algebra = facts.schema, facts.reader.algebra
    if "then" in schema or "else" in schema:
        condition = facts.branch(value, "if")
        then, otherwise = (facts.branch(schema.get(name, True), name) for name in ("then", "else"))
        met = algebra.product([condition.shapes, then.shapes])
        unmet = algebra.product([algebra.negation(condition).shapes, otherwise.shapes])
        facts.factors.append(pack([*met, *unmet]))


# Members that depend on others.


def dependent_required(facts: Facts, value: Any) -> None:
    for name, needed in value.items():
        also = tuple(Property(other, ANY, True, False) for other in needed if other != name)
        if also:
            _depend(facts, name, (Shape(objects=Objects(also, ANY)),))


def dependent_schemas(facts: Facts, value: Any) -> None:
    for name, schema in value.items():
        if schema is not True:
            _depend(facts, name, facts.branch(schema, "dependentSchemas", name).shapes)


def dependencies(facts: Facts, value: Any) -> None:
    """Up to draft 7: schemas or arrays of names."""
    dependent_required(facts, {name: needed for name, needed in value.items() if isinstance(needed, list)})
    for name, schema in value.items():
        if not isinstance(schema, list):
            _depend(facts, name, facts.branch(schema, "dependencies", name).shapes)


def depending(name: str) -> tuple[Shapes, Shapes]:
    """The values without a member `name` (all but some objects), and the objects that have it."""
    without = Objects((Property(name, NEVER, required=False, declared=False),), ANY)
    present = Objects((Property(name, ANY, required=True, declared=False),), ANY)
    return (replace(ANY.shapes[0], objects=without),), (Shape(objects=present),)


def _depend(facts: Facts, name: str, then: Shapes) -> None:
    """The values without the member, and the objects that have it and are in `then`."""
    absent, present = depending(name)
    facts.factors.append(pack([*absent, *facts.reader.algebra.product([present, then])]))
