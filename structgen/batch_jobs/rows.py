"""One input of a job: its id, its fields, and the prompt that is made of them."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, SupportsFloat

from pydantic_core import to_jsonable_python

from structgen.arguments import nearest, require
from structgen.callbacks import Calling
from structgen.documents.layout import Document
from structgen.errors import OptionError, excerpt, quoted
from structgen.given_prompts import PlainText, is_id, plain

Prompt = str | Callable[[Mapping[str, Any]], Any] | None

KINDS = "a text, a dict of fields, chat messages or token ids"


@dataclass(frozen=True, slots=True)
class InputRow:
    """One input.

    Attributes:
        id: the `id` of a row, or its number from 1; for a file of a folder, its path in the folder.
        fields: the fields by name; a text is the field `text`.
        given: the prompt itself, if it is chat messages or token ids.
        error: why the input cannot be read; empty if it can.
        source: what a line of failures holds of it; None for the fields or the prompt.
        sample: the number of its value, from 1, with `several=`; 0 where it has one.
        is_numbered: it has no id of its own.
        document: of a file that is no plain text, what was read; its text is the field `text`.
    """

    id: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    given: Any = None
    error: str = ""
    source: Any = None
    sample: int = 0
    is_numbered: bool = False
    document: Document | None = None

    @property
    def names(self) -> dict[str, Any]:
        """What its line of results or of failures begins with."""
        if not self.sample:
            return {"id": self.id}
        return {"id": self.id, "input_id": self.id.rpartition("#")[0], "sample": self.sample}

    def carried(self, keep: bool | Sequence[str]) -> dict[str, Any]:
        """The fields that go into its result, as `input`; nothing if there are none."""
        names = [name for name in self.fields if name != "text"] if keep is True else keep or ()
        carried = {name: _data(self.fields.get(name)) for name in names}
        return {"input": carried} if carried else {}

    def samples(self, count: int) -> list[InputRow]:
        """The input once for each of its values; one that cannot be read fails once."""
        if count == 1 or self.error:
            return [self]
        return [replace(self, id=f"{self.id}#{number}", sample=number) for number in range(1, count + 1)]

    def prompt(self, template: Prompt) -> Any:
        """Returns the prompt for the model. What comes from fields is data in it, and never a control token.

        Args:
            template: a text with names of fields in braces, or a function of the fields; None for the text itself.

        Raises:
            OptionError: a field is missing, null or empty, or the row cannot be read. CallbackError: the function
                raises.
        """
        if self.error:
            raise OptionError(self.error)
        if callable(template):
            with Calling("prompt", template):
                return template(dict(self.fields) if self.given is None else {"messages": self.given})
        if self.given is not None:
            if template is not None:
                raise OptionError("the input is chat messages or token ids, and prompt= fills in the fields of a row")
            return self.given
        if template is None and "text" not in self.fields and isinstance(self.fields.get("messages"), list):
            return self.fields["messages"]
        template = "{text}" if template is None else template
        used = {name: self._field(name) for name in _names(template)}
        if all(isinstance(value, str) and not value.strip() for value in used.values()):
            raise OptionError(f"nothing to read: {', '.join(map(repr, used))} is empty")
        try:
            return _filled(template, self.fields)
        except (LookupError, ValueError, AttributeError, TypeError) as error:  # a template may have `{a[0].b:x}`
            why = f"the prompt cannot be filled in: {type(error).__name__}: {excerpt(error)}"
            raise OptionError(str(error) if isinstance(error, OptionError) else why) from error

    def quotable(self, template: Prompt) -> str | dict[str, str] | None:
        """Returns what quotes are pieces of: the texts that the prompt is made of; None for what the prompt says."""
        if self.given is not None or callable(template) or (template is None and "text" not in self.fields):
            return None
        names = _names("{text}" if template is None else template)
        texts = {name: self.fields[name] for name in names if isinstance(self.fields.get(name), str)}
        return next(iter(texts.values())) if len(texts) == 1 else texts or None

    def _field(self, name: str) -> Any:
        if name not in self.fields:
            has = ", ".join(map(quoted, self.fields)) or "none"
            raise OptionError(f"the prompt needs a field {quoted(name)}: the row has {has}")
        if is_missing(self.fields[name]):
            raise OptionError(f"the prompt needs the field {quoted(name)}, which is null in this row")
        return self.fields[name]


def _filled(template: str, fields: Mapping[str, Any]) -> PlainText:
    """Returns a template with values in its braces, as `str.format_map` fills it."""
    formatter, text = string.Formatter(), PlainText("", ())
    for literal, name, form, conversion in formatter.parse(template):
        text += literal
        if name is not None:
            value, _ = formatter.get_field(name, (), fields)
            _require_text(name, value)
            shown = formatter.convert_field(value, conversion) if conversion else value
            text += plain(formatter.format_field(shown, formatter.vformat(form or "", (), fields)))
    return text


def is_missing(value: Any) -> bool:
    """Is a cell null: None, NaN, or what tables have for them?"""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, SupportsFloat) and not hasattr(value, "__len__") and bool(value != value)


def _require_text(name: str, value: Any) -> None:
    """Refuses a value that would be `nan`, `None`, `b'...'` or `{'a': ...}` in the prompt."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    if any(map(is_missing, parts)):
        raise OptionError(f"the prompt needs the field {quoted(name)}, which is null in this row")
    wrong = next((each for each in parts if isinstance(each, (Mapping, bytes, bytearray, memoryview))), None)
    if wrong is not None:
        kind = "an object: name a member, as {a[b]}" if isinstance(wrong, Mapping) else "bytes: decode them"
        raise OptionError(f"the prompt needs a text in the field {quoted(name)}, which is {kind}, or pass a function")


@lru_cache(16)
def _names(template: str) -> tuple[str, ...]:
    """The fields that a template names.

    Raises:
        OptionError: it is no template.
    """
    try:
        named = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise OptionError(f"prompt={quoted(template)}: {error}; write {{{{ for a brace of the text") from error
    return tuple(dict.fromkeys(name.partition(".")[0].partition("[")[0] for name in named))


def names_of(prompt: Prompt) -> tuple[str, ...]:
    """The fields that a prompt is made of; none of a function."""
    return () if callable(prompt) else _names("{text}" if prompt is None else prompt)


def _data(value: Any) -> Any:
    """A value of a type as JSON has it; what JSON does not know as it is."""
    try:
        return to_jsonable_python(value)
    except ValueError:
        return value


def require_template(prompt: Any) -> None:
    """Refuses a prompt that would be the same for every input, and one that cannot be filled in."""
    expected = "a text with names of fields in braces, as {text} (a message with chat=True), or a function of them"
    if isinstance(prompt, str):
        names = _names(prompt)
        require(bool(names) and all(name and not name.isdigit() for name in names), "prompt", prompt, expected)
    else:
        require(prompt is None or callable(prompt), "prompt", prompt, expected)


def require_fields(
    prompt: Prompt, keep: bool | Sequence[str], rows: Sequence[InputRow], *, complete: bool, id_field: str = "id"
) -> None:
    """Refuses a template, or names of fields to keep, that none of the first inputs can serve.

    Args:
        complete: these inputs tell what others have; else only a text does, or a field of nearly the same name.

    Raises:
        OptionError: the message names the field that is nearest, or says why the template cannot be filled in.
    """
    rows = [row for row in rows if not row.error]
    if id_field != "id" and rows and not any(id_field in row.fields for row in rows):
        raise OptionError(f"id: no input has a field {quoted(id_field)}")
    if not rows or callable(prompt):
        return
    complete = complete or all(row.fields.keys() == {"text"} for row in rows)
    if all(row.given is not None for row in rows):
        require(
            not complete or prompt is None,
            "prompt",
            prompt,
            "None: the inputs are chat messages or token ids, without fields",
        )
        return
    has = list(dict.fromkeys(name for row in rows for name in row.fields))
    plain = "text" if prompt is None and "messages" not in has else None
    wanted = [("prompt", name) for name in (_names(prompt) if isinstance(prompt, str) else filter(None, [plain]))]
    for option, name in [*wanted, *(("keep", name) for name in ([] if isinstance(keep, bool) else keep))]:
        near = nearest(name, has, 0.6)
        if name not in has and (near or (complete and option == "prompt")):  # what is to be kept may be missing
            meant = f", did you mean {near}?" if near else ""
            there = ", ".join(map(quoted, has[:20])) or "none"
            raise OptionError(f"{option}: no input has a field {quoted(name)}{meant} (the fields: {there})")
    unfillable = [error for row in rows if (error := _unfillable(prompt, row)) is not None]
    if complete and len(unfillable) == len(rows):
        raise unfillable[0]


def _unfillable(template: Prompt, row: InputRow) -> OptionError | None:
    """Why a template cannot be filled in with the fields of a row, none of which is missing, null or empty."""
    try:
        row.prompt(template)
    except OptionError as error:
        return error if error.__cause__ is not None else None
    return None


def source_of(row: InputRow) -> Any:
    """What a line of failures holds of an input."""
    if row.source is not None:
        return row.source
    return row.given if row.given is not None else {name: _data(each) for name, each in row.fields.items()}


def row_of(value: Any, number: int) -> InputRow:
    """The input that an item of an iterable, or a line of JSON, is."""
    if isinstance(value, str):
        return InputRow(str(number), {"text": value}, is_numbered=True)
    value = _as_dict(value)
    if isinstance(value, Mapping):
        own = value.get("id")
        has_none = own == "" or is_missing(own)
        return InputRow(str(number) if has_none else str(own), value, is_numbered=has_none)
    if isinstance(value, (list, tuple)) and value:
        messages = all(isinstance(each, Mapping) and "role" in each for each in value)
        if messages or all(map(is_id, value)):
            return InputRow(str(number), given=list(value), is_numbered=True)
    elif hasattr(value, "tolist") and hasattr(value, "ndim") and value.ndim:
        return InputRow(str(number), given=value.tolist(), is_numbered=True)
    hint = ": name the parts, as {'id': ..., 'text': ...}" if isinstance(value, (list, tuple)) else ""
    return InputRow(str(number), error=f"{quoted(value)} is not {KINDS}{hint}", source=quoted(value))


def _as_dict(value: Any) -> Any:
    """A named tuple, a record of numpy, a dataclass or a model of Pydantic as a dict; everything else as it is."""
    if isinstance(value, type):
        return value
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names:
        return dict(zip(names, value.tolist(), strict=True))
    if is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    written = getattr(value, "_asdict", None) or getattr(value, "model_dump", None)
    return written() if callable(written) else value
