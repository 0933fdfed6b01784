"""The loop of exact sampling: rows read what no row has read before, and walk on through what is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from structgen.decoding.exact.exact_session import ExactSession
from structgen.decoding.loop import Batch
from structgen.masks import find_masks


class ExactBatch(Batch):
    """A batch whose sessions all are `ExactSession`s. Forced text and drafts are read along, on the host."""

    def _advance(self) -> None:
        self._walk([s for s in cast("list[ExactSession]", self._active) if s.can_walk])
        if not self._active:
            return
        ready, logits = self._read()
        sessions = cast("Sequence[ExactSession]", ready)
        find_masks([s.matcher for s in sessions if s.matcher is not None])
        for session, own in zip(sessions, logits.float().cpu(), strict=True):
            session.learn(own)
        self._walk(sessions)
        if self._drafts is not None:
            self._ahead = self._drafts.confirmed()

    def _walk(self, sessions: Sequence[ExactSession]) -> None:
        for session in sessions:
            session.walk()
        for done in [s for s in sessions if s.finish is not None]:
            self._leave(done)
