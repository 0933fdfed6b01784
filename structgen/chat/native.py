"""A call format that is known by name: what models write that their templates do not always show.

From the spellings come the mask, the parser and, for a template that renders no calls, the renderer. The history of a
conversation is always written as the template writes it. The table of the formats is in `formats`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from structgen.chat.arguments import (
    JSON_TYPES,
    ArgumentWriter,
    JsonLayout,
    KeyedArguments,
    Raw,
)
from structgen.chat.call_format import CallFormat, Spellings, Tags
from structgen.chat.pieces import Slot, Spelling, filled
from structgen.chat.spellings import canonical, firsts


@dataclass(frozen=True)
class Native:
    """A call format that is known by name.

    Attributes:
        marks: texts of which all are in a chat template for it, or in the prompt that the template renders.
        without: texts of which none is there.
        arguments: how arguments are written; None: as the template writes them, or as JSON.
        thinking: the tags around a thought; None: as the template has them.
        thought_ends: what ends a thought next to the closing tag.
        first_index: the number of the first call, where calls are numbered.
        ids: the ids of calls, if they have the name in them, as in `CallFormat`.
        told: what models are told of the tools, if their template does not tell it.
    """

    name: str
    marks: tuple[str, ...]
    spellings: Spellings
    without: tuple[str, ...] = ()
    arguments: ArgumentWriter | None = None
    thinking: Tags | None = None
    thought_ends: tuple[str, ...] = ()
    first_index: int = 0
    ids: str | None = None
    told: str = ""

    def is_of(self, text: str) -> bool:
        """Is a template of this format?"""
        return all(mark in text for mark in self.marks) and not any(mark in text for mark in self.without)

    def beside(self, format_: CallFormat) -> CallFormat:
        """Returns the format that was derived from a template, with these spellings for what the model writes.

        A template may write less than its model: no arrays, a number as a text, a string without escapes, or what
        belongs to the prompt. Then `render` writes as the model.
        """
        begun = [each.strip() for each in firsts((*self.spellings.prefix, *self.spellings.begin))]
        lead = format_.lead.strip()
        if not _tells(self.arguments, format_.arguments) or not (not begun or any(map(lead.startswith, begun))):
            own = self.alone()
            parts = {name: getattr(own, name) for name in ("lead", "body", "between", "closing", "gap", "arguments")}
            format_ = replace(format_, **parts)
        return replace(
            format_,
            name=self.name,
            known=self.spellings,
            reads=self.arguments or format_.reads,
            thinking=self.thinking or format_.thinking,
            thought_ends=self.thought_ends,
        )

    def alone(self) -> CallFormat:
        """Returns the format for a model whose template renders no calls."""
        each = self.spellings

        def text(spelling: Spelling) -> str:
            return "".join(map(str, canonical(spelling)))

        return CallFormat(
            lead=text((*each.prefix, *each.begin)),
            body=canonical(each.body),
            between=None if each.between is None else text(each.between),
            closing=text(each.closing),
            end="",
            arguments=self.arguments or JsonLayout(),
            content=Tags(text(each.opening), text(each.answered)),
            gap=None if each.apart is None else text((*each.apart, *each.begin)),
            thinking=self.thinking,
            ids=self.ids,
            first_index=self.first_index,
            told=True,
            name=self.name,
            known=each,
            thought_ends=self.thought_ends,
        )


def _tells(own: ArgumentWriter | None, written: ArgumentWriter) -> bool:
    """Does a template write arguments so that they can be read as the model's own?

    It does if values of all JSON types have a spelling, numbers are no texts in quotes, and strings have the escapes of
    the model's.
    """
    if not isinstance(own, KeyedArguments):
        return True
    formats = dict(written.formats) if isinstance(written, KeyedArguments) else {}
    strings = dict(own.formats)["string"].writer
    special = getattr(strings, "escaped", False) or (isinstance(strings, Raw) and strings.wrap is not None)
    if len(formats) < len(JSON_TYPES) or special:
        return written == own
    return not filled(formats["number"].before, {Slot.KEY: ""}).endswith(('"', "'"))
