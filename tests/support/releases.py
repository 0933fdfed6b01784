"""Tests that need a newer release of a package than the lowest that is permitted."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from packaging.version import Version


def require_release(package: str, lowest: str) -> None:
    """Skips the test that calls it where an older release is installed."""
    if Version(version(package)) < Version(lowest):
        pytest.skip(f"needs {package} {lowest}")
