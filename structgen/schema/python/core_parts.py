"""The parts of Pydantic's core schemas: which part describes the value at a path.

Some nodes of a core schema wrap the node for the same value (functions, defaults, definitions); others contain nodes
for its members. Following a path looks through the first kind and steps into the second. Where the user's code changes
a value before its members are validated, the members cannot be judged alone: the node is *opaque*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from structgen.schema.python.bounded_text import bounds_of
from structgen.schema.python.object_fields import fields_of, tag_names

CorePart = Mapping[str, Any]
FUNCTIONS = frozenset({"function-after", "function-before", "function-wrap", "function-plain"})
UNIONS = frozenset({"union", "tagged-union"})
FIELDS = frozenset({"model-fields", "typed-dict", "dataclass-args"})
INNER = {
    "function-after": "schema",
    "nullable": "schema",
    "custom-error": "schema",
    "default": "schema",
    "model": "schema",
    "dataclass": "schema",
    "definitions": "schema",
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
}
"""The key under which a wrapping node holds the node for the same value."""
OPAQUE = frozenset({"function-before", "function-wrap", "function-plain", "chain", "call", "arguments", "named-tuple"})
WRAPPERS = FUNCTIONS - {"function-plain"} | {"nullable", "default", "json-or-python"}
"""The types of core schemas that wrap the core schema of the same value."""
_ONE_NAME_EACH = frozenset({"str", "int", "bool", "literal", "enum"})
"""The types of keys that only one member name means."""
_UNHASHABLE = frozenset({"list", "set", "dict", "deque", "typed-dict", "counter", "ordered-dict"})
_WRAPPED = ("schema", "json_schema", "lax_schema", "strict_schema")
_MEMBERS = ("items_schema", "keys_schema", "values_schema", "extras_schema", "arguments_schema")
_MORE = ("var_args_schema", "var_kwargs_schema")
_OURS = ("pydantic._internal.", "pydantic_core.")


class ValuePart(NamedTuple):
    """What describes one value.

    Attributes:
        node: the value's core schema.
        config: the configuration of the model around it.
        owner: the node of the fields that it belongs to; None where it is not a field.
        name: the name of the field.
        models: the models that hold the value, outermost first, where nodes that wrap it were looked through.
        changed: code may change the value once it is complete.
        ordered: the first alternative of a union that takes the value is the right one; else the one that fits best.
    """

    node: CorePart
    config: Any = None
    owner: CorePart | None = None
    name: str = ""
    models: tuple[Any, ...] = ()
    changed: bool = False
    ordered: bool = False


class CoreParts:
    """Finds the parts of one core schema.

    Args:
        schema: the core schema of a `TypeAdapter`.
        through: look through the user's code, too: its nodes wrap those of the value that it is given.
    """

    def __init__(self, schema: Any, *, through: bool = False) -> None:
        self._through = through
        self.definitions: list[Any] = list(schema.get("definitions", ()))
        self._by_ref = {node["ref"]: node for node in self.definitions}
        self.root = ValuePart(schema["schema"] if schema["type"] == "definitions" else schema)
        self._custom_within: dict[int, bool] = {}

    def resolved(self, node: CorePart) -> CorePart:
        """The node that a reference leads to."""
        while node["type"] == "definition-ref":
            node = self._by_ref[node["schema_ref"]]
        return node

    def members(self, part: ValuePart, key: str | int, around: Any = None) -> list[ValuePart] | None:
        """The parts that may describe a member or an item: one for each way to read the value around it.

        None where the member cannot be judged without the whole value, or may be any value.

        Args:
            part: the part of the value around it.
            around: the value around it with the members that are complete; None where it is not known.
        """
        parts: list[ValuePart] = []
        for container in self.ways(part, around):
            if container is None:
                return None
            inner = self.member(container, key)
            if inner is None:
                return None
            parts += inner
        return parts

    def ways(self, part: ValuePart, value: Any = None) -> Iterator[ValuePart | None]:
        """The parts for each way to read a value, without wrapping nodes; None for an opaque node."""
        node = self.resolved(part.node)
        kind = node["type"]
        if kind in UNIONS:
            for choice in _tagged(node, value) or choices_of(node):
                ordered = part.ordered or node.get("mode") == "left_to_right"
                yield from self.ways(part._replace(node=choice, ordered=ordered), value)
        elif kind == "default" and node.get("on_error", "raise") != "raise":
            yield None
        elif kind in INNER:
            config = node.get("config") or part.config
            models = (*part.models, node["cls"]) if kind == "model" else part.models
            changed = part.changed or kind in FUNCTIONS
            inner = part._replace(node=node[INNER[kind]], config=config, models=models, changed=changed)
            yield from self.ways(inner, value)
        elif kind in FUNCTIONS and "schema" in node and (self._through or not is_custom(node)):
            yield from self.ways(part._replace(node=node["schema"], changed=True), value)
        else:
            yield None if kind in OPAQUE else part._replace(node=node)

    def member(self, container: ValuePart, key: str | int) -> list[ValuePart] | None:
        """The part of a member in one way; [] where such a value has no such member, None where it may be any value."""
        node, config = container.node, container.config
        kind = node["type"]
        if kind in FIELDS:
            return _field(node, config, str(key))
        if kind == "dict":
            return [ValuePart(node["values_schema"], config)] if "values_schema" in node else None
        if kind == "tuple" and isinstance(key, int):
            return _tuple_item(node, config, key)
        if kind in ("list", "set", "frozenset", "generator"):
            return [ValuePart(node["items_schema"], config)] if "items_schema" in node else None
        return None if kind == "any" else []

    def wants_data(self, node: CorePart) -> bool:
        """Does a validator of the field itself read the fields before it?"""
        node = self.resolved(node)
        if node["type"] in FUNCTIONS and node["function"]["type"] == "with-info":
            return True
        inner = node.get(INNER.get(node["type"], "schema"))
        return node["type"] not in FIELDS and isinstance(inner, Mapping) and self.wants_data(inner)

    def asks(self, node: CorePart) -> bool:
        """Does the value itself, apart from its members, run code that may refuse it?"""
        node = self.resolved(node)
        kind = node["type"]
        if is_custom(node):
            return True
        if kind in UNIONS or kind in OPAQUE or kind == "json":
            return self.asks_anywhere(node)
        if kind == "dict" and "keys_schema" in node:
            return self.asks_anywhere(node["keys_schema"])
        return kind in INNER and self.asks(node[INNER[kind]])

    @property
    def is_tagged(self) -> bool:
        """Is there a discriminated union anywhere?"""
        return any(tag_names(node.get("discriminator")) for node in self._within(self.root.node))

    def asks_anywhere(self, node: CorePart) -> bool:
        """Does a value, or anything within it, run code that may refuse it?"""
        known = self._custom_within.get(id(node))  # by hand: nodes are dictionaries, which have no hash
        if known is None:
            known = self._custom_within[id(node)] = any(map(is_custom, self._within(node)))
        return known

    def _within(self, node: CorePart) -> Iterator[CorePart]:
        """A node and all nodes below it, each once."""
        stack, seen = [node], set[int]()
        while stack:
            node = self.resolved(stack.pop())
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                stack += _children(node)


def is_custom(node: CorePart) -> bool:
    """Has this node demands that its schema does not express, such as those of the user's code?"""
    if node["type"] in FUNCTIONS:
        function = node["function"]["function"]
        inner = getattr(function, "func", function)  # of a partial
        return not str(getattr(inner, "__module__", "")).startswith(_OURS)
    if node["type"] == "tagged-union":
        return callable(node["discriminator"])
    if node["type"] == "timedelta":  # no pattern says that a duration is within bounds
        return bool(bounds_of(node))
    if "keys_schema" in node and (node.get("min_length") or 0) > 1:  # two names may mean one key
        return node["keys_schema"]["type"] not in _ONE_NAME_EACH
    return bool(node.get("post_init") or node.get("custom_init") or node.get("now_op"))


def unhashable(schema: Any, definitions: Mapping[str, Any]) -> str:
    """Which values of a core schema Python cannot hash, so that no set can hold them; "" when none is known.

    Args:
        definitions: the core schemas that references lead to.
    """
    stack, seen = [schema], set[str]()
    while stack:
        core = stack.pop()
        kind = core["type"]
        if kind in _UNHASHABLE:
            return f"{kind} values"
        if kind in ("model", "dataclass") and core["cls"].__hash__ is None:
            return f"{core['cls'].__name__} values"
        if kind == "definition-ref" and core["schema_ref"] not in seen:
            seen.add(core["schema_ref"])
            stack += [definitions[name] for name in [core["schema_ref"]] if name in definitions]
        elif kind in UNIONS:
            stack += choices_of(core)
        elif kind == "tuple":
            stack += core["items_schema"]
        elif kind in WRAPPERS:
            stack.append(core[INNER.get(kind, "schema")])
    return ""


def spellings(field: CorePart, name: str, config: Any) -> list[str] | None:
    """The member names that set a field; None where a path into a member may set it too."""
    alias = field.get("validation_alias")
    if alias is None:
        return [name]
    paths = [[alias]] if isinstance(alias, str) else alias if isinstance(alias[0], list) else [alias]
    if any(len(path) > 1 for path in paths):
        return None
    config = config or {}
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    return [str(path[0]) for path in paths] + ([name] if by_name else [])


def _field(node: CorePart, config: Any, key: str) -> list[ValuePart] | None:
    for name, field in fields_of(node):
        known = spellings(field, name, config)
        if known is None:
            return None
        if key in known:
            return [ValuePart(field["schema"], config, node, name)]
    if node.get("extras_schema") is not None:
        return [ValuePart(node["extras_schema"], config)]
    allows = node.get("extra_behavior") or (config or {}).get("extra_fields_behavior")
    return [] if allows == "forbid" else None


def _tuple_item(node: CorePart, config: Any, index: int) -> list[ValuePart]:
    items: Sequence[Any] = node["items_schema"]
    variadic = node.get("variadic_item_index")
    if variadic is not None and index >= variadic:
        index = variadic
    return [ValuePart(items[index], config)] if index < len(items) else []


def _tagged(node: CorePart, value: Any) -> list[Any]:
    """The alternative of a discriminated union that the value's tag selects; [] while there is no tag."""
    names = tag_names(node.get("discriminator")) if isinstance(value, Mapping) else []
    tags = [value[name] for name in names if name in value]
    return [choice for tag, choice in node["choices"].items() if _is_tag(tag, tags[0])] if tags else []


def _is_tag(tag: Any, value: Any) -> bool:
    plain = tag.value if isinstance(tag, Enum) else tag
    return type(plain) is type(value) and plain == value


def choices_of(node: CorePart) -> list[Any]:
    """The alternatives of a union."""
    choices = node["choices"]
    each = choices.values() if isinstance(choices, Mapping) else choices
    return [choice[0] if isinstance(choice, tuple) else choice for choice in each]


def _children(node: CorePart) -> Iterator[Any]:
    """The nodes directly below a node, whatever they describe."""
    for key in (*_WRAPPED, *_MEMBERS, *_MORE):
        child = node.get(key)
        if isinstance(child, Mapping):
            yield child
        elif key == "items_schema" and child:
            yield from child
    if "choices" in node:
        yield from choices_of(node)
    yield from node.get("steps", ())
    if "fields" in node and node["type"] != "dataclass":
        yield from (field["schema"] for _, field in fields_of(node))
    for argument in node.get("arguments_schema", ()) if node["type"] == "arguments" else ():
        yield argument["schema"]
