"""What a docstring says of a function and of its parameters: Google, NumPy, Sphinx (reST) and Epydoc styles."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from docstring_parser import ParseError, parse


class Described(NamedTuple):
    """What a docstring says.

    Attributes:
        description: of the whole, without its sections.
        parameters: the description of each parameter that has one.
    """

    description: str
    parameters: dict[str, str]


def described(owner: Any) -> Described:
    """What the docstring of a function or class says; of a class with none, that of its `__init__`."""
    text = inspect.getdoc(owner)
    if isinstance(owner, type):
        own = owner.__dict__.get("__doc__")
        text = inspect.cleandoc(own) if own else ""
        text = text or _written(owner.__dict__.get("__init__"))
    if not text:
        return Described("", {})
    try:
        docstring = parse(text)
    except ParseError:
        return Described(text, {})
    parts = [part for part in (docstring.short_description, docstring.long_description) if part]
    about = {param.arg_name: param.description for param in docstring.params if param.description}
    return Described("\n\n".join(parts), {name.lstrip("*"): " ".join(text.split()) for name, text in about.items()})


def _written(method: Any) -> str:
    """The docstring of a method, if it is one that somebody wrote."""
    return inspect.getdoc(method) or "" if inspect.isfunction(method) else ""
