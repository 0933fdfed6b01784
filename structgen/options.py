"""The classes of options: frozen values, validated here and only here."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Literal, NamedTuple

from structgen.arguments import (
    is_listed,
    is_number,
    is_whole,
    require,
    require_count,
    require_flag,
    require_one_of,
    require_unicode,
)  # fmt: skip
from structgen.errors import OptionError, quoted


def digest(seed: int, number: int) -> bytes:
    """Eight bytes that follow from a seed and a number."""
    return blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()


UNFIT_PROCESSORS = {
    "SynthIDTextWatermarkLogitsProcessor": "keeps a state that no rollback takes back: use WatermarkLogitsProcessor",
    "UnbatchedClassifierFreeGuidanceLogitsProcessor": "runs the model with a cache that no rollback takes back",
    "ClassifierFreeGuidanceLogitsProcessor": "needs rows in pairs; here each row stands for itself",
    "DiaClassifierFreeGuidanceLogitsProcessor": "needs rows in pairs; here each row stands for itself",
    "InfNanRemoveLogitsProcessor": "hides logits that are not numbers; here they are the row's error",
    "TemperatureLogitsWarper": "is Sampling(temperature=...)",
}
"""Logits processors of transformers that cannot work here, and why."""

MAX_SAMPLES = 100_000
"""The most samples of one prompt in one call."""

_SEED_BITS = 4096
"""Python writes longer numbers out only in quadratic time, and refuses the longest."""


_LEFT_OUT = {
    "bad_words_ids": "banned=[...] takes texts",
    "begin_suppress_tokens": "the schema says how a text begins",
    "forced_eos_token_id": "the constraint, or Limits(max_new_tokens=...), says where a text ends",
    "guidance_scale": "it needs rows in pairs; here each row stands for itself",
    "length_penalty": "pass beams=sg.Beams(...)",
    "max_length": "pass limits=sg.Limits(max_new_tokens=...)",
    "max_new_tokens": "pass limits=sg.Limits(max_new_tokens=...)",
    "min_length": "the schema says how short a text may be",
    "min_new_tokens": "the schema says how short a text may be",
    "num_beams": "pass beams=...",
    "num_return_sequences": "see Sampling.several",
    "stop_strings": "pass limits=sg.Limits(stop=[...])",
}
"""Settings of a `GenerationConfig` that `Sampling.from_model` does not read, and what to do instead."""
_NO_SAMPLING = {
    "bos_token_id", "decoder_start_token_id", "dtype", "eos_token_id", "forced_bos_token_id", "pad_token_id",
    "cache_config", "cache_implementation", "max_cache_len", "use_cache", "compile_config", "disable_compile",
    "output_attentions", "output_hidden_states", "output_logits", "output_scores", "return_dict_in_generate",
    "is_assistant", "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "assistant_lookbehind", "target_lookbehind", "prompt_lookup_num_tokens", "max_matching_ngram_size",
    "renormalize_logits", "remove_invalid_values", "token_healing", "early_stopping", "transformers_version",
}  # fmt: skip
"""Settings of a `GenerationConfig` that `Model` reads, or that change no text here."""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A logits processor: these tokens are chosen only where no other is allowed."""

    ids: tuple[int, ...]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        others = scores.index_fill(-1, input_ids.new_tensor(self.ids), -math.inf)
        return others if bool((others > -math.inf).any()) else scores


class _Option(NamedTuple):
    """What is known of a sampling option beside its default and its meaning."""

    valid: Callable[[Any], bool]  # is a value allowed?
    allowed: str  # what is, for the message
    filters: bool = False  # it leaves out tokens of a draw: no effect on greedy decoding
    of_models: bool = False  # `Sampling.from_model` reads it
    beyond_openai: bool = False  # OpenAI's interface has no field for it


def _is_share(value: Any) -> bool:
    return is_number(value, 0, 1) and value > 0


def _is_penalty(value: Any) -> bool:
    return is_number(value, -_LARGEST) and value <= _LARGEST


_LARGEST = 1000
"""The largest penalty: larger ones would turn logits into infinities."""
_SHARE, _FINITE, _PENALTY = "a number in (0, 1]", "a finite number", f"a number from {-_LARGEST} to {_LARGEST}"
_OPTIONS = {
    "temperature": _Option(lambda value: is_number(value, 0), f"{_FINITE} of at least 0", False, True),
    "top_k": _Option(lambda value: is_whole(value, 0), "0 (all) or a positive count", True, True, True),
    "top_p": _Option(_is_share, _SHARE, True, True),
    "min_p": _Option(lambda value: is_number(value, 0, 1) and value < 1, "a number in [0, 1)", True, True, True),
    "typical_p": _Option(_is_share, _SHARE, True, True, True),
    "repetition_penalty": _Option(
        lambda value: is_number(value, 0) and 1 / _LARGEST <= value <= _LARGEST,
        f"a number from {1 / _LARGEST} to {_LARGEST}",
        False,
        True,
        True,
    ),
    "frequency_penalty": _Option(lambda value: _is_penalty(value), _PENALTY),
    "presence_penalty": _Option(lambda value: _is_penalty(value), _PENALTY),
}
"""The fields of `Sampling` that are numbers, but for the seed."""
FILTERS = tuple(name for name, option in _OPTIONS.items() if option.filters)
BEYOND_OPENAI = (*(name for name, option in _OPTIONS.items() if option.beyond_openai), "penalties")


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the masked logits.

    Attributes:
        temperature: 0 is greedy decoding (the default).
        top_k: keep the `top_k` likeliest tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probabilities reach `top_p`, in (0, 1].
        min_p: drop tokens less likely than `min_p` times the likeliest one, in [0, 1).
        typical_p: keep the smallest set of the most typical tokens that has `typical_p` of the mass, in (0, 1].
        repetition_penalty: for tokens in the text, the prompt and the thinking (in encoder-decoder models, in the text
            and the decoder's start), positive scores are divided by it, others multiplied; above 0, 1 changes nothing.
        frequency_penalty: subtracted from a token's score for each of its occurrences in the text.
        presence_penalty: subtracted once from the score of a token that occurs in the text.
        penalties: where these three count and act. "free": only within free values, the strings that may be any text,
            and text outside of JSON, so that the quotes, commas, names, numbers and labels of JSON are not punished for
            being repeated. "all": every token of the text, forced ones too, as in OpenAI's and transformers'
            interfaces. Plain text is all free.
        processors: logits processors of transformers, or callables like them, `(input_ids, scores) -> scores`, with
            int64[1, tokens] of prompt and text and float[1, width]. They see the masked scores after the penalties.
            Those that transformers calls warpers see them divided by the temperature, before our own filters.
        seed: the same seed gives the same result, whatever else is in the batch. None draws a new seed.
        exact: draw whole texts from the model's own distribution, given that they are valid (`docs/concepts/exact.md`).
            The distribution is that of the other options without any mask, up to the end token or `max_new_tokens`.
            Where `Limits(exact_forwards=...)` are spent before there is a text, True raises `NoExactSample`, and
            "prefer" draws the text step by step, which `Generation.exact` tells. "weights" gives up only texts that are
            refused: texts cost little more than step by step, and each has a `Generation.log_weight`. Rows of one call
            with the same prompt, constraint and options share what was refused, so a seed gives the same text again
            only in the same call.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalties: Literal["free", "all"] = "free"
    processors: tuple[Callable[[Any, Any], Any], ...] = ()
    seed: int | None = None
    exact: bool | Literal["prefer", "weights"] = False

    def __post_init__(self) -> None:
        for name, option in _OPTIONS.items():
            value = getattr(self, name)
            require(option.valid(value), name, value, option.allowed)
        require_count("top_k", self.top_k, 0)
        require(self.seed is None or is_whole(self.seed, 0), "seed", self.seed, "a whole number of at least 0, or None")
        short = self.seed is None or int(self.seed).bit_length() <= _SEED_BITS
        require(short, "seed", self.seed, f"a whole number of at most {_SEED_BITS:,} bits")
        require_one_of("penalties", self.penalties, "free", "all")
        require_one_of("exact", self.exact, True, False, "prefer", "weights")
        drawn = not self.exact or not self.greedy
        require(drawn, "temperature", self.temperature, "above 0 with exact=: the likeliest token is no draw")
        listed = is_listed(self.processors, object) and all(map(callable, self.processors))
        require(listed, "processors", self.processors, "a list of logits processors")
        object.__setattr__(self, "processors", tuple(self.processors))
        for processor in self.processors:
            for name in (kind.__name__ for kind in type(processor).__mro__ if kind.__name__ in UNFIT_PROCESSORS):
                raise OptionError(f"processors: {name} {UNFIT_PROCESSORS[name]}")

    @classmethod
    def from_model(cls, model: Any, **changes: Any) -> Sampling:
        """The settings of a model's `generation_config`, which the model's authors recommend.

        Read are `do_sample`, `temperature`, `top_k`, `top_p`, `min_p`, `typical_p`, `repetition_penalty` and
        `suppress_tokens`: such a token is chosen only where the mask leaves no other. A warning names all other
        settings that would change a text, with what to pass instead.

        Args:
            model: a `Model`, or a model of transformers.
            changes: fields that are to be others: `Sampling.from_model(model, seed=1)`.

        Raises:
            OptionError: the model has no `generation_config`, or one with values that `Sampling` does not take.
        """
        config: Any = getattr(getattr(model, "module", model), "generation_config", None)
        allowed = "what structgen.load(...) returns, or a transformers model, with a generation_config"
        require(hasattr(config, "to_diff_dict"), "model", model, allowed)
        given = {name: value for name, value in config.to_diff_dict().items() if value is not None}
        read: dict[str, Any] = {"temperature": 1.0} if given.pop("do_sample", False) else {"temperature": 0.0}
        for name in (name for name, option in _OPTIONS.items() if option.of_models):
            value = given.pop(name, None)
            if value is not None and (name == "repetition_penalty" or read["temperature"]):
                read[name] = value
        if suppressed := tuple(given.pop("suppress_tokens", ())):
            read["processors"] = (Suppressed(suppressed),)
        left = sorted(name for name in given if name not in _NO_SAMPLING and not name.startswith("_"))
        if left:
            advice = [f"{name}={quoted(given[name])} ({_LEFT_OUT.get(name, 'nothing alike')})" for name in left]
            warnings.warn(f"Sampling.from_model leaves out {', '.join(advice)}", stacklevel=2)
        return cls(**{**read, **changes})

    @property
    def greedy(self) -> bool:
        """True where the likeliest allowed token is always taken."""
        return self.temperature == 0

    @property
    def penalises(self) -> bool:
        """True where a penalty makes scores depend on the text so far."""
        return self.repetition_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0

    @property
    def reads_text(self) -> bool:
        """True where scores depend on the text so far."""
        return self.penalises or bool(self.processors)

    def several(self, count: int) -> list[Sampling]:
        """The same options for `count` samples of one prompt, each with its own seed, which follows from this seed.

        Raises:
            OptionError: these options are greedy, so all samples would be equal; or more than 100,000 samples.
        """
        require(not self.greedy, "temperature", self.temperature, "above 0 for several samples")
        require_count("count", count, 1)
        require(count <= MAX_SAMPLES, "count", count, f"at most {MAX_SAMPLES:,} samples in one call")
        if self.seed is None:
            return [self] * count
        return [replace(self, seed=int.from_bytes(digest(self.seed, i), "little")) for i in range(count)]


CAPS = "max_digits", "max_blanks", "max_repeated", "max_items", "max_characters"
"""The fields of `Limits` that bound single values."""


MAX_DEPTH = 180
"""Pydantic's reader takes 200 levels of JSON, of which a tool's call or a wrapper may take some."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request.

    Attributes:
        max_new_tokens: the most tokens that are generated, the end token included.
        rollbacks: how often the decoder may take tokens back because the text cannot go on or a guard refuses it.
            After that, guards only mask tokens.
        stop: plain text ends before the first of these strings, and so does the text beside calls, never a call. In a
            value they are refused: a constraint itself defines where its text ends.
        validations: how often a value that the type's own validators refuse is tried again in another way.
        strict: raise `BudgetExhausted` where `max_new_tokens` are spent before the value is complete. Otherwise the
            value is closed in time, the cheapest way, and the result, or a `BudgetWarning`, says what was cut short;
            a call of a tool is not closed, see `ToolCall.cut`.
        max_digits: the most digits of one number in JSON. At the cap the number is closed, the text goes on, and the
            result says so; within a call of a tool the text ends, see `ToolCall.cut`. This and the following caps stop
            a model that repeats itself; what the schema itself demands may exceed them. They hold for JSON alone, in
            calls and in compositions, and for a call's strings without quotes. None is no cap.
        max_blanks: the most blanks and newlines in a row; in strings, those written as escapes count, too.
        max_repeated: the most bytes, blanks not counted, of a loop: one piece of text again and again, at the end of a
            string or name, or one item or some items again and again, at the end of an array. A loop says its text
            more than eight times, or its items more than sixteen times; a short value, like 0 or "", counts as two
            bytes in an array. Pieces of more than 1,024 bytes are not looked for.
        max_items: the most items of an array.
        max_depth: the most arrays and objects inside each other; at the bound no further one begins whose end would be
            deeper. What a schema requires may be deeper. Pydantic reads 200 levels of JSON, Python's `json` some 900.
        max_characters: the most bytes of a string or name, as it is written.
        exact_forwards: with `Sampling(exact=...)`, the forward passes of a row after which no further try is begun;
            each try counts as at least one. Of the other limits only `max_new_tokens`, `stop` and `seconds` hold there.
        max_plan_tokens: with `plan="free"`, the most tokens of the plan, which do not count among `max_new_tokens`.
        seconds: by the clock, from the beginning of the call, when it must end; of a job, from the beginning of each
            input. A value that has begun is closed at once if that is possible, else the row fails with `Stopped`. The
            model's step in progress is waited for. None is no limit.
    """

    max_new_tokens: int = 512
    rollbacks: int = 256
    stop: tuple[str, ...] = ()
    validations: int = 64
    strict: bool = False
    max_digits: int | None = 20
    max_blanks: int | None = 128
    max_repeated: int | None = 256
    max_items: int | None = 16_384
    max_depth: int = 128
    max_characters: int | None = 65_536
    exact_forwards: int = 1024
    max_plan_tokens: int = 1024
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in CAPS:
            cap = getattr(self, name)
            require(cap is None or is_whole(cap, 1), name, cap, "a whole number, at least 1, or None for no cap")
        require_count("max_depth", self.max_depth, 1)
        require(self.max_depth <= MAX_DEPTH, "max_depth", self.max_depth, f"at most {MAX_DEPTH}, as Pydantic reads")
        for name in ("max_new_tokens", "exact_forwards", "max_plan_tokens"):
            require_count(name, getattr(self, name), 1)
        for name in ("rollbacks", "validations"):
            require_count(name, getattr(self, name), 0)
        timed = self.seconds is None or (is_number(self.seconds, 0) and self.seconds > 0)
        require(timed, "seconds", self.seconds, "a number of seconds above 0, or None for no limit")
        listed = is_listed(self.stop, str) and all(self.stop)
        require(listed, "stop", self.stop, "a list of texts, none of them empty")
        require_unicode("stop", *self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))
        require_flag("strict", self.strict)


@dataclass(frozen=True, slots=True)
class Thinking:
    """Free text that the model writes between two tags before it answers.

    Attributes:
        opening: the tag that thinking begins with. It is added to the prompt, unless that ends with it already, as with
            some chat templates. None takes the tag of the model's chat template, or `<think>`.
        closing: the tag that thinking ends with. The model writes it, and the white space around it is fed. Of several
            special tokens the model writes the first. None is as for `opening`.
        max_tokens: the most tokens of thinking, which do not count among the answer's `max_new_tokens`. Then the
            closing tag is fed, and the answer begins.
        answer_share: the share, from 0 to 1, of the room in the model's context that is kept for the answer where both
            do not fit. The tokens that surely close the answer are kept in any case.
    """

    opening: str | None = None
    closing: str | None = None
    max_tokens: int = 2048
    answer_share: float = 0.25

    def __post_init__(self) -> None:
        for name in ("opening", "closing"):
            tag = getattr(self, name)
            if tag is not None:
                require(isinstance(tag, str) and bool(tag.strip()), name, tag, "a tag, or None")
                require_unicode(name, tag)
        require_count("max_tokens", self.max_tokens, 1)
        require(is_number(self.answer_share, 0, 1), "answer_share", self.answer_share, "a number from 0 to 1")


MAX_BEAMS = 256


@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: the likeliest texts so far go on side by side, and the best complete one wins.

    A text's score is the sum of its tokens' log-probabilities before any mask, divided by the number of its tokens to
    the power of `length_penalty`. The options are those of transformers.

    Attributes:
        count: how many texts go on side by side, and how many complete ones are kept. 1 is greedy decoding.
        length_penalty: 0 prefers the likeliest text, which favours short ones; above 0 favours longer ones.
        early_stopping: when the search ends. True: with the first `count` complete texts. False: when the best
            incomplete text, at its present length, scores no better than the worst complete one. "never": when it could
            not at any length, which is the surest and slowest.
    """

    count: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        require(is_whole(self.count, 1), "count", self.count, "a count of at least 1")
        require(self.count <= MAX_BEAMS, "count", self.count, f"at most {MAX_BEAMS} beams, each a row of the batch")
        finite = is_number(self.length_penalty, -math.inf)
        require(finite, "length_penalty", self.length_penalty, "a finite number")
        require_one_of("early_stopping", self.early_stopping, True, False, "never")


_MAX_BLANKS = 1_000
"""The most blanks at one place: each takes a state of the automaton."""


@dataclass(frozen=True, slots=True)
class Whitespace:
    """The white space between JSON's tokens.

    `SPACED` is the layout of `json.dumps` by default (its exact text with `ensure_ascii=False`). `COMPACT` has none.
    `INDENTED(n)` is the layout of `json.dumps(indent=n)`. `FLEXIBLE` allows up to `bound` blanks and newlines wherever
    JSON does: between its tokens, and around a value that is the whole text (a composition says itself what is around
    its values).
    """

    kind: str = "spaced"
    indent: int = 0
    bound: int = 0

    SPACED: ClassVar[Whitespace]
    COMPACT: ClassVar[Whitespace]
    FLEXIBLE: ClassVar[Whitespace]

    def __post_init__(self) -> None:
        require_one_of("kind", self.kind, "spaced", "compact", "flexible", "indented")
        for name, kind in (("indent", "indented"), ("bound", "flexible")):
            count = getattr(self, name)
            require(is_whole(count, 0, _MAX_BLANKS), name, count, f"a whole number from 0 to {_MAX_BLANKS:,}")
            require(count == 0 or self.kind == kind, name, count, f"0: only kind={kind!r} has one")

    @staticmethod
    def INDENTED(indent: int) -> Whitespace:  # noqa: N802 - reads as one of the named choices
        """The layout of `json.dumps(value, indent=indent)`."""
        return Whitespace("indented", indent=indent)


Whitespace.SPACED = Whitespace("spaced")
Whitespace.COMPACT = Whitespace("compact")
Whitespace.FLEXIBLE = Whitespace("flexible", bound=20)
