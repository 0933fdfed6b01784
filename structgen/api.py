"""The typed face: `load` and `generate`. No algorithm lives here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from pydantic import ValidationError

from structgen.constraints import Constraint, JsonSchema
from structgen.decoding.generation import Generation
from structgen.decoding.grammars import grammar_for
from structgen.decoding.loop import Run, decode
from structgen.decoding.model import Model, as_model, load
from structgen.decoding.prompts import encode, is_batch
from structgen.decoding.session import Session
from structgen.errors import OptionError, RunError, SchemaError, StructgenError
from structgen.options import Limits, Sampling, Whitespace
from structgen.schema.types import from_type

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from typing_extensions import TypedDict, Unpack

    from structgen.constraints import Choice, Regex

    Message = dict[str, Any]
    Prompt = str | list[int] | list[Message]
    Prompts = list[str] | list[list[int]] | list[list[Message]]
    AnyModel = Model | PreTrainedModel
    Text = Regex | Choice
    YES = Literal[True]
    NO = Literal[False]

    class Options(TypedDict, total=False):
        """The keyword arguments that every form of `generate` takes."""

        tokenizer: Any
        sampling: Sampling | Sequence[Sampling]
        limits: Limits
        whitespace: Whitespace
        order: str | Sequence[str]


__all__ = ["Generation", "Model", "generate", "load"]

T = TypeVar("T")

GREEDY = Sampling()
LIMITS = Limits()


@overload
def generate(
    model: AnyModel,
    prompt: Prompt,
    schema: Text | None = None,
    *,
    details: NO = False,
    **options: Unpack[Options],
) -> str: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> Generation[str]: ...
@overload
def generate(
    model: AnyModel,
    prompt: Prompts,
    schema: Text | None = None,
    *,
    details: NO = False,
    **options: Unpack[Options],
) -> list[str]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> list[Generation[str]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: type[T], *, details: NO = False, **options: Unpack[Options]
) -> T: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: type[T], *, details: YES, **options: Unpack[Options]
) -> Generation[T]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: type[T], *, details: NO = False, **options: Unpack[Options]
) -> list[T]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: type[T], *, details: YES, **options: Unpack[Options]
) -> list[Generation[T]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: object, *, details: NO = False, **options: Unpack[Options]
) -> Any: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: object, *, details: YES, **options: Unpack[Options]
) -> Generation[Any]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: object, *, details: NO = False, **options: Unpack[Options]
) -> list[Any]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: object, *, details: YES, **options: Unpack[Options]
) -> list[Generation[Any]]: ...
def generate(
    model: Any,
    prompt: Any,
    schema: Any = None,
    *,
    tokenizer: Any = None,
    sampling: Sampling | Sequence[Sampling] = GREEDY,
    limits: Limits = LIMITS,
    whitespace: Whitespace = Whitespace.SPACED,
    order: str | Sequence[str] = "schema",
    details: bool = False,
) -> Any:
    """Generates a value that satisfies `schema`: never text that fails to parse.

    Args:
        model: what `load` gave, or a transformers causal model with `tokenizer=`.
        prompt: a string, chat messages (dicts with role and content), token ids, or a list of any of those,
            which runs as one batch.
        schema: a Pydantic model or any other type that Pydantic knows, a JSON Schema as a dict, a constraint
            (`JsonSchema`, `Regex`, `Choice`), or None for plain text.
        tokenizer: of a bare transformers model.
        sampling: how tokens are drawn, greedily by default; a list gives each prompt of a list its own.
        limits: bounds of the run.
        whitespace: where JSON has white space; as `json.dumps` writes it by default.
        order: of an object's keys: "schema", "any", or a list of names.
        details: return `Generation`s, with text, token ids, finish reason and costs beside the value.

    Returns:
        A type's value through Pydantic; parsed JSON for a dict or `JsonSchema`; a string for the other
        constraints and for plain text. A list of them for a list of prompts.

    Raises:
        RequestError: the schema, an option, the model or the prompt cannot work; nothing has run.
        BudgetExhausted: `max_new_tokens` came before the value was complete.
        RunError: the run failed in another way. A failed prompt of a list does not stop the others: the first
            failure is raised when all are done; with `details=True` each is its row's `error` instead.
    """
    owner = as_model(model, tokenizer)
    target = _target(schema, whitespace, order)
    many = is_batch(prompt)
    rows = _rows(owner, prompt if many else [prompt], many)
    ways = _per_row(sampling, len(rows))
    _require_type("limits", limits, Limits)
    grammar = None if target.constraint is None else grammar_for(target.constraint, owner.vocabulary)
    sessions = [
        Session(
            ids,
            owner.vocabulary,
            matcher=None if grammar is None else grammar.matcher(),
            sampling=way,
            **_bounds(owner, ids, limits),
        )
        for ids, way in zip(rows, ways, strict=True)
    ]
    run = decode(owner.module, owner.vocabulary, sessions, record=details)
    results = [_generation(target, session, run, row) for row, session in enumerate(sessions)]
    if not (details and many):
        _raise_first_error(results)
    values = results if details else [result.value for result in results]
    return values if many else values[0]


@dataclass(frozen=True, slots=True)
class _Target(Generic[T]):
    """What the text must be, and how it becomes a value."""

    constraint: Constraint | None
    parse: Callable[[str], T]


def _target(schema: Any, whitespace: Whitespace, order: str | Sequence[str]) -> _Target[Any]:
    _require_type("whitespace", whitespace, Whitespace)
    given = isinstance(schema, Constraint) and not isinstance(schema, type)
    if given or schema is None:
        if whitespace != Whitespace.SPACED or order != "schema":
            where = f"give them to {type(schema).__name__}(...)" if given else "plain text has none"
            raise OptionError(f"whitespace= and order= shape a schema's JSON: {where}")
        return _Target(schema, _json_parser(schema.schema) if isinstance(schema, JsonSchema) else str)
    constraint = JsonSchema(schema, order=order, whitespace=whitespace)
    return _Target(constraint, _json_parser(schema))


def _json_parser(schema: Any) -> Callable[[str], Any]:
    """Parsed JSON for a JSON Schema, a validated value for a type."""
    if isinstance(schema, (dict, bool)):
        return json.loads
    if isinstance(schema, (str, bytes, int, float, list, tuple)):
        raise SchemaError(f"{schema!r:.80} is no schema: expected a type, a JSON Schema dict or a constraint")
    validate: Callable[[str], Any] = from_type(schema)[1].validate_json
    return validate


def _rows(model: Model, prompts: Sequence[Any], many: bool) -> list[list[int]]:
    names = [f"prompt[{row}]" if many else "prompt" for row in range(len(prompts))]
    return [encode(model, prompt, name) for prompt, name in zip(prompts, names, strict=True)]


def _per_row(sampling: Sampling | Sequence[Sampling], n: int) -> Sequence[Sampling]:
    if isinstance(sampling, Sampling):
        return [sampling] * n
    if not isinstance(sampling, (list, tuple)) or not all(isinstance(way, Sampling) for way in sampling):
        raise OptionError(f"sampling={sampling!r:.80}: expected Sampling(...) or a list of them")
    if len(sampling) != n:
        raise OptionError(f"sampling has {len(sampling)} entries for {n} prompts")
    return sampling


def _bounds(model: Model, ids: Sequence[int], limits: Limits) -> dict[str, Any]:
    """A session's budget and what sets it; the last token is never read: it needs no place in the context."""
    room = limits.max_new_tokens if model.context is None else model.context - len(ids) + 1
    if room < limits.max_new_tokens:
        return {"budget": room, "bound": "the model's context, tokens left"}
    return {"budget": limits.max_new_tokens}


def _generation(target: _Target[Any], session: Session, run: Run, row: int) -> Generation[Any]:
    text, value, error = session.text(), None, session.error
    if error is None:
        try:
            value = target.parse(text)
        except (ValidationError, ValueError) as refusal:
            error = RunError(f"the text is complete, but its type refuses it: {refusal}; text: {text!r:.200}")
            error.__cause__ = refusal
    return Generation(
        value=value,
        text=text,
        token_ids=tuple(session.tokens),
        prompt_tokens=len(session.prompt),
        finish="error" if error is not None else session.finish or "error",
        logprobs=tuple(run.logprobs[row][: len(session.tokens)]) if run.logprobs else (),
        stats=run.stats,
        error=error,
    )


def _raise_first_error(results: Sequence[Generation[Any]]) -> None:
    failed: list[tuple[int, StructgenError]] = [
        (row, result.error) for row, result in enumerate(results) if result.error is not None
    ]
    if not failed:
        return
    row, error = failed[0]
    if len(results) > 1:
        others = f" ({len(failed)} of {len(results)} prompts failed)" if len(failed) > 1 else ""
        error.args = (f"prompt[{row}]{others}: {error}", *error.args[1:])
    raise error


def _require_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise OptionError(f"{name}={value!r:.80}: expected {kind.__name__}(...)")
