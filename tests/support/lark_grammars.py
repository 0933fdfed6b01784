"""Grammars in Lark's syntax, each with texts that begin the mutations."""

from __future__ import annotations

from tests.support.tables import cases

ARITHMETIC = cases("support/lark_grammars", "ARITHMETIC", globals())

SQL = cases("support/lark_grammars", "SQL", globals())

JSON = cases("support/lark_grammars", "JSON", globals())

ROBOT = cases("support/lark_grammars", "ROBOT", globals())

LEXER = cases("support/lark_grammars", "LEXER", globals())
"""Where the order of alternatives matters more than the length of a match."""

CONTEXT = cases("support/lark_grammars", "CONTEXT", globals())
"""What may follow `inner` depends on what stands before it: the LALR states do not know."""

UNICODE = cases("support/lark_grammars", "UNICODE", globals())

PYTHON = cases("support/lark_grammars", "PYTHON", globals())
"""From the grammar of Python that comes with Lark, for one line at a time."""

RIGHT = cases("support/lark_grammars", "RIGHT", globals())
"""Rules that recurse to the right: alone, through one another, through rules of one symbol, and with an `else`."""

TEXTS = cases("support/lark_grammars", "TEXTS", globals())

ENDINGS = """1 ) ] } " ' ` x e c d q 7 = < n a l r u t s m g o : / . * ! {} */ ,1 +1 :1 :=1 (1) "x" -\n
    ll rue alse rom|t om|t m|t y|1 r|1 s|x in|t |from|t |x |=|1 |by|1 |null |north left |on|1 |and|1 |join|t |as|x |1
    ;z z y ;s s f o 0""".split()
ENDINGS = [" ", "\n", "select 1 from t", *(ending.replace("|", " ").replace("\\n", "\n") for ending in ENDINGS)]
"""Pieces with which the beginnings of texts are ended."""
