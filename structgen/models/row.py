"""A row, the sequence that a model must have read and what of it it has read; and the base class of what reads rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from typing_extensions import Self

from structgen.errors import StructgenError
from structgen.models.prefixes import PrefixTree, common

NOTHING = nullcontext()
AHEAD = 8
"""The most tokens of a draft in a cache of a row's own: read after pending tokens, they cost hardly more than one."""


class Row:
    """One sequence of a batch. Prefill, step, fast-forward and rollback are the same: the pending ids are read.

    Args:
        ids: the prompt, or the start ids of a decoder; at least one.
        source: the prompt for the encoder of an encoder-decoder model.
        inputs: images, sounds or embeddings that are read with the prompt.

    Attributes:
        ids: all ids that the model must have read.
        valid: how many of them are in its cache; what the cache holds beyond them is void.
        given: how many of the first ids were not generated.
        cached: how many of these were not read for this row, but taken from what other rows have read before.
        encoded: the encoder's output, once there is one.
        shift: how much larger the positions of generated tokens are than their indexes, since images count differently.
        error: why the model refuses to read the row; its logits mean nothing then.
        is_cut: has it further ids, which are not read now, see `cut_to`?
    """

    __slots__ = ("cached", "encoded", "error", "given", "ids", "inputs", "is_cut", "shift", "source", "valid")

    def __init__(
        self, ids: Sequence[int], source: Sequence[int] | None = None, inputs: Mapping[str, Tensor] | None = None
    ) -> None:
        self.ids = list(ids)
        self.given = len(self.ids)
        self.source, self.inputs = source, inputs
        self.valid = self.shift = self.cached = 0
        self.encoded: Any = None
        self.error: StructgenError | None = None
        self.is_cut = False

    @property
    def pending(self) -> list[int]:
        """The ids that the model must still read; never empty when it is asked for logits."""
        return self.ids[self.valid :]

    @property
    def is_read(self) -> bool:
        """Is nothing pending?"""
        return self.valid == len(self.ids)

    def truncate(self, length: int) -> None:
        """Goes back to the first `length` ids."""
        del self.ids[length:]
        self.valid = min(self.valid, length)

    def follow(self, row: Row) -> int:
        """Becomes a copy of another row of the same prompt. Returns how many of its ids it had read already."""
        same = common(self.ids[: self.valid], row.ids[: row.valid])
        self.ids, self.valid = list(row.ids), row.valid
        self.given, self.shift, self.encoded, self.error = row.given, row.shift, row.encoded, row.error
        self.cached = row.cached
        return same

    @contextmanager
    def cut_to(self, length: int) -> Iterator[None]:
        """A block in which the row has only its first `length` ids, so that a forward reads no more."""
        behind, was_cut = self.ids[length:], self.is_cut
        del self.ids[length:]
        self.is_cut = True
        try:
            yield
        finally:
            self.ids += behind
            self.is_cut = was_cut

    def reread(self) -> None:
        """Makes the last id pending again; a whole prompt with inputs, if that is where the id is."""
        last = len(self.ids) - 1
        self.valid = 0 if self.inputs is not None and last < self.given else min(self.valid, last)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The next ids of some rows, which the device has chosen and the host does not know yet.

    Attributes:
        ids: int64[.] on the device; negative where a row turns out to have none.
        places: the index in `ids` of each row's.
    """

    ids: Tensor
    places: Mapping[Row, int]

    @contextmanager
    def pending(self) -> Iterator[None]:
        """A block in which each row has a placeholder for its id, while the model is told to read it.

        Afterwards each row counts as read up to the id that is still to be added. A row that continues otherwise is
        truncated, as in any rollback.
        """
        for row in self.places:
            row.ids.append(0)
        try:
            yield
        finally:
            for row in self.places:
                row.ids.pop()


class Forward(ABC):
    """Reads rows of tokens into a model's cache, each row from where it is.

    Attributes:
        count: forward passes so far, without those of an encoder.
        foresees: it can read ids that only the device knows.
        reads_parts: `read_part` reads a part of a prompt.
        replays: how many of the forward passes were replays of a CUDA graph.
        why_eager: why no later one will be a replay; empty where it may be.
        kind: how the model's cache is held, see `Stats.cache`.
        cost: what makes that slower than slots; empty for slots.
        why_slow: why it is not held in a faster way, see `Stats.why_slow`; empty where there is no reason.
        price: what each further token of a pass costs, as a share of a pass with one token; 0 is hardly anything.
        prefixes: what the model's rows have read before, in this run or another; None if nothing is remembered.
        noisy: a row's logits depend a little on what is read next to it, as in models that quantise what they compute.
    """

    count = 0
    noisy = False
    prefixes: PrefixTree | None = None
    price = 0.0
    foresees = False
    reads_parts = False
    replays = 0
    why_eager = ""
    kind = ""
    cost = ""
    why_slow = ""

    def __enter__(self) -> Self:
        """A block that reads. If it raises, nobody knows what the cache holds, and none of it is remembered."""
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.prefixes = None

    @abstractmethod
    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        """Reads what is pending of each row, at least one token. The logits after its last one: float[rows, width].

        Args:
            rows: those to be read, each once.
            foreseen: the last pending id of some of them, while `foreseen.pending()`.
        """

    def remembers(self, row: Row) -> int:
        """How many of a new row's first ids need not be read, because other rows have read them."""
        return 0 if self.prefixes is None or row.inputs is not None else self.prefixes.lookup(row.ids[:-1]).length

    def read_part(self, row: Row, most: int) -> int:
        """Reads this many of a row's pending ids, or all if there are fewer, without logits. What is remembered of a
        new row is not read again. Returns how many it has read."""
        raise AssertionError(f"{type(self).__name__} reads no parts")

    def portion(self, pending: Sequence[int]) -> int:
        """The most pending tokens that a row should read next to others with fewer, so that all rows together read the
        most tokens in their time.

        Args:
            pending: of each row, how many tokens after its prompt are pending.
        """
        return max(pending)

    def columns_for(self, rows: Sequence[Row]) -> int:
        """How many tokens of each row one forward pass reads at hardly more than the price of one token.

        0 where these rows are not read by one forward pass, or the forward takes no drafts at all.
        """
        return 0

    def read_drafted(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]]) -> Tensor:
        """Reads what is pending of each row and, after it, the tokens it will probably take, by one forward pass.

        Args:
            rows: they fit into `columns_for` with their drafts.
            drafts: one per row, may be empty.

        Returns:
            float[rows, 1 + longest draft, width]. The last of a row's columns are those after its last token and each
            token of its draft. The draft does not count as read.
        """
        raise AssertionError(f"{type(self).__name__} takes no drafts: its columns_for is 0")

    def fork(self, row: Row, twin: Row) -> None:
        """Another row, new or of the same prompt, is where this one does, whatever it has read before."""
        twin.follow(row)

    def release(self, row: Row) -> None:
        """The row is not read any more; what is kept for it can go."""
        row.encoded = None


def in_portions(
    forward: Forward, rows: Sequence[Row], foreseen: Collection[Row] = ()
) -> AbstractContextManager[object]:
    """A block in which rows with much forced text to read have no more of it than a forward should read at once.

    A pass more for the tokens of few rows would make all rows wait; one by one they cost little. New prompts, which may
    take a pass anyway, are read whole, and so is what is pending next to them.

    Args:
        foreseen: those of the rows that will have one more id pending, see `Foreseen`.
    """
    pending = [len(row.ids) - row.valid + (row in foreseen) for row in rows] if len(rows) > 1 else []
    if not pending or min(pending) == max(pending) or any(row.valid < row.given for row in rows):
        return NOTHING
    stack, most = ExitStack(), max(forward.portion(pending), min(pending))
    for row, count in zip(rows, pending, strict=True):
        if count > most:
            stack.enter_context(row.cut_to(row.valid + most))
    return stack


class Over(Forward):
    """What is left of a forward whose run is over, or never began: its counts and names."""

    def __init__(self, forward: Forward | None = None) -> None:
        if forward is not None:
            self.count, self.replays, self.why_eager = forward.count, forward.replays, forward.why_eager
            self.kind, self.why_slow = forward.kind, forward.why_slow

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        raise AssertionError("the run is over")
