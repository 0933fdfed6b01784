"""The messages of a request as chat templates take them: texts, images, calls and their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen.chat.history import read_messages
from structgen.errors import OptionError, quoted
from structgen.models.model import Model
from structgen.server.problems import Problem, invalid
from structgen.server.responses_wire import text_of
from structgen.server.wire import Message
from structgen.tools.images import EXPECTED, of_data_url


def chat_messages(model: Model, given: Sequence[Message]) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns messages as chat templates take them, and what was repaired in them (see `read_messages`).

    Raises:
        Problem: one of them cannot be read.
    """
    try:
        fields = [dict(each).items() for each in given]
        read, repaired = read_messages([{name: value for name, value in each if value is not None} for each in fields])
    except OptionError as error:
        raise Problem(400, error.message, "invalid_value", param="messages") from None
    written, names = [], dict[str, str]()
    for place, message in enumerate(read):
        one = {**message, "content": _content(model, message.get("content"), place)}
        if message.get("tool_calls"):
            one["tool_calls"] = [
                {"id": str(call.get("id", "")), "type": "function", "function": call["function"]}
                for call in message["tool_calls"]
            ]
            names |= {call["id"]: call["function"]["name"] for call in one["tool_calls"]}
        if message["role"] == "tool" and "name" not in one:
            one["name"] = names.get(str(one.get("tool_call_id")), "")
        written.append(one)
    return written, repaired


def _content(model: Model, content: str | list[dict[str, Any]] | None, place: int) -> str | list[dict[str, Any]]:
    """Returns one text, or a list of texts and images."""
    if not isinstance(content, list):
        return content or ""
    parts: list[dict[str, Any]] = []
    for part in content:
        kind = part.get("type")
        if kind == "image_url":
            parts.append({"type": "image", "image": _image(model, part, f"messages.{place}.content")})
        elif kind in ("text", "refusal") and isinstance(text_of(part), str):
            parts.append({"type": "text", "text": text_of(part)})
        else:
            message = f"{quoted(kind)} parts are not read here, only text and image_url"
            raise invalid(f"messages.{place}.content", message)
    has_images = any(part["type"] == "image" for part in parts)
    return parts if has_images else "".join(part["text"] for part in parts)


def _image(model: Model, part: dict[str, Any], place: str) -> Any:
    """Returns the image of a part, whose address must be a data URL.

    Raises:
        Problem: the model reads no images, or this is none.
    """
    given = part.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    if model.processor is None:
        raise invalid(place, "this model reads no images")
    if not isinstance(url, str) or not url.startswith("data:"):
        raise invalid(place, "the server fetches nothing: send the image as a data URL")
    try:
        return of_data_url(url)
    except ImportError:  # transformers' processors of images need it, too
        raise invalid(place, "this server has no Pillow, which reads images") from None
    except ValueError:
        raise invalid(place, f"expected a data URL with base64 of {EXPECTED}") from None
