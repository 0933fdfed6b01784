"""The classes of options: frozen values, validated here and only here.

Each field's metadata has its check and who else takes it; their readers, instead of lists of their own, ask for:

    openai: OpenAI's interface has a field of this name.
    extra: the field `structgen` of a request has it; `spare`: an endpoint without that field does without it, too.
    vllm: clients of vLLM send it next to OpenAI's fields.
    line: the command line has a flag for it, as for those of `openai` and `extra`.
    model: a model's `generation_config` may set it.
    filters: it leaves out tokens of a draw, so greedy decoding ignores it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, ClassVar, Literal

from structgen.arguments import (
    allowing,
    check_options,
    count_from,
    is_listed,
    is_number,
    is_whole,
    named_options,
    one_of,
    option,
    optional,
    options_with,
    require,
    require_count,
    require_flag,
    require_one_of,
    require_unicode,
)
from structgen.errors import OptionError
from structgen.model_settings import recommended


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


_LARGEST = 1000
"""The largest penalty: larger ones would turn logits into infinities."""
_SHARE = allowing(lambda value: is_number(value, 0, 1) and value > 0, "a number in (0, 1]")
_SMALL_SHARE = allowing(lambda value: is_number(value, 0, 1) and value < 1, "a number in [0, 1)")
_POSITIVE = allowing(lambda value: is_number(value, 0), "a finite number of at least 0")
_PENALTY = allowing(lambda value: is_number(value, -_LARGEST, _LARGEST), f"a number from {-_LARGEST} to {_LARGEST}")
_FACTOR = allowing(
    lambda value: is_number(value, 1 / _LARGEST, _LARGEST), f"a number from {1 / _LARGEST} to {_LARGEST}"
)


def _check_seed(name: str, value: Any) -> None:
    require(value is None or is_whole(value, 0), name, value, "a whole number of at least 0, or None")
    short = value is None or int(value).bit_length() <= _SEED_BITS
    require(short, name, value, f"a whole number of at most {_SEED_BITS:,} bits")


def _check_top_k(name: str, value: Any) -> None:
    require(is_whole(value, 0), name, value, "0 (all) or a positive count")
    require_count(name, value, 0)


def _check_processors(name: str, value: Any) -> None:
    listed = is_listed(value, object) and all(map(callable, value))
    require(listed, name, value, "a list of logits processors")
    for processor in value:
        for kind in (each.__name__ for each in type(processor).__mro__ if each.__name__ in UNFIT_PROCESSORS):
            raise OptionError(f"{name}: {kind} {UNFIT_PROCESSORS[kind]}")


@named_options
@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the masked logits.

    Attributes:
        temperature: 0 is greedy decoding (the default).
        top_k: keep the `top_k` most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probabilities reach `top_p`, in (0, 1].
        min_p: drop tokens less likely than `min_p` times the most likely one, in [0, 1).
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

    temperature: float = field(default=0.0, metadata=option(_POSITIVE, openai=True, model=True))
    top_k: int = field(default=0, metadata=option(_check_top_k, extra=True, vllm=True, model=True, filters=True))
    top_p: float = field(default=1.0, metadata=option(_SHARE, openai=True, model=True, filters=True))
    min_p: float = field(default=0.0, metadata=option(_SMALL_SHARE, extra=True, vllm=True, model=True, filters=True))
    typical_p: float = field(default=1.0, metadata=option(_SHARE, extra=True, vllm=True, model=True, filters=True))
    repetition_penalty: float = field(default=1.0, metadata=option(_FACTOR, extra=True, vllm=True, model=True))
    frequency_penalty: float = field(default=0.0, metadata=option(_PENALTY, openai=True))
    presence_penalty: float = field(default=0.0, metadata=option(_PENALTY, openai=True))
    penalties: Literal["free", "all"] = field(
        default="free", metadata=option(one_of("free", "all"), extra=True, spare=True)
    )
    processors: tuple[Callable[[Any, Any], Any], ...] = field(default=(), metadata=option(_check_processors))
    seed: int | None = field(default=None, metadata=option(_check_seed, openai=True))
    exact: bool | Literal["prefer", "weights"] = field(
        default=False, metadata=option(one_of(True, False, "prefer", "weights"))
    )

    def __post_init__(self) -> None:
        check_options(self)
        drawn = not self.exact or not self.greedy
        require(
            drawn, "temperature", self.temperature, "above 0 with exact=: taking the most likely token is not sampling"
        )
        object.__setattr__(self, "processors", tuple(self.processors))

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
        return cls(**{**recommended(model, options_with(cls, "model")), **changes})

    @property
    def greedy(self) -> bool:
        """True where the most likely allowed token is always taken."""
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


MAX_DEPTH = 180
"""Pydantic's reader takes 200 levels of JSON, of which a tool's call or a wrapper may take some."""
DEFAULT_DEPTH = 128
"""The most containers inside each other where no `Limits` say another number."""


_CAP = allowing(lambda cap: cap is None or is_whole(cap, 1), "a whole number, at least 1, or None for no cap")
_SECONDS = allowing(
    lambda value: value is None or (is_number(value, 0) and value > 0),
    "a number of seconds above 0, or None for no limit",
)


def _check_depth(name: str, value: Any) -> None:
    require_count(name, value, 1)
    require(value <= MAX_DEPTH, name, value, f"at most {MAX_DEPTH}, as Pydantic reads")


def _check_stop(name: str, value: Any) -> None:
    require(is_listed(value, str) and all(value), name, value, "a list of texts, none of them empty")
    require_unicode(name, *value)


LONGEST_JSON, LONGEST_TEXT = 32_768, 512
"""Tokens of a text without `max_new_tokens`."""


@named_options
@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request.

    Attributes:
        max_new_tokens: the most tokens that are generated, the end token included. None is what is left of the model's
            context for JSON, up to 32,768, and 512 for other texts, which may have no end.
        rollbacks: how often the decoder may take tokens back because the text cannot continue or a guard refuses it.
            After that, guards only mask tokens.
        stop: plain text ends before the first of these strings, and so does the text next to calls, never a call. In a
            value they are refused: a constraint itself defines where its text ends.
        validations: how often a value that the type's own validators refuse is tried again in another way.
        strict: raise `BudgetExhausted` where `max_new_tokens` are spent before the value is complete, or a cap cuts it.
            Otherwise the value is closed in time, the cheapest way, and the result, or a `BudgetWarning`, says what was
            cut short; a call of a tool is not closed, see `ToolCall.cut`.
        max_digits: the most digits of one number in JSON. At the cap the number is closed, the text continues, and the
            result says so; within a call of a tool the text ends, see `ToolCall.cut`. This and the following caps stop
            a model that repeats itself; what the schema itself demands may exceed them. They hold for JSON alone, in
            calls and in compositions, and for a call's strings without quotes. None is no cap.
        max_blanks: the most blanks and newlines in a row; in strings, those written as escapes count, too.
        max_repeated: the most bytes, blanks not counted, of a loop: one piece of text again and again, at the end of a
            string or name, or one item or some items again and again, at the end of an array. A loop that is not prose,
            but symbols, numbers or records, may have four times as many in a budget of 16 times as many tokens. A loop
            repeats its text more than eight times, its lines or rows more than 32 times (or in four times as many
            bytes), or items of prose more than sixteen times; in an array a short value, like 0 or "", counts as two
            bytes, and a word as four. Pieces of more than 1,024 bytes are not looked for.
        max_items: the most items of an array.
        max_depth: the most arrays and objects inside each other: masks allow none that could only end deeper, unless
            the schema requires it; within a call of a tool the text ends, see `ToolCall.cut`. Pydantic reads 200 levels
            of JSON, Python's `json` some 900.
        max_characters: the most bytes of a string or name, as it is written.
        exact_forwards: with `Sampling(exact=...)`, the forward passes of a row after which no further try is started;
            each try counts as at least one. Of the other limits only `max_new_tokens`, `stop` and `seconds` hold there.
        max_plan_tokens: with `plan="free"`, the most tokens of the plan, which do not count among `max_new_tokens`.
        seconds: the time limit of the call; in a job, of each input. A value in progress is closed at once if that is
            possible, else the row fails with `Stopped`. The model's step in progress is waited for. None is no limit.
    """

    max_new_tokens: int | None = field(default=None, metadata=option(optional(count_from(1)), line=True))
    rollbacks: int = field(default=256, metadata=option(count_from(0), extra=True))
    stop: tuple[str, ...] = field(default=(), metadata=option(_check_stop))
    validations: int = field(default=64, metadata=option(count_from(0), extra=True, spare=True))
    strict: bool = field(default=False, metadata=option(require_flag, extra=True))
    max_digits: int | None = field(default=20, metadata=option(_CAP, extra=True))
    max_blanks: int | None = field(default=128, metadata=option(_CAP, extra=True))
    max_repeated: int | None = field(default=256, metadata=option(_CAP, extra=True))
    max_items: int | None = field(default=16_384, metadata=option(_CAP, extra=True))
    max_depth: int = field(default=DEFAULT_DEPTH, metadata=option(_check_depth, extra=True))
    max_characters: int | None = field(default=65_536, metadata=option(_CAP, extra=True))
    exact_forwards: int = field(default=1024, metadata=option(count_from(1), extra=True, spare=True, line=False))
    max_plan_tokens: int = field(default=1024, metadata=option(count_from(1), extra=True, spare=True, line=False))
    seconds: float | None = field(default=None, metadata=option(_SECONDS, extra=True, spare=True))

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "stop", tuple(self.stop))

    def budget(self, *, is_json: bool = False) -> int:
        """The tokens of a text, where the model's context has room for them."""
        return self.max_new_tokens or (LONGEST_JSON if is_json else LONGEST_TEXT)


_FRACTION = allowing(lambda value: is_number(value, 0, 1), "a number from 0 to 1")


def _check_tag(name: str, value: Any) -> None:
    if value is not None:
        require(isinstance(value, str) and bool(value.strip()), name, value, "a tag, or None")
        require_unicode(name, value)


@named_options
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

    opening: str | None = field(default=None, metadata=option(_check_tag, extra=True))
    closing: str | None = field(default=None, metadata=option(_check_tag, extra=True))
    max_tokens: int = field(default=2048, metadata=option(count_from(1), extra=True))
    answer_share: float = field(default=0.25, metadata=option(_FRACTION, extra=True))

    def __post_init__(self) -> None:
        check_options(self)


MAX_BEAMS = 256


def _check_beams(name: str, value: Any) -> None:
    require(is_whole(value, 1), name, value, "a count of at least 1")
    require(value <= MAX_BEAMS, name, value, f"at most {MAX_BEAMS} beams, each a row of the batch")


@named_options
@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: the most likely texts so far continue side by side, and the best complete one wins.

    A text's score is the sum of its tokens' log-probabilities before any mask, divided by the number of its tokens to
    the power of `length_penalty`. The options are those of transformers.

    Attributes:
        count: how many texts continue side by side, and how many complete ones are kept. 1 is greedy decoding.
        length_penalty: 0 prefers the most likely text, which favours short ones; above 0 favours longer ones.
        early_stopping: when the search ends. True: with the first `count` complete texts. False: when the best
            incomplete text, at its present length, scores no better than the worst complete one. "never": when it could
            not at any length, which is the surest and slowest.
    """

    count: int = field(metadata=option(_check_beams))
    length_penalty: float = field(
        default=1.0, metadata=option(allowing(lambda value: is_number(value, -math.inf), "a finite number"))
    )
    early_stopping: bool | Literal["never"] = field(default=False, metadata=option(one_of(True, False, "never")))

    def __post_init__(self) -> None:
        check_options(self)


_MAX_BLANKS = 1_000
"""The most blanks at one place: each takes a state of the automaton."""


@named_options
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
