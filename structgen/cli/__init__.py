"""The command line: `structgen demo | generate | explain | doctor | serve`."""

from __future__ import annotations

from structgen.cli.app import app

__all__ = ["app"]
