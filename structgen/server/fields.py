"""The fields of requests as clients send them: those with another name, without an effect, and that cannot work.

`wire` declares the fields that are honoured; the tables here have all others that OpenAI's SDK and vLLM's clients know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from structgen.arguments import options_with
from structgen.errors import quoted
from structgen.options import Sampling
from structgen.server.problems import Problem, invalid

IGNORED = {
    "audio": "answers are text",
    "background_options": "there is no background mode",
    "client_metadata": "it is about the client",
    "context_management": "a conversation is read as it is sent",
    "max_tool_calls": "the server calls no tools itself",
    "moderation": "nothing is moderated",
    "prediction": "forced text is predicted anyway",
    "prompt_cache_options": "what is cached is the model's to say",
    "truncation": "a prompt that is too long is refused",
    "verbosity": "ask for it in the prompt",
    "access_programs": "there are none",
    "cache_control": "all of a prompt is cached",
    "diagnostics": "there are none",
    "inference_geo": "the server is where it is",
    "speed": "there is one speed",
    "user_profile_id": "the server knows no users",
    "workspace_id": "the server knows no workspaces",
    "betas": "there are no versions of the interface",
    "billing_policy": "nothing is billed",
    "compaction": "the server keeps no context",
    "fallback_credit_token": "nothing is billed",
    "fallbacks": "there is one model",
    "text.verbosity": "ask for it in the prompt",
    "reasoning.context": "the answer has the whole thinking",
    "reasoning.generate_summary": "the answer has the whole thinking",
    "reasoning.mode": "there is one mode",
    "output_config.task_budget": "max_tokens is the budget",
}
"""Fields that change nothing here, and why. An answer names them in the header `X-Structgen-Ignored`."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "add_generation_prompt": (True,),
    "best_of": (1,),
    "continue_final_message": (False,),
    "echo": (False,),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1, 1.0),
    "min_tokens": (0,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "stop_token_ids": ([],),
    "suffix": ("",),
    "use_beam_search": (False,),
}
"""Fields that are taken with these values only, with which they change nothing."""

RENAMED = {
    "chat_template_kwargs": "template_options",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "ebnf": "grammar",
    "grammar": "grammar",
    **{name: name for name in options_with(Sampling, "vllm")},
}
"""Fields of vLLM's, SGLang's and llama.cpp's interfaces -> the options of the field `structgen` that mean the same."""

_CONSTRAINTS = re.compile(
    r"schema|grammar|regex|guided|structured|constrain|format|pattern|choice|tool|function|stop|logit|bias|penalt|ban"
    r"|bad_words|force|beam|sampl|temperature|top_|min_|max_|^n$|^seed$|suffix|prefix|echo|continue",
    re.IGNORECASE,
)
"""What the name of an unknown field has that may constrain the answer."""
_CONSTRAINED = ("structgen", "response_format", "text", "output_config", "output_format", "thinking", "stream_options")
"""Fields inside which all unknown ones are constraints."""
_DESCRIBED = ("messages", "input", "system")
"""Fields inside which none is: they say what was said."""


def constrains(place: Sequence[str]) -> bool:
    """May an unknown field say what the answer must be? Then it cannot be ignored.

    Args:
        place: the names and numbers on the way to it.
    """
    return place[0] in _CONSTRAINED or (place[0] not in _DESCRIBED and any(map(_CONSTRAINTS.search, place)))


DATA = {
    "schema", "parameters", "arguments", "structgen", "json", "logit_bias", "metadata", "chat_template_kwargs",
    "guided_json", "structured_outputs", "input_schema", "input_examples", "client_metadata", "inputSchema",
}  # fmt: skip
"""Fields whose content is the client's own: null may mean something there."""


def translated(given: Any) -> tuple[Any, list[str]]:
    """Returns the body of a request with the fields that `wire` declares, and the names of those without an effect.

    Raises:
        Problem: a field contradicts another one.
    """
    if not isinstance(given, dict):
        return given, []
    body = {name: _without_nulls(value, name) for name, value in given.items() if value is not None}
    ignored = [name for name in IGNORED if _removed(body, *name.split("."))]
    for name, values in NEUTRAL.items():
        if name in body and any(body[name] == value and type(body[name]) is type(value) for value in values):
            del body[name]
    _rename(body)
    _structured(body)
    return body, ignored


def _removed(body: Any, *path: str) -> bool:
    """Removes a field, given the names on the way to it. Returns whether it was there."""
    for name in path[:-1]:
        body = body.get(name)
        if not isinstance(body, dict):
            return False
    return body.pop(path[-1], body) is not body


def _without_nulls(value: Any, name: str) -> Any:
    """Returns a field without members that are null or `cache_control`; messages keep the null of their content."""
    if name in DATA or (name == "input" and isinstance(value, dict)):
        return value
    if isinstance(value, dict):
        return {
            key: _without_nulls(each, key)
            for key, each in value.items()
            if key != "cache_control" and (each is not None or key == "content")
        }
    return [_without_nulls(each, name) for each in value] if isinstance(value, list) else value


def _rename(body: dict[str, Any]) -> None:
    """Moves vLLM's fields to where the server reads them."""
    for name, own in RENAMED.items():
        if name in body:
            value = body.pop(name)
            _set_extra(body, name, own, 0 if name == "top_k" and value == -1 else value)


def _set_extra(body: dict[str, Any], name: str, own: str, value: Any) -> None:
    extras = body.setdefault("structgen", {})
    if not isinstance(extras, dict):
        return
    if own in extras and extras[own] != value:
        raise invalid(name, f"structgen.{own} says otherwise: give one of them")
    body["structgen"] = {**extras, own: value}


def _structured(body: dict[str, Any]) -> None:
    """Reads vLLM's `guided_json` and `structured_outputs`."""
    outputs = body.pop("structured_outputs", None)
    if outputs is not None and not isinstance(outputs, dict):
        raise invalid("structured_outputs", f"expected an object, found {quoted(outputs)}")
    given = {"json": body.pop("guided_json"), **(outputs or {})} if "guided_json" in body else dict(outputs or {})
    for name, value in given.items():
        if value is None:
            continue
        if name in ("regex", "choice", "grammar"):
            _set_extra(body, f"structured_outputs.{name}", name, value)
        elif name == "json":
            schema = json_of(value) if isinstance(value, str) else value
            format_ = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
            if body.setdefault("response_format", format_) != format_:
                raise invalid("structured_outputs.json", "response_format says otherwise: give one of them")
        elif name == "json_object" and value is True:
            body.setdefault("response_format", {"type": "json_object"})
        elif value is not False:
            message = f"structured_outputs.{name} is not known here: use json, json_object, regex, choice or grammar"
            raise Problem(400, message, "unknown_parameter", param=f"structured_outputs.{name}")


def json_of(text: str) -> Any:
    """Returns a schema that a client gives as JSON text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise invalid("structured_outputs.json", f"expected a JSON Schema, found {quoted(text)}") from None
