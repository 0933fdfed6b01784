"""The tokens of grammars in Lark's notation, as regular expressions."""

from __future__ import annotations

import re

SPACES = re.compile(r"(?:\s+|//[^\n]*|\#[^\n]*)*")
_NAME = r"[?!]*_?[A-Za-z][\w-]*"
_OPTIONS = r'\[(?:"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/|[^\]"/\n])*\]'
HEAD = re.compile(
    rf"(?P<name>{_NAME}|[?!]*__\w+)(?P<parameter>::_)?(?P<parameters>\{{[\w\s,]+\}})?[ \t]*(?:\.-?[0-9]+)?[ \t]*"
    rf"(?P<attributes>{_OPTIONS})?[ \t]*:(?!:)"
)
WORD = re.compile(r"_*[A-Za-z][\w-]*")
TEXT = re.compile(r'"((?:\\.|[^"\\\n])*)"(i?)')
PATTERN = re.compile(r"/(?!/)((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+)/([a-z]*)")
TOKEN = re.compile(r"<(\[[^\]>]*\]|[^<>\s]+)>")
NUMBERS = re.compile(r"<\[\s*\d{1,9}(?:-\d{1,9})?(?:\s*,\s*\d{1,9}(?:-\d{1,9})?)*\s*\]>")
BOUNDS = re.compile(
    r"\{[ \t]*([0-9]*)[ \t]*(,?)[ \t]*([0-9]*)[ \t]*\}|~[ \t]*([0-9]+)(?:[ \t]*(\.\.)[ \t]*([0-9]+))?(?![\w(\"/])"
)
RANGE = re.compile(r'\.\.\s*"((?:\\.|[^"\\\n])*)"')
ALIAS = re.compile(r"->[ \t]*!?[\w-]+")
IMPORT = re.compile(
    r"%import[ \t]+(?:(\.?\w+(?:\.\w+)*)[ \t]*\(([\w\s,]+)\)|(\.?\w+(?:\.\w+)*)\.(\w+)(?:[ \t]*->[ \t]*(\w+))?)"
)
CHANGE = re.compile(r"%(override|extend)\b[ \t]*")
IF = re.compile(r"%if\b")
STATEMENT = re.compile(r"%(\w+)")
STATEMENTS = re.compile(r"%(if|ignore|import|llguidance|declare|override|extend)\b")
"""Statements that end a rule, and the condition of an alternative."""
ATTRIBUTE = re.compile(r'\s*(\w+)\s*(?:=\s*("(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/[a-z]*|[\w.]+))?\s*(?:,|$)')
EXTENSIONS = re.compile(rf"%(llguidance|json|regex|lark)\b|^\s*[\w-]+{_OPTIONS}\s*:|<\[|<\||\w::", re.MULTILINE)
"""What only llguidance's dialect has."""


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "b": "\b", "a": "\a", "0": "\0"}


def unescaped(text: str) -> str:
    """A text between quotes, without its escapes.

    Raises:
        ValueError: an escape without its digits.
    """
    return re.sub(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|.)", _escape, text)


def _escape(match: re.Match[str]) -> str:
    """The character of an escape."""
    code = match[1]
    if code in ("x", "u", "U"):
        raise ValueError(f"\\{code} without its digits")
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
