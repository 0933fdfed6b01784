"""The prefixes that a model has read, remembered over all its requests: a prompt that begins with one need not read it.

A radix tree over token ids. Each node has an edge of ids, and for each id its keys and values in all layers. In models
with recurrent states a node may also have a snapshot of the states after its last id. A row copies what it takes, and
copies into the tree what it has read, so no row holds a node, and whatever was used least recently can be evicted.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

LEAST = 16
"""Fewer tokens than this are read again: to look them up, copy and keep them would save less."""

MOST_BYTES = 1 << 30
"""The default bound where the weights are larger than this; for smaller ones it is their size."""

ID_BYTES = 8
"""What an id counts for in the bound."""

Pieces = list[Tensor]
"""Keys and values of some tokens, of one layer after the other: [heads, tokens, dim] each."""


class Remembered(NamedTuple):
    """What is remembered of a prompt.

    Attributes:
        length: of its first ids, how many have pieces here; 0 if fewer than `LEAST` have.
        pieces: theirs, in parts that follow each other.
        state: the state after them, if one was asked for.
        known: how many of its first ids were read before, with or without a state after them.
    """

    length: int = 0
    pieces: Sequence[Pieces] = ()
    state: Any = None
    known: int = 0


def common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The length of the common beginning."""
    for index, (mine, its) in enumerate(zip(one, other, strict=False)):
        if mine != its:
            return index
    return min(len(one), len(other))


class _Node:
    """Some ids that were read after those of the parent, with their pieces."""

    __slots__ = ("children", "ids", "parent", "pieces", "state", "state_bytes")

    def __init__(self, ids: list[int], pieces: Pieces, parent: _Node | None = None) -> None:
        self.ids, self.pieces, self.parent = ids, pieces, parent
        self.children: dict[int, _Node] = {}  # by the first id of each
        self.state: Any = None
        self.state_bytes = 0

    @property
    def nbytes(self) -> int:
        return ID_BYTES * len(self.ids) + sum(piece.nbytes for piece in self.pieces) + self.state_bytes

    def path(self) -> Iterator[_Node]:
        """This node and those above it, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class PrefixTree:
    """What one model, with its present weights, has read. Safe for threads.

    Args:
        bound: in bytes.
        weights: a key of the weights that have read all this.

    Attributes:
        nbytes: of all that is remembered: keys, values, states and ids.
        tokens: how many are remembered.
    """

    def __init__(self, bound: int, weights: Hashable = None) -> None:
        self._bound, self.weights = bound, weights
        self._lock = threading.RLock()
        self.clear()

    def __repr__(self) -> str:
        return f"PrefixTree({self.tokens:,} tokens, {self.nbytes:,} of {self.bound:,} bytes)"

    @property
    def bound(self) -> int:
        """The most bytes that are kept; 0 for none."""
        return self._bound

    @bound.setter
    def bound(self, bound: int) -> None:
        with self._lock:
            self._bound = bound
            self._make_room(0)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._root = _Node([], [])
            self._used: OrderedDict[_Node, None] = OrderedDict()  # least recently first, and nodes before their parents
            self.nbytes = self.tokens = 0

    def lookup(self, ids: Sequence[int], *, stated: bool = False) -> Remembered:
        """The longest remembered beginning of a prompt.

        Args:
            stated: it must have a state after it.
        """
        with self._lock:
            node, known = self._descend(ids)
            length = self._stated(node, known) if stated else known
            if length < LEAST:
                return Remembered(known=known)
            self._touch(node)
            depth, parts, state = 0, [], None
            for each in list(node.path())[::-1]:
                if depth < length:
                    parts.append([piece[:, : length - depth] for piece in each.pieces])
                    depth, state = depth + len(each.ids), each.state
            return Remembered(length, parts, state if stated else None, known)

    def insert(
        self, ids: Sequence[int], pieces: Callable[[slice], Pieces], token_bytes: int, state: Any = None, size: int = 0
    ) -> None:
        """Remembers that ids were read, as many of the first ones as fit into the bound.

        Args:
            ids: that were read, each in its position.
            pieces: makes copies of the pieces of some of these ids.
            token_bytes: of the pieces of one id.
            state: the state after all of them, which nobody changes any more.
            size: of the state, in bytes.
        """
        with self._lock:
            if state is None:
                ids = ids[: self._bound // (token_bytes + ID_BYTES)]
            node, known = self._descend(ids)
            self._touch(node)
            new = len(ids) - (known if state is None else self._stated(node, known))
            if new < LEAST:
                return
            path = list(node.path())
            needed = (len(ids) - known) * (token_bytes + ID_BYTES) + size
            if sum(each.nbytes for each in path) + needed > self._bound:
                return
            self._make_room(needed)
            depth = sum(len(each.ids) for each in path)
            if depth > known:
                node = self._split(node, len(node.ids) - depth + known)
            if known < len(ids):
                node = self._add(_Node(list(ids[known:]), pieces(slice(known, len(ids))), node))
            if state is not None and node.state is None:
                node.state, node.state_bytes = state, size
                self.nbytes += size
            self._touch(node)

    def _descend(self, ids: Sequence[int]) -> tuple[_Node, int]:
        """The last node that ids lead into, and how many of them lead there; the root and 0 if none does."""
        node, length = self._root, 0
        while length < len(ids) and (child := node.children.get(ids[length])) is not None:
            edge, rest = child.ids, list(ids[length : length + len(child.ids)])
            node, same = child, len(edge) if rest == edge else common(rest, edge)
            length += same
            if same < len(edge):
                break
        return node, length

    def _stated(self, node: _Node, known: int) -> int:
        """The length of the longest path to a node with a state, or to one above it, of at most `known` ids."""
        depth = sum(len(each.ids) for each in node.path())
        for each in node.path():
            if each.state is not None and depth <= known:
                return depth
            depth -= len(each.ids)
        return 0

    def _touch(self, node: _Node) -> None:
        """A node and those above it were used just now."""
        for each in node.path():
            self._used.move_to_end(each)

    def _make_room(self, size: int) -> None:
        """Evicts what was used least recently until this many bytes fit. It always has no children, as parents are used
        after them; and it is none of a path that was just used, if that fits into the bound with these bytes."""
        while self._used and self.nbytes + size > self._bound:
            oldest, _ = self._used.popitem(last=False)
            assert oldest.parent is not None
            del oldest.parent.children[oldest.ids[0]]
            self.nbytes -= oldest.nbytes
            self.tokens -= len(oldest.ids)

    def _add(self, node: _Node) -> _Node:
        """Hangs a node below its parent. It is the one used last, until its parents are touched."""
        assert node.parent is not None
        node.parent.children[node.ids[0]] = node
        self._used[node] = None
        self.nbytes += node.nbytes
        self.tokens += len(node.ids)
        return node

    def _split(self, node: _Node, length: int) -> _Node:
        """Cuts an edge: the first ids become a node above. Pieces are copied, as a view would hold all of the edge."""
        parent = node.parent
        assert parent is not None
        head = _Node(node.ids[:length], [piece[:, :length].clone() for piece in node.pieces], parent)
        self.nbytes -= node.nbytes
        self.tokens -= len(node.ids)
        node.ids, node.pieces = node.ids[length:], [piece[:, length:].clone() for piece in node.pieces]
        node.parent = self._add(head)
        del self._used[node]
        self._add(node)
        self._touch(node)
        return head


_trees: weakref.WeakKeyDictionary[PreTrainedModel, PrefixTree] = weakref.WeakKeyDictionary()
_made = threading.Lock()


def prefixes_of(module: PreTrainedModel) -> PrefixTree:
    """What a model has read. A new tree, with the same bound, if its weights or adapters have changed since."""
    weights = weights_key(module)
    with _made:
        tree = _trees.get(module)
        if tree is None or tree.weights != weights:
            size = sum(parameter.nbytes for parameter in module.parameters())
            tree = _trees[module] = PrefixTree(min(size, MOST_BYTES) if tree is None else tree.bound, weights)
        return tree


def weights_key(module: PreTrainedModel) -> Hashable:
    """A key that is equal as long as a model computes the same: the same weights, adapters and attention."""
    attention = getattr(module.config.get_text_config(decoder=True), "_attn_implementation", None)
    parts: list[Any] = [part for part in module.modules() if hasattr(part, "merged_adapters")]  # peft's layers
    adapters = tuple(
        (*part.active_adapters, *part.merged_adapters, part.disable_adapters, str(getattr(part, "scaling", "")))
        for part in parts
    )
    each = tuple((p.data_ptr(), p.dtype, 0 if p.is_inference() else p._version) for p in module.parameters())
    return attention, adapters, each


def has_hooks(module: PreTrainedModel) -> bool:
    """Has a part of the model hooks? They may watch each token being read, or change what is computed."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())
