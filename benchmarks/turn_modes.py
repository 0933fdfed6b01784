"""Does every chat template keep thought, answer and calls apart in every mode? A scripted model through `call`.

    STRUCTGEN_DATA=../shared/data python benchmarks/turn_modes.py [--only NAME]

The model has the habits of a model that thinks: it writes a thought where the prompt has opened one or leaves it free,
with a call of its own format in it, and then an answer or a call. Where a mask refuses that, it takes what else it
wanted to say, and ends if there is none. A turn is right if the thought, and nothing but the thought, is in `thinking`,
the answer is the text behind it, and calls are made only where they may be.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import structgen as sg
from benchmarks.chat_cases import templates
from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.pieces import TAG
from structgen.chat.spellings import canonical
from structgen.chat.templates import TokenizerTemplate
from structgen.chat.thoughts import prompt_state, thought_options
from structgen.errors import OptionError, StructgenError
from structgen.models.model import Model
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary, spelled
from tests.support.chat_templates import control_tokens
from tests.support.small_tokenizers import byte_level_bpe

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "thinking": {"thinking": True},
    "off": {"thinking": False},
    "none": {"choice": "none"},
    "required": {"choice": "required"},
    "required thinking": {"choice": "required", "thinking": True},
    "call": {"parallel": True},
}
"""The options of `call`. In `call`, the model calls, though it need not."""
ENDS = re.compile(TAG.pattern + r"|\[e~\[")
"""What looks like the end token of a template."""
THOUGHT, ANSWER = "Hm.", "Sunny."


@sg.tool
def weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: its name.
    """
    return f"{city}: sunny"


class HabitualModel(ScriptedModel):
    """It says one of several texts, the first that the mask allows. Its texts name special tokens."""

    def _scores(self, row: int, said: Sequence[int]) -> Tensor:
        text = spelled(self.vocabulary, said)
        scores = torch.zeros(self.vocabulary.width)
        scores[list(self.vocabulary.end_ids)] = 20.0
        for place, wanted in enumerate(reversed(self.wanted), 1):
            rest = wanted[len(text) :] if wanted.startswith(text) else b""
            name = next((each for each in self._names if rest.startswith(each)), None)
            if name is not None:  # no model spells a special token in letters
                scores[self._names[name]] = 100.0 * place
                continue
            for length in range(1, min(len(rest), self._longest) + 1):
                if rest[:length] in self._by_bytes:
                    scores[self._by_bytes[rest[:length]]] = 100.0 * place + length
        return scores

    @cached_property
    def _names(self) -> dict[bytes, int]:
        names = sorted(self.vocabulary.special_names.items(), key=lambda item: -len(item[0]))
        return {name.encode(): token for name, token in names}


@cache
def _backend() -> str:
    texts = ['{"name": "weather", "arguments": {"city": "Paris"}}', "<tool_call>\n</tool_call>", "It is sunny in Rome."]
    return byte_level_bpe(texts * 9, 400).backend_tokenizer.to_str()


@lru_cache(1)
def tokenizer_of(source: str) -> PreTrainedTokenizerFast:
    """A tokenizer of some 400 tokens, and the control tokens that a chat template has."""
    format_ = call_format(source)
    thinking = format_.thinking
    marks = TAG.findall(thinking.opening + thinking.closing) if thinking is not None else []
    end = next(iter(ENDS.findall(format_.end or format_.content.closing)), "<|im_end|>")
    made: Any = PreTrainedTokenizerFast
    tokenizer = made(tokenizer_object=Tokenizer.from_str(_backend()))
    special = sorted({*control_tokens(format_), *marks} - {end})
    tokenizer.add_special_tokens({"bos_token": "<|bos|>", "eos_token": end, "additional_special_tokens": special})
    tokenizer.chat_template = source
    return tokenizer


def kind(source: str) -> tuple[Any, ...]:
    """What a turn depends on: templates of one kind are tried once."""
    tokenizer = tokenizer_of(source)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    wanted = (each.get("thinking") for each in MODES.values())
    return call_format(tokenizer, vocabulary), *(_state(tokenizer, vocabulary, each) for each in wanted)


def _state(tokenizer: PreTrainedTokenizerFast, vocabulary: Vocabulary, wanted: bool | None) -> str | None:
    """How the prompt leaves a thought."""
    switched, turns = thought_options(tokenizer, vocabulary, wanted), [{"role": "user", "content": "Rome?"}]
    prompt = TokenizerTemplate(tokenizer).render(turns, [weather.declaration], prompt=True, **switched)
    return prompt_state(tokenizer, vocabulary, prompt)


def problem(source: str, mode: str) -> str | None:
    """Returns what is wrong with a turn in this mode; None if it is right."""
    tokenizer, options = tokenizer_of(source), MODES[mode]
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    format_ = call_format(tokenizer, vocabulary)
    state = _state(tokenizer, vocabulary, options.get("thinking"))
    if format_.thinking is None and "thinking" in options:
        return None
    call, answer = _texts(format_)
    calls = mode in ("call", "required", "required thinking")
    said = [call if calls else answer]
    if mode == "none":
        said.insert(0, call)
    if format_.thinking is not None and (state in ("open", "free") or options.get("thinking") is True):
        opening = "" if state == "open" or options.get("thinking") is True else format_.thinking.opening.lstrip()
        thought = f"{opening}{THOUGHT} {_plain(call, vocabulary)}?{format_.thinking.closing}"
        said = [*(thought + each for each in said), *said]
    thinks = len(said) > 2 - (mode != "none") and not (state == "free" and options.get("thinking") is False)
    model = Model(HabitualModel(said, vocabulary, max_position_embeddings=1 << 17), tokenizer, vocabulary)
    reply = sg.call(model, "Rome?", [weather], details=True, limits=sg.Limits(400), **options)
    return _wrong(reply, thinks=thinks, calls=calls, said=said)


def _texts(format_: CallFormat) -> tuple[str, str]:
    """A call and an answer as the format writes them."""
    call = WrittenCall("weather", {"city": "Rome"}, format_.id_of("weather", 0) or "abcdefgh1")
    opening, closing = (
        "".join(map(str, canonical(each))) for each in (format_.spellings.opening, format_.spellings.answered)
    )
    return format_.render([call]), opening + ANSWER + closing


def _plain(text: str, vocabulary: Vocabulary) -> str:
    """A text without the names of special tokens, which no thought has."""
    for name in vocabulary.special_names:
        text = text.replace(name, "")
    return text.strip()


def _wrong(reply: sg.records.Reply[Any], *, thinks: bool, calls: bool, said: list[str]) -> str | None:
    thinking = reply.generation.thinking or ""
    told = f"thinking={thinking!r} text={reply.text!r} calls={[each.arguments for each in reply.calls]} said={said}"
    if (THOUGHT in thinking) != thinks:
        return f"thinking is {'not ' if thinks else ''}there: {told}"
    if THOUGHT in reply.text or ANSWER in thinking:
        return f"thought and answer are mixed: {told}"
    if [each.arguments for each in reply.calls] != ([{"city": "Rome"}] if calls else []):
        return f"calls: {told}"
    text = reply.text if TAG.sub("", reply.text).strip() in (ANSWER, "") else ""
    refused = said[-2] if len(said) > 1 else ""  # a call in plain letters, of which the mask takes the first
    begun = any(each.startswith(reply.text) for each in (refused, TAG.sub("", refused)))
    if not reply.calls and reply.text != text and not begun:
        return f"answer: {told}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore", sg.BudgetWarning)
    counts, known = Counter[str](), dict[Any, dict[str, str | None]]()
    for name, source in templates().items():
        if given.only not in name:
            continue
        try:
            same = kind(source)
        except OptionError as error:
            counts["refused"] += len(MODES)
            print(f"{name:50} refused: {str(error)[:100]}", flush=True)
            continue
        results = known.setdefault(same, {})
        for mode in MODES:
            if mode not in results:
                try:
                    results[mode] = problem(source, mode)
                except StructgenError as error:
                    results[mode] = f"{type(error).__name__}: {error}"
            counts["right" if results[mode] is None else "wrong"] += 1
        wrong = {mode: why for mode, why in results.items() if why is not None}
        print(f"{name:50} {'' if wrong else 'right'}", flush=True)
        for mode, why in wrong.items():
            print(f"    {mode}: {why[:600]}", flush=True)
    print(f"all: {dict(counts)}")


if __name__ == "__main__":
    main()
