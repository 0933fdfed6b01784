"""Why a pattern could not be compiled."""

from __future__ import annotations

from structgen.errors import RequestError, quoted


class PatternError(RequestError):
    """The pattern is malformed.

    Attributes:
        offset: index into the pattern where the mistake was found.
    """

    def __init__(self, pattern: str, offset: int, message: str) -> None:
        self.offset = offset
        super().__init__(f"pattern {quoted(pattern)}, offset {offset}: {message}")


class PatternUnsupported(RequestError):
    """The pattern uses a construct that no regular automaton holds, or one that is not ECMA-262's.

    Attributes:
        offset: index into the pattern where the construct begins.
        construct: what it is, in a few words.
    """

    def __init__(self, pattern: str, offset: int, construct: str, remedy: str = "") -> None:
        self.offset = offset
        self.construct = construct
        message = f"pattern {quoted(pattern)}, offset {offset}: {construct} is not supported"
        super().__init__(f"{message}; {remedy}" if remedy else message)
