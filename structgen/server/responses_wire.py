"""A request of `/v1/responses`, and the chat request that asks for the same."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from structgen.errors import quoted
from structgen.server.notes import Notes
from structgen.server.offered_tools import joint_name
from structgen.server.problems import Problem, invalid
from structgen.server.wire import (
    AnyRequest,
    ChatRequest,
    Count,
    Message,
    NamedSchema,
    PlainFormat,
    SchemaFormat,
    StreamFields,
    Strict,
)
from structgen.tools.parameters import INPUT

Item = dict[str, Any]

NOT_KEPT = {
    "conversation": "this server keeps no conversations: send their items as input",
    "background": "this server keeps no answers to be asked for later",
    "prompt": "this server keeps no prompts",
}
"""Fields that ask for what a server with a small memory cannot do, and why."""

LEFT_OUT = {
    *(f"{name}_call" for name in ("web_search", "file_search", "computer", "image_generation", "code_interpreter")),
    *("computer_call_output", "mcp_list_tools", "mcp_call", "mcp_approval_request", "mcp_approval_response"),
    *("tool_search_call", "tool_search_output", "compaction", "program", "program_output", "multi_agent_call"),
}
"""Items of what a provider's servers did, or wrote for themselves: the model does not read them."""
THOUGHT = "structgen:"
"""The beginning of the `encrypted_content` of a thought: a client sends it back where it sends no thoughts as text."""

LOGPROBS, SEALED = "message.output_text.logprobs", "reasoning.encrypted_content"
"""What `include` may ask for; other names have no effect."""


class SchemaText(NamedSchema):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]


class TextField(Strict):
    """What the text of the answer must be."""

    format: Annotated[SchemaText | PlainFormat, Field(discriminator="type")] = PlainFormat(type="text")

    @property
    def chat(self) -> SchemaFormat | PlainFormat:
        """The same for a chat request."""
        format_ = self.format
        return format_ if isinstance(format_, PlainFormat) else SchemaFormat(type="json_schema", json_schema=format_)


class ReasoningField(Strict):
    """Any effort but "none" lets the model think; "none" keeps it from that.

    The answer has the whole thinking, as a summary where the request asks for one: clients that do read nothing else.
    """

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


def text_of(part: dict[str, Any]) -> Any:
    """Returns the text of a part of a message."""
    return part.get("refusal") if part.get("type") == "refusal" else part.get("text")


class InputItem(BaseModel):
    """An item of a conversation; see `_messages` for its kinds."""

    model_config = ConfigDict(extra="allow")
    type: StrictStr = "message"


class ResponsesRequest(AnyRequest):
    """`/v1/responses`."""

    input: StrictStr | list[InputItem]
    instructions: StrictStr | None = None
    text: TextField | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: StrictBool | None = None
    reasoning: ReasoningField | None = None
    include: list[StrictStr] | None = None
    top_logprobs: StrictInt | None = None
    max_output_tokens: Count | None = None
    stream_options: StreamFields | None = None
    store: StrictBool | None = None
    previous_response_id: StrictStr | None = None
    conversation: Any = None
    background: Any = None
    prompt: Any = None

    @property
    def chat(self) -> ChatRequest:
        """The chat request that asks for the same.

        Raises:
            Problem: the request needs a server with a memory, or an item cannot be read.
        """
        for name, why in NOT_KEPT.items():
            if getattr(self, name) not in (None, False):
                raise Problem(400, f"{name}: {why}", "unsupported_parameter", param=name)
        chat = ChatRequest.model_construct(
            model=self.model,
            messages=self._messages(),
            response_format=None if self.text is None else self.text.chat,
            tools=[*(self.tools or ()), *self._later_tools()],
            tool_choice=self.tool_choice,
            parallel_tool_calls=self.parallel_tool_calls,
            logprobs=LOGPROBS in (self.include or ()) or self.top_logprobs is not None,
            top_logprobs=self.top_logprobs,
            max_completion_tokens=self.max_output_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            reasoning_effort=None if self.reasoning is None else self.reasoning.effort,
            structgen=self.structgen,
        )
        chat._notes = self._notes
        return chat

    @property
    def items(self) -> list[InputItem]:
        """The items of the input."""
        given = self.input
        return [InputItem(role="user", content=given)] if isinstance(given, str) else given  # type: ignore[call-arg]

    def _later_tools(self) -> list[Any]:
        """Returns the tools that items have brought."""
        extras = [each.model_extra or {} for each in self.items if each.type == "additional_tools"]
        return [tool for each in extras if isinstance(each.get("tools"), list) for tool in each["tools"]]

    def _messages(self) -> list[Message]:
        messages = list(_messages(self.items, self._notes))
        if self.instructions:
            messages.insert(0, Message(role="system", content=self.instructions))
        if not messages:
            raise invalid("input", "there is nothing in it")
        return messages


def _messages(items: Sequence[InputItem], notes: Notes) -> Iterator[Message]:
    """Yields the messages of items. Neighbouring items of the model are one message."""
    turn: Item = {}
    for place, item in enumerate(items):
        fields = _ItemFields(item, f"input.{place}", notes)
        if item.type in LEFT_OUT:
            notes.left_out.append(item.type)
        elif item.type == "additional_tools":
            pass  # see `_later_tools`
        elif item.type == "reasoning":
            turn["reasoning_content"] = turn.get("reasoning_content", "") + fields.thought
        elif item.type in ("function_call", "custom_tool_call"):
            turn["tool_calls"] = [*turn.get("tool_calls", ()), fields.call]
        elif item.type == "message" and fields.role == "assistant":
            turn["content"] = turn.get("content", "") + fields.text("content", "output_text")
        else:
            if turn:
                yield Message(role="assistant", **{"content": "", **turn})
            turn = {}
            if item.type == "message":
                yield Message(role=fields.role, content=fields.parts("content"))
            elif item.type in ("function_call_output", "custom_tool_call_output"):
                yield fields.outcome
            else:
                raise fields.problem("type", f"{quoted(item.type)} items are not read here")
    if turn:
        yield Message(role="assistant", **{"content": "", **turn})


_TEXTS = "input_text", "output_text", "refusal", "summary_text"
"""The types of parts that are texts in every item."""


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


class _ItemFields:
    """Reads the fields of an item; a field of a wrong type is a `Problem`.

    Args:
        place: the place of the item in the request, for messages.
        notes: gets what is repaired.
    """

    def __init__(self, item: InputItem, place: str, notes: Notes) -> None:
        self._fields, self._place, self._notes = item.model_extra or {}, place, notes

    def problem(self, name: str, message: str) -> Problem:
        return invalid(f"{self._place}.{name}", message)

    def string(self, name: str) -> str:
        given = self._fields.get(name)
        if not isinstance(given, str):
            raise self.problem(name, f"expected a text, found {quoted(given)}")
        return given

    @property
    def call(self) -> Item:
        """A call of a function or of a custom tool, by the name by which the model called it."""
        name, namespace = self.string("name"), self._fields.get("namespace")
        called = name if not isinstance(namespace, str) else joint_name(namespace, name)
        arguments = {INPUT: self.string(INPUT)} if INPUT in self._fields else self._fields.get("arguments")
        return {
            "id": self.string("call_id"),
            "type": "function",
            "function": {"name": called, "arguments": arguments},
        }

    @property
    def outcome(self) -> Message:
        """The result of a call. One without a call is what a client tells by itself."""
        if self._fields.get("call_id") is None and "name" in self._fields:
            return Message(role="user", content=f"{self.string('name')}: {self.text('output', 'input_text')}")
        fields = {"role": "tool", "content": self.parts("output"), "tool_call_id": self.string("call_id")}
        return Message.model_validate(fields)

    @property
    def thought(self) -> str:
        """What the model thought: as text, or as this server has written it for a client that sends no such text."""
        sealed = self._fields.get("encrypted_content")
        if not self._fields.get("content") and isinstance(sealed, str) and sealed.startswith(THOUGHT):
            try:
                return b64decode(sealed.removeprefix(THOUGHT)).decode("utf-8", errors="replace")
            except ValueError:
                self._notes.repaired.append(f"{self._place}: its encrypted_content is broken, and is left out")
                return ""
        return self.text("content" if self._fields.get("content") else "summary", "reasoning_text")

    @property
    def role(self) -> Any:
        given = self.string("role")
        if given not in ("system", "developer", "user", "assistant"):
            raise self.problem("role", f"expected system, developer, user or assistant, found {quoted(given)}")
        return given

    def parts(self, name: str) -> str | list[dict[str, Any]]:
        """Returns a text, or the parts of one with images among them."""
        given = self._fields.get(name)
        if not isinstance(given, list) or not any(_is_image(part) for part in given):
            return self.text(name, "input_text")
        return [
            {"type": "image_url", "image_url": part.get("image_url")}
            if _is_image(part)
            else {"type": "text", "text": text_of(part) if isinstance(part, dict) else None}
            for part in given
        ]

    def text(self, name: str, kind: str) -> str:
        """Returns a text, or the joined texts of its parts; None is an empty text."""
        given = self._fields.get(name)
        if not isinstance(given, list):
            return "" if given is None else self.string(name)
        for part in given:
            given_kind = part.get("type") if isinstance(part, dict) else part
            if given_kind not in (kind, *_TEXTS) or not isinstance(text_of(part), str):
                raise self.problem(name, f"{quoted(given_kind)} parts are not read here, only texts")
        return "".join(str(text_of(part)) for part in given)
