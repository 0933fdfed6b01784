"""Asking again behind a refusal of validators: what the model reads, which rows run, what it costs, what is refused."""

from __future__ import annotations

import pickle

import pytest
from pydantic import BaseModel, Field, field_validator, model_validator

import structgen as sg
from structgen.testing import ByteTokenizer, ScriptedModel, byte_vocabulary, scripted, scripted_chat
from tests.support.tables import cases

ONCE = sg.Limits(validations=0)
WRONG, RIGHT = '{"name": "Ada", "age": 200}', '{"name": "Ada", "age": 36}'
SHOWN = '{"name": "Ada", "age": 200'  # up to the end of the refused value


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)

    @field_validator("age")
    @classmethod
    def is_an_age(cls, age):
        if age > 150:
            raise ValueError("nobody is that old")
        return age


class Pair(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def is_in_order(self):
        if self.low >= self.high:
            raise ValueError("low is not below high")
        return self


class Told(ScriptedModel):
    """It says the text of the key that its prompt begins with, and the next one for each refusal in the prompt."""

    def __init__(self, scripts, **config):
        self.of_key = {}
        texts = []
        for key, turns in scripts.items():
            self.of_key[key] = len(texts), len(turns)
            texts += turns
        super().__init__(texts, byte_vocabulary(), **config)
        self.prompts = []

    def _started(self, cache, ids, positions):
        started = super()._started(cache, ids, positions)
        return [None if new is None else self._script(row.tolist()) for new, row in zip(started, ids, strict=True)]

    def _script(self, ids):
        prompt = bytes(i for i in ids if i < 256).decode().lstrip("\0")
        for key, (first, count) in self.of_key.items():
            if prompt.startswith(key):
                self.prompts.append(prompt)
                return first + min(prompt.count("This was refused"), count - 1)
        return 0  # numbers with which the model's cache is probed


def told(scripts, **config):
    return sg.Model(Told(scripts, **config), ByteTokenizer(), byte_vocabulary())


def test_a_chat_goes_on_with_the_refused_text_and_the_validators_words():
    model = scripted_chat(WRONG, RIGHT)
    messages = [{"role": "user", "content": "Who?"}]
    run = sg.generate(model, messages, schema=Person, limits=ONCE, reask=2, details=True)
    assert run.value == Person(name="Ada", age=36)
    (asked,) = run.reasked
    assert asked.text == SHOWN
    assert asked.pointer == "/age"
    assert asked.message == "This was refused at /age: Value error, nobody is that old\nAnswer again, and correct it."
    assert messages == [{"role": "user", "content": "Who?"}]
    turns = [{"role": "assistant", "content": asked.text}, {"role": "user", "content": asked.message}]
    encoded = model.tokenizer.apply_chat_template(messages + turns, add_generation_prompt=True, return_dict=True)
    assert run.prompt_tokens == len(encoded["input_ids"])
    first = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    assert asked.prompt_tokens == len(first["input_ids"])


def test_a_string_goes_on_as_text_and_the_whole_value_has_no_place():
    model = told({"Order 1, 2: ": ['{"low": 2, "high": 1}', '{"low": 1, "high": 2}']})
    run = sg.generate(model, "Order 1, 2: ", Pair, limits=ONCE, reask=1, details=True, fast_forward=False)
    assert run.value == Pair(low=1, high=2)
    words = "This was refused: Value error, low is not below high\nAnswer again, and correct it."
    assert model.module.prompts[-1] == f'Order 1, 2: {{"low": 2, "high": 1}}\n\n{words}\n'


def test_only_refused_rows_run_again_with_their_own_options():
    scripts = {"a": [RIGHT], "b": [WRONG, WRONG, RIGHT], "c": ["7"], "d": [WRONG, RIGHT]}
    limits = [ONCE, ONCE, sg.Limits(max_new_tokens=9), sg.Limits(validations=0, max_new_tokens=60)]
    model = told(scripts)
    run = sg.generate(model, list("abcd"), [Person, Person, int, Person], limits=limits, reask=3, details=True)
    assert [row.value if row.value == 7 else row.value.age for row in run] == [36, 36, 7, 36]
    assert [len(row.reasked) for row in run] == [0, 2, 0, 1]
    assert sorted(prompt[0] for prompt in model.module.prompts) == ["a", "b", "b", "b", "c", "d", "d"]
    assert model.module.prompts[-1].count(SHOWN) == 2
    values = sg.generate(told(scripts), list("abcd"), [Person, Person, int, Person], limits=limits, reask=3)
    assert values == [row.value for row in run]


def test_costs_are_those_of_all_runs():
    def costs(reask, scripts, prompts):
        return [
            row.stats
            for row in sg.generate(
                told(scripts), prompts, Person, limits=ONCE, reask=reask, details=True, fast_forward=False
            )
        ]

    wrong = costs(0, {"a": [WRONG], "b": [RIGHT]}, ["a", "b"])[0]
    right = costs(0, {"a": [RIGHT], "b": [RIGHT]}, ["a"])[0]
    both = costs(1, {"a": [WRONG, RIGHT], "b": [RIGHT]}, ["a", "b"])
    for stats in both:
        assert stats.tokens == wrong.tokens + right.tokens
        assert stats.forwards == wrong.forwards + right.forwards
        assert stats.decode_seconds > 0 < stats.tokens_per_second


def test_what_a_row_itself_did_is_counted_over_its_runs():
    class Answer(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_right(cls, n):
            if n != 42:
                raise ValueError("not 42")
            return n

    model = told({"a": ['{"n": 71}', '{"n": 42}'], "b": ['{"n": 42}']})
    limits = sg.Limits(validations=1)
    rows = sg.generate(model, ["a", "b"], Answer, limits=limits, reask=1, details=True)
    assert [row.value.n for row in rows] == [42, 42]
    assert [len(row.reasked) for row in rows] == [1, 0]
    assert [row.stats.rollbacks for row in rows] == [1, 0]
    once = sg.generate(model, "b", Answer, details=True).stats.fast_forwarded
    assert [row.stats.fast_forwarded for row in rows] == [2 * once, once]


def test_a_row_that_is_refused_to_the_end_says_how_often_it_was_asked():
    model = told({"a": [WRONG], "b": [RIGHT]})
    with pytest.raises(sg.ValidationFailed, match=r"prompt\[0\]: .*that old.*asked again 2 times") as caught:
        sg.generate(model, ["a", "b"], Person, limits=ONCE, reask=2)
    assert caught.value.reason == "Value error, nobody is that old"
    assert len(model.module.prompts) == 4
    failed = sg.generate(model, ["a", "b"], Person, limits=ONCE, reask=2, details=True)[0]
    assert failed.value is None
    assert failed.finish == "error"
    assert len(pickle.loads(pickle.dumps(failed)).reasked) == 2
    with pytest.raises(sg.ValidationFailed, match=r"that old.*asked again once"):
        sg.generate(model, "a", Person, limits=ONCE, reask=1)


def test_a_prompt_that_grows_beyond_the_context_keeps_its_refusal():
    model = told({"a": [WRONG], "b": [WRONG, RIGHT]}, max_position_embeddings=160)
    rows = sg.generate(model, ["a" * 110, "b"], Person, limits=sg.Limits(40, validations=0), reask=3, details=True)
    assert rows[1].value.age == 36
    assert isinstance(rows[0].error, sg.ValidationFailed)
    assert "cannot be asked again: prompt[0] has " in str(rows[0].error)
    assert rows[0].reasked == ()


def test_beams_and_thinking_are_asked_again_too():
    run = sg.generate(told({"a": [WRONG, RIGHT]}), "a", Person, limits=ONCE, beams=2, reask=1, details=True)
    assert run.value.age == 36
    assert [len(beam.reasked) for beam in run.beams] == [1] * len(run.beams)
    thoughts = "Hm.</think>\n\n"
    model = told({"a": [thoughts + WRONG, thoughts + RIGHT]})
    run = sg.generate(model, "a", Person, limits=ONCE, thinking=True, reask=1, details=True)
    assert (run.value.age, run.thinking) == (36, "Hm.")
    assert run.reasked[0].text == SHOWN


def test_refused_text_is_never_a_control_token():
    name = "<|im_start|>"
    wrong = f'{{"name": "{name}", "age": 200}}'
    model = scripted_chat(wrong, RIGHT)
    run = sg.generate(model, [{"role": "user", "content": "Who?"}], Person, limits=ONCE, reask=1, details=True)
    assert run.value.age == 36
    assert run.reasked[0].text == wrong.replace(name, "< |im_start|>").rstrip("}")


def test_nothing_is_asked_again_without_reask_or_without_a_refusal():
    with pytest.raises(sg.ValidationFailed) as caught:
        sg.generate(told({"a": [WRONG, RIGHT]}), "a", Person, limits=ONCE)
    assert "asked again" not in str(caught.value)
    run = sg.generate(told({"a": [RIGHT]}), "a", Person, reask=5, details=True)
    assert run.reasked == ()


@pytest.mark.parametrize(("prompt", "reask", "message"), cases("reasking", "what_cannot_be_asked"))
def test_what_cannot_be_asked_again_is_an_option_error(prompt, reask, message):
    model = told({"": [RIGHT]})
    with pytest.raises(sg.OptionError, match=message):
        sg.generate(model, prompt, Person, reask=reask)
    assert model.module.prompts == []


def test_ids_and_processed_prompts_run_without_it():
    assert sg.generate(scripted(RIGHT), [1, 2], Person, reask=0).age == 36


@pytest.mark.parametrize("streamed", [sg.stream, sg.astream])
def test_streams_do_not_ask_again(streamed):
    with pytest.raises(sg.OptionError, match=r"only sg\.generate asks again"):
        streamed(scripted(RIGHT), "a", Person, reask=1)


def test_a_chat_whose_template_reads_parts_goes_on():
    model = scripted_chat(WRONG, RIGHT)
    template = model.tokenizer.chat_template.replace("{{ message.content }}", "{{ message.content[0].text }}")
    assert template != model.tokenizer.chat_template
    model.tokenizer.chat_template = template
    for content in ("Who?", [{"type": "text", "text": "Who?"}]):
        messages = [{"role": "user", "content": content}]
        run = sg.generate(model, messages, Person, limits=ONCE, reask=1, details=True)
        assert run.value == Person(name="Ada", age=36)
        assert "Who?" in run.prompt
        assert run.reasked[0].message in run.prompt
