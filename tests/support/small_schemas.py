"""Random small schemas of every draft, and all small JSON texts: each schema is judged on each text.

A schema draws its keywords from a handful, so that the same few meet each other at every depth.
"""

from __future__ import annotations

from random import Random
from typing import Any

from structgen.schema.keywords.dialects import URIS
from tests.support.tables import cases

NAMES = ["", "a", "b", "ab"]
VALUES: list[Any] = [None, True, False, 0, 1, 1.0, 2, 1.5, "", "a", "ab", [], {}, [1], [None], {"a": 1}]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
ABOUT = cases("support/small_schemas", "ABOUT")
COMBINING = ["allOf", "anyOf", "oneOf", "not", "if", "enum", "const", "type"]
LEAVES = ["minItems", "maxItems", "uniqueItems", "minimum", "maximum", "multipleOf", "minLength", "required", "const",
          "minProperties", "maxProperties"]  # fmt: skip
SINCE = cases("support/small_schemas", "SINCE")
STEPS = [1, 2, 0.5, 1.5, 3, 0.1, 2.5, 7, 13, 0.01, 0.25, 11, 4001, 20011]


class SmallSchemas:
    """Draws schemas of one draft: 4, 6, 7, 2019 or 2020."""

    def __init__(self, draft: int, random: Random) -> None:
        self._draft, self._random = draft, random
        self._drawn: list[str] = []

    def draw(self) -> dict[str, Any]:
        """A schema with `$schema`."""
        random = self._random
        kind = random.choice(["array", "array", "object", "number", "string", "mixed"])
        about = [name for names in ABOUT.values() for name in names] if kind == "mixed" else ABOUT[kind]
        about, combining = ([name for name in names if self._known(name)] for names in (about, COMBINING))
        self._drawn = random.sample(about, min(len(about), random.randint(2, 4)))
        self._drawn += random.sample(combining, random.randint(1, 3))
        schema: Any = {}
        while not isinstance(schema, dict) or not schema:
            schema = self._schema(random.choice([2, 3, 3, 4]))
        return {"$schema": URIS[self._draft], **schema}

    def _known(self, name: str) -> bool:
        return self._draft >= SINCE.get(name, 4) and not (name == "additionalItems" and self._draft >= 2020)

    def _schema(self, depth: int) -> Any:
        random, schema = self._random, dict[str, Any]()
        if depth <= 0 or random.random() < 0.1:
            kind = random.random()
            if kind < 0.2:
                return {} if self._draft == 4 or random.random() < 0.5 else random.random() < 0.6
            leaves = [name for name in LEAVES if self._known(name)]
            name = "type" if kind < 0.5 else "enum" if kind < 0.7 else random.choice(leaves)
            return schema | self._keyword(name, 0)
        for name in random.choices(self._drawn, k=random.choice([1, 1, 2, 2, 3, 4])):
            schema |= self._keyword(name, depth - 1)
        return schema

    def _keyword(self, name: str, depth: int) -> dict[str, Any]:
        """A keyword with an argument, and those that belong to it."""
        random, draft = self._random, self._draft

        def one() -> Any:
            return self._schema(depth - (random.random() < 0.4))

        def several(most: int = 2) -> list[Any]:
            return [one() for _ in range(random.randint(1, most))]

        def by_name(names: list[str], most: int = 2) -> dict[str, Any]:
            return {each: one() for each in random.sample(names, random.randint(1, most))}

        dependent = {"names": "dependentRequired", "schemas": "dependentSchemas"}
        match name:
            case "prefix":
                return {"prefixItems" if draft >= 2020 else "items": several()}
            case "items" | "additionalItems" | "unevaluatedItems" | "unevaluatedProperties" | "not":
                return {name: one()}
            case "additionalProperties" | "propertyNames":
                return {name: one()}
            case "minItems" | "minProperties" | "minLength":
                return {name: random.randint(0, 2)}
            case "maxItems" | "maxProperties" | "maxLength":
                return {name: random.randint(0, 3)}
            case "uniqueItems":
                return {name: random.random() < 0.85}
            case "contains":
                counts = [each for each in ("minContains", "maxContains") if draft >= 2019 and random.random() < 0.4]
                return {name: one(), **{each: random.randint(0, 2) for each in counts}}
            case "properties":
                return {name: by_name(NAMES)}
            case "patternProperties":
                return {name: by_name(["a", "^b", "^$", "b$"])}
            case "required":
                return {name: random.sample(NAMES, random.randint(1, 2))}
            case "dependent names":
                needed = {random.choice(NAMES): random.sample(NAMES, random.randint(1, 2))}
                return {dependent["names"] if draft >= 2019 else "dependencies": needed}
            case "dependent schemas":
                return {dependent["schemas"] if draft >= 2019 else "dependencies": by_name(NAMES, 1)}
            case "multipleOf":
                return {name: random.choice(STEPS)}
            case "minimum" | "maximum":
                return {name: random.choice([-50, -1, 0, 0.5, 1, 2, 1.0, 103, 1000])}
            case "exclusiveMinimum" | "exclusiveMaximum":
                bound = name[9:].lower()
                if draft == 4:
                    return {name: random.random() < 0.7, **self._keyword(bound, 0)}
                return {name: random.choice([-1, 0, 0.5, 1, 2])}
            case "type":
                return {name: random.choice(TYPES) if random.random() < 0.6 else random.sample(TYPES, 2)}
            case "const":
                return {name: random.choice(VALUES)}
            case "enum":
                return {name: random.choices(VALUES, k=random.randint(1, 3))}
            case "pattern":
                return {name: random.choice(["a", "^a", "b$", "^$"])}
            case "if":
                branches = [each for each in ("then", "else") if random.random() < 0.65]
                return {name: one(), **{each: one() for each in branches}}
            case _:
                return {name: several(3 if random.random() < 0.3 else 2)}


def texts() -> list[str]:
    """Small JSON values as `json.dumps` separates them, whole numbers in both spellings."""
    scalars = ["null", "true", "0", "1", "1.0", "2", '""', '"a"', '"ab"']
    numbers = """false 2.0 1.5 3 -1 0.5 6 0.30 70 70.0 91 91.0 32.5 32.50 -7.0 1001 1001.0 0.25 0.01 99.99 12.5 -1.5
        4001.0 20011 20011.00""".split()
    inner = [*scalars, "[]", "{}", "[1]", "[null]", '{"a": 1}']
    few = ["null", "0", "1", "1.0", '"a"', "[]", "{}", "[1]"]
    three = ["null", "1", "1.0", "{}"]
    arrays = ["[]", *(f"[{x}]" for x in inner), *(f"[{x}, {y}]" for x in few for y in few)]
    arrays += [f"[{x}, {y}, {z}]" for x in three for y in three for z in three]
    names = ['""', '"a"', '"b"', '"ab"', '"c"']
    objects = ["{}", *(f"{{{name}: {x}}}" for name in names for x in inner)]
    pairs = [(name, other) for name in names for other in names if name != other]
    both = [(x, y) for x in ("null", "1", '"a"', "[]") for y in ("1", "{}")]
    objects += [f"{{{name}: {x}, {other}: {y}}}" for name, other in pairs for x, y in both]
    objects += ['{"a": 1, "b": null, "ab": 1}', '{"": 1, "a": 1, "b": 1}']
    return [*scalars, *numbers, *arrays, *objects]
