"""structgen: a language model's output as a typed value.

A name is imported when it is first used, so `import structgen` imports neither torch nor transformers. `__init__.pyi`
lists the names and their modules, and the modules that hold the rest: `sg.engine.Vocabulary`, `sg.errors.DeadEnd`.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from pkgutil import get_data

__version__ = "0.3.0.dev0"

_STUB = (get_data(__name__, "__init__.pyi") or b"").decode()
_HOME_OF = {name: home for home, name in re.findall(r"^from (structgen\.\S+) import (\w+) as", _STUB, re.MULTILINE)}
_MODULES = re.findall(r"^from structgen import (\w+) as", _STUB, re.MULTILINE)
__all__ = sorted(_HOME_OF)

_MOVED = {
    "engine": (
        "CanonicalMatcher Grammar GuardMask Matcher RefusedToken ValidatorGuard Vocabulary closing_tokens "
        "fill_masks why_refused"
    ),
    "errors": (
        "BudgetExhausted CallSyntaxError CallbackError DeadEnd LimitExceeded LogitsError MessageWarning "
        "NoExactSample PerformanceWarning PromptTooLong Reason RequestError RunError SchemaError "
        "SchemaWarning TokenRejected ToolError UnsatisfiableSchema UnsupportedSchema ValidatorError "
        "VocabularyError"
    ),
    "constraints": "ByteMachine Capture EBNF GBNF Machine SpecialToken",
    "guards": "Guard Veto",
    "phrases": "AnyOf BytePhrase Gap Ordered Template",
    "chat": "CallFormat StructuralTag call_format",
    "records": (
        "Absence Calibration CallEvent Cap Classification Conversation Evaluation Event Explanation "
        "Extraction Field HttpRequest Loss PlainText Portable Reply"
    ),
    "classifying": "calibration_error",
    "absence": "absence_thresholds",
}
"""Names that were here in 0.1, by the module that has them now; they keep working from here until 0.3."""

_NAMES_ELSEWHERE = {
    "guidance": "gen select json user assistant one_or_more zero_or_more optional substring",
    "instructor": "from_openai from_provider patch Mode create create_partial create_iterable llm_validator",
    "outlines": "from_transformers from_llamacpp from_vllm Generator Application regex cfg json_schema",
    "vllm": "LLM SamplingParams",
}
"""Names of other libraries: the page of `docs/how-to/migrate` says what to use instead."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"structgen.{name}")
    for home, moved in _MOVED.items():
        if name in moved.split():
            warnings.warn(f"structgen.{name} is structgen.{home}.{name} now", DeprecationWarning, stacklevel=2)
            return getattr(import_module(f"structgen.{home}"), name)
    if name not in _HOME_OF:
        pages = [page for page, names in _NAMES_ELSEWHERE.items() if name in names.split()]
        advice = "".join(f"; docs/how-to/migrate/{page}.md says what to use instead" for page in pages)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")
    from structgen.waiting import waiting

    with waiting(f"importing what {name} needs"):
        value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
