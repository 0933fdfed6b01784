"""`Quote`: a string that is a verbatim piece of a source, as a type's annotation and as a constraint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from structgen.arguments import is_whole, named_options, require
from structgen.automaton.machine import Automaton
from structgen.automaton.writing.quoted import write_quotation
from structgen.constraints.basic import Uncompiled
from structgen.errors import OptionError, quoted
from structgen.masks.grammar import Grammar
from structgen.memory import bounded
from structgen.parts.parts import Plan, Quoted
from structgen.regular.quotes import MissingSource, Quotation, Source, quotation_of
from structgen.vocabulary import Vocabulary
from structgen.waiting import waiting

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

KEYWORD = "x-quote"


@named_options
@dataclass(frozen=True)
class Quote(Uncompiled):
    """A string that is a verbatim piece of a source, and not empty.

        class Person(BaseModel):
            name: Annotated[str, Quote(whole="words")]

        run = generate(model, prompt, Person, source=letter, details=True)
        run.fields["/name"].source.start

    As `schema=` itself it is plain text.

    Attributes:
        source: a text, a list of texts, or a dict of texts by their names. None: the `source=` of the call, or else the
            user's last message.
        whole: "words", "lines" or "sentences": a quote begins and ends where one does, and may have several;
            "characters": anywhere. Scripts without blanks between words are cut anywhere.
        max_length: the longest quote in characters.
        spaces: "exact"; "single": a run of white space in the source, line breaks too, is written as one blank.
    """

    source: Any = None
    whole: str = "characters"
    max_length: int | None = None
    spaces: str = "exact"

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "source", Source.of(self.source))
        require(self.max_length is None or is_whole(self.max_length, 1), "max_length", self.max_length, "at least 1")
        self.quotation  # noqa: B018 - raises where an option is wrong

    @property
    def quotation(self) -> Quotation:
        """The set of its texts, but for their length."""
        return quotation_of({"whole": self.whole, "spaces": self.spaces, "source": self.source})

    @waiting("compiling the constraint")
    @bounded
    def compile(self, vocabulary: Vocabulary) -> Grammar:
        """The grammar."""
        automaton = Automaton()
        automaton.start = write_quotation(automaton, self.quotation, close=0, quoted=False, maximum=self.max_length)
        if not automaton.start:
            raise OptionError(f"source={quoted(self.source)}: there is nothing to quote in it (whole={self.whole!r})")
        return Grammar(automaton, vocabulary)

    def plan(self) -> Plan:
        """The quotes as a part of a composition.

        Raises:
            MissingSource: there is no source.
        """
        if self.source is None:
            raise MissingSource
        return Quoted(self.quotation, self.max_length)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> Any:
        """That of the annotated type; a quote is no type by itself."""
        if source is cls:
            raise TypeError("Quote is not a type: write Annotated[str, Quote()], with all of its options in brackets")
        return handler(source)

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of the annotated type, with the keyword."""
        described = dict(handler(core))
        rule = {"whole": self.whole, "spaces": self.spaces, "source": self.source and dict(self.source.documents)}
        neutral = {"whole": "characters", "spaces": "exact", "source": None}
        described[KEYWORD] = {name: value for name, value in rule.items() if value != neutral[name]}
        if self.max_length is not None:
            described["maxLength"] = min(self.max_length, described.get("maxLength", self.max_length))
        return described
