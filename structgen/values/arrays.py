"""Arrays: one phase at a time is written, when a walk reaches it. What objects share with them stands here too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from structgen.values.lockstep import Choice
from structgen.values.frames import Frames
from structgen.values.array_progress import Items, uncovered
from structgen.automaton.checks import FreshItem
from structgen.automaton.literals import write_literals
from structgen.automaton.table_format import CALL, INC, ITEMS, MAX_COUNT, NEED, NOTHING, UNBOUNDED, ZERO, Edge


class Containers(Frames):
    """The frames of arrays."""

    def open_array(self, choice: Choice, depth: int) -> int:
        """The state after `[`; 0 when there is no array."""
        living = [(k, lane) for k, lane in enumerate(choice.arrays.lanes) if not self.is_empty.arrays(lane.part)]
        if not choice.arrays.driven([k for k, _ in living]):
            return 0
        items = tuple(self.is_empty.items.start(k, lane.part) for k, lane in living)
        return self.later(partial(self._expand_open_array, choice, items, depth))

    def _after_item(self, choice: Choice, items: tuple[Items, ...], depth: int) -> int:
        """The state after an item, the same for equal progress; 0 when nothing drives the array any more."""
        items = uncovered(items)
        if not choice.arrays.driven([p.lane for p in items]):
            return 0
        if self._is_counted(items):
            return self.shared((choice, items, depth), partial(self._expand_counted, choice, items[0], depth))
        return self.shared((choice, items, depth), partial(self._expand_after_item, choice, items, depth))

    def _is_counted(self, items: tuple[Items, ...]) -> bool:
        """May the items from here on be counted, since nothing but their number matters?"""
        if len(items) > 1 or self.layout.bound:  # the one counter is wanted for white space there
            return False
        (p,), plan = items, self.is_empty.items.plan(items[0].arrays)
        least, most = p.arrays.min_items, plan.most
        if not plan.simple or not len(p.arrays.prefix) <= p.at < plan.enough or max(least, most or 0) > MAX_COUNT:
            return False
        return most is None or p.at < most

    def _expand_counted(self, choice: Choice, p: Items, depth: int, state: int) -> None:
        """After an item that is followed by others like it: one state for all of them, with a counter."""
        least, most = max(p.arrays.min_items - p.at, 0), self.is_empty.items.plan(p.arrays).most
        high = UNBOUNDED if most is None else most - p.at
        self.tables.counts_items = True
        edges: list[Edge] = []
        for node, _ in self.is_empty.next_items(p):
            item = self.tables.call(*self.call([(node, True)], depth + 1, lambda _: state))
            comma, *rest = self.layout.separator(depth)
            before = self.tables.stub()
            write_literals(self, before, [(bytes([comma, *rest]), item)])
            ((_, _, behind),) = self.tables.edges_of(before)
            edges.append((comma, comma, behind | INC))
            self.tables.bound(behind, ITEMS, least, high)
            while behind != item:
                ((_, _, behind),) = self.tables.edges_of(behind)
                self.tables.bound(behind, ITEMS, least, high)
        close = self._close_array(choice, [p._replace(at=p.arrays.min_items)])
        if close:
            first, *rest = self.layout.last(depth) + b"]"
            if rest:
                literal, after = bytes(rest), close
                close = self.later(lambda new: write_literals(self, new, [(literal, after)]))
            edges.append((first, first, close | NEED | ZERO))
        self.tables.ranges(state, edges, mode=ITEMS, lo=least, hi=high)

    def _close_array(self, choice: Choice, items: Sequence[Items]) -> int:
        """The state after the closing bracket; 0 when it may not come yet."""
        return self.accept(choice, choice.arrays.accepted(p.lane for p in items if p.may_close))

    def _item(self, choice: Choice, items: tuple[Items, ...], depth: int) -> tuple[int, int] | None:
        """The next item as a call `(callee, ret)`; None when the array must close."""
        lanes = choice.arrays.lanes
        compared = any(self.is_empty.items.compares(p) for p in items)
        options = [(p.lane, node, after) for p in items for node, after in self.is_empty.next_items(p)]
        if not choice.arrays.driven([k for k, _, _ in options]):
            return None

        def resume(living: Sequence[int]) -> int:
            progress = tuple(options[k][2] for k in living)
            return (self._compared if compared else self._after_item)(choice, progress, depth)

        return self.call([(node, lanes[k].drives) for k, node, _ in options], depth + 1, resume)

    def _compared(self, choice: Choice, progress: tuple[Items, ...], depth: int) -> int:
        """The state after an item that may equal an earlier one."""
        # A lane that needs a repetition may have no way to its end without one here.
        fresh = self._after_item(choice, tuple(filter(self._can_close, progress)), depth)
        again = tuple(filter(self._can_close, self.is_empty.items.without_equals(progress)))
        return self.test(FreshItem(), fresh, self._after_item(choice, again, depth))

    def _can_close(self, progress: Items) -> bool:
        return self.is_empty.items.plan(progress.arrays).simple or self.is_empty.closes(progress)

    def _expand_open_array(self, choice: Choice, items: tuple[Items, ...], depth: int, state: int) -> None:
        item, close = self._item(choice, items, depth), self._close_array(choice, items)
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
        item, close = self._item(choice, items, depth), self._close_array(choice, items)
        literals = []
        if item:
            literals.append((self.layout.separator(depth), self.gap(self.tables.call(*item))))
        if close:
            literals.append((self.layout.last(depth) + b"]", close))
        self.write_behind_gap(state, literals)

    def write_behind_gap(self, state: int, literals: list[tuple[bytes, int]]) -> None:
        """Write a trie behind free white space, if the layout has any."""
        core = self.tables.stub() if self.layout.bound else state
        write_literals(self, core, literals)
        self.gap(core, state)
