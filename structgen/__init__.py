"""structgen: a language model's output as a typed value.

A name is imported when it is first used, so `import structgen` imports neither torch nor transformers. `__init__.pyi`
lists the names and their modules.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import get_data

__version__ = "0.1.0"

_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_HOME_OF = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", _STUB, re.MULTILINE)}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from structgen.waiting import waiting

    with waiting(f"importing what {name} needs"):
        value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
