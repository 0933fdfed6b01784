"""A console of rich that shows foreign texts as they are, and lets none of them command the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from structgen.errors import printable


class SafeConsole(Console):
    """A console that escapes control characters in what it prints, such as ESC. Its own colours stay."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yields the pieces of what is printed."""
        for piece in super().render(renderable, options):
            yield piece if piece.control else piece._replace(text=printable_lines(piece.text))


def printable_lines(text: str) -> str:
    """A text of several lines without what a terminal obeys."""
    return "\n".join(map(printable, text.split("\n")))
