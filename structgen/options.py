"""What a user may set: frozen values, validated here and only here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Literal

from structgen.arguments import is_listed, is_number, is_whole, require, require_count, require_flag, require_unicode
from structgen.errors import OptionError


def digest(seed: int, number: int) -> bytes:
    """Eight bytes that a seed decides, others for each number."""
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


MOST_SAMPLES = 100_000
"""Samples of one prompt in one call."""

_SEED_BITS = 4096
"""Python writes longer numbers out only in quadratic time, and refuses the longest."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the masked logits.

    Attributes:
        temperature: 0 is greedy decoding (the default).
        top_k: keep the `top_k` likeliest tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probabilities reach `top_p`, in (0, 1].
        min_p: drop tokens less likely than `min_p` times the likeliest one, in [0, 1).
        typical_p: keep the smallest set of the most typical tokens that has `typical_p` of the mass, in (0, 1].
        repetition_penalty: scores of tokens in the text or before it (the prompt, what was thought; of encoder-decoder
            models what the decoder begins with) are divided by it where they are positive,
            multiplied where not; above 0, 1 is none. Punctuation is punished too: JSON repeats it.
        frequency_penalty: subtracted from a token's score for every time it stands in the text.
        presence_penalty: subtracted once from the score of a token that stands in the text.
        processors: logits processors of transformers, or callables like them, `(input_ids, scores) -> scores`, with
            int64[1, tokens] of prompt and text and float[1, width]. They see the masked scores after the penalties;
            those that transformers calls warpers see them divided by the temperature, and come before our own filters.
        seed: the same seed gives the same result, whatever else is in the batch. None draws a fresh one.
        exact: draw whole texts from the model's own distribution, given that they are valid (`docs/concepts/exact.md`).
            The distribution is that of the other options without any mask, up to the end token or `max_new_tokens`.
            "prefer" draws as without it where `Limits(exact_forwards=...)` are spent before there is a text, and
            `Generation.exact` tells; True raises `NoExactSample` there. "weights" gives up no try but those whose text
            is refused: texts come nearly as cheap as step by step, and each has a `Generation.log_weight`. Rows of one
            call with the same prompt, constraint and options share what was refused: a seed gives the same text again
            in the same call.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    processors: tuple[Callable[[Any, Any], Any], ...] = ()
    seed: int | None = None
    exact: bool | Literal["prefer", "weights"] = False

    def __post_init__(self) -> None:
        require(is_number(self.temperature, 0), "temperature", self.temperature, "a finite number of at least 0")
        require(is_whole(self.top_k, 0), "top_k", self.top_k, "0 (all) or a positive count")
        require_count("top_k", self.top_k, 0)
        for name in ("top_p", "typical_p"):
            share = getattr(self, name)
            require(is_number(share, 0, 1) and share > 0, name, share, "a number in (0, 1]")
        require(is_number(self.min_p, 0, 1) and self.min_p < 1, "min_p", self.min_p, "a number in [0, 1)")
        repetition = is_number(self.repetition_penalty, 0) and self.repetition_penalty > 0
        require(repetition, "repetition_penalty", self.repetition_penalty, "a finite number above 0")
        for name in ("frequency_penalty", "presence_penalty"):
            require(is_number(getattr(self, name), -math.inf), name, getattr(self, name), "a finite number")
        require(self.seed is None or is_whole(self.seed, 0), "seed", self.seed, "a whole number of at least 0, or None")
        short = self.seed is None or int(self.seed).bit_length() <= _SEED_BITS
        require(short, "seed", self.seed, f"a whole number of at most {_SEED_BITS:,} bits")
        known = isinstance(self.exact, bool) or (isinstance(self.exact, str) and self.exact in ("prefer", "weights"))
        require(known, "exact", self.exact, "True, False, 'prefer' or 'weights'")
        drawn = not self.exact or not self.greedy
        require(drawn, "temperature", self.temperature, "above 0 with exact=: the likeliest token is no draw")
        listed = is_listed(self.processors, object) and all(map(callable, self.processors))
        require(listed, "processors", self.processors, "a list of logits processors")
        object.__setattr__(self, "processors", tuple(self.processors))
        for processor in self.processors:
            for name in (kind.__name__ for kind in type(processor).__mro__ if kind.__name__ in UNFIT_PROCESSORS):
                raise OptionError(f"processors: {name} {UNFIT_PROCESSORS[name]}")

    @property
    def greedy(self) -> bool:
        """True when the likeliest allowed token is always taken."""
        return self.temperature == 0

    @property
    def penalises(self) -> bool:
        """True when what was said changes the scores."""
        return self.repetition_penalty != 1 or self.frequency_penalty != 0 or self.presence_penalty != 0

    @property
    def reads_text(self) -> bool:
        """True when the scores depend on what was said."""
        return self.penalises or bool(self.processors)

    def several(self, count: int) -> list[Sampling]:
        """The same options for `count` samples of one prompt, each with a seed of its own that this seed decides.

        Raises:
            OptionError: greedy, which gives the same text every time; or more than 100,000 samples.
        """
        require(not self.greedy, "temperature", self.temperature, "above 0 for several samples")
        require_count("count", count, 1)
        require(count <= MOST_SAMPLES, "count", count, f"at most {MOST_SAMPLES:,} samples in one call")
        if self.seed is None:
            return [self] * count
        return [replace(self, seed=int.from_bytes(digest(self.seed, i), "little")) for i in range(count)]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request.

    Attributes:
        max_new_tokens: tokens that may be generated, the end token included.
        rollbacks: how often the decoder may take tokens back because the text cannot go on from where it is, or a guard
            refuses it. Guards are masks from then on.
        stop: plain text ends before the first of these strings. A constraint says itself where its text ends.
        validations: how often a value that the type's own validators refuse is tried again in another way.
        strict: raise `BudgetExhausted` where `max_new_tokens` comes before the value is complete. Otherwise the value
            is closed in time, the cheapest way; the result, or a `BudgetWarning`, says what was cut short.
        max_digits: of one number in JSON. It is closed there, the text goes on, and the result says so; so with the
            caps that follow. They stop a model that is stuck; what a schema itself asks for may be more. None: no cap.
        max_blanks: blanks and newlines in a row, inside of strings also those written as escapes.
        max_equal_items: items of an array in a row that are spelled alike.
        max_items: items of an array.
        max_characters: bytes of a string or name, as it is written.
        exact_forwards: with `Sampling(exact=...)`, forward passes of a row after which no further try for a text is
            begun; each try counts as one at least. Of the other limits only `max_new_tokens` and `stop` hold there.
    """

    max_new_tokens: int = 512
    rollbacks: int = 256
    stop: tuple[str, ...] = ()
    validations: int = 64
    strict: bool = False
    max_digits: int | None = 128
    max_blanks: int | None = 128
    max_equal_items: int | None = 128
    max_items: int | None = 16_384
    max_characters: int | None = 65_536
    exact_forwards: int = 1024

    def __post_init__(self) -> None:
        for name in ("max_digits", "max_blanks", "max_equal_items", "max_items", "max_characters"):
            cap = getattr(self, name)
            require(cap is None or is_whole(cap, 1), name, cap, "a whole number, at least 1, or None for no cap")
        for name in ("max_new_tokens", "exact_forwards"):
            require_count(name, getattr(self, name), 1)
        for name in ("rollbacks", "validations"):
            require_count(name, getattr(self, name), 0)
        listed = is_listed(self.stop, str) and all(self.stop)
        require(listed, "stop", self.stop, "a list of texts, none of them empty")
        require_unicode("stop", *self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))
        require_flag("strict", self.strict)


@dataclass(frozen=True, slots=True)
class Thinking:
    """Free text that a model thinks in before it answers, between two tags.

    Attributes:
        opening: what thinking begins with. It is added to a prompt that does not end with it already, as those of some
            chat templates do. None takes the tag of the model's chat template; `<think>` where that has none.
        closing: what thinking ends with. Its tag comes from the model, the white space around that is fed. Where it is
            made of several special tokens, the first one comes from the model. None is as for `opening`.
        max_tokens: so many at most; then the closing tag is fed, and the answer begins. They do not count among the
            answer's `max_new_tokens`.
        answer_share: where the model's context has no room for both, so much of the room is kept for the answer, from 0
            to 1, and the tokens that surely close it in any case.
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


MOST_BEAMS = 256


@dataclass(frozen=True, slots=True)
class Beams:
    """Beam search: instead of one text, the likeliest so far go on side by side, and the best complete one wins.

    A text's score is the sum of its tokens' log-probabilities, as the model has them before any mask, divided by the
    number of its tokens to the power of `length_penalty`. Options as in transformers.

    Attributes:
        count: texts that go on side by side, and complete ones that are kept. 1 is greedy decoding.
        length_penalty: 0 prefers what is likeliest, which favours short texts; above 0 longer ones are favoured.
        early_stopping: True: it is over with the first `count` complete texts. False: when the best of those on their
            way has, with its length so far, no better score than the worst of these. "never": when it can have none
            with any length; the surest and the slowest.
    """

    count: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        require(is_whole(self.count, 1), "count", self.count, "a count of at least 1")
        require(self.count <= MOST_BEAMS, "count", self.count, f"at most {MOST_BEAMS} beams, each a row of the batch")
        finite = is_number(self.length_penalty, -math.inf)
        require(finite, "length_penalty", self.length_penalty, "a finite number")
        known = isinstance(self.early_stopping, bool) or (
            isinstance(self.early_stopping, str) and self.early_stopping == "never"
        )
        require(known, "early_stopping", self.early_stopping, "True, False or 'never'")


_MOST_BLANKS = 1_000
"""Blanks that one place may have: each takes a state."""


@dataclass(frozen=True, slots=True)
class Whitespace:
    """Where white space may stand between JSON's tokens.

    `SPACED` is the layout that `json.dumps` writes by default (its very text with `ensure_ascii=False`), `COMPACT` has
    none, `INDENTED(n)` is the layout of `json.dumps(indent=n)`, `FLEXIBLE` allows any run of up to `bound` blanks and
    newlines wherever JSON does: between its tokens, and before and behind a value that is the whole text. What stands
    around a value in a composition is the composition's to say.
    """

    kind: str = "spaced"
    indent: int = 0
    bound: int = 0

    SPACED: ClassVar[Whitespace]
    COMPACT: ClassVar[Whitespace]
    FLEXIBLE: ClassVar[Whitespace]

    def __post_init__(self) -> None:
        kinds = ("spaced", "compact", "flexible", "indented")
        known = isinstance(self.kind, str) and self.kind in kinds
        require(known, "kind", self.kind, f"one of {', '.join(kinds)}")
        for name, kind in (("indent", "indented"), ("bound", "flexible")):
            count = getattr(self, name)
            require(is_whole(count, 0, _MOST_BLANKS), name, count, f"a whole number from 0 to {_MOST_BLANKS:,}")
            require(count == 0 or self.kind == kind, name, count, f"0: only kind={kind!r} has one")

    @staticmethod
    def INDENTED(indent: int) -> Whitespace:  # noqa: N802 - reads as one of the named choices
        """The layout of `json.dumps(value, indent=indent)`."""
        return Whitespace("indented", indent=indent)


Whitespace.SPACED = Whitespace("spaced")
Whitespace.COMPACT = Whitespace("compact")
Whitespace.FLEXIBLE = Whitespace("flexible", bound=20)
