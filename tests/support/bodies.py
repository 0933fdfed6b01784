"""Malformed bodies of requests, made from the server's own models of requests by mutation."""

from __future__ import annotations

import json
import random
from typing import Any

from pydantic import BaseModel

from structgen.server.messages_wire import MessagesRequest
from structgen.server.responses_wire import ResponsesRequest
from structgen.server.wire import ChatRequest, Extras, SchemaFormat, TextRequest
from tests.support.tables import cases

ROUTES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": TextRequest,
    "/v1/responses": ResponsesRequest,
    "/v1/messages": MessagesRequest,
}
SCHEMAS: list[Any] = cases("support/bodies", "SCHEMAS")
TOOL = cases("support/bodies", "TOOL")
"""The shape of a tool; the server's own models read any value there."""
TEXTS = [
    "", "x", "yes", "a" * 3000, "\x00", "\ud83d\ude00", "\u202e\u0301", "<|im_end|>", "{{ 1/0 }}", "../../etc/passwd",
    "[a-z]{3}", "(", "start: \"a\"", "%import .x.Y\nstart: Y", "user", "assistant", "tool", "function", "json_schema",
    "image_url", "auto", "none", "-1", "1e999", "null", "1" * 5000,
]  # fmt: skip
NUMBERS = [
    0, 1, 2, -1, 3, 16, 17, 255, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, -0.0, 1e-300, 1e-320, 1e308,
    -1e308, 2.5, 1e16,
]  # fmt: skip
NAN = "@NaN@"


def junk(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value, often an odd one."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind < 5:
        return rng.choice([None, rng.choice([True, False]), rng.choice(NUMBERS), rng.choice(TEXTS), NAN])
    if kind == 5:
        return rng.choice(SCHEMAS)
    if kind == 6:
        return [junk(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice([*TEXTS, "type", "role", "content", "name"]): junk(rng, depth + 1) for _ in range(3)}


def instance(schema: Any, defs: Any, rng: random.Random, depth: int = 0) -> Any:
    """A value that mostly fits a schema as Pydantic writes them."""
    if not isinstance(schema, dict) or not schema or depth > 8:
        return junk(rng, 2)
    if "$ref" in schema:
        return instance(defs[schema["$ref"].rpartition("/")[2]], defs, rng, depth + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return instance(rng.choice(schema[key]), defs, rng, depth + 1)
    if "enum" in schema or "const" in schema:
        return rng.choice(schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "object" and "properties" not in schema:
        return rng.choice(SCHEMAS)
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: instance(each, defs, rng, depth + 1)
            for name, each in schema["properties"].items()
            if name in required or rng.random() < 0.08
        }
    if kind == "array":
        items = schema.get("items", {})
        return [instance(items, defs, rng, depth + 1) for _ in range(rng.randrange(schema.get("minItems", 0), 3))]
    usual = rng.random() < 0.8
    numbers = {"integer": [1, 2, 3] if usual else NUMBERS, "number": [0, 1, 0.5] if usual else NUMBERS}
    simple = {"boolean": [True, False], "null": [None], "string": TEXTS, **numbers}
    return rng.choice(simple.get(kind, [None]))


def mutated(value: Any, rng: random.Random) -> Any:
    """The value with one of its parts changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice([*value])
        change = rng.randrange(6)
        if change == 0:
            return {key: each for key, each in value.items() if key != name}
        if change == 1:
            return {**value, rng.choice([*TEXTS, "n", "stop", "seed", "tools"]): junk(rng)}
        return {**value, name: mutated(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return rng.choice([value[:place], value * 3, [*value[:place], mutated(value[place], rng), *value[place + 1 :]]])
    return rng.choice([junk(rng), [value], {"x": value}, [[]]])


def body(rng: random.Random, model: str) -> tuple[str, bytes]:
    """A route and the body of a request, in which something may be wrong."""
    route = rng.choice([*ROUTES])
    schema = ROUTES[route].model_json_schema(by_alias=True)
    value = instance(schema, schema.get("$defs", {}), rng)
    value["model"] = model
    if route != "/v1/completions" and rng.random() < 0.7:
        value["input" if "responses" in route else "messages"] = [{"role": "user", "content": rng.choice(TEXTS) or "x"}]
    elif rng.random() < 0.5:
        value["prompt"] = "Where?"
    parts = {
        "response_format": SchemaFormat.model_json_schema(by_alias=True), "tools": TOOL,
        "structgen": Extras.model_json_schema(by_alias=True),
    }  # fmt: skip
    for name, own in parts.items():
        if rng.random() < 0.15 and name in schema["properties"]:
            part = instance(own, own.get("$defs", {}), rng)
            value[name] = [part, part] if name == "tools" else part
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        value = mutated(value, rng)
    if rng.random() < 0.01:
        deep = 100_000
        return route, b'{"model": ' + b"[" * deep + b"]" * deep + b"}"
    data = (
        json.dumps(value)
        .replace(f'"{NAN}"', rng.choice(["NaN", "Infinity", "1e999", "-0", "1" * 5000, "-" + "9" * 4000]))
        .encode()
    )
    if rng.random() < 0.05:
        place = rng.randrange(len(data) + 1)
        data = data[:place] + rng.choice([b"", b"\xff", b"\x00", b'"', b"}"]) + data[place + rng.randrange(2) :]
    return route, data
