"""How a model writes calls. The mask, the parser and the renderer are all derived from this one description."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from structgen.chat.arguments import JSON_TYPES, ArgumentWriter, JsonLayout, Raw
from structgen.chat.pieces import (
    TAG,
    Blank,
    Maybe,
    OneOf,
    Pieces,
    Slot,
    Spelling,
    common_suffix,
    filled,
    shown,
)
from structgen.chat.spellings import (
    canonical,
    firsts,
    has_slot,
    leading,
    loosened,
    orders,
    pattern,
    spelled,
    tidy,
)


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


ANY_ID, NINE = "[A-Za-z0-9_-]{1,64}", "[A-Za-z0-9]{9}"
"""Patterns of the ids of calls; the second one is what Mistral's templates demand."""


@dataclass(frozen=True)
class Spellings:
    """The texts that a model may write for the parts of a turn. A turn of calls is `prefix`, `begin`, the calls with
    `between` between them, then `closing`. A turn of text is `opening`, the text, `answered`; or `opening`, the text,
    `apart`, `begin` and calls.

    Attributes:
        begin: what begins calls, up to the first slot of the first call.
        body: one call, from its first slot to its last.
        between: from the last slot of a call to the first slot of the next one; None if a turn has at most one call.
        closing: what ends calls.
        prefix: what is before `begin` in a turn without text.
        opening, answered: what is before and after the text of an answer.
        apart: what is between text and `begin`; None if a turn cannot have both.
        id: the pattern of the ids of calls.
        named: is it only the name of a tool that tells a call from an answer?
    """

    begin: Spelling
    body: Spelling
    between: Spelling | None
    closing: Spelling
    prefix: Spelling = (Blank(),)
    opening: Spelling = ()
    answered: Spelling = ()
    apart: Spelling | None = (Blank(),)
    id: str = ANY_ID
    named: bool = False

    def triggers(self, names: Collection[str]) -> list[Spelling]:
        """Returns what begins a call wherever it is, so that an answer cannot contain it.

        It is a tag, or the whole of `begin` if it begins with no tag. If that says too little, the names of tools
        follow it.
        """
        tags = [TAG.match(first) for first in firsts(self.begin)]
        if tags and all(tags):
            known = [tag[0] for tag in tags if tag]
            closers = firsts(self.answered)
            if not any(closer.startswith(tag) for closer in closers for tag in known):
                return [(tag,) for tag in dict.fromkeys(known)]
        if tells(self.begin) and not self.named:
            return [self.begin]
        heads = [tidy([*self.begin, *_before_name(each)]) for each in orders(self.body)]
        if all(map(tells, heads)) and not self.named:
            return heads
        named = OneOf(tuple((name,) for name in names))
        body = orders(self.body)[0]
        return [tidy([*heads[0], named, *leading(body[body.index(Slot.NAME) + 1 :])])] if names else []


def _known_at_once(triggers: list[Spelling]) -> list[Spelling]:
    """Returns triggers without white space at their ends, so that it need not be read before a call has started."""
    return [each[:-1] if isinstance(each[-1], Blank) else each for each in triggers]


def _before_name(body: Spelling) -> Spelling:
    """Returns what is before the name of a call, or before its arguments if they come first."""
    slots = [body.index(slot) for slot in (Slot.NAME, Slot.ARGUMENTS) if slot in body]
    return tuple(piece for piece in body[: min(slots, default=0)] if not has_slot((piece,)))


def tells(spelling: Spelling) -> bool:
    """Is a text enough to tell a call from an answer?"""
    return len("".join(map(str, canonical(spelling))).strip()) >= _TELLING


_TELLING = 4
"""The number of characters that are enough to tell a call from text."""
_FENCE = Maybe((OneOf((("```json",), ("```",), ("<tools>",))), Blank("\n")), written=False)
_FENCED = Maybe((Blank("\n"), OneOf((("```",), ("</tools>",)))), written=False)
_NAMED = spelled("{", '"name": "')
BARE = Spellings(
    begin=(_FENCE, *_NAMED),
    body=spelled(Slot.NAME, '", ', OneOf((('"arguments"',), ('"parameters"',))), ": ", Slot.ARGUMENTS, "}"),
    between=(_FENCED, Blank("\n"), _FENCE, *_NAMED),
    closing=(_FENCED,),
    named=True,
)
"""A call without the tags of a format: a JSON object with the name of a tool, alone or in a fence. Small models write
it where they were trained on tags (Qwen2.5-Coder)."""


@dataclass(frozen=True)
class CallFormat:
    """How a model writes an answer and calls in its turn. The thinking before them is not part of it.

    `render` writes one text for a call: the template's, or the model's where the template's cannot be read back. The
    mask of a turn that must call has only this text (`written`). `spellings` has all that the mask takes where the
    model itself begins a call, and all that the parser reads.

    A turn with calls is `lead`, the calls with `between` between them, then `closing`. A turn of text is the text
    within the tags `content`. A turn with text before its calls is `content.opening`, the text, `gap`, the calls and
    `closing`. `lead` and `gap` end with the same `opening`, which begins the calls: `<tool_call>` in Qwen's format.

    Attributes:
        lead: the text between the prompt and the first slot of the first call.
        body: the pieces of one call, from its first slot to its last.
        between: the text from the last slot of a call to the first slot of the next one; None if a turn has at most one
            call.
        closing: the text after the last slot of the last call.
        end: the text that the template writes after the turn, mostly end tokens.
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
        name: the name of the format, if it is a known one.
        known: the spellings of a known format; by default, they are those of the texts above.
        reads: how arguments may be written, if the model has more ways than the template.
        thought_ends: what ends a thought next to its closing tag; it belongs to the text after the thought.
        bare: is a JSON object with the name of a tool a call, too, where the tags of calls are missing?
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
    name: str = ""
    known: Spellings | None = None
    reads: ArgumentWriter | None = None
    thought_ends: tuple[str, ...] = ()
    bare: bool = True

    def ways(self, names: Collection[str]) -> list[tuple[Spellings, list[Spelling]]]:
        """Returns the ways to write calls of these tools, the format's own first, each with what begins a call."""
        if not names:
            return []
        own = self.spellings
        ways = [(own, _known_at_once(own.triggers(names)))]
        tagged = isinstance(self.reading, JsonLayout) and all(map(TAG.match, firsts(own.begin)))
        if self.bare and tagged and own.apart is not None and not "".join((*firsts(own.opening), *firsts(own.apart))):
            ways.append((BARE, _known_at_once(BARE.triggers(names))))
        return ways

    @cached_property
    def spellings(self) -> Spellings:
        """What a model may write for the parts of a turn."""
        own = self.known or self._loosened()
        if own.between is None or not "".join(firsts(own.begin)):
            return own
        block = tidy((*own.closing, Blank(), *own.begin))  # the calls end, and begin again
        covered = re.fullmatch(pattern(block), "".join(map(str, canonical(own.between))))
        return replace(own, between=block if covered else (OneOf((own.between, block)),))

    def _loosened(self) -> Spellings:
        """What the template writes, with more white space."""
        own = self.written
        loose: dict[str, Any] = {name: spelled(*each) for name, each in vars(own).items() if isinstance(each, tuple)}
        for name in {"prefix", "apart"} & loose.keys():
            loose[name] = loose[name] or (Blank(),)
        return replace(own, **loose)

    @cached_property
    def written(self) -> Spellings:
        """What `render` writes for the parts of a turn: one text for each."""
        opening = self.opening
        before = None if self.gap is None else self.gap[: len(self.gap) - len(opening)]
        if before is None and not (self.content.opening + self.content.closing).strip():
            before = ""
        return Spellings(
            begin=(opening,),
            body=self.body,
            between=None if self.between is None else (self.between,),
            closing=(self.closing,),
            prefix=(self.lead[: len(self.lead) - len(opening)],),
            opening=(self.content.opening,),
            answered=(self.content.closing,),
            apart=None if before is None else (before,),
            id=NINE if self.known is None else self.known.id,
        )

    @cached_property
    def ending_thought(self) -> tuple[str, ...]:
        """What ends a thought next to its closing tag: `thought_ends`, and a control token that begins calls."""
        control = [match[0] for match in map(_CONTROL.match, firsts(self.spellings.begin)) if match]
        return tuple(dict.fromkeys((*self.thought_ends, *control)))

    @property
    def reading(self) -> ArgumentWriter:
        """How arguments may be written."""
        return self.reads or self.arguments

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

    def described(self) -> list[tuple[str, str]]:
        """Returns the parts of the format for a person to read, as pairs of a name and a text."""
        rows = [("format", self.name)] if self.name else []
        rows.append(("call", shown([self.lead, *self.body, self.closing])))
        rows.append(("between calls", "one call in a turn" if self.between is None else shown([self.between])))
        rows.append(("text before calls", "no" if self.gap is None else "yes"))
        if isinstance(self.arguments, JsonLayout):
            rows.append(("arguments", "JSON"))
        else:
            for type_, format_ in self.arguments.formats:
                rows.append((f"{type_} argument", shown([*format_.before, Slot.VALUE, *format_.after])))
        lost = self._unwritable()
        if lost:
            rows.append(("cannot be written", lost))
        if self.thinking is not None:
            rows.append(("thinking", shown([self.thinking.opening, "...", self.thinking.closing])))
        return rows

    def _unwritable(self) -> str:
        """Returns which values the format has no spelling for, for a person to read; empty if it has one for all."""
        if isinstance(self.arguments, JsonLayout):
            return ""
        formats = dict(self.arguments.formats)
        lost = [type_ for type_ in JSON_TYPES if type_ not in formats]
        for type_, format_ in self.arguments.formats:
            writer = format_.writer
            if isinstance(writer, Raw):
                stop = shown(format_.after).strip() or shown([self.between or self.closing])
                lost.append(f"a {type_} with {stop!r}")
                lost += [f"a {type_} with {', '.join(map(repr, sorted(writer.without)))}"] if writer.without else []
                lost += [f"a {type_} with white space at its ends"] if writer.trimmed else []
        return "; ".join(lost)


_CONTROL = re.compile(r"<[|｜][^<>\s]*>")
"""A token that stands for itself alone in any text, as `<tool_call>` does not."""


def thought_opening(tags: Tags) -> Spelling:
    """Returns what a model may write to open a thought. In `<|channel>thought` it may leave out the word."""
    opening = tags.opening.strip()
    tag = TAG.match(opening)
    word = opening[tag.end() :] if tag is not None else ""
    if tag is None or not word or TAG.search(word):
        return (Blank(), *loosened(opening, before=False, behind=False), Blank())
    return (Blank(), tag[0], Maybe((word,)), Blank())


def common_opening(lead: str, gap: str) -> str:
    """Returns the text with which both `lead` and `gap` end: it begins the calls."""
    return lead[len(lead) - common_suffix(lead, gap) :].lstrip()
