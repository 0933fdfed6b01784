"""A web page that shows an object while the model writes it: FastAPI sends server-sent events (SSE).

    uvicorn examples.web.app:app        # then open http://127.0.0.1:8000

An event is sent only when the object has changed: most pieces of text complete nothing that a reader could see.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from pydantic import BaseModel
from sse_starlette import EventSourceResponse, ServerSentEvent

import structgen as sg
from structgen.demo.tasks import Order  # customer: str, items: list of product and quantity, express: bool

TASK = "Extract the order: customer, items (list of product, quantity), express (true or false)."
PAGE = Path(__file__).with_name("page.html")

app = FastAPI()
model = sg.load("demo")  # or sg.load("a folder or Hugging Face id")


@app.get("/")
def page() -> FileResponse:
    return FileResponse(PAGE)


@app.get("/orders")
async def orders(text: str) -> EventSourceResponse:
    messages = [{"role": "user", "content": f"{TASK}\nText: {text}"}]
    return EventSourceResponse(changes(messages))


async def changes(messages: list[dict[str, str]]) -> AsyncIterator[ServerSentEvent]:
    """`partial` with the object so far, each time that it has changed; then `done`, or `failed` with the reason."""
    sent = None
    try:
        async for event in sg.astream(model, messages, schema=Order):
            data = as_json(event.partial)
            if data is not None and data != sent:
                sent = data
                yield ServerSentEvent(data, event="partial")
    except sg.StructgenError as error:
        yield ServerSentEvent(str(error), event="failed")
    else:
        yield ServerSentEvent(sent, event="done")


def as_json(value: BaseModel | None) -> str | None:
    """The members that are there already."""
    return None if value is None else value.model_dump_json(exclude_unset=True)
