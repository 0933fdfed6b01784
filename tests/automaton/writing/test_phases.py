"""Phases of objects against the plain rule: which name leads where, whether another one may come, and the end."""

from __future__ import annotations

import random

import pytest

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import CALL, EAGER, TARGET, position
from structgen.automaton.writing.phases import MemberNames, Phases, write_calls

NAMES = ("a", "ab", "abc", "b", "ba", "é", "éa", "x")


def after(automaton: Automaton, state: int, text: bytes) -> int:
    """The state behind a text; 0 where it is refused."""
    walk, place = Bytewise(automaton), position(state)
    for byte in text:
        place = walk.step(place, byte, lambda check, taken: True)
        if not place:
            return 0
    return place & TARGET


def named_state(automaton: Automaton) -> int:
    """A state that takes one byte, for walks to arrive at."""
    return automaton.tables.ranges(automaton.tables.stub(), [(0x21, 0x21, automaton.pop())])


@pytest.mark.parametrize("seed", range(40))
def test_a_phase_takes_the_members_that_may_come_other_names_and_the_end(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(NAMES, draw.randint(0, len(NAMES)))
    bound = draw.choice([0, 0, 3])
    colon = b"" if bound else b": "
    automaton, count = Automaton(), len(names)
    automaton.pop()  # now, so that the states made below stand together
    spellings = [name.encode() + b'"' + colon for name in names]
    members = MemberNames(spellings, behind=len(colon), bound=bound)
    behind = [named_state(automaton) for _ in range(count + 1)]
    others = named_state(automaton)
    close = named_state(automaton)
    living = draw.getrandbits(count) if count else 0
    takes_others, may_end = draw.random() < 0.5, draw.random() < 0.5
    before, last = draw.choice([(b"", b"}"), (b"," if bound else b", ", b"}"), (b",\n ", b"\n}")][: 2 if bound else 3])
    state = automaton.tables.stub()
    phase = Phases(
        state, before, last, close if may_end else 0, living, first=behind[0], other=others if takes_others else 0
    )
    members.write(automaton, phase)
    for blanks in (b"", b" \n")[: 1 + bool(bound)]:
        lead = blanks + before + (blanks if before else b"")
        for i, spelling in enumerate(spellings):
            assert after(automaton, state, lead + b'"' + spelling) == (behind[i] if living >> i & 1 else 0)
        assert after(automaton, state, lead + b'"abz"') == (others if takes_others else 0)
        assert after(automaton, state, blanks + last) == (close if may_end else 0)
    assert not bound or not after(automaton, state, b" " * (bound + 1) + last)


@pytest.mark.parametrize("seed", range(40))
def test_phases_that_follow_each_other_are_written_at_once(seed: int) -> None:
    draw = random.Random(seed)
    names = draw.sample(NAMES, draw.randint(1, len(NAMES)))
    count, takes_others = len(names), draw.random() < 0.5
    living, required = draw.getrandbits(count), draw.getrandbits(count) & draw.getrandbits(count)
    living |= required
    came = draw.randint(0, count)
    phases = draw.randint(1, count + 1 - came)
    automaton = Automaton()
    automaton.pop()
    spellings = [name.encode() + b'": ' for name in names]
    members = MemberNames(spellings, behind=2, bound=0)
    behind = [named_state(automaton) for _ in range(count)]
    others = [named_state(automaton) for _ in range(phases)]
    close, state = named_state(automaton), automaton.tables.stub(phases)
    begun, comma = draw.random() < 0.5, draw.choice([1, 2])
    written = Phases(
        state, b", ", b"\n}", close, living, comma=-1 if begun else comma, required=required, came=came, number=phases,
        first=behind[0], other=others[0] if takes_others else 0,
    )  # fmt: skip
    members.write(automaton, written)
    for phase in range(came, came + phases):
        owed = next((i for i in range(phase, count) if required >> i & 1), None)
        here, fresh = state + phase - came, phase == came and not begun
        before = b", "[comma if fresh else 0 :] + b'"'
        for i, spelling in enumerate(spellings):
            may_come = living >> i & 1 and phase <= i and (owed is None or i <= owed)
            assert after(automaton, here, before + spelling) == (behind[i] if may_come else 0)
        assert after(automaton, here, b"}" if fresh else b"\n}") == (close if owed is None else 0)
        other = others[phase - came] if takes_others and owed is None else 0
        assert after(automaton, here, before + b'abz"') == other


@pytest.mark.parametrize(("bound", "colon"), [(0, b""), (0, b": "), (0, b":"), (2, b"")])
def test_behind_a_name_the_value_is_called(bound: int, colon: bytes) -> None:
    automaton = Automaton()
    automaton.pop()
    callees = [named_state(automaton) for _ in range(3)]
    ret = automaton.tables.stub(3)
    first = automaton.tables.stub(3)
    write_calls(automaton, first, callees, ret=ret, colon=colon, bound=bound)
    for i, callee in enumerate(callees):
        if not bound and not colon:
            assert automaton.tables.row(first + i)[3:6] == (CALL | EAGER, callee, ret + i)
            continue
        texts = [b" :  !", b":!"] if bound else [colon + b"!"]
        for text in texts:
            walk, place = Bytewise(automaton), position(first + i)
            for byte in text[:-1]:
                place = walk.step(place, byte, lambda check, taken: True)
            assert place
            assert walk.step(place, text[-1], lambda check, taken: True)
        assert not after(automaton, first + i, b"   :" if bound else b"!")
