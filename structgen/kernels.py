"""The decorators of all kernels: numba's compiler, cut down to what kernels of integers and arrays need.

Seventy kernels take numba 20 s of front end: they would all be paid at the first mask on a machine. Four things take
most of it, and none of them does anything here:

- Every operator in the source is looked up among some sixty overloads, again in each place. `_Remembering` is numba's
  typing context, but each operator remembers what it found for its types.
- Passes for closures, literals, rewrites, single assignment, lifetimes of objects: `_Compiler` leaves them out.
- A kernel called by kernels is optimised, made into machine code and written to disk although it is inlined wherever
  it is called: `_Part` only keeps it for that.
- A kernel is optimised three times, twice of them for the sake of reference counts: `_Whole` does it once.

Numba takes a kernel from disk until its own file changes, but constants and kernels that became part of it may stand in
other files. `_KernelFile` goes by what the kernel is made of (`kernel_contents`), wherever that stands.

That is numba's inside, so only numbas that it was tried with are compiled like this (`KNOWN`); others compile the
kernels in their own way, to the same machine code but for its last details.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import typed_passes, types, untyped_passes
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typing import Context
from numba.extending import models, register_model

from structgen.kernel_contents import contents

_F = TypeVar("_F", bound=Callable[..., Any])

KNOWN = (0, 62), (0, 68)
"""The first and the last version of numba that compile kernels in the short way."""


def kernel(function: _F) -> _F:
    """A compiled function that Python calls; it is kept on disk. `.py_func` is its plain twin.

    Without single assignment a variable has one type in all of the function: let it be int64 wherever it meets
    others (uint64 with int64 would make a float).
    """
    compiled = numba.njit(cache=True, **_OPTIONS)(function)
    if _KNOWN:
        compiled._cache._cache_file = _KernelFile(compiled)
    return cast(_F, compiled)


class _KernelFile(IndexDataCacheFile):  # type: ignore[misc]
    """A kernel on disk, good as long as all that it is made of is the same.

    Its name has no line number, as numba's have: what stands above a kernel in its file is nothing to it.
    """

    def __init__(self, compiled: Any) -> None:
        function, abi = compiled.py_func, getattr(sys, "abiflags", "")
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        super().__init__(compiled._cache.cache_path, f"{name}.{sys.implementation.cache_tag}{abi}", "")
        self._kernel = compiled

    def _load_index(self) -> Any:
        """What is on disk; nothing where that was made of something else.

        A kernel's module is complete when it is called first: only then is it known what its names mean.
        """
        self._source_stamp = contents(self._kernel)
        return super()._load_index()


def inner_kernel(function: _F) -> _F:
    """`kernel` for what only kernels call: it becomes part of them, and is not kept by itself.

    Python must not call it: there is nothing to call, and numba does not look.
    """
    return cast(_F, numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function))


class _Operator(types.Function):
    """A function of numba's that remembers its signature for the types it was called with."""

    def __init__(self, template: Any) -> None:
        super().__init__(template)
        self._found: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature for these types."""
        if kws:
            return super().get_call_type(context, args, kws)
        found = self._found.get(tuple(args))
        if found is None:
            found = self._found[tuple(args)] = super().get_call_type(context, args, kws)
        return found


register_model(_Operator)(models.OpaqueModel)


class _Remembering(Context):  # type: ignore[misc]
    """Numba's typing context with an `_Operator` for every function."""

    _operators: dict[Any, _Operator]

    @staticmethod
    def of(context: Context) -> _Remembering:
        """One that shares all else with `context`."""
        if not _contexts:
            remembering = copy.copy(context)
            remembering.__class__ = _Remembering
            remembering._operators = {}
            _contexts.append(remembering)
        return _contexts[0]

    def _lookup_global(self, name: Any) -> Any:
        found = super()._lookup_global(name)
        if type(found) is not types.Function:
            return found
        if found not in self._operators:
            self._operators[found] = _Operator(found.templates)
        return self._operators[found]


_contexts: list[_Remembering] = []


class _Whole(JITCodeLibrary):  # type: ignore[misc]
    """The machine code of a kernel."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _Part(_Whole):
    """The intermediate code of a kernel that only kernels call, to be linked into them."""

    def _optimize_final_module(self) -> None:
        """Done in the kernels that it becomes part of."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """Stands for the code generator in the one thing that is asked of it."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """There is no machine code that would look for Python objects."""


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's passes from bytecode to machine code."""

    def define_pipelines(self) -> list[PassManager]:
        """One, and no way back to Python objects."""
        state = self.state
        state.typingctx = _Remembering.of(state.typingctx)
        state.targetctx = state.targetctx.subtarget(typing_context=state.typingctx)
        library = _Part if state.flags.no_cpython_wrapper else _Whole
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        passes = PassManager("kernel")
        for step in (
            untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
            typed_passes.NopythonTypeInference, typed_passes.AnnotateTypes,
            typed_passes.NativeLowering, typed_passes.NoPythonBackend,
        ):  # fmt: skip
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}
_KNOWN = KNOWN[0] <= numba.version_info.short <= KNOWN[1]
if _KNOWN:
    _OPTIONS |= {"no_rewrites": True, "pipeline_class": _Compiler}
