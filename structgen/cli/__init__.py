"""The command line: `structgen demo | generate | trace | extract | check | explain | doctor | bench | serve`.

`app` has the commands; what is longer than a few lines is next to it: `extracting`, `checking`, and `doctor` and
`installed` for the two forms of `structgen doctor`. `parameters` are those of several commands, and `named` finds what
arguments name. Only `__main__` imports this folder.
"""

from __future__ import annotations

from structgen.cli.app import app

__all__ = ["app"]
