"""structgen: a language model's output as a typed value.

Names are loaded when they are first used: `import structgen` imports neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structgen.api import Cap, Event, Field, Generation, Model, agenerate, astream, generate, load, stream
    from structgen.batch_jobs.job import Extraction, extract_many
    from structgen.calling.conversation import Conversation, run
    from structgen.calling.streaming import CallEvent, stream_call
    from structgen.calling.turns import Reply, call
    from structgen.chat.call_format import CallFormat
    from structgen.chat.known import call_format
    from structgen.constraints.basic import Choice, JsonSchema, Regex
    from structgen.constraints.compositions import Repeat, Sequence, SpecialToken, Text, Union
    from structgen.constraints.languages import ByteMachine, Lark, Machine
    from structgen.endings.closing import closing_tokens
    from structgen.errors import (
        BudgetExhausted,
        BudgetWarning,
        CallbackError,
        CallSyntaxError,
        DeadEnd,
        LimitExceeded,
        LogitsError,
        NoExactSample,
        OptionError,
        PerformanceWarning,
        RefusedToken,
        RequestError,
        RunError,
        SchemaError,
        StructgenError,
        TokenRejected,
        UnsatisfiableSchema,
        UnsupportedSchema,
        ValidationFailed,
        ValidatorError,
        VocabularyError,
    )
    from structgen.explanation import Explanation, explain
    from structgen.guards import BannedPattern, BannedWords, Guard, GuardMask, Veto
    from structgen.guards.validators import ValidatorGuard
    from structgen.masks import Grammar, Matcher, fill_masks, why_refused
    from structgen.options import Beams, Limits, Sampling, Thinking, Whitespace
    from structgen.phrases.kinds import AnyOf, BytePhrase, Gap, Ordered, Phrase, Template
    from structgen.remote import Remote
    from structgen.rendering import render
    from structgen.tools.tool import Tool, ToolCall, tool
    from structgen.vocabulary import Vocabulary

__version__ = "0.1.0"

_HOMES = {
    "remote": ("Remote",),
    "batch_jobs.job": ("Extraction", "extract_many"),
    "api": ("Cap", "Event", "Field", "Generation", "Model", "agenerate", "astream", "generate", "load", "stream"),
    "constraints.compositions": ("Repeat", "Sequence", "SpecialToken", "Text", "Union"),
    "constraints.basic": ("Choice", "JsonSchema", "Regex"),
    "guards.validators": ("ValidatorGuard",),
    "errors": (
        "BudgetExhausted",
        "BudgetWarning",
        "CallbackError",
        "CallSyntaxError",
        "DeadEnd",
        "LimitExceeded",
        "LogitsError",
        "NoExactSample",
        "OptionError",
        "PerformanceWarning",
        "RefusedToken",
        "RequestError",
        "RunError",
        "SchemaError",
        "StructgenError",
        "TokenRejected",
        "UnsatisfiableSchema",
        "UnsupportedSchema",
        "ValidationFailed",
        "ValidatorError",
        "VocabularyError",
    ),
    "explanation": ("Explanation", "explain"),
    "guards": ("BannedPattern", "BannedWords", "Guard", "GuardMask", "Veto"),
    "constraints.languages": ("ByteMachine", "Lark", "Machine"),
    "masks": ("Grammar", "Matcher", "fill_masks", "why_refused"),
    "endings.closing": ("closing_tokens",),
    "options": ("Beams", "Limits", "Sampling", "Thinking", "Whitespace"),
    "phrases.kinds": ("AnyOf", "BytePhrase", "Gap", "Ordered", "Phrase", "Template"),
    "tools.tool": ("Tool", "ToolCall", "tool"),
    "chat.call_format": ("CallFormat",),
    "chat.known": ("call_format",),
    "calling.conversation": ("Conversation", "run"),
    "calling.streaming": ("CallEvent", "stream_call"),
    "calling.turns": ("Reply", "call"),
    "rendering": ("render",),
    "vocabulary": ("Vocabulary",),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnyOf",
    "BannedPattern",
    "BannedWords",
    "Beams",
    "BudgetExhausted",
    "BudgetWarning",
    "ByteMachine",
    "BytePhrase",
    "CallEvent",
    "CallFormat",
    "CallSyntaxError",
    "CallbackError",
    "Cap",
    "Choice",
    "Conversation",
    "DeadEnd",
    "Event",
    "Explanation",
    "Extraction",
    "Field",
    "Gap",
    "Generation",
    "Grammar",
    "Guard",
    "GuardMask",
    "JsonSchema",
    "Lark",
    "LimitExceeded",
    "Limits",
    "LogitsError",
    "Machine",
    "Matcher",
    "Model",
    "NoExactSample",
    "OptionError",
    "Ordered",
    "PerformanceWarning",
    "Phrase",
    "RefusedToken",
    "Regex",
    "Remote",
    "Repeat",
    "Reply",
    "RequestError",
    "RunError",
    "Sampling",
    "SchemaError",
    "Sequence",
    "SpecialToken",
    "StructgenError",
    "Template",
    "Text",
    "Thinking",
    "TokenRejected",
    "Tool",
    "ToolCall",
    "Union",
    "UnsatisfiableSchema",
    "UnsupportedSchema",
    "ValidationFailed",
    "ValidatorError",
    "ValidatorGuard",
    "Veto",
    "Vocabulary",
    "VocabularyError",
    "Whitespace",
    "agenerate",
    "astream",
    "call",
    "call_format",
    "closing_tokens",
    "explain",
    "extract_many",
    "fill_masks",
    "generate",
    "load",
    "render",
    "run",
    "stream",
    "stream_call",
    "tool",
    "why_refused",
]


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from structgen.waiting import waiting

        with waiting(f"importing what {name} needs"):
            value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
