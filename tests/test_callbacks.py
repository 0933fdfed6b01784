"""Code of the caller's that fails: its own row has an error that names it, and no other row is changed by that."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.decoding.choosing.choice import Ask, DeviceChooser, HostChooser
from structgen.decoding.choosing.sampling import NOTHING
from structgen.testing import byte_vocabulary, scripted

SAYS = ["abcdefgh", "hgfedcba", "ddddaaaa"]
LETTERS = sg.Regex("[a-h]{8}")


class Failing(sg.Guard[bytes]):
    """Raises in one of its answers, once five bytes were read."""

    def __init__(self, method: str) -> None:
        self.method = method

    def start(self):
        return b""

    def feed(self, state, text):
        self.fail("feed", state)
        return state + text

    def finish(self, state):
        self.fail("finish", state)

    def begun(self, state):
        self.fail("begun", state)
        return 0

    def fail(self, method, state):
        if method == self.method and len(state) >= 5:
            raise KeyError("no such key")


class FailingMachine:
    """Letters, of which it cannot count more than five."""

    start = 0

    def step(self, state, byte):
        if state == 5:
            raise ZeroDivisionError("five")
        return state + 1 if 97 <= byte <= 104 else None

    def accepts(self, state):
        return state == 8


def failing_processor(ids, scores):
    if ids.shape[1] > 5:
        raise IndexError("too many")
    return scores


def runs(schema=LETTERS, **options):
    """Three rows; what is given as a list is each row's own."""
    return sg.generate(scripted(SAYS), ["x", "y", "z"], schema, details=True, **options)


def assert_only_the_second_failed(rows, message: str, cause: type[Exception]):
    assert [row.text for row in (rows[0], rows[2])] == [SAYS[0], SAYS[2]]
    assert [row.error for row in (rows[0], rows[2])] == [None, None]
    assert rows[1].finish == "error"
    assert isinstance(rows[1].error, sg.CallbackError)
    assert message in str(rows[1].error)
    assert isinstance(rows[1].error.__cause__, cause)


@pytest.mark.parametrize("method", ["feed", "finish"])
def test_a_guard_that_raises_fails_its_row_alone(method):
    rows = runs(guards=[[], [Failing(method)], []])
    assert_only_the_second_failed(rows, "the guard Failing raised KeyError: 'no such key'", KeyError)


@pytest.mark.parametrize("size", [1, 2])
def test_a_machine_that_raises_fails_its_row_alone_however_many_are_decoded_at_once(size):
    rows = runs([LETTERS, sg.Machine(FailingMachine()), LETTERS], batch_size=size)
    assert_only_the_second_failed(rows, "the machine FailingMachine raised ZeroDivisionError: five", ZeroDivisionError)


def test_a_machine_that_raises_on_a_thread_of_many_grammars_fails_its_rows_alone():
    """Masks of so many grammars are found on several threads: what is raised there is left to its row, too."""
    kinds = [sg.Machine(FailingMachine()) if row % 8 == 3 else sg.Regex(f"[a-h]{{8}}|{row}") for row in range(32)]
    rows = sg.generate(scripted(SAYS), ["x"] * 32, kinds, details=True)
    assert [isinstance(row.error, sg.CallbackError) for row in rows] == [row % 8 == 3 for row in range(32)]


def test_a_processor_that_raises_fails_its_row_alone():
    ways = [sg.Sampling(), sg.Sampling(processors=[failing_processor]), sg.Sampling()]
    rows = runs(sampling=ways)
    assert_only_the_second_failed(rows, "the logits processor failing_processor raised IndexError", IndexError)
    assert rows[1].text == SAYS[1][:5]


def test_host_and_device_tell_the_same_of_a_processor_that_raises():
    logits = torch.randn(3, 257, generator=torch.Generator().manual_seed(1))
    ways = [sg.Sampling(), sg.Sampling(processors=[failing_processor]), sg.Sampling()]
    asks = [Ask(np.full(9, 0xFFFFFFFF, np.uint32), way, prompt=(1, 2, 3), tokens=(4, 5, 6)) for way in ways]
    for chooser in (HostChooser(byte_vocabulary()), DeviceChooser(byte_vocabulary(), torch.device("cpu"))):
        drawn = chooser.draw(logits, asks)
        assert drawn.tokens() == [int(logits[0].argmax()), NOTHING, int(logits[2].argmax())]
        assert list(drawn.errors) == [1]


@pytest.mark.parametrize("method", ["feed", "finish", "begun"])
def test_a_stream_goes_on_with_the_other_rows(method):
    """Events of rows without a failing guard are all there; the failing one's last event has its error."""
    texts, results = dict.fromkeys(range(3), ""), {}
    for event in sg.stream(scripted(SAYS), ["x", "y", "z"], LETTERS, guards=[[], [Failing(method)], []]):
        texts[event.row] = texts[event.row][: event.start] + event.text
        if event.result is not None:
            results[event.row] = event.result
    assert [texts[0], texts[2]] == [SAYS[0], SAYS[2]]
    assert [type(results[row].error) for row in range(3)] == [type(None), sg.CallbackError, type(None)]


def test_the_failure_of_a_single_prompt_is_raised_with_its_cause():
    with pytest.raises(sg.CallbackError, match="the guard Failing raised KeyError") as raised:
        sg.generate(scripted("abcdefgh"), "x", LETTERS, guards=[Failing("feed")])
    assert isinstance(raised.value.__cause__, KeyError)


@pytest.mark.parametrize("thinking", [False, True])
def test_a_guard_that_raises_where_the_model_thinks_or_beams_search_is_told_too(thinking):
    options = {"thinking": True} if thinking else {"beams": 2}
    with pytest.raises(sg.CallbackError, match="the guard Failing raised KeyError"):
        sg.generate(scripted("abcdefgh</think>\n\nabcdefgh"), "x", LETTERS, guards=[Failing("feed")], **options)


def test_a_guard_that_gives_no_veto_against_an_end_is_told():
    class Yes(sg.Guard[int]):
        def start(self):
            return 0

        def feed(self, state, text):
            return state

        def finish(self, state):
            return "no end here"

    rows = runs(guards=[[], [Yes()], []])
    assert rows[1].error is not None
    assert "the guard Yes gave 'no end here'" in str(rows[1].error)
    assert [rows[0].error, rows[2].error] == [None, None]


def test_what_stops_a_program_is_no_row_s_error():
    def stop(ids, scores):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs(sampling=sg.Sampling(processors=[stop]))
