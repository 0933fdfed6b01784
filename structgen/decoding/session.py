"""One request in the decode loop: what it was asked, what it has said, and whether it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, ParamSpec, TypeVar

import numpy as np

from structgen.decoding.masking import Words, pack
from structgen.errors import BudgetExhausted, DeadEnd, StructgenError
from structgen.masks import Matcher
from structgen.options import Sampling
from structgen.search.sampling import NOTHING
from structgen.vocabulary import Vocabulary

P = ParamSpec("P")
T = TypeVar("T")

Finish = Literal["end", "complete", "length", "error"]
"""Why a row stopped: the model chose an end token; the constraint left nothing to add; `max_new_tokens` or
the model's context was reached (a constrained value happens to be complete there); or `error` says."""


class Session:
    """The state of one row.

    Args:
        prompt: token ids, at least one.
        vocabulary: of the model.
        matcher: a fresh matcher of the row's constraint; None for plain text.
        sampling: the row's sampling options.
        budget: tokens that may be generated, the end token included.
        bound: what set the budget, for messages.

    Attributes:
        tokens: the generated ids, an end token at the end where the model chose one.
        budget: tokens that may be generated, the end token included.
        finish: None while the row is running.
        error: why the row failed, with `finish="error"`.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        vocabulary: Vocabulary,
        *,
        matcher: Matcher | None,
        sampling: Sampling,
        budget: int,
        bound: str = "max_new_tokens",
    ) -> None:
        self.prompt = prompt
        self.sampling = sampling
        self.tokens: list[int] = []
        self.finish: Finish | None = None
        self.error: StructgenError | None = None
        self._vocabulary = vocabulary
        self._matcher = matcher
        self.budget = budget
        self._bound = bound
        self._ends = frozenset(vocabulary.end_ids)
        self._beyond_end = ~pack(np.array(vocabulary.end_ids), vocabulary.width)
        self._guard(self._stop_when_complete)

    @property
    def done(self) -> bool:
        """True when the row takes no further token."""
        return self.finish is not None

    @property
    def feed(self) -> int | None:
        """The token that the model must read next; None when the row is done."""
        return None if self.done else self.tokens[-1]

    def mask(self) -> Words | None:
        """The tokens that may come next; None when every one may, or when the row is done."""
        if self.done or self._matcher is None:
            return None
        return self._guard(self._matcher.mask)

    def accept(self, token: int) -> None:
        """Adds the chosen token; a row that is done stays as it is."""
        if not self.done:
            self._guard(self._advance, token)

    def text(self) -> str:
        """What has been said; bytes that are no whole UTF-8 character yet show as U+FFFD."""
        return self._vocabulary.decode(self.tokens).decode("utf-8", errors="replace")

    def _guard(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Runs a step; an error that was raised on purpose ends this row and no other."""
        try:
            return step(*args, **kwargs)
        except StructgenError as error:
            self.finish, self.error = "error", error
            return None

    def _advance(self, token: int) -> None:
        if token == NOTHING:
            raise DeadEnd(self._nothing_left())
        if self._matcher is not None:
            self._matcher.advance(token)
        self.tokens.append(token)
        if token in self._ends:
            self.finish = "end"
            return
        self._stop_when_complete()
        if not self.done and len(self.tokens) >= self.budget:
            self._stop_at_budget()

    def _stop_when_complete(self) -> None:
        """The text may end and nothing else is allowed: no forward pass is needed to know the next token."""
        matcher = self._matcher
        if matcher is not None and matcher.can_finish and not (matcher.mask() & self._beyond_end).any():
            self.finish = "complete"

    def _stop_at_budget(self) -> None:
        if self._matcher is not None and not self._matcher.can_finish:
            message = f"{self._bound}={self.budget} reached before the value was complete"
            raise BudgetExhausted(f"{message}; text so far: {_shortened(self.text())}", self.text())
        self.finish = "length"

    def _nothing_left(self) -> str:
        said = _shortened(self.text())
        if self._matcher is not None and not self._matcher.mask().any():
            return f"no token is allowed after {said}, and the text may not end there"
        return f"after {said} the model's logits are -inf or not numbers for every token that is allowed"


def _shortened(text: str, limit: int = 200) -> str:
    """The text's repr, its beginning left out where it is long."""
    return repr(text) if len(text) <= limit else "..." + repr(text[-limit:])
