"""Calls of the user's validators: an exception that is no validation error is a bug in the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import TypeAdapter, ValidationError

from structgen.errors import StructgenError, ValidatorError


@contextmanager
def users_code(type_name: str, pointer: str, text: bytes) -> Iterator[None]:
    """A `with` block in which validators run: validation errors pass, others become a `ValidatorError`."""
    try:
        yield
    except (ValidationError, StructgenError):
        raise
    except Exception as error:  # the code is the user's: it may raise anything
        raise ValidatorError(type_name, pointer, text.decode("utf-8", errors="replace"), error) from error


def validated(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        pydantic.ValidationError: the text is refused. ValidatorError: a validator raised another exception.
    """
    with users_code("the type", "", text.encode() if isinstance(text, str) else text):
        return adapter.validate_json(text)
