"""Thinking before an answer: told apart, bounded, and read only once.

Covers `call_options`, `confidence` and `request`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pydantic import BaseModel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import structgen as sg
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.request import CallOptions, prepare
from structgen.demo import load_demo
from structgen.errors import DeadEnd, OptionError
from structgen.given_prompts import GivenPrompts
from structgen.models.model import Model, as_model
from structgen.testing import ScriptedModel, scripted
from structgen.vocabulary import Vocabulary
from tests.support.small_tokenizers import byte_level_bpe


class City(BaseModel):
    name: str
    people: int


ANSWER = '{"name": "Rome", "people": 3}'
SAID = 'He asks for a "city". {"no": 1}\n</think>\n\n' + ANSWER
THOUGHT = 'He asks for a "city". {"no": 1}\n'


def test_the_value_is_the_answer_and_the_thinking_is_apart():
    run = sg.generate(scripted(SAID), "A city?", City, thinking=True, details=True)
    assert run.value == City(name="Rome", people=3)
    assert (run.thinking, run.text, run.finish) == (THOUGHT, ANSWER, "complete")
    assert (bytes(run.thinking_ids), run.thinking_trace) == ((THOUGHT + "</think>").encode(), ())
    assert "".join(token.text for token in run.thinking_trace.tokens) == THOUGHT + "</think>"
    assert "".join(token.text for token in run.trace.tokens) == run.text
    assert run.prompt_tokens == len("A city?")
    assert list(run.fields) == ["/name", "/people", ""]
    assert run.stats.tokens == len(run.token_ids) + len(THOUGHT + "</think>")
    assert sg.generate(scripted(SAID), "A city?", City, thinking=True) == run.value
    assert sg.generate(scripted(SAID), "A city?", thinking=True) == ANSWER


def test_without_thinking_there_is_none():
    run = sg.generate(scripted(ANSWER), "A city?", City, details=True)
    assert run.thinking is None


@pytest.mark.parametrize("prompt", ["A city? <think>\n", "A city? <think>", [{"role": "user", "content": "A city?"}]])
def test_a_prompt_that_opens_the_tag_is_not_opened_again(prompt):
    """The model reads the tag once, whoever wrote it."""
    request = prepare(scripted(SAID), GivenPrompts.of(prompt), City, CallOptions(thinking=True))
    thought = request.sessions[0].thinking
    assert bytes(thought.row.ids).decode().count("<think>") == 1
    assert sg.generate(scripted(SAID), prompt, City, thinking=True).name == "Rome"


def test_a_prompt_that_closes_the_tag_is_answered():
    run = sg.generate(scripted(ANSWER), "A city? <think>\n\n</think>\n\n", City, thinking=True, details=True)
    assert (run.thinking, run.value.name) == (None, "Rome")


def test_a_stream_tells_the_thinking_first():
    events = list(sg.stream(scripted(SAID), "A city?", City, thinking=True))
    thoughts, answers = [e for e in events if e.thinking], [e for e in events if not e.thinking]
    assert events == thoughts + answers
    assert "".join(e.text for e in thoughts) == THOUGHT
    assert "".join(e.text for e in answers) == ANSWER
    assert all(e.path is None and e.partial is None for e in thoughts)
    assert [e.path for e in answers if e.path is not None] == ["/name", "/people", ""]
    for told in (thoughts, answers[:-1]):
        assert [e.start for e in told] == [sum(len(e.text) for e in told[:i]) for i in range(len(told))]
    assert events[-1].result.thinking == THOUGHT


def test_a_partial_tag_is_no_end():
    said = "a</thin</think>\n\n" + ANSWER
    run = sg.generate(scripted(said), "x", City, thinking=True, details=True)
    assert (run.thinking, run.text) == ("a</thin", ANSWER)


def test_too_much_thinking_is_closed_and_reported():
    model = scripted("I think and think" + ANSWER)
    run = sg.generate(model, "x", City, thinking=sg.Thinking(max_tokens=7), details=True)
    assert run.thinking == "I think"
    assert isinstance(run.value, City)
    assert [(cap.name, cap.pointer, cap.limit) for cap in run.caps] == [("thinking.max_tokens", "", 7)]
    short = sg.generate(scripted(SAID), "x", City, thinking=True, limits=sg.Limits(40), details=True)
    assert (short.value.name, short.caps) == ("Rome", ())


@pytest.mark.parametrize(("share", "thought", "answered"), [(0.25, 66, 25), (0.6, 36, 55)])
def test_in_a_short_context_the_answer_keeps_its_share(share, thought, answered):
    """Of the 91 places behind prompt and tags. 25 tokens close any answer; what is not thought is the answer's."""
    way, limits = sg.Thinking(answer_share=share), sg.Limits(500)

    def run(said):
        model = scripted(said, max_position_embeddings=110)
        return sg.generate(model, "x", City, thinking=way, limits=limits, details=True)

    name = '{"name": "' + "R" * 200
    long = run("I think " * 99 + "</think>\n\n" + name)
    assert len(long.thinking_ids) == thought
    assert len(long.token_ids) in (answered, answered + 1)
    assert isinstance(long.value, City)
    assert [(cap.name, cap.pointer) for cap in long.caps[:2]] == [("thinking.max_tokens", ""), ("context", "/name")]
    short = run("so</think>\n\n" + name)
    assert len(short.token_ids) > 75
    assert isinstance(short.value, City)
    assert run(SAID).value.name == "Rome"


def test_tags_of_other_models():
    tags = sg.Thinking(opening="[THINK]", closing="[/THINK]")
    said = "hm [/think] no[/THINK]" + ANSWER
    run = sg.generate(scripted(said), "x", City, thinking=tags, details=True)
    assert (run.thinking, run.text) == ("hm [/think] no", ANSWER)


def test_every_row_thinks_as_it_was_told():
    said = [SAID, ANSWER, "so</think>\n\n" + ANSWER, "on and on" + ANSWER]
    ways = [True, False, True, sg.Thinking(max_tokens=2)]
    for size in (4, 1):
        runs = sg.generate(scripted(said), list("abcd"), City, thinking=ways, details=True, batch_size=size)
        assert [run.thinking for run in runs] == [THOUGHT, None, "so", "on"]
        assert [run.value.name for run in runs[:3]] == ["Rome"] * 3


def test_a_guard_of_the_whole_text_sees_the_thinking_and_one_of_strings_does_not():
    model = 'Rome is "Rome"</think>\n\n{"name": "Rome", "people": 3}'
    run = sg.generate(scripted(model), "x", City, thinking=True, guards=[sg.BannedWords(["Rome"])], details=True)
    assert "Rome" not in run.thinking + run.text
    assert {undone.text for undone in run.thinking_trace} == {"Rome"}
    run = sg.generate(scripted(model), "x", City, thinking=True, banned=["Rome"], details=True)
    assert run.thinking == 'Rome is "Rome"'
    assert "Rome" not in run.text


def test_a_thought_that_fails_fails_its_row_alone():
    class Answers(sg.Guard):
        """Nothing but the answer: no closing tag either."""

        def start(self):
            return b""

        def feed(self, state, text):
            return state + text if ANSWER.encode().startswith(state + text) else sg.Veto(len(state), "no answer")

    both = [[Answers()], []]
    said = [SAID, SAID]
    runs = sg.generate(scripted(said), ["a", "b"], City, thinking=[True, True], guards=both, details=True)
    assert isinstance(runs[0].error, DeadEnd)
    assert (runs[1].error, runs[1].thinking) == (None, THOUGHT)


@pytest.fixture
def controlled(small_bpe):
    """A tokenizer whose tags are tokens of their own, which are no text, and a model that says them."""
    tokenizer: PreTrainedTokenizerFast = small_bpe
    tokenizer.add_tokens(["<think>", "</think>"])
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    open_id, close_id = tokenizer.convert_tokens_to_ids(["<think>", "</think>"])
    assert {open_id, close_id} <= vocabulary.special_ids
    tokens = [vocabulary.token(i) or None for i in range(vocabulary.width)]
    tokens[open_id], tokens[close_id] = b"<think>", b"</think>"
    spoken = Vocabulary.from_tokens(tokens, vocabulary.end_ids)
    return lambda text: Model(ScriptedModel(text, spoken), tokenizer, vocabulary), open_id, close_id


def test_a_closing_tag_that_is_no_text_is_allowed_where_its_text_would_be(controlled):
    make, open_id, close_id = controlled
    run = sg.generate(make(SAID), "the city", City, thinking=True, details=True)
    assert (run.thinking, run.text) == (THOUGHT, ANSWER)
    thought = prepare(make(SAID), GivenPrompts.of("the city"), City, CallOptions(thinking=True)).sessions[0].thinking
    assert thought.row.ids.count(open_id) == 1
    cut = sg.generate(make("on and on" + ANSWER), "the city", City, thinking=sg.Thinking(max_tokens=3), details=True)
    assert [cap.limit for cap in cut.caps] == [3]
    assert run.thinking_ids[-1] == close_id
    assert close_id not in cut.thinking_ids
    plain = sg.generate(make("</think>" + ANSWER), "the city", City, details=True)
    assert close_id not in plain.token_ids  # in an answer it is none
    banned = sg.generate(make("x </think>" + SAID), "the city", City, thinking=True, guards=[Least()], details=True)
    assert len(banned.thinking) >= 9
    assert close_id not in banned.token_ids


class Least(sg.Guard):
    """A text of at least nine bytes."""

    def start(self):
        return 0

    def feed(self, state, text):
        return state + len(text)

    def finish(self, state):
        return sg.Veto(state, "too short") if state < 9 else None


@pytest.mark.parametrize("overlap", [False, True])
def test_the_answer_is_what_the_model_says_behind_prompt_and_thinking(overlap):
    """A real model, greedy: its cache goes on where the thinking ended, in rows that end at different times."""
    module, tokenizer = load_demo()
    prompts = ["Extract the city.\nText: Rome, 3.\nJSON: ", "Text: Ada Moreau, 36, lives in Lyon.\nJSON: ", "Lyon"]
    ways = [sg.Thinking(max_tokens=n) for n in (5, 12, 30)]
    owner = as_model(module, tokenizer)
    request = prepare(owner, GivenPrompts.of(prompts), City, CallOptions(thinking=ways, limits=sg.Limits(60)))
    batch = decode(owner.module, owner.vocabulary, request.sessions, rows=2, execution=Execution(overlap=overlap))
    for row, session in enumerate(request.sessions):
        said = list(session.row.ids[: len(session.row.ids) - len(session.tokens)])
        alone = sg.generate(module, said, City, tokenizer=tokenizer, limits=sg.Limits(60), details=True)
        assert request.result(row, batch).text == alone.text
        assert len(session.thinking.tokens) <= ways[row].max_tokens


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(OptionError, match="thinking='yes': expected True, False or Thinking"):
        sg.generate(scripted(SAID), "x", City, thinking="yes")
    with pytest.raises(OptionError, match="thinking has 3 entries for 2 prompts"):
        sg.generate(scripted(SAID), ["x", "y"], City, thinking=[True] * 3)
    with pytest.raises(OptionError, match="closing='  ': expected a tag"):
        sg.Thinking(closing="  ")
    with pytest.raises(OptionError, match=r"the answer keeps 25: no room to think is left; .*answer_share"):
        sg.generate(scripted(SAID, max_position_embeddings=44), "x", City, thinking=True, limits=sg.Limits(50))
    with pytest.raises(OptionError, match=r"answer_share=1\.5: expected a number from 0 to 1"):
        sg.Thinking(answer_share=1.5)
    assert replace(sg.Thinking(), max_tokens=3).max_tokens == 3


def test_an_answer_that_is_forced_as_a_whole_is_thought_about_first():
    """Nothing is left to choose of it; the thinking was left out, and a stream waited for it forever."""
    model = scripted("so it is</think>\n\na")
    run = sg.generate(model, "p", sg.Choice(["a"]), thinking=True, details=True)
    assert (run.value, run.thinking) == ("a", "so it is")
    events = list(sg.stream(model, "p", sg.Choice(["a"]), thinking=True))
    assert "".join(event.text for event in events if event.thinking) == "so it is"
    assert events[-1].result is not None
    assert (events[-1].result.value, events[-1].result.thinking) == ("a", "so it is")


HARMONY = """{% for m in messages %}<|start|>{{ m.role }}{% if m.reasoning %}<|channel|>analysis<|message|>\
{{ m.reasoning }}<|end|><|start|>assistant{% endif %}{% if m.role == "assistant" %}<|channel|>final{% endif %}\
<|message|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"""


@pytest.fixture
def harmony():
    """A tokenizer whose chat template closes thinking with two special tokens, as every turn ends."""
    tokenizer = byte_level_bpe(["assistant final analysis"] * 9, 300)
    names = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": names})
    tokenizer.chat_template = HARMONY
    return tokenizer


def test_marks_of_several_special_tokens_are_those_of_the_chat_template(harmony):
    """The first token of the closing mark ends the thinking, the rest is fed."""
    vocabulary = Vocabulary.from_tokenizer(harmony)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    module = LlamaForCausalLM(LlamaConfig(vocab_size=len(harmony), max_position_embeddings=256, **sizes)).eval()
    model = Model(module, harmony, vocabulary)
    messages = [{"role": "user", "content": "Which?"}]
    options = CallOptions(thinking=sg.Thinking(max_tokens=5), limits=sg.Limits(20))
    request = prepare(model, GivenPrompts.of(messages), sg.Choice(["yes", "no"]), options)
    before = request.sessions[0].thinking
    assert before is not None
    assert harmony.decode(before.prompt).endswith("<|start|>assistant<|channel|>analysis<|message|>")
    end = harmony.convert_tokens_to_ids("<|end|>")
    assert before.matcher is not None
    words = before.matcher.mask()
    assert words[end // 32] >> (end % 32) & 1  # the model may end its thinking now
    result = request.results(record=False)[0]
    assert result.value in ("yes", "no")
    assert result.thinking is not None
    read = harmony.decode(request.sessions[0].row.ids)
    assert "<|end|><|start|>assistant" in read[read.index("analysis") :]


def test_a_template_says_by_its_end_whether_thinking_is_over(harmony):
    """Every turn ends like a closing mark: only one with an opening mark before it says that."""
    vocabulary = Vocabulary.from_tokenizer(harmony)
    model = Model(ScriptedModel("", vocabulary), harmony, vocabulary)

    def thinks(messages) -> bool:
        request = prepare(model, GivenPrompts.of(messages), sg.Choice(["yes", "no"]), CallOptions(thinking=True))
        return request.sessions[0].thinking is not None

    user = {"role": "user", "content": "Which?"}
    assert thinks([user])
    assert thinks([user, {"role": "assistant", "reasoning": "Hm.", "content": "That."}, user])
    ids = harmony.encode("<|start|>assistant<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant")
    assert not thinks(ids)
