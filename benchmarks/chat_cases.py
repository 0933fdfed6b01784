"""How many texts of real model turns the call formats read: the mask takes them, the parser gives their calls.

    STRUCTGEN_DATA=../shared/data python benchmarks/chat_cases.py [--failures]

Each case is a text that a model wrote, with the calls, the content and the reasoning that are in it. A case is right if
the format of its template (`call_format`) reads them, whole and in pieces, and if the mask of a turn takes the text. A
thought before the turn is given in two ways: with the text, and cut off as the decoding loop does.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import re
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from structgen.chat import CallFormat, call_format
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.parser import CallEnded, TextPiece, TurnParser
from structgen.errors import StructgenError, TokenRejected
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

DATA = Path(os.environ.get("STRUCTGEN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CONTROL = re.compile(r"<\|[^<>|\s]*\|>|<｜[^<>\s]*｜>|</?(?:think|tool_call|tool_calls)>|\[[A-Z_]+\]")
"""Tags that are tokens in most vocabularies."""


def templates() -> dict[str, str]:
    """The source of each template of both archives, by its name."""
    sources = {}
    for archive in ("chat-templates.tar.xz", "chat-templates-more.tar.xz"):
        with tarfile.open(DATA / archive) as packed:
            for entry in packed:
                file = packed.extractfile(entry)
                if file is not None and entry.name.endswith(".jinja"):
                    sources[Path(entry.name).stem] = file.read().decode()
    return sources


def cases(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def vocabulary_of(text: str, *, control: bool) -> tuple[Vocabulary, list[int]]:
    """Returns a vocabulary of bytes, with the control tokens of a text if wanted, and the text in its tokens."""
    names = sorted(set(CONTROL.findall(text))) if control else []
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    ids = {name: 257 + place for place, name in enumerate(names)}
    vocabulary = Vocabulary.from_tokens([*tokens, None, *[None] * len(names)], [256], names=ids)
    pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return vocabulary, [t for n, piece in enumerate(pieces) for t in ([ids[piece]] if n % 2 else piece.encode())]


def refusal(format_: CallFormat, tools: list[Tool[..., Any]], text: str, *, control: bool, calls: int) -> str | None:
    """Returns why the mask refuses a text; None if it takes it."""
    vocabulary, ids = vocabulary_of(text, control=control)
    rules = TurnRules(tuple(tools), min_calls=0, max_calls=None)
    matcher = turn(format_, rules, vocabulary).compile(vocabulary).matcher()
    read = b""
    for token in ids:
        try:
            matcher.advance(token)
        except TokenRejected:
            return f"mask refuses after {read[-40:].decode(errors='replace')!r}"
        read += bytes([token]) if token < 256 else b"#"
    return None if matcher.can_finish else f"mask goes on after {read[-40:].decode(errors='replace')!r}"


def reading(format_: CallFormat, tools: list[Tool[..., Any]], text: str, cuts: list[int]) -> tuple[Any, ...]:
    """Returns the calls, the text and the thought that the parser reads."""
    parser = TurnParser(format_, {tool.name: tool.arguments_schema for tool in tools})
    events: list[Any] = []
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        events += parser.feed(text[begin:end])
    events += parser.finish()
    calls = [[each.name, json.loads(each.arguments)] for each in events if isinstance(each, CallEnded)]
    said = "".join(each.text for each in events if isinstance(each, TextPiece))
    thought = "".join(each.text for each in events if type(each).__name__ == "ThoughtPiece")
    return calls, said, thought


def without_thought(format_: CallFormat, text: str) -> str:
    """Returns the text behind the thought, where the format's tags end one."""
    closing = format_.thinking.closing.strip() if format_.thinking else ""
    if not closing or closing not in text:
        return text
    return text.partition(closing)[2].removeprefix(format_.thinking.closing.partition(closing)[2])


def judged(format_: CallFormat, case: dict[str, Any], *, cut: bool) -> str | None:
    """Returns why a case is wrong; None if it is right."""
    tools = [Tool.of(each) for each in case["tools"]]
    text = without_thought(format_, case["text"]) if cut else case["text"]
    seeded = random.Random(case["id"])
    splits = [
        [],
        list(range(1, len(text))),
        *[sorted(seeded.sample(range(len(text)), 5)) for _ in range(3) if text[5:]],
    ]
    readings = [reading(format_, tools, text, cuts) for cuts in splits]
    calls, said, thought = readings[0]
    if calls != case["calls"]:
        return f"parser reads calls {calls}"
    if any(each != readings[0] for each in readings):
        return "parser reads otherwise in pieces"
    if said.strip() != case["content"].strip():
        return f"parser reads content {said!r}"
    if not cut and thought.strip() != case["reasoning"].strip():
        return f"parser reads thought {thought!r}"
    for control in (False, True):
        why = refusal(format_, tools, text, control=control, calls=len(calls))
        if why is not None:
            return why + (" (control tokens)" if control else "")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, default=DATA / "chat-cases-dev.jsonl.xz")
    parser.add_argument("--failures", action="store_true", help="print the reason of each failure, not of the first")
    given = parser.parse_args()
    sources, counts = templates(), defaultdict[str, list[int]](lambda: [0, 0, 0])
    reasons = defaultdict[str, list[str]](list)
    for case in cases(given.file):
        counted = counts[case["template"]]
        counted[0] += 1
        for way, cut in enumerate((True, False), 1):
            try:
                why = judged(call_format(sources[case["template"]]), case, cut=cut)
            except StructgenError as error:
                why = f"{type(error).__name__}: {error}"
            counted[way] += why is None
            if why is not None:
                reasons[case["template"]].append(f"{case['id']} {'cut' if cut else 'whole'}: {why[:150]}")
    for name, (total, cut_, whole) in sorted(counts.items()):
        print(f"{name:52} {cut_:3} {whole:3} of {total:3}")
        for reason in reasons[name] if given.failures else reasons[name][:1]:
            print("    " + reason)
    total, cut_, whole = (sum(each[place] for each in counts.values()) for place in range(3))
    print(f"{'all':52} {cut_:3} {whole:3} of {total:3}    (without and with their thoughts)")


if __name__ == "__main__":
    main()
