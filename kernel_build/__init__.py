"""Translates the kernels to one Cython module, from which `setup.py` makes an extension.

A kernel is a function of Python that is decorated with `kernel` or `inner_kernel` (see `structgen.kernels`, which says
what it may contain). Its numbers become int64_t, its arrays a pointer with the array's shape, and the constants of its
module literals. All kernels are in one module, so that the C compiler can inline those of other files.

- `sources`: the modules, read but not imported: what names, constants and annotations mean.
- `bodies`: the statements and expressions of one kernel.
- `translation`: all of them, and the functions that Python calls.
"""
