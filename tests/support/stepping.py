"""An engine whose rows are all stepped together, and by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import structgen as sg
from structgen.decoding.engine import Engine
from structgen.decoding.loop import Decoded
from structgen.decoding.ticket import Ticket


class Stepping:
    """An engine of its own for a model."""

    def __init__(self, model: sg.Model, **options: Any) -> None:
        self._model = model
        self.engine = Engine(model.module, model.vocabulary, **options)
        self.tickets: list[Ticket] = []

    def join(self, row: Decoded, *, record: bool = False) -> Ticket:
        self.tickets.append(self.engine.submit([row], record=record, at_once=self.engine.rows))
        return self.tickets[-1]

    def step(self) -> bool:
        """Takes a step of all rows. False if all are over."""
        going = [ticket for ticket in self.tickets if ticket.left]
        if going:
            self.engine.step(going)
        return any(ticket.left for ticket in going)

    @property
    def batch(self) -> Any:
        """What is decoded together now."""
        return self.engine._batch or SimpleNamespace(sessions=[], searches=[])

    def __enter__(self) -> Stepping:
        return self

    def __exit__(self, *raised: object) -> None:
        for ticket in self.tickets:
            ticket.cancel()
