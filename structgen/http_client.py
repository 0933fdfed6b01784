"""HTTP requests that may carry keys. A redirect is not followed, and a reply is bounded in bytes and in seconds."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from structgen.errors import RunError, excerpt

try:
    import httpx2 as httpx  # the maintained continuation of httpx, for Python 3.11 and later
except ImportError:
    import httpx  # type: ignore[import-not-found,no-redef,unused-ignore]

__all__ = ["MAX_REPLY", "Reply", "fetch", "fetch_once", "httpx"]

MAX_REPLY = 16 << 20
"""Bytes of a reply, unpacked."""
_PACKED = ("gzip", "x-gzip", "deflate")
_CHARSETS = re.compile(
    r"utf-?(8|16)|iso-8859-\d+|latin-?1|windows-\d+|us-ascii|shift_jis|euc-(jp|kr)|gb(2312|k|18030)|big5", re.I
)
"""Charsets in which a text is read. Python knows others, some of which take quadratic time."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply.

    Attributes:
        status, reason: of its first line.
        headers: by their names, in any case.
        content: its bytes, unpacked.
        redirect: where it leads; None if it leads nowhere.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes
    redirect: str | None

    @property
    def is_success(self) -> bool:
        """Is the status 2xx?"""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """Its text, in the charset that it names, or UTF-8."""
        named = re.search(r"charset=\"?([\w-]+)", self.headers.get("content-type", ""))
        charset = named[1] if named and _CHARSETS.fullmatch(named[1]) else "utf-8"
        return self.content.decode(charset, errors="replace")


async def fetch_once(method: str, url: str, seconds: float, **request: Any) -> Reply:
    """Makes a request with a client of its own, see `fetch`."""
    async with httpx.AsyncClient() as client:
        return await fetch(client, method, url, seconds, **request)


async def fetch(client: httpx.AsyncClient, method: str, url: str, seconds: float, **request: Any) -> Reply:
    """Makes a request, and reads the whole reply.

    Args:
        seconds: until the whole reply must have come, however it comes.
        request: `headers`, and `content` or `json`.

    Raises:
        RunError: the server cannot be reached, breaks HTTP, takes longer, or sends more than `MAX_REPLY` bytes.
    """
    try:
        return await asyncio.wait_for(_read(client, method, url, **request), seconds)
    except asyncio.TimeoutError:
        raise RunError(f"{excerpt(url)}: no whole answer within {seconds:g} seconds") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError, zlib.error) as error:
        raise RunError(f"{excerpt(url)}: {type(error).__name__}: {excerpt(error)}") from error


async def _read(client: httpx.AsyncClient, method: str, url: str, *, headers: Any = None, **body: Any) -> Reply:
    asked = {"Accept-Encoding": "gzip", **(headers or {})}
    async with client.stream(method, url, headers=asked, timeout=None, follow_redirects=False, **body) as answer:
        packing = answer.headers.get("content-encoding", "identity").strip().lower() or "identity"
        if packing not in ("identity", *_PACKED):
            raise ValueError(f"the reply is packed as {excerpt(packing)}, which was not asked for")
        content, unpacker = bytearray(), None  # of the member of the packed reply that has begun
        async for piece in answer.aiter_raw():
            if packing not in _PACKED:
                content += piece
                piece = b""
            while piece and len(content) <= MAX_REPLY:
                unpacker = unpacker or zlib.decompressobj(zlib.MAX_WBITS | 32)
                content += unpacker.decompress(piece, MAX_REPLY + 1 - len(content))
                piece = unpacker.unused_data.lstrip(b"\0")
                unpacker = None if unpacker.eof else unpacker
            if len(content) > MAX_REPLY:
                raise ValueError(f"the reply has more than {MAX_REPLY:,} bytes")
        if unpacker is not None:
            raise ValueError(f"the reply ends within its {packing}")
        redirect = answer.headers.get("location", "") if answer.has_redirect_location else None
        return Reply(answer.status_code, answer.reason_phrase, answer.headers, bytes(content), redirect)
