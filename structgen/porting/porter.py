"""Ports the schemas of one value together: their references and unions.

Providers have no `allOf`. A union is distributed over the schemas next to it: in a closed object, a branch must declare
all members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from math import prod
from typing import Any

from structgen.errors import LimitExceeded, UnsupportedSchema
from structgen.patience import check_patience
from structgen.porting.losses import Losses
from structgen.porting.parts import Conjunct
from structgen.porting.plain import PlainPorter, any_of
from structgen.porting.providers import Provider
from structgen.schema.left_out import LeftOut
from structgen.schema.reader import SchemaNode, SchemaReader
from structgen.values.judge import Judge

Schema = dict[str, Any]
MOST_BRANCHES = 64
"""Unions that would have more branches when they are distributed are lost."""
_UNIONS = ("anyOf", "oneOf")
_LISTS = ("enum", "const")
_NEVER: Schema = {"enum": []}
_CYCLE = "the schema refers to itself, which the provider does not take: values nest no deeper"


class Porter:
    """Makes the schema of one provider.

    Attributes:
        losses: what it lost.
        defs: the schemas that references lead to, by name.
        plain: ports schemas without references and unions.
    """

    def __init__(self, provider: Provider, reader: SchemaReader | None) -> None:
        self._provider, self._reader = provider, reader
        self.losses = Losses()
        self.defs: dict[str, Schema] = {}
        self.plain = PlainPorter(provider, self.losses, self._port, self._restricting, self._takes)
        self._names: dict[int, str] = {}
        self._open: list[int] = []
        self._begun: dict[Any, str | None] = {}
        self._made: dict[Any, Schema | None] = {}
        self._judges: dict[int, Judge] = {}

    def whole(self, document: Any) -> Schema | None:
        """The schema of the whole document, which is no reference; None if no value satisfies it."""
        part = Conjunct(document, "")
        while self._is_reference(part):
            part = Conjunct(*self._target(part))
        if not isinstance(part.schema, dict) or not part.schema:
            return self._port([part], "")
        made = self._defined(part.schema, part.at)
        return None if made is None else self.defs[made]

    def _restricting(self, schema: Schema) -> frozenset[str]:
        """The keywords of the schema's draft that restrict values."""
        return self._read().dialect(schema).restricting

    def _takes(self, part: Conjunct, value: Any) -> bool:
        """Is it a value of a part, apart from what the part's `enum` and `const` list?"""
        if not isinstance(part.schema, dict) or not part.schema:
            return part.schema is not False
        node = self._read().node(part.schema, None)
        try:
            if value is None:
                return any(shape.null for shape in node.shapes)
            if id(part.schema) not in self._judges:
                lists = [(node, name) for name in _LISTS] if isinstance(node, SchemaNode) else []
                self._judges[id(part.schema)] = Judge(LeftOut(self._read(), lists).twin(node))
            return self._judges[id(part.schema)].holds(value)
        except (LimitExceeded, UnsupportedSchema):
            self.losses.note(part.at, "enum", "wider", "the keywords next to it could not be evaluated")
            return True

    def _read(self) -> SchemaReader:
        assert self._reader is not None  # only a schema without keywords has none
        return self._reader

    def _port(self, parts: Sequence[Conjunct], at: str) -> Schema | None:
        """The schema of a value that satisfies all parts; None if no value does."""
        parts = [part for part in parts if part.schema is not True and part.schema != {}]
        part, description = self._only(parts[0]) if len(parts) == 1 else (None, None)
        if part is not None and self._is_reference(part):
            made = self._reference(part)  # alone: next to it, providers take nothing
            return made if made is None or description is None else {"description": description, "anyOf": [made]}
        return self._conjoined([each for part in parts for each in self._parts(part)], at)

    def _only(self, part: Conjunct) -> tuple[Conjunct, str | None]:
        """A part without an `allOf` around it alone, and its first description."""
        description = None
        while isinstance(part.schema, dict) and part.schema:
            said = part.get("description")
            description = said if description is None and isinstance(said, str) else description
            branches = part.get("allOf", ())
            if len(branches) != 1 or (self._restricting(part.schema) & part.schema.keys()) - part.without != {"allOf"}:
                break
            part = part.inner(branches[0], "allOf", 0)
        return part, description

    def _is_reference(self, part: Conjunct) -> bool:
        if not isinstance(part.schema, dict) or part.get("$ref") is None:
            return False
        return self._read().has_lone_reference(part.schema)

    def _parts(self, part: Conjunct) -> list[Conjunct]:
        """A part, and what it applies to the same value by `allOf` and `$ref`."""
        if not isinstance(part.schema, dict):
            return [] if part.schema else [part]
        if not part.schema:
            return []
        alone = self._is_reference(part)
        parts = [] if alone else [part.but("allOf", "$ref")]
        if part.get("$ref") is not None:
            parts += self._parts(Conjunct(*self._target(part)))
        if not alone:
            branches = enumerate(part.get("allOf", ()))
            parts += [each for i, branch in branches for each in self._parts(part.inner(branch, "allOf", i))]
        return parts

    def _target(self, part: Conjunct) -> tuple[Any, str]:
        """What a reference leads to, with its pointer; false where the provider takes no circle."""
        target, pointer = self._read().target_of(part.schema)
        if id(target) in self._open and not self._provider.recursive:
            self.losses.note(part.at, "$ref", "narrower", _CYCLE)
            return False, pointer
        return target, pointer

    @contextmanager
    def _opened(self, schema: Any) -> Iterator[None]:
        self._open.append(id(schema))
        yield
        self._open.pop()

    def _reference(self, part: Conjunct) -> Schema | None:
        """A reference to a schema that is written once, in `$defs`."""
        target, pointer = self._target(part)
        if not isinstance(target, dict) or not target:
            return self._port([Conjunct(target, pointer)], part.at)
        name = self._defined(target, pointer)
        return None if name is None else {"$ref": f"#/$defs/{name}"}

    def _defined(self, target: Schema, pointer: str) -> str | None:
        """The name of a schema in `defs`; None if no value satisfies it."""
        name = self._names.get(id(target))
        if name is None:
            self._names[id(target)] = name = self._new_name(pointer)
            with self._opened(target):
                self._define(name, self._port([Conjunct(target, pointer)], pointer))
        return None if self.defs[name] is _NEVER else name

    def _new_name(self, pointer: str) -> str:
        base = re.sub(r"[^a-zA-Z0-9_-]", "_", pointer.rpartition("/")[2]) or "root"
        name = next(each for each in chain([base], (f"{base}_{n}" for n in count(2))) if each not in self.defs)
        self.defs[name] = {}
        return name

    def _define(self, name: str, made: Schema | None) -> None:
        self.defs[name] = _NEVER if made is None else made

    def _conjoined(self, parts: list[Conjunct], at: str) -> Schema | None:
        """The schema of parts without references. One that contains itself becomes a definition."""
        if any(part.schema is False for part in parts):
            return None
        check_patience()
        key = frozenset((id(part.schema), part.without) for part in parts)
        if key in self._begun and len(key) > 1:
            if not self._provider.recursive:
                self.losses.note(at, "$ref", "narrower", _CYCLE)
                return None
            name = self._begun[key] = self._begun[key] or self._new_name(at)
            return {"$ref": f"#/$defs/{name}"}
        if key in self._made:
            return self._made[key]
        self._begun[key] = None
        made = self._distributed(parts, at)
        own_name = self._begun.pop(key, None)
        if made is not None and "$ref" not in made:
            made = {**_about(parts), **made}
        if own_name is not None:
            self._define(own_name, made)
            made = None if made is None else {"$ref": f"#/$defs/{own_name}"}
        if self._provider.recursive and key:  # else what is cut depends on the way, and so does the place of a loss
            self._made[key] = made
        return made

    def _distributed(self, parts: list[Conjunct], at: str) -> Schema | None:
        """The schema of parts, with their unions outermost."""
        unions = [(n, name) for n, part in enumerate(parts) for name in _UNIONS if part.get(name)]
        sizes = [len(parts[n].get(name)) for n, name in unions]
        for n, name in unions:
            part = parts[n]
            rest = [each.but(name) if each is part else each for each in parts]
            others = [each for each in rest if self._restricting(each.schema) & each.schema.keys() - each.without]
            if name == "oneOf" and not self._read().are_disjoint(part.get(name)):
                self.losses.note(part.at, name, "wider", "a value may satisfy several branches")
            if others and prod(sizes) > MOST_BRANCHES:
                self.losses.note(part.at, name, "wider", f"with its siblings it has more than {MOST_BRANCHES} branches")
                sizes.pop(0)
                parts = rest
                continue
            branches = enumerate(part.get(name))
            return any_of([self._port([*others, part.inner(each, name, i)], at) for i, each in branches])
        return self.plain.schema(parts, at)


def _about(parts: list[Conjunct]) -> Schema:
    """The first title and description of the parts."""
    texts = [(key, part.get(key)) for key in ("title", "description") for part in reversed(parts)]
    return {key: text for key, text in texts if isinstance(text, str)}
