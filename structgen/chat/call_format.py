"""How a model writes calls: one description, from which come the mask, the parser and the renderer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from structgen.chat.arguments import ArgumentWriter, JsonArguments
from structgen.chat.pieces import TAG, Pieces, Slot, common_suffix, filled, joined, shown


class WrittenCall(NamedTuple):
    """One call as a format writes it.

    Attributes:
        name: of the tool.
        arguments: as JSON values by name.
        id: of the call.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True)
class Tags:
    """What a span of text is put in.

    Attributes:
        opening, closing: around it.
    """

    opening: str
    closing: str


@dataclass(frozen=True)
class CallFormat:
    """How a model writes an answer and calls in its turn, thinking apart.

    A turn with calls is `lead`, the calls with `between` between them, then `closing`. A turn of text is the content
    within its tags. Where a model may say something before it calls, that is `content.opening`, the text, `gap`, and
    what follows `lead` then follows `gap`: both end with the same `opening`, which begins the calls.

    Attributes:
        lead: what stands between the prompt and the first call's first slot.
        body: of one call, from its first slot to its last.
        between: from a call's last slot to the next one's first; None where a turn has one call at most.
        closing: behind the last call.
        end: what the template writes behind the turn: end tokens, mostly.
        arguments: how arguments are written.
        content: around the text of an answer.
        gap: what stands between text and the first call's first slot; None where a turn has one or the other.
        thinking: around what the model thinks before; None where the template has no such marks.
        as_text: does the template want arguments as JSON text?
        first_index: what `Slot.INDEX` counts from.
    """

    lead: str
    body: Pieces
    between: str | None
    closing: str
    end: str
    arguments: ArgumentWriter
    content: Tags
    gap: str | None = None
    thinking: Tags | None = None
    as_text: bool = False
    first_index: int = 0

    def without(self, tokens: Collection[str]) -> CallFormat:
        """The format as a text has it that shows no special tokens; how arguments are written stays as it is.

        Args:
            tokens: names of the special tokens.
        """
        longest_first = sorted(tokens, key=len, reverse=True)
        names = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

        def bare(piece: Any) -> Any:
            return names.sub("", piece) if isinstance(piece, str) else piece

        return replace(
            self,
            lead=bare(self.lead),
            body=joined(map(bare, self.body)),
            between=bare(self.between),
            closing=bare(self.closing),
            end=bare(self.end),
            content=Tags(bare(self.content.opening), bare(self.content.closing)),
            gap=bare(self.gap),
        )

    def render(self, calls: Sequence[WrittenCall], content: str = "") -> str:
        """What a model says to make these calls, from the prompt to `closing`; without calls, its answer.

        Raises:
            ValueError: the format has no such turn: several calls, text before calls, or a value that it cannot write.
        """
        if not calls:
            return self.content.opening + content + self.content.closing
        if len(calls) > 1 and self.between is None:
            raise ValueError("the format has one call in a turn at most")
        if content and self.gap is None:
            raise ValueError("the format has no text before calls")
        begun = self.content.opening + content + (self.gap or "") if content else self.lead
        bodies = [self._body(call, self.first_index + place) for place, call in enumerate(calls)]
        return begun + (self.between or "").join(bodies) + self.closing

    def _body(self, call: WrittenCall, index: int) -> str:
        arguments = self.arguments.write(call.arguments)
        slots = {Slot.NAME: call.name, Slot.ID: call.id, Slot.INDEX: str(index), Slot.ARGUMENTS: arguments}
        return filled(self.body, slots)

    @property
    def opening(self) -> str:
        """What begins calls, whether there is text before them or not."""
        return self.lead.lstrip() if self.gap is None else common_opening(self.lead, self.gap)

    @property
    def trigger(self) -> str:
        """What of `opening` stands in no text: its first tag, or all of it where an answer's end
        begins with that. Empty where calls begin with a name."""
        tag = TAG.match(self.opening)
        if tag is None or self.content.closing.lstrip().startswith(tag[0]):
            return self.opening
        return tag[0]

    def described(self) -> list[tuple[str, str]]:
        """The parts by name, for a person to read."""
        rows = [("call", shown([self.lead, *self.body, self.closing]))]
        rows.append(("between calls", "one call in a turn" if self.between is None else shown([self.between])))
        rows.append(("text before calls", "no" if self.gap is None else "yes"))
        if isinstance(self.arguments, JsonArguments):
            rows.append(("arguments", "JSON"))
        else:
            for type_, format_ in self.arguments.formats:
                rows.append((f"{type_} argument", shown([*format_.before, Slot.VALUE, *format_.after])))
        if self.thinking is not None:
            rows.append(("thinking", shown([self.thinking.opening, "...", self.thinking.closing])))
        return rows


def common_opening(lead: str, gap: str) -> str:
    """What begins calls both behind nothing and behind text."""
    return lead[len(lead) - common_suffix(lead, gap) :].lstrip()
