"""`generate` from outside, on a scripted model: prompts and schemas of every kind, errors, batches.

Covers `decoding.generation` and `decoding.grammars`.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import pickle

import pytest
import torch
from pydantic import BaseModel, field_validator
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

import structgen as sg
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary, scripted
from tests.support.judges import even
from tests.support.tables import cases

PARIS = '{"name": "Paris", "population": 2100000}'
ROME = '{"name": "Rome", "population": 2750000}'


class City(BaseModel):
    name: str
    population: int


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def is_even(cls, n: int) -> int:
        return even(n)


def tiny(**config: int) -> LlamaForCausalLM:
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{"vocab_size": 257, "max_position_embeddings": 64, **sizes, **config}))


def test_a_type_gives_a_value_of_that_type():
    city = sg.generate(scripted(PARIS), "Tell me about Paris.", schema=City)
    assert city == City(name="Paris", population=2100000)


def test_the_constraint_holds_against_what_the_model_wants():
    """A model that wants to chat says it inside of the schema, as a value that parses."""
    city = sg.generate(scripted("Sure! 42 is my answer."), "?", schema=City, limits=sg.Limits(max_new_tokens=400))
    assert isinstance(city, City)


@dataclasses.dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(("schema", "text", "value"), cases("api", "every_kind_of_schema", globals()), ids=str)
def test_every_kind_of_schema_gives_its_kind_of_value(schema, text, value):
    assert sg.generate(scripted(text), "prompt", schema=schema) == value


@pytest.mark.parametrize("prompt", ["text", [116, 101], [{"role": "user", "content": "hello"}]], ids=str)
def test_every_kind_of_prompt_alone_and_in_a_list(prompt):
    model = scripted([PARIS, ROME])
    assert sg.generate(model, prompt, schema=City).name == "Paris"
    assert [city.name for city in sg.generate(model, [prompt, prompt], schema=City)] == ["Paris", "Rome"]


def test_chat_messages_go_through_the_template_with_the_generation_prompt():
    messages = [{"role": "user", "content": "hi"}]
    run = sg.generate(scripted(PARIS), messages, schema=City, details=True)
    assert run.prompt_tokens == len("user: hi\nassistant: ")


def test_details_say_what_happened():
    model = scripted(PARIS)
    run = sg.generate(model, "abc", schema=City, details=True)
    assert (run.value.name, run.text, run.finish, run.error) == ("Paris", PARIS, "complete", None)
    assert bytes(run.token_ids).decode() == PARIS
    assert run.prompt_tokens == 3
    assert len(run.logprobs) == len(PARIS)
    asked = [value for value in run.logprobs if value == value]  # forced tokens have none
    assert all(-1e-3 < value <= 0 for value in asked)
    assert len(asked) == len(PARIS) - run.stats.fast_forwarded
    assert (run.stats.forwards, run.stats.tokens, run.stats.rollbacks) == (len(asked), len(PARIS), 0)
    assert run.stats.tokens_per_second > 0


def test_finish_tells_end_complete_and_length_apart():
    def finish(text, schema=None, n=50):
        return sg.generate(scripted(text), "x", schema=schema, limits=sg.Limits(n), details=True).finish

    assert finish("some words") == "end"
    assert finish("some words", n=4) == "length"
    assert finish("12", sg.Regex("[0-9]{2}")) == "complete"
    assert finish("12", sg.Regex("[0-9]{1,8}")) == "end"
    assert finish("1234567", sg.Regex("[0-9]{1,8}"), n=3) == "closed_by_budget"


def test_the_end_token_is_in_token_ids_and_not_in_text():
    run = sg.generate(scripted("ab"), "x", details=True)
    assert (run.text, run.token_ids) == ("ab", (97, 98, 256))


def test_a_spent_budget_raises_with_the_partial_text_where_that_is_asked_for():
    long = '{"name": "%s", "population": 1}' % ("x" * 80)
    with pytest.raises(sg.BudgetExhausted, match="max_new_tokens=40") as caught:
        sg.generate(scripted(long), "x", schema=City, limits=sg.Limits(max_new_tokens=40, strict=True))
    assert caught.value.text == long[:40]


def test_the_end_of_the_context_is_a_budget_too():
    """A prompt of the whole context leaves one token; no forward ever reads past it."""
    model = scripted("abcdef", max_position_embeddings=8)
    assert sg.generate(model, "12345678") == "a"
    assert sg.generate(model, "12345") == "abcd"
    with pytest.raises(
        sg.OptionError, match="the model's context, tokens left=4: the shortest text known needs 6 tokens"
    ):
        sg.generate(model, "12345", schema=sg.Regex("[a-f]{6}"))
    run = sg.generate(model, "12345", schema=sg.Regex("[a-f]{2,6}!"), details=True)
    assert (run.text, run.finish, run.caps) == ("abc!", "closed_by_budget", (sg.Cap("context", "", 4),))


def test_one_failed_row_leaves_the_others_alone():
    """The long text runs out of budget; without details it raises when all rows are done, saying which."""
    long = '{"name": "%s", "population": 1}' % ("x" * 80)
    model = scripted([PARIS, long, ROME])
    options = {"schema": City, "limits": sg.Limits(max_new_tokens=60, strict=True)}
    rows = sg.generate(model, ["a", "bb", "ccc"], details=True, **options)
    assert [row.value and row.value.name for row in rows] == ["Paris", None, "Rome"]
    assert [row.finish for row in rows] == ["complete", "error", "complete"]
    assert isinstance(rows[1].error, sg.BudgetExhausted)
    assert rows[1].text == long[:60]
    with pytest.raises(sg.BudgetExhausted, match=r"prompt\[1\]") as caught:
        sg.generate(model, ["a", "bb", "ccc"], **options)
    assert caught.value.text == long[:60]


def test_a_value_that_the_type_itself_refuses_is_said_anew_or_a_run_error():
    assert sg.generate(scripted('{"n": 3}'), "x", schema=Even).n % 2 == 0
    with pytest.raises(sg.ValidationFailed, match="odd"):
        sg.generate(scripted('{"n": 3}'), "x", schema=Even, limits=sg.Limits(validations=0))


def test_a_seed_gives_the_same_text_whatever_the_batch_mates():
    model = sg.Model(tiny(), ByteTokenizer(), byte_vocabulary())
    hot = sg.Sampling(temperature=1.5, seed=5)
    alone = sg.generate(model, "abc", sampling=hot, limits=sg.Limits(20))
    assert sg.generate(model, "abc", sampling=hot, limits=sg.Limits(20)) == alone
    assert sg.generate(model, "abc", sampling=sg.Sampling(temperature=1.5, seed=6), limits=sg.Limits(20)) != alone
    mates = [sg.Sampling(), hot, sg.Sampling(temperature=0.7, top_p=0.9, seed=1)]
    assert sg.generate(model, ["z", "abc", "longer than that"], sampling=mates, limits=sg.Limits(20))[1] == alone


def test_a_bare_transformers_model_takes_its_tokenizer_and_keeps_its_vocabulary(small_bpe):
    module = tiny(vocab_size=len(small_bpe))
    assert sg.generate(module, "a", schema=sg.Choice(["yes", "no"]), tokenizer=small_bpe) in ("yes", "no")
    assert sg.Model.of(module, small_bpe).vocabulary is sg.Model.of(module, small_bpe).vocabulary


def test_end_tokens_and_tokens_that_are_set_later_count(small_bpe):
    """The vocabulary is kept, but not beyond a change of what it was made of."""
    module, tokenizer = tiny(vocab_size=len(small_bpe)), copy.deepcopy(small_bpe)
    way = sg.Limits(max_new_tokens=12)
    first = sg.generate(module, "x", tokenizer=tokenizer, limits=way, details=True).token_ids
    assert len(first) == 12
    module.generation_config.eos_token_id = [tokenizer.eos_token_id, first[5]]
    run = sg.generate(module, "x", tokenizer=tokenizer, limits=way, details=True)
    assert run.token_ids == first[: first.index(first[5]) + 1]
    assert run.finish == "end"
    tokenizer.add_special_tokens({"additional_special_tokens": ["<now>"]})
    module.resize_token_embeddings(len(tokenizer))
    said = sg.generate(module, "x", sg.Sequence("a", sg.SpecialToken("<now>")), tokenizer=tokenizer, details=True)
    assert said.token_ids[-1] == tokenizer.convert_tokens_to_ids("<now>")


def test_a_generation_can_be_sent_to_another_process():
    run = sg.generate(scripted('[1, "a"]'), "x", {"type": "array"}, details=True)
    twin = pickle.loads(pickle.dumps(run))
    assert twin.fields == run.fields
    assert set(twin.fields) == {"/0", "/1", ""}
    assert [twin.value, twin.text, twin.token_ids, twin.caps] == [run.value, run.text, run.token_ids, run.caps]


def test_the_grammar_of_a_schema_is_compiled_once():
    from structgen.decoding.grammars import grammar_for

    vocabulary = byte_vocabulary()
    schema = {"type": "integer"}
    first = grammar_for(sg.JsonSchema(schema), vocabulary)
    assert grammar_for(sg.JsonSchema({"type": "integer"}), vocabulary) is first
    schema["minimum"] = 3
    assert grammar_for(sg.JsonSchema(schema), vocabulary) is not first
    assert grammar_for(sg.JsonSchema(City), vocabulary) is grammar_for(sg.JsonSchema(City), vocabulary)
    assert grammar_for(sg.JsonSchema(City), byte_vocabulary(width=300)) is not grammar_for(
        sg.JsonSchema(City), vocabulary
    )


def test_grammars_are_forgotten_by_number_and_by_size(monkeypatch):
    from structgen.decoding import grammars

    vocabulary = byte_vocabulary()

    def again(count):
        """How many of so many schemas are still known when all have come."""
        schemas = [sg.JsonSchema({"const": f"{count} {i}"}) for i in range(count)]
        first = [grammars.grammar_for(schema, vocabulary) for schema in schemas]
        for grammar in first:
            grammar.mask(grammar.start)
        return sum(grammars.grammar_for(s, vocabulary) is g for s, g in zip(schemas[::-1], first[::-1], strict=True))

    assert again(100) == 100
    assert again(grammars.REMEMBERED + 1) == grammars.REMEMBERED
    kept = next(iter(grammars._grammars.values()))
    size = kept.held() + kept.grammar.mask_nbytes
    assert size > kept.grammar.nbytes + 10_000, "objects count, too"
    monkeypatch.setattr(grammars, "REMEMBERED_BYTES", 8 * size)
    assert 4 <= again(20) <= 8
    monkeypatch.setattr(grammars, "REMEMBERED_BYTES", size // 2)
    assert again(3) == 0, "a grammar larger than the cache is not kept"


def test_what_all_grammars_of_a_vocabulary_share_counts_for_none():
    from structgen.decoding import grammars
    from structgen.endings.closing import Closing

    grammar = grammars.grammar_for(sg.JsonSchema({"const": "shared"}), byte_vocabulary())
    speller = Closing.of(grammar).speller
    before = grammars._bytes_of([grammar])
    speller._ids.update({bytes(9) + bytes([i]): i for i in range(256)})
    assert grammars._bytes_of([grammar]) == before


@pytest.mark.parametrize(("arguments", "message"), cases("api", "bad_input_is_an", globals()))
def test_bad_input_is_an_option_error_before_any_forward(arguments, message):
    model = scripted("anything", max_position_embeddings=64)
    calls = []
    model.module.register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(sg.OptionError, match=message):
        sg.generate(**{"model": model, "prompt": "hello", **arguments})
    assert calls == []


@pytest.mark.parametrize("schema", cases("api", "a_bad_schema_is", globals()))
def test_a_bad_schema_is_a_request_error_before_any_forward(schema):
    model = scripted("anything")
    calls = []
    model.module.register_forward_pre_hook(lambda *_: calls.append(1))
    with pytest.raises(sg.RequestError):
        sg.generate(model, "hello", schema=schema)
    assert calls == []


def test_a_tokenizer_without_an_end_token_is_a_vocabulary_error(small_bpe):
    module = tiny(vocab_size=len(small_bpe), eos_token_id=None)
    module.generation_config.eos_token_id = None
    small_bpe.eos_token = None
    with pytest.raises(sg.VocabularyError, match="end"):
        sg.generate(module, "hello", tokenizer=small_bpe)


def test_an_encoder_decoder_model_reads_the_prompt_with_its_encoder(tmp_path, small_bpe):
    """T5, loaded from disk: typed values alone and in a batch, each row what it says alone."""
    torch.manual_seed(1)
    config = T5Config(
        vocab_size=len(small_bpe), d_model=8, d_kv=4, d_ff=8, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    small_bpe.save_pretrained(tmp_path)
    model = sg.load(tmp_path)
    options = {"schema": sg.Regex("[a-c]{2,5}(x|yes)"), "limits": sg.Limits(20)}
    prompts = ["The city", "and its population"]
    both = sg.generate(model, prompts, **options)
    assert both == [sg.generate(model, prompt, **options) for prompt in prompts]
    model.module.config.decoder_start_token_id = model.module.generation_config.decoder_start_token_id = None
    with pytest.raises(sg.OptionError, match="decoder_start_token_id"):
        sg.generate(model, "The city")


def test_no_prompts_give_no_values():
    """As a list that a program has filtered may be; nothing runs."""
    model = scripted("anything")
    calls = []
    model.module.register_forward_pre_hook(lambda *_: calls.append(1))
    for options in ({}, {"schema": City}, {"schema": []}, {"details": True}, {"beams": 3, "schema": City}):
        assert sg.generate(model, [], **options) == []
    assert list(sg.stream(model, [], City)) == []

    async def events():
        return [event async for event in sg.astream(model, [], City)]

    assert asyncio.run(events()) == []
    assert calls == []


def test_each_prompt_of_a_list_has_its_own_schema_limits_and_sampling():
    model = scripted([PARIS, "some words", "12"])
    values = sg.generate(
        model,
        ["a", "b", "c"],
        schema=[City, None, sg.Regex("[0-9]+")],
        limits=[sg.Limits(), sg.Limits(4), sg.Limits(9)],
        sampling=[sg.Sampling(), sg.Sampling(temperature=0.01, seed=0), sg.Sampling()],
    )
    assert values == [City(name="Paris", population=2100000), "some", "12"]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 64])
def test_waiting_prompts_take_the_rows_that_become_free(batch_size):
    """Seven prompts of different lengths through few rows: every one gets its own answer, in its own place."""
    texts = ["word " * (n % 4) + str(n) for n in range(7)]
    run = sg.generate(scripted(texts), ["?"] * 7, batch_size=batch_size, details=True)
    assert [row.value for row in run] == texts
    assert all(row.finish == "end" for row in run)


def test_several_samples_of_one_prompt_differ_and_can_be_had_again():
    model = sg.Model(tiny(), ByteTokenizer(), byte_vocabulary())
    ways = sg.Sampling(temperature=1.5, seed=5).several(4)
    options = {"sampling": ways, "limits": sg.Limits(12)}
    samples = sg.generate(model, ["abc"] * 4, **options)
    assert len(set(samples)) == 4
    assert sg.generate(model, ["abc"] * 4, **options) == samples
    with pytest.raises(sg.OptionError, match="temperature"):
        sg.Sampling().several(2)


def test_a_stop_string_ends_plain_text_before_it_and_is_refused_with_a_schema():
    model = scripted("one. two. three.")
    run = sg.generate(model, "x", limits=sg.Limits(stop=("three", ". t")), details=True)
    assert (run.value, run.finish) == ("one", "stop")
    assert bytes(run.token_ids) == b"one. t"
    assert sg.generate(model, "x", limits=sg.Limits(stop=("never",))) == "one. two. three."
    with pytest.raises(sg.OptionError, match="stop"):
        sg.generate(model, "x", schema=City, limits=sg.Limits(stop=("a",)))


def test_a_scripted_model_speaks_any_vocabulary(small_bpe):
    """The fake says its text through a real tokenizer, with as few tokens as the longest ones allow."""
    vocabulary = sg.Vocabulary.from_tokenizer(small_bpe)
    model = sg.Model(ScriptedModel(PARIS, vocabulary), small_bpe, vocabulary)
    run = sg.generate(model, "Tell me", schema=City, details=True)
    assert run.text == PARIS
    assert len(run.token_ids) < len(PARIS) / 2
    assert sg.generate(model, "Tell me") == PARIS
