"""A web page that shows an object while the model writes it: FastAPI sends server-sent events (SSE).

    uvicorn examples.web.app:app        # then open http://127.0.0.1:8000

An event is sent only when the object has changed: most pieces of text complete nothing that a reader could see.
"""

from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sse_starlette import EventSourceResponse

import structgen as sg
from structgen.demo.tasks import TASKS, Order  # customer: str, items: list of product and quantity, express: bool

app, model = FastAPI(), sg.load("demo")  # or sg.load("a folder or Hugging Face id")


async def changes(messages):
    shown = None
    try:
        async for event in sg.astream(model, messages, Order):
            if event.partial is not None and event.partial != shown:
                shown = event.partial
                yield {"event": "partial", "data": shown.model_dump_json(exclude_unset=True)}
        yield {"event": "done", "data": shown.model_dump_json()}
    except sg.StructgenError as error:
        yield {"event": "failed", "data": str(error)}


@app.get("/orders")
async def orders(text: str):
    return EventSourceResponse(changes(TASKS["order"].prompt(text)))


app.mount("/", StaticFiles(directory=Path(__file__).parent, html=True))
