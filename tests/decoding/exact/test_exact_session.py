"""Exact sampling end to end, held to models whose every text is counted."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from pydantic import BaseModel, model_validator
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
)

import structgen as sg
from structgen.decoding.exact import refused_mass
from structgen.testing import ByteTokenizer, byte_vocabulary
from structgen.vocabulary import Vocabulary
from tests.support.enumerable import Enumerable, chi_square
from tests.support.simulated_device import simulated
from tests.support.tables import cases
from tests.support.thinning import as_slow, thinned

LETTERS = [b"a", b"b", b"ab", b"c"]
PATTERN = r"(ab|c){1,3}"
LENGTH = 5
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
UNLIKELY = 4.5
"""Standard deviations of Pearson's statistic that a right law exceeds once in some hundred thousand tests."""


def drawn(model: Enumerable, count: int, schema: Any = None, *, length: int = LENGTH, seed: int = 1, **options: Any):
    sampling = options.pop("sampling", sg.Sampling(temperature=1.0, seed=seed, exact=True))
    limits = sg.Limits(length)
    return sg.generate(
        model.model(), [[0]] * count, schema, sampling=sampling.several(count), limits=limits, details=True, **options
    )


def letters(seed: int) -> Enumerable:
    return Enumerable(seed, LETTERS, bias=[0, 0, 0, 0, 0.5])


def matches(text: str) -> bool:
    return re.fullmatch(PATTERN, text) is not None


@pytest.mark.parametrize("rows", thinned([8, 1, 64], 3))
def test_texts_of_a_pattern_have_the_models_law(rows):
    """Whatever rows learn from each other: texts are drawn one by one, or 64 at a time."""
    model = letters(3)
    law = model.texts(LENGTH, matches, complete=True)
    runs = drawn(model, 2000, sg.Regex(PATTERN), batch_size=rows)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY
    assert all(run.exact and run.error is None for run in runs)
    away = (runs[0].log_validity - math.log(sum(law.values()))) / runs[0].log_validity_error
    assert abs(away) < UNLIKELY


def test_masks_alone_have_another_law():
    """What the test above would tell of the law that is renormalised at each step."""
    model = letters(3)
    law = model.texts(LENGTH, matches, complete=True)
    runs = drawn(model, 700, sg.Regex(PATTERN), sampling=sg.Sampling(temperature=1.0, seed=1))
    ends = [run.token_ids if run.token_ids in law else (*run.token_ids, model.end) for run in runs]
    assert chi_square([text for text in ends if text in law], law) > 20 * UNLIKELY


def test_texts_without_banned_words_have_the_models_law():
    """Plain text is over at the end token or at its last token; a guard refuses text by text."""
    model = Enumerable(1, LETTERS)
    law = model.texts(4, lambda text: "abb" not in text and "ca" not in text, complete=True)
    runs = drawn(model, 2000, length=4, banned=["abb", "ca"])
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY
    assert any("banned word" in undone.reason for run in runs for undone in run.trace)


PHRASES: dict[str, tuple[Any, list[Any], str]] = cases("decoding/exact/exact_session", "PHRASES", globals())


@pytest.mark.parametrize("what", PHRASES)
def test_texts_with_phrases_have_the_models_law(what):
    schema, phrases, pattern = PHRASES[what]
    model = letters(6)
    law = model.texts(LENGTH, lambda text: re.fullmatch(pattern, text) is not None, complete=True)
    runs = drawn(model, 1500, schema, phrases=phrases)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY
    away = (runs[0].log_validity - math.log(sum(law.values()))) / max(runs[0].log_validity_error, 1e-9)
    assert abs(away) < UNLIKELY


def test_a_phrase_in_a_value_has_the_models_law():
    """And its rows share no tree with those of another phrase."""
    model = Enumerable(5, [b'{"a": "', b'", "b": "', b'"}', b"x", b"y"])
    strings = {"a": {"type": "string"}, "b": {"type": "string"}}
    schema = {"type": "object", "properties": strings, "required": ["a", "b"], "additionalProperties": False}
    begun = r'(\{"a": "([xy]*(", "b": "([xy]*("\}?)?)?)?)?)?'
    both = [[sg.Phrase("xy", at="/a")], [sg.Phrase("x", at="/**", times=0)]]
    valid = [r'\{"a": "[xy]*xy[xy]*", "b": "[xy]*"\}', r'\{"a": "y*", "b": "y*"\}']
    runs = drawn(model, 1200, schema, length=7, phrases=both * 600)
    for number, pattern in enumerate(valid):
        law = model.texts(7, lambda text, p=pattern: re.fullmatch(p, text) is not None, complete=True, begun=begun)
        assert chi_square([run.token_ids for run in runs[number::2]], law) < UNLIKELY


def test_filters_shape_the_law_before_the_mask():
    """Temperature and top-k are of the model's law without any mask."""
    model = letters(8)
    law: dict[tuple[int, ...], float] = {}
    waiting: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    while waiting:
        said, chance = waiting.pop()
        if said and (said[-1] == model.end or len(said) == LENGTH):
            if matches(model.vocabulary.decode(said).decode()):
                law[said] = chance
            continue
        each = model.law(said, temperature=0.7)
        likely = sorted(range(len(each)), key=lambda token: -each[token])[:3]
        waiting += [((*said, token), chance * each[token] / each[likely].sum()) for token in likely]
    sampling = sg.Sampling(temperature=0.7, top_k=3, seed=2, exact=True)
    runs = drawn(model, 2000, sg.Regex(PATTERN), sampling=sampling)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY


class Pair(BaseModel):
    """Two digits, the second the larger one."""

    a: int
    b: int

    @model_validator(mode="after")
    def grows(self):
        """A rule that no mask knows."""
        assert self.b > self.a
        return self


def digits(text: str) -> bool:
    found = re.fullmatch(r'\{"a": (0|[1-3]+[0-3]*), "b": (0|[1-3]+[0-3]*)\}', text)
    return found is not None and int(found[2]) > int(found[1])


def test_a_types_validators_are_part_of_what_is_valid():
    tokens = [b'{"a": ', b', "b": ', b"}", b"0", b"1", b"2", b"3"]
    model = Enumerable(2, tokens)
    law = model.texts(7, digits, complete=True, begun=r'(\{"a": ([0-3]+(, "b": [0-3]*)?\}?)?)?')
    runs = drawn(model, 500, Pair, length=7)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY
    assert all(run.value.b > run.value.a for run in runs)


def test_unique_items_are_part_of_what_is_valid():
    model = Enumerable(4, [b"[", b"]", b", ", b"1", b"2", b"3"])
    schema = {"type": "array", "items": {"enum": [1, 2, 3]}, "uniqueItems": True}

    def unique(text: str) -> bool:
        found = re.fullmatch(r"\[([123](, [123])*)?\]", text)
        return found is not None and len(set(items := re.findall("[123]", text))) == len(items)

    law = model.texts(8, unique, complete=True, begun=r"(\[([123](, [123]?)*)*\]?)?")
    runs = drawn(model, 1000, schema, length=8)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY


def test_forced_text_that_is_read_along_changes_no_text_and_saves_forward_passes():
    tokens = [b'{"a": ', b', "b": ', b"}", b"0", b"1", b"2", b"3", b"{", b'"a": ', b', "b"', b": "]
    schema = {"type": "object", "properties": {"a": {"enum": [1]}, "b": {"enum": [1, 2]}}, "required": ["a", "b"]}
    forwards = {}
    for fast in (True, False):
        runs = drawn(Enumerable(2, tokens, bias=[2.0]), 8, schema, length=12, fast_forward=fast)
        forwards[fast] = runs[0].stats.forwards
        texts = [run.token_ids for run in runs]
        law = Enumerable(2, tokens, bias=[2.0])
        assert all(law.vocabulary.decode(text).startswith(b'{"a": 1, "b": ') for text in texts)
    assert forwards[True] <= forwards[False]


def test_rows_of_one_call_may_be_drawn_in_both_ways():
    """Each as it would be by itself."""
    model = letters(3).model()
    ways = [sg.Sampling(1.0, seed=seed, exact=exact) for seed in range(6) for exact in (True, False)]
    options = {"limits": sg.Limits(LENGTH), "details": True}
    both = sg.generate(model, [[0]] * 12, sg.Regex(PATTERN), sampling=ways, **options)
    assert [run.exact for run in both] == [True, False] * 6
    local = sg.generate(model, [[0]] * 6, sg.Regex(PATTERN), sampling=ways[1::2], **options)
    assert [run.token_ids for run in both[1::2]] == [run.token_ids for run in local]


def test_a_row_learns_its_own_laws_though_others_leave_its_batch():
    model, pattern, free = letters(3).model(), sg.Regex(PATTERN), sg.Regex("[abc]{1,9}")
    limits = [sg.Limits(2), sg.Limits(LENGTH), sg.Limits(9)]
    for seed in range(6):
        other, way = sg.Sampling(1.0, seed=seed + 50), sg.Sampling(1.0, seed=seed, exact=True)
        alone = sg.generate(model, [0], pattern, sampling=way, limits=limits[1], details=True)
        schemas, ways = [free, pattern, free], [other, way, other]
        beside = sg.generate(model, [[0]] * 3, schemas, sampling=ways, limits=limits, details=True)[1]
        assert (beside.text, beside.log_validity) == (alone.text, alone.log_validity)


def test_a_job_draws_exact_values():
    """Jobs have a batch that rows join while it runs. Each input has a draw of its own, the same in each run."""
    options = {"sampling": sg.Sampling(1.0, seed=1, exact=True), "limits": sg.Limits(3)}
    model = sg.Model(small("llama"), ByteTokenizer(), byte_vocabulary())
    done, again = (sg.extract_many(model, ["any"] * 3, sg.Regex("[ -~]{3}"), **options) for _ in range(2))
    assert done.results == again.results
    assert len({entry["value"] for entry in done.results}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_texts_of_one_call_are_independent(rows):
    """Pairs of texts have the product of their laws, though both rows learn from each other, from nothing on."""
    model, values = letters(3), ["ab", "cb", "bc", "a", "c"]
    law = model.texts(2, lambda text: text in values, complete=True)
    pairs = {(*one, -1, *other): law[one] * law[other] for one in law for other in law}
    found = [drawn(model, 2, sg.Choice(values), length=2, seed=seed, batch_size=rows) for seed in range(3000)]
    assert chi_square([(*one.token_ids, -1, *other.token_ids) for one, other in found], pairs) < UNLIKELY


def test_fields_have_the_probability_of_each_value_given_that_the_text_is_valid():
    """The spellings of a value are summed up, and what would have become no value is taken off."""
    model, values = letters(3), ["ab", "cb", "bc"]
    law = model.texts(LENGTH, lambda text: text in values, complete=True)
    sums = dict.fromkeys(values, 0.0)
    for text, chance in law.items():
        sums[model.vocabulary.decode(text).decode()] += chance / sum(law.values())
    run = drawn(model, 1000, sg.Choice(values))[0]
    assert run.fields[""].values == pytest.approx(sums, abs=0.004)
    assert run.fields[""].probability == pytest.approx(sums[run.text], abs=0.004)
    local = drawn(model, 1, sg.Choice(values), sampling=sg.Sampling(temperature=1.0, seed=1))[0]
    assert local.fields[""].values != pytest.approx(sums, abs=0.02)


MODULES = cases("decoding/exact/exact_session", "MODULES", globals())


def small(name: str) -> Any:
    torch.manual_seed(1)
    return MODULES[name]().eval()


def three_characters(module: Any) -> list[sg.Generation[Any]]:
    sampling = sg.Sampling(temperature=1.0, seed=3, exact=True).several(4)
    return sg.generate(
        sg.Model(module, ByteTokenizer(), byte_vocabulary()), [list(b"any")] * 4, sg.Regex("[ -~]{3}"),
        sampling=sampling, limits=sg.Limits(3), batch_size=2, details=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_what_is_read_behind_a_try_that_was_given_up_is_right(name):
    """Each token's probability is that of an uncached forward pass, whatever the cache has to take back."""
    module = small(name)
    runs = three_characters(module)
    assert runs[0].stats.rollbacks > 0
    for run in runs:
        with torch.no_grad():
            row = module(**_read(name, list(b"any"), run.token_ids)).logits[0, -4:-1].log_softmax(-1)
        expected = [float(row[i, token]) for i, token in enumerate(run.token_ids)]
        assert run.logprobs == pytest.approx(expected, abs=1e-3)


def test_a_device_draws_the_same_texts():
    texts = [run.token_ids for run in three_characters(small("llama"))]
    with simulated() as there:
        assert [run.token_ids for run in three_characters(there.to_device(small("llama")))] == texts


def _read(name: str, prompt: list[int], tokens: tuple[int, ...]) -> dict[str, Any]:
    if name == "t5":
        return {"input_ids": torch.tensor([prompt]), "decoder_input_ids": torch.tensor([[0, *tokens]])}
    return {"input_ids": torch.tensor([[*prompt, *tokens]])}


def merging_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-pair encoding of three letters; *abc* is one token, *abb* is two of the four ways to cut it."""
    tokens = {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5}
    inner = Tokenizer(models.BPE(vocab=tokens, merges=[("b", "c"), ("a", "b"), ("a", "bc")]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens(["</s>"])
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="</s>")


@pytest.mark.parametrize("exact", [as_slow(True), "weights"])
def test_with_strict_canonical_tokens_only_the_tokenizers_own_spelling_is_valid(exact):
    tokenizer = merging_tokenizer()
    model, length = Enumerable(5, [b"a", b"b", b"c", b"ab", b"bc", b"abc"], bias=[0.0] * 6 + [0.5]), 4
    spelled = model.texts(length, lambda text: re.fullmatch("(ab|b|c|bcc){1,4}", text) is not None, complete=True)
    own = sg.Model(model, tokenizer, Vocabulary.from_tokenizer(tokenizer))
    law = {
        text: chance
        for text, chance in spelled.items()
        if tokenizer.encode(model.vocabulary.decode(text).decode()) == [each for each in text if each != model.end]
    }
    assert 10 < len(law) < len(spelled) / 2
    runs = sg.generate(
        own, [[model.end]] * 2000, sg.Regex("(ab|b|c|bcc){1,4}"), limits=sg.Limits(length), canonical="strict",
        sampling=sg.Sampling(temperature=1.0, seed=1, exact=exact).several(2000), details=True,
    )  # fmt: skip
    drawn_last = [run.token_ids for run in runs[-1500:]]  # behind what the first ones learn, weights are all but equal
    assert chi_square(drawn_last, law) < UNLIKELY
    away = (runs[0].log_validity - math.log(sum(law.values()))) / runs[0].log_validity_error
    assert abs(away) < UNLIKELY


@pytest.mark.parametrize("exact", [True, "weights"])
def test_the_same_call_draws_the_same_texts(exact):
    sampling = sg.Sampling(temperature=1.0, seed=5, exact=exact)
    texts = []
    for between in (1, 7):
        texts.append([run.token_ids for run in drawn(letters(3), 20, sg.Regex(PATTERN), sampling=sampling)])
        drawn(letters(3), between, sg.Regex(PATTERN))  # what other calls learn is theirs
    assert texts[0] == texts[1]


@pytest.mark.slow
def test_the_same_call_draws_the_same_texts_in_another_process():
    told = "from tests.decoding.exact.test_exact_session import *\n"
    told += "print([run.token_ids for run in drawn(letters(3), 20, sg.Regex(PATTERN), seed=5)])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == [run.token_ids for run in drawn(letters(3), 20, sg.Regex(PATTERN), seed=5)]


def test_rows_that_are_drawn_one_by_one_do_not_depend_on_those_behind_them():
    """What a row learns changes which of the others' tries are given up: nothing else does."""
    few, more = (
        [run.token_ids for run in drawn(letters(3), count, sg.Regex(PATTERN), seed=5, batch_size=1)]
        for count in (5, 20)
    )
    assert more[:5] == few


@pytest.mark.slow
def test_laws_that_were_forgotten_are_read_again(monkeypatch):
    """A tree that keeps one law only draws by the same law, with more forward passes."""
    model, kept = letters(3), drawn(letters(3), 300, sg.Regex(PATTERN))
    monkeypatch.setattr(refused_mass, "KEPT_BYTES", 1)
    runs = drawn(model, 300, sg.Regex(PATTERN))
    law = model.texts(LENGTH, matches, complete=True)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY
    assert runs[0].stats.forwards > kept[0].stats.forwards


def test_a_budget_that_is_spent_is_an_error_or_another_law():
    model = Enumerable(3, LETTERS, bias=[9.0])
    sampling, limits = sg.Sampling(temperature=1.0, seed=1, exact=True), sg.Limits(LENGTH, exact_forwards=1)
    with pytest.raises(sg.NoExactSample, match="exact_forwards=1 are spent") as caught:
        sg.generate(model.model(), [0], sg.Regex("ab"), sampling=sampling, limits=limits)
    assert caught.value.tries == 1
    assert 0 < caught.value.validity < 1
    prefers = sg.Sampling(temperature=1.0, seed=1, exact="prefer")
    run = sg.generate(model.model(), [0], sg.Regex("ab"), sampling=prefers, limits=limits, details=True)
    assert (run.value, run.exact, run.log_validity) == ("ab", False, None)
    assert run.stats.forwards > 1


def test_what_the_model_never_says_is_a_dead_end():
    model = Enumerable(3, LETTERS)
    sampling = sg.Sampling(temperature=1.0, top_k=1, seed=1, exact=True)
    with pytest.raises(sg.DeadEnd, match="no text that the model says"):
        sg.generate(model.model(), [0], sg.Regex("(ab|c){1,2}"), sampling=sampling, limits=sg.Limits(2))
    drawing = sg.Sampling(temperature=1.0, seed=1, exact=True)
    with pytest.raises(sg.DeadEnd, match=r"no text of the constraint has 'bb' and 'b', times=1$"):
        sg.generate(model.model(), [0], sampling=drawing, phrases=["bb", sg.Phrase("b", times=1)])


def test_a_stop_string_ends_the_text():
    model = Enumerable(1, LETTERS)
    sampling = sg.Sampling(temperature=1.0, seed=1, exact=True).several(50)
    limits = sg.Limits(6, stop=["cb"])
    runs = sg.generate(model.model(), [[0]] * 50, sampling=sampling, limits=limits, details=True)
    assert all("cb" not in run.text for run in runs)
    assert {run.finish for run in runs} == {"stop", "end", "length"}


def test_a_stream_tells_a_text_when_it_is_complete():
    sampling = sg.Sampling(temperature=1.0, seed=1, exact=True)
    events = list(sg.stream(letters(3).model(), [0], sg.Regex(PATTERN), sampling=sampling, limits=sg.Limits(LENGTH)))
    told = [event for event in events if event.text]
    assert told[0].text == events[-1].result.text
    assert events[-1].result.exact


def test_streams_have_the_models_law():
    model, count = letters(3), 300
    sampling = sg.Sampling(temperature=1.0, seed=1, exact=True).several(count)
    events = sg.stream(model.model(), [[0]] * count, sg.Regex(PATTERN), sampling=sampling, limits=sg.Limits(LENGTH))
    runs = [event.result for event in events if event.result is not None]
    law = model.texts(LENGTH, matches, complete=True)
    assert chi_square([run.token_ids for run in runs], law) < UNLIKELY


def test_a_stream_tells_of_one_run():
    sampling = sg.Sampling(temperature=1.0, exact="prefer")
    with pytest.raises(sg.OptionError, match="streams and jobs run once"):
        sg.stream(letters(3).model(), [0], sg.Regex(PATTERN), sampling=sampling)


@pytest.mark.parametrize(
    ("options", "why"),
    cases("decoding/exact/exact_session", "options_that_do_not_go_with_it", globals()),
)
def test_options_that_do_not_go_with_it_say_why(options, why):
    given = {"sampling": sg.Sampling(temperature=1.0, exact=True), "limits": sg.Limits(LENGTH)} | options
    with pytest.raises(sg.OptionError, match=why):
        sg.generate(letters(3).model(), [[0]] * 2, sg.Regex(PATTERN), **given)


def test_the_likeliest_token_is_no_draw():
    with pytest.raises(sg.OptionError, match="temperature"):
        sg.Sampling(exact=True)
