"""Beam search in the decode loop: the texts of transformers without a constraint, the best of all texts with one, and
every guarantee that a plain row gives.

Covers `hypothesis`.
"""

from __future__ import annotations

import itertools
import json
from typing import Annotated, Literal

import pytest
import torch
import transformers as hf
from pydantic import AfterValidator, BaseModel, Field, model_validator

import structgen as sg
from structgen.decoding import loop
from structgen.decoding.beams.search import BeamSearch
from structgen.decoding.engine import Engine, decode
from structgen.decoding.loop import Execution
from structgen.decoding.request import CallOptions, prepare
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import CallbackError
from structgen.given_prompts import GivenPrompts
from structgen.models.row import Forward
from structgen.models.slots import SlotForward
from structgen.models.solo import SoloForward
from structgen.models.uncached import WholeForward
from structgen.testing import ByteTokenizer, byte_vocabulary, scripted
from tests.decoding.test_overlap import llama
from tests.support.releases import require_release
from tests.support.simulated_device import simulated
from tests.support.tables import cases
from tests.support.thinning import as_slow, diagonal, times

WIDTH, END = 257, 256
SIZES = {"vocab_size": WIDTH, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}
CONFIGS = cases("decoding/beams/search", "CONFIGS", globals())


def make(name: str = "llama", seed: int = 7, end: float = 0.0) -> sg.Model:
    """A random model over bytes, of which the end token gets `end` more."""
    torch.manual_seed(seed)
    module = hf.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():  # logits far enough apart that rounding decides no token
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    module.config.eos_token_id = module.generation_config.eos_token_id = END
    module.generation_config.pad_token_id = END
    if end:
        module.lm_head = Ending(module.lm_head, end)
    return sg.Model(module, ByteTokenizer(), byte_vocabulary())


class Ending(torch.nn.Module):
    """A head whose end token is likelier."""

    def __init__(self, head: torch.nn.Module, more: float) -> None:
        super().__init__()
        self.head, self.more, self.weight = head, more, head.weight

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        scores = self.head(states).clone()
        scores[..., END] += self.more
        return scores


def logprob(model: sg.Model, prompt: str, tokens: list[int]) -> float:
    """The model's own log-probability of tokens behind a prompt, by one forward pass without a cache."""
    ids = [*model.tokenizer.encode(prompt), *tokens]
    with torch.inference_mode():
        logs = model.module(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double().log_softmax(-1)
    first = len(ids) - len(tokens) - 1
    return sum(float(logs[first + at, token]) for at, token in enumerate(tokens))


def equal_texts(run, theirs) -> list[list[int]]:
    """The tokens of each beam behind the prompt, which are those of transformers, with the same scores."""
    texts = []
    for ours, sequence, score in zip(run.beams, theirs.sequences, theirs.sequences_scores, strict=True):
        new = sequence[len("prompt") :].tolist()
        texts.append(new[: new.index(END) + 1] if END in new else new)
        assert list(ours.token_ids) == texts[-1]
        assert ours.score == pytest.approx(float(score), abs=1e-4)
    return texts


@pytest.mark.parametrize(("length_penalty", "early_stopping"), diagonal([1.0, 0.0, 2.5], [True, False, "never"]))
@pytest.mark.parametrize("count", [2, 5])
def test_without_a_constraint_the_texts_and_scores_are_those_of_transformers(count, early_stopping, length_penalty):
    for seed, end in ((1, 3.0), (2, 5.0), (3, 0.0)):
        model = make(seed=seed, end=end)
        options = sg.Beams(count, length_penalty=length_penalty, early_stopping=early_stopping)
        run = sg.generate(model, "prompt", beams=options, limits=sg.Limits(12), details=True)
        theirs = model.module.generate(
            torch.tensor([model.tokenizer.encode("prompt")]), num_beams=count, num_return_sequences=count,
            length_penalty=length_penalty, early_stopping=early_stopping, max_new_tokens=12, do_sample=False,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        for ours, new in zip(run.beams, equal_texts(run, theirs), strict=True):
            assert ours.score * len(new) ** length_penalty == pytest.approx(sum(ours.logprobs), abs=1e-4)


@pytest.mark.parametrize(
    ("sampling", "theirs"),
    cases("decoding/beams/search", "penalties_and_processors_are_part_of_the_score", globals()),
)  # fmt: skip
def test_penalties_and_processors_are_part_of_the_score_as_in_transformers(sampling, theirs):
    for seed, end in ((1, 3.0), (2, 5.0), (3, 0.0)):
        model = make(seed=seed, end=end)
        run = sg.generate(model, "prompt", beams=3, sampling=sampling, limits=sg.Limits(12), details=True)
        expected = model.module.generate(
            torch.tensor([model.tokenizer.encode("prompt")]), num_beams=3, num_return_sequences=3, max_new_tokens=12,
            do_sample=False, return_dict_in_generate=True, output_scores=True, **theirs,
        )  # fmt: skip
        for ours, new in zip(run.beams, equal_texts(run, expected), strict=True):
            assert sum(ours.logprobs) == pytest.approx(logprob(model, "prompt", new), abs=1e-3)


def test_processors_choose_among_what_a_schema_and_phrases_leave():
    """One that fails ends its own search, and a batch has searches with and without."""
    model, kind = make(), sg.Regex("[abc]{4}")
    never = sg.Sampling(processors=[hf.SuppressTokensLogitsProcessor([*b"ab"])])
    twice = sg.Sampling(processors=[hf.NoRepeatNGramLogitsProcessor(1)])

    def broken(ids, scores):
        raise ValueError("no")

    samplings = [never, sg.Sampling(), twice, sg.Sampling(processors=[broken])]
    runs = sg.generate(model, ["x"] * 4, kind, beams=3, sampling=samplings, details=True)
    assert runs[0].text == "cccc"
    assert runs[1].text == sg.generate(model, "x", kind, beams=3)
    assert isinstance(runs[2].error, sg.DeadEnd)  # there are only three letters
    assert isinstance(runs[3].error, CallbackError)
    with pytest.raises(sg.DeadEnd, match="after its processors"):
        sg.generate(model, "x", kind, beams=3, sampling=never, phrases=["a"])
    pairs = sg.Sampling(processors=[hf.NoRepeatNGramLogitsProcessor(2)])
    text = sg.generate(model, "x", sg.Regex("[abc]{6}"), beams=3, sampling=pairs, phrases=["ab"])
    assert "ab" in text
    assert len(set(itertools.pairwise(text))) == 5


@pytest.mark.parametrize("name", ["llama", "mamba"])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_wide_beams_find_the_best_of_all_texts(name, length_penalty):
    """Scores are the model's own, before any mask; only an end token that was chosen counts."""
    model, prompt = make(name), "prompt"
    texts = [said for n in range(1, 5) for said in map("".join, itertools.product("abc", repeat=n))]
    options = sg.Beams(len(texts), length_penalty=length_penalty, early_stopping="never")
    run = sg.generate(model, prompt, sg.Regex("[abc]{1,4}"), beams=options, fast_forward=False, details=True)
    scored = []
    for text in texts:
        tokens = [*text.encode(), *([END] if len(text) < 4 else [])]
        scored.append((logprob(model, prompt, tokens) / len(tokens) ** length_penalty, text))
    scored.sort(reverse=True)
    assert [found.text for found in run.beams] == [text for _, text in scored]
    assert [found.score for found in run.beams] == pytest.approx([score for score, _ in scored], abs=1e-4)


def test_wide_beams_find_the_best_of_all_values_of_a_schema():
    class Choice(BaseModel):
        city: Literal["Oslo", "Lyon", "Rome", "Riga"]
        sure: bool
        stars: Annotated[int, Field(ge=0, le=11)]

    model, prompt = make(seed=3), "the city: "
    options = sg.Beams(200, length_penalty=0.0, early_stopping="never")
    run = sg.generate(model, prompt, Choice, beams=options, details=True)
    values = itertools.product(["Oslo", "Lyon", "Rome", "Riga"], ["true", "false"], [*range(12), "-0"])
    texts = [f'{{"city": "{city}", "sure": {sure}, "stars": {stars}}}' for city, sure, stars in values]
    scored = sorted(((logprob(model, prompt, list(text.encode())), text) for text in texts), reverse=True)
    assert [found.text for found in run.beams] == [text for _, text in scored]
    assert [found.score for found in run.beams] == pytest.approx([score for score, _ in scored], abs=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_one_beam_is_greedy_decoding(name):
    """Both the plain row that `beams=1` is and a search of one beam."""
    model, kind = make(name), sg.Regex(r"\{[a-f]{3,9}:( [g-m]{2,6},){2,4} [A-Z]{2}\}")
    plain = sg.generate(model, "prompt", kind, details=True)
    assert sg.generate(model, "prompt", kind, beams=1, details=True).token_ids == plain.token_ids
    request = loop_request(model, "prompt", kind, sg.Beams(1, early_stopping=True))
    assert request.text.tokens == list(plain.token_ids)


def loop_request(model, prompt, kind, options):
    """The search of a prompt, run to its end, also with a count of one."""
    roots = prepare(model, GivenPrompts.of(prompt), kind, CallOptions(beams=2)).sessions
    searches = [BeamSearch(root, options, model.vocabulary) for root in roots]
    return decode(model.module, model.vocabulary, searches).rows[0]


@pytest.mark.parametrize("name", ["llama", as_slow("gemma3"), as_slow("falcon-h1"), "mamba"])
def test_rows_that_are_forked_read_what_texts_read_from_their_beginning_read(name, monkeypatch):
    """Every kind of cache beside none, with texts that are given up on the way and gone back from."""
    model, limits = make(name), sg.Limits(200)
    kinds = [sg.Regex("([a-d]{2,5} ){3,6}end"), sg.Regex("[a-z]{20,30}!")]
    banned = sg.BannedPattern("a|c ?d|[eiou] ?[eiou]")

    def found():
        batch = sg.generate(model, ["one", "another"], kinds, beams=5, guards=[banned], limits=limits, details=True)
        assert sum(run.stats.rollbacks for run in batch) > 5
        return [(kept.text, kept.score) for run in batch for kept in run.beams]

    cached = found()
    monkeypatch.setattr(loop, "forward_for", lambda module, graphs=None: WholeForward(module))
    whole = found()
    assert [text for text, _ in cached] == [text for text, _ in whole]
    assert [score for _, score in cached] == pytest.approx([score for _, score in whole], abs=1e-3)


def test_forced_text_that_is_read_along_changes_nothing_but_the_forward_passes(monkeypatch):
    """Of some searches of a batch and not of others, with beams that leave their forced text on the way."""
    model, tokenizer = load_demo()
    prompts = [f"Text: {name}, 36, lives in Lyon.\nJSON: " for name in ("Ada Moreau", "Tom Berg", "Li Wu", "Zoë")]
    kinds = [Person, sg.Regex("(one: |two: )(three|four) [a-e]{3}( and that is all of it)+"), Person, None]
    options = {"tokenizer": tokenizer, "beams": 3, "limits": sg.Limits(30), "banned": ["Moreau", "Lyon", "that is all"]}

    def found():
        runs = sg.generate(model, prompts, kinds, **options, details=True)
        return runs, [(kept.token_ids, kept.trace) for run in runs for kept in run.beams]

    along, texts = found()
    monkeypatch.setattr(SlotForward, "columns_for", Forward.columns_for)
    alone, same = found()
    assert texts == same
    assert [kept.score for run in along for kept in run.beams] == pytest.approx(
        [kept.score for run in alone for kept in run.beams], abs=1e-3
    )
    assert along[0].stats.drafted > 1
    assert alone[0].stats.drafted == 0
    (one,) = sg.generate(model, prompts[:1], Person, **options, details=True)
    assert one.stats.forwards + one.stats.drafted == max(len(kept.token_ids) for kept in one.beams)


def test_rows_with_a_cache_each_have_forced_text_read_along_too(monkeypatch):
    model, kind = make("bloom"), sg.Regex("[a-c]{3}(and so on and on){2}")

    def found():
        (run,) = sg.generate(model, ["one"], kind, beams=3, details=True)
        return run.stats.forwards, [(beam.text, round(beam.score, 3)) for beam in run.beams]

    assert isinstance(loop.forward_for(model.module), SoloForward)
    count, along = found()
    monkeypatch.setattr(SoloForward, "columns_for", Forward.columns_for)
    more, alone = found()
    assert along == alone
    assert count < more


def found_on(module, execution, device=None):
    """What two searches find, with guards that veto, in the rows of one at a time; what the host waited for."""
    model, kinds = sg.Model(module, ByteTokenizer(), byte_vocabulary()), [sg.Regex("([a-e]{2,4} ){2}end"), None]
    options = CallOptions(beams=3, limits=sg.Limits(80), guards=[sg.BannedPattern("a|ee|[^ -~]")])
    roots = prepare(model, GivenPrompts.of(["one", "two"]), kinds, options).sessions
    searches = [BeamSearch(root, sg.Beams(3), model.vocabulary) for root in roots]
    engine = Engine(module, model.vocabulary, rows=3, execution=execution)
    batch = engine.submit(searches, record=True, at_once=3)
    batch.step()
    waits = [] if device is None else device.waits
    waits.clear()  # the probe's
    for _ in range(24):
        batch.step()
    waited = set(waits)
    texts = [beam.text for search in batch.rows for beam in search.beams]
    return [(t.tokens, t.undone, t.choices(batch.ledger)[0].alternatives) for t in texts], waited


@pytest.mark.parametrize("graphs", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_beams_are_on_a_device_what_they_are_on_the_host(graphs):
    host, _ = found_on(llama(), Execution(graphs=False))
    with simulated() as device:
        there, waited = found_on(device.to_device(llama()), Execution(graphs=graphs), device)
        assert (device.replays > 0) == graphs
        assert waited <= {"transfer.py:near"}
    assert [text[:2] for text in there] == [text[:2] for text in host]
    for (*_, ours), (*_, theirs) in zip(there, host, strict=True):
        assert [token for token, _ in ours] == [token for token, _ in theirs]


def test_a_prompt_of_embeddings_is_searched_as_its_ids_are():
    """Which its own way reads, once for all beams; the others' rows are copies."""
    require_release("transformers", "5.2")
    model, ids = make(), torch.tensor([ByteTokenizer().encode("a prompt")])
    with torch.inference_mode():
        embedded = {"inputs_embeds": model.module.get_input_embeddings()(ids)}
    options = {"schema": sg.Regex("([a-e]{2,4} ){2,3}end"), "beams": 4, "details": True}
    given, read = (sg.generate(model, prompt, **options) for prompt in (embedded, "a prompt"))
    assert [kept.token_ids for kept in given.beams] == [kept.token_ids for kept in read.beams]


def test_an_encoder_decoder_model_is_searched_as_transformers_does():
    torch.manual_seed(5)
    sizes = {"d_model": 32, "d_ff": 64, "d_kv": 8, "num_heads": 4, "num_layers": 2, "vocab_size": WIDTH}
    config = hf.T5Config(**sizes, decoder_start_token_id=0, eos_token_id=END, pad_token_id=END)
    module = hf.T5ForConditionalGeneration(config).eval()
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary())
    run = sg.generate(model, "prompt", beams=3, limits=sg.Limits(8), details=True)
    given = torch.tensor([model.tokenizer.encode("prompt")])
    theirs = module.generate(given, num_beams=3, max_new_tokens=8, do_sample=False)[0, 1:].tolist()
    assert list(run.token_ids) == (theirs[: theirs.index(END) + 1] if END in theirs else theirs)


@pytest.mark.parametrize("name", ["llama", as_slow("falcon-h1")])
def test_a_batch_gives_each_prompt_what_it_gets_alone(name):
    model = make(name)
    prompts = [f"prompt {n} " + "and more " * (n % 3) for n in range(7)]
    kinds = [sg.Regex("([a-e]{2,5} ){2,4}end"), sg.Regex("[a-z]{5,30}!"), None]
    kinds = [kinds[n % 3] for n in range(7)]
    options = {"beams": 3, "limits": sg.Limits(25), "details": True}
    together = sg.generate(model, prompts, kinds, batch_size=9, **options)  # three searches at once
    for prompt, kind, one in zip(prompts, kinds, together, strict=True):
        alone = sg.generate(model, prompt, kind, **options)
        assert [kept.token_ids for kept in one.beams] == [kept.token_ids for kept in alone.beams]
        assert [kept.score for kept in one.beams] == pytest.approx([kept.score for kept in alone.beams], abs=1e-3)


def test_the_same_call_gives_the_same_texts():
    model, tokenizer = load_demo()
    options = {"tokenizer": tokenizer, "beams": 4, "limits": sg.Limits(48), "details": True}
    calls = [sg.generate(model, "Ada", Person, **options) for _ in range(2)]
    first, second = ([(kept.text, kept.score) for kept in run.beams] for run in calls)
    assert first == second


def test_no_text_of_any_beam_has_a_banned_word_that_the_model_wants_to_say():
    wanted = '{"say": "damn this damned dam, dAmn"}'
    schema = {"type": "object", "properties": {"say": {"type": "string", "minLength": 12}}, "required": ["say"]}
    for banned in (["damn"], ["damn", "dam"], ["d"], ["this", "dam", "dAm", "x", "e"]):
        run = sg.generate(scripted(wanted), "x", schema, beams=4, banned=banned, limits=sg.Limits(60), details=True)
        assert len(run.beams) == 4
        for kept in run.beams:
            assert len(json.loads(kept.text)["say"]) >= 12
            assert not any(word in kept.value["say"] for word in banned)
    assert run.stats.rollbacks == len(run.trace)
    assert run.trace
    assert all("banned word" in undone.reason for undone in run.trace)


def test_when_the_rollbacks_are_spent_the_guards_look_ahead():
    kind, guard, limits = sg.Regex("[a-e ]{10,20}"), sg.BannedPattern("[ace]"), sg.Limits(rollbacks=3)
    run = sg.generate(make(), "x", kind, beams=3, guards=[guard], limits=limits, details=True)
    assert run.stats.rollbacks == 3
    assert 3 <= len(run.trace) <= 3 + 3  # from then on each beam learns it by one more
    assert not any(set(kept.text) & set("ace") for kept in run.beams)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_it_goes_back_to_earlier_beams_where_all_are_given_up(count):
    """Behind every first letter but one, everything is refused: only going back finds the others."""
    for good in "adh":
        pattern = "|".join(f"{letter}[xy][xy]" for letter in "abcdefgh")
        guard = sg.BannedPattern(f"[^{good}][xy][xy]")
        run = sg.generate(make(), "x", sg.Regex(pattern), beams=count, guards=[guard], details=True)
        assert {kept.text[0] for kept in run.beams} == {good}
        assert len(run.beams) <= 4


def test_where_no_text_is_left_it_says_why():
    class Never(sg.Guard[bytes]):
        """Refuses every text when it is complete."""

        def start(self) -> bytes:
            return b""

        def feed(self, state: bytes, text: bytes) -> bytes:
            return state + text

        def finish(self, state: bytes) -> sg.Veto:
            return sg.Veto(len(state), "not this one")

    kind, guards = sg.Regex("[a-f]{3}[0-9]"), [Never()]
    with pytest.raises(sg.DeadEnd, match="every other way ends like this"):
        sg.generate(make(), "x", sg.Regex("[a-f]{2}[0-9]"), beams=20, guards=guards, limits=sg.Limits(rollbacks=10_000))
    with pytest.raises(sg.DeadEnd, match="rollbacks=50 are spent"):
        sg.generate(make(), "x", kind, beams=20, guards=guards, limits=sg.Limits(rollbacks=50))


def even(n: int) -> int:
    if n % 2:
        raise ValueError("odd")
    return n


class Pair(BaseModel):
    small: Annotated[int, Field(ge=0, le=99), AfterValidator(even)]
    large: Annotated[int, Field(ge=0, le=99)]

    @model_validator(mode="after")
    def ordered(self) -> Pair:
        if self.small >= self.large:
            raise ValueError("small is not smaller than large")
        return self


@pytest.mark.parametrize("seed", range(6))
def test_every_text_that_is_kept_validates(seed):
    """Also where every beam begins with a value that leaves no room for the next: it goes back to before that one."""
    run = sg.generate(make(seed=seed), "x", Pair, beams=4, details=True)
    assert run.beams
    for kept in run.beams:
        assert kept.value == Pair.model_validate_json(kept.text)
    assert {undone.pointer for undone in run.trace} <= {"", "/small"}
    assert 0 < run.stats.rollbacks <= len(run.trace)


def test_validators_are_asked_as_often_as_the_limits_allow():
    class Never(BaseModel):
        n: Annotated[int, Field(ge=0, le=999), AfterValidator(lambda n: (_ for _ in ()).throw(ValueError("never")))]

    with pytest.raises(sg.ValidationFailed, match="5 other values were refused before"):
        sg.generate(make(), "x", Never, beams=3, limits=sg.Limits(validations=5))


def test_a_bug_in_a_validator_is_told():
    class Buggy(BaseModel):
        n: Annotated[int, Field(ge=0, le=9), AfterValidator(lambda n: {}[n])]

    with pytest.raises(sg.ValidatorError, match="KeyError"):
        sg.generate(make(), "x", Buggy, beams=3)


@pytest.mark.parametrize("budget", [24, 25, 26, 28, 33, 40])
def test_a_budget_closes_every_beam_in_time(budget):
    class Said(BaseModel):
        name: str
        tags: list[str]

    for seed in range(times(3)):
        limits = sg.Limits(budget, rollbacks=500)
        run = sg.generate(make(seed=seed), "x", Said, beams=3, limits=limits, details=True)
        for kept in run.beams:
            assert kept.value == Said.model_validate_json(kept.text)
            assert len(kept.token_ids) <= budget
        assert any(kept.finish == "closed_by_budget" and kept.caps for kept in run.beams)


def test_caps_hold_in_every_beam():
    schema = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    limits = sg.Limits(60, max_items=3, max_characters=5)
    for kept in sg.generate(make(), "x", schema, beams=3, limits=limits, details=True).beams:
        assert {cap.name for cap in kept.caps} == {"max_characters", "max_items"}
        assert len(kept.value) == 3
        assert all(5 <= len(item.encode()) <= 5 + 3 for item in kept.value)  # whole characters


def test_a_stop_string_ends_a_text():
    run = sg.generate(make(), "x", beams=3, limits=sg.Limits(20, stop=("e", "a", "\x00")), details=True)
    for kept in run.beams:
        assert not set(kept.text) & set("ea\x00")


def test_forced_text_is_in_the_tokenizers_own_tokens_and_counts_with_its_probability():
    model, tokenizer = load_demo()
    prompt = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
    run = sg.generate(model, prompt, Person, tokenizer=tokenizer, beams=4, details=True)
    assert run.value == sg.generate(model, prompt, Person, tokenizer=tokenizer)
    assert run.token_ids == tuple(tokenizer.encode(run.text, add_special_tokens=False))
    for kept in run.beams:
        assert kept.score == pytest.approx(sum(kept.logprobs) / len(kept.token_ids), abs=1e-4)
        assert {"/name", "/age", "/city", ""} == set(kept.fields)


@pytest.mark.parametrize("kind", [Pair, None, sg.Regex("([a-e]{2,5} ){2,4}end")])
def test_a_stream_tells_what_all_beams_have_in_common(kind):
    model, limits = make(), sg.Limits(30)
    run = sg.generate(model, "x", kind, beams=4, limits=limits, details=True)
    text, result = "", None
    for event in sg.stream(model, "x", kind, beams=4, limits=limits):
        text = text[: event.start] + event.text
        result = event.result or result
    assert text == run.text == result.text
    assert result.beams[1:] == run.beams[1:] or [b.text for b in result.beams] == [b.text for b in run.beams]


def test_a_batch_streams_every_prompt():
    model, kinds = make(), [sg.Regex("[a-z]{5,9}!"), Pair, sg.Regex("x|y")]
    results = {event.row: event.result for event in sg.stream(model, ["a", "b", "c"], kinds, beams=3) if event.result}
    for row, kind in enumerate(kinds):
        assert results[row].text == sg.generate(model, "abc"[row], kind, beams=3, details=True).text


def test_a_prompt_that_fails_takes_no_other_with_it():
    class Never(BaseModel):
        n: Annotated[int, Field(ge=0, le=99), AfterValidator(lambda n: (_ for _ in ()).throw(ValueError("never")))]

    failed, fine = sg.generate(make(), ["x", "y"], [Never, Pair], beams=3, details=True)
    assert isinstance(failed.error, sg.ValidationFailed)
    assert fine.value.small % 2 == 0


@pytest.mark.parametrize(
    ("options", "message"),
    cases("decoding/beams/search", "what_beams_cannot_do", globals()),
)
def test_what_beams_cannot_do_is_refused_before_anything_runs(options, message):
    with pytest.raises(sg.OptionError, match=message):
        sg.generate(scripted("x"), "x", sg.Regex("x"), **{"beams": 2} | options)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_end_the_search_whose_they_are_and_no_other(value):
    """One prompt holds an id whose embedding is no number. Minus infinity is a token that no beam takes."""
    model = make()
    model.module.lm_head = Ending(model.module.lm_head, -torch.inf)
    with torch.no_grad():
        model.module.get_input_embeddings().weight[ord("@")] = value
    schema = sg.Regex("[a-f]{3,9}")
    broken, whole = sg.generate(model, ["an @ here", "none here"], schema, beams=3, details=True)
    assert isinstance(broken.error, sg.LogitsError)
    assert (broken.error.step, broken.text) == (0, "")
    alone = sg.generate(model, "none here", schema, beams=3, details=True)
    assert [each.text for each in whole.beams] == [each.text for each in alone.beams]
    assert len(whole.beams) == 3
