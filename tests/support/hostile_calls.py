"""Do mask and parser agree? Calls with hostile arguments through every chat template: render, mask, parser.

A call is written by `CallFormat.render`. If the mask takes its text, the parser must read the same call from it; a text
that the mask refuses is counted as refused, and one that another value has as well (`12`, where "12" has no quotes and
a number is allowed) is counted apart. A walk is a text that a random model writes under the mask, with a taste
for quotes, brackets and closers: the parser must read calls whose arguments satisfy the tool's schema.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema

from benchmarks.chat_cases import CONTROL
from structgen.chat import CallFormat, call_format
from structgen.chat.call_format import WrittenCall
from structgen.chat.calls_constraint import Turn, TurnRules, turn
from structgen.chat.parser import CallEnded, TurnReader
from structgen.endings.closing import Closing
from structgen.errors import StructgenError, TokenRejected
from structgen.guards import Veto
from structgen.masks import Grammar
from structgen.testing import byte_vocabulary
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary
from tests.support.tables import cases

TYPES: dict[str, Any] = cases("support/hostile_calls", "TYPES")
PIECES = cases("support/hostile_calls", "PIECES", globals())


def value_of(kind: str, draw: random.Random) -> Any:
    def text() -> str:
        return "".join(draw.choice(PIECES) for _ in range(draw.choice([0, 1, 1, 2, 3, 5])))

    if kind == "unit":
        return draw.choice(TYPES["unit"]["enum"])
    choices: dict[str, Any] = {
        "text": text, "maybe": lambda: draw.choice([None, text(), "null"]),
        "either": lambda: draw.choice([text(), "12", draw.randint(-99, 99)]),
        "count": lambda: draw.randint(-(10**9), 10**9),
        "share": lambda: draw.choice([0.5, -1.25, 3, 1e30, -0.0]), "flag": lambda: draw.random() < 0.5,
        "items": lambda: [text() for _ in range(draw.randint(0, 3))],
        "options": lambda: {
            name: each for name, each in (("a", text()), ("b", draw.randint(0, 9))) if draw.random() < 0.7
        },
    }  # fmt: skip
    return choices[kind]()


def tools() -> list[Tool[..., Any]]:
    """One tool of all types, one of texts, and one without arguments."""
    properties = [TYPES, {"text": TYPES["text"], "note": TYPES["text"]}, {}]
    return [
        Tool.of({"name": name, "description": name, "parameters": {"type": "object", "properties": each}})
        for name, each in zip(("every", "every_text", "ping"), properties, strict=True)
    ]


def same(one: Any, other: Any) -> bool:
    """Are two JSON values equal, booleans and numbers apart?"""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True) or (
        one == other and not any(isinstance(each, bool) for each in (one, other))
    )


class Judge:
    """One template's format: what its mask takes, and what its parser reads."""

    def __init__(self, source: str) -> None:
        self.format: CallFormat = call_format(source)
        self.tools = tools()
        self._rules = TurnRules(tuple(self.tools), min_calls=1, max_calls=None, text=False, thought=False)
        self._grammars: dict[tuple[str, ...], tuple[Vocabulary, Grammar]] = {}

    def grammar(self, text: str, *, control: bool) -> tuple[Vocabulary, Grammar, list[int]]:
        whole = "".join(str(piece) for piece in vars(self.format).values())
        key = tuple(sorted(set(CONTROL.findall(whole)))) if control else ()
        if key not in self._grammars:
            vocabulary = byte_vocabulary(special=key)
            self._grammars[key] = vocabulary, turn(self.format, self._rules, vocabulary).compile(vocabulary)
        vocabulary, grammar = self._grammars[key]
        return vocabulary, grammar, ids_of(text, vocabulary)

    def takes(self, text: str, *, control: bool) -> bool:
        _, grammar, ids = self.grammar(text, control=control)
        matcher = grammar.matcher()
        try:
            for token in ids:
                matcher.advance(token)
        except TokenRejected:
            return False
        return matcher.can_finish

    def reads(self, text: str) -> list[CallEnded]:
        reader = TurnReader(self.format, {tool.name: tool.arguments_schema for tool in self.tools}, thought="closed")
        return reader.finish(reader.feed(reader.start, text)).calls

    def walk(self, draw: random.Random) -> str:
        """Returns a text that a random model writes under the mask."""
        vocabulary, grammar, _ = self.grammar("", control=False)
        matcher, closing = grammar.matcher(), Closing.of(grammar)
        said = bytearray()
        for _ in range(draw.randint(40, 400)):
            piece = draw.choice(PIECES).encode()
            forced = matcher.forced_tokens()
            for token in forced or piece:
                if token in vocabulary.end_ids:
                    return said.decode(errors="replace")
                try:
                    matcher.advance(token)
                except TokenRejected:
                    allowed = [i for i in range(256) if matcher.mask()[i // 32] >> (i % 32) & 1]
                    plain = [i for i in allowed if 32 <= i < 127] or allowed
                    if not plain:
                        return said.decode(errors="replace")
                    token = draw.choice(plain)
                    matcher.advance(token)
                said.append(token)
        end = closing.tokens(matcher) or []
        said += bytes(token for token in end if token < 256)
        return said.decode(errors="replace")


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    """Returns a text in bytes, and special tokens where it has their names."""
    ids: list[int] = []
    names = sorted(vocabulary.special_names, key=len, reverse=True)
    while text:
        name = next((each for each in names if text.startswith(each)), "")
        ids += [vocabulary.special_names[name]] if name else text[0].encode()
        text = text[len(name) or 1 :]
    return ids


def call_veto(planned: Turn, tokens: list[int], vocabulary: Vocabulary) -> Veto | None:
    """Returns the veto of a turn's judge against a text; None without one."""
    reading = planned.reading(vocabulary, ())
    state = reading.start(())
    for token in tokens:
        state = reading.feed(state, token, vocabulary.token(token))
        if state.judged.veto is not None:
            return state.judged.veto
    return None


def written(judge: Judge, draw: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Yields the outcome of each call, and what is wrong."""
    for _ in range(count):
        tool = draw.choice(["every", "every", "every_text", "ping"])
        kinds = list(TYPES) if tool == "every" else ["text", "note"] if tool == "every_text" else []
        kept = [kind for kind in kinds if draw.random() < 0.4]
        draw.shuffle(kept)
        arguments = {kind: value_of(kind if kind in TYPES else "text", draw) for kind in kept}
        try:
            text = judge.format.render([WrittenCall(tool, arguments, judge.format.id_of(tool, 0) or "abcdefgh1")])
        except ValueError as refusal:
            yield "refused by the renderer", str(refusal)
            continue
        taken = [judge.takes(text, control=control) for control in (False, True)]
        if not any(taken):
            yield "refused by the mask", text
            continue
        try:
            read = judge.reads(text)
        except StructgenError as error:
            yield "DISAGREE", f"{error}: {text!r}"
            continue
        right = len(read) == 1 and read[0].name == tool
        got = json.loads(read[0].arguments) if right else None
        told = f"{arguments} as {text!r}: {[each.arguments for each in read]}"
        if right and same(got, arguments):
            yield "agree", told
        elif right and alike(got, arguments):
            yield "another value has this text", told  # as "12" and 12, where a string has no quotes
        else:
            yield "DISAGREE", told


def alike(read: dict[str, Any], given: dict[str, Any]) -> bool:
    """Are the arguments that differ strings that look like a value of another type of the argument?"""
    return read.keys() == given.keys() and all(
        same(read[name], value)
        or (isinstance(value, str) and not isinstance(read[name], str) and value.strip() in spelled(read[name]))
        for name, value in given.items()
    )


def spelled(value: Any) -> tuple[str, ...]:
    return json.dumps(value), str(value), str(value).lower()


def walked(judge: Judge, draw: random.Random, count: int) -> Iterator[tuple[str, str]]:
    schemas = {tool.name: tool.arguments_schema for tool in judge.tools}
    for _ in range(count):
        text = judge.walk(draw)
        try:
            read = judge.reads(text)
            for call in read:
                jsonschema.validate(json.loads(call.arguments), schemas[call.name])
        except (StructgenError, ValueError, jsonschema.ValidationError) as error:
            yield "DISAGREE", f"walk: {str(error).splitlines()[0]}: {text!r}"
            continue
        yield ("walked" if read else "DISAGREE"), f"walk without a call: {text!r}"
