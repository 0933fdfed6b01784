"""Grammars in Lark's notation from which others import, and templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lark

from structgen.constraints.grammars.rules import LEAVES, Complement, Expression, Intersection, Ref
from structgen.errors import LimitExceeded, OptionError, quoted
from structgen.regular.regex.nodes import Chars, children, rebuilt

MAX_CHARACTERS = 500_000
MAX_WRITTEN = 20_000
"""Rules that templates make."""
BUNDLED = "common", "unicode", "python", "lark"
"""The grammars that come with Lark."""
_GRAMMARS = Path(lark.__file__).parent / "grammars"


class Applied(NamedTuple):
    """A template, with what it is given."""

    name: str
    given: tuple[Expression, ...]


class Module(NamedTuple):
    """What a grammar defines, by its names; and the names of what each template is given."""

    rules: dict[str, Expression]
    terminals: dict[str, Expression]
    templates: dict[str, tuple[str, ...]]

    def taken(self, name: str, alias: str, path: str) -> Module:
        """A definition of another name, with those that it needs, whose names get the module's before them."""
        found, names, todo = Module({}, {}, {}), {name: alias}, [name]
        prefix = path.strip(".").replace(".", "__")

        def renamed(own: str, kept: Sequence[str]) -> str:
            if own in kept:
                return own
            if own not in names:
                names[own] = f"{prefix}__{own}"
                todo.append(own)
            return names[own]

        while todo:
            own = todo.pop()
            definitions, taken = (self.rules, found.rules) if own in self.rules else (self.terminals, found.terminals)
            if own not in definitions:
                raise OptionError(f"the grammar {path}: {own} is used, and has no definition")
            kept = self.templates.get(own, ())
            taken[names[own]] = _changed(definitions[own], lambda each, kept=kept: renamed(each, kept))  # type: ignore[misc]
            if kept:
                found.templates[names[own]] = kept
        return found


def source(path: str, folders: Sequence[str]) -> str | None:
    """The text of the grammar of a path in `%import`; None if there is none."""
    parts = path.strip(".").split(".")
    for folder in [*folders, *([str(_GRAMMARS)] if path in BUNDLED else [])]:
        file = Path(folder, *parts).with_suffix(".lark")
        try:
            if file.is_file():
                return file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise OptionError(f"the grammar imports what cannot be read: {error}") from error
    return None


def missing(path: str, folders: Sequence[str]) -> str:
    """Why there is no grammar of a path."""
    if folders:
        return f"no folder of import_paths= has the grammar {quoted(path)}"
    advice = f"its rules come from {', '.join(BUNDLED)}, or from folders that import_paths= names"
    return f"the grammar imports {quoted(path)} from a file: {advice}"


def names_in(expression: Expression) -> Iterator[str]:
    """The rules and terminals that an expression names."""
    todo: list[Any] = [expression]
    while todo:
        each = todo.pop()
        if isinstance(each, Ref):
            yield each.name
        elif isinstance(each, (Complement, Intersection)):
            todo += each
        elif not isinstance(each, LEAVES):
            todo += children(each)


def _changed(expression: Any, name: Callable[[str], str]) -> Any:
    """An expression with other names."""
    if isinstance(expression, Ref):
        return Ref(name(expression.name))
    if isinstance(expression, Applied):
        return Applied(name(expression.name), tuple(_changed(each, name) for each in expression.given))
    if isinstance(expression, (Complement, Intersection)):
        return type(expression)(*(_changed(each, name) for each in expression))
    if isinstance(expression, (Chars, *LEAVES)):
        return expression
    return rebuilt(expression, lambda child: _changed(child, name))


def applied(rules: Mapping[str, Expression], templates: Mapping[str, tuple[str, ...]]) -> dict[str, Expression]:
    """The rules with one for each template and what it is given.

    Raises:
        OptionError: a template is given too few or too many, or is not defined. LimitExceeded: too many rules.
    """
    if not templates:
        return dict(rules)
    found: dict[str, Expression] = {}
    names: dict[Applied, str] = {}
    todo = [(name, Applied(name, ())) for name in rules if name not in templates]

    def written(expression: Any, known: Mapping[str, Any]) -> Any:
        if isinstance(expression, Ref):
            return known.get(expression.name, expression)
        if isinstance(expression, Applied):
            target = known.get(expression.name, Ref(expression.name)).name
            call = Applied(target, tuple(written(each, known) for each in expression.given))
            if len(templates.get(target, ())) != len(call.given):
                raise OptionError(f"the grammar: {target} is given {len(call.given)}, as no template is")
            if call not in names:
                names[call] = f"{target}{{{len(names)}}}"
                todo.append((names[call], call))
                if len(names) > MAX_WRITTEN:
                    raise LimitExceeded(
                        f"the grammar's templates make more than {MAX_WRITTEN:,} rules, the last of {target:.80}"
                    )
            return Ref(names[call])
        if isinstance(expression, (Chars, *LEAVES)):
            return expression
        return rebuilt(expression, lambda child: written(child, known))

    while todo:
        name, call = todo.pop()
        known = dict(zip(templates.get(call.name, ()), call.given, strict=True))
        found[name] = written(rules[call.name], known)
    return found
