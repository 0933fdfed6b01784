"""The tokens of a prompt, and the text of tokens: `/tokenize` and `/detokenize` as in vLLM, and `count_tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr

from structgen.calling.request import prepared
from structgen.decoding.prompts.prompt import read_prompt
from structgen.given_prompts import GivenPrompts
from structgen.models.model import Model
from structgen.options import Limits
from structgen.server.asking import effort_options, require_calls
from structgen.server.conversation import chat_messages
from structgen.server.messages_wire import CountRequest
from structgen.server.offered_tools import offered_tools
from structgen.server.problems import invalid
from structgen.server.settings import Settings
from structgen.server.wire import AnyRequest, ChatRequest, Message
from structgen.vocabulary import spelled


class TokenizeRequest(AnyRequest):
    """`/tokenize`: a text, or the messages of a chat with its tools."""

    model: StrictStr = ""
    prompt: StrictStr | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[Any] | None = None


class DetokenizeRequest(AnyRequest):
    """`/detokenize`."""

    model: StrictStr = ""
    tokens: list[StrictInt]


def tokenize(model: Model, request: TokenizeRequest, settings: Settings) -> dict[str, Any]:
    """Returns the tokens of a prompt as the model reads them, up to its own turn.

    Raises:
        Problem, RequestError: there is no prompt, or the model cannot read it.
    """
    if (request.prompt is None) == (request.messages is None):
        raise invalid("prompt", "expected a prompt, or messages")
    if request.messages is None:
        (prompt,) = GivenPrompts.of(request.prompt).each
        ids = list(read_prompt(model, prompt).read)
    else:
        options = {"template_options": request.extras.template_options, "thinking": None}
        ids = _chat_ids(model, request, settings, options)
    return {"count": len(ids), "max_model_len": model.context, "tokens": ids}


def count_tokens(model: Model, request: CountRequest, settings: Settings) -> dict[str, Any]:
    """Returns the number of tokens of a prompt of `/v1/messages`.

    Raises:
        Problem, RequestError: the model cannot read it.
    """
    chat = request.chat
    options = {"template_options": chat.extras.template_options, "thinking": None}
    ids = _chat_ids(model, chat, settings, options | effort_options(model, chat, options))
    return {"input_tokens": len(ids)}


def _chat_ids(
    model: Model, request: TokenizeRequest | ChatRequest, settings: Settings, options: Mapping[str, Any]
) -> list[int]:
    """Returns the tokens of a chat as the model reads them."""
    tools = [each.tool for each in offered_tools(request.tools or (), request._notes).values()]
    require_calls(model, tools, settings)
    messages, _ = chat_messages(model, request.messages or ())
    begun = request._begun if isinstance(request, ChatRequest) else ""
    own = {**options, "call_format": settings.call_format, "limits": Limits(1), "parallel": True}
    call = prepared(model, messages, tools, choice="none", schema=None, options=own, begun=begun)
    return list(call.turns[0].session.prompt)


def detokenize(model: Model, request: DetokenizeRequest, settings: Settings) -> dict[str, Any]:
    """Returns the text of tokens, with control tokens by their names.

    Raises:
        Problem: there is no such token.
    """
    for token in request.tokens:
        if not 0 <= token < model.vocabulary.width:
            raise invalid("tokens", f"{token} is no token's id, 0 to {model.vocabulary.width - 1}")
    return {"prompt": spelled(model.vocabulary, request.tokens).decode("utf-8", errors="replace")}
