"""Reads rows into the sequences of a `Host`."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from structgen.errors import OptionError
from structgen.models.hosts.host import Host, NewTokens
from structgen.models.prefixes import common
from structgen.models.row import AHEAD, Foreseen, Forward, Row


class HostForward(Forward):
    """Reads rows by a host, each in its own place.

    Rows beyond the host's places take turns: a row whose place was taken is read from its beginning.
    """

    def __init__(self, host: Host) -> None:
        self.kind, self.why_eager = host.kind, f"{host.kind} runs the model"
        self._host = host
        self._places: dict[Row, int] = {}  # the row that was read longest ago comes first
        self._held: dict[Row, int] = {}  # how many of its tokens its place holds; missing while the host works
        self._taken: list[int] = []
        weakref.finalize(self, _abandon, host, self._taken)

    @property
    def price(self) -> float:  # type: ignore[override]
        return self._host.price

    def read(self, rows: Sequence[Row], foreseen: Foreseen | None = None) -> Tensor:
        assert foreseen is None
        return torch.from_numpy(np.concatenate(self._append(dict.fromkeys(rows, ()))))

    @property
    def reads_parts(self) -> bool:  # type: ignore[override]
        """See `Forward`. Not where all places are taken: rows take turns, and one must not wait in its place."""
        return bool(self._host.free)

    def remembers(self, row: Row) -> int:
        """See `Forward`. It is what the place holds that the row would take."""
        return max((common(held, row.ids[:-1]) for held in self._host.free.values()), default=0)

    def read_part(self, row: Row, most: int) -> int:
        """See `Forward`."""
        with self._host.lock:
            self._place(row, keep=(row,))
            if len(row.ids) - row.valid <= most:
                return 0
            with row.cut_to(row.valid + most):
                self._append_at_once({row: ()})
        return most

    def columns_for(self, rows: Sequence[Row]) -> int:
        """See `Forward`. 0 before the rows begin, where they take turns, and where the host takes no drafts."""
        if (
            not self._host.drafts
            or len(rows) > self._host.places
            or not all(row in self._held and row.valid for row in rows)
        ):
            return 0
        return max(len(row.ids) - row.valid for row in rows) + AHEAD

    def read_drafted(self, rows: Sequence[Row], drafts: Sequence[Sequence[int]]) -> Tensor:
        each = self._append(dict(zip(rows, drafts, strict=True)))
        whole = np.zeros((len(rows), max(map(len, each)), each[0].shape[1]), np.float32)
        for line, logits in zip(whole, each, strict=True):
            line[len(line) - len(logits) :] = logits
        return torch.from_numpy(whole)

    def fork(self, row: Row, twin: Row) -> None:
        twin.follow(row)
        self._held.pop(twin, None)
        with self._host.lock:
            if row not in self._held or (twin not in self._places and not self._host.free):
                return  # the twin is read from its beginning
            place = self._place(twin, keep=(row,))
            self._host.rewind(place, 0)
            twin.valid = row.valid
            self._held[twin] = self._held[row] if self._host.copy(self._places[row], place) else 0

    def release(self, row: Row) -> None:
        held, place = self._held.pop(row, 0), self._places.pop(row, None)
        if place is not None:
            self._taken.remove(place)
            self._host.leave(place, row.ids[: min(row.valid, held)])

    def _append(self, drafts: Mapping[Row, Sequence[int]]) -> list[NDArray[np.float32]]:
        """Reads rows with their drafts, as many at once as there are places."""
        rows, logits = list(drafts), []
        with self._host.lock:
            while rows:
                now, rows = rows[: self._host.places], rows[self._host.places :]
                logits += self._append_at_once({row: drafts[row] for row in now})
        return logits

    def _append_at_once(self, drafts: Mapping[Row, Sequence[int]]) -> list[NDArray[np.float32]]:
        new: dict[int, NewTokens] = {}
        for row, draft in drafts.items():
            place = self._place(row, keep=drafts)
            held, wanted = self._held.pop(row, None), row.valid
            if held is None or held > wanted:  # it holds too much, or a failed call left it unknown
                held = self._host.rewind(place, 0 if held is None else wanted)
            new[place] = NewTokens([*row.ids[held:], *draft], 1 + len(draft))
        self.count += 1
        logits = self._host.append(new)
        for row, draft in drafts.items():
            row.valid = len(row.ids)
            self._held[row] = len(row.ids) + len(draft)
        return logits

    def _place(self, row: Row, keep: Sequence[Row] | Mapping[Row, object]) -> int:
        """The row's place, else a free one, else that of the row that was read longest ago."""
        place = self._places.pop(row, None)
        if place is None and self._host.free:
            place, self._held[row] = self._host.take(row.ids)
            if row.valid == 0:
                row.cached = min(self._held[row], row.given)
            row.valid = max(row.valid, self._held[row])
            self._taken.append(place)
        if place is None:
            other = next((other for other in self._places if other not in keep), None)
            if other is None:
                count = self._host.places
                raise OptionError(f"other runs use all {count} sequences of the model: load it with more")
            place = self._places.pop(other)
            self._held.pop(other, None)
        self._places[row] = place
        return place


def _abandon(host: Host, taken: Sequence[int]) -> None:
    """Gives the places of a run back that was not ended. What they hold is not known."""
    for place in taken:
        host.leave(place)
