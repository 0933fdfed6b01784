"""Every error structgen raises on purpose.

Two families. `RequestError`: what you asked for cannot be done, raised before anything runs (`LimitExceeded` alone may
come later). `RunError`: the run could not go on. Anything else that escapes is a bug of ours.

A message says where (JSON pointer, byte offset), what was found, what was allowed and what to do. It quotes at most
`QUOTED` characters of each text of the user's, by `quoted` or `excerpt`.
"""

from __future__ import annotations

import reprlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

QUOTED = 200
"""The most characters of one text that a message quotes."""


def excerpt(text: object) -> str:
    """A text (or an error's) as a message quotes it: on one line, the middle left out where it is long."""
    whole = str(text).replace("\n", " ")
    half = QUOTED // 2 - 2
    return whole if len(whole) <= QUOTED else f"{whole[:half]}...{whole[-half:]}"


def quoted(value: object) -> str:
    """The `repr` of a value as a message quotes it, however large, deep or odd the value is."""
    return excerpt(_REPR.repr(value))


class _Repr(reprlib.Repr):
    """`repr` that stops early: a whole one of a million items takes long, of deep ones it raises RecursionError."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 8
        self.maxstring = self.maxlong = self.maxother = QUOTED

    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write an integer of more than some 4,300 digits."""
        bits = x.bit_length()
        return f"<an integer of {bits:,} bits>" if bits > 4 * QUOTED else super().repr_int(x, level)


_REPR = _Repr()


class StructgenError(Exception):
    """The root of all errors raised on purpose. They can be pickled, as processes that share work need."""

    @property
    def message(self) -> str:
        """What it says, without what a `RefusedError` works out."""
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).__new__, (type(self), *self.args), self.__dict__  # without __init__, which makes messages


class RequestError(StructgenError, ValueError):
    """What was asked for cannot be done; nothing has run."""


class SchemaError(RequestError):
    """The schema is malformed: not a schema, a keyword of the wrong type, a reference to nowhere.

    Attributes:
        pointer: JSON pointer into the schema (`""` is the root).
    """

    def __init__(self, message: str, pointer: str = "") -> None:
        self.pointer = pointer
        super().__init__(f"at {excerpt(pointer) or 'the root of the schema'}: {message}")


class UnsupportedSchema(SchemaError):
    """The schema is well formed, but this release enforces a keyword of it in no way. It is never ignored."""


class UnsatisfiableSchema(SchemaError):
    """No document at all satisfies the schema."""


class VocabularyError(RequestError):
    """The tokenizer cannot be represented exactly (the message names the token), or cannot spell what is asked."""


class OptionError(RequestError):
    """An option, a model or a prompt has a value that cannot work."""


class LimitExceeded(RequestError):
    """A schema or a pattern is larger than a bound that protects the process; the message names the bound.

    States are written when a text first comes to them, so this may come from the run, too: in a batch it is its row's.

    Attributes:
        pointer: JSON pointer of the place in the schema; None where it is not known, or there is no schema.
    """

    def __init__(self, message: str, pointer: str | None = None) -> None:
        self.pointer = pointer
        super().__init__(
            message if pointer is None else f"at {excerpt(pointer) or 'the root of the schema'}: {message}"
        )

    def at(self, pointer: str) -> LimitExceeded:
        """The same with a place, unless it has one."""
        return self if self.pointer is not None else LimitExceeded(str(self), pointer)


class RunError(StructgenError, RuntimeError):
    """The run could not go on."""


@dataclass(frozen=True, slots=True)
class RefusedToken:
    """Why a token cannot come next, from `Matcher.explain`.

    Attributes:
        token: its bytes; empty for a token that ends the text.
        offset: how many of these could come.
        pointer: JSON pointer of the value that is being written; empty where the text is no JSON, too.
        keyword: the keyword that refuses the byte at `offset`, or the option (`order`, `whitespace`); empty where the
            text's own grammar does, as JSON's.
        rule: JSON pointer of the keyword's argument in the schema; empty for an option and where there is none.
        argument: of the keyword.
        expected: what could have come in words.
    """

    token: bytes
    offset: int
    pointer: str
    keyword: str
    rule: str
    argument: Any
    expected: str

    def __str__(self) -> str:
        given = f"{self.keyword}={quoted(self.argument)}" if self.keyword and not self.rule else self.keyword
        said = f"{self.keyword} {quoted(self.argument)}" if self.rule else given
        where = f"at {excerpt(self.pointer) or 'the root'}" + (f": {said}" if said else "")
        place = f", at byte {self.offset} of {quoted(self.token)}" if self.token else ""
        return f"{where}; expected {self.expected}{place}"


class RefusedError(RunError):
    """What could not come next, at one place of a text. Its message ends with what was expected there.

    That is worked out when the message, or `why`, is first asked for: an error that is caught costs nothing.

    Args:
        message: what could not come.
        explain: works out why; None where the message says it all.
    """

    def __init__(self, message: str, explain: Callable[[], RefusedToken | None] | None = None) -> None:
        self._explain, self._why = explain, None
        super().__init__(message)

    _explain: Callable[[], RefusedToken | None] | None
    _why: RefusedToken | None

    @property
    def why(self) -> RefusedToken | None:
        """The place, the schema's keyword, and what was expected there; None where the message says it all.

        Of a `DeadEnd`, why the text may not end there either.
        """
        explain, self._explain = self._explain, None
        if explain is not None:
            with suppress(StructgenError):  # a limit that is met on the way does not hide the error
                self._why = explain()
        return self._why

    def with_message(self, message: str) -> Self:
        """The same error in other words."""
        return type(self)(message, lambda: self.why)

    def __str__(self) -> str:
        why = "" if self.why is None else str(self.why)
        return f"{self.message}; {why}" if why not in self.message else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        _ = self.why  # it is worked out now: what works it out stays in this process
        return super().__reduce__()


class TokenRejected(RefusedError):
    """`Matcher.advance` was given a token that is not allowed; the matcher has not moved. `why` says more."""


class DeadEnd(RefusedError):
    """No token is allowed and the text may not end here. `why` says more, where a constraint is in the way."""


class LogitsError(RunError):
    """The model gave NaN or plus infinity as the logit of a token that may come next: nothing can be chosen then.

    In a batch only the rows whose logits these are have this error.

    Attributes:
        token_id: the first such token; in a beam search it may be one that is not allowed, since scores are
            log-probabilities among all tokens.
        step: how many tokens the text had before.
    """

    def __init__(self, message: str, token_id: int, step: int) -> None:
        self.token_id = token_id
        self.step = step
        super().__init__(message)


class BudgetExhausted(RunError):
    """`max_new_tokens` was reached before the value was complete.

    Attributes:
        text: what was generated up to there.
    """

    def __init__(self, message: str, text: str) -> None:
        self.text = text
        super().__init__(message)


class NoExactSample(RunError):
    """`Sampling(exact=True)` has found no valid text in as many forward passes as `Limits(exact_forwards=...)` allows.

    Attributes:
        tries: how many texts were begun.
        validity: the probability that a text of the model is valid is at most this.
    """

    def __init__(self, message: str, tries: int, validity: float) -> None:
        self.tries = tries
        self.validity = validity
        super().__init__(message)


class BudgetWarning(UserWarning):
    """Limits cut values short, and the call gave the values alone: the message names the places and the limits.

    Of a single value it also says at which byte of the text a limit refused what the model wanted to say. The values
    are valid. With `details=True` there is no warning, for `Generation.caps` says the same; with `Limits(strict=True)`
    the budget is a `BudgetExhausted` instead.

    Attributes:
        caps: of each row that was cut short, by the index of its prompt, the `Cap`s.
    """

    def __init__(self, message: str, caps: Mapping[int, Sequence[Any]] | None = None) -> None:
        self.caps = dict(caps or {})
        super().__init__(message)


class ValidationFailed(RunError):
    """The type's validators refused every value that was tried in one place, as often as `Limits` allows.

    Attributes:
        pointer: JSON pointer of the value that was refused last.
        text: what was generated up to its end.
        reason: what the validators said of it.
    """

    def __init__(self, message: str, pointer: str, text: str, reason: str) -> None:
        self.pointer = pointer
        self.text = text
        self.reason = reason
        super().__init__(message)


class CallSyntaxError(RunError):
    """A text is no turn in the model's call format: the message says where, and what was expected there."""


class CallbackError(RunError):
    """Code of the caller's (a guard, a machine, a logits processor) raised, or gave what it must not.

    What it raised is the `__cause__`. In a batch only the rows that asked it have this error.
    """


class ValidatorError(CallbackError):
    """A validator raised what is no validation error (`ValueError`, `AssertionError`): a bug of the type's own code.

    Attributes:
        pointer: JSON pointer of the value that was validated.
    """

    def __init__(self, type_name: str, pointer: str, text: str, error: Exception) -> None:
        self.pointer = pointer
        raised = f"{type(error).__name__}: {excerpt(error)}"
        place = excerpt(pointer) or "the whole value"
        super().__init__(
            f"a validator of {type_name} raised {raised} for {place}, text {quoted(text)}; "
            "a validator refuses a value by ValueError or AssertionError"
        )


class PerformanceWarning(UserWarning):
    """A run is exact but slower than it could be: the message says why. `Stats.why_slow` says it, too."""


def warn_caller(message: str) -> None:
    """Emits a `PerformanceWarning` at the line that called structgen."""
    level, depth, frame = 1, 1, sys._getframe(1)
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
        level = depth if frame.f_globals.get("__name__", "").startswith("structgen.") else level
    warnings.warn(message, PerformanceWarning, stacklevel=level + 2)
