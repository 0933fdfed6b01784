"""The decorators of all kernels, and the one door to numba's inside: other folders import only its types.

- `short_way`: numba's compiler, cut down to what kernels of integers and arrays need; a first use takes half as long.
- `contents`: what a kernel on disk is made of, so that it is compiled again when that changes.
- `shipped`: kernels that were compiled when the package was built.
- `announcing`: what a user sees while kernels are compiled.
- `views`: arrays by address.

The short way subclasses private parts of numba, so it is taken only with versions that it was run on (`KNOWN`). With
all others the decorators are `numba.njit` with documented options, and the kernels mean the same. To force that, set
the environment variable STRUCTGEN_PLAIN_NUMBA to anything: for finding out whether the short way is at fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock

from structgen.kernels.announcing import announce

_F = TypeVar("_F", bound=Callable[..., Any])

KNOWN = (0, 62), (0, 68)
"""The first and the last version of numba that the short way was run on."""
SHORT = KNOWN[0] <= numba.version_info.short <= KNOWN[1] and not os.environ.get("STRUCTGEN_PLAIN_NUMBA")
"""Is the short way taken?"""

_options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_inner_options: dict[str, Any] = {}
KERNELS: list[Any] = []
"""Those of the modules imported so far that Python calls."""
announce()
if SHORT:
    from structgen.kernels.short_way import INNER_OPTIONS, OPTIONS, keep_by_contents

    _options |= OPTIONS
    _inner_options |= INNER_OPTIONS


def kernel(function: _F) -> _F:
    """A compiled function that Python calls; it is kept on disk. `.py_func` is its plain twin.

    In the short way a variable has one type in all of the function: let it be int64 wherever it meets others (uint64
    with int64 would make a float, and a constant of a module has a type of its own until `int64` makes it a number).
    """
    compiled = numba.njit(cache=True, **_options)(function)
    KERNELS.append(compiled)
    if SHORT:
        keep_by_contents(compiled)
    return cast(_F, compiled)


def inner_kernel(function: _F) -> _F:
    """`kernel` for what only kernels call: it becomes part of them, and is not kept by itself.

    Python must not call it: in the short way there is nothing to call, and numba does not look.
    """
    return cast(_F, numba.njit(**_options, **_inner_options)(function))


@contextmanager
def no_compilation() -> Iterator[bool]:
    """Within the block no thread begins to compile a kernel. False where one does already, which is not waited for.

    An exception that is raised in a thread from outside leaves our own tables right, but not numba's.
    """
    lock: Any = global_compiler_lock._lock
    free = lock.acquire(blocking=False)
    try:
        yield free
    finally:
        if free:
            lock.release()
