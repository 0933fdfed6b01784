"""Arrays and objects: one phase at a time is written, when a walk reaches it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache, partial

from structgen.automaton.frames import Choice, Frames, union
from structgen.automaton.literals import write_literals
from structgen.automaton.members import Items, Members, UnorderedMembers
from structgen.automaton.strings import NAME, free_string
from structgen.automaton.tables import CALL, DEAD, EAGER, NOTHING, Edge
from structgen.schema.normal import Arrays, Node, Objects

Next = list[tuple[Node, Members]]


@lru_cache(65536)
def quoted(text: str) -> bytes:
    """The one spelling of a name or literal inside quotes that is allowed, UTF-8."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


class Containers(Frames):
    """The frames of arrays and objects."""

    def open_array(self, choice: Choice, arrays: Sequence[tuple[int, Arrays]], depth: int) -> int:
        """The state after `[`."""
        items = tuple(Items(group, a, 0) for group, a in arrays)
        return self.later(partial(self._expand_open_array, choice, items, depth))

    def _after_item(self, choice: Choice, items: tuple[Items, ...], depth: int) -> int:
        """The state after an item, the same for equal progress."""
        return self.shared((choice, items, depth), partial(self._expand_after_item, choice, items, depth))

    def _close(self, choice: Choice, progress: Sequence[Items | Members]) -> int:
        """The state after the closing bracket; 0 when it may not come yet."""
        accepted = union(p.group for p in progress if p.may_close)
        return self.accept(choice, accepted) if accepted else 0

    def _item(self, choice: Choice, items: tuple[Items, ...], depth: int) -> tuple[int, int] | None:
        """The next item as a call `(callee, ret)`; None when the array must close."""
        wanted = [(p, node) for p in items if (node := p.next_item(self.is_empty)) is not None]
        if not wanted:
            return None
        after = [p.advanced() for p, _ in wanted]
        return self.call(
            [node for _, node in wanted],
            depth + 1,
            lambda living: self._after_item(choice, tuple(after[k] for k in living), depth),
        )

    def _expand_open_array(self, choice: Choice, items: tuple[Items, ...], depth: int, state: int) -> None:
        item, close = self._item(choice, items, depth), self._close(choice, items)
        first = self.layout.first(depth)
        if first:
            literals = [(first, self.tables.call(*item))] if item else []
            write_literals(self, state, [*literals, (b"]", close)] if close else literals)
            return
        core = self.tables.stub() if self.layout.bound else state
        edges: list[Edge] = [(0x5D, 0x5D, close)] if close else []
        self.tables.ranges(core, edges, miss=(CALL, *item) if item else (NOTHING, 0, 0))
        self.gap(core, state)

    def _expand_after_item(self, choice: Choice, items: tuple[Items, ...], depth: int, state: int) -> None:
        item, close = self._item(choice, items, depth), self._close(choice, items)
        literals = []
        if item:
            literals.append((self.layout.separator(depth), self.gap(self.tables.call(*item))))
        if close:
            literals.append((self.layout.last(depth) + b"]", close))
        self._write(state, literals)

    def _write(self, state: int, literals: list[tuple[bytes, int]]) -> None:
        """Write a trie behind free white space, if the layout has any."""
        core = self.tables.stub() if self.layout.bound else state
        write_literals(self, core, literals)
        self.gap(core, state)

    def open_object(self, choice: Choice, objects: Sequence[tuple[int, Objects]], depth: int) -> int:
        """The state after `{`."""
        kind = UnorderedMembers if self.any_order else Members
        members = tuple(kind(group, o) for group, o in objects)
        return self.later(partial(self._expand_object, choice, members, depth, self.layout.first(depth), b"}"))

    def _after_member(self, choice: Choice, members: tuple[Members, ...], depth: int) -> int:
        """The state after a member, the same for equal progress."""
        separator, last = self.layout.separator(depth), self.layout.last(depth) + b"}"
        return self.shared(
            (choice, members, depth), partial(self._expand_object, choice, members, depth, separator, last)
        )

    def _expand_object(
        self, choice: Choice, members: tuple[Members, ...], depth: int, before: bytes, last: bytes, state: int
    ) -> None:
        """Before a name or the closing brace: `before` stands before the name's quote, `last` ends the object."""
        named, others = self._names(members)
        close = self._close(choice, members)
        literals = [(last, close)] if close else []
        spaced = bool(self.layout.bound and before)
        if others:
            inside = self._any_name(choice, named, others, depth)
            literals.append(self._opening(before, b'"', inside, spaced=spaced))
        else:
            names = [(name, nexts) for name, nexts in named.items() if nexts]
            stub = self._member_stubs(choice, [nexts for _, nexts in names], depth)
            if spaced and names:
                quoted_names = self.later(partial(self._write_names, names, stub, b'"'))
                literals.append((before, self.gap(quoted_names)))
            else:
                literals += [(before + b'"' + self._name(name), stub + i) for i, (name, _) in enumerate(names)]
        self._write(state, literals)

    def _opening(self, before: bytes, quote: bytes, names: int, *, spaced: bool) -> tuple[bytes, int]:
        if not spaced:
            return before + quote, names
        core = self.tables.ranges(self.tables.stub(), [(quote[0], quote[0], names)])
        return before, self.gap(core)

    def _write_names(self, names: list[tuple[str, Next]], stub: int, before: bytes, state: int) -> None:
        write_literals(self, state, [(before + self._name(name), stub + i) for i, (name, _) in enumerate(names)])

    def _name(self, name: str) -> bytes:
        """A name from behind its opening quote up to its value."""
        return quoted(name) + (b'"' if self.layout.bound else b'"' + self.layout.colon)

    def _names(self, members: tuple[Members, ...]) -> tuple[dict[str, Next], Next]:
        """What may come next by name (nothing: the name is refused), and under any other name."""
        others = [(member, member.other(self.is_empty)) for member in members]
        declared = [{p.name for p in member.objects.properties} for member in members]
        named: dict[str, Next] = {}
        if len(members) > 1 or others[0][1] is not None:
            named = {name: [] for names in declared for name in names}
        for (member, other), names in zip(others, declared, strict=True):
            for name, node, after in member.declared(self.is_empty):
                named.setdefault(name, []).append((node, after))
            if other is not None and len(members) > 1:
                for name in named.keys() - names:
                    named[name].append(other)
        return named, [other for _, other in others if other is not None]

    def _member_stubs(self, choice: Choice, nexts: list[Next], depth: int) -> int:
        """The first of the states behind each name, in which its value is called (written when met)."""
        first = 0

        def expand(state: int) -> None:
            self._expand_member(choice, nexts[state - first], depth, state)

        if nexts:
            first = self.later_block(len(nexts), expand)
        return first

    def _expand_member(self, choice: Choice, nexts: Next, depth: int, state: int) -> None:
        """After a name and its colon (or, where white space is free, before the colon): call the value."""
        callee, ret = self.call(
            [node for node, _ in nexts],
            depth + 1,
            lambda living: self._after_member(choice, tuple(nexts[k][1] for k in living), depth),
        )
        if not self.layout.bound:
            self.tables.ranges(state, (), miss=(CALL | EAGER, callee, ret))
            return
        value = self.gap(self.tables.call(callee, ret))
        colon = self.tables.ranges(self.tables.stub(), [(0x3A, 0x3A, value)])
        self.gap(colon, state)

    def _any_name(self, choice: Choice, named: dict[str, Next], others: Next, depth: int) -> int:
        """The state after the quote of a name that need not be declared."""
        free = self.shared((choice, tuple(others), depth), partial(self._expand_other, choice, others, depth))
        inside = self._other_names[free] if free in self._other_names else self._free_name(free)
        if not named:
            return inside
        allowed = [(name, nexts) for name, nexts in named.items() if nexts]
        stub = self._member_stubs(choice, [nexts for _, nexts in allowed], depth)
        literals = [(self._name(name), stub + i) for i, (name, _) in enumerate(allowed)]
        literals += [(quoted(name) + b'"', DEAD) for name, nexts in named.items() if not nexts]
        return self.later(lambda state: write_literals(self, state, literals, inner=inside, other=inside))

    def _free_name(self, close: int) -> int:
        """The free name that is closed into state `close`."""
        inside = self._other_names[close] = free_string(self, NAME, close)
        return inside

    def _expand_other(self, choice: Choice, others: Next, depth: int, state: int) -> None:
        """After the closing quote of an undeclared name."""
        if self.layout.bound:
            self._expand_member(choice, others, depth, state)
        else:
            write_literals(self, state, [(self.layout.colon, self._member_stubs(choice, [others], depth))])
