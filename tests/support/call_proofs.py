"""Hostile arguments in a call format: they are written, the mask takes them, and the reader reads them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from structgen.chat.call_format import CallFormat, WrittenCall
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.parser import TurnReader
from structgen.errors import CallSyntaxError, TokenRejected, UnsupportedSchema, excerpt
from structgen.masks import Grammar
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases

TEXTS = (
    "x", "", " x ", "a\nb", "\n", 'a"b', "it's", "a\\b", "\\n", "12", "true", "null", "None", "é日🙂", "a, b=c",
    "f(x)]", '{"a": [1]}', "</x>", "<x>", "a</b>\n</c>\n", "\t", "&lt;", "}}", '"}',
)  # fmt: skip
VALUES: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = cases("support/call_proofs", "VALUES", globals())
"""JSON type -> a schema, and values of it that a format may garble. To these come texts that the format itself
writes."""


class Proof(NamedTuple):
    """What the proof of a format has found.

    Attributes:
        lost: values that the format does not write, or that the mask refuses, by their JSON type.
        wrong: a value that is read back as another one, for a person to read; empty if there is none.
    """

    lost: dict[str, list[Any]]
    wrong: str


def proof(format_: CallFormat) -> Proof:
    """Writes hostile values of each JSON type, each as the argument of a call."""
    lost: dict[str, list[Any]] = {}
    for type_, (schema, values) in VALUES.items():
        members = {f"q{type_}": schema}
        tool: Tool[..., Any] = Tool.of({"name": "qtool", "parameters": {"type": "object", "properties": members}})
        try:
            grammar = _grammar(format_, tool)
        except UnsupportedSchema:
            lost[type_] = list(values)
            continue
        for value in [*values, *(_own_texts(format_) if type_ == "string" else ())]:
            arguments = {f"q{type_}": value}
            try:
                text = format_.render([WrittenCall(tool.name, arguments, format_.id_of(tool.name, 0) or "abcdefgh1")])
            except ValueError:
                lost.setdefault(type_, []).append(value)
                continue
            if not _takes(grammar, text):
                lost.setdefault(type_, []).append(value)
            elif (read := _read(format_, tool, text)) != json.dumps(arguments, sort_keys=True):
                return Proof(lost, excerpt(f"{value!r} is written as {text!r} and read as {read}"))
    return Proof(lost, "")


def _own_texts(format_: CallFormat) -> Iterator[str]:
    """Yields texts with the format's own tags: they may end a value too early."""
    written = format_.render([WrittenCall("qtool", {"qstring": "qvalue"}, format_.id_of("qtool", 0) or "abcdefgh1")])
    before, _, behind = written.partition("qvalue")
    for text in (behind, behind.strip(), before[-12:], format_.opening, format_.between or ""):
        yield f"a{text}b"
        yield text


def _grammar(format_: CallFormat, tool: Tool[..., Any]) -> Grammar:
    vocabulary = Vocabulary.from_tokens([*(bytes([byte]) for byte in range(256)), None], [256])
    rules = TurnRules((tool,), min_calls=1, max_calls=1, text=False, thought=False)
    return turn(format_, rules, vocabulary).compile(vocabulary)


def _takes(grammar: Grammar, text: str) -> bool:
    matcher = grammar.matcher()
    try:
        for byte in text.encode():
            matcher.advance(byte)
    except TokenRejected:
        return False
    return matcher.can_finish


def _read(format_: CallFormat, tool: Tool[..., Any], text: str) -> str:
    """Returns the arguments that the parser reads, or why it reads none."""
    reader = TurnReader(format_, {tool.name: tool.arguments_schema}, thought="closed")
    try:
        calls = reader.finish(reader.feed(reader.start, text)).calls
    except CallSyntaxError as error:
        return str(error)
    read = [json.loads(each.arguments) for each in calls]
    return json.dumps(read[0], sort_keys=True) if len(read) == 1 else f"{len(read)} calls"
