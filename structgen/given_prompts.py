"""The prompts of a call as the caller has given them.

`GivenPrompts.of` is the door: there each prompt is asked once what it is, and becomes a value of its kind. A kind knows
what can be added to it, and what an endpoint is sent of it; `decoding.prompts` reads it for a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

from structgen.arguments import require_unicode
from structgen.errors import OptionError, quoted

Message = Mapping[str, Any]
LEADING = ("system", "developer")
"""Roles of messages that are before examples."""
EXPECTED = (
    "a string, chat messages (dicts with role and content), token ids, what a tokenizer or processor returns, "
    "or a list of any of those"
)


@dataclass(frozen=True, eq=False)
class GivenPrompt:
    """One prompt. What its kind does not allow is an `OptionError`.

    Attributes:
        given: what the caller has given, and what was added since.
        name: its name in error messages.
    """

    given: Any
    name: str = "prompt"
    kind: ClassVar[str]

    def with_schema(self, text: str) -> GivenPrompt:
        """The prompt with the text of a schema after what the user says."""
        expected = "expected a string, or messages with a user's text"
        raise OptionError(f"prompt_schema=True with {self.name}={quoted(self.given)}: {expected}")

    def with_examples(self, turns: Sequence[Message]) -> GivenPrompt:
        """The prompt with the turns of examples before it."""
        allowed = f"expected chat messages as {self.name}, not {quoted(self.given)}"
        raise OptionError(f"examples=: {allowed}: examples are turns of a chat")

    def with_retry(self, answer: str, refusal: str) -> GivenPrompt:
        """The prompt, followed by the model's answer and the request to correct it."""
        advice = "turns can only be added to text: pass a string or chat messages, or leave reask= out"
        raise OptionError(f"reask=: the {self.name} is {self.kind}, and {advice}")

    def quotable(self) -> str:
        """What quotes without a source are pieces of: what the user says last."""
        raise OptionError(f"the {self.name} has no text to quote: pass source=")

    def messages(self) -> list[Message]:
        """The prompt as an endpoint takes it."""
        raise OptionError(f"{self.name}={quoted(self.given)}: expected a text or chat messages: the model is remote")


@dataclass(frozen=True)
class PlainText:
    """A text of which some parts are data: in those, the names of control tokens are plain text. See `plain`.

    Attributes:
        text: the whole text.
        data: the places of data in it, as (start, end).
    """

    text: str
    data: tuple[tuple[int, int], ...]

    def __add__(self, other: str | PlainText) -> PlainText:
        if isinstance(other, str):
            return PlainText(self.text + other, self.data)
        moved = tuple((start + len(self.text), end + len(self.text)) for start, end in other.data)
        return PlainText(self.text + other.text, self.data + moved)

    def __radd__(self, other: str) -> PlainText:
        return PlainText(other, ()) + self

    def __str__(self) -> str:
        return self.text

    def __format__(self, form: str) -> str:
        raise TypeError("a format would make a plain text an ordinary one: join it by +, as 'Text: ' + sg.plain(text)")


def plain(text: str | PlainText) -> PlainText:
    """Marks a text as data: the names of control tokens in it, such as `<|im_end|>`, are plain text for the model.

        prompt = "Text: " + sg.plain(letter) + "\\nJSON: "

    A string prompt is encoded as it is, so whoever writes a part of it could write control tokens. Chat messages, tool
    results and the fields of `extract_many` are data anyway.
    """
    if isinstance(text, PlainText):
        return text
    require_unicode("text", text)
    return PlainText(text, ((0, len(text)),))


@dataclass(frozen=True, eq=False)
class TextPrompt(GivenPrompt):
    """A string.

    Attributes:
        data: the places of data in it, as (start, end).
    """

    given: str
    data: tuple[tuple[int, int], ...] = ()

    def with_schema(self, text: str) -> GivenPrompt:
        return self._with("\n\n" + plain(text) + "\n")

    def with_retry(self, answer: str, refusal: str) -> GivenPrompt:
        return self._with(plain(answer) + "\n\n" + plain(refusal) + "\n")

    def quotable(self) -> str:
        return self.given

    def _with(self, more: PlainText) -> GivenPrompt:
        whole = PlainText(self.given, self.data) + more
        return replace(self, given=whole.text, data=whole.data)

    def messages(self) -> list[Message]:
        return [{"role": "user", "content": self.given}]


class ChatPrompt(GivenPrompt):
    """Messages, at least one."""

    given: Sequence[Message]

    def with_schema(self, text: str) -> GivenPrompt:
        """The schema is after the user's last message."""
        given = self.given
        last = max((place for place, each in enumerate(given) if each.get("role") == "user"), default=-1)
        content = given[last].get("content") if last >= 0 else None
        if not isinstance(content, (str, list)):
            return super().with_schema(text)
        behind = f"\n\n{text}"
        extended = content + behind if isinstance(content, str) else [*content, {"type": "text", "text": behind}]
        return replace(self, given=[*given[:last], {**given[last], "content": extended}, *given[last + 1 :]])

    def with_examples(self, turns: Sequence[Message]) -> GivenPrompt:
        """The examples are after the leading messages of the system."""
        roles = [each.get("role") for each in self.given]
        begin = next((place for place, role in enumerate(roles) if role not in LEADING), len(roles))
        return replace(self, given=[*self.given[:begin], *turns, *self.given[begin:]])

    def with_retry(self, answer: str, refusal: str) -> GivenPrompt:
        turns = {"role": "assistant", "content": answer}, {"role": "user", "content": refusal}
        return replace(self, given=[*self.given, *turns])

    def quotable(self) -> str:
        content = next((each.get("content") for each in reversed(self.given) if each.get("role") == "user"), None)
        if isinstance(content, str) and content:
            return content
        texts = [part.get("text") for part in content or () if isinstance(part, Mapping)]
        said = "\n".join(text for text in texts if isinstance(text, str))
        return said or super().quotable()

    def messages(self) -> list[Message]:
        return list(self.given)


class IdsPrompt(GivenPrompt):
    """Token ids: a list, or a tensor or an array with one row."""

    kind = "token ids"


class ProcessorPrompt(GivenPrompt):
    """What a tokenizer or processor of transformers returns: ids, and other inputs of the model by their names."""

    given: Mapping[str, Any]
    kind = "what a processor returned"


@dataclass(frozen=True, slots=True)
class GivenPrompts:
    """The prompts of a call.

    Attributes:
        each: the prompts. One that was given several times is one object, so that it can be read once.
        many: a list of prompts was given, maybe an empty one.
    """

    each: Sequence[GivenPrompt]
    many: bool

    @classmethod
    def of(cls, given: Any) -> GivenPrompts:
        """What `prompt=` of a call means.

        Raises:
            OptionError: it is no prompt, and no list of prompts.
        """
        if isinstance(given, Mapping) and "role" in given:
            raise OptionError("prompt is one chat message: pass a list of them, [{'role': ..., 'content': ...}]")
        listed = isinstance(given, (list, tuple))
        one = None if listed and not given else _prompt(given, "prompt")
        if one is not None:
            return cls([one], many=False)
        if not listed:
            raise OptionError(f"prompt of type {type(given).__name__}: expected {EXPECTED}")
        known: dict[int, GivenPrompt] = {}
        for row, each in enumerate(given):
            prompt = known.get(id(each)) or _prompt(each, f"prompt[{row}]")
            if prompt is None:
                raise OptionError(f"prompt[{row}]={quoted(each)}: expected {EXPECTED}")
            known[id(each)] = prompt
        return cls([known[id(each)] for each in given], many=True)

    def mapped(self, change: Callable[[GivenPrompt], GivenPrompt]) -> GivenPrompts:
        """The prompts after a change to each."""
        changed = {prompt: change(prompt) for prompt in self.each}
        return GivenPrompts([changed[prompt] for prompt in self.each], self.many)


def _prompt(given: Any, name: str) -> GivenPrompt | None:
    """One prompt; None for what is none."""
    if isinstance(given, str):
        require_unicode(name, given)
        return TextPrompt(given, name)
    if isinstance(given, PlainText):
        return TextPrompt(given.text, name, given.data)
    if isinstance(given, Mapping):
        return ProcessorPrompt(given, name)
    if hasattr(given, "tolist") or (isinstance(given, (list, tuple)) and all(map(is_id, given))):
        return IdsPrompt(given, name)
    if isinstance(given, (list, tuple)) and all(isinstance(each, Mapping) for each in given):
        # What a processor returns has neither a role nor content.
        return ChatPrompt(given, name) if all("role" in each or "content" in each for each in given) else None
    return None


def is_id(given: Any) -> bool:
    """Is it a whole number, as the id of a token is?"""
    return type(given) is int or (isinstance(given, Integral) and not isinstance(given, bool))
