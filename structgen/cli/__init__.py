"""The command line: `structgen demo | generate | extract | explain | doctor | serve`."""

from __future__ import annotations

from structgen.cli.app import app

__all__ = ["app"]
