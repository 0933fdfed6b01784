"""The diagrams of the documentation, drawn from what really happens.

`python docs/diagrams.py` writes docs/images/*.svg. Colours and fonts come from the site's style sheet
(docs/assets/extra.css), so the drawings follow its light and dark scheme.
`tests/test_docs.py` checks that the files are what this script draws.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

import structgen as sg
from structgen.demo.tasks import Person
from structgen.testing import byte_vocabulary, scripted

IMAGES = Path(__file__).parent / "images"
CELL = 30


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "middle") -> str:
    """A line of text; `x`, `y` in pixels, of its anchor on the base line."""
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}>{escape(content)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """A rectangle with round corners."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" class="{kind}"/>'


def arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    """A straight arrow."""
    return f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="{kind}" marker-end="url(#head)"/>'


def drawing(width: float, height: float, title: str, parts: list[str]) -> str:
    """A whole SVG in the page: no blank lines, which would end the HTML in Markdown."""
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>'
    )
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
    return "\n".join(
        ['<div class="diagram">', frame, f"<title>{escape(title)}</title>", head, *parts, "</svg>", "</div>", ""]
    )


def pipeline() -> str:
    """From a schema and a tokenizer to a mask, and from logits to a token."""
    parts = []
    for x, y, name, what in (
        (10, 20, "schema", "type, pattern, words"),
        (10, 130, "tokenizer", "token id to bytes"),
        (200, 20, "automaton", "bytes in, position out"),
        (200, 130, "vocabulary", "all tokens as a trie"),
        (390, 75, "mask", "one bit for each token"),
        (580, 75, "choice", "sample, then advance"),
    ):
        parts += [box(x, y, 150, 56, "strong" if name == "mask" else "box"), text(x + 75, y + 25, name)]
        parts.append(text(x + 75, y + 43, what, "small"))
    parts += [arrow(160, 48, 199, 48), arrow(160, 158, 199, 158)]
    parts += [arrow(350, 48, 389, 92), arrow(350, 158, 389, 114), arrow(540, 103, 579, 103)]
    parts += [arrow(655, 30, 655, 74), text(655, 20, "logits of the model", "small")]
    parts.append('<path d="M655 131V215H275V190" class="line" marker-end="url(#head)"/>')
    parts.append(text(465, 208, "the chosen token's bytes advance the automaton", "small"))
    return drawing(740, 226, "How a mask is computed and used", parts)


def mask() -> str:
    """Which tokens may follow a text: each is walked byte by byte, until the automaton has no transition."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    prefix, tokens = '{"name": "Zoë', ['", "', '",\n', '"}', '": ', "42", '{"']
    matcher = sg.JsonSchema(schema).compile(byte_vocabulary()).matcher()
    for byte in prefix.encode():
        matcher.advance(byte)
    parts = [text(10, 22, f"after   {prefix}", "code", "start")]
    for row, token in enumerate(tokens):
        y, walk, alive = 40 + row * 40, matcher.fork(), True
        parts.append(text(120, y + 20, repr(token)[1:-1].replace("\\'", "'"), "code", "end"))
        for column, byte in enumerate(token.encode()):
            x = 150 + column * 62
            alive = alive and byte in walk.allowed_tokens()
            parts += [box(x, y, 40, CELL, "strong" if alive else "dead")]
            parts.append(text(x + 20, y + 20, repr(chr(byte))[1:-1].replace(" ", "·"), "code"))
            if column:
                parts.append(arrow(x - 21, y + 15, x - 2, y + 15, "live" if alive else "line"))
            if not alive:
                break
            walk.advance(byte)
        verdict = "allowed: its bit is set" if alive else "no transition; the trie's branch is skipped"
        parts.append(text(170 + 62 * len(token), y + 20, verdict, "small", "start"))
    return drawing(740, 40 + 40 * len(tokens) + 6, "Tokens that are allowed or forbidden after a text", parts)


def going_back() -> str:
    """A banned word: the text that was generated, its rollback, and the text that replaced it."""
    plan = sg.Regex("Let us (talk|listen|dance)[.]")
    run = sg.generate(scripted("Let us talk."), "x", plan, banned=["talk"], details=True)
    (step,) = run.trace
    parts, kept = [], run.text[: step.tokens]
    rows = [
        ("generated", kept + step.text, step.tokens),
        ("rolled back", step.text, 0),
        ("again", run.text, step.tokens),
    ]
    for row, (name, letters, same) in enumerate(rows):
        y = 20 + row * 56
        parts.append(text(120, y + 20, name, anchor="end"))
        for column, letter in enumerate(letters):
            x = 140 + (column + (step.tokens if row == 1 else 0)) * CELL
            kind = "dead" if row == 1 else ("box" if column < same else "strong")
            parts += [box(x + 1, y, CELL - 2, CELL, kind), text(x + CELL / 2, y + 20, letter.replace(" ", "·"), "code")]
    end = 140 + (step.tokens + len(step.text)) * CELL
    parts.append(
        f'<path d="M{end} 91C{end + 60} 91 {end + 60} 147 {end + 30} 147" class="line" marker-end="url(#head)"/>'
    )
    parts.append(text(end + 62, 124, step.reason, "small", "start"))
    return drawing(740, 186, "A banned word is rolled back, and another one is generated", parts)


def forced_text() -> str:
    """One answer of the demo model: tokens that it chose, and tokens that were forced."""
    model = sg.load("demo")
    prompt = "Extract the person: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
    run = sg.generate(model, prompt, Person, details=True)
    parts: list[str] = []
    x, y = 10.0, 16
    for token, logprob in zip(run.token_ids, run.logprobs, strict=True):
        letters = (model.vocabulary.token(token) or b"").decode()
        width = 8.0 * len(letters) + 10
        if x + width > 730:
            x, y = 10.0, y + 40
        parts += [box(x, y, width - 2, CELL, "box" if logprob != logprob else "strong")]
        parts.append(text(x + width / 2 - 1, y + 20, letters.replace(" ", "·"), "code"))
        x += width
    asked, y = sum(logprob == logprob for logprob in run.logprobs), y + 52
    parts += [box(10, y, 16, 16), text(34, y + 13, f"forced: {len(run.token_ids) - asked} tokens", "small", "start")]
    parts += [box(160, y, 16, 16, "strong"), text(184, y + 13, f"chosen by the model: {asked}", "small", "start")]
    parts.append(text(360, y + 13, f"{run.stats.forwards} forward passes, with drafts", "small", "start"))
    return drawing(740, y + 26, "Tokens of an answer that were forced, and tokens that were chosen", parts)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "pipeline": pipeline,
    "mask": mask,
    "going-back": going_back,
    "forced-text": forced_text,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
