"""Thinking before the answer: free text between two tags, in the same row as the answer.

Thinking is a session of its own, so the answer's budget, checks, pointers and confidence do not depend on it. When it
is over, the answer's session takes over its row with all that the model has read: nothing is read twice.

In most models that think, the tags are special tokens. Such a closing tag ends the thinking as its text would (see
`compositions.Text`). If a model writes several special tokens and text between them, as in
`<|end|><|start|>assistant`, the first one ends the thinking, and the rest is added.

Some prompts neither open a thought nor close one, and the model opens it by itself or leaves it out. `ThinkingSession`
lets it choose between the opening tag and the beginning of the answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from torch import Tensor

from structgen.chat import Tags
from structgen.chat.calls_constraint import Turn
from structgen.chat.known import thinking_tags_of
from structgen.chat.thoughts import State, prompt_state
from structgen.constraints.basic import Constraint
from structgen.constraints.compositions import Text
from structgen.decoding.ahead.forced import plain_encoder
from structgen.decoding.choosing.measure import Entry, KnownLogits
from structgen.decoding.grammars import grammar_for
from structgen.decoding.prompts.per_row import per_row
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.session import Session
from structgen.errors import OptionError, quoted
from structgen.guards import Guard
from structgen.guards.banned import EVERYTHING, Banned
from structgen.masks.words import Words, pack
from structgen.models.model import Model
from structgen.options import Limits, Thinking
from structgen.trace.records import Cap
from structgen.vocabulary import spelled

DEFAULT = Tags("<think>\n", "</think>\n\n")
"""The tags of models whose chat templates have none."""
LIMITS = {"thinking": "thinking.max_tokens", "plan": "max_plan_tokens"}
"""The names in `Cap` of the limits of free text before an answer."""


@dataclass(frozen=True, slots=True)
class ThinkingTags:
    """The tags around thinking, as token ids."""

    opening: list[int]  # the opening tag, and the white space around it
    closing: list[int]  # the closing tag, the white space before it, and the text after it
    gap: list[int]  # the text after the closing tag alone
    tag: str  # the closing tag, which the model writes


class ThinkingSession(Session):
    """Free text before an answer: a thought between two tags, or a plan.

    A thought that the model may open by itself has its first tokens chosen among the opening tag's and those with which
    the answer may begin. If the model writes the whole tag, it thinks. Else the answer chooses its tokens from the
    start, from the same logits.

    Args:
        answer: the session that continues in the same row.
        tags: what is around the text.
        prompt: with the opening tag, unless the model writes that.
        written: how many tokens of `tags.opening` the model writes; the others are white space after the tag.

    Attributes:
        name: "thinking" or "plan".
    """

    thinks = True

    def __init__(
        self,
        answer: Session,
        tags: ThinkingTags,
        prompt: Prompt,
        model: Model,
        *,
        name: str = "thinking",
        written: int = 0,
        **options: Any,
    ) -> None:
        self._answer, self._tags, self._context, self.name = answer, tags, model.context, name
        self._written = written
        self._matches = 0 if written else None  # how many of these the model has written; None: all of them
        self._first: KnownLogits | None = None
        super().__init__(prompt, model.vocabulary, **options)
        self.patience = answer.patience

    def following(self) -> Session | None:
        """The answer; None if this text has failed, and the answer with it."""
        if self.error is not None:
            self._answer.fail(self.error)
            return None
        if not self.thinks:
            self.row.truncate(len(self.row.ids) - (self._matches or 0))
            self._answer.go_on_in(self.row)
            if self._first is not None and not self._answer.tokens:
                self._answer.recall(self._first)
            return self._answer
        if self.name == "plan" and self.finish == "end":  # the template writes its own end of a turn
            self.row.truncate(len(self.row.ids) - 1)
        self.row.ids += self._tags.closing if self.finish == "length" else self._tags.gap
        if self._context is not None:
            left = self._context - len(self.row.ids) + 1  # the last token is never read
            if left < self._answer.budget:
                self._answer.shorten(left)
        self._answer.go_on_in(self.row)
        return self._answer

    def accept(self, token: int, logits: Tensor, row: int, entry: Entry) -> None:
        if self._matches is None:
            super().accept(token, logits, row, entry)
            return
        if self._matches == 0:
            self._first = KnownLogits(0, logits, row, self._asked)
        if token != self._tags.opening[self._matches]:
            self.thinks, self.finish = False, "complete"
            return
        self._matches += 1
        self.row.ids.append(token)
        words = self._answer_words()
        if self._matches == self._written or (words is not None and not words.any()):
            self.row.ids += self._tags.opening[self._matches :]
            self._matches = None

    def _mask(self) -> Words | None:
        if self._matches is None:
            return super()._mask()
        words = self._answer_words()
        return None if words is None else words | self._packed([self._tags.opening[self._matches]])

    def _answer_words(self) -> Words | None:
        """The tokens that the answer may have after those of the opening tag so far; None for any token."""
        begun, forced = self._tags.opening[: self._matches], self._answer.tokens
        if len(begun) < len(forced):
            return self._packed([forced[len(begun)]] if begun == forced[: len(begun)] else [])
        if self._answer.matcher is None:
            return None
        matcher = self._answer.matcher.fork()
        rest = begun[len(forced) :]
        if self._answer.done or begun[: len(forced)] != forced or matcher.take(rest) < len(rest):
            return self._packed([])
        return matcher.mask()

    def _packed(self, tokens: Sequence[int]) -> Words:
        return pack(np.array(tokens, np.int64), self._vocabulary.width)


Wanted = Thinking | Literal[False] | None
"""What a row wants of thinking: its options; False for none; None for what its prompt has started."""


def thinking_of_rows(given: Any, count: int) -> list[Wanted]:
    """What each row wants of thinking."""
    each = list(given) if isinstance(given, (list, tuple)) else [given] * count
    for thinking in per_row("thinking", each, count):
        if not (thinking is None or isinstance(thinking, (bool, Thinking))):
            raise OptionError(f"thinking={quoted(thinking)}: expected True, False or Thinking(...)")
    return [Thinking() if thinking is True else thinking for thinking in each]


def switch_of(thinking: Wanted) -> bool | None:
    """What a row wants of its chat template: to let the model think, to keep it from that, or what it does by itself.

    Tags of the caller's own are not the template's.
    """
    if isinstance(thinking, Thinking):
        return None if thinking.opening is not None and thinking.closing is not None else True
    return thinking


def thought_state(model: Model, prompt: Prompt) -> State:
    """How a prompt leaves the thought that the model's chat template knows."""
    end = spelled(model.vocabulary, prompt.read[-TAIL:]).decode(errors="replace")
    return prompt_state(model.tokenizer, model.vocabulary, end)


TAIL = 200
"""How many tokens at the end of a prompt tell whether a thought is open: a tag, and what is after it."""


def opened_thinking(
    model: Model, prompt: Prompt, constraint: Constraint | None, answer: Session, guards: Sequence[Guard[Any]]
) -> ThinkingSession | None:
    """The session in which the model may open a thought by itself; None if it cannot.

    It cannot if its context has no room to think, if the answer has failed already, or if the opening tag belongs to
    what the constraint wants.
    """
    marks = _marks(model, Thinking())
    tag = marks.opening.strip()
    encode = plain_encoder(model.tokenizer)
    written = encode(tag) if tag else []
    if not written or answer.error is not None:
        return None
    if answer.matcher is not None and not isinstance(constraint, Turn):
        begun = spelled(model.vocabulary, answer.tokens)
        spellings = written, model.vocabulary.trie.spelled(tag.encode())
        taken = not begun and any(answer.matcher.fork().take(ids) == len(ids) for ids in spellings if ids)
        if taken or begun.startswith(tag.encode()):
            return None
    behind = marks.opening[len(marks.opening.rstrip()) :]
    tags = replace(_tags(model, marks), opening=[*written, *(encode(behind) if behind else [])])
    size = len(prompt.read) + len(tags.opening) + len(tags.closing)
    try:
        options = _thinking_options(model, Thinking(), tags, size, answer, guards)
    except OptionError:
        return None
    return ThinkingSession(answer, tags, prompt, model, written=len(written), **options)


def thinking_session(
    model: Model, prompt: Prompt, thinking: Thinking, answer: Session, guards: Sequence[Guard[Any]]
) -> ThinkingSession | None:
    """The session that thinks before `answer`; None if thinking is over at the end of the prompt.

    Raises:
        OptionError: the tokenizer cannot spell the tags, or the model's context has no room to think.
    """
    marks = _marks(model, thinking)
    tags = _tags(model, marks)
    read = prompt.read
    if _is_over(model, read, tags, marks):
        return None
    opening = [] if _ends_with(model, read, tags.opening, marks.opening) else tags.opening
    taken = len(read) + len(opening) + len(tags.closing)
    options = _thinking_options(model, thinking, tags, taken, answer, guards)
    return ThinkingSession(answer, tags, prompt.followed_by(opening), model, **options)


def _thinking_options(
    model: Model, thinking: Thinking, tags: ThinkingTags, taken: int, answer: Session, guards: Sequence[Guard[Any]]
) -> dict[str, Any]:
    """The options of a session between two tags."""
    options = before_answer(model, "thinking", thinking.max_tokens, thinking.answer_share, taken, answer, guards)
    limits = replace(options["limits"], stop=(tags.tag,))
    return {**options, "limits": limits, "matcher": grammar_for(Text(until=tags.tag), model.vocabulary).matcher()}


def before_answer(
    model: Model, name: str, most: int, share: float, taken: int, answer: Session, guards: Sequence[Guard[Any]]
) -> dict[str, Any]:
    """The options of a session of free text before an answer: its draws, its bounds, its guards.

    Args:
        name: the option's, for error messages.
        most: the most tokens of the text.
        share: of the room in the model's context, what is kept for the answer where both do not fit.
        taken: the places of the context that are taken by the prompt, and by what is around the text.
    """
    seen = [guard for guard in guards if not isinstance(guard, Banned) or guard.scope == EVERYTHING]
    sampling = answer.sampling
    return {
        "sampling": sampling if sampling.seed is None else replace(sampling, seed=sampling.seed ^ 1),
        "limits": Limits(max_new_tokens=_budget(model, name, most, share, taken, answer)),
        "rules": Rules(guards=Guarding(seen, model.vocabulary) if seen else None),
    }


def thinking_caps(before: Session | None) -> tuple[Cap, ...]:
    """The limit that cut the text before the answer short, if it did."""
    if isinstance(before, ThinkingSession) and before.finish == "length":
        return (Cap(LIMITS[before.name], "", before.budget),)
    return ()


def _budget(model: Model, name: str, most: int, share: float, taken: int, answer: Session) -> int:
    """The most tokens of a text before the answer, see `before_answer`."""
    if model.context is None:
        return most
    left = model.context - taken
    kept = min(answer.budget, max(answer.tokens_needed, math.ceil(share * left)))
    if left - kept < 1:
        advice = " or Thinking(answer_share=...)" if name == "thinking" else ""
        raise OptionError(
            f"{name}: the prompt takes {taken} tokens of the model's {model.context}, and the answer keeps {kept}: "
            f"no room to think is left; shorten the prompt, or lower max_new_tokens{advice}"
        )
    return min(most, left - kept)


def _marks(model: Model, thinking: Thinking) -> Tags:
    """The text of the tags: the given ones, or those of the model's chat template."""
    if thinking.opening is not None and thinking.closing is not None:
        return Tags(thinking.opening, thinking.closing)
    own = thinking_tags_of(model.tokenizer, model.vocabulary) or DEFAULT
    return Tags(thinking.opening or own.opening, thinking.closing or own.closing)


def _tags(model: Model, marks: Tags) -> ThinkingTags:
    encode, vocabulary = plain_encoder(model.tokenizer), model.vocabulary
    names = sorted(vocabulary.special_names, key=len, reverse=True)
    stripped = marks.closing.strip()
    first = re.match("|".join(map(re.escape, names)) or "(?!)", stripped)
    tag = stripped if first is None else first[0]
    before, _, gap = marks.closing.partition(tag)
    behind = encode(gap) if gap else []
    if spelled(vocabulary, behind).strip(b" ") != gap.encode().strip(b" "):
        raise OptionError(f"thinking: the tokenizer cannot spell {quoted(gap)}, the text after the closing tag")
    return ThinkingTags(encode(marks.opening), [*encode(before), *encode(tag), *behind], behind, tag)


def _is_over(model: Model, prompt: Sequence[int], tags: ThinkingTags, marks: Tags) -> bool:
    """Does a prompt end with a closing tag, white space apart?

    If the tag is several special tokens, as in `<|end|><|start|>assistant`, every turn may end so. Then there must be
    an opening tag before, and no other closing tag between the two.
    """
    if not _ends_with(model, prompt, tags.closing, marks.closing):
        return False
    if marks.closing.strip() == tags.tag:
        return True
    begun = _places(prompt, tags.opening)
    return bool(begun) and sum(place > begun[-1] for place in _places(prompt, tags.closing)) == 1


def _places(ids: Sequence[int], tag: Sequence[int]) -> list[int]:
    size, wanted = len(tag), list(tag)
    return [place for place in range(len(ids) - size + 1) if ids[place : place + size] == wanted]


def _ends_with(model: Model, ids: Sequence[int], tag: Sequence[int], text: str) -> bool:
    """Does a prompt end with a tag, white space apart?"""
    vocabulary = model.vocabulary

    def stripped(tokens: Sequence[int]) -> list[int]:
        kept = list(tokens)
        while kept and vocabulary.token(kept[-1]).isspace():
            kept.pop()
        return kept

    end, wanted = stripped(ids), stripped(tag)
    read = spelled(vocabulary, end[-4 * len(text) :]).rstrip()
    return (bool(wanted) and end[-len(wanted) :] == wanted) or read.endswith(text.strip().encode())
