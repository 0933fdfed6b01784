"""Descriptions of a function and its parameters in its docstring: Google, NumPy, Sphinx (reST) and Epydoc styles."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from docstring_parser import ParseError, parse


class Described(NamedTuple):
    """The descriptions in a docstring.

    Attributes:
        description: the description of the function, without the docstring's sections.
    """

    description: str
    parameters: dict[str, str]


def described(owner: Any) -> Described:
    """Returns the descriptions in the docstring of a function or class; of a class without one, of its `__init__`."""
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
    """Returns the docstring of a method that is written in Python, else an empty string."""
    return inspect.getdoc(method) or "" if inspect.isfunction(method) else ""
