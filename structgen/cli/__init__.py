"""The command line: `structgen demo | generate | doctor`."""

from __future__ import annotations

from structgen.cli.app import app

__all__ = ["app"]
