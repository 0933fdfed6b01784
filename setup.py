"""Builds the extension of the kernels; everything else about the package is in `pyproject.toml`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent))  # a build in isolation does not look here
from kernel_build.sources import kernel_files
from kernel_build.translation import translated

FLAGS = ["-O3", "-g0", "-fwrapv", "-fno-strict-aliasing"]
"""Numbers overflow in silence; the same memory is read as numbers of several sizes."""
COMPILER = str(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
FOUND = sys.platform == "win32" or shutil.which(COMPILER) is not None
"""Is there a C compiler? Windows has its own way to find one. Else the build asks for the package `ziglang`."""
STABLE = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Is the extension built for Python's stable ABI, so that one wheel serves 3.11 and all later versions?"""


class BuildKernels(build_ext):
    """Compiles with what this machine has, or with the package `ziglang`."""

    def run(self) -> None:
        if not FOUND:
            if not find_spec("ziglang"):
                sys.exit("structgen needs a C compiler to be built: install gcc or clang, or `pip install ziglang`")
            os.environ["CC"] = f"{sys.executable} -m ziglang cc"
            os.environ["LDSHARED"] = f"{os.environ['CC']} -shared"
        if self.inplace:
            own = Path(self.get_ext_fullpath("structgen._kernels")).name
            for other in Path("structgen").glob("_kernels.*"):  # Python prefers one of its own version
                if other.name != own:
                    other.unlink()
        super().run()

    def build_extensions(self) -> None:
        if self.compiler.compiler_type != "msvc":
            for extension in self.extensions:
                extension.extra_compile_args = FLAGS
        super().build_extensions()


def kernels() -> Extension:
    """The extension, whose source is written if it has changed."""
    source, text = Path("build", "_kernels.pyx"), translated()
    if not source.is_file() or source.read_text(encoding="utf-8") != text:
        source.parent.mkdir(exist_ok=True)
        source.write_text(text, encoding="utf-8")
    return Extension(
        "structgen._kernels",
        [str(source)],
        include_dirs=[np.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"), *STABLE * [("Py_LIMITED_API", "0x030B0000")]],
        py_limited_api=STABLE,
        depends=[str(file) for file in kernel_files()],
    )


setup(
    ext_modules=cythonize([kernels()]),
    cmdclass={"build_ext": BuildKernels},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {},
    setup_requires=[] if FOUND else ["ziglang"],
)
