"""The decorators of all kernels, and the one door to numba's inside: other folders import only its types.

- `short_way`: numba's compiler, cut down to what kernels of integers and arrays need; a first use takes half as long.
- `contents`: a digest of what a kernel is made of, so that it is compiled again when that changes.
- `store`: compiled kernels on disk; `folders`: where those lie.
- `announcing`: what a user sees while kernels are compiled.
- `views`: arrays by address.

The short way and the store use private parts of numba, so only with versions that they were tested with (`KNOWN`).
With all others the decorators are `numba.njit` with documented options, and kernels give the same results. Setting the
environment variable STRUCTGEN_PLAIN_NUMBA forces that, to find out whether the short way is at fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock

from structgen.kernels.announcing import announce, tell_not_kept

_F = TypeVar("_F", bound=Callable[..., Any])

KNOWN = (0, 62), (0, 68)
"""The first and the last version of numba that the short way was tested with."""
SHORT = KNOWN[0] <= numba.version_info.short <= KNOWN[1] and not os.environ.get("STRUCTGEN_PLAIN_NUMBA")
"""Is the short way taken?"""

_options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_inner_options: dict[str, Any] = {}
KERNELS: list[Any] = []
"""The kernels that Python calls, of the modules imported so far."""
announce()
if SHORT:
    from structgen.kernels.short_way import INNER_OPTIONS, OPTIONS
    from structgen.kernels.store import Store

    _options |= OPTIONS
    _inner_options |= INNER_OPTIONS


def kernel(function: _F) -> _F:
    """A compiled function that Python calls; it is kept on disk. `.py_func` is its plain twin.

    In the short way a variable has one type in the whole function. Make it int64 wherever types meet: uint64 with int64
    would give a float, and a module's constant has a type of its own until `int64(...)` converts it.
    """
    compiled: Any = numba.njit(**_options)(function)
    KERNELS.append(compiled)
    if SHORT:
        compiled._cache = Store(compiled)
    else:
        try:
            compiled.enable_caching()
        except RuntimeError as error:
            tell_not_kept(str(error).partition(":")[2])
    return cast(_F, compiled)


def inner_kernel(function: _F) -> _F:
    """A function that only kernels call: it is inlined into them, and not kept by itself.

    Python must not call it: in the short way it has no machine code, and numba does not check that.
    """
    return cast(_F, numba.njit(**_options, **_inner_options)(function))


@contextmanager
def no_compilation() -> Iterator[bool]:
    """A block in which no thread begins to compile a kernel; it gives False, at once, if one compiles already.

    For raising an exception in a thread from outside: that leaves our own tables right, but not numba's.
    """
    lock: Any = global_compiler_lock._lock
    free = lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            lock.release()
