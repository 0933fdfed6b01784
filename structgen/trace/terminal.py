"""A report in a terminal: the text token by token, what was rolled back, the value with its certainty."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text
from rich.tree import Tree

from structgen.console import SafeConsole
from structgen.json_text.pointers import pointer_of
from structgen.trace.drawings import highest_in_columns, percent
from structgen.trace.records import TracedToken, losses_of
from structgen.trace.report import Report, places_of_undone

UNSURE = ((0.9, ""), (0.5, "yellow"), (0.0, "bold yellow"))
"""The lowest chance of a token -> its style."""
BLOCKS = " ▁▂▃▄▅▆▇█"
"""Bars in a line of text, by height."""
SPARK = 100
"""The largest number of bars below the text."""
MAX_SHOWN = 20
"""The largest number of undone texts, and of members of a container, that are shown."""


def show(report: Report, console: Console | None = None) -> None:
    """Prints a report in colours, by default on the standard output."""
    (console or SafeConsole(file=sys.stdout)).print(view(report))


def view(report: Report) -> RenderableType:
    """Returns a report as rich prints it."""
    usage = report.usage
    seconds = usage.prefill_seconds + usage.decode_seconds
    counts = [
        f"{usage.completion_tokens} tokens", f"{usage.forced} forced", f"{usage.drafted} drafted",
        f"{usage.rolled_back} taken back", f"{usage.forwards} forward passes", f"{seconds:.2f} s",
    ]  # fmt: skip
    parts: list[RenderableType] = [Text(f"{report.thinking}\n", "dim italic")] if report.thinking else []
    parts.append(_text(report))
    if report.tokens:
        parts.append(Text.assemble(("\nremoved by the mask  ", "dim"), (_spark(report), "cyan")))
    legend = Text.assemble(
        ("forced", "dim underline"), "  ", ("drafted", "cyan"), "  ", ("less sure", "bold yellow"), "  ",
        ("taken back", "red strike"), style="dim",
    )  # fmt: skip
    panel = Panel(Group(*parts), title=f"structgen: {report.finish}", subtitle=legend, title_align="left")
    error = [Text(report.error, "red")] if report.error else []
    more = [*error, *_undone(report), *_losses(report), *_tree(report)]
    return Group(panel, *more, Text(" · ".join(counts), "dim"))


def _text(report: Report) -> Text:
    if not report.tokens:
        return Text(report.text)
    text, places = Text(), places_of_undone(report.undone, len(report.tokens))
    for index, token in enumerate(report.tokens):
        _add_undone(text, report, places.get(index, []))
        text.append(token.text, _style(token))
    _add_undone(text, report, places.get(len(report.tokens), []))
    return text


def _style(token: TracedToken) -> str:
    if token.forced:
        return "dim underline"
    unsure = next(style for least, style in UNSURE if (1.0 if token.chance is None else token.chance) >= least)
    return unsure or ("cyan" if token.drafted else "")


def _add_undone(text: Text, report: Report, indexes: list[int]) -> None:
    for index in indexes[:3]:
        text.append(f"⟲{report.undone[index].text}", "red strike")
    if len(indexes) > 3:
        text.append(f"⟲ {len(indexes) - 3} more", "red")


def _spark(report: Report) -> str:
    heights = [token.removed for token in report.tokens]
    highest = [0.0 if index is None else heights[index] or 0.0 for index in highest_in_columns(heights, SPARK)]
    return "".join(BLOCKS[min(8, round(8 * height))] for height in highest)


def _undone(report: Report) -> Iterator[RenderableType]:
    if not report.undone:
        return
    rows = Text("taken back\n", "bold")
    for undone in report.undone[:MAX_SHOWN]:
        place = "" if undone.pointer is None else f"{undone.pointer or 'the whole value'}: "
        rows.append("  ")
        rows.append(undone.text, "red strike")
        rows.append(f"  {place}{undone.reason}\n", "dim")
    if len(report.undone) > MAX_SHOWN:
        rows.append(f"  {len(report.undone) - MAX_SHOWN} more\n", "dim")
    yield rows


def _losses(report: Report) -> Iterator[RenderableType]:
    losses = losses_of(report.tokens, report.caps)
    if losses:
        told = [f"  {loss}\n" for loss in losses[:MAX_SHOWN]]
        more = [f"  {len(losses) - MAX_SHOWN} more\n"] if len(losses) > MAX_SHOWN else []
        yield Text.assemble(("refused by the mask or a limit\n", "bold"), ("".join([*told, *more]), "yellow"))


def _tree(report: Report) -> Iterator[RenderableType]:
    if report.is_json and report.fields:
        with suppress(ValueError, RecursionError):  # a text that has failed
            root = Tree(Text("value", "bold"))
            _grow(root, json.loads(report.text), "", report)
            yield root


def _grow(tree: Tree, value: Any, pointer: str, report: Report) -> None:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for number, (key, member) in enumerate(members):
        if number == MAX_SHOWN:
            tree.add(Text(f"{len(value) - MAX_SHOWN} more", "dim"))
            return
        place = pointer + pointer_of((key,))
        field = report.fields.get(place)
        sure = "" if field is None else f"  {percent(field.probability)}"
        if isinstance(member, (dict, list)) and member and place.count("/") < MAX_SHOWN:
            _grow(tree.add(Text.assemble(str(key), (sure, "dim"))), member, place, report)
        else:
            tree.add(Text.assemble(f"{key}: ", (json.dumps(member, ensure_ascii=False), "green"), (sure, "dim")))
