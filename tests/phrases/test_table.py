"""Tables over bytes: the tokens that they propose, and the same phrase inside a JSON string."""

from __future__ import annotations

import json
import random

import structgen as sg
from structgen.phrases.table import MAX_PROPOSED
from structgen.testing import byte_vocabulary


def vocabulary(*texts: str) -> sg.Vocabulary:
    return sg.Vocabulary.from_tokens([*(text.encode() for text in texts), None], end_ids=[len(texts)])


def proposed(phrase, said, *texts):
    known = vocabulary(*texts)
    table = phrase.compile()
    return [texts[i] for i in table.proposals(table.after(0, said.encode()), known)]


def test_every_way_to_cut_a_phrase_into_tokens_is_proposed():
    texts = ["s", "sc", "scared", " s", " scar", "  sc", "scary", "scared!", "a", " ", "is", "red", "ared", "aredly"]
    assert proposed(sg.Phrase("scared"), "I am", *texts) == ["s", "sc", "scared", " s", " scar", "  sc", "scared!"]
    assert proposed(sg.Phrase("scared"), "so sc", *texts) == ["a", "ared", "aredly"]


def test_what_would_break_a_phrase_is_not_proposed():
    texts = ["fast", " fast", "faster", "fast.", " fas", "x"]
    assert proposed(sg.Phrase("fast", whole_word=True), "a ", *texts) == ["fast", " fast", "fast.", " fas"]
    assert proposed(sg.Phrase("fast", whole_word=True), "a", *texts) == [" fast", " fas"]


def test_a_phrase_that_is_met_asks_for_nothing():
    assert proposed(sg.Phrase("ab"), "cab", "a", "b", "ab") == []


def test_overlapping_beginnings_are_kept_as_by_knuth_morris_and_pratt():
    assert proposed(sg.Phrase("abab"), "xababab"[:3], "a", "b", "ab") == ["a", "ab"]
    assert proposed(sg.Phrase("aab"), "xaaa", "a", "b", "ab") == ["b"]


def test_alternatives_and_the_ends_of_gaps_are_proposed():
    texts = ["r", "sn", "rain", "snow", "x", "zz"]
    assert proposed(sg.AnyOf("rain", "snow"), "", *texts) == ["r", "sn", "rain", "snow"]
    gap = sg.Template("a", sg.Gap(characters=2), "cd")
    assert proposed(gap, "a", "x", "xyc", "xycd", "c") == ["xyc", "xycd"]  # the gap itself is the model's
    assert proposed(gap, "axy", "x", "c", "cd") == ["c", "cd"]


def test_the_tokens_with_the_least_behind_the_phrase_are_proposed_where_there_are_many():
    texts = ["a" + letter * n for n in range(1, 15) for letter in "bcdefghijklmnopqrstuvwxyz"]
    found = proposed(sg.Phrase("a"), "", *texts)
    assert len(found) == MAX_PROPOSED
    assert {len(text) for text in found} == set(range(2, 13))


def test_in_a_json_string_the_table_reads_what_is_spelled():
    phrase, chance = sg.Phrase('say "hi"\n'), random.Random(3)
    table = phrase.compile()
    written = table.in_string
    assert written.completion(0) == rb"say \"hi\"\n"
    known = byte_vocabulary()
    for _ in range(300):
        text = "".join(chance.choices('say "hi"\n\\é', k=12)) + 'say "hi"\n' * chance.randrange(2)
        spelled = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        assert (written.owed[written.after(0, spelled)] == 0) is ('say "hi"\n' in text)
    assert written.proposals(written.after(0, b"say "), known).tolist() == [ord("\\"), ord(" ")][:1]
    assert written.proposals(written.after(0, rb"say \""[:-1]), known).tolist() == [ord('"')]
