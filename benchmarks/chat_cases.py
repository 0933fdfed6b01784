"""How many texts of real model turns the call formats read: the mask takes them, the parser gives their calls.

    python -m benchmarks chat_cases [--file NAME] [--failures]

Each case is a text that a model wrote, with the calls, the content and the reasoning in it. A case is right if the
format of one of its templates reads them, whole and in pieces, and if the masks of a turn take the text, with control
tokens as tokens and as characters. How the prompt leaves a thought is not recorded: all three ways are tried.
"""

from __future__ import annotations

import random
import re
import tarfile
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.report import DATA, parser, read_rows
from structgen.chat import CallFormat, call_format
from structgen.errors import StructgenError
from structgen.testing import mask_refuses_at, read_turn

FILES = "chat-cases-dev.jsonl.xz", "chat-cases-dev-2.jsonl.xz"
CONTROL = re.compile(r"<\|[^<>|\s]*\|>|<｜[^<>\s]*｜>|</?(?:think|tool_call|tool_calls)>|\[[A-Z_]+\]")
"""Tags that are tokens in most vocabularies."""


@cache
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


@cache
def format_of(name: str) -> CallFormat:
    """The format of a template of the archives, or the known format of that name."""
    return call_format(templates().get(name, name))


def fault(format_: CallFormat, case: dict[str, Any], thought: Any) -> str | None:
    """Why a case is wrong; None if it is right."""
    text, tools = case["text"], case["tools"]
    seeded = random.Random(case["id"])
    pieces = [sorted(seeded.sample(range(len(text)), 5)) for _ in range(3) if text[5:]]
    whole, *others = [read_turn(format_, tools, text, cuts, thought) for cuts in ([], range(1, len(text)), *pieces)]
    if any(each != whole for each in others):
        return "the parser reads it differently in pieces"
    if [[name, arguments] for name, arguments in whole.calls] != case["calls"]:
        return f"the parser reads calls {whole.calls}"
    for found, wanted in ((whole.content, case["content"]), (whole.reasoning, case["reasoning"])):
        if found.strip() != wanted.strip():
            return f"the parser reads {found!r} instead of {wanted!r}"
    for special in ([], CONTROL.findall(text)):
        offset = mask_refuses_at(format_, tools, text, special)
        if offset is not None:
            read = text.encode()[:offset].decode(errors="replace")
            return f"the mask refuses {text[len(read) :][:12]!r} after {read[-40:]!r} ({len(special)} control tokens)"
    return None


def judged(case: dict[str, Any]) -> str | None:
    """The first reason why a case is wrong, with each of its templates and ways to think; None if one is right."""
    reasons = []
    for name in case["templates"] if "templates" in case else [case["template"]]:
        for thought in (None, "closed", "open"):
            try:
                why = fault(format_of(name), case, thought)
            except StructgenError as error:
                why = f"{type(error).__name__}: {error}"
            if why is None:
                return None
            reasons.append(f"{name}, {thought}: {why}")
    return reasons[0]


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--file", nargs="*", default=FILES)
    given.add_argument("--failures", action="store_true", help="print all failures, not the first of each template")
    options = given.parse_args()
    for file in options.file:
        reasons = defaultdict[str, list[str]](list)
        counts: defaultdict[str, int] = defaultdict(int)
        for case in read_rows(DATA / file):
            name = case.get("family", case.get("template"))
            counts[name] += 1
            why = judged(case)
            if why is not None:
                reasons[name].append(f"{case['id']} {why[:300]}")
        for name, total in sorted(counts.items()):
            print(f"{name:52} {total - len(reasons[name]):3} of {total:3}")
            for reason in reasons[name][: None if options.failures else 1]:
                print("    " + reason)
        print(f"{file:52} {sum(counts.values()) - sum(map(len, reasons.values())):3} of {sum(counts.values()):3}\n")
