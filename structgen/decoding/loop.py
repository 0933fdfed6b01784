"""The decode loop: read, mask, choose, accept.

A batch decodes sessions, with one row of the cache each, and beam searches, with a row for each beam; a step reads all
of them in one forward pass. It knows nothing of calls: the `Engine` says which rows join, and which pause.

A step has two orders. The plain order waits for the chosen tokens, accepts them, and has the model read them. In the
overlapped order the device reads the tokens as soon as it has chosen them, while the host accepts them and computes the
next masks. A row that then goes on otherwise (forced text, a rollback, the end) has read a token in vain: the next one
overwrites it in the cache. So the order changes when tokens are read, and never the text.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from structgen.decoding.beams.search import BeamSearch, step_searches
from structgen.decoding.choosing.choice import Ask, Chooser, Drawn, chooser_for
from structgen.decoding.choosing.masking import why_without_triton
from structgen.decoding.choosing.measure import Ledger
from structgen.decoding.drafts import DraftReader, Drafts
from structgen.decoding.exact.exact_session import draw_texts
from structgen.decoding.prompt_parts import PromptParts
from structgen.decoding.session import Session
from structgen.errors import OptionError, StructgenError, unforeseen, warn_caller
from structgen.masks.batch import FEWEST, find_masks
from structgen.models.forward import forward_for
from structgen.models.hosts.host import Host
from structgen.models.prefixes import prefixes_of
from structgen.models.row import Foreseen, Over, Row, in_portions
from structgen.models.transfer import device_of, upload_one
from structgen.vocabulary import Vocabulary

ROWS = 64
"""The default number of rows that are decoded at once."""

AHEAD_SHARE = 0.75
"""Chosen tokens are read ahead if at least this share of the rows will probably have nothing else to read."""

Decoded = Session | BeamSearch
"""What a batch decodes."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a batch runs. It does not change the texts.

    Attributes:
        overlap: use the overlapped order; by default if there is a device. A step with beam searches never does.
        graphs: read a few tokens in steps of few shapes, which are captured as CUDA graphs; by default with CUDA.
        drafts: read along what a session will probably take next, see `drafts`; by default if the model runs on the
            host. Only in the plain order, and without graphs.
    """

    overlap: bool | None = None
    graphs: bool | None = None
    drafts: bool | None = None


AUTOMATIC = Execution()


class Batch:
    """Sessions and beam searches that share forward passes. Of one thread at a time; the model is `evaluating`, and
    steps are taken in inference mode.

    Args:
        module: in evaluation mode.
        vocabulary: of the model's tokenizer; logits beyond its width are padding.

    Attributes:
        sessions, searches: those that are decoded.
        paused: those that no step touches until they are no longer paused.
        left: those that a step has brought to their end; whoever reads the list clears it.
        leaving: the session that is leaving just now.
        ledger: where choices are measured.
        measured: the number of sessions and searches whose choices are measured.
        drafted: how many tokens of each session, or steps of each search, needed no forward pass.
        in_parts: long prompts are read in parts, so that other calls' rows hardly wait for them.
        most: how many sessions and searches fit into memory at once; None if that is not known.
    """

    def __init__(
        self, module: PreTrainedModel | Host, vocabulary: Vocabulary, execution: Execution = AUTOMATIC
    ) -> None:
        self._module, self._vocabulary, self._graphs, self._too_many = module, vocabulary, execution.graphs, ""
        self.forward = forward_for(module, graphs=execution.graphs)
        self.sessions: list[Session] = []
        self.searches: list[BeamSearch] = []
        self.paused: frozenset[Decoded] = frozenset()
        self.left: list[Decoded] = []
        self.leaving: Session | None = None
        self.ledger, self.measured = Ledger(), 0
        self.drafted: Counter[Decoded] = Counter()
        self.in_parts = False
        self.most: int | None = None
        self._parked: deque[Decoded] = deque()  # they continue when others have left
        self._looking: list[Session] = []  # they do something before the model reads
        self._ahead: tuple[Sequence[Session], Tensor | None] = (), None
        self._held: frozenset[Session] = frozenset()
        self._parts = PromptParts()
        device = device_of(module)
        self._on_cuda = device.type == "cuda"
        self._overlap = self.forward.foresees and (
            device.type != "cpu" if execution.overlap is None else execution.overlap
        )
        drafts = device.type == "cpu" if execution.drafts is None else execution.drafts
        self._drafts = Drafts(self.forward, vocabulary, self.drafted) if drafts and not self._overlap else None
        self._forced = DraftReader()  # of searches
        self._chooser: Chooser | None = chooser_for(vocabulary, device)

    def join(self, unit: Decoded) -> None:
        """Adds what is not done, from the next step on."""
        if isinstance(unit, BeamSearch):
            self.searches.append(unit)
        else:
            self.sessions.append(unit)
            self._looking += [unit] if unit.looks else []

    @torch.inference_mode()
    def drop(self, unit: Decoded) -> None:
        """Removes a session or a search, if it is there."""
        if unit in self._parked:
            self._parked.remove(unit)
        elif isinstance(unit, BeamSearch) and unit in self.searches:
            self._leave_search(unit)
        elif not isinstance(unit, BeamSearch) and unit in self.sessions:
            self._leave(unit)

    @property
    def units(self) -> list[Decoded]:
        """All sessions and searches."""
        return [*self.sessions, *self.searches, *self._parked]

    def step(self) -> None:
        """Adds a token to everything that can choose, and the tokens that must follow.

        What a step raises ends the rows that raise it by themselves, and no others. Where the memory is too small for
        all rows at once, fewer are decoded at once.
        """
        began = time.perf_counter()
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - whatever a model raises
            self._step_apart(error)
        if self.in_parts:
            self._parts.ended(time.perf_counter() - began)

    def _step(self) -> None:
        """Reads what is pending (prompts, chosen and forced tokens, rollbacks alike), and chooses the next tokens."""
        while self._parked and (self.most is None or len(self.sessions) + len(self.searches) < self.most):
            self.join(self._parked.popleft())
        if self._looking or self.searches:
            for session in self._looking:
                if session not in self.paused:
                    session.look()
            for search in self._searching():
                search.end_if_late()
            self._leave_done()
        sessions = self._going()
        searches = self._searching() if self.searches else []
        if not sessions and not searches:
            return
        self._held = self._parts.read(self.forward, sessions) if self.in_parts else frozenset()
        ready, logits, searches, scores = self._read(sessions, searches)
        if ready:
            if len(ready) >= FEWEST:
                find_masks([s.matcher for s in ready if s.matcher is not None])  # while the device still runs
            again = self._choose(ready, logits, ahead=self._overlap and not self.searches)
            while again:
                again = self._choose(again, logits, ahead=False)
            if self._looking:
                draw_texts(ready, logits)
                self._leave_done()
            if self._drafts is not None:
                self._ahead = self._drafts.confirmed(self.ledger if self.ledger.traced else None)
        if searches:
            step_searches(searches, scores, self.forward, self._vocabulary.existing)
            self._leave_done()

    def _going(self) -> list[Session]:
        """The sessions that are not paused. Those of the batch change as rows leave."""
        return [s for s in self.sessions if s not in self.paused] if self.paused else self.sessions[:]

    def _searching(self) -> list[BeamSearch]:
        return [s for s in self.searches if s not in self.paused]

    def _leave_done(self) -> None:
        for session in tuple(self.sessions):
            if session.finish is not None:
                self._leave(session)
        for search in tuple(self.searches):
            if search.done:
                self._leave_search(search)

    def _read(
        self, sessions: Sequence[Session], searches: list[BeamSearch]
    ) -> tuple[Sequence[Session], Tensor, list[BeamSearch], Tensor]:
        """The sessions and the searches that can choose, and the logits of their rows: float[rows, width] each.

        Those whose logits were read ahead, or after drafts, choose without a forward pass.
        """
        ahead, logits = self._ahead
        self._ahead = (), None
        rows: list[Row] = []
        known: dict[Row, Tensor] = {}
        drafted: list[BeamSearch] = []
        if searches:
            rows = [row for search in searches for row in search.rows]
            known = self._forced.confirm(rows)
            drafted = [search for search in searches if known.keys() >= set(search.rows)]
            self.drafted.update(drafted)
        if self.paused:
            for session in [s for s in ahead if s in self.paused and s.row.is_read]:
                session.row.reread()
            ahead = [s for s in ahead if s not in self.paused]
        still = list[int]()
        for i, session in enumerate(() if logits is None else ahead):
            still += [i] if session.finish is None and session.row.valid == len(session.row.ids) else []
        if logits is not None and still:  # all others wait for the next step
            rows = [row for search in drafted for row in search.rows] if drafted else []
            sessions, searches = ahead, drafted
            for row in known.keys() - rows:
                row.reread()
            searched = torch.stack([known[row] for row in rows]) if rows else logits
        else:
            sessions = [s for s in sessions if s not in self._held] if self._held else sessions
            left = [row for row in rows if row not in known] if known else rows
            forced = [search for search in searches if known.keys().isdisjoint(search.rows)] if known else searches
            logits = searched = self._read_now(sessions, left, forced) if sessions or left else torch.empty(0)
            if searches:
                logits, searched = logits[: len(sessions)], logits[len(sessions) :]
            if known:
                known |= zip(left, searched, strict=True)
                searched = torch.stack([known[row] for row in rows])
            for i, session in enumerate(sessions):
                row = session.row
                still += [i] if row.valid == len(row.ids) or row.error is not None else []
        if len(still) < len(sessions):
            sessions, logits = [sessions[i] for i in still], logits.index_select(0, upload_one(still, logits.device))
        logits = without_padding(logits, self._vocabulary) if sessions else logits
        return sessions, logits, searches, without_padding(searched, self._vocabulary) if searches else logits

    def _read_now(self, sessions: Sequence[Session], beams: Sequence[Row], forced: Sequence[BeamSearch]) -> Tensor:
        """Reads sessions and the rows of beams in one forward pass: float[rows, width].

        After the pending tokens it reads drafts: what a session will probably take, and the forced text of searches
        all of whose beams have some. The beams choose step by step as ever. As long as they choose the forced text, the
        logits after it are known.

        Args:
            forced: searches all of whose rows are among `beams`.
        """
        own = [s.row for s in sessions]
        rows = [*own, *beams]
        with in_portions(self.forward, own):
            if not forced and self._drafts is None:
                return self.forward.read(rows)
            columns = self.forward.columns_for(rows)
            drafts = [()] * len(own) if self._drafts is None else self._drafts.of(sessions, columns)
            texts = dict[Row, Sequence[int]]()
            for search in forced:
                texts |= zip(search.rows, search.next_forced(columns - 1), strict=True)
            spans = [texts.get(row, ()) for row in beams] if beams else []
            if not any(drafts) and not any(spans):
                return self.forward.read(rows)
            read = self.forward.read_drafted(rows, [*drafts, *spans])
            if self._drafts is not None:
                self._drafts.keep(own, drafts, read[: len(own)])
            self._forced.keep(beams, spans, read[len(own) :])
            behind = [-1 - len(draft) for draft in (*drafts, *spans)]
            return torch.stack([logits[column] for logits, column in zip(read, behind, strict=True)])

    def _read_ahead(self, sessions: Sequence[Session], asks: Sequence[Ask], drawn: Drawn) -> None:
        """Has the device read the tokens it chooses before the host knows them, and what else is pending.

        Not if too many rows will end or have forced text after the token.
        """
        reading, going, forced = list[Session](), dict[Row, int](), 0
        for i, session in enumerate(sessions):
            if session.has_room:
                reading.append(session)
                going[session.row] = i
                forced += session.spans is not None and session.expects_forced(asks[i].words)
        if len(reading) - forced < AHEAD_SHARE * len(sessions):
            return
        if len(reading) < len(self.sessions):
            reading += [s for s in self._going() if s.finish is None and not s.row.is_read and s not in self._held]
        rows = [s.row for s in reading]
        with in_portions(self.forward, rows, going):
            self._ahead = reading, self.forward.read(rows, Foreseen(drawn.ids, going))

    def _leave(self, session: Session) -> Session | None:
        """The session that follows takes over the row, and is returned; if none does, the last row takes its place, as
        in the cache."""
        self.leaving = session
        following, place = session.following(), self.sessions.index(session)
        if session in self._looking:
            self._looking.remove(session)
        if following is not None:
            self.sessions[place] = following
            self._looking += [following] if following.looks else []
            if not following.sent_back:
                following.row.reread()  # the logits read ahead were for the session before
        else:
            self.sessions[place] = self.sessions[-1]
            self.sessions.pop()
            self.forward.release(session.row)
            self.left.append(session)
        if self._drafts is not None:
            self._drafts.forget(session)
        session.leave()
        self.leaving = None
        return following

    def _leave_search(self, search: BeamSearch) -> None:
        for row in search.rows:
            self.forward.release(row)
        self.searches.remove(search)
        self.left.append(search)

    def _choose(self, ready: Sequence[Session], logits: Tensor, *, ahead: bool) -> list[Session]:
        """Lets sessions choose a token. Returns those that choose another one from the same logits.

        Args:
            logits: of each session, except those that choose from recalled logits.
            ahead: the device reads the tokens at once.
        """
        sessions, asks, rows, recalled = list[Session](), list[Ask](), list[int](), False
        for row, session in enumerate(ready):
            ask = session.ask()
            if ask is not None:
                sessions.append(session)
                asks.append(ask)
                rows.append(row)
                recalled = recalled or session.recalled is not None
        if not sessions:
            return self._settled(ready)
        if len(rows) < len(ready) or recalled:
            own = zip(rows, sessions, strict=True)
            logits = torch.stack([logits[row] if s.recalled is None else s.recalled for row, s in own])
        assert self._chooser is not None  # nothing is chosen after `close`
        drawn = self._chooser.draw(logits, asks)
        if ahead:
            self._read_ahead(sessions, asks, drawn)
        tokens = drawn.tokens()  # the one copy from the device
        step = 0
        if self.measured:
            noted = [token if s.is_measured else -1 for s, token in zip(sessions, tokens, strict=True)]
            step = self.ledger.add(logits, asks, noted, drawn.masks)
        for row in drawn.by_host:  # the device may have read another token there
            sessions[row].row.truncate(len(sessions[row].row.ids))
        for row, (session, token) in enumerate(zip(sessions, tokens, strict=True)):
            if row in drawn.errors:
                session.fail(drawn.errors[row])
            else:
                session.accept(token, logits, row, (step, row))
        return self._settled(ready)

    def _settled(self, sessions: Sequence[Session]) -> list[Session]:
        """After a choice: those that are over leave. Returns those that choose again from the same logits: a token was
        rolled back, or a session follows in the row of another."""
        again = list[Session]()
        for session in sessions:
            now: Session | None = session
            while now is not None and now.finish is not None:
                now = self._leave(now)
            again += [now] if now is not None and now.sent_back else []
        return again

    def _step_apart(self, error: Exception) -> None:
        """After a step that failed: steps halves of its rows, and halves of these, until the rows that raise are alone.

        If a row's own work has raised, it has failed already, and the others are not tried. If no row fails alone, the
        memory is too small for all of them at once: then fewer run at once from now on. What was remembered is
        forgotten: it takes memory.
        """
        if isinstance(self._module, PreTrainedModel):
            prefixes_of(self._module).clear()
        parked, self._parked = self._parked, deque()
        tried: list[Decoded] = [*self._going(), *self._searching()]
        paused: list[Decoded] = [unit for unit in (*self.sessions, *self.searches) if unit in self.paused]
        going = self.begin_anew(tried, error)
        if not any(unit.error is not None for unit in tried):
            tried = going
            going = self._alive_of_halves(tried, error)
            if not any(unit.error is not None for unit in tried):
                self.most = max(1, len(tried) // 2)
                if isinstance(error, torch.cuda.OutOfMemoryError):
                    self._too_many = f"{len(tried)} rows at once do not fit into memory, so {self.most} run at once"
                    warn_caller(f"{self._too_many}; batch_size={self.most} does so from the start")
        going = self.begin_anew([*going, *paused], error)
        if self.most is not None:
            self.begin_anew(going[: self.most], error)
        self._parked = deque([*going[self.most or len(going) :], *parked])

    def _alive_of_halves(self, group: Sequence[Decoded], error: Exception) -> list[Decoded]:
        """Steps the halves of some rows, whose step has failed together. Returns those that continue."""
        if len(group) == 1:
            (unit,) = group
            what = "the model's forward pass failed"
            if isinstance(error, torch.cuda.OutOfMemoryError):
                what = f"the memory is too small for this row of {len(_rows(unit)[0].ids)} tokens, even alone"
            unit.fail(error if isinstance(error, StructgenError) else unforeseen(what, error))
            return self.begin_anew(group, error)
        middle, alive = (len(group) + 1) // 2, list[Decoded]()
        for half in (group[:middle], group[middle:]):
            self.begin_anew(half, error)
            try:
                self._step()
                alive += [*self.sessions, *self.searches]
            except Exception as again:  # noqa: BLE001 - as in `step`
                alive += self._alive_of_halves(self.begin_anew((*self.sessions, *self.searches), again), again)
        return alive

    @torch.inference_mode()
    def begin_anew(self, units: Sequence[Decoded], error: BaseException) -> list[Decoded]:
        """After a step that was broken off, which may have left anything in the cache: decodes these alone, in a new
        cache, of which nothing is read yet. Returns those that are not over.

        A prompt with images cannot be read again together with what was generated: its row fails.
        """
        traceback.clear_frames(error.__traceback__)  # they hold the old cache
        count, replays = self.forward.count, self.forward.replays
        self.forward = Over(self.forward)
        self.forward = forward_for(self._module, graphs=self._graphs)
        self.forward.count, self.forward.replays, self._ahead, self._forced = count, replays, ((), None), DraftReader()
        if self._drafts is not None:
            self._drafts = Drafts(self.forward, self._vocabulary, self.drafted)
        self.sessions, self.searches, self._parked, self._looking = [], [], deque(), []
        for unit in units:
            self.join(unit)
            for row in _rows(unit):
                if row.inputs is not None and len(row.ids) > row.given and not unit.done:
                    unit.fail(unforeseen("a step failed, and images cannot be read again", error))
                row.valid, row.encoded = 0, None
        self._leave_done()
        return [*self.sessions, *self.searches]

    def close(self) -> None:
        """Frees the model's cache and its graphs for the next batch, and the masks on the device.

        The garbage collector may be too late: a row's error keeps its traceback's frames, and these keep the batch.
        """
        self.forward = Over(self.forward)
        self._ahead, self._forced = ((), None), DraftReader()
        self._chooser = self._drafts = None

    def why_slow(self) -> tuple[str, ...]:
        """What makes the batch slower than the model allows, see `Stats.why_slow`."""
        reasons = self.forward.why_slow, why_without_triton() if self._on_cuda else "", self._too_many
        return tuple(filter(None, reasons))


def _rows(unit: Decoded) -> list[Row]:
    """The rows that the model reads for a session, or for the beams of a search."""
    return unit.rows if isinstance(unit, BeamSearch) else [unit.row]


def without_padding(logits: Tensor, vocabulary: Vocabulary) -> Tensor:
    """The logits of the vocabulary's ids: float[rows, vocabulary.width].

    Raises:
        OptionError: the logits are narrower.
    """
    if logits.shape[-1] < vocabulary.width:
        widths = f"the model's logits have {logits.shape[-1]} columns, the tokenizer's ids need {vocabulary.width}"
        raise OptionError(f"{widths}: load the tokenizer that belongs to the model, or resize its embeddings")
    return logits[:, : vocabulary.width]
