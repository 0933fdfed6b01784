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
WIDTH = 370
"""Pixels of a drawing: what a phone has beside its margins, so that nothing is scaled until it cannot be read."""


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


def drawing(height: float, title: str, parts: list[str]) -> str:
    """A whole SVG in the page: no blank lines, which would end the HTML in Markdown."""
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="head"/></marker></defs>'
    )
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">'
    return "\n".join(
        ['<div class="diagram">', frame, f"<title>{escape(title)}</title>", head, *parts, "</svg>", "</div>", ""]
    )


def pipeline() -> str:
    """From a schema and a tokenizer to a mask, and from logits to a token."""
    parts = []
    for x, y, name, what in (
        (10, 10, "schema", "type, pattern, words"),
        (200, 10, "tokenizer", "token id to bytes"),
        (10, 96, "automaton", "bytes in, position out"),
        (200, 96, "vocabulary", "all tokens as a trie"),
        (105, 182, "mask", "one bit for each token"),
        (105, 268, "choice", "sample, then advance"),
    ):
        parts += [box(x, y, 150, 56, "strong" if name == "mask" else "box"), text(x + 75, y + 25, name)]
        parts.append(text(x + 75, y + 43, what, "small"))
    parts += [arrow(85, 66, 85, 95), arrow(275, 66, 275, 95)]
    parts += [arrow(85, 152, 140, 181), arrow(275, 152, 220, 181), arrow(180, 238, 180, 267)]
    parts += [arrow(290, 296, 256, 296), text(324, 300, "logits", "small")]
    parts.append('<path d="M105 296H40V153" class="line" marker-end="url(#head)"/>')
    parts.append(text(10, 344, "The chosen token's bytes advance the automaton.", "small", "start"))
    return drawing(354, "How a mask is computed and used", parts)


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
        parts.append(text(52, y + 20, repr(token)[1:-1].replace("\\'", "'"), "code", "end"))
        for column, byte in enumerate(token.encode()):
            x = 64 + column * 50
            alive = alive and byte in walk.allowed_tokens()
            parts += [box(x, y, 30, CELL, "strong" if alive else "dead")]
            parts.append(text(x + 15, y + 20, repr(chr(byte))[1:-1].replace(" ", "·"), "code"))
            if column:
                parts.append(arrow(x - 19, y + 15, x - 2, y + 15, "live" if alive else "line"))
            if not alive:
                break
            walk.advance(byte)
        verdict = "allowed: bit set" if alive else "no transition"
        parts.append(text(264, y + 20, verdict, "small", "start"))
    return drawing(40 + 40 * len(tokens) + 6, "Tokens that are allowed or forbidden after a text", parts)


def going_back() -> str:
    """A banned word: the text that was generated, its rollback, and the text that replaced it."""
    plan = sg.Regex("Let us (talk|listen|dance)[.]")
    run = sg.generate(scripted("Let us talk."), "x", plan, banned=["talk"], details=True)
    (step,) = run.trace
    parts, kept, width = [], run.text[: step.tokens], 24
    rows = [
        ("generated", kept + step.text, step.tokens),
        (f"rolled back: {step.reason}", step.text, 0),
        ("generated again", run.text, step.tokens),
    ]
    for row, (name, letters, same) in enumerate(rows):
        y = 22 + row * 62
        parts.append(text(10, y - 6, name, "small", "start"))
        for column, letter in enumerate(letters):
            x = 10 + (column + (step.tokens if row == 1 else 0)) * width
            kind = "dead" if row == 1 else ("box" if column < same else "strong")
            parts += [
                box(x + 1, y, width - 2, CELL, kind),
                text(x + width / 2, y + 20, letter.replace(" ", "·"), "code"),
            ]
    return drawing(186, "A banned word is rolled back, and another one is generated", parts)


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
        if x + width > WIDTH - 8:
            x, y = 10.0, y + 40
        parts += [box(x, y, width - 2, CELL, "box" if logprob != logprob else "strong")]
        parts.append(text(x + width / 2 - 1, y + 20, letters.replace(" ", "·"), "code"))
        x += width
    asked, y = sum(logprob == logprob for logprob in run.logprobs), y + 52
    parts += [box(10, y, 16, 16), text(34, y + 13, f"forced: {len(run.token_ids) - asked} tokens", "small", "start")]
    parts += [box(160, y, 16, 16, "strong"), text(184, y + 13, f"chosen by the model: {asked}", "small", "start")]
    parts.append(text(10, y + 36, f"{run.stats.forwards} forward passes, with drafts", "small", "start"))
    return drawing(y + 46, "Tokens of an answer that were forced, and tokens that were chosen", parts)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "pipeline": pipeline,
    "mask": mask,
    "going-back": going_back,
    "forced-text": forced_text,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
