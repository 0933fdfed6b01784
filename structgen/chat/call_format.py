"""How a model writes calls. The mask, the parser and the renderer are all derived from this one description."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from structgen.chat.arguments import ArgumentWriter, JsonLayout
from structgen.chat.pieces import TAG, Pieces, Slot, common_suffix, filled, joined, one_of, shown


class WrittenCall(NamedTuple):
    """One call as a format writes it.

    Attributes:
        arguments: the arguments by name, as JSON values.
        id: the id of the call; empty in formats without ids.
    """

    name: str
    arguments: Mapping[str, Any]
    id: str = ""


@dataclass(frozen=True)
class Tags:
    """The tags around a span of text, such as `<think>` and `</think>`."""

    opening: str
    closing: str


@dataclass(frozen=True)
class CallFormat:
    """How a model writes an answer and calls in its turn. The thinking before them is not part of it.

    A turn with calls is `lead`, the calls with `between` between them, then `closing`. A turn of text is the text
    within the tags `content`. A turn with text before its calls is `content.opening`, the text, `gap`, the calls and
    `closing`. `lead` and `gap` end with the same `opening`, which begins the calls: `<tool_call>` in Qwen's format.

    Attributes:
        lead: the text between the prompt and the first slot of the first call.
        body: the pieces of one call, from its first slot to its last.
        between: the text from the last slot of a call to the first slot of the next one; None if a turn has at most one
            call.
        closing: the text behind the last slot of the last call.
        end: the text that the template writes behind the turn, mostly end tokens.
        arguments: how arguments are written.
        content: the tags around the text of an answer.
        gap: the text between an answer's text and the first slot of the first call; None if a turn cannot have both.
        thinking: the tags around the model's thinking; None if the template has no such tags.
        as_text: does the template take arguments as JSON text, not as a mapping?
        no_content: the content of a message with calls only, as the template takes it: an empty text or None.
        ids: the ids of calls with `{name}` and `{index}`, if the template writes the id in place of the name; None if
            any id will do.
        first_index: the number of the first call in `Slot.INDEX`.
        told: does the tokenizer render no calls? (Some templates describe the format only in the prompt.) Then the
            calls of a conversation are written into the content of the assistant's messages.
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
    no_content: str | None = ""
    ids: str | None = None
    first_index: int = 0
    told: bool = False

    def without(self, tokens: Collection[str]) -> CallFormat:
        """Returns the format as it looks in decoded text, where special tokens are not shown. `arguments` stays.

        Args:
            tokens: the names of the special tokens.
        """
        names = one_of(tokens)

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
        """Returns the text of a turn, from the end of the prompt to `closing`.

        Args:
            calls: the calls of the turn; none for a turn of text alone.
            content: the text of the answer.

        Raises:
            ValueError: the format cannot write several calls, text before calls, or one of the values.
        """
        if not calls:
            return self.content.opening + content + self.content.closing
        if len(calls) > 1 and self.between is None:
            raise ValueError("the format allows only one call in a turn")
        if content and self.gap is None:
            raise ValueError("the format allows no text before calls")
        begun = self.content.opening + content + (self.gap or "") if content else self.lead
        bodies = [self._body(call, self.first_index + place) for place, call in enumerate(calls)]
        return begun + (self.between or "").join(bodies) + self.closing

    def _body(self, call: WrittenCall, index: int) -> str:
        arguments = self.arguments.write(call.arguments)
        slots = {Slot.NAME: call.name, Slot.ID: call.id, Slot.INDEX: str(index), Slot.ARGUMENTS: arguments}
        return filled(self.body, slots)

    def id_of(self, name: str, place: int) -> str:
        """Returns the id of the call with index `place` in a turn; an empty text if any id will do."""
        return "" if self.ids is None else self.ids.format(name=name, index=self.first_index + place)

    @property
    def opening(self) -> str:
        """The text that begins calls, with or without text before them."""
        return self.lead.lstrip() if self.gap is None else common_opening(self.lead, self.gap)

    @property
    def trigger(self) -> str:
        """The text that begins calls, so that an answer cannot contain it: the first tag of `opening`.

        It is the whole of `opening` if `opening` begins with no tag, or if the end of an answer begins with the same
        tag. It is empty if calls begin with a name.
        """
        tag = TAG.match(self.opening)
        if tag is None or self.content.closing.lstrip().startswith(tag[0]):
            return self.opening
        return tag[0]

    def described(self) -> list[tuple[str, str]]:
        """Returns the parts of the format for a person to read, as pairs of a name and a text."""
        rows = [("call", shown([self.lead, *self.body, self.closing]))]
        rows.append(("between calls", "one call in a turn" if self.between is None else shown([self.between])))
        rows.append(("text before calls", "no" if self.gap is None else "yes"))
        if isinstance(self.arguments, JsonLayout):
            rows.append(("arguments", "JSON"))
        else:
            for type_, format_ in self.arguments.formats:
                rows.append((f"{type_} argument", shown([*format_.before, Slot.VALUE, *format_.after])))
        if self.thinking is not None:
            rows.append(("thinking", shown([self.thinking.opening, "...", self.thinking.closing])))
        return rows


def common_opening(lead: str, gap: str) -> str:
    """Returns the text with which both `lead` and `gap` end: it begins the calls."""
    return lead[len(lead) - common_suffix(lead, gap) :].lstrip()
