"""The command line: `structgen demo | generate | trace | extract | check | explain | doctor | bench | serve`."""

from __future__ import annotations

from structgen.cli.app import app

__all__ = ["app"]
