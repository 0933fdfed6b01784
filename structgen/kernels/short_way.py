"""The short way through numba's compiler: cut down to what kernels of integers and arrays need.

Seventy kernels take numba 20 s of front end: they would all be paid at the first mask on a machine. Four things take
most of it, and none of them does anything here:

- Every operator in the source is looked up among some sixty overloads, again in each place. `_Remembering` is numba's
  typing context, but each operator remembers what it found for its types.
- Passes for closures, literals, rewrites, single assignment, lifetimes of objects: `_Compiler` leaves them out.
- A kernel called by kernels is optimised, made into machine code and written to disk although it is inlined wherever
  it is called: `_InnerCode` only keeps it for that.
- A kernel is optimised three times, twice of them for the sake of reference counts: `_KernelCode` does it once.

Numba takes a kernel from disk until its own file changes, but constants and kernels that became part of it may stand in
other files. `_KernelFile` goes by what the kernel is made of (`contents`), wherever that stands.

All of this subclasses private parts of numba: `kernels` imports it only with versions that it was run on.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

from numba.core import typed_passes, types, untyped_passes
from numba.core.caching import IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typing import Context
from numba.extending import models, register_model

from structgen.kernels.contents import contents
from structgen.kernels.shipped import PORTABLE, runs_here, shipped_folder


def keep_by_contents(compiled: Any) -> None:
    """Keep a kernel on disk as long as all that it is made of is the same."""
    compiled._cache._cache_file = _KernelFile(compiled)


def ship(compiled: Any) -> None:
    """Write what is compiled of a kernel to the folder that the package brings along (see `shipped`)."""
    cache = compiled._cache
    file = cache._cache_file.shipped()
    for signature, result in compiled.overloads.items():
        key = cache._index_key(signature, result.target_context.codegen())
        file.save((key[0], PORTABLE, key[2]), cache._impl.reduce(result))


class _KernelFile(IndexDataCacheFile):  # type: ignore[misc]
    """A kernel on disk, good as long as all that it is made of is the same.

    Its name has no line number, as numba's have: what stands above a kernel in its file is nothing to it.
    """

    def __init__(self, compiled: Any) -> None:
        function, abi = compiled.py_func, getattr(sys, "abiflags", "")
        name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._base = f"{name}.{sys.implementation.cache_tag}{abi}"
        super().__init__(compiled._cache.cache_path, self._base, "")
        self._kernel = compiled

    def load(self, key: Any) -> Any:
        """What is on this machine's disk, or else came with the package; None where it must be compiled."""
        kept = super().load(key)
        if kept is not None or not runs_here():
            return kept
        return self.shipped().load((key[0], PORTABLE, key[2]))

    def shipped(self) -> Any:
        """The kernel as it came with the package; `load` has told what it is made of now."""
        return IndexDataCacheFile(str(shipped_folder()), self._base, self._source_stamp)

    def _load_index(self) -> Any:
        """What is on disk; nothing where that was made of something else.

        A kernel's module is complete when it is called first: only then is it known what its names mean.
        """
        self._source_stamp = contents(self._kernel)
        return super()._load_index()


class _Operator(types.Function):
    """A function of numba's that remembers its signature for the types it was called with."""

    def __init__(self, template: Any) -> None:
        super().__init__(template)
        self._signatures: dict[tuple[Any, ...], Any] = {}

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature for these types."""
        if kws:
            return super().get_call_type(context, args, kws)
        signature = self._signatures.get(tuple(args))
        if signature is None:
            signature = self._signatures[tuple(args)] = super().get_call_type(context, args, kws)
        return signature


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
        named = super()._lookup_global(name)
        if type(named) is not types.Function:
            return named
        if named not in self._operators:
            self._operators[named] = _Operator(named.templates)
        return self._operators[named]


_contexts: list[_Remembering] = []


class _KernelCode(JITCodeLibrary):  # type: ignore[misc]
    """The machine code of a kernel."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _InnerCode(_KernelCode):
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
        library = _InnerCode if state.flags.no_cpython_wrapper else _KernelCode
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


OPTIONS: dict[str, Any] = {
    "no_cfunc_wrapper": True, "_nrt": False, "no_rewrites": True, "pipeline_class": _Compiler,
}  # fmt: skip
"""For `numba.njit`, of all kernels."""
INNER_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True}
"""Of those that only kernels call."""
