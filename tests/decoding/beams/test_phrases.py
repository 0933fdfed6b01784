"""Phrases in the beam search: every text has them, and wide beams find the best of all texts that do.

Covers `decoding.beams.candidates` and `decoding.refusals.phrase_row`.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Annotated, Literal

import pytest
import torch
import transformers as hf
from pydantic import BaseModel, Field

import structgen as sg
from structgen.decoding.beams.candidates import BeamCandidates
from structgen.decoding.choosing.measure import Ledger
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.decoding.beams.test_search import SIZES, logprob, make
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.tables import cases
from tests.support.thinning import thinned

VERY_WIDE = {"length_penalty": 0.0, "early_stopping": "never"}


def all_texts(model, alphabet, longest, has):
    """Texts of up to `longest` letters that are wanted, with their scores, best first. An end costs a token, too."""
    texts = [text for n in range(longest + 1) for text in map("".join, itertools.product(alphabet, repeat=n))]
    scored = []
    for text in filter(has, texts):
        tokens = [*text.encode(), *([256] if len(text) < longest else [])]
        scored.append((logprob(model, "prompt", tokens), text))
    return sorted(scored, reverse=True)


@pytest.mark.parametrize(("phrases", "pattern"), cases("decoding/beams/phrases", "wide_beams_find_the", globals()))
@pytest.mark.parametrize("seed", thinned([3, 4], 2))
def test_wide_beams_find_the_best_of_all_texts_with_the_phrases(seed, phrases, pattern):
    model = make(seed=seed)
    expected = all_texts(model, "abc", 5, lambda text: re.search(pattern, text))
    options = sg.Beams(256, **VERY_WIDE)
    run = sg.generate(model, "prompt", sg.Regex("[abc]{0,5}"), phrases=phrases, beams=options, details=True)
    assert [found.text for found in run.beams] == [text for _, text in expected[:256]]
    assert [found.score for found in run.beams] == pytest.approx([score for score, _ in expected[:256]], abs=1e-3)


def test_wide_beams_find_the_best_value_of_a_schema_with_a_phrase_in_its_place():
    class Stay(BaseModel):
        city: Literal["Oslo", "Lyon", "Rome", "Riga"]
        note: Annotated[str, Field(pattern="^[ab]{2,3}$")]

    model = make(seed=3)
    run = sg.generate(
        model, "stay: ", Stay, beams=sg.Beams(256, **VERY_WIDE), details=True,
        phrases=[sg.AnyOf("o", "i", at="/city"), sg.Phrase("ba", at="/note")],
    )  # fmt: skip
    notes = [note for n in (2, 3) for note in map("".join, itertools.product("ab", repeat=n)) if "ba" in note]
    texts = [f'{{"city": "{c}", "note": "{n}"}}' for c in ("Oslo", "Lyon", "Rome", "Riga") for n in notes]
    scored = sorted(((logprob(model, "stay: ", list(text.encode())), text) for text in texts), reverse=True)
    plain = [found.text for found in run.beams if "\\" not in found.text]  # escapes spell the same values again
    assert plain == [text for _, text in scored]


MODELS = ["llama", "gemma3", "mamba"]


@pytest.mark.parametrize("name", MODELS)
def test_every_result_has_every_phrase(name):
    """Random models, phrases, budgets and options; every beam that is kept."""
    chance, model = random.Random(name), make(name, end=4.0)
    for _ in range(3):
        words = ["".join(chance.choices("ab ", k=chance.randrange(1, 6))) for _ in range(chance.randrange(1, 4))]
        options = {"limits": sg.Limits(chance.randrange(18, 60)), "beams": chance.choice([2, 3, 8])}
        run = sg.generate(model, ["one", "another"], phrases=words, details=True, **options)
        for found in (found for row in run for found in row.beams):
            assert found.error is None
            assert all(word in found.text for word in words), (words, found.text)


@pytest.mark.parametrize("size", thinned([270, 400], 2))
def test_every_result_has_every_phrase_in_the_tokens_of_any_tokenizer(size):
    """Random models over byte-pair encodings of several sizes; phrases of several kinds and scripts, in any case."""
    chance, texts = (
        random.Random(size),
        ["the rain in Spain stays mainly", "äöü ist für Ärger", "日本語 日本 本日", "is fast"],
    )
    tokenizer = byte_level_bpe(texts * 3, size)
    torch.manual_seed(size)
    config = hf.LlamaConfig(**SIZES | {"vocab_size": len(tokenizer)}, eos_token_id=tokenizer.eos_token_id)
    module = hf.LlamaForCausalLM(config).eval()
    pieces = ["rain", "is fast", "Für", "日本", "in", "ys", "ä", " ", "the"]
    for _ in range(1):
        words = chance.sample(pieces, 4)
        ordered = sg.Ordered(words[0], words[1])
        template = sg.Template(words[1], sg.Gap(characters=(1, 3)), words[2], ignore_case=True)
        either = sg.AnyOf(*words[2:])
        run = sg.generate(
            module, ["the", "日"], tokenizer=tokenizer, beams=chance.choice([2, 4, 7]), limits=sg.Limits(50),
            phrases=[ordered, template, either], canonical=chance.choice(["off", "prefer"]), details=True,
        )  # fmt: skip
        for found in (found for row in run for found in row.beams):
            assert found.error is None
            assert re.search(f"{words[0]}.*{words[1]}", found.text, re.DOTALL)
            assert re.search(f"(?i){words[1]}.{{1,3}}{words[2]}", found.text, re.DOTALL)
            assert words[2] in found.text or words[3] in found.text


def test_models_with_an_encoder_say_phrases_too():
    torch.manual_seed(3)
    sizes = {"vocab_size": 257, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4}
    config = hf.T5Config(decoder_start_token_id=0, eos_token_id=256, **sizes)
    model = sg.Model(hf.T5ForConditionalGeneration(config).eval(), ByteTokenizer(), byte_vocabulary())
    prompts = ["How old are you?", "Are you well?"]
    run = sg.generate(
        model, prompts, beams=5, limits=sg.Limits(30), details=True, phrases=[sg.Phrase("Sie", whole_word=True)]
    )
    assert all(re.search(r"\bSie\b", found.text) for row in run for found in row.beams)


def test_a_schema_phrases_and_banned_words_hold_together():
    """Whatever is asked for together, every beam has all of it, or the search says which phrase it lacks."""
    chance, model, done = random.Random(11), make(seed=5), 0
    for _ in range(4):
        schema = {
            "type": "object", "required": ["a", "b"], "additionalProperties": False,
            "properties": {
                "a": {"type": "string", "maxLength": chance.randrange(4, 30)},
                "b": {"type": "array", "items": {"type": "string"}, "maxItems": chance.randrange(1, 4)},
                "c": {"type": "integer"},
            },
        }  # fmt: skip
        word = "".join(chance.choices("xyz", k=3))
        phrases = [sg.Phrase(word, at=chance.choice(["/a", "/b/*"])), sg.Phrase("w")]
        banned = [word[::-1] + "q", "e", "zz"]
        (run,) = sg.generate(
            model, ["json: "], schema, phrases=phrases, banned=banned, beams=3, limits=sg.Limits(140), details=True
        )
        if run.error is not None:
            assert isinstance(run.error, sg.DeadEnd)
            assert f"'{word}'" in str(run.error)
            assert "zz" in word
            continue
        for found in run.beams:
            value = json.loads(found.text)
            strings = [value["a"], *value["b"]]
            assert word in (value["a"] if phrases[0].at == "/a" else "\n".join(value["b"]))
            assert "w" in found.text
            assert not any(ban in text for ban in banned for text in strings)
            done += 1
    assert done > 5


@pytest.mark.parametrize("beams", [2, 4])
def test_no_text_is_worse_than_the_plain_searchs_that_has_the_phrase(beams, data_folder):
    """A model that was trained, asked for what its own best text says anyhow."""
    model, prompt = sg.load(data_folder / "stories260k"), "Once upon a time, there was a little girl named Lily."
    options = {"beams": beams, "limits": sg.Limits(20), "details": True}
    plain = sg.generate(model, prompt, **options)
    words = plain.text.split()
    for phrase in (words[1], " ".join(words[2:4]), words[5]):
        run = sg.generate(model, prompt, phrases=[phrase], **options)
        assert phrase in run.text
        assert run.score >= plain.score - 1e-4, (phrase, run.text)


def test_of_the_tokens_that_were_tried_only_those_that_were_taken_are_measured(monkeypatch):
    """A search with phrases may refuse thousands in a step, each with logits of the vocabulary's width."""
    tried, asked = list[int](), list[int]()
    judge, add = BeamCandidates.judge, Ledger.add
    monkeypatch.setattr(BeamCandidates, "judge", lambda *a: tried.append(a[2]) or judge(*a))
    monkeypatch.setattr(Ledger, "add", lambda self, *a: asked.extend(a[2]) or add(self, *a))
    options = {"phrases": ["bad"], "banned": ["ab"], "beams": 3, "limits": sg.Limits(24), "details": True}
    run = sg.generate(make(), "prompt", sg.Regex("[abd]{3,12}"), **options)
    assert len(tried) > len(asked) + 5
    for index, (token, known) in enumerate(zip(run.token_ids, run.logprobs, strict=True)):
        expected = logprob(make(), "prompt", run.token_ids[: index + 1])
        assert known == pytest.approx(expected - logprob(make(), "prompt", run.token_ids[:index]), abs=1e-3), token


def test_a_plain_search_that_is_over_leaves_the_others_alone():
    """Else texts that lack the phrase would go on to the end of the budget."""
    run = sg.generate(make(end=6.0), "prompt", phrases=["hello"], beams=3, limits=sg.Limits(200), details=True)
    assert "hello" in run.text
    assert run.stats.forwards < 60


def test_the_end_waits_for_the_phrases_and_not_longer():
    """A model that wants to end at once: the phrase is said, and then it may."""
    model = make(end=30.0)
    run = sg.generate(model, "prompt", phrases=["hello"], beams=4, limits=sg.Limits(40), details=True)
    assert run.text == "hello"
    assert run.finish == "end"


def test_a_phrase_is_said_where_the_model_likes_it_best_and_not_at_the_very_end():
    """The fault of lists of forced ids: phrases that are pushed to where the budget ends."""
    model, tokenizer = load_demo()
    prompt = "Text: Ada Moreau, 36, lives in Lyon.\nJSON: "
    run = sg.generate(model, prompt, Person, tokenizer=tokenizer, phrases=["Mor"], beams=8, details=True)
    assert json.loads(run.text)["name"] == "Ada Moreau"
    assert len(run.token_ids) < 25


def test_what_is_met_is_kept_and_what_is_broken_off_is_begun_again():
    """The fault of counting tokens: a beam that loses what it has said."""
    model = make(seed=9, end=2.0)
    run = sg.generate(model, "x", phrases=[sg.Phrase("on", whole_word=True), "aab"], beams=6, details=True,
                      limits=sg.Limits(40))  # fmt: skip
    for found in run.beams:
        assert re.search(r"\bon\b", found.text)
        assert "aab" in found.text


def test_a_budget_without_room_is_a_dead_end_that_names_the_phrases():
    model = make()
    with pytest.raises(sg.DeadEnd, match=r"max_new_tokens=4 has no room for 'hello' and 'you': .* needs 8 tokens"):
        sg.generate(model, "x", phrases=["hello", "you"], beams=2, limits=sg.Limits(4))
    both = sg.generate(model, ["x", "y"], phrases=[["hello"], ["hi"]], beams=2, limits=sg.Limits(4), details=True)
    assert isinstance(both[0].error, sg.DeadEnd)
    assert "hi" in both[1].text
    assert "hello" in sg.generate(model, "x", phrases=["hello"], beams=2, limits=sg.Limits(5))


def test_what_no_text_can_have_is_told():
    model = make()
    with pytest.raises(sg.DeadEnd, match="no text of the constraint has 'c'"):
        sg.generate(model, "x", sg.Choice(["a", "b"]), phrases=["c"], beams=2)
    schema = {"type": "object", "properties": {"town": {"type": "string"}}, "additionalProperties": False}
    with pytest.raises(sg.UnsatisfiableSchema, match="no strings at /twon"):
        sg.generate(model, "x", schema, phrases=[sg.Phrase("c", at="/twon")], beams=2)
    with pytest.raises(sg.DeadEnd, match="'c'"):
        sg.generate(model, "x", sg.Regex("[ab]{30}"), phrases=["c"], beams=2, limits=sg.Limits(40))
    with pytest.raises(sg.DeadEnd, match="'abc'"):
        sg.generate(model, "x", phrases=["abc"], banned=["b"], beams=2, limits=sg.Limits(40))


def closed(**members):
    return {"type": "object", "properties": members, "required": [*members], "additionalProperties": False}


WORDS = {"type": "string", "pattern": "^[a-m]*$"}


@pytest.mark.parametrize(("schema", "phrases", "named"), cases("decoding/beams/phrases", "a_phrase_that_no", globals()))
def test_a_phrase_that_no_text_has_is_told_before_anything_runs(schema, phrases, named):
    (run,) = sg.generate(
        make(), ["x"], schema, phrases=phrases, beams=4, limits=sg.Limits(512 if named else 60), details=True
    )
    if named is None:
        assert "hello" in run.text
        assert "wo" in run.text
        return
    assert isinstance(run.error, sg.DeadEnd)
    assert f"no text of the constraint has {named}" in str(run.error)
    assert run.stats.forwards == 0


def test_text_that_must_come_counts_too_and_leaves_the_rest_for_the_values():
    """The names of `Person` have two *a*: so no value may have one, and the search sees it at the first."""
    model, prompt = sg.load("demo"), "Text: Ada Moreau, 36, lives in Lyon.\nJSON: "
    for most, left in ((2, 0), (3, 1)):
        run = sg.generate(model, prompt, Person, phrases=[sg.Phrase("a", times=(0, most))], beams=4, details=True)
        assert (run.value.name + run.value.city).count("a") <= left
        assert run.stats.rollbacks == 0
    values = [sg.Phrase("a", at="/**", times=0), "Lyon"]
    assert "a" not in sg.generate(model, prompt, Person, phrases=values, beams=4).name


@pytest.mark.parametrize(
    ("schema", "phrases", "why"), cases("decoding/beams/phrases", "phrases_that_exclude_each", globals())
)
def test_phrases_that_exclude_each_other_are_told_before_anything_runs(schema, phrases, why):
    (run,) = sg.generate(make(), ["x"], schema, phrases=phrases, beams=4, details=True)
    assert isinstance(run.error, sg.DeadEnd)
    assert re.search(f"no text of the constraint has {why}", str(run.error))
    assert run.stats.forwards == 0


def test_no_text_is_gone_on_with_that_has_no_room_left_for_the_phrase():
    """In `xx` or longer there is none for *hello*, though the text may go on."""
    for seed in range(3):
        run = sg.generate(make(seed=seed), "x", sg.Regex("[a-z]{0,6}"), phrases=["hello"], beams=2, details=True)
        assert "hello" in run.text
        assert run.stats.rollbacks == 0


def test_a_word_that_no_string_may_have_is_no_word_that_one_must_have():
    run = sg.generate(
        make(), "x", closed(a={"enum": ["to", "so"]}), phrases=[sg.Phrase("z", at="/a", times=0)], beams=2
    )
    assert run["a"] in ("to", "so")


def test_a_value_behind_which_a_phrase_is_lost_is_not_begun():
    """Only lists of *x* can have the phrase; a model that likes the other kind better says one of them all the same."""
    choice = {
        "anyOf": [closed(kind={"const": kind}, a={"type": "array", "items": {"const": kind * 3}}) for kind in "xy"]
    }
    model = make(seed=3)
    limits = sg.Limits(300)
    for phrase in ("xxx", "yyy"):
        run = sg.generate(model, "x", choice, phrases=[phrase], beams=2, limits=limits, details=True)
        assert phrase in run.text
        assert run.stats.rollbacks == 0


def test_stop_strings_do_not_cut_phrases_off():
    for lost in ("a b", sg.AnyOf("a b", "c d"), sg.Ordered("a b", "c"), sg.Template("a", ..., " b")):
        with pytest.raises(sg.DeadEnd, match="without the stop string ' '"):
            sg.generate(make(), "x", phrases=[lost], beams=4, limits=sg.Limits(30, stop=(" ",)))
    either = sg.AnyOf("a b", "ba")
    assert "ba" in sg.generate(make(), "x", phrases=[either], beams=4, limits=sg.Limits(30, stop=(" ",)))
    run = sg.generate(make(end=4.0), "x", phrases=["ab"], beams=4, limits=sg.Limits(30, stop=("c",)), details=True)
    assert all("ab" in found.text and "c" not in found.text for found in run.beams)


class Even(sg.BytePhrase[int]):
    """An even number of the letter a, and at least two."""

    def start(self):
        return 0

    def step(self, state, byte):
        return state if byte != ord("a") else (1, 2, 3, 2)[state]

    def is_met(self, state):
        return state == 2


def test_a_phrase_of_the_callers_own():
    run = sg.generate(make(end=4.0), "x", phrases=[Even()], beams=4, limits=sg.Limits(30), details=True)
    assert all(found.text.count("a") % 2 == 0 and "a" in found.text for found in run.beams)


def test_prompts_of_a_batch_have_phrases_of_their_own_or_none():
    model = make(end=3.0)
    prompts, phrases = ["one", "two", "three"], [["ab"], [], [sg.AnyOf("yes", "no")]]
    options = {"beams": 4, "limits": sg.Limits(20), "details": True}
    batch = sg.generate(model, prompts, phrases=phrases, **options)
    for prompt, wanted, row in zip(prompts, phrases, batch, strict=True):
        alone = sg.generate(model, prompt, phrases=wanted, **options)
        assert [(found.token_ids, found.finish) for found in row.beams] == [
            (found.token_ids, found.finish) for found in alone.beams
        ]


def test_canonical_tokens_and_phrases_go_together():
    model, tokenizer = load_demo()
    prompt = "Text: Ada Moreau, 36, lives in Lyon.\nJSON: "
    for phrase in ("Paris", "New York", "is fast"):
        run = sg.generate(
            model, prompt, Person, tokenizer=tokenizer, beams=4, details=True, canonical="strict",
            phrases=[sg.Phrase(phrase, at="/city")], limits=sg.Limits(60),
        )  # fmt: skip
        for found in run.beams:
            assert phrase in json.loads(found.text)["city"]
            assert tokenizer.encode(found.text, add_special_tokens=False) == list(found.token_ids)


def test_a_stream_tells_what_is_sure_and_ends_with_the_phrases():
    model = make(end=4.0)
    *events, last = sg.stream(model, "x", phrases=["abc"], beams=3, limits=sg.Limits(20))
    assert "abc" in last.result.text
    assert "".join(event.text for event in [*events, last]) == last.result.text


@pytest.mark.parametrize(("options", "why"), cases("decoding/beams/phrases", "what_cannot_be_searched", globals()))
def test_what_cannot_be_searched_for_is_refused(options, why):
    with pytest.raises(sg.OptionError, match=why):
        sg.generate(make(), "x", **options)


def in_one(words):
    """The shortest text that has all of some words."""
    texts = []
    for order in itertools.permutations(words):
        text = ""
        for word in order:
            if word not in text:
                overlap = max(n for n in range(len(word) + 1) if text.endswith(word[:n]))
                text += word[overlap:]
        texts.append(text)
    return min(texts, key=lambda text: len(text.encode()))


def shared_out(words):
    """All ways to share words out among strings."""
    if not words:
        yield []
        return
    for groups in shared_out(words[1:]):
        yield [[words[0]], *groups]
        for number, group in enumerate(groups):
            yield [*groups[:number], [words[0], *group], *groups[number + 1 :]]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_phrases_in_items_of_one_array_are_met_as_long_as_the_budget_has_room(seed):
    """The shortest text is known by brute force: with one token less there is none, with more there always is one."""
    chance = random.Random(seed)
    words = chance.sample(["is fast", "Für", "日本", "aba", "ab", "rain", "Zürich 8", "no"], chance.choice([2, 2, 3]))
    longest, most = max(map(len, words)) + chance.choice([0, 1, 20]), chance.randrange(len(words), 4)
    items = chance.choice([{"type": "string", "maxLength": longest}, {"enum": [*words, "zz"]}])
    schema = {
        "type": "object", "required": ["a", "b"], "additionalProperties": False,
        "properties": {
            "a": {"type": "string", "maxLength": 20}, "b": {"type": "array", "maxItems": most, "items": items},
        },
    }  # fmt: skip
    ways = [[in_one(group) for group in groups] for groups in shared_out(words) if len(groups) <= most]
    fitting = [way for way in ways if all(text in items.get("enum", [text]) and len(text) <= longest for text in way)]
    room = min(len(json.dumps({"a": "", "b": way}, ensure_ascii=False).encode()) for way in fitting)
    model, phrases = make(seed=seed), [sg.Phrase(word, at="/b/*") for word in words]
    for budget in (room - 1, room, room + 4):
        (run,) = sg.generate(
            model, ["x"], schema, phrases=phrases, banned=["q"], beams=2, limits=sg.Limits(budget), details=True
        )
        if budget < room:
            assert isinstance(run.error, sg.DeadEnd)
            continue
        assert run.error is None, (words, items, budget)
        assert all(any(word in text for text in json.loads(run.text)["b"]) for word in words)
