"""Loops end at their cap, whatever their length; texts and lists that repeat themselves for a reason do not."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import torch
from pydantic import BaseModel
from torch import Tensor

import structgen as sg
from structgen.decoding.refusals.caps import CapReader
from structgen.decoding.refusals.repetition import LONGEST, LoopBounds, allowed, room
from structgen.models.model import Model
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary
from tests.support.calling_models import scripted_chat
from tests.support.matching import rich_vocabulary
from tests.support.tables import cases

MOST = sg.Limits().max_repeated or 0
USUAL = LoopBounds.within(MOST, 8192)
FOX = "The quick brown fox jumps over the lazy dog. "
BYTES, LONGER = byte_vocabulary(), rich_vocabulary()


def excess(text: bytes, bounds: LoopBounds, *, items: bool) -> int:
    """The slow twin: by how many bytes the longest loop at the end of a text is too long, of all periods."""
    found = [-1]
    for period in range(1, min(LONGEST, len(text) // 2) + 1):
        length = period
        while length < len(text) and text[-length - 1] == text[-length - 1 + period]:
            length += 1
        found.append(length - allowed(text[-period:], bounds, items=items) if length >= 2 * period else -1)
    return max(found)


@pytest.mark.parametrize("seed", range(12))
def test_a_search_finds_each_loop_when_it_is_too_long_and_says_how_far_the_next_is(seed: int) -> None:
    draw = random.Random(seed)
    bounds = LoopBounds.within(draw.choice([1, 3, 5, 8, 20, 64, 256]), draw.choice([40, 500, 8192]))
    items, letters = draw.random() < 0.3, b'ab ,"0'[: draw.randint(1, 6)]
    unit = bytes(draw.choice(letters) for _ in range(draw.choice([1, 1, 2, 3, 5, 9, 30])))
    text = bytes(draw.choice(b'ab ,"0') for _ in range(draw.randint(0, 40))) + unit * draw.randint(0, 24) + unit[:2]
    due = 0
    for length in range(1, len(text) + 1):
        begun = text[:length]
        left = room(begun, bounds, items=items)
        assert (left < 0) == (excess(begun, bounds, items=items) > 0), (begun, bounds, items)
        assert left >= 0 or length >= due, "an earlier search has promised more room"
        due = max(due, length + left + 1)


@pytest.mark.parametrize("period", [1, 2, 31, 32, 33, 63, 64, 65, 128, 129, 500, LONGEST])
def test_the_last_byte_of_a_loop_that_is_too_long_is_known(period: int) -> None:
    draw = random.Random(period)
    unit = bytes(draw.choice(b"abcdefgh") for _ in range(period))
    may_have = allowed(unit, USUAL)
    loop = b"before it " + unit * (may_have // period + 2)
    assert room(loop[: 10 + may_have], USUAL) == 0
    assert room(loop[: 11 + may_have], USUAL) < 0


@sg.tool
def save(text: str) -> None:
    """Saves a text."""


class Report(BaseModel):
    text: str
    rows: list[Any]
    note: str


class Stuck(ScriptedModel):
    """Says a piece of a text again and again in one member, until it is made to end, and then the other members."""

    def __init__(self, field: str, piece: str, vocabulary: Any) -> None:
        super().__init__("", vocabulary)
        wanted = {"text": "", "rows": "]", "note": 'all is well"}'} | {field: piece * (1 + 2000 // len(piece))}
        begun = {"text": '{"text": "', "rows": ', "rows": [', "note": ', "note": "'}
        self._members = [(begun[name].encode(), wanted[name].encode()) for name in begun]

    def _scores(self, row: int, said: tuple[int, ...]) -> Tensor:
        text = self.vocabulary.decode(said)
        lead, wanted = next(((a, b) for a, b in reversed(self._members) if a in text), self._members[0])
        begun = text[text.index(lead) :] if lead in text else text
        rest = (lead + wanted)[len(begun) :] or b'"'
        scores = torch.zeros(self.vocabulary.width)
        for length in range(1, min(len(rest), self._longest) + 1):
            if rest[:length] in self._by_bytes:
                scores[self._by_bytes[rest[:length]]] = 20.0 + length
        return scores


@pytest.mark.parametrize(
    ("vocabulary", "field", "piece"), cases("decoding/refusals/repetition", "a_stuck_model_leaves", globals())
)
def test_a_stuck_model_leaves_room_for_the_members_behind(vocabulary: Any, field: str, piece: str) -> None:
    """Within the default budget, even where each token is a byte."""
    model = Model(Stuck(field, piece, vocabulary), ByteTokenizer(), vocabulary)
    run = sg.generate(model, "x", Report, details=True)
    assert run.value.note == "all is well", run.text
    assert {(cap.name, cap.pointer, cap.limit) for cap in run.caps} == {("max_repeated", f"/{field}", MOST)}
    assert run.finish == "capped"


@pytest.mark.parametrize("piece", ["-=", "0, ", "| 0 | 0 |\\n"])
def test_a_loop_that_is_not_prose_takes_a_part_of_a_small_budget(piece: str) -> None:
    model = Model(Stuck("text", piece, BYTES), ByteTokenizer(), BYTES)
    run = sg.generate(model, "x", Report, details=True, limits=sg.Limits(1200))
    assert run.value.note == "all is well", run.text
    assert 0.2 < len(run.value.text.encode()) / 1200 < 0.65


def test_a_long_piece_is_found_where_the_budget_lets_it_repeat() -> None:
    paragraph = "".join(f"Clause {n} says what clause {n + 1} denies. " for n in range(1, 11))
    assert capped(paragraph * 8) is None
    assert capped(paragraph * 8 + "Clause") == "max_repeated"


TABLE = "| name | " + " | ".join(f"m{n}" for n in range(12)) + " |\n" + "|---" * 13 + "|\n"
TEXTS = cases("decoding/refusals/repetition", "TEXTS", globals())
LISTS: dict[str, list[Any]] = cases("decoding/refusals/repetition", "LISTS", globals())


def capped(value: Any, indent: int | None = None, size: int = 4) -> str | None:
    """The cap that a value exceeds, read in pieces."""
    text, reader = json.dumps(value, indent=indent, ensure_ascii=False).encode(), CapReader(sg.Limits())
    state = reader.start(())
    for end in range(size, len(text) + size, size):
        state, reached = reader.after(state, text[:end])
        if reached.name is not None:
            return reached.name
    return None


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("size", [1, 5])
def test_texts_that_repeat_themselves_for_a_reason_stay(name: str, size: int) -> None:
    assert capped({"text": TEXTS[name], "note": ""}, size=size) is None
    assert capped([TEXTS[name], TEXTS[name]], size=size) is None


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_lists_that_repeat_themselves_for_a_reason_stay(name: str, indent: int | None) -> None:
    assert capped({"rows": LISTS[name], "note": ""}, indent) is None


def test_more_of_the_same_is_a_loop() -> None:
    """The other side of the same texts: nobody fills a string with thousands of them."""
    loops = ["own " * 90, "-=" * 520, FOX * 9, "All together now, all together now,\n" * 34, "0, " * 520]
    loops += ["Она пела. " * 40, "“Oh no, not again!” " * 20, "| 0 | 1 |\n" * 260, "left/right " * 110]
    assert {capped({"text": loop}) for loop in loops} == {"max_repeated"}
    lists: list[list[Any]] = [[0] * 520, ["O"] * 520, [[0] * 16] * 34, ["A", "B"] * 140, [{"id": 7, "ok": True}] * 66]
    lists += [["He walks on."] * 24, ["the sea", "the sky"] * 20]
    assert {capped(loop, indent) for loop in lists for indent in (None, 2)} == {"max_repeated"}


def test_a_list_ends_after_three_items_whose_loops_were_cut() -> None:
    """It took sixteen, of 260 bytes each. The items may differ; one without a loop begins the count anew."""
    loops = ["own " * 84, "-=" * 508, "all is well, " * 25, "x" * 1010]
    whole = "A sentence of its own. " * 3
    assert capped({"rows": loops[:3]}) is None
    assert (
        capped({"rows": loops}) == capped({"rows": [{"id": n, "note": loops[n]} for n in range(4)]}) == "max_repeated"
    )
    assert capped({"rows": [loops[0], loops[0], whole, loops[0], loops[0]]}) is None
    text = json.dumps({"rows": loops}).encode()
    reader = CapReader(sg.Limits())
    assert reader.after(reader.start(()), text[: text.index(b'"xxx')])[1].array == text.index(b"[")


class StuckInItems(Stuck):
    """Loops in each string of `rows`, and begins another one after it."""

    def _scores(self, row: int, said: tuple[int, ...]) -> Tensor:
        text = self.vocabulary.decode(said)
        _, inside, items = text.partition(b'"rows": [')
        if not inside or b"]" in items:
            return super()._scores(row, said)
        last = items.split(b'"')[-1]
        ordinary = {b"": b"," if items else b'"', b",": b" ", b", ": b'"'}
        wanted = b"own "[len(last) % 4 :][:1] if items.count(b'"') % 2 else ordinary[last]
        scores = torch.zeros(self.vocabulary.width)
        scores[self._by_bytes[wanted]] = 20.0
        return scores


def test_a_model_that_loops_in_each_item_is_out_of_the_list_after_three() -> None:
    model = Model(StuckInItems("rows", "]", BYTES), ByteTokenizer(), BYTES)
    run = sg.generate(model, "x", Report, details=True, limits=sg.Limits(2000))
    assert run.value.note == "all is well", run.text
    assert len(run.value.rows) == 3
    assert "/rows" in {cap.pointer for cap in run.caps if cap.name == "max_repeated"}


def test_a_loop_within_a_call_is_told() -> None:
    """Whoever acts on calls sees that this one was cut."""
    said = '<tool_call>\n{"name": "save", "arguments": {"text": "%s"}}\n</tool_call>' % ("own " * 200)
    reply = sg.call(scripted_chat("hermes", said), "x", [save], details=True, limits=sg.Limits(900))
    assert "max_repeated" in {cap.name for cap in reply.generation.caps}
