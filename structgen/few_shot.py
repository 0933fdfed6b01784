"""Few-shot examples, written as turns of a conversation before the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from structgen.arguments import left_out, require, require_flag, require_unicode
from structgen.constraints.basic import JsonSchema
from structgen.decoding.call_options import CallOptions
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.errors import OptionError, TokenRejected, quoted, refused_part
from structgen.fitting import advice
from structgen.given_prompts import GivenPrompts, Message
from structgen.options import Whitespace
from structgen.rendering import schema_text
from structgen.vocabulary.vocabulary import single_bytes


def shown_prompts(prompt: Any, schema: Any, options: dict[str, Any]) -> tuple[GivenPrompts, CallOptions]:
    """The prompts of a call, with the schema and the examples where `prompt_schema` and `examples` ask for them.

    Args:
        options: those that are given, by name; all of them are known.

    Returns:
        The prompts, and the other options.
    """
    shows, examples = options.pop("prompt_schema", False), options.pop("examples", ())
    call = CallOptions(**options)
    require_flag("prompt_schema", shows)
    prompts = GivenPrompts.of(prompt)
    if not left_out(examples):
        turns = example_turns(examples, schema, call.whitespace, call.order)
        prompts = prompts.mapped(lambda each: each.with_examples(turns))
    if shows:
        text = schema_text(schema)
        prompts = prompts.mapped(lambda each: each.with_schema(text))
    return prompts, call


def pairs(examples: Any) -> list[tuple[str, Any]]:
    """Returns the examples as pairs of a user's text and the value it should give."""
    expected = "a list of pairs: a user's text, and the value that it should give"
    require(isinstance(examples, (list, tuple)), "examples", examples, expected)
    for place, each in enumerate(examples):
        pair = isinstance(each, (list, tuple)) and len(each) == 2 and isinstance(each[0], str) and bool(each[0])
        require(pair, f"examples[{place}]", each, "a user's text, and the value that it should give")
        require_unicode(f"examples[{place}]", each[0])
    return [(text, value) for text, value in examples]


def example_turns(examples: Any, schema: Any, whitespace: Whitespace, order: str | Sequence[str]) -> list[Message]:
    """Returns examples as turns of a chat.

    Args:
        examples: pairs of a user's text and a value of the schema.
        schema: as for `generate`, one for all prompts.
        whitespace, order: the layout of the answer's JSON.

    Raises:
        OptionError: an example is no value of the schema.
    """
    given = pairs(examples)
    target = targets_of([schema], whitespace, order)[0]
    turns: list[Message] = []
    for place, (text, value) in enumerate(given):
        answer = answer_text(value, target, whitespace, f"examples[{place}]")
        turns += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]
    return turns


def answer_text(value: Any, target: Target, whitespace: Whitespace, where: str) -> str:
    """Returns the text of a value, in the layout that the mask demands of an answer.

    Args:
        value: a value of the schema; a text for a constraint that is no JSON.
        where: the name of the value in error messages.

    Raises:
        OptionError: the mask refuses the text, or the type does.
    """
    if target.is_json:
        data = _jsonable(value, target, where)
        if isinstance(target.constraint, JsonSchema):
            data = _in_order(data, target.constraint, where)
        text = json.dumps(data, ensure_ascii=False, **_layout(target, whitespace))
    else:
        require(isinstance(value, str), where, value, "a text: the schema is not JSON")
        text = value
    if target.constraint is not None:
        matcher = target.constraint.compile(single_bytes()).matcher()
        for place, byte in enumerate(text.encode()):
            try:
                matcher.advance(byte)
            except TokenRejected as error:
                why = f", {error.why.reason}" if error.why else ""
                raise OptionError(f"{where}: the mask refuses {quoted(text)} at byte {place}{why}") from error
        require(matcher.can_finish, where, value, f"a whole value; its text is {quoted(text)}")
    try:
        target.parse(text)
    except ValueError as refusal:
        raise OptionError(f"{where}: its type refuses {quoted(text)}: {refusal}") from refusal
    return text


def _jsonable(value: Any, target: Target, where: str) -> Any:
    """Returns a value converted to JSON's types. A mapping may stand for an instance of the type."""
    try:
        if target.type is Any:
            return to_jsonable_python(value, by_alias=True)
        adapter = TypeAdapter(target.type)
        given = adapter.validate_python(value) if isinstance(value, Mapping) else value
        try:
            return adapter.dump_python(given, mode="json", by_alias=True, warnings="error")
        except PydanticSerializationError:  # the value as JSON has it, an Enum's for example
            given = adapter.validate_json(to_json(value), strict=True)
            return adapter.dump_python(given, mode="json", by_alias=True)
    except ValidationError as error:
        raise OptionError(f"{where}={quoted(value)} is not a value of the schema: {refused_part(error)}") from error
    except PydanticSerializationError as error:
        raise OptionError(f"{where}={quoted(value)} is not a value of the schema: {error}") from error


def _in_order(value: Any, schema: JsonSchema, where: str) -> Any:
    """Returns a value with its members in the order that the mask demands.

    Raises:
        OptionError: the schema refuses the value.
    """
    judge = schema.judge()
    fault = judge.fault(value)
    if fault is None:
        return judge.ordered(value) if schema.order != "any" else value
    edit = advice(fault, schema.document())
    told = f"; to allow it, change {fault.rule}: {edit}" if edit else ""
    raise OptionError(f"{where}: the schema refuses the value{' at ' if fault.pointer else ', '}{fault}{told}")


def _layout(target: Target, whitespace: Whitespace) -> dict[str, Any]:
    layout = target.constraint.whitespace if isinstance(target.constraint, JsonSchema) else whitespace
    if layout.kind == "indented":
        return {"indent": layout.indent}
    return {"separators": (",", ":")} if layout.kind == "compact" else {}
