"""The options of `generate`, `stream` and `astream`, and their names in other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from structgen.arguments import is_whole, require, require_flag
from structgen.decoding.loop import ROWS
from structgen.decoding.refusals.absence_row import thresholds_of
from structgen.errors import OptionError, quoted
from structgen.guards import Guard
from structgen.options import FILTERS, Beams, Limits, Sampling, Thinking, Whitespace
from structgen.patience import CancelEvent
from structgen.phrases.kinds import Wanted
from structgen.schema.reader import require_order
from structgen.schema.written import inner_path

CANONICAL = "off", "prefer", "strict"
GREEDY = Sampling()
LIMITS = Limits()

_CLASSES: dict[str, type] = {"sampling": Sampling, "limits": Limits, "beams": Beams, "thinking": Thinking}
"""The options with fields of their own."""
_FIELDS = {field.name: option for option, kind in _CLASSES.items() for field in fields(kind)}
"""The option of each field."""
_RENAMED = {
    "max_tokens": "max_new_tokens", "max_length": "max_new_tokens", "max_completion_tokens": "max_new_tokens",
    "stop_strings": "stop", "stop_sequences": "stop", "do_sample": "temperature", "num_beams": "count",
    "logits_processor": "processors", "logits_processors": "processors",
}  # fmt: skip
"""Fields by their names in other libraries."""
_SCHEMAS = {
    "response_model": "{}", "response_format": "{}", "response_schema": "{}", "json_schema": "{}", "guided_json": "{}",
    "output_type": "{}", "output_schema": "{}",
    "regex": "sg.Regex({})", "pattern": "sg.Regex({})", "grammar": "sg.Lark({})",
    "choices": "sg.Choice({})", "choice": "sg.Choice({})",
}  # fmt: skip
"""What to pass as `schema=` instead of an option of another library."""
_ARGUMENTS = "prompt", "schema", "details", "reask"
"""Arguments of some calls, which a misspelt option may mean."""
_BESIDE = "tokenizer", "prompt_schema", "examples"
"""Options of every call that are used before its `CallOptions`."""
_DIVERSE = (
    "beams are not held apart: for different texts draw, [prompt] * 4 with sg.Sampling(temperature=0.7).several(4)"
)
_INSTEAD = {
    "stream": "call sg.stream(...) or sg.astream(...)",
    "details": "the last event of a stream has all of it in its result",
    "reask": "only sg.generate asks again: what a stream has told cannot be taken back; sg.run tells of errors",
    "n": "pass [prompt] * {0} with sampling=sg.Sampling(temperature=0.7).several({0})",
    "num_return_sequences": (
        "pass [prompt] * {0} with sampling=sg.Sampling(temperature=0.7).several({0}), or beams=sg.Beams({0}), "
        "details=True: the result has all texts of the search as .beams"
    ),
    "num_beam_groups": _DIVERSE,
    "diversity_penalty": _DIVERSE,
    "force_words_ids": "pass beams=8, phrases=[...] with texts, see docs/reference/phrases.md",
    "constraints": "pass beams=8, phrases=[...] with texts, see docs/reference/phrases.md",
    "streamer": "sg.stream(...) gives the text while it is made: for event in sg.stream(...): event.text",
    "stopping_criteria": "cancel=threading.Event() ends a call; limits=sg.Limits(stop=[...]) ends plain text",
    "generation_config": "pass sampling=sg.Sampling.from_model(model), and limits=sg.Limits(max_new_tokens=...)",
    "prefix_allowed_tokens_fn": "pass a constraint as schema=; sg.Machine takes your own automaton",
    "assistant_model": "leave it out: forced text and prompt lookup are read without an assistant",
    "draft": "leave it out: forced text and prompt lookup are read without a draft model",
    "attention_mask": "leave it out, or pass what the tokenizer returned for one prompt as prompt: it has the mask",
    "input_ids": "pass it as prompt, the second argument",
    "tools": "pass one function as schema= for its arguments; sg.call and sg.run take several",
    "functions": "pass one function as schema= for its arguments; sg.call and sg.run take several",
    "tool_choice": "sg.call(model, messages, tools, choice=...) has it",
    "messages": "pass the messages as prompt, the second argument",
    "prompts": "pass the list as prompt, the second argument",
    "input": "pass it as prompt, the second argument",
    "inputs": "pass it as prompt, the second argument",
    "system_prompt": "pass it within the prompt, as the first message: {{'role': 'system', 'content': ...}}",
    "system": "pass it within the prompt, as the first message: {{'role': 'system', 'content': ...}}",
    "instructions": "pass it within the prompt, as the first message: {{'role': 'system', 'content': ...}}",
    "max_retries": "limits=sg.Limits(validations=...) bounds the retries in a run; reask= of sg.generate asks again",
    "bad_words": "pass banned={}",
    "no_repeat_ngram_size": "pass sampling=sg.Sampling(processors=[transformers.NoRepeatNGramLogitsProcessor({})])",
    "bad_words_ids": "pass banned=[...] with texts",
    "logprobs": "pass details=True: the result has them",
    "reasoning": 'pass thinking=True; of a model without tags of its own, plan="free"',
    "reasoning_effort": "pass thinking=sg.Thinking(max_tokens=...)",
    "indent": "pass whitespace=sg.Whitespace.INDENTED({})",
}
"""What to do instead of passing an option."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of `generate` and `stream`, explained by `generate`."""

    sampling: Sampling | Sequence[Sampling] = GREEDY
    limits: Limits | Sequence[Limits] = LIMITS
    whitespace: Whitespace = Whitespace.SPACED
    order: str | Sequence[str] = "schema"
    fast_forward: bool = True
    batch_size: int = ROWS
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] = ()
    banned: Sequence[str] | Sequence[Sequence[str]] = ()
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None = None
    beams: int | Beams = 1
    canonical: bool | str = "off"
    token_healing: bool | None = None
    phrases: Sequence[str | Wanted] | Sequence[Sequence[str | Wanted]] = ()
    plan: str | None = None
    source: Any = None
    absent: str | float | Mapping[str, float] | None = None
    cancel: CancelEvent | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.beams, Beams):
            require(is_whole(self.beams, 1), "beams", self.beams, "a count of at least 1, or Beams(...)")
            object.__setattr__(self, "beams", Beams(self.beams))
        require(is_whole(self.batch_size, 1), "batch_size", self.batch_size, "a count of at least 1")
        require_flag("fast_forward", self.fast_forward)
        if self.token_healing is not None:
            require_flag("token_healing", self.token_healing)
        require(isinstance(self.whitespace, Whitespace), "whitespace", self.whitespace, "Whitespace(...)")
        require_order(self.order)
        require(self.plan in (None, "free"), "plan", self.plan, '"free" or None')
        thresholds_of(self.absent)
        mode = ("prefer" if self.canonical else "off") if isinstance(self.canonical, bool) else self.canonical
        require(mode in CANONICAL, "canonical", mode, 'True, False, "off", "prefer" or "strict"')
        object.__setattr__(self, "canonical", mode)

    @classmethod
    def of(cls, given: Mapping[str, Any], beside: Iterable[str] = ()) -> CallOptions:
        """The options of a call, by name.

        Args:
            beside: further names that the caller takes, for the message.

        Raises:
            OptionError: an option is unknown.
        """
        known = [field.name for field in fields(cls)]
        unknown = {name: value for name, value in given.items() if name not in known}
        if unknown:
            raise unknown_options(unknown, [*beside, *_BESIDE, *known])
        return cls(**given)


DEFAULTS = CallOptions()


def unknown_options(given: Mapping[str, Any], known: Sequence[str]) -> OptionError:
    """The error for options that a call does not take. It shows the right call, or the nearest name.

    Args:
        known: the names of the call's options.
    """
    values: dict[str, dict[str, Any]] = {}
    advice = []
    for name, value in given.items():
        field = _RENAMED.get(name, name)
        if field in _FIELDS:
            fields_given = values.setdefault(_FIELDS[field], {})
            if name != "do_sample" or field not in fields_given:  # temperature= wins
                fields_given[field] = _value_of(name, value)
        elif name in _SCHEMAS:
            advice.append(f"pass schema={_SCHEMAS[name].format(_schema(name, value))}")
        elif name in _INSTEAD:
            advice.append(_INSTEAD[name].format(quoted(value)))
        else:
            near = get_close_matches(name, [*known, *_ARGUMENTS, *_FIELDS, *_RENAMED, *_SCHEMAS], 1, 0.75)
            advice.append(f"the nearest is {_where(near[0])}" if near else f"there are {', '.join(known)}")
    calls = [f"{option}=sg.{_CLASSES[option].__name__}({_arguments(each)})" for option, each in values.items()]
    advice = [f"pass {', '.join(calls)}", *advice] if calls else advice
    return OptionError(f"no option is called {', '.join(f'{name}=' for name in given)}: {'; '.join(advice)}")


def _arguments(given: dict[str, Any]) -> str:
    """The arguments of `Sampling`, `Limits`, `Beams` or `Thinking`, with others that they need to have an effect."""
    if not given.keys().isdisjoint((*FILTERS, "seed")):  # these have no effect on greedy decoding
        given = {"temperature": 1.0, **given}
    elif given.keys() & {"length_penalty", "early_stopping"}:
        given = {"count": 4, **given}
    return ", ".join(f"{name}={quoted(value)}" for name, value in given.items())


def _value_of(name: str, value: Any) -> Any:
    """The value of an option of another library, for our field."""
    if name == "do_sample":
        return 1.0 if value else 0.0
    return [value] if isinstance(value, str) and _RENAMED.get(name, name) == "stop" else value


def _schema(name: str, value: Any) -> str:
    """Code that makes a schema of an option's value, which the option's name stands for."""
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, dict):
        path = "".join(f"[{each!r}]" for each in inner_path(value))
        return "{'type': 'object'}" if value.get("type") == "json_object" else name + path
    if isinstance(value, str):
        return quoted(value) if name in ("regex", "pattern", "grammar") else f"json.loads({name})"
    return quoted(value)


def _where(name: str) -> str:
    """How an option, a field, or what another library calls so is passed."""
    name = "schema" if name in _SCHEMAS else _RENAMED.get(name, name)
    return f"{_FIELDS[name]}=sg.{_CLASSES[_FIELDS[name]].__name__}({name}=...)" if name in _FIELDS else f"{name}="
