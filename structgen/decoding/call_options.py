"""The options of `generate`, `stream` and `astream`, and their names in other libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from structgen.arguments import (
    allowing,
    check_options,
    is_whole,
    option,
    optional,
    options_with,
    require,
    require_flag,
    without_nones,
)
from structgen.decoding.loop import ROWS
from structgen.decoding.refusals.absence_row import thresholds_of
from structgen.errors import OptionError, quoted
from structgen.guards import Guard
from structgen.options import Beams, Limits, Sampling, Thinking, Whitespace
from structgen.patience import CancelEvent
from structgen.phrases.kinds import Wanted
from structgen.schema.reader import require_order
from structgen.schema.written import inner_path

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
    "prefix_allowed_tokens_fn": "pass a constraint as schema=; sg.constraints.Machine takes your own automaton",
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


class StreamOptions(TypedDict, total=False):
    """The options of every call that generates, as they are given: one that is None is not.

    `generate` explains the dozen that everyone meets first, `CallOptions` the others.
    """

    tokenizer: Any
    sampling: Sampling | Sequence[Sampling] | None
    limits: Limits | Sequence[Limits] | None
    whitespace: Whitespace | None
    order: str | Sequence[str] | None
    fast_forward: bool | None
    batch_size: int | None
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] | None
    banned: Sequence[str] | Sequence[Sequence[str]] | None
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None
    beams: int | Beams | None
    canonical: bool | Literal["off", "prefer", "strict"] | None
    token_healing: bool | None
    phrases: Sequence[str | Wanted] | Sequence[Sequence[str | Wanted]] | None
    plan: Literal["free"] | None
    source: Any
    absent: Literal["ask"] | float | Mapping[str, float] | None
    optional: Literal["write"] | None
    prompt_schema: bool | None
    examples: Sequence[tuple[str, Any]] | None
    cancel: CancelEvent | None


class Options(StreamOptions, total=False):
    """The options of `generate`.

    Attributes:
        prompt_schema: add the schema to the prompt, as `render` shows it; in chat messages after the user's last one.
            The mask says only what is allowed; a model that was not told the names has to guess them.
        reask: how often a value that the type's own validators refused to the end (`Limits(validations=...)`) is
            generated again, with the value and the validators' messages as new turns after the prompt, which is a
            string or chat messages. Only refused rows are. `Generation.reasked` has these turns.
    """

    reask: int | None


def _check_beams(name: str, value: Any) -> None:
    require(isinstance(value, Beams) or is_whole(value, 1), name, value, "a count of at least 1, or Beams(...)")


def _check_canonical(name: str, value: Any) -> None:
    known = isinstance(value, bool) or value in ("off", "prefer", "strict")
    require(known, name, value, 'True, False, "off", "prefer" or "strict"')


_BATCH_SIZE = allowing(lambda value: is_whole(value, 1), "a count of at least 1")
_WHITESPACE = allowing(lambda value: isinstance(value, Whitespace), "Whitespace(...)")
_PLAN = allowing(lambda value: value in (None, "free"), '"free" or None')
_OPTIONAL = allowing(lambda value: value in (None, "write"), '"write" or None')
_EVENT = allowing(lambda value: value is None or hasattr(value, "is_set"), "a threading.Event")


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of a call with their checks and defaults; what a row may have of its own is checked for each row.

    Of the metadata, an option that is `remote` works where the model is remote, and one of `speed` changes no result.
    `generate` explains those that are not described here.

    Attributes:
        whitespace: the white space in JSON; that of `json.dumps` by default.
        order: of an object's keys: "schema", "any", or a list of names.
        beams: search for the most likely text with this many beams, or with the options of `Beams(...)`;
            `Generation.beams` has the best texts. 1 takes the most likely token each time.
        phrases: what the text must contain, found with `beams=` or `Sampling(exact=True)`: texts, `Phrase`, `AnyOf`,
            `Ordered`, `Template`, or your own `BytePhrase`. A list of lists gives each prompt its own.
        canonical: allow only the tokens that the tokenizer would make of the text, as the model has learned it.
            Where no such token is left, "prefer" (or True) allows others and counts the step in
            `Stats.canonical_relaxed`, and "strict" raises `DeadEnd`.
        token_healing: choose the prompt's last token again, together with the first characters of the answer, if it
            ends within a line (`Generation.healed`); the default is to do so with canonical tokens where possible.
        plan: "free": the model first answers in its own words, then gives the value, in one run. For answers that have
            to be worked out, such as a number or a choice alone. `Generation.plan` has the text, a stream tells it as
            thinking, and `Limits(max_plan_tokens=...)` bounds it.
        absent: decide for each member that may be null whether it is, by the probability of null against all values
            together, and a threshold: "ask" for 0.5, a number, or a dict of numbers by JSON pointer, as
            `absence_thresholds` finds it. Such members are always written. `Generation.absences` has what was decided.
            A quote whose source does not have what the model wanted to write becomes null, too.
        optional: "write": write each optional member, with a value or null, since small models leave out what they may
            leave out. Where the schema does not have null, a member that is null is missing from the value.
        fast_forward: feed text that must come next without asking the model for each of its tokens.
        batch_size: how many prompts of a list are decoded at once; the others take the rows that become free.
        cancel: a `threading.Event`: the call ends with `Stopped` as soon as it is set, after the model's step in
            progress. `Limits(seconds=...)` ends a call in time.
    """

    sampling: Sampling | Sequence[Sampling] = field(default=GREEDY, metadata={"remote": True})
    limits: Limits | Sequence[Limits] = field(default=LIMITS, metadata={"remote": True})
    whitespace: Whitespace = field(default=Whitespace.SPACED, metadata=option(_WHITESPACE, remote=True))
    order: str | Sequence[str] = field(
        default="schema", metadata=option(lambda _, order: require_order(order), remote=True)
    )
    fast_forward: bool = field(default=True, metadata=option(require_flag, speed=True))
    batch_size: int = field(default=ROWS, metadata=option(_BATCH_SIZE, remote=True, speed=True))
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] = ()
    banned: Sequence[str] | Sequence[Sequence[str]] = field(default=(), metadata={"remote": True})
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None = None
    beams: int | Beams = field(default=Beams(1), metadata=option(_check_beams))
    canonical: bool | str = field(default="off", metadata=option(_check_canonical, remote=True))
    token_healing: bool | None = field(default=None, metadata=option(optional(require_flag)))
    phrases: Sequence[str | Wanted] | Sequence[Sequence[str | Wanted]] = ()
    plan: str | None = field(default=None, metadata=option(_PLAN))
    source: Any = field(default=None, metadata={"remote": True})
    absent: str | float | Mapping[str, float] | None = field(
        default=None, metadata=option(lambda _, absent: thresholds_of(absent))
    )
    optional: str | None = field(default=None, metadata=option(_OPTIONAL))
    cancel: CancelEvent | None = field(default=None, metadata=option(_EVENT))

    def __post_init__(self) -> None:
        check_options(self)
        if not isinstance(self.beams, Beams):
            object.__setattr__(self, "beams", Beams(self.beams))
        if isinstance(self.canonical, bool):
            object.__setattr__(self, "canonical", "prefer" if self.canonical else "off")

    @classmethod
    def of(cls, given: Mapping[str, Any], takes: Iterable[str] = StreamOptions.__annotations__) -> CallOptions:
        """The options of a call, by name; one that is None is not given.

        Args:
            takes: the names that the caller takes, for the message.

        Raises:
            OptionError: an option is unknown.
        """
        if unknown := given.keys() - cls.__dataclass_fields__.keys():
            raise unknown_options({name: given[name] for name in given if name in unknown}, [*takes])
        return cls(**without_nones(given))


DEFAULTS = CallOptions()


def require_known(given: Mapping[str, Any], takes: Iterable[str]) -> None:
    """Refuses options that a call does not take; the message shows the right call, or the nearest name."""
    if unknown := given.keys() - {*takes}:
        raise unknown_options({name: given[name] for name in given if name in unknown}, [*takes])


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
            advice.append(f"did you mean {_where(near[0])}?" if near else f"there are {', '.join(known)}")
    calls = [f"{option}=sg.{_CLASSES[option].__name__}({_arguments(each)})" for option, each in values.items()]
    advice = [f"pass {', '.join(calls)}", *advice] if calls else advice
    return OptionError(f"no option is called {', '.join(f'{name}=' for name in given)}: {'; '.join(advice)}")


def _arguments(given: dict[str, Any]) -> str:
    """The arguments of `Sampling`, `Limits`, `Beams` or `Thinking`, with others that they need to have an effect."""
    if not given.keys().isdisjoint(
        (*options_with(Sampling, "filters"), "seed")
    ):  # these have no effect on greedy decoding
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
