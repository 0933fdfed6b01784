"""The parser's states: sets of Earley items, interned.

An *item* is the symbols of a rule that are still to come, and a `Return`: what follows the rule. So an item needs no
number of its rule, and two rules with the same rest are one. A return is the set of items that wait for a rule, one for
each place from which it was called: a node of the graph-structured stack of a GLR parser.

- All calls of a rule between the same two lexemes have one return, as in Earley's parser (CACM 13(2), 1970).
- A call at the end of a rule passes the rule's own return on, as Leo does for right recursion (TCS 82, 1991).
- Returns are *relative*: `BELOW` is whatever follows the rule that was called last and alone. Its place is a frame of
  the automaton (see `part`), so `((1` and `1 + (1` are in the same set of items, above other frames.
- If a rule is called at its own end and begins with itself, as in `e: e "+" e`, its new return has the same future as
  the one before, which is shown by coinduction: assume that they are equal, and compare what they lead to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from structgen.errors import LimitExceeded
from structgen.memo import cached_method
from structgen.memory import BYTES_OF_KEY, BYTES_OF_NODE, spend
from structgen.parts.earley.symbols import UNKNOWN, GrammarRules, Symbols

MAX_READINGS = 128
"""The largest number of different returns in the items after a lexeme."""


class Return:
    """What follows a rule.

    Attributes:
        items: the items that wait for it; they may lead to this object again, if the rule is left-recursive. Among them
            is `((), BELOW)` if the end of the rule is that of the frame.
        group: the returns of the rules that are left-recursive together, by their labels; empty without recursion.
        relative: does it lead to `BELOW`?
    """

    __slots__ = ("group", "items", "relative")

    def __init__(self, items: frozenset[EarleyItem], *, relative: bool) -> None:
        self.items, self.relative = items, relative
        self.group: Mapping[Hashable, Return] = {}


class _Called(NamedTuple):
    """The return of a rule, as long as the places from which it is called are not all known."""

    label: Hashable


EarleyItem = tuple[Symbols, "Return | _Called"]
EarleyItems = frozenset[EarleyItem]
BELOW = Return(frozenset(), relative=True)
"""What follows the frame."""
LEAVES: EarleyItem = ((), BELOW)


class ItemSet:
    """A state of the parser. There is one object for each.

    Attributes:
        kernel: the items after the last lexeme.
        after: for each terminal that may come next, the items after it.
        leaves: may the rule be complete that has the frame?
        skips: the numbers of what may be skipped here, see `part`.
    """

    __slots__ = ("after", "kernel", "leaves", "skips")

    def __init__(
        self, kernel: EarleyItems, after: dict[int, EarleyItems], skips: frozenset[int], *, leaves: bool
    ) -> None:
        self.kernel, self.after, self.skips, self.leaves = kernel, after, skips, leaves


class ItemSets:
    """The sets of items of a grammar."""

    def __init__(self, rules: GrammarRules) -> None:
        self.rules = rules
        self._returns: dict[EarleyItems, Return] = {LEAVES_ONLY: BELOW}
        self._places: dict[Return, dict[Return, Return]] = {}  # by what is placed below
        self._least: dict[Return, int] = {BELOW: 0}
        self._groups: dict[frozenset[tuple[Hashable, EarleyItems]], dict[Hashable, Return]] = {}

    @cached_method
    def closed(self, kernel: EarleyItems, skips: frozenset[int]) -> ItemSet:
        """The set of some items."""
        rules, leaves = self.rules, False
        after: dict[int, set[EarleyItem]] = {}
        callers: dict[Hashable, set[EarleyItem]] = {}
        todo, seen = list(kernel), set(kernel)

        def add(item: EarleyItem) -> None:
            if item not in seen:
                seen.add(item)
                todo.append(item)

        while todo:
            symbols, back = todo.pop()
            if not symbols:
                leaves = leaves or back is BELOW
                for item in back.items if isinstance(back, Return) else ():
                    add(item)
                continue
            symbol, rest = symbols[0], (symbols[1:], back)
            if symbol >= 0:
                after.setdefault(symbol, set()).add(rest)
            elif symbol in callers:
                callers[symbol].add(rest)
            else:
                callers[symbol] = {rest}
                called = _Called(symbol)
                for option in rules.alternatives(symbol):
                    if option:
                        add((option, called))
            if rules.may_be_empty(symbol):
                add(rest)
        found: dict[int, EarleyItems] = {terminal: frozenset(items) for terminal, items in after.items()}
        if callers:
            known = self._interned(callers)
            found = {terminal: _named(items, known) for terminal, items in found.items()}
        spend(BYTES_OF_NODE + BYTES_OF_KEY * sum(map(len, found.values())))
        return ItemSet(kernel, found, skips, leaves=leaves)

    def opened(self, items: Iterable[EarleyItem]) -> EarleyItems:
        """Items with those that wait for the complete ones among them."""
        found, todo = set[EarleyItem](), list(items)
        while todo:
            item = todo.pop()
            if item in found:
                continue
            symbols, back = item
            assert isinstance(back, Return)
            if symbols or back is BELOW:
                found.add(item)
            else:
                todo += back.items
        if len({back for _, back in found}) > MAX_READINGS:
            raise LimitExceeded(
                f"a text can be read in more than {MAX_READINGS} ways at once: make the grammar less ambiguous"
            )
        return frozenset(found)

    def least(self, items: Iterable[EarleyItem]) -> int:
        """A lower bound of the lexemes that follow in the frame."""
        ways = (sum(map(self.rules.least, symbols)) + self.least_after(back) for symbols, back in items)  # type: ignore[arg-type]
        return min(ways, default=UNKNOWN)

    def least_after(self, back: Return) -> int:
        """A lower bound of the lexemes that follow a rule in the frame: the shortest way to `BELOW` (Dijkstra)."""
        known, seen, queue, pushed = self._least, set[Return](), [(0, 0, back)], 0
        while back not in known:
            size, _, each = heappop(queue) if queue else (UNKNOWN, 0, BELOW)
            if each is BELOW:
                known[back] = size
            elif each not in seen:
                seen.add(each)
                for symbols, other in each.items:
                    assert isinstance(other, Return)
                    reached = size + sum(map(self.rules.least, symbols)) + known.get(other, 0)
                    pushed += 1
                    heappush(queue, (reached, pushed, BELOW if other in known else other))
        return known[back]

    @cached_method
    def single(self, symbols: Symbols) -> Return:
        """The return to one item, at the end of which is that of the frame."""
        return self._kept(frozenset(((symbols, BELOW),)))

    def placed(self, items: EarleyItems, below: Return) -> EarleyItems:
        """The items with `below` in place of `BELOW`."""
        return frozenset((symbols, self._placed(back, below)) for symbols, back in items)  # type: ignore[arg-type]

    def _placed(self, back: Return, below: Return) -> Return:
        if not back.relative:
            return back
        known = self._places.setdefault(below, {BELOW: below})
        todo = [] if back in known else [back]
        while todo:
            each = todo[-1]
            left = () if each.group else [other for _, other in each.items if other.relative and other not in known]  # type: ignore[union-attr]
            todo += left  # type: ignore[arg-type]
            if not left:
                known[todo.pop()] = self._group_placed(each, below) if each.group else self._alone_placed(each, known)
        return known[back]

    def _alone_placed(self, back: Return, known: Mapping[Return, Return]) -> Return:
        """A return that is in no cycle, where those are placed to which it leads."""
        items = set[EarleyItem]()
        for symbols, other in back.items:
            placed = known[other] if other.relative else other  # type: ignore[union-attr,index]
            if symbols or placed is BELOW:
                items.add((symbols, placed))
            else:
                items |= placed.items  # type: ignore[union-attr]
        return self._kept(frozenset(items))

    def _group_placed(self, back: Return, below: Return) -> Return:
        labels: dict[Return, _Called] = {}
        callers: dict[Hashable, set[EarleyItem]] = {}
        todo = [back]

        def label(each: Return) -> Return | _Called:
            if each is BELOW or not each.relative:
                return below if each is BELOW else each
            if each not in labels:
                own = next((name for name, other in each.group.items() if other is each), None)
                labels[each] = _Called(each if own is None else (own, frozenset(each.group.values())))
                todo.append(each)
            return labels[each]

        wanted = label(back)
        todo.pop()
        while todo:
            each = todo.pop()
            callers[labels[each].label] = {(symbols, label(other)) for symbols, other in each.items}  # type: ignore[arg-type]
        assert isinstance(wanted, _Called)
        return self._interned(callers)[wanted]

    def _interned(self, callers: dict[Hashable, set[EarleyItem]]) -> dict[_Called, Return]:
        """The returns of rules that are called from these places."""
        flat = {label: _passed_on(label, callers) for label in callers}
        known: dict[_Called, Return] = {}
        edges = {
            label: {back.label for _, back in items if isinstance(back, _Called)} for label, (items, _) in flat.items()
        }
        for group in _components(edges):
            content = {label: _named(flat[label][0], known) for label in group}
            if len(group) > 1 or edges[group[0]] & {group[0]}:
                older = set[Return]().union(*(flat[label][1] for label in group))
                known |= self._recursive(content, older)
            else:
                known[_Called(group[0])] = self._kept(content[group[0]])
        return known

    def _kept(self, items: EarleyItems) -> Return:
        """The one return to these items."""
        found = self._returns.get(items)
        if found is None:
            spend(BYTES_OF_NODE + BYTES_OF_KEY * len(items))
            found = self._returns[items] = Return(items, relative=_is_relative(items))
        return found

    def _recursive(self, content: dict[Hashable, EarleyItems], older: set[Return]) -> dict[_Called, Return]:
        """The returns of rules that are left-recursive together, where `content` leads to these rules again."""
        plain = {label: label[0] if isinstance(label, tuple) else label for label in content}
        for each in older:
            same = {_Called(label): each.group[plain[label]] for label in content if plain[label] in each.group}
            if len(same) == len(content) and all(
                same[_Called(label)].items == _named(items, same) for label, items in content.items()
            ):
                return same
        if len(set(plain.values())) < len(content):  # of two groups
            plain = {label: label for label in content}
        own = {_Called(label): _Called(plain[label]) for label in content}
        key = frozenset((plain[label], _named(items, own)) for label, items in content.items())
        if key not in self._groups:
            relative = any(_is_relative(items) for items in content.values())
            made = {_Called(label): Return(frozenset(), relative=relative) for label in content}
            group = {plain[label]: made[_Called(label)] for label in content}
            for label, items in content.items():
                each = made[_Called(label)]
                each.items, each.group = _named(items, made), group
                self._returns.setdefault(each.items, each)
            self._groups[key] = group
        group = self._groups[key]
        return {_Called(label): group[plain[label]] for label in content}


LEAVES_ONLY: EarleyItems = frozenset((LEAVES,))


def _is_relative(items: EarleyItems) -> bool:
    return any(back.relative for _, back in items if isinstance(back, Return))


def _named(items: Iterable[EarleyItem], names: Mapping[_Called, Return | _Called]) -> EarleyItems:
    """The items with other names of the returns that are not known yet."""
    return frozenset((rest, names.get(back, back) if isinstance(back, _Called) else back) for rest, back in items)


def _passed_on(label: Hashable, callers: Mapping[Hashable, set[EarleyItem]]) -> tuple[set[EarleyItem], set[Return]]:
    """The items that wait for a rule. Where it ends another rule, these are that one's; also the known returns among
    those."""
    items, older, seen, todo = set[EarleyItem](), set[Return](), {label}, list(callers[label])
    while todo:
        item = todo.pop()
        symbols, back = item
        if symbols or back is BELOW:
            items.add(item)
        elif isinstance(back, Return):
            older.add(back)
            items |= back.items
        elif back.label not in seen:
            seen.add(back.label)
            todo += callers[back.label]
    return items, older


def _components(edges: Mapping[Hashable, set[Hashable]]) -> list[list[Hashable]]:
    """The strongly connected components of a graph, those that others lead to first (Tarjan 1972)."""
    number: dict[Hashable, int] = {}
    low: dict[Hashable, int] = {}
    stack: list[Hashable] = []
    done: list[list[Hashable]] = []
    for root in edges:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        path = [(root, iter(edges[root]))]
        while path:
            node, others = path[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    path.append((other, iter(edges[other])))
                    break
                if other in low:
                    low[node] = min(low[node], low[other])
            else:
                path.pop()
                if path and low[node] < low[path[-1][0]]:
                    low[path[-1][0]] = low[node]
                if low[node] == number[node]:
                    at = stack.index(node)
                    done.append(stack[at:])
                    for other in stack[at:]:
                        del low[other]
                    del stack[at:]
    return done
