"""Rows that draw whole texts: each try begins at the root of the tree, see `refused_mass`.

A try walks through the tree, without forward passes, until it comes to a text whose next-token law is not known. Only
there, and at tokens that no try took before, does the row itself go to that text. What the text has in common with the
row's last one is still in the model's cache.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from structgen.decoding.choosing.choice import logits_error
from structgen.decoding.choosing.measure import ChosenToken, Entry, Ledger
from structgen.decoding.choosing.sampling import distribution
from structgen.decoding.choosing.scores import penalise, penalties, processed
from structgen.decoding.exact.refused_mass import NextTokens, Prefix, RefusedMass
from structgen.decoding.exact.validity import LogValidity
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.session import Session
from structgen.errors import DeadEnd, NoExactSample, OptionError
from structgen.masks.words import Words, bits_of
from structgen.models.prefixes import common
from structgen.models.transfer import upload_one
from structgen.options import Limits, Sampling
from structgen.trace.records import Finish, Undone
from structgen.vocabulary import Vocabulary

ALL = 1 << 62
"""More bytes than any text has."""

CHOSEN: Entry = (-1, -1)
"""The entry of a token that the model chose; its measures are in the tree."""


def require_exact(sampling: Sampling, *, beams: bool, thinking: bool, canonical: str, phrases: bool) -> None:
    """Refuses options that do not go with `Sampling(exact=...)`.

    Raises:
        OptionError: the message says why.
    """
    why = None
    if beams:
        why = "beams= looks for the likeliest text, and draws none"
    elif thinking:
        why = "thoughts are drawn before it is known whether a valid text follows: generate them first, as plain text"
    elif canonical == "prefer":
        why = 'canonical="prefer" lets some steps pass, so it says of no text whether it is valid; take "strict"'
    elif phrases and sampling.exact == "prefer":
        why = "a row that is drawn step by step does not look for phrases=; take exact=True"
    if why is not None:
        raise OptionError(f"Sampling(exact={sampling.exact!r}): {why}")


class ExactSession(Session):
    """A row that draws from the model's distribution, given that the text is valid.

    Args:
        mass: the tree of the row's prompt, constraint and options.
        local: makes a row that draws step by step, for the case that no text is found.
        options: those of `Session`. What `spans` finds is only read along.
    """

    def __init__(
        self,
        prompt: Prompt,
        vocabulary: Vocabulary,
        *,
        mass: RefusedMass,
        local: Callable[[], Session],
        limits: Limits,
        sampling: Sampling,
        **options: Any,
    ) -> None:
        self._mass, self.local, self._forwards = mass, local, limits.exact_forwards
        self._node, self._then = mass.root, 0.0
        self._tries: Counter[float] = Counter()
        self._begun = self._reads = 0
        self._path: list[Prefix] = []
        self._weighs, self._log_weight = sampling.exact == "weights", -math.inf
        super().__init__(prompt, vocabulary, limits=limits, sampling=sampling, **options)
        if self._rules.phrases is not None and self.matcher is not None:
            self._attempt(self._rules.phrases.require, self.matcher)

    def _settle(self) -> None:
        """Adds nothing: the model chooses every token."""

    def _close_now(self) -> bool:
        """False: a text that is closed is none of the model's."""
        return False

    @property
    def needs_measures(self) -> bool:
        """False: the tree has what the next try needs."""
        return False

    @property
    def rollbacks(self) -> int:
        """The number of tries that were given up."""
        return max(self._begun - 1, 0)

    @property
    def validity(self) -> LogValidity | None:
        """The estimate of the probability that a text is valid, from all rows of the tree."""
        return self._mass.log_validity()

    @property
    def log_weight(self) -> float | None:
        """The logarithm of the text's weight with `exact="weights"`, see `refused_mass`; else None."""
        return self._log_weight if self._weighs and self.error is None else None

    def unsettled(self) -> int:
        """All of the text until it is complete."""
        return 0 if self.done else ALL

    def choices(self, ledger: Ledger | None, start: int = 0) -> list[ChosenToken | None]:
        return [] if ledger is None else [self._mass.choice(node) for node in self._path[start:]]

    def ask(self) -> None:
        """None: it chooses by itself, see `draw_texts`."""

    looks = True

    def look(self) -> None:
        """Goes on if another row has read the text that this one waits for."""
        super().look()
        if self._node.law is not None:
            self.walk()

    def learn(self, logits: Tensor) -> None:
        """Adds the law of the next token to the tree, unless another row has.

        Args:
            logits: float[width] on the host, after the row's last token.
        """
        self._reads += 1
        if self.row.error is not None:
            self.fail(self.row.error)
        elif self._node.law is None:
            law = self._attempt(self._next_tokens, logits)
            if law is not None:
                self._mass.learn(self._node, law)

    def walk(self) -> None:
        """Goes on, try after try, until a text is complete or the model has to read one."""
        self._attempt(self._walk)

    def _walk(self) -> None:
        if not self._begun:
            self._begin()
        while self.finish is None:
            node = self._node
            if node.finish is not None:
                self._complete(node)
            elif node.law is None:
                self._go_to(node)
                if self.row.is_read:
                    self.row.reread()
                return
            else:
                assert self._draws is not None
                if self._weighs and node.alive > 0:  # it always continues, with a smaller weight
                    self._log_weight += math.log(node.alive / self._then)
                    self._then = node.alive
                token = self._mass.draw(node, self._draws.anywhere() * self._then)
                taken = None if token is None else node.children.get(token) or self._taken(node, token)
                if taken is None:
                    self._begin()
                else:
                    self._node, self._then = taken, taken.alive

    def _begin(self) -> None:
        """Begins a try.

        Raises:
            NoExactSample: the forward passes are spent.
            DeadEnd: no text is valid.
        """
        alive, tried = self._mass.root.alive, max(self._reads, self._begun)
        if alive > 0 and (not self._begun or tried < self._forwards):
            self._node, self._then, self._log_weight = self._mass.root, alive, math.log(alive)
            self._tries[alive] += 1
            self._begun += 1
            return
        self._mass.row_is_over(self._tries, has_text=False)
        if alive == 0:
            raise DeadEnd("no text that the model says with these sampling options is valid")
        spent = f"no valid text in {self._begun} tries, and exact_forwards={self._forwards} are spent"
        known = f"the model's texts are valid with a probability of at most {alive:.2g}"
        other = "beams=8 searches" if self._rules.phrases is not None else "exact='prefer' draws step by step"
        advice = f"tell the model what is wanted, Limits(exact_forwards=...) allows more, {other}"
        raise NoExactSample(f"{spent}: {known}; {advice}", self._begun, alive)

    def _complete(self, node: Prefix) -> None:
        self._go_to(node)
        self._path = node.nodes()
        self.finish = node.finish
        self._mass.row_is_over(self._tries, has_text=True, log_weight=self.log_weight)

    def _go_to(self, node: Prefix) -> None:
        """Makes the row's text that of a node, which is not refused."""
        text, tokens = self._transcript, node.tokens()
        kept = common(tokens, text.tokens)
        if kept < len(text.tokens):
            text.cut(kept)
        for token in tokens[kept:]:
            text.take(token, CHOSEN)
        if node.finish == "stop":
            text.stopped()
        for check in self._rules.watching:
            check.read(text)

    def _taken(self, node: Prefix, token: int) -> Prefix | None:
        """The node of a token that no try took before; None if it is refused."""
        self._go_to(node)
        text = self._transcript
        text.take(token, CHOSEN)
        taken = self._mass.begin(node, token)
        finish = self._ends_with(token)
        refused = self._refused(finish)
        if refused is None:
            taken.finish = finish
            return taken
        self._mass.refuse(taken)
        text.cut(len(text.tokens) - 1)
        self.undone.append(replace(refused, count=len(text.tokens) + 1))
        return None

    def _ends_with(self, token: int) -> Finish | None:
        text = self._transcript
        if token in self._vocabulary.end_ids:
            return "end"
        if text.stopped():
            return "stop"
        return "length" if len(text.tokens) >= self.budget else None

    def _refused(self, finish: Finish | None) -> Undone | None:
        """Why no text that begins like this one is valid; None if one may be."""
        text, canonical, matcher = self._transcript, self._rules.canonical, self.matcher
        phrases = self._rules.phrases
        if finish == "length" and matcher is not None and not matcher.can_finish:
            return Undone(0, self.text(), f"max_new_tokens={self.budget} came before the value was complete")
        if canonical is not None and not canonical.keeps(text):
            return Undone(0, self.text(), "nothing canonical can follow")
        if phrases is not None and not phrases.keeps(text):
            return Undone(0, self.text(), "no text with all phrases can follow")
        if phrases is not None and finish is not None and phrases.owed_at_end(text):
            return Undone(0, self.text(), f"it ends without {phrases.unmet(text)}")
        for check in self._rules.watching:
            veto = check.read(text, over=finish is not None)
            if veto is not None:
                return Undone(0, self.text(), veto.reason, getattr(veto, "pointer", None))
        return None

    def _next_tokens(self, logits: Tensor) -> NextTokens:
        """The law of the next token within the mask.

        Raises:
            StructgenError: the logits are no numbers, a processor fails, or a schema exceeds a limit.
        """
        prompt, tokens, sampling = self.row.ids[: len(self.row.ids) - len(self.tokens)], self.tokens, self.sampling
        scores = logits.clone()
        if sampling.penalises:
            given = penalties([sampling], [self.counted(prompt) or (prompt, tokens)], len(scores))
            penalise(scores[None], *map(torch.from_numpy, given))
        known = self._vocabulary.existing
        scores[torch.from_numpy(~bits_of(known, len(scores)))] = -torch.inf
        if sampling.processors:
            scores = processed(scores, sampling, prompt, tokens)
        law = distribution(scores.numpy(), replace(sampling, processors=()))
        if law is None:
            raise logits_error(logits, known, self._vocabulary, self.text(), len(tokens)) or DeadEnd(
                self._nothing_left()
            )
        ids, chances = law
        words = self._allowed_words()
        if words is not None:
            allowed = bits_of(words, len(scores))[ids]
            ids, chances = ids[allowed], chances[allowed]
        return NextTokens(ids, chances, None if self._refusals.ledger is None else logits.numpy(), words)

    def _allowed_words(self) -> Words | None:
        """The constraint's mask, without the end while phrases are missing; None for every token."""
        matcher, phrases = self.matcher, self._rules.phrases
        try:
            words = None if matcher is None else matcher.mask().copy()
            if words is not None and phrases is not None and phrases.owed(self._transcript):
                words &= self._beyond_end
            return words
        except DeadEnd:
            return np.zeros(self._vocabulary.words, np.uint32)


def draw_texts(sessions: Sequence[Session], logits: Tensor) -> None:
    """Lets the rows that draw whole texts learn from the logits, and continue.

    Args:
        logits: float[sessions, width], after each one's last token.
    """
    exact = [(row, session) for row, session in enumerate(sessions) if isinstance(session, ExactSession)]
    if not exact:
        return
    rows = upload_one([row for row, _ in exact], logits.device)
    for (_, session), own in zip(exact, logits.index_select(0, rows).float().cpu(), strict=True):
        session.learn(own)
    for _, session in exact:
        session.walk()
