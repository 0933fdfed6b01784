"""Texts that differ little from a refused one and that the validators accept.

A list ends sooner, or one value becomes another one that the text itself suggests (`nearby`), as the sum of its lines
for a total. What differs latest comes first, within a list its earlier end; that it has no items comes last. Where no
single change is accepted but one is refused for another reason, the rule that was broken first is mended: from there
the search continues.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from structgen.decoding.refusals.nearby import nearby
from structgen.guards.validators import ValueGuard, ValueVeto
from structgen.json_text.pointers import PointerReader, Span
from structgen.patience import check_patience
from structgen.schema.python.validators import Path, Validators

MOST_ENDS, MOST_VALUES = 16, 144
"""The ends of lists, and the values, that the validators are asked about at once."""
CHANGES = 4
"""The most changes to one text."""
SECONDS = 1.0
"""The time, by the clock, after which no further text is shown to the validators: they are the user's own code."""
CONTAINERS = b"{["
"""The first bytes of containers."""


class Mend(NamedTuple):
    """A change to a text."""

    place: int  # where it begins
    shown: bytes  # the text from which the row may continue: up to the end of a list that ends sooner, else all
    text: bytes  # all of it
    is_empty: bool = False  # a list has no items any more


def values_read(validators: Validators, judged: bytes, veto: ValueVeto) -> tuple[list[Span], set[Path]]:
    """The values of a text, and the paths of those in the refused value that its rules do not read.

    Args:
        judged: the text up to the end of the refused value.
    """
    spans = [*(reader := PointerReader()).feed(judged), *reader.finish()]
    inner = [span.path for span in reversed(spans) if span.start > veto.offset]
    if not inner or veto.is_alone:
        return spans, set()
    return spans, validators.unread(spans[-1].path, judged[veto.offset :], inner, judged[: veto.offset])


class Mending:
    """Changes one text until the validators of its type accept it, for `SECONDS` at most."""

    def __init__(self, validators: Validators) -> None:
        self._validators, self._until = validators, time.monotonic() + SECONDS

    def accepted(self, judged: bytes, veto: ValueVeto, changes: int = CHANGES) -> Iterator[Mend]:
        """Texts that are accepted, the nearest first.

        Args:
            judged: a text up to the end of the refused value.
            changes: how many to make at most.
        """
        spans, unread = values_read(self._validators, judged, veto)
        read = [span for span in spans if span.start > veto.offset and span.path not in unread]
        values = [span for span in read if judged[span.start] not in CONTAINERS]
        mends = [*islice(self.ends(judged, veto), MOST_ENDS)]
        for span, new in islice(nearby(judged, values, veto.message), MOST_VALUES):
            text = judged[: span.start] + new + judged[span.end :]
            mends.append(Mend(span.start, text, text))
        lists = [span for span in read if judged[span.start] == ord("[")]
        mends.sort(key=lambda mend: _order(mend, lists))
        other: tuple[bytes, ValueVeto] | None = None
        for mend in mends:
            check_patience()
            if time.monotonic() > self._until:
                return
            verdict = ValueGuard(self._validators).feed(PointerReader(), mend.text)
            if not isinstance(verdict, ValueVeto):
                yield mend if changes == CHANGES else mend._replace(shown=mend.text)
            elif other is None and verdict.offset == veto.offset and _reason(verdict) != _reason(veto):
                other = mend.text, verdict
        if other is not None and changes > 1:
            yield from self.accepted(*other, changes - 1)

    def ends(self, judged: bytes, veto: ValueVeto) -> Iterator[Mend]:
        """A list that the rules read ends sooner, the latest end first; lists without items last."""
        spans, unread = values_read(self._validators, judged, veto)
        ends = list[Mend]()
        for array in spans:
            if judged[array.start] == ord("[") and array.start >= veto.offset and array.path not in unread:
                items = [each for each in spans if each.around == array.start < each.start]
                shown = [judged[: item.end] + judged[items[-1].end : array.end] for item in items[:-1]]
                texts = [judged[: array.start + 1] + b"]", *shown] if items else []
                ends += (
                    Mend(
                        array.start + 1 if not count else items[count - 1].end,
                        text,
                        text + judged[array.end :],
                        not count,
                    )
                    for count, text in enumerate(texts)
                )
        yield from sorted(ends, key=lambda end: (end.is_empty, -end.place))


def _order(mend: Mend, lists: list[Span]) -> tuple[bool, int]:
    outermost = min((each.start for each in lists if each.start < mend.place < each.end), default=mend.place)
    return mend.is_empty, -outermost


def _reason(veto: ValueVeto) -> str:
    """The validators' message without its numbers, which change with the values."""
    return re.sub(r"[\d.]+", "0", veto.message)
