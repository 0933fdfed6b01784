"""Rows that are submitted, stepped, awaited in threads and cancelled in any order end once, and say the same alone."""

from __future__ import annotations

import threading
from functools import cache
from typing import Annotated, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from pydantic import AfterValidator, BaseModel

import structgen as sg
from structgen.decoding.call_options import CallOptions
from structgen.decoding.request import Request, prepare
from structgen.decoding.ticket import Ticket
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import RunError
from structgen.given_prompts import GivenPrompts
from tests.support.stepping import Stepping


def refuse(value: str) -> str:
    raise ValueError("no name will do")


def break_down(value: str) -> str:
    raise LookupError("a fault of the validator")


class Refused(BaseModel):
    name: Annotated[str, AfterValidator(refuse)]


class Broken(BaseModel):
    name: Annotated[str, AfterValidator(break_down)]


SCHEMAS: dict[str, Any] = {"person": Person, "free": None, "any": {"type": "object"}, "no": Refused, "fault": Broken}
KINDS = st.tuples(st.sampled_from([*SCHEMAS]), st.sampled_from([4, 16, 40]), st.sampled_from([0, 1]), st.integers(0, 3))
Asked = tuple[str, int, int, int]


@cache
def demo() -> sg.Model:
    return sg.Model.of(*load_demo())


def prepared(asked: Asked) -> Request[Any] | None:
    """A request; None where its budget has no room for any text."""
    schema, budget, temperature, seed = asked
    prompt = GivenPrompts.of(f"Extract the person: name, age, city.\nText: Ada Moreau, {30 + seed}, Lyon.\nJSON: ")
    limits = sg.Limits(budget, validations=2)
    options = CallOptions(sampling=sg.Sampling(temperature=temperature, seed=seed), limits=limits)
    try:
        return prepare(demo(), prompt, SCHEMAS[schema], options)
    except sg.OptionError:
        return None


def outcome(request: Request[Any]) -> tuple[Any, ...]:
    """How its row ended."""
    session = request.sessions[0]
    return tuple(session.tokens), session.finish, type(session.error)


@cache
def alone(asked: Asked) -> tuple[Any, ...]:
    request = prepared(asked)
    assert request is not None
    with Stepping(demo(), rows=1) as batch:
        batch.join(request.sessions[0]).wait()
    return outcome(request)


class Rows(RuleBasedStateMachine):
    tickets = Bundle("tickets")

    @initialize(rows=st.integers(1, 4))
    def begin(self, rows: int) -> None:
        self.batch = Stepping(demo(), rows=rows)
        self.asked: dict[Ticket, tuple[Asked, Request[Any]]] = {}
        self.ended: dict[Ticket, tuple[Any, ...]] = {}
        self.cancelled: set[Ticket] = set()

    @rule(target=tickets, asked=KINDS, record=st.booleans())
    def submit(self, asked: Asked, record: bool) -> Any:
        request = prepared(asked)
        if request is None:
            return multiple()
        ticket = self.batch.join(request.sessions[0], record=record)
        self.asked[ticket] = asked, request
        return ticket

    @rule(steps=st.integers(1, 9))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.batch.step()

    @rule(ticket=tickets)
    def cancel(self, ticket: Ticket) -> None:
        if ticket.left:
            self.cancelled.add(ticket)
        ticket.cancel()

    @rule(some=st.lists(tickets, min_size=1, max_size=3, unique=True), leave=st.booleans())
    def wait_in_threads(self, some: list[Ticket], leave: bool) -> None:
        threads = [threading.Thread(target=ticket.wait) for ticket in some]
        for thread in threads:
            thread.start()
        if leave:
            self.cancelled.add(some[-1])
            some[-1].cancel()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()
        assert not any(ticket.left for ticket in some)

    @invariant()
    def each_ends_once(self) -> None:
        for ticket, (_, request) in getattr(self, "asked", {}).items():
            assert ticket.left in (0, 1)
            if not ticket.left:
                assert self.ended.setdefault(ticket, outcome(request)) == outcome(request)

    def teardown(self) -> None:
        while self.batch.step():
            pass
        self.each_ends_once()
        assert self.ended.keys() == self.asked.keys()
        for ticket, (asked, _) in self.asked.items():
            given_up = ticket in self.cancelled and self.ended[ticket][2] is RunError
            assert given_up or self.ended[ticket] == alone(asked), asked
            ticket.cancel()
        engine = self.batch.engine
        left = engine.running, engine.waiting, engine._tickets, engine._measured, engine._batch, engine._owners
        assert left == (0, 0, [], [], None, {})


TestRows = Rows.TestCase
TestRows.settings = settings(
    max_examples=6, stateful_step_count=20, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck]
)
