"""The probability of each value of a finite type, after what a run's text says before it.

A tree of tokens begins where the value does. Each node is a choice of the run, or of its model, asked again: the tokens
that the constraint allows there, with their probabilities. A token after which only one value is left is a leaf. All
spellings of a value in tokens count. Nodes are read likeliest first, side by side, until `EXACT` is left or `MOST_READ`
were read in at most `MOST_PASSES`.
"""

from __future__ import annotations

import heapq
import json
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structgen.automaton.finite_texts import candidates
from structgen.decoding.ahead.forced import Spans
from structgen.decoding.choosing.measure import ChosenToken
from structgen.decoding.choosing.sampling import Scores
from structgen.decoding.refusals.canonical_row import CanonicalRow
from structgen.decoding.refusals.transcript import Transcript
from structgen.decoding.session import Session
from structgen.errors import DeadEnd
from structgen.json_text.lexer import SCALAR
from structgen.masks import Matcher
from structgen.masks.words import ids_of
from structgen.models.attention import of_any_shape
from structgen.models.evaluation_mode import evaluating
from structgen.models.forward import forward_for
from structgen.models.row import Forward, Row
from structgen.vocabulary import Vocabulary

EXACT = 1e-5
"""The model is asked until no more probability than this is unknown."""
AT_ONCE = 32
"""The most nodes that are read together."""
MOST_READ = 512
"""The most nodes that are read for one value."""
MOST_PASSES = 32
"""The most forward passes for one value."""

OTHER, ELSEWHERE = "\0other", "\0elsewhere"
"""Stand for the values that are not listed, and for another text before the value."""

Chances = Sequence[tuple[int, float]]
"""Tokens with their probabilities among the allowed ones."""


@dataclass(eq=False)
class RunText:
    """A text on the way to a value, with what the row's rules say of it."""

    transcript: Transcript
    vocabulary: Vocabulary
    canonical: CanonicalRow | None = None
    spans: Spans | None = None

    @staticmethod
    def of(matcher: Matcher, tokens: Sequence[int], again: RunAgain | None) -> RunText:
        """The text of a run up to some of its tokens.

        Args:
            matcher: at the start.
        """
        transcript = Transcript(matcher.grammar.vocabulary, matcher, Row(()))
        for token in tokens:
            transcript.take(token, None)
        if again is not None and again.canonical is not None:
            transcript.states[again.canonical] = {0: again.canonical_start}
        spans = None if again is None else again.spans
        return RunText(transcript, matcher.grammar.vocabulary, None if again is None else again.canonical, spans)

    @property
    def tokens(self) -> list[int]:
        return self.transcript.tokens

    def ends(self, token: int) -> bool:
        return token in self.vocabulary.end_ids

    def spelled(self, token: int) -> bytes:
        return b"" if self.ends(token) else self.vocabulary.token(token)

    def with_token(self, token: int) -> RunText:
        """The text with one more token, and those that follow it without asking the model."""
        canonical = self.canonical
        twin = RunText(self.transcript.fork(), self.vocabulary, canonical, self.spans)
        twin.transcript.take(token, None)
        matcher = twin.transcript.matcher
        if self.spans is not None and matcher is not None:
            for forced in self.spans.at(matcher, twin.tokens)[0]:
                if canonical is not None and not canonical.takes(twin.transcript, forced):
                    break
                twin.transcript.take(forced, None)
        return twin

    def chances(self, logits: Scores) -> Chances:
        """The allowed tokens with their probabilities among these, from float32[width] logits."""
        matcher = self.transcript.matcher
        assert matcher is not None
        try:
            ids = ids_of(matcher.mask())
        except DeadEnd:
            return ()
        scores = logits[ids].astype(np.float64)
        if not len(ids) or not np.isfinite(scores.max()):
            return ()
        weights = np.exp(scores - scores.max())
        weighed: Chances = list(zip(ids.tolist(), weights.tolist(), strict=True))
        if self.canonical is not None:
            weighed = self._canonical_of(weighed)
        total = sum(weight for _, weight in weighed)
        return [(token, weight / total) for token, weight in weighed]

    def _canonical_of(self, weighed: Chances) -> Chances:
        """Those of some tokens that are canonical, the likeliest first. The least likely ones are left out."""
        assert self.canonical is not None
        left, taken, kept = sum(weight for _, weight in weighed), 0.0, []
        for token, weight in sorted(weighed, key=lambda each: -each[1]):
            if left <= EXACT / 10 * taken:
                break
            left -= weight
            if self.canonical.takes(self.transcript, token):
                taken += weight
                kept.append((token, weight))
        return kept


class RunAgain:
    """Asks a run's model what it would say after the first tokens of the run's text.

    It does not keep the model alive: once that is gone, nothing more is known.
    """

    def __init__(self, module: Any, session: Session) -> None:
        row = session.row
        self._module, self._source, self._inputs = weakref.ref(module), row.source, row.inputs
        self._before = row.ids[: len(row.ids) - len(session.tokens)]
        self.canonical, self.canonical_start = session.canonical
        self.spans, self.decided = session.spans, session.decided

    @staticmethod
    def of(module: Any, session: Session) -> RunAgain | None:
        """None where the row does not hold what the model has read: a healed prompt, a beam."""
        ids, tokens = session.row.ids, session.tokens
        whole = len(ids) > len(tokens) and ids[len(ids) - len(tokens) :] == tokens
        return RunAgain(module, session) if whole and session.healing is None else None

    @property
    def is_there(self) -> bool:
        """Is the model still there?"""
        return self._module() is not None

    @contextmanager
    def behind(self, tokens: Sequence[int]) -> Iterator[Callable[[Sequence[RunText]], list[Chances]]]:
        """A function that tells the next tokens of texts, `AT_ONCE` at most, which all begin with these tokens."""
        module = self._module()
        if module is None:  # it has gone just now
            yield lambda texts: [()] * len(texts)
            return
        with evaluating(module), torch.inference_mode(), of_any_shape():
            forward = forward_for(module)
            row = Row([*self._before, *tokens], self._source, self._inputs)
            first = forward.read([row])
            yield partial(self._read, forward, row, first, len(tokens))
            forward.release(row)

    def _read(self, forward: Forward, row: Row, first: Tensor, said: int, texts: Sequence[RunText]) -> list[Chances]:
        twins = dict[int, Row]()
        for place, text in enumerate(texts):
            if len(text.tokens) > said:
                twins[place] = Row(row.ids, self._source, self._inputs)
                forward.fork(row, twins[place])
                twins[place].ids += text.tokens[said:]
        read = dict(zip(twins, forward.read([*twins.values()]), strict=True)) if twins else {}
        for twin in twins.values():
            forward.release(twin)
        logits = [read.get(place, first[0])[: text.vocabulary.width] for place, text in enumerate(texts)]
        return [text.chances(each.float().cpu().numpy()) for text, each in zip(texts, logits, strict=True)]


class ValueScores:
    """The distribution over the values that may appear at a place, found when it is made.

    Args:
        again: asks the model; None if it cannot be asked.
        root: the run's text up to the token with which the value begins.
        lead: the bytes of that token that belong to the text before.
        texts: the value's texts, sorted, see `finite_texts`.
        tokens: of the whole run.
        known: the run's choices by the number of tokens before each; a number is a token that was no choice.
        is_json: the texts are JSON scalars; else each is a whole text.
        others: other texts are possible, too; they count as unknown.

    Attributes:
        values: the probability of each value, by its JSON text, most likely first.
        unknown: the probability of what `values` does not tell.
    """

    def __init__(
        self,
        again: RunAgain | None,
        root: RunText,
        lead: bytes,
        texts: list[bytes],
        tokens: Sequence[int],
        known: Mapping[int, ChosenToken | int],
        *,
        is_json: bool,
        others: bool = False,
    ) -> None:
        self._again = again if again is not None and again.is_there else None
        self._root, self._lead, self._texts = root, lead, texts
        self._tokens, self._known, self._number = list(tokens), known, count()
        self._is_json, self._others = is_json, others
        self._value_of = {text: value_of(text, is_json=is_json) for text in texts}
        self._begun = len(root.transcript.said)
        self._open: list[tuple[float, int, RunText]] = []  # a heap of nodes, most likely first
        self._elsewhere = 0.0  # the probability of another text before the value
        self.values, self.unknown = dict.fromkeys(self._value_of.values(), 0.0), 0.0
        self._find()
        kept = max(1 - self._elsewhere, sys.float_info.min)
        likely = sorted(self.values.items(), key=lambda each: -each[1])
        self.values = {value: min(chance / kept, 1.0) for value, chance in likely}
        self.unknown = min(max(self.unknown / kept, 0.0), 1.0)

    def _find(self) -> None:
        self._push(1.0, self._root)
        asks, passes, left, read = 0, 0, 1.0, None
        with ExitStack() as stack:
            while self._open and left > EXACT and asks < MOST_READ and passes < MOST_PASSES:
                nodes = [heapq.heappop(self._open) for _ in range(min(AT_ONCE, len(self._open)))]
                asked = [(-mass, text) for mass, _, text in nodes if not self._follow_known(-mass, text)]
                if asked and read is None and self._again is not None:
                    read = stack.enter_context(self._again.behind(self._root.tokens))
                answers: list[Chances] = [()] * len(asked) if read is None else read([text for _, text in asked])
                for (mass, text), chances in zip(asked, answers, strict=True):
                    self._follow(mass, text, chances)
                asks, passes = asks + len(asked), passes + bool(asked)
                left = -sum(mass for mass, _, _ in self._open)
        self.unknown += left if self._open else 0.0

    def _follow_known(self, mass: float, text: RunText) -> bool:
        """Goes on with a choice of the run. False if there is none, or the model can be asked and knows more."""
        tokens = text.tokens
        choice = self._known.get(len(tokens)) if self._tokens[: len(tokens)] == tokens else None
        if choice is None:
            return False
        if isinstance(choice, int):
            self._follow(mass, text, [(choice, 1.0)])
            return True
        chances = [*choice.alternatives, *choice.others]
        in_part = sum(chance for _, chance in chances) < 1 - EXACT / 10
        if self._again is not None and (in_part or text.canonical is not None):
            return False
        self._follow(mass, text, chances)
        return True

    def _follow(self, mass: float, text: RunText, chances: Chances) -> None:
        """Divides the probability of a node among its tokens."""
        said = bytes(text.transcript.said[self._begun :])
        for token, chance in chances:
            value = self._leads_to(said + text.spelled(token), ends=text.ends(token))
            if value is None:
                self._push(mass * chance, text.with_token(token))
            else:
                self._count(mass * chance, value)
        self.unknown += mass * max(0.0, 1 - sum(chance for _, chance in chances))

    def _push(self, mass: float, text: RunText) -> None:
        value = self._leads_to(bytes(text.transcript.said[self._begun :]), ends=False)
        if value is None:
            heapq.heappush(self._open, (-mass, next(self._number), text))
        else:
            self._count(mass, value)

    def _count(self, mass: float, value: str) -> None:
        if value in self.values:
            self.values[value] += mass
        elif value == ELSEWHERE:
            self._elsewhere += mass
        else:
            self.unknown += mass

    def _leads_to(self, said: bytes, *, ends: bool) -> str | None:
        """The only value after these bytes of the root; None if there are several."""
        lead = self._lead[: len(said)]
        if said[: len(lead)] != lead:
            return ELSEWHERE
        text = said[len(lead) :]
        whole = SCALAR.match(text) if self._is_json else None
        if ends or whole is not None:
            name = value_of(text if whole is None else whole[0], is_json=self._is_json)
            return name if name in self.values else OTHER
        if not text:
            return None
        begun = candidates(self._texts, text)
        if not begun:
            return OTHER if self._others else ELSEWHERE
        first = self._value_of[begun[0]]
        return first if all(self._value_of[each] == first for each in begun) else None


def value_of(text: bytes, *, is_json: bool) -> str:
    """The name of a value: its JSON text, whichever spelling it has."""
    if not is_json:
        return text.decode()
    value = json.loads(text)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        value = int(value)
    return json.dumps(value, ensure_ascii=False)
