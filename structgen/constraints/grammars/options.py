"""The options of a rule in Lark's notation, `name[lazy, stop="."]: ...`, as llguidance has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from structgen.constraints.grammars import lexis
from structgen.constraints.grammars.cursor import Cursor
from structgen.constraints.grammars.rules import Expression, Ref, literal
from structgen.constraints.part_limits import part_limits
from structgen.errors import OptionError, quoted
from structgen.parts.parts import PartLimits
from structgen.regular.regex.python import parse_python

_OF_ANY_RULE = {"capture", "temperature"}
_KNOWN = ("capture", "lazy", "stop", "suffix", "stop_capture", "max_tokens", "temperature")


@dataclass(frozen=True)
class RuleOptions:
    """The options of one rule.

    Attributes:
        given: the options as they are written; an empty text where one has no value.
        cursor, at: the grammar and the place of the rule in it, for messages.
    """

    given: Mapping[str, str]
    cursor: Cursor
    at: int

    @staticmethod
    def read(text: str, cursor: Cursor, at: int) -> RuleOptions:
        """The options in brackets after a rule's name.

        Raises:
            OptionError: they are malformed, or one is unknown.
        """
        options, end = dict[str, str](), 0
        while end < len(text):
            match = lexis.ATTRIBUTE.match(text, end)
            if match is None:
                cursor.refuse(f"expected options as [lazy, stop=...], found {quoted(text[end:])}", at)
            options[match[1]] = match[2] or ""
            end = match.end()
        for name in options:
            if name == "stop_capture" and "suffix" not in options:
                cursor.refuse(f"the option {name}= of a rule is not supported without suffix=", at)
            if name not in _KNOWN:
                cursor.refuse(f"unknown option {quoted(name)}: {', '.join(_KNOWN)} are known", at)
        return RuleOptions(options, cursor, at)

    @property
    def of_terminal(self) -> set[str]:
        """The options that only a rule of one terminal has."""
        return self.given.keys() - _OF_ANY_RULE

    def text(self, name: str) -> str:
        """An option without its quotes."""
        return self.given[name].strip('"')

    def limits(self) -> PartLimits | None:
        """The limits of the rule's tokens; None for none."""
        given = {name: self.given[name] for name in ("max_tokens", "temperature") if name in self.given}
        try:
            return part_limits(**{name: json.loads(text) for name, text in given.items()})
        except (OptionError, ValueError) as error:
            self.cursor.refuse(str(error) if isinstance(error, OptionError) else f"{given}: expected numbers", self.at)

    def stop(self, name: str) -> Expression | None:
        """The text, pattern or terminal that `stop=` or `suffix=` names; None for none."""
        text = self.given.get(name, '""')
        if text == '""':
            return None
        match = lexis.TEXT.fullmatch(text)
        if match:
            return literal(unescaped(self.cursor, match[1], self.at))
        return parse_python(text[1 : text.rindex("/")]) if lexis.PATTERN.fullmatch(text) else Ref(text)


def unescaped(cursor: Cursor, text: str, at: int) -> str:
    """A text between quotes, without its escapes.

    Raises:
        OptionError: an escape is none.
    """
    try:
        return lexis.unescaped(text)
    except ValueError:
        cursor.refuse(f"the text {quoted(text)} has an escape that is none", at)
