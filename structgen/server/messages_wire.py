"""A request of `/v1/messages`, Anthropic's interface, and the chat request that asks for the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from structgen.server.problems import Problem, invalid
from structgen.server.wire import (
    AnyRequest,
    ChatRequest,
    Count,
    Message,
    NamedSchema,
    SchemaFormat,
    Strict,
)

Effort = Literal["low", "medium", "high", "xhigh", "max"]


class TextBlock(Strict):
    """A text."""

    type: Literal["text"]
    text: StrictStr
    citations: Any = None


class ImageSource(Strict):
    """The bytes of an image as base64, or its address."""

    type: Literal["base64", "url"]
    media_type: StrictStr | None = None
    data: StrictStr | None = None
    url: StrictStr | None = None


class ImageBlock(Strict):
    """An image."""

    type: Literal["image"]
    source: ImageSource


class TextSource(Strict):
    """The text of a document."""

    type: Literal["text"]
    media_type: Literal["text/plain"] = "text/plain"
    data: StrictStr


class DocumentBlock(Strict):
    """A document of plain text. It becomes a text with its title."""

    type: Literal["document"]
    source: TextSource
    title: StrictStr | None = None
    context: StrictStr | None = None
    citations: Any = None


class ThinkingBlock(Strict):
    """What the model thought earlier. The signature is not read."""

    type: Literal["thinking"]
    thinking: StrictStr
    signature: StrictStr | None = None


class RedactedBlock(Strict):
    """Thoughts that another server has encrypted. They are left out."""

    type: Literal["redacted_thinking"]
    data: Any = None


class ToolUseBlock(Strict):
    """A call that the model made earlier. An `input` that is no object is repaired, see `chat.history`."""

    type: Literal["tool_use"]
    id: StrictStr
    name: StrictStr
    input: Any = None
    caller: Any = None
    toolset_name: Any = None


ResultBlock = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(Strict):
    """The result of a call. `is_error` has no effect: the text says what went wrong."""

    type: Literal["tool_result"]
    tool_use_id: StrictStr
    content: StrictStr | list[ResultBlock] | None = None
    is_error: StrictBool | None = None
    toolset_name: Any = None


Block = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class MessageTurn(Strict):
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: StrictStr | list[Block]


class ThinkingConfig(Strict):
    """Shall the model think? `display="omitted"` leaves the thoughts out of the answer."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: StrictInt | None = None
    display: Literal["summarized", "omitted"] | None = None


class JsonFormat(Strict):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")
    name: StrictStr | None = None


class OutputConfig(Strict):
    """What the text of the answer must be, and how hard the model shall think."""

    format: JsonFormat | None = None
    effort: Effort | None = None


class CountRequest(AnyRequest):
    """`/v1/messages/count_tokens`, and the fields of `/v1/messages` that make the prompt."""

    messages: Annotated[list[MessageTurn], Field(min_length=1)]
    system: StrictStr | list[TextBlock] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    thread: Any = None

    @property
    def chat(self) -> ChatRequest:
        """The chat request that asks for the same.

        Raises:
            Problem: something in a message cannot be read.
        """
        if self.thread is not None:  # the `anthropic` package asks for one, and continues without one after this error
            message = "thread: this server keeps no conversations: send all messages"
            raise Problem(400, message, "thread_unsupported_request", param="thread")
        config = self.output_config or OutputConfig()
        format_ = config.format or self.output_format
        named = None if format_ is None else NamedSchema(name=format_.name or "answer", schema=format_.schema_)
        chat = ChatRequest.model_construct(
            model=self.model,
            messages=[*self._messages()],
            response_format=None if named is None else SchemaFormat(type="json_schema", json_schema=named),
            tools=self.tools,
            tool_choice=self.tool_choice,
            temperature=self.temperature,
            top_p=self.top_p,
            reasoning_effort=config.effort,
            structgen=self.structgen,
        )
        thinking = self.thinking
        if thinking is not None and thinking.type == "disabled":
            chat.reasoning_effort = "none"
        elif thinking is not None:
            chat.reasoning_effort = config.effort or "medium"
            chat._thinking_tokens = thinking.budget_tokens
        chat._notes, last = self._notes, chat.messages[-1] if chat.messages else Message(role="user")
        if last.role == "assistant" and isinstance(last.content, str) and last.content and not last.tool_calls:
            if named is not None:
                message = "a text cannot begin a value of a schema: ask for output_config.format alone"
                raise invalid(f"messages.{len(self.messages) - 1}.role", message)
            chat._begun = last.content
            del chat.messages[-1]
            chat.reasoning_effort = "none"
        if not chat.messages:
            raise invalid("messages", "expected a message that the model may answer")
        return chat

    def _messages(self) -> Iterator[Message]:
        if self.system:
            yield Message(role="system", content=_text(self.system))
        for place, turn in enumerate(self.messages):
            if isinstance(turn.content, str):
                yield Message(role=turn.role, content=turn.content)
            elif turn.role == "assistant":
                yield _assistant(turn.content, f"messages.{place}.content")
            else:
                yield from _user(turn.role, turn.content, f"messages.{place}.content")


class MessagesRequest(CountRequest):
    """`/v1/messages`."""

    max_tokens: Count
    stop_sequences: list[StrictStr] | None = None

    @property
    def chat(self) -> ChatRequest:
        """The chat request that asks for the same, see `CountRequest.chat`."""
        chat = super().chat
        chat.max_tokens, chat.stop = self.max_tokens, self.stop_sequences
        return chat


def _text(blocks: str | list[TextBlock]) -> str:
    return blocks if isinstance(blocks, str) else "".join(block.text for block in blocks)


def _parts(blocks: Sequence[Any], place: str) -> str | list[dict[str, Any]]:
    """Returns texts and images as the content of a message of a chat request; texts alone are one text."""
    parts: list[dict[str, Any]] = []
    for number, block in enumerate(blocks):
        if isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, DocumentBlock):
            about = [each for each in (block.title, block.context) if each]
            parts.append({"type": "text", "text": "\n".join([*about, block.source.data])})
        elif isinstance(block, ImageBlock):
            source = block.source
            url = source.url if source.type == "url" else f"data:{source.media_type};base64,{source.data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            raise invalid(f"{place}.{number}.type", f"{block.type} blocks do not belong here")
    only_text = all(part["type"] == "text" for part in parts)
    return "".join(part["text"] for part in parts) if only_text else parts


def _assistant(blocks: Sequence[Any], place: str) -> Message:
    """Returns a turn of the model: its thoughts, its text and its calls."""
    thoughts = [block.thinking for block in blocks if isinstance(block, ThinkingBlock)]
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.input}}
        for block in blocks
        if isinstance(block, ToolUseBlock)
    ]
    others = [block for block in blocks if not isinstance(block, (ThinkingBlock, RedactedBlock, ToolUseBlock))]
    fields: dict[str, Any] = {"tool_calls": calls} if calls else {}
    if thoughts:
        fields["reasoning_content"] = "".join(thoughts)
    return Message(role="assistant", content=_parts(others, place), **fields)


def _user(role: Literal["user", "system"], blocks: Sequence[Any], place: str) -> Iterator[Message]:
    """Yields a turn of the user: a message for each result of a call, and one for what is between them."""
    others: list[Any] = []
    for number, block in enumerate(blocks):
        if not isinstance(block, ToolResultBlock):
            others.append(block)
            continue
        if others:
            yield Message(role=role, content=_parts(others, place))
        others = []
        content = block.content if isinstance(block.content, str) else _parts(block.content or (), f"{place}.{number}")
        yield Message.model_validate({"role": "tool", "content": content, "tool_call_id": block.tool_use_id})
    if others or not blocks:
        yield Message(role=role, content=_parts(others, place))
