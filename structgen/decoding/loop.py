"""The decode loop: read, mask, choose, accept.

A step has two orders. The plain order waits for the chosen tokens, accepts them, and has the model read them. In the
overlapped order the device reads the tokens as soon as it has chosen them, while the host accepts them and computes the
next masks. A row that then goes on otherwise (forced text, a rollback, the end) has read a token in vain: the next one
overwrites it in the cache. So the order changes when tokens are read, and never the text.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.choosing.choice import Ask, Chooser, Drawn, chooser_for
from structgen.decoding.choosing.masking import why_without_triton
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.drafts import Drafts
from structgen.decoding.exact.exact_session import draw_texts, walk_known
from structgen.decoding.run import Run
from structgen.decoding.session import Session
from structgen.errors import OptionError, unforeseen, warn_caller
from structgen.masks import find_masks
from structgen.models.evaluation_mode import evaluating
from structgen.models.forward import forward_for
from structgen.models.hosts.host import Host
from structgen.models.prefixes import prefixes_of
from structgen.models.row import Foreseen, Over, in_portions
from structgen.models.transfer import device_of, upload_one
from structgen.vocabulary import Vocabulary

ROWS = 64
"""The default number of rows that are decoded at once."""

AHEAD_SHARE = 0.75
"""Chosen tokens are read ahead if at least this share of the rows will probably have nothing else to read."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a batch runs. It does not change the texts.

    Attributes:
        overlap: use the overlapped order; by default if there is a device.
        graphs: read a few tokens in steps of few shapes, which are captured as CUDA graphs; by default with CUDA.
        drafts: read along what a row will probably take next, see `drafts`; by default if the model runs on the host.
            Only in the plain order, and without graphs.
    """

    overlap: bool | None = None
    graphs: bool | None = None
    drafts: bool | None = None


AUTOMATIC = Execution()


def decode(
    module: PreTrainedModel | Host, vocabulary: Vocabulary, sessions: Sequence[Session], **options: Any
) -> Batch:
    """Runs every session to its end, with the options of `Batch`."""
    with evaluating(module):
        return Batch(module, vocabulary, sessions, **options).finish()


class Batch(Run[Session]):
    """A run of sessions, each in one row.

    Args:
        module: in evaluation mode.
        vocabulary: of the model's tokenizer; logits beyond its width are padding.
        rows: how many sessions are decoded at once.
        record: measure every choice.
    """

    _admits: ClassVar[bool] = False
    """May sessions join while it runs?"""
    _survives: ClassVar[type[Exception]] = torch.cuda.OutOfMemoryError
    """What a step may raise without ending the run, see `_step_apart`."""

    def __init__(
        self,
        module: PreTrainedModel | Host,
        vocabulary: Vocabulary,
        sessions: Sequence[Session],
        *,
        rows: int = ROWS,
        record: bool = False,
        execution: Execution = AUTOMATIC,
    ) -> None:
        first = [session.before or session for session in sessions]
        waiting = [session for session in first if not session.done]
        forward = forward_for(module, graphs=execution.graphs) if waiting or self._admits else Over()
        measures = record or any(session.needs_measures for session in sessions)
        ledger = Ledger(traced=record) if measures else None
        super().__init__(sessions, waiting, forward, model=module, at_once=rows, ledger=ledger)
        for session in (*sessions, *waiting):
            session.measured_in(self.ledger)
        self._model, self._vocabulary, self._graphs, self._too_many = module, vocabulary, execution.graphs, ""
        self._ahead: tuple[Sequence[Session], Tensor | None] = (), None
        self._held: frozenset[Session] = frozenset()
        self._drafts: Drafts | None = None
        device = device_of(module) if waiting or self._admits else torch.device("cpu")
        self._on_cuda = device.type == "cuda"
        self._overlap = forward.foresees and (device.type != "cpu" if execution.overlap is None else execution.overlap)
        drafted = device.type == "cpu" if execution.drafts is None else execution.drafts
        if drafted and not self._overlap:
            self._drafts = Drafts(forward, vocabulary, ledger)
            self._drafted = self._drafts.accepted
        self._chooser: Chooser | None = chooser_for(vocabulary, device)

    def step(self) -> bool:
        """See `Run.step`. Where the memory is too small for all rows at once, fewer are decoded at once."""
        try:
            return super().step()
        except self._survives as error:
            self._step_apart(error)
            return bool(self._active or self._waiting)

    def _advance(self) -> None:
        """Reads the pending tokens (prompts, chosen and forced tokens, rollbacks alike), and chooses the next."""
        for session in self._active:
            if session.patience.deadline.is_bounded:
                session.end_if_late()
        walk_known(self._active)
        self._leave_done()
        if not self._active:
            return
        self._hold_back()
        ready, logits = self._read()
        matchers = [s.matcher for s in ready]
        find_masks([matcher for matcher in matchers if matcher is not None])  # on the host, while the device still runs
        self._choose(ready, logits, ahead=self._overlap)
        self._leave_done()  # a session that follows may choose from the same logits
        while back := [s for s in self._active if s.sent_back and not s.done]:  # its last token was taken back
            self._choose(back, logits, ahead=False)
        draw_texts(ready, logits)
        if self._drafts is not None:
            self._ahead = self._drafts.confirmed()
        self._leave_done()

    def _hold_back(self) -> None:
        """Finds the sessions whose prompts this step must not read."""

    def _leave_done(self) -> None:
        for session in [s for s in self._active if s.finish is not None]:
            self._leave(session)

    def _read(self) -> tuple[Sequence[Session], Tensor]:
        """The sessions that can choose, and their logits: those read ahead or drafted, else all sessions are read."""
        sessions, logits = self._ahead
        self._ahead = (), None
        still = [i for i, s in enumerate(sessions) if s.finish is None and s.row.is_read]
        if logits is None or not still:
            sessions, drafts = tuple(s for s in self._active if s not in self._held), self._drafts
            rows = [s.row for s in sessions]
            with in_portions(self._forward, rows):
                logits = self._forward.read(rows) if drafts is None else drafts.read(sessions)
            still = [i for i, row in enumerate(rows) if row.is_read or row.error is not None]
        if len(still) < len(sessions):
            sessions, logits = [sessions[i] for i in still], logits.index_select(0, upload_one(still, logits.device))
        return sessions, without_padding(logits, self._vocabulary)

    def _read_ahead(self, sessions: Sequence[Session], asks: Sequence[Ask], drawn: Drawn) -> None:
        """Has the device read the tokens it chooses before the host knows them, and what else is pending.

        Not if too many rows will end or have forced text behind the token.
        """
        places = [i for i, s in enumerate(sessions) if s.has_room]
        reading = [sessions[i] for i in places]
        spans = [(s, i) for s, i in zip(reading, places, strict=True) if s.spans is not None]
        if len(places) - sum(s.expects_forced(asks[i].words) for s, i in spans) < AHEAD_SHARE * len(sessions):
            return
        going = {s.row: i for s, i in zip(reading, places, strict=True)}
        if len(reading) < len(self._active):
            reading += [s for s in self._active if s.finish is None and not s.row.is_read and s not in self._held]
        rows = [s.row for s in reading]
        with in_portions(self._forward, rows, going):
            self._ahead = reading, self._forward.read(rows, Foreseen(drawn.ids, going))

    def _leave(self, session: Session) -> None:
        """The session that follows takes over the row; if none does, the last row takes its place, as in the cache."""
        following, place = session.following(), self._active.index(session)
        if following is not None:
            self._active[place] = following
            if not following.sent_back:
                following.row.reread()  # the logits read ahead were for the session before
        else:
            self._active[place] = self._active[-1]
            self._active.pop()
            self._forward.release(session.row)
        if self._drafts is not None:
            self._drafts.forget(session)
        session.leave()

    def _choose(self, ready: Sequence[Session], logits: Tensor, *, ahead: bool) -> None:
        """Lets sessions choose a token.

        Args:
            logits: of each session, except those that choose from recalled logits.
            ahead: the device reads the tokens at once.
        """
        asked = [s.ask() for s in ready]
        choosing = [(row, s, ask) for row, (s, ask) in enumerate(zip(ready, asked, strict=True)) if ask is not None]
        if not choosing:
            return
        rows, sessions, asks = zip(*choosing, strict=True)
        if len(rows) < len(ready) or any(s.recalled is not None for s in sessions):
            own = zip(rows, sessions, strict=True)
            logits = torch.stack([logits[row] if s.recalled is None else s.recalled for row, s in own])
        assert self._chooser is not None  # nothing is chosen after `close`
        drawn = self._chooser.draw(logits, asks)
        if ahead:
            self._read_ahead(sessions, asks, drawn)
        tokens = drawn.tokens()  # the one copy from the device
        step = 0 if self.ledger is None else self.ledger.add(logits, asks, tokens, drawn.masks)
        for row in drawn.by_host:  # the device may have read another token there
            sessions[row].row.truncate(len(sessions[row].row.ids))
        for row, (session, token) in enumerate(zip(sessions, tokens, strict=True)):
            if row in drawn.errors:
                session.fail(drawn.errors[row])
            else:
                session.accept(token, logits, row, (step, row))

    def _step_apart(self, error: Exception) -> None:
        """After a step that failed: steps halves of its rows, and halves of these, until the rows that raise are alone.

        Rows are read anew, as a broken step may have left anything in the cache. If a row's own work has raised, it has
        failed already, and the others are not tried. If no row fails alone, the memory is too small for all of them at
        once: then fewer run at once from now on. What was remembered is forgotten: it takes memory.
        """
        if isinstance(self._model, PreTrainedModel):
            prefixes_of(self._model).clear()
        waiting, tried = self._waiting, tuple(self._active)
        going = self._going_anew(tried, error)
        if not any(session.error is not None for session in tried):
            tried = tuple(going)
            going = self._alive_of_halves(tried, error)
            if not any(session.error is not None for session in tried):
                self._at_once = max(1, len(tried) // 2)
                if isinstance(error, torch.cuda.OutOfMemoryError):
                    self._too_many = f"{len(tried)} rows at once do not fit into memory, so {self._at_once} run at once"
                    warn_caller(f"{self._too_many}; batch_size={self._at_once} does so from the start")
        self._waiting = deque([*self._going_anew(going, error), *waiting])
        self._active = []

    def _alive_of_halves(self, group: Sequence[Session], error: Exception) -> list[Session]:
        """Steps the halves of some rows, whose step has failed together. Returns those that go on."""
        if len(group) == 1:
            what = "the model's forward pass failed"
            if isinstance(error, torch.cuda.OutOfMemoryError):
                what = f"the memory is too small for this row of {len(group[0].row.ids)} tokens, even alone"
            group[0].fail(unforeseen(what, error))
            return self._going_anew(group, error)
        middle, alive = (len(group) + 1) // 2, list[Session]()
        for half in filter(None, (group[:middle], group[middle:])):
            self._going_anew(half, error)
            try:
                super().step()
                alive += self._active
            except Exception as again:  # noqa: BLE001 - as in `step`
                alive += self._alive_of_halves(self._going_anew(self._active, again), again)
        return alive

    def _going_anew(self, group: Sequence[Session], error: Exception) -> list[Session]:
        """Makes rows the active ones, without those that are over, in a new cache. Nobody waits."""
        self._begin_anew(group, error)
        self._leave_done()
        return list(self._active)

    @torch.inference_mode()
    def _begin_anew(self, sessions: Sequence[Session], error: Exception) -> None:
        """Makes sessions the active ones, of which nothing is read yet, in a new cache. Nobody waits.

        A prompt with images cannot be read again together with what was generated: its row fails.
        """
        traceback.clear_frames(error.__traceback__)  # they hold the old cache
        count, self._forward = self._forward.count, Over(self._forward)
        self._forward = forward_for(self._model, graphs=self._graphs)
        self._forward.count, self._ahead = count, ((), None)
        if self._drafts is not None:
            self._drafts = Drafts(self._forward, self._vocabulary)
            self._drafts.accepted = self._drafted
        self._waiting, self._active = deque(), list(sessions)
        for session in sessions:
            row = session.row
            if row.inputs is not None and len(row.ids) > row.given and not session.done:
                session.fail(unforeseen("a step failed, and images cannot be read again", error))
            row.valid, row.encoded = 0, None

    def close(self) -> None:
        """Also frees the masks on the device."""
        super().close()
        self._ahead = (), None
        self._chooser = self._drafts = None

    def _why_slow(self) -> list[str]:
        return [*super()._why_slow(), why_without_triton() if self._on_cuda else "", self._too_many]


def without_padding(logits: Tensor, vocabulary: Vocabulary) -> Tensor:
    """The logits of the vocabulary's ids: float[rows, vocabulary.width].

    Raises:
        OptionError: the logits are narrower.
    """
    if logits.shape[-1] < vocabulary.width:
        widths = f"the model's logits have {logits.shape[-1]} columns, the tokenizer's ids need {vocabulary.width}"
        raise OptionError(f"{widths}: load the tokenizer that belongs to the model, or resize its embeddings")
    return logits[:, : vocabulary.width]
