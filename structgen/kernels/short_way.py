"""The short way through numba's compiler: cut down to what kernels of integers and arrays need.

Numba needs 65 s of CPU for our kernels where this needs 28 s, all of it before the first mask on a machine. Four things
take most of that time and do nothing for our kernels; behind each stands what 28 s become without it:

- Every operator in the source is looked up among some sixty overloads, again at each place. `_Remembering` is numba's
  typing context, but each operator remembers its signature for given types. 38 s.
- Passes for closures, literals, rewrites, single assignment and objects' lifetimes: `_Compiler` leaves them out. 38 s.
- A kernel that only kernels call is optimised, made into machine code and written to disk although it is inlined at
  every call: `_InnerCode` keeps only its intermediate code. 40 s.
- A kernel is optimised three times, twice for the sake of reference counts: `_KernelCode` does it once. 34 s.

All of this subclasses private parts of numba, so `kernels` imports it only with versions that it was tested with.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from numba.core import typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typing import Context
from numba.extending import models, register_model


class _Operator(types.Function):
    """A function of numba's that remembers its signature for each tuple of argument types."""

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

    def _lookup_global(self, name: Any) -> Any:
        named = super()._lookup_global(name)
        if type(named) is not types.Function:
            return named
        if named not in self._operators:
            self._operators[named] = _Operator(named.templates)
        return self._operators[named]


@cache
def _remembering(context: Context) -> Any:
    """A context that shares all else with `context`."""
    remembering: Any = copy.copy(context)
    remembering.__class__ = _Remembering
    remembering._operators = {}
    return remembering


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
        """Left to the kernels that it is inlined into."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def codegen(self) -> Any:
        """Numba asks the code generator only for `set_env`, which is here."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Does nothing: no machine code here looks for Python objects."""


class _Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's passes from bytecode to machine code."""

    def define_pipelines(self) -> list[PassManager]:
        """One pipeline, without a fallback to Python objects."""
        state = self.state
        state.typingctx = _remembering(state.typingctx)
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
"""Further options of kernels that only kernels call."""
