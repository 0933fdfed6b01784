"""Arrays: the writer of their frames, one state at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from structgen.automaton.checks import FreshItem
from structgen.automaton.table_format import CALL, INC, ITEMS, MAX_COUNT, NEED, NOTHING, UNBOUNDED, ZERO, Edge
from structgen.automaton.writing.literals import write_literals
from structgen.values.array_progress import Items, uncovered
from structgen.values.context import Context
from structgen.values.lockstep import Lockstep


class ArrayWriter:
    """Writes the frames of arrays."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._automaton, self._tables, self._layout = context.automaton, context.tables, context.layout
        self._is_empty = context.is_empty
        self._steps = context.is_empty.items

    def open(self, choice: Lockstep, depth: int) -> int:
        """The state after `[`; 0 when there is no array."""
        living = [(k, lane) for k, lane in enumerate(choice.arrays.lanes) if not self._is_empty.arrays(lane.part)]
        if not choice.arrays.driven([k for k, _ in living]):
            return 0
        items = tuple(self._steps.start(k, lane.part) for k, lane in living)
        return self._context.later(partial(self._expand_open, choice, items, depth), choice.nodes[0])

    def _after_item(self, choice: Lockstep, items: tuple[Items, ...], depth: int) -> int:
        """The state after an item, shared by equal progress; 0 when no driver is left."""
        items = uncovered(items)
        if not choice.arrays.driven([progress.lane for progress in items]):
            return 0
        key = (choice, items, depth)
        if self._is_counted(items):
            return self._context.shared(key, partial(self._expand_counted, choice, items[0], depth))
        return self._context.shared(key, partial(self._expand_after_item, choice, items, depth))

    def _is_counted(self, items: tuple[Items, ...]) -> bool:
        """Does only the number of the following items matter? Then one state with a counter serves for all of them."""
        if len(items) > 1 or self._layout.bound:  # free white space needs the counter, and there is only one
            return False
        (progress,), plan = items, self._steps.plan(items[0].arrays)
        minimum, longest, index = progress.arrays.min_items, plan.maximum, progress.next_index
        if not plan.simple or not len(progress.arrays.prefix) <= index < plan.enough:
            return False
        return max(minimum, longest or 0) <= MAX_COUNT and (longest is None or index < longest)

    def _expand_counted(self, choice: Lockstep, progress: Items, depth: int, state: int) -> None:
        """Write the one state that stands for all positions after an item; its counter holds the number of items."""
        longest, tables = self._steps.plan(progress.arrays).maximum, self._tables
        low = max(progress.arrays.min_items - progress.next_index, 0)
        high = UNBOUNDED if longest is None else longest - progress.next_index
        tables.counts_items = True
        edges: list[Edge] = []
        for node, _ in self._is_empty.next_items(progress):
            item = tables.call(*self._context.call([(node, True)], depth + 1, lambda _: state))
            comma, *rest = self._layout.separator(depth)
            before = tables.stub()
            write_literals(self._automaton, before, [(bytes([comma, *rest]), item)])
            ((_, _, behind),) = tables.edges_of(before)
            edges.append((comma, comma, behind | INC))
            tables.bound(behind, ITEMS, low, high)
            while behind != item:
                ((_, _, behind),) = tables.edges_of(behind)
                tables.bound(behind, ITEMS, low, high)
        close = self._close(choice, [progress._replace(next_index=progress.arrays.min_items)])
        if close:
            first, *rest = self._layout.last(depth) + b"]"
            if rest:
                literal, after = bytes(rest), close
                close = self._automaton.later(lambda new: write_literals(self._automaton, new, [(literal, after)]))
            edges.append((first, first, close | NEED | ZERO))
        tables.ranges(state, edges, mode=ITEMS, lo=low, hi=high)

    def _close(self, choice: Lockstep, items: Sequence[Items]) -> int:
        """The state after the closing bracket; 0 when it may not come yet."""
        closing = [progress.lane for progress in items if progress.may_close]
        return self._context.accept(choice, choice.arrays.accepted(closing))

    def _item(self, choice: Lockstep, items: tuple[Items, ...], depth: int) -> tuple[int, int] | None:
        """The next item as a call `(callee, ret)`; None when the array must close."""
        lanes = choice.arrays.lanes
        compared = any(self._steps.compares(progress) for progress in items)
        options = [
            (progress.lane, node, after) for progress in items for node, after in self._is_empty.next_items(progress)
        ]
        if not choice.arrays.driven([k for k, _, _ in options]):
            return None

        def resume(living: Sequence[int]) -> int:
            after = tuple(options[k][2] for k in living)
            return (self._compared if compared else self._after_item)(choice, after, depth)

        return self._context.call([(node, lanes[k].drives) for k, node, _ in options], depth + 1, resume)

    def _compared(self, choice: Lockstep, items: tuple[Items, ...], depth: int) -> int:
        """The state after an item that may equal an earlier one."""
        # A lane that needs a repetition may be unable to close if this item is new.
        fresh = self._after_item(choice, tuple(filter(self._can_close, items)), depth)
        repeated = tuple(filter(self._can_close, self._steps.without_equals(items)))
        return self._automaton.test(FreshItem(), fresh, self._after_item(choice, repeated, depth))

    def _can_close(self, progress: Items) -> bool:
        return self._steps.plan(progress.arrays).simple or self._is_empty.closes(progress)

    def _expand_open(self, choice: Lockstep, items: tuple[Items, ...], depth: int, state: int) -> None:
        item, close = self._item(choice, items, depth), self._close(choice, items)
        first, tables = self._layout.first(depth), self._tables
        if first:
            literals = [(first, tables.call(*item))] if item else []
            write_literals(self._automaton, state, [*literals, (b"]", close)] if close else literals)
            return
        inside = tables.stub() if self._layout.bound else state
        edges: list[Edge] = [(0x5D, 0x5D, close)] if close else []
        tables.ranges(inside, edges, miss=(CALL, *item) if item else (NOTHING, 0, 0))
        self._context.gap(inside, state)

    def _expand_after_item(self, choice: Lockstep, items: tuple[Items, ...], depth: int, state: int) -> None:
        item, close = self._item(choice, items, depth), self._close(choice, items)
        literals = []
        if item:
            literals.append((self._layout.separator(depth), self._context.gap(self._tables.call(*item))))
        if close:
            literals.append((self._layout.last(depth) + b"]", close))
        self._context.write_behind_gap(state, literals)
