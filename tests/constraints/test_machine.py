"""Byte machines of the user's own.

Covers `parts.machines`.
"""

from __future__ import annotations

import pytest

from structgen.constraints.languages import Machine
from structgen.errors import OptionError
from structgen.testing import check_machine
from tests.support.matching import byte_vocabulary, plain_verdict, takes_exactly
from tests.support.tables import cases


class Balanced:
    """Round and square brackets that match, at most eight deep; the state is the open ones."""

    start = ""

    def step(self, state, byte):
        char = chr(byte)
        if char in "([":
            return state + char if len(state) < 8 else None
        return state[:-1] if state and (state[-1] + char) in ("()", "[]") else None

    def accepts(self, state):
        return state == ""


class Threes:
    """Numbers that three divides."""

    start = (0, False)

    def step(self, state, byte):
        return ((state[0] * 10 + byte - 48) % 3, True) if 48 <= byte <= 57 else None

    def accepts(self, state):
        return state == (0, True)


CASES = cases("constraints/machine", "CASES", globals())


@pytest.mark.parametrize(("constraint", "good", "bad"), CASES, ids=lambda case: str(case)[:40])
def test_the_texts_that_a_machine_accepts(constraint, good, bad):
    takes_exactly(constraint, good, bad)


def test_states_are_asked_once():
    class Counting(Threes):
        asked = 0

        def step(self, state, byte):
            self.asked += 1
            return super().step(state, byte)

    machine = Counting()
    grammar = Machine(machine).compile(byte_vocabulary())
    assert plain_verdict(grammar, b"123456789" * 9)
    assert machine.asked == 256 * 3  # three of the four states are met


class Unhashable(Threes):
    def step(self, state, byte):
        return list(super().step(state, byte) or ()) or None


class Forgetful(Threes):
    def __init__(self):
        self.calls = 0

    def step(self, state, byte):
        self.calls += 1
        return (self.calls % 3, True)


def test_what_is_no_machine_is_refused_by_name():
    with pytest.raises(OptionError, match="expected an object with start"):
        Machine("abc")
    with pytest.raises(OptionError, match="expected an object with start"):
        Machine(Threes)
    with pytest.raises(OptionError, match=r"state \[0, True\]: .*states must be hashable"):
        plain_verdict(Machine(Unhashable()).compile(byte_vocabulary()), b"12")


def test_a_machine_is_checked_by_texts():
    check_machine(Threes(), ["123", b"9", "a"])
    check_machine(Balanced(), ["([])", "))"])
    with pytest.raises(AssertionError, match=r"byte 1, state \[1, True\]: unhashable"):
        check_machine(Unhashable(), ["12"])
    with pytest.raises(AssertionError, match="equal states have different futures"):
        check_machine(Forgetful(), ["12"])
