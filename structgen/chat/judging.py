"""Judges the arguments of calls while they are generated: by the validators of tools, and by rules no mask holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structgen.chat.arguments import ArgumentWriter, KeyedArguments
from structgen.chat.parser import ArgumentsPiece, CallBegun, CallEnded, TurnEvent
from structgen.chat.pieces import Slot, filled
from structgen.errors import ValidationFailed, excerpt
from structgen.guards import Veto
from structgen.guards.lookahead import holding
from structgen.guards.validators import ArgumentVeto, ValidatorGuard
from structgen.json_text.pointers import PointerReader
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary


class _Place(NamedTuple):
    """Where a token with arguments begins. `read`: the length of the JSON before it; `before`: the token before."""

    read: int
    offset: int
    before: _Place | None


class Judged(NamedTuple):
    """What is known of the calls of a text.

    Attributes:
        length: the number of bytes of the text, without control tokens.
        name: the tool of the call in which the text ends.
        start: the byte offset at which the arguments of the last call begin; before they begin, the end of its name;
            -1 before the first call.
        place: the last token with arguments.
        read: the length of the JSON.
        reader: the state of the guard of the arguments; None unless validators judge them.
        veto: against a value of the last token.
    """

    length: int = 0
    name: str = ""
    start: int = -1
    place: _Place | None = None
    read: int = 0
    reader: PointerReader | None = None
    veto: Veto | None = None

    @property
    def begun(self) -> int:
        """The offset at which the last call's arguments begin; before the first call, the end of the text."""
        return self.length if self.start < 0 else self.start


UNJUDGED = Judged()


class CallJudge:
    """Vetoes values in arguments, from the first byte of such a value.

    Args:
        arguments: how the model writes them.
        tools: those whose complete calls are held to their schemas.
        guards: of the arguments of tools with validators, by the tool's name.
    """

    def __init__(
        self, arguments: ArgumentWriter, tools: Sequence[Tool[..., Any]], guards: Mapping[str, ValidatorGuard]
    ) -> None:
        self._tools, self._guards = {tool.name: tool for tool in tools}, guards
        self._closers = _closers(arguments) if isinstance(arguments, KeyedArguments) else None

    def after(self, before: Judged, events: Sequence[TurnEvent], piece: bytes) -> Judged:
        """Returns what is known after a token. `events`: what was read of it; `piece`: its text."""
        after = before._replace(length=before.length + len(piece), veto=None)
        for event in events:
            if isinstance(event, CallBegun):
                guard = self._guards.get(event.name)
                reader = None if guard is None else guard.start()
                after = Judged(after.length, event.name, after.length, reader=reader)
            elif isinstance(event, CallEnded):
                after = after._replace(reader=None)
                if (why := self._refused(event)) is not None:
                    return after._replace(veto=ArgumentVeto(after.start, f"{event.name}: {why}"))
            elif isinstance(event, ArgumentsPiece) and after.reader is not None:
                place, new = _Place(after.read, before.length, after.place), event.text.encode()
                verdict = self._guards[after.name].feed(after.reader, new)
                if isinstance(verdict, Veto):
                    while place.before is not None and place.read > verdict.offset:
                        place = place.before
                    return after._replace(veto=ArgumentVeto(place.offset, f"{after.name}: {verdict.reason}"))
                start = after.start if after.place else before.length
                after = after._replace(start=start, place=place, read=after.read + len(new), reader=verdict)
        return after

    def _refused(self, call: CallEnded) -> str | None:
        """Returns why a complete call is refused; None if it is not."""
        try:
            if call.name in self._tools:
                self._tools[call.name].parse(call.arguments)
        except ValidationFailed as refusal:
            return excerpt(refusal.reason)
        return None

    def suspects(self, judged: Judged, vocabulary: Vocabulary) -> NDArray[np.int64] | None:
        """Returns the tokens that may complete a value; None if any may.

        In JSON, a token that begins arguments and completes a refused value, too, is vetoed when it comes.
        """
        if self._closers is not None:
            special = np.array([*vocabulary.special_names.values()], np.int64)
            return np.union1d(special, holding(vocabulary, self._closers)) if self._closers else None
        if judged.reader is None or not judged.reader.is_inside:
            return np.zeros(0, np.int64)
        return self._guards[judged.name].suspects(judged.reader, vocabulary)


def _closers(arguments: KeyedArguments) -> bytes:
    """Returns the last bytes of the texts that end values; none if a value ends with no text of its own."""
    ends = {filled(each.after, {Slot.KEY: "k"}).encode()[-1:] for _, each in arguments.formats}
    return b"" if b"" in ends else b"".join(sorted(ends))
