"""Every error that structgen raises on purpose.

There are two families. A `RequestError` says that the request cannot be done, before anything runs (only
`LimitExceeded` may come later). A `RunError` says that a run could not continue. Any other exception is a bug of ours.

A message says where (JSON pointer, byte offset), what was found, what was allowed and what to do. It quotes at most
`QUOTED` characters of each of the user's texts, by `quoted` or `excerpt`.
"""

from __future__ import annotations

import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from typing_extensions import Self

QUOTED = 200
"""The most characters of one text that a message quotes."""


_OBEYED = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]")
"""Control characters other than the tab, other ends of lines, marks that turn the direction of a text, and halves of
surrogate pairs."""


def printable(text: str) -> str:
    """A text with escapes in the place of what a terminal would obey, such as ESC, or could not show."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def excerpt(text: object) -> str:
    """The text of an object as a message quotes it: one printable line, with the middle left out if it is long."""
    whole = _shortened(str(text))
    return _shortened(printable(whole.replace("\n", " ")))


def _shortened(text: str) -> str:
    half = QUOTED // 2 - 2
    return text if len(text) <= QUOTED else f"{text[:half]}...{text[-half:]}"


def quoted(value: object) -> str:
    """The `repr` of a value as a message quotes it; safe for values of any size and depth."""
    return excerpt(_REPR.repr(value))


def refused_part(refusal: Any) -> str:
    """What a `ValidationError` of Pydantic says of the first part that it refuses: its place, why, what is there."""
    first = refusal.errors(include_url=False)[0]
    place, why = "/".join(map(str, first["loc"])), re.sub(r" or instance of \w+", "", first["msg"])
    found = "" if first["type"] == "missing" else f", found {quoted(first['input'])}"
    return f"{excerpt(place) or 'the whole'}: {why}{found}"


class _Repr(reprlib.Repr):
    """`repr` that stops early: a full one takes long for a million items, and raises RecursionError for deep ones."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 8
        self.maxstring = self.maxlong = self.maxother = QUOTED

    def repr_int(self, x: int, level: int) -> str:
        """Avoids Python's error for integers of more than some 4,300 digits."""
        bits = x.bit_length()
        return f"<an integer of {bits:,} bits>" if bits > 4 * QUOTED else super().repr_int(x, level)


_REPR = _Repr()


class StructgenError(Exception):
    """The base of all errors raised on purpose. They can be pickled, for processes that share work.

    Attributes:
        conversation: what an error that left `run` or `arun` stopped: a `Conversation` that they take again; else None.
    """

    conversation: Any = None

    @property
    def message(self) -> str:
        """The message without the explanation that a `RefusedError` adds."""
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "conversation"}
        return type(self).__new__, (type(self), *self.args), state  # without __init__, which makes messages


class RequestError(StructgenError, ValueError):
    """The request cannot be done; nothing has run."""


class SchemaError(RequestError):
    """The schema is malformed: not a schema, a keyword of the wrong type, a reference to nowhere.

    Attributes:
        pointer: JSON pointer into the schema (`""` is the root).
    """

    def __init__(self, message: str, pointer: str = "") -> None:
        self.pointer = pointer
        super().__init__(f"at {excerpt(pointer) or 'the root of the schema'}: {message}")


class UnsupportedSchema(SchemaError):
    """The schema is well formed, but has a keyword that this release cannot enforce. None is ever ignored."""


class UnsatisfiableSchema(SchemaError):
    """No document satisfies the schema."""


class VocabularyError(RequestError):
    """The tokenizer cannot be represented exactly (the message names the token), or cannot spell the constraint."""


class OptionError(RequestError):
    """An option, a model or a prompt cannot work."""


DISTRIBUTION = "structgen-llm"
"""What pip installs: the package index has another project under the name `structgen`."""


def not_installed(need: str, extra: str) -> OptionError:
    """The error for an optional package that is missing; `need` is a clause such as "spans need opentelemetry-api"."""
    return OptionError(f"{need}: pip install '{DISTRIBUTION}[{extra}]', or '.[{extra}]' in a checkout")


class PromptTooLong(OptionError):
    """A prompt has more tokens than the model's context holds.

    Attributes:
        tokens: of the prompt.
        context: the tokens that the model can read.
    """

    def __init__(self, where: str, tokens: int, context: int) -> None:
        self.tokens, self.context = tokens, context
        super().__init__(f"{where} has {tokens} tokens, the model's context holds {context}: shorten it")


class LimitExceeded(RequestError):
    """A schema or a pattern is larger than a bound that protects the process; the message names the bound.

    States are made when a text first reaches them, so a run may raise this, too; in a batch it is its row's error.

    Attributes:
        pointer: JSON pointer of the place in the schema; None where it is not known, or there is no schema.
    """

    def __init__(self, message: str, pointer: str | None = None) -> None:
        self.pointer = pointer
        super().__init__(
            message if pointer is None else f"at {excerpt(pointer) or 'the root of the schema'}: {message}"
        )

    def at(self, pointer: str) -> LimitExceeded:
        """The same error with this pointer, unless it has one."""
        return self if self.pointer is not None else LimitExceeded(str(self), pointer)


class RunError(StructgenError, RuntimeError):
    """The run could not continue."""


def unforeseen(what: str, cause: BaseException) -> RunError:
    """The error of one row or request for an exception that nobody foresaw, which is its cause."""
    error = RunError(f"{what}: {type(cause).__name__}: {excerpt(cause)}")
    error.__cause__ = cause
    return error


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a token was refused.

    Attributes:
        pointer: JSON pointer of the value that is being written; also empty where the text is no JSON.
        keyword: the keyword of the schema that refuses it, or the option (`order`, `whitespace`, a limit); empty where
            the grammar of the text itself does, such as JSON's.
        rule: JSON pointer of the keyword's argument in the schema; empty for an option or without a keyword.
        argument: of the keyword.
        expected: what could have come, in words.
    """

    pointer: str
    keyword: str = ""
    rule: str = ""
    argument: Any = None
    expected: str = ""

    def __str__(self) -> str:
        refused_by = f": {self.keyword}{' ' if self.rule else '='}{quoted(self.argument)}" if self.keyword else ""
        expected = f"; expected {self.expected}" if self.expected else ""
        return f"at {excerpt(self.pointer) or 'the root'}{refused_by}{expected}"


@dataclass(frozen=True, slots=True)
class RefusedToken:
    """Why a token cannot come next, from `Matcher.explain`.

    Attributes:
        token: its bytes; empty for a token that ends the text.
        offset: how many of its bytes were allowed.
        pointer: JSON pointer of the value that is being written; also empty where the text is no JSON.
        keyword: the keyword that refuses the byte at `offset`, or the option (`order`, `whitespace`); empty where the
            grammar of the text itself does, such as JSON's.
        rule: JSON pointer of the keyword's argument in the schema; empty for an option or without a keyword.
        argument: of the keyword.
        expected: what could have come, in words.
    """

    token: bytes
    offset: int
    pointer: str
    keyword: str
    rule: str
    argument: Any
    expected: str

    def __str__(self) -> str:
        place = f", at byte {self.offset} of {quoted(self.token)}" if self.token else ""
        return f"{self.reason}{place}"

    @property
    def reason(self) -> Reason:
        """The same without the token."""
        return Reason(self.pointer, self.keyword, self.rule, self.argument, self.expected)


class RefusedError(RunError):
    """Something could not come next in a text. The message ends with what was expected there.

    The expectation is computed when the message or `why` is first read, so an error that is only caught costs nothing.

    Args:
        message: what could not come.
        explain: computes `why`; None where the message says it all.
    """

    def __init__(self, message: str, explain: Callable[[], RefusedToken | None] | None = None) -> None:
        self._explain, self._why = explain, None
        super().__init__(message)

    _explain: Callable[[], RefusedToken | None] | None
    _why: RefusedToken | None

    @property
    def why(self) -> RefusedToken | None:
        """The place, the schema's keyword, and what was expected there; None where the message says it all.

        For a `DeadEnd`, why the text may not end there either.
        """
        explain, self._explain = self._explain, None
        if explain is not None:
            with suppress(StructgenError):  # a limit reached meanwhile must not hide the error
                self._why = explain()
        return self._why

    def with_message(self, message: str) -> Self:
        """The same error with another message."""
        return type(self)(message, lambda: self.why)

    def __str__(self) -> str:
        why = "" if self.why is None else str(self.why)
        return f"{self.message}; {why}" if why not in self.message else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        _ = self.why  # computed now, since `_explain` cannot be pickled
        return super().__reduce__()


class TokenRejected(RefusedError):
    """`Matcher.advance` was given a token that is not allowed; the matcher has not moved. `why` says more."""


class DeadEnd(RefusedError):
    """No token is allowed and the text may not end here. `why` says more where a constraint is the reason."""


class LogitsError(RunError):
    """The model's logit of a token that may come next is NaN or plus infinity, so nothing can be chosen.

    In a batch only the rows with such logits have this error.

    Attributes:
        token_id: the first such token. In a beam search it may be a token that is not allowed, since scores are
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


class Stopped(RunError):
    """The run was ended early: by `Limits(seconds=...)` or `cancel=`; a job also by `max_failures=` or by its inputs.

    Attributes:
        text: what was generated up to there.
        report: of a job, its `Extraction`; else None.
    """

    def __init__(self, message: str, text: str = "", report: Any = None) -> None:
        self.text, self.report = text, report
        super().__init__(message)


class NoExactSample(RunError):
    """`Sampling(exact=True)` has found no valid text within `Limits(exact_forwards=...)` forward passes.

    Attributes:
        tries: how many texts were started.
        validity: an upper bound of the probability that a text of the model is valid.
    """

    def __init__(self, message: str, tries: int, validity: float) -> None:
        self.tries = tries
        self.validity = validity
        super().__init__(message)


class BudgetWarning(UserWarning):
    """Limits cut values short in a call without `details=True`; the message names the places and the limits.

    For a single value it also says at which byte of the text a limit refused the model's token. The values are valid.
    With `details=True` there is no warning, since `Generation.caps` says the same. With `Limits(strict=True)` a spent
    budget is a `BudgetExhausted` instead.

    Attributes:
        caps: the `Cap`s of each row that was cut short, by the index of its prompt.
    """

    def __init__(self, message: str, caps: Mapping[int, Sequence[Any]] | None = None) -> None:
        self.caps = dict(caps or {})
        super().__init__(message)


class ValidationFailed(RunError):
    """The type's validators refused every value that was tried at one place, as often as `Limits` allows.

    Attributes:
        pointer: JSON pointer of the value that was refused last; with a candidate, of what its first rule names.
        text: what was generated up to the end of that value.
        reason: the validators' message.
        candidate: the best value that was refused, as JSON text: a whole one, with the fewest rules failed, if any was
            complete. None where none is known.
        rules: what it fails, each as its JSON pointer and the validators' message.
    """

    def __init__(
        self,
        message: str,
        pointer: str,
        text: str,
        reason: str,
        *,
        candidate: str | None = None,
        rules: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.pointer = pointer
        self.text = text
        self.reason = reason
        self.candidate = candidate
        self.rules = tuple(rules)
        super().__init__(message)


class ToolError(RunError):
    """A server's tool (`mcp_tools`, `Tool.from_openapi`) answers that it has failed; the message is the server's."""


class CallSyntaxError(RunError):
    """A text is no turn in the model's call format: the message says where, and what was expected there."""


class CallbackError(RunError):
    """The user's code (a guard, a machine, a logits processor) raised an exception or returned something invalid.

    The exception is the `__cause__`. In a batch only the rows that called the code have this error.
    """


class ValidatorError(CallbackError):
    """A validator raised another exception than `ValueError` or `AssertionError`, which is a bug of the type's code.

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


class SchemaWarning(UserWarning):
    """A schema is enforced as it says, but hardly as its author means: the message has an example."""


class MessageWarning(UserWarning):
    """A message of a history has a call whose arguments are no JSON object: the message says how they are read."""


deferred: ContextVar[list[Warning] | None] = ContextVar("deferred", default=None)
"""In a thread that works for async code: the warnings of `warn_caller`, which that code emits at its own line."""


def warn_caller(warning: str | Warning, category: type[UserWarning] = PerformanceWarning, *, through: str = "") -> None:
    """Emits a warning at the line that called structgen, or later if this thread works for async code.

    Args:
        through: another package through which structgen is called.
    """
    warning = warning if isinstance(warning, Warning) else category(warning)
    if (later := deferred.get()) is not None:
        later.append(warning)
        return
    inner = ("structgen.", f"{through}.") if through else ("structgen.",)
    level, depth, frame = 1, 1, sys._getframe(1)
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
        level = depth if frame.f_globals.get("__name__", "").startswith(inner) else level
    warnings.warn(warning, stacklevel=level + 2)
