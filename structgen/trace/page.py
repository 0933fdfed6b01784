"""A report as one HTML page that loads nothing, and in which no text of a model can act as markup.

The model's text is in the page twice: escaped, and as data of a script element in which `<` cannot occur. The page
forbids all loads, and by a hash all scripts but its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path

from structgen.errors import OptionError, quoted
from structgen.schema.references import value_at
from structgen.trace.drawings import along_text, distribution, percent, tree, with_axes
from structgen.trace.records import Cap, TracedToken, Undone
from structgen.trace.report import Report, places_of_undone
from structgen.trace.schema_lines import drawn

INLINE = 6
"""Undone texts that are shown at one place of the text; the list below has all."""
LISTED = 400
"""Undone texts that the list shows."""
BEFORE, INSTEAD = 4, 6
"""Tokens that the list shows of the text before an undone text, and of what is there instead."""
FINISHES = {
    "end": "ended by the model", "complete": "complete", "closed_by_budget": "closed by the budget",
    "capped": "cut short by a cap",
    "stop": "ended by a stop string", "length": "plain text, at its limit", "cut": "cut off within a call",
    "error": "failed",
}  # fmt: skip

INSPECTOR = (
    '<aside class="card inspector" aria-live="polite"><h2 id="i-title">Token</h2><p id="i-text"></p>'
    '<p id="i-place" class="note"></p><dl id="i-facts"></dl>'
    '<p id="i-wanted" class="note"></p><ol id="i-others"></ol></aside>'
)
"""The card that the script fills with the chosen token."""

MOST_UNKNOWN = 1e-3
"""A distribution is drawn if less probability than this is not told."""


@lru_cache(2)
def asset(name: str) -> str:
    """Returns a file that is part of the page."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def write(report: Report, path: Path) -> None:
    """Writes a page (`.html`), or data that `Report.read` takes (`.json`).

    Raises:
        OptionError: the name of the file has another ending.
    """
    kind = path.suffix.lower()
    if kind not in (".html", ".htm", ".json"):
        raise OptionError(f"report {quoted(str(path))}: expected a name that ends in .html or .json")
    path.write_text(report.model_dump_json() if kind == ".json" else page(report), encoding="utf-8")


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page with the style of all pages, which loads nothing and runs no script but the given one.

    Args:
        title: escaped, as the body.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy, body = f"{policy}; script-src 'sha256-{digest}'", f"{body}\n<script>{script}</script>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{asset("page.css")}{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def page(report: Report) -> str:
    left = _beside(report) + _undone_list(report) + _cap_list(report) + _plots(report)
    right, value = INSPECTOR if report.tokens else "", tree(report)
    right += f'<section class="card tree"><h2>Value</h2>{value}</section>' if value else ""
    columns = f'<div class="column">{left}</div>' + (f'<div class="column">{right}</div>' if right else "")
    grid = f'<div class="grid{"" if right else " single"}">{columns}</div>'
    body = f'{_header(report)}<main data-mode="chance">{_tiles(report)}{grid}{_behind(report)}</main>'
    data = f'<script type="application/json" id="data">{_data(report)}</script>'
    return document("structgen trace", f"{body}\n{data}", script=asset("page.js"))


def fragment(report: Report) -> str:
    """Returns the text token by token and what was rolled back, for a notebook: tooltips replace the script."""
    rows, style = _undone_list(report) + _cap_list(report), asset("page.css")
    for element in (
        ':root:not([data-theme="light"])',
        ":root",
        "body",
    ):  # a notebook's cell is the page
        style = style.replace(f"{element} {{", ":scope {")
    return (
        f'<div class="structgen-trace"><style>@scope {{{style}}}</style>'
        f'<main data-mode="chance">{_text_card(report, modes=False)}{rows}{_plots(report)}</main></div>'
    )


def _header(report: Report) -> str:
    state = "bad" if report.error else "warn" if report.caps else "good"
    told = FINISHES.get(report.finish, report.finish)
    problem = f'<p class="problem">{escape(report.error)}</p>' if report.error else ""
    return (
        '<header><div class="brand"><b>structgen</b> trace</div>'
        f'<span class="badge {state}">{escape(told)}</span>'
        '<button id="theme" type="button" aria-label="Switch between light and dark">◐</button></header>'
        f"{problem}"
    )


def _tiles(report: Report) -> str:
    usage = report.usage
    seconds = usage.prefill_seconds + usage.decode_seconds
    rate = f"{usage.completion_tokens / seconds:.0f} tokens a second" if seconds else ""
    tiles = [
        ("Tokens", f"{usage.completion_tokens}", f"{usage.prompt_tokens} in the prompt"),
        ("Forced", f"{usage.forced}", "without asking the model"),
        ("Drafted", f"{usage.drafted}", "read along with others"),
        ("Taken back", f"{usage.rolled_back}", f"in {usage.rollbacks} rollbacks"),
        ("Forward passes", f"{usage.forwards}", "of the whole batch"),
        ("Time", _seconds(seconds), rate),
    ]
    cells = "".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{escape(more)}</small></dd></div>" for name, value, more in tiles
    )
    return f'<dl class="tiles">{cells}</dl>'


def _text_card(report: Report, *, modes: bool = True) -> str:
    if not report.tokens:
        told = "Nothing is known of single tokens: generate with details=True."
        return (
            f'<section class="card"><h2>Text</h2><p class="note">{told}</p><pre>{escape(report.text)}</pre></section>'
        )
    choices = [("chance", "how unsure"), ("removed", "removed by the mask"), ("time", "time"), ("none", "nothing")]
    checked = {"chance": " checked"}
    buttons = "".join(
        f'<label><input type="radio" name="mode" value="{value}"{checked.get(value, "")}>{name}</label>'
        for value, name in choices
    )
    chosen = f'<fieldset class="modes"><legend>Colour shows</legend>{buttons}</fieldset>' if modes else ""
    caps = [cap for cap in report.caps if not _is_of_thinking(cap)]
    first = len(_thought(report)[0]), len(report.thinking_undone)
    answer = "".join(_tokens(report.tokens, report.undone, caps, first=first))
    return (
        f'<section class="card text"><h2>Text, token by token</h2>{chosen}{_legend(report)}'
        '<div class="tokens" role="listbox" aria-label="Tokens of the text; arrow keys move">'
        f"{_thinking(report)}{answer}</div></section>"
    )


def _beside(report: Report) -> str:
    """Returns the text, and next to it the schema."""
    text = _text_card(report)
    if not isinstance(report.json_schema, dict) or not report.tokens:
        return text
    schema = f'<section class="card schema"><h2>Schema</h2>{drawn(report.json_schema)}</section>'
    return f'<div class="beside">{text}{schema}</div>'


def _legend(report: Report) -> str:
    entries = ['<span><i class="key heat"></i>less sure</span>', '<span><i class="key forced">ab</i>forced</span>']
    entries.append('<span><i class="key drafted">ab</i>drafted</span>')
    if _undone(report):
        entries.append('<span><i class="key undone"><s>ab</s></i>taken back</span>')
    if report.caps:
        entries.append('<span><i class="key capped">✂</i>closed by a limit</span>')
    return f'<p class="legend" aria-label="Legend">{"".join(entries)}</p>'


def _thinking(report: Report) -> str:
    """Returns the span of the thinking between its folded tags; an empty text without thinking."""
    tokens, mark = _thought(report)
    if not tokens and not mark:
        return ""
    caps = [cap for cap in report.caps if _is_of_thinking(cap)]
    said = "".join(_tokens(tokens, report.thinking_undone))
    end = "".join(map(_cap_mark, caps)) or f'<span class="mark" title="{escape(mark)}">answer</span>'
    begin = '<span class="mark">thinking</span>'
    return f'<span class="thought" role="group" aria-label="Thinking">{begin} {said} {end}</span>'


def _thought(report: Report) -> tuple[list[TracedToken], str]:
    """Returns the tokens of the thinking without its closing tag, and the text of that tag."""
    length, offset, tokens = len((report.thinking or "").encode()), 0, report.thinking_tokens
    for index, token in enumerate(tokens):
        if offset >= length:
            return tokens[:index], "".join(each.text for each in tokens[index:])
        offset += len(token.text.encode())
    return tokens, ""


def _is_of_thinking(cap: Cap) -> bool:
    return cap.name.startswith("thinking.")


def _tokens(
    tokens: Sequence[TracedToken], undone: Sequence[Undone], caps: Sequence[Cap] = (), *,
    first: tuple[int, int] = (0, 0),
) -> Iterator[str]:  # fmt: skip
    """Yields the spans of the tokens, and between them what was rolled back and where a limit closed a value.

    Args:
        first: the number of the first token in the page, and of the first text that was rolled back.
    """
    slowest = max((token.seconds or 0.0 for token in tokens[1:]), default=0.0)
    places, offset, waiting = places_of_undone(undone, len(tokens)), 0, sorted(caps, key=lambda cap: cap.offset)
    for index, token in enumerate(tokens):
        yield from _undone_at(undone, places.get(index, []), first[1])
        while waiting and waiting[0].offset <= offset and index:
            yield _cap_mark(waiting.pop(0))
        offset += len(token.text.encode())
        yield _token(first[0] + index, token, slowest)
    yield from _undone_at(undone, places.get(len(tokens), []), first[1])
    yield from map(_cap_mark, waiting)


def _token(index: int, token: TracedToken, slowest: float) -> str:
    classes = " ".join(["t", *(["f"] if token.forced else []), *(["d"] if token.drafted else [])])
    unsure = 0.0 if token.chance is None else 1 - token.chance
    slow = min(1.0, (token.seconds or 0.0) / slowest) if slowest else 0.0
    style = f"--c:{unsure:.3f};--r:{token.removed or 0.0:.3f};--s:{slow:.3f}"
    return (
        f'<span class="{classes}" role="option" aria-selected="false" tabindex="{-1 if index else 0}" data-t="{index}" '
        f'style="{style}" title="{escape(_told(token))}">{_shown(token)}</span>'
    )


def _shown(token: TracedToken) -> str:
    if not token.text:
        return '<span class="chip">·</span>'
    return (
        escape(token.text).replace("\n", '<span class="chip">↵</span>\n').replace("\t", '<span class="chip">⇥</span>\t')
    )


def _told(token: TracedToken) -> str:
    """Returns the tooltip of a token."""
    if token.forced:
        return f"{token.pointer or 'the root'}: forced"
    removed = "" if token.removed is None else f", {percent(token.removed)} removed by the mask"
    return f"{token.pointer or 'the root'}: {percent(token.chance)} of what was allowed{removed}"


def _undone_at(undone: Sequence[Undone], indexes: list[int], first: int) -> Iterator[str]:
    for index in indexes[:INLINE]:
        yield (
            f'<span class="u" role="option" aria-selected="false" tabindex="-1" data-u="{first + index}" '
            f'title="{escape(undone[index].reason)}"><b>↺</b><s>{escape(_short(undone[index].text, 60))}</s></span>'
        )
    if len(indexes) > INLINE:
        yield f'<span class="more">+{len(indexes) - INLINE} more</span>'


def _cap_mark(cap: Cap) -> str:
    return f'<span class="k" title="{escape(_cap_told(cap))}">✂</span>'


def _cap_told(cap: Cap) -> str:
    wanted = f"; the model wanted “{cap.wanted}” next" if cap.wanted else ""
    return f"{cap.option} closed {cap.pointer or 'the text'} at byte {cap.offset}{wanted}"


def _undone(report: Report) -> list[Undone]:
    """Returns all texts that were rolled back, first those of the thinking."""
    return [*report.thinking_undone, *report.undone]


def _undone_list(report: Report) -> str:
    rows, every, around = [], _undone(report), _around_undone(report)
    if not every:
        return ""
    for index, undone in enumerate(every[:LISTED]):
        before, instead = around[index]
        who = f"validator, {escape(undone.pointer or 'the whole value')}" if undone.pointer is not None else "refused"
        rows.append(
            f'<li data-u="{index}"><samp>{escape(before)}</samp><code>{escape(_short(undone.text, 300))}</code>'
            f" <samp>→ {escape(instead)}</samp>"
            f'<p><span class="tag">{who}</span> {escape(undone.reason)}</p></li>'
        )
    more = len(every) - LISTED
    rest = f'<p class="note">and {more} more</p>' if more > 0 else ""
    return f'<section class="card back"><h2>What was taken back, and why</h2><ol>{"".join(rows)}</ol>{rest}</section>'


def _around_undone(report: Report) -> list[tuple[str, str]]:
    """Returns for each text that was rolled back the end of the text before it, and what is there instead."""
    around: dict[int, tuple[str, str]] = {}
    for first, tokens, undone in (
        (0, report.thinking_tokens, report.thinking_undone),
        (len(report.thinking_undone), report.tokens, report.undone),
    ):
        texts = [token.text for token in tokens]
        for place, indexes in places_of_undone(undone, len(tokens)).items():
            before, after = "".join(texts[max(0, place - BEFORE) : place]), "".join(texts[place : place + INSTEAD])
            around |= {first + index: (before, after or "(the end)") for index in indexes}
    return [around[index] for index in range(len(around))]


def _cap_list(report: Report) -> str:
    if not report.caps:
        return ""
    rows = "".join(f"<li>{escape(_cap_told(cap))}</li>" for cap in report.caps)
    return f'<section class="card caps"><h2>What a limit closed</h2><ul>{rows}</ul></section>'


def _plots(report: Report) -> str:
    tokens, figures, number = report.tokens, [], len(_thought(report)[0])
    if tokens:
        told = [f"{token.text}  {_told(token)}" for token in tokens]
        bars = along_text(
            [token.removed for token in tokens], 1.0, told, "Probability removed by the mask, by token", first=number
        )
        figures.append(_figure("Removed by the mask, along the text", with_axes(bars, "100%", len(tokens)), ""))
        times = [token.seconds for token in tokens]
        slowest = max((each for each in times[1:] if each is not None), default=0.0)
        if slowest:
            told = [f"{token.text}  {_seconds(token.seconds)}" for token in tokens]
            bars = along_text(times, slowest, told, "Time of each step, by token", first=number)
            first = _seconds(tokens[0].seconds or next((each for each in times if each is not None), 0.0))
            drawing = with_axes(bars, _seconds(slowest), len(tokens))
            figures.append(_figure("Time of each step", drawing, f"the first {first}"))
    for pointer, field in report.fields.items():
        if len(field.values) > 1 and field.unknown < MOST_UNKNOWN:
            bars = distribution(field.values, _said(report, pointer))
            figures.append(_figure(f"What could stand at {pointer or 'the root'}", bars, "", kind="enum"))
    return f'<section class="plots">{"".join(figures)}</section>' if figures else ""


def _figure(title: str, drawing: str, scale: str, kind: str = "") -> str:
    note = f'<span class="note">{escape(scale)}</span>' if scale else ""
    return f'<figure class="card {kind}"><figcaption>{escape(title)} {note}</figcaption>{drawing}</figure>'


def _said(report: Report, pointer: str) -> str:
    """Returns the JSON text of the value at a pointer, or the whole text if it is no JSON; empty without a value."""
    if not report.is_json:
        return report.text
    try:
        return json.dumps(value_at(json.loads(report.text), pointer), ensure_ascii=False)
    except (ValueError, LookupError, RecursionError):
        return ""


def _behind(report: Report) -> str:
    """Returns the prompt, folded; and the thinking if its tokens are unknown."""
    told = bool(report.tokens and report.thinking_tokens)
    parts = [("Prompt", report.prompt), ("Thinking", "" if told else report.thinking or "")]
    return "".join(
        f'<details class="card"><summary>{name}</summary><pre>{escape(text)}</pre></details>'
        for name, text in parts
        if text
    )


def _data(report: Report) -> str:
    """Returns the data of the script, as JSON without `<`, `>` and `&`."""
    tokens = [
        [
            token.id, token.text, pointer, token.forced, token.drafted, token.allowed, token.removed,
            token.probability, token.chance, token.seconds,
            [
                [
                    each.text, each.probability, each.allowed, each.id == token.id, str(each.why or ""),
                    each.why.rule if each.why else "",
                ]
                for each in token.alternatives
            ],
        ]
        for token, pointer in [
            *((token, None) for token in _thought(report)[0]), *((token, token.pointer) for token in report.tokens)
        ]
    ]  # fmt: skip
    undone = [[each.text, each.reason, each.pointer, each.count] for each in _undone(report)]
    told = json.dumps(
        {"tokens": tokens, "undone": undone, "parts": report.parts}
    )  # it has no NaN: what is unknown is null
    return told.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _short(text: str, maximum: int) -> str:
    return text if len(text) <= maximum else f"{text[: maximum - 20]} … {text[-18:]}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1000 * seconds:.1f} ms" if seconds >= 0.001 else f"{1e6 * seconds:.0f} µs"
