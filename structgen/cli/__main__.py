"""The command line as `python -m structgen.cli`."""

from __future__ import annotations

from structgen.cli.app import app

if __name__ == "__main__":
    app(prog_name="structgen")
