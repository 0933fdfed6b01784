"""What a user gets from a wheel or a source distribution: built in one place, installed in another, used elsewhere.

    python .ci/release_check.py

The wheel is built from the checkout, and once more from the source distribution, each with pip's isolation. Each is
installed into an environment of its own, which finds torch and the other dependencies in the environment that runs
this. Then two processes at once generate a first value: as another user where this one is root, without a home, outside
the checkout, and where only a temporary folder can be written. Nothing may be compiled or written.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST_VALUE = """
import resource, sys
import structgen as sg
from structgen.demo.tasks import Person
from structgen.kernels import COMPILED

assert COMPILED, "the kernels of the wheel are missing"
assert sg.__file__.startswith(sys.argv[1]), sg.__file__
ask = [{"role": "user", "content": "Extract the person: name, age, city.\\nText: Ada Moreau, 36, lives in Lyon."}]
person = sg.generate(sg.load("demo"), ask, Person)
assert repr(person) == "Person(name='Ada Moreau', age=36, city='Lyon')", person
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MB")
"""
AS_NOBODY = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
]  # fmt: skip
"""Runs a command as a user who may read everything, for the environment may lie below root's home, and own nothing."""


def run(*command: str | Path, **options: object) -> None:
    subprocess.run([str(each) for each in command], check=True, **options)  # type: ignore[call-overload]


def files(folder: Path) -> dict[str, float]:
    """The files below a folder, and when each was changed."""
    return {str(path): path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}


def built(work: Path) -> dict[str, Path]:
    """The wheel of the checkout, and that of its source distribution."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    tree = work / "a checkout"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", ".venv*", "build", "*.so", "__pycache__", "site"))
    run(*pip, "wheel", "--no-deps", "--wheel-dir", work / "wheel", tree)
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", work / "sdist", cwd=tree)
    (source,) = (work / "sdist").glob("*.tar.gz")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", work / "from sdist", source)
    shutil.rmtree(tree)
    return {name: next((work / name).glob("*.whl")) for name in ("wheel", "from sdist")}


def check(work: Path, name: str, wheel: Path) -> None:
    """Installs a wheel, and has two processes use it at once."""
    home = work / f"environment {name}"
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    target = ["--target", site, "--no-deps", "--no-index", "--no-compile", wheel]
    run(sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *target)
    below = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(below) + "\n", encoding="utf-8")
    scratch = work / f"scratch {name}"
    scratch.mkdir(mode=0o777)
    scratch.chmod(0o777)
    run("chmod", "-R", "a-w,a+rX", home)
    before = files(home)
    as_other = AS_NOBODY if os.geteuid() == 0 and shutil.which("setpriv") else []
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1", "HOME": "/nonexistent"}
    command = [*as_other, str(home / "bin" / "python"), "-W", "error::RuntimeWarning", "-c", FIRST_VALUE, str(site)]
    both = [
        subprocess.Popen(command, cwd="/", env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    for process in both:
        said, _ = process.communicate(timeout=300)
        print(f"{name}: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB: {said.strip()}")
        assert process.returncode == 0, f"exit status {process.returncode}"
    assert files(home) == before, "something was written into the environment"
    assert not files(scratch), f"files were left behind: {list(files(scratch))}"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="release check ") as folder:
        work = Path(folder)
        work.chmod(0o755)
        for name, wheel in built(work).items():
            check(work, name, wheel)


if __name__ == "__main__":
    main()
