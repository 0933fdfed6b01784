"""What the docs' comparison says of outlines and guidance, run: a small budget, and keywords of JSON Schema.

    python -m benchmarks peers outlines            # the bundled model, in transformers
    python -m benchmarks peers guidance FILE.gguf  # guidance 0.3 does not run transformers models of 5.24

Prints for each schema the text and whether it is valid, or the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema

from benchmarks.report import parser

PROMPT = "Extract the person as JSON: name, age, city.\nText: Ada Moreau, 36, lives in Lyon.\nJSON: "
DIGIT, SHORT = {"type": "integer", "minimum": 0, "maximum": 9}, {"minItems": 2, "maxItems": 2}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}},
    "required": ["name", "age", "city"], "additionalProperties": False,
}  # fmt: skip
SCHEMAS: dict[str, dict[str, Any]] = {
    "multipleOf": {"type": "integer", "multipleOf": 7},
    "uniqueItems": {"type": "array", "items": {"enum": ["a", "b"]}, **SHORT, "uniqueItems": True},
    "contains": {"type": "array", "items": DIGIT, **SHORT, "contains": {"const": 3}},
    "if": {
        "type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}}, "required": ["a", "b"],
        "if": {"properties": {"a": {"const": True}}}, "then": {"properties": {"b": {"const": 5}}},
        "additionalProperties": False,
    },
    "not": {"type": "string", "maxLength": 3, "not": {"const": "a"}},
    "dependentRequired": {
        "type": "object", "properties": {"a": DIGIT, "b": DIGIT}, "required": ["a"],
        "dependentRequired": {"a": ["b"]}, "additionalProperties": False,
    },
}  # fmt: skip

Write = Callable[[dict[str, Any], int], str]
"""From a schema and the most tokens to the text."""


def outlines() -> Write:
    """outlines on the bundled model."""
    import outlines as peer

    from structgen.demo import load_demo

    model = peer.from_transformers(*load_demo())

    def write(schema: dict[str, Any], tokens: int) -> str:
        generator = peer.Generator(model, peer.types.JsonSchema(json.dumps(schema)))
        return str(generator(PROMPT, max_new_tokens=tokens, do_sample=False))

    return write


def guidance(file: str) -> Write:
    """guidance on a GGUF file."""
    import guidance as peer

    model = peer.models.LlamaCpp(file, n_ctx=1024, verbose=False, echo=False)

    def write(schema: dict[str, Any], tokens: int) -> str:
        return str((model + PROMPT + peer.json("out", schema=schema, max_tokens=tokens, temperature=0))["out"])

    return write


def judged(write: Write, schema: dict[str, Any], tokens: int) -> str:
    """What comes of a schema."""
    try:
        text = write(schema, tokens)
    except Exception as error:  # whatever a peer raises is its answer
        return f"{type(error).__name__}: {error}"
    try:
        valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    except ValueError:
        return f"{text!r}: cut off"
    return f"{text!r}: {'valid' if valid else 'not valid'}"


def main() -> None:
    given = parser(__doc__)
    given.add_argument("peer", choices=["outlines", "guidance"])
    given.add_argument("file", nargs="?", help="of guidance: a GGUF file")
    options = given.parse_args()
    chosen = outlines() if options.peer == "outlines" else guidance(options.file)
    print("8 tokens:", judged(chosen, PERSON, 8))
    for name, keyword in SCHEMAS.items():
        print(f"{name}:", judged(chosen, keyword, 60))
