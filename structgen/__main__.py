"""The command line as `python -m structgen`: for the Python that runs, whichever `structgen` the PATH has."""

from __future__ import annotations

from structgen.cli import app

if __name__ == "__main__":
    app(prog_name="structgen")
