"""The border to code that is not ours: what a type's own validators raise besides validation errors is their bug."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from structgen.errors import StructgenError, ValidatorError


class UsersCode:
    """A `with` block in which validators run: validation errors pass, others become a `ValidatorError`."""

    def __init__(self, type_name: str, pointer: str, text: bytes) -> None:
        self._type_name, self._pointer, self._text = type_name, pointer, text

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, (ValidationError, StructgenError)):
            text = self._text.decode("utf-8", errors="replace")
            raise ValidatorError(self._type_name, self._pointer, text, error) from error


def validated(adapter: TypeAdapter[Any], text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        pydantic.ValidationError: it is refused. ValidatorError: a validator raised something else.
    """
    with UsersCode("the type", "", text.encode() if isinstance(text, str) else text):
        return adapter.validate_json(text)
