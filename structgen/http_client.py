"""The HTTP client for requests that carry keys. It follows no redirect, so that no key goes to another host."""

try:
    import httpx2 as httpx  # the maintained continuation of httpx, for Python 3.11 and later
except ImportError:
    import httpx  # type: ignore[import-not-found,no-redef,unused-ignore]

__all__ = ["httpx"]
