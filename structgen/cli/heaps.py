"""How many heaps the C library keeps for a process."""

from __future__ import annotations

import ctypes
import sys

HEAPS = 2
_M_ARENA_MAX = -8  # of glibc's malloc.h


def share_heaps() -> None:
    """Lets all threads that begin from now on share two heaps, where the C library is glibc.

    By default each thread has its own heap, which keeps what was freed in it: 2,000 schemas added 91 MB to a server,
    and 30 MB with two heaps, at the same speed.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:  # musl has none, and one heap
        set_option(_M_ARENA_MAX, HEAPS)
