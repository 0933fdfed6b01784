"""Guards in the decode loop: what is sent back, what it costs, and what never comes out.

Covers `json_text.strings`, `lookahead` and `protocol`.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cache

import pytest
import torch
from jsonschema import Draft202012Validator
from transformers import AutoModelForCausalLM, LlamaConfig, MambaConfig

import structgen as sg
from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.session import Session
from structgen.guards import BannedWords, Guard, Veto
from structgen.testing import ScriptedModel, byte_vocabulary, scripted, veto_of
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases
from tests.support.thinning import thinned


def test_a_banned_word_is_undone_and_the_model_goes_on_from_its_first_token():
    """The trace tells what was said; the token that began it is banned there, and the rest is the model's."""
    result = sg.generate(scripted(["ab talk"]), "x", sg.Regex("ab [stw]alk"), banned=["talk"], details=True)
    assert result.text == "ab salk"
    assert [(u.tokens, u.text, u.reason) for u in result.trace] == [(3, "talk", "banned word 'talk'")]
    assert result.stats.rollbacks == 1


def test_choosing_again_where_the_logits_are_known_costs_no_forward():
    """A veto of the very token that was chosen is answered from the same logits."""
    plain = sg.generate(scripted("b"), "x", sg.Regex("[bc]d"), details=True)
    guarded = sg.generate(scripted("b"), "x", sg.Regex("[bc]d"), banned=["b"], details=True)
    assert guarded.text == "cd"
    assert guarded.stats.forwards == plain.stats.forwards


@pytest.mark.parametrize("rollbacks", [0, 256])
def test_a_name_that_the_model_invents_has_no_banned_word(rollbacks):
    """A declared one may; so may the name of a type's member."""
    schema = {"type": "object", "properties": {"talk": {"type": "integer"}}, "required": ["talk"]}
    script = scripted('{"talk": 1, "small talks": 3, "b": "talk"}')
    limits = sg.Limits(80, rollbacks=rollbacks)
    value = sg.generate(script, "x", schema, banned=["talk"], limits=limits, details=True).value
    assert value.pop("talk") == 1
    assert value
    assert "talk" not in str(value)
    talk = dataclasses.make_dataclass("Talk", [("talk", int)])
    assert sg.generate(scripted('{"talk": 1}'), "x", talk, banned=["talk"]).talk == 1


def test_a_banned_word_may_begin_in_the_prompt():
    """Each prompt of a batch has its own begin, as text or as tokens."""
    model, guard = scripted("lk to me"), BannedWords(["talk"], across_prompt=True)
    prompts = ["Let us ta", "Let us wa", [*b"Let us ta"]]
    texts = sg.generate(model, prompts, guards=[guard], limits=sg.Limits(8))
    assert [text.startswith("lk") for text in texts] == [False, True, False]
    assert sg.generate(model, prompts[0], guards=[BannedWords(["talk"])], limits=sg.Limits(8)) == "lk to me"


@pytest.mark.parametrize("rollbacks", [0, 1, 5, 256])
@pytest.mark.parametrize("options", [{}, {"whole_word": True}, {"ignore_case": True, "any_space": True}])
def test_a_model_that_wants_nothing_else_never_gets_it_out_and_ends(rollbacks, options):
    """The script repeats the words for ever; whatever the budget, the run ends without them."""
    guard = BannedWords(["talk", "listen to"], **options)
    limits = sg.Limits(60, rollbacks=rollbacks)
    result = sg.generate(scripted("talk listen to " * 9), "x", guards=[guard], limits=limits, details=True)
    assert len(result.token_ids) <= 60
    assert result.stats.rollbacks <= rollbacks
    state = guard.feed(guard.start(), result.text.encode())
    assert not isinstance(state, Veto)
    assert guard.finish(state) is None


@pytest.mark.parametrize("schema", cases("guards/loop", "where_the_schema_forces", globals()))
@pytest.mark.parametrize("rollbacks", thinned([0, 1, 256], 2))
def test_where_the_schema_forces_a_banned_word_the_error_names_both(schema, rollbacks):
    scope, place = "text", "requires 'talk[.]'"
    if isinstance(schema, dict):
        scope, place = "strings", "at /1, which requires"
    guard = BannedWords(["talk"], ignore_case=True, scope=scope)
    message = f"banned word 'talk' conflicts with the constraint.*{place}|{place}.*banned word 'talk'"
    with pytest.raises(sg.DeadEnd, match=message):
        sg.generate(scripted('["so", "walk"'), "x", schema, guards=[guard], limits=sg.Limits(rollbacks=rollbacks))


WORD = {"enum": ["talk", "listen"]}


@pytest.mark.parametrize(("schema", "place", "scope"), cases("guards/loop", "what_a_schema_forces", globals()))
def test_what_a_schema_forces_and_a_guard_refuses_is_told_with_its_place(schema, place, scope):
    """Behind free values too; with one way left for each of them there is nothing to refuse."""
    schema = schema | {"type": "object"} if isinstance(schema, dict) else schema
    with pytest.raises(sg.DeadEnd, match=f"banned word '(talk|listen)' conflicts with the constraint.*{place}"):
        sg.generate(scripted("x"), "x", schema, guards=[BannedWords(["talk", "listen"], scope=scope)])
    in_schema = isinstance(schema, dict)
    if "talk" not in (schema["properties"] if in_schema else ""):
        guards = [BannedWords(["listen"], scope=scope)]
        sg.generate(scripted('{"n": 1, "a": "talk'), "x", schema, guards=guards)


def test_what_is_not_required_or_not_banned_everywhere_is_no_contradiction():
    kinds = [
        {"type": "object", "properties": {"a": WORD}},
        {"type": "array", "items": WORD},
        {"type": "object", "properties": {"a": {"anyOf": [WORD, {"type": "null"}]}}, "required": ["a"]},
        {"type": "object", "properties": {"talk": {"type": "null"}}, "required": ["talk"]},
    ]
    for schema in kinds:
        closed = schema | {"additionalProperties": False}
        value = sg.generate(scripted('{"a": null'), "x", closed, banned=["talk", "listen"])
        assert Draft202012Validator(closed).is_valid(value)
        assert not {"talk", "listen"} & set(value.values() if isinstance(value, dict) else value)


def test_where_only_going_back_far_helps_the_row_goes_back_far():
    """Every item has a free name and then a banned kind: the list has to stay empty."""
    item = {"properties": {"name": {"type": "string"}, "kind": {"enum": ["talk", "Talk"]}}}
    item |= {"type": "object", "required": ["name", "kind"], "additionalProperties": False}
    guard = BannedWords(["talk"], ignore_case=True, scope="strings")
    wanted = '[{"name": "a", "kind": "talk"}]'
    assert sg.generate(scripted(wanted), "x", {"type": "array", "items": item}, guards=[guard]) == []


def test_names_of_members_may_be_banned_words_and_values_spell_none():
    """`banned=` looks at string values of JSON only, and at what they spell."""
    schema = {"type": "object", "properties": {"talk": {"type": "string"}}, "required": ["talk"]}
    schema["additionalProperties"] = False
    for wanted in ('{"talk": "talk"}', r'{"talk": "t\u0061lk"}'):
        value = sg.generate(scripted(wanted), "x", schema, banned=["talk"], limits=sg.Limits(rollbacks=9))
        assert set(value) == {"talk"}
        assert "talk" not in value["talk"]


def test_rows_of_a_batch_are_sent_back_on_their_own():
    """Each row says what it says alone, sent back or not, and as a stream."""
    scripts = ["I talk now", "I walk now", "talk talk"]
    options = {"banned": ["talk"], "limits": sg.Limits(40, rollbacks=4)}
    together = sg.generate(scripted(scripts), ["say"] * 3, **options, details=True)
    alone = [sg.generate(scripted(script), "say", **options, details=True) for script in scripts]
    assert [r.text for r in together] == [r.text for r in alone]
    assert [r.trace for r in together] == [r.trace for r in alone]
    assert [r.stats.rollbacks for r in together] == [4, 0, 4]
    for script, result in zip(scripts, alone, strict=True):
        assert "".join(event.text for event in sg.stream(scripted(script), "say", **options)) == result.text


@pytest.mark.parametrize("script", ["we talk so", "tal tal talk", "listen", "we listen  to"])
def test_a_stream_never_shows_what_a_guard_may_take_back(script):
    """What is shown stays: every event starts where the one before ended."""
    guards = [BannedWords(["talk", "listen to"], any_space=True, whole_word=True)]
    shown = ""
    for event in sg.stream(scripted(script), "x", guards=guards, limits=sg.Limits(50, rollbacks=3)):
        assert event.start == len(shown)
        shown += event.text
    assert event.result.text == shown


@pytest.mark.parametrize("rollbacks", thinned([3, 0, 20, 8], 2))
def test_a_model_that_tries_every_tokenisation_ends_without_the_word(rollbacks):
    """Back and forth between tokenisations, until the budget is spent and masks stand before every choice."""
    word = b"talk"
    pieces = sorted({word[a:b] for a in range(4) for b in range(a + 2, 5)})
    tokens = [bytes([byte]) for byte in range(256)]
    vocabulary = Vocabulary.from_tokens([*tokens, None, *pieces], end_ids=[256], width=257 + len(pieces))
    guard = BannedWords(["talk"])
    for seed in range(12):
        session = Session(
            Prompt([1]), vocabulary, matcher=None, sampling=sg.Sampling(temperature=3.0, seed=seed),
            limits=sg.Limits(40, rollbacks=rollbacks), rules=Rules(Guarding([guard], vocabulary)),
        )  # fmt: skip
        decode(ScriptedModel("talk" * 9, vocabulary), vocabulary, [session])
        assert session.error is None
        assert word not in session.said
        assert session.rollbacks <= rollbacks


class ShortLines(Guard[tuple[int, int]]):
    """No line of more than eight bytes; a text may end behind a full stop only."""

    def start(self) -> tuple[int, int]:
        return 0, 0

    def feed(self, state: tuple[int, int], text: bytes) -> tuple[int, int] | Veto:
        length, line = state
        for byte in text:
            length, line = length + 1, 0 if byte == 10 else line + 1
            if line > 8:
                return Veto(length - 1, "a line of more than eight bytes")
        return length, line

    def finish(self, state: tuple[int, int]) -> Veto | None:
        return Veto(state[0], "a text must not end so early") if state[0] < 12 else None


def test_the_helper_for_guards_of_ones_own_tells_the_verdict_and_what_is_no_guard():
    """A guard whose answer depends on the pieces is told apart."""

    class Pieces(ShortLines):
        def feed(self, state, text):
            return Veto(0, "a long piece") if len(text) > 1 else super().feed(state, text)

    assert veto_of(ShortLines(), "aaaa\nbbbb\ncccc") is None
    assert veto_of(ShortLines(), "aaaa") == Veto(4, "a text must not end so early")
    assert veto_of(BannedWords(["talk"]), "we talk") == Veto(3, "banned word 'talk'")
    with pytest.raises(AssertionError, match="byte by byte"):
        veto_of(Pieces(), "aaaa\nbbbb\ncccc")


@pytest.mark.parametrize("rollbacks", [0, 2, 200])
def test_a_guard_of_ones_own_sends_back_and_refuses_the_end(rollbacks):
    limits = sg.Limits(20, rollbacks=rollbacks)
    result = sg.generate(scripted("aaaa bbbb"), "x", guards=[ShortLines()], limits=limits, details=True)
    assert all(len(line) <= 8 for line in result.text.split("\n"))
    assert len(result.text.encode()) >= 12
    assert result.trace


def test_a_stop_string_that_cuts_the_text_off_hides_no_word():
    """What stands behind the cut is not the text's, and a word may end at the cut."""
    guard = BannedWords(["talk"], whole_word=True)
    limits = sg.Limits(30, stop=["!"], rollbacks=3)
    assert sg.generate(scripted("so! talk"), "x", guards=[guard], limits=limits) == "so"
    assert not sg.generate(scripted("I talk!"), "x", guards=[guard], limits=limits).endswith(" talk")


CONFIGS = {
    "llama": lambda: LlamaConfig(
        vocab_size=257, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
    ),
    "mamba": lambda: MambaConfig(vocab_size=257, hidden_size=32, num_hidden_layers=2, state_size=8),
}


def by_hand(module, prompt: bytes, words: list[bytes], budget: int) -> list[int]:
    """The policy without cache, batch or tree: of all texts that began as a refused one, where is most left?"""

    @cache
    def chances(begun: tuple[int, ...]) -> torch.Tensor:
        with torch.inference_mode():
            logits = module(torch.tensor([[*prompt, *begun]]), use_cache=False).logits[0, -1]
        return logits.double().softmax(0)

    def tried(begun: tuple[int, ...]) -> list[int]:
        return list({text[len(begun)]: 0 for text in refused if text[: len(begun)] == begun and text != begun})

    def left(begun: tuple[int, ...], start: int) -> float:
        reach = math.prod(float(chances(begun[:at])[begun[at]]) for at in range(start, len(begun)))
        return reach * (1 - float(chances(begun)[tried(begun)].sum()))

    tokens, refused = (), list[tuple[int, ...]]()
    while len(tokens) < budget:
        allowed = chances(tokens).clone()
        allowed[tried(tokens)] = -1
        tokens += (int(allowed.argmax()),)
        if tokens[-1] == 256:
            break
        found = [at for word in words if (at := bytes(tokens).find(word)) >= 0]
        if found:
            refused.append(tokens)
            start = min(found)
            begun = {text[:n] for text in refused for n in range(start, len(text)) if text[:start] == tokens[:start]}
            tokens = max(sorted(begun, key=len), key=lambda each: left(each, start))
    return list(tokens)


@pytest.mark.parametrize("name", CONFIGS)
def test_real_architectures_say_what_the_policy_says_without_a_cache(name):
    """Attention and recurrent states, three rows at once: whatever is undone leaves nothing behind."""
    torch.manual_seed(7)
    module = AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():  # logits far enough apart that rounding decides no token
        for parameter in module.parameters():
            parameter.mul_(3.0) if parameter.dim() > 1 else None
    prompts = [b"a longer prompt of some tokens", b"short", b"in between"]
    free = [by_hand(module, prompt, [], 24) for prompt in prompts]
    words = [bytes(tokens[at : at + 2]) for tokens in free for at in (2, 9) if 256 not in tokens[at : at + 2]]
    guard = Spelled(words)
    vocabulary = byte_vocabulary()
    sessions = [
        Session(
            Prompt(list(prompt)), vocabulary, matcher=None, sampling=sg.Sampling(), limits=sg.Limits(24),
            rules=Rules(Guarding([guard], vocabulary)),
        )
        for prompt in prompts
    ]  # fmt: skip
    decode(module, vocabulary, sessions)
    assert [session.tokens for session in sessions] == [by_hand(module, prompt, words, 24) for prompt in prompts]
    assert sum(session.rollbacks for session in sessions) >= 3


class Spelled(Guard[bytes]):
    """None of these bytes, whether they are text or not."""

    def __init__(self, words: list[bytes]) -> None:
        self.words = words

    def start(self) -> bytes:
        return b""

    def feed(self, state: bytes, text: bytes) -> bytes | Veto:
        said = state + text
        found = [at for word in self.words if (at := said.find(word)) >= 0]
        return Veto(min(found), "banned bytes") if found else said


@pytest.mark.parametrize("budget", [9, 12, 60])
@pytest.mark.parametrize(
    "schema", [sg.Regex("\\w+@\\w+\\.(com|org)"), {"type": "string", "pattern": "^\\w+@\\w+\\.(com|org)$"}]
)
def test_a_dead_end_near_the_budget_names_the_ban(schema, budget):
    """It is the ban that leaves no known way to close the value, not the budget."""
    limits = sg.Limits(max_new_tokens=budget)
    with pytest.raises(sg.DeadEnd, match=r"banned word 'o' conflicts with '.*com"):
        sg.generate(scripted(""), "x", schema, banned=["o"], limits=limits)
