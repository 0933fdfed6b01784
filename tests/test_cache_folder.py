"""Where the cache folder lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from structgen.cache_folder import cache_directory


def test_where_the_cache_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable wins over the platform's cache folder."""
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", "/somewhere")
    assert cache_directory() == Path("/somewhere")
    monkeypatch.delenv("STRUCTGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_directory() == Path("/elsewhere/structgen")
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_directory() == Path.home() / "Library" / "Caches" / "structgen"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_directory() == Path("/local/structgen/Cache")


def test_a_user_without_a_home_may_name_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("STRUCTGEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(FileNotFoundError, match="STRUCTGEN_CACHE_DIR"):
        cache_directory()
