"""The tools of a request, in the forms of three interfaces, as the model is offered them; and which it may call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from structgen.chat.json_values import json_values
from structgen.decoding.grammars import grammar_for
from structgen.errors import LimitExceeded, RequestError, SchemaError, quoted
from structgen.memo import BoundedCache
from structgen.server.notes import Notes
from structgen.server.problems import Problem, invalid
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

OWN = ("function", "custom", None)
"""The types of tools that the client itself runs. A tool of any other type would be run by a provider's servers: the
model is not offered it, and the answer names it."""
NAMING = ("function", "custom", "tool")
"""The types of choices that name the tool that must be called."""
JOINT = "__"
"""Between a namespace and a tool's name, in the name by which the model calls it."""
RELAXED = 32
"""How many places of a tool's schema are left to the check of a whole call, before its whole schema is."""


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a client.

    Attributes:
        tool: as the model is offered it.
        name, namespace: by which the client calls it.
        custom: is its only argument a text, which the client gets without JSON around it?
        unmasked: the places of its schema that no mask holds.
    """

    tool: Tool[..., Any]
    name: str
    namespace: str | None = None
    custom: bool = False
    unmasked: tuple[str, ...] = ()


class Choice(NamedTuple):
    """Which tools may be called.

    Attributes:
        mode: "none", "auto", "required", or the name of the tool that must be called.
        only: the names of those that are offered; None for all.
        parallel: may there be several calls? None if the request does not say.
    """

    mode: str = "auto"
    only: frozenset[str] | None = None
    parallel: bool | None = None


_made = BoundedCache[str, Tool[..., Any]](64 << 20, lambda tool: 4 * len(str(tool.parameters)) + 2_000)
"""The text of a declaration -> its tool: one object in all requests of a session, so that its masks are found again."""


def offered_tools(given: Sequence[Any], notes: Notes) -> dict[str, OfferedTool]:
    """Returns the tools by the names by which the model calls them, and notes which are left out.

    Args:
        given: OpenAI's and Anthropic's forms; `{"type": "namespace", "name", "tools": [...]}` has tools of its own.

    Raises:
        Problem: an entry is no tool, or two have the same name.
    """
    found = dict[str, OfferedTool]()
    for place, entry, namespace in _entries(given):
        if not isinstance(entry, Mapping):
            raise invalid(place, f"expected a tool, found {quoted(entry)}")
        if entry.get("type") not in OWN:
            notes.left_out.append(str(entry.get("name") or entry.get("server_label") or entry["type"])[:64])
            continue
        is_custom = entry.get("type") == "custom" and "input_schema" not in entry
        declared = entry.get("custom" if is_custom else "function")
        declared = declared if isinstance(declared, Mapping) else entry
        name = str(declared.get("name") or "")
        called = name if namespace is None else joint_name(namespace, name)
        if called in found:
            raise invalid(place, f"tools: two of them have the name {quoted(called)}")
        declared = {**declared, "name": called, **({"type": "custom"} if is_custom else {})}
        try:
            tool = _made.kept(json.dumps(declared), Tool.of, {k: v for k, v in declared.items() if v is not None})
        except RequestError as error:
            raise Problem(400, f"{place}: {error.message}", "invalid_value", param=place) from None
        found[called] = OfferedTool(tool, name, namespace, is_custom)
    return found


def joint_name(namespace: str, name: str) -> str:
    """Returns the name by which the model calls a tool of a namespace."""
    return namespace.removesuffix(JOINT) + JOINT + name


def _entries(given: Sequence[Any]) -> Iterator[tuple[str, Any, str | None]]:
    """Yields the tools with their places and namespaces."""
    for number, entry in enumerate(given):
        inner = entry.get("tools") if isinstance(entry, Mapping) and entry.get("type") == "namespace" else None
        if isinstance(inner, list):
            namespace = str(entry.get("name") or "")
            yield from ((f"tools.{number}.tools.{n}", each, namespace) for n, each in enumerate(inner))
        else:
            yield f"tools.{number}", entry, None


def chosen(given: Any, tools: Mapping[str, OfferedTool]) -> Choice:
    """Reads `tool_choice` in the form of any interface. Without tools, one that names none has no effect: some send it.

    Raises:
        Problem: it is none, or names a tool that is not there.
    """
    if given is None or isinstance(given, str):
        given = {"type": given or "auto"}
    if not isinstance(given, Mapping):
        raise invalid("tool_choice", f"expected a choice of tools, found {quoted(given)}")
    kind, single = given.get("type"), given.get("disable_parallel_tool_use")
    parallel = None if single is None else not single
    if not tools and kind not in ("allowed_tools", *NAMING):
        return Choice()
    if kind in ("none", "auto", "required", "any"):
        return Choice("required" if kind == "any" else str(kind), parallel=parallel)
    if kind == "allowed_tools":
        own = given.get("allowed_tools", given)
        place = "tool_choice.tools" if own is given else "tool_choice.allowed_tools.tools"
        own = own if isinstance(own, Mapping) else {}
        listed, mode = own.get("tools"), own.get("mode", "auto")
        if not isinstance(listed, list) or not listed or mode not in ("auto", "required"):
            raise invalid("tool_choice", 'expected "mode" (auto or required), and "tools" with at least one')
        return Choice(mode, frozenset(_called(listed, tools, place)), parallel)
    if kind in NAMING:
        return Choice(_called([given], tools, "tool_choice")[0], None, parallel or False)
    raise invalid(
        "tool_choice.type", f"{quoted(kind)} tools are not called here; expected none, auto, required, or a tool"
    )


def _called(given: Sequence[Any], tools: Mapping[str, OfferedTool], place: str) -> list[str]:
    """Returns the names by which the model calls the tools that a choice names."""
    found, unknown = list[str](), list[Any]()
    for each in given:
        own = each if isinstance(each, Mapping) else {}
        own = own.get(str(own.get("type")), own)
        name, namespace = (own.get(key) if isinstance(own, Mapping) else None for key in ("name", "namespace"))
        offered = (
            called for called, tool in tools.items()
            if name in (called, tool.name) and namespace in (None, tool.namespace)
        )  # fmt: skip
        called = next(offered, None)
        if called is None:
            unknown.append(name)
        else:
            found.append(called)
    if unknown:
        raise invalid(place, f"{', '.join(map(quoted, unknown))}: not among the tools {quoted([*tools])}")
    return found


def relaxed(tools: Mapping[str, OfferedTool], vocabulary: Vocabulary) -> dict[str, OfferedTool]:
    """Returns the tools, each with a schema that a mask can hold."""
    return {name: _relaxed(each, vocabulary) for name, each in tools.items()}


def _relaxed(offered: OfferedTool, vocabulary: Vocabulary) -> OfferedTool:
    """Returns a tool with the keywords left out that no mask holds."""
    tool, schema, unmasked = offered.tool, offered.tool.arguments_schema, list[str]()
    while True:
        try:
            grammar_for(json_values(schema), vocabulary)
            break
        except (SchemaError, LimitExceeded) as error:
            unmasked.append(error.pointer or "")
            whole = not error.pointer or len(unmasked) > RELAXED
            schema = {"type": "object"} if whole else _without(schema, error.pointer or "")
    if not unmasked:
        return offered
    declared = {"name": tool.name, "description": tool.description, "parameters": schema}
    made = _made.kept(json.dumps([declared, "relaxed"]), Tool.of, declared)
    return OfferedTool(made, offered.name, offered.namespace, offered.custom, tuple(unmasked))


def _without(schema: Any, pointer: str) -> Any:
    """Returns a schema without what is at a place; a place that is not there leaves nothing but the type."""
    copy = json.loads(json.dumps(schema))
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    inside = copy
    for part in way:
        inside = inside[int(part)] if isinstance(inside, list) else inside.get(part, {})
    if isinstance(inside, dict) and last in inside:
        named = len(way) > 0 and way[-1] in ("properties", "$defs", "definitions", "patternProperties")
        member = inside.pop(last)
        if named:
            inside[last] = {"type": member["type"]} if isinstance(member, dict) and "type" in member else {}
        return copy
    if isinstance(inside, list):
        inside[int(last)] = {}
        return copy
    return {"type": "object"}
