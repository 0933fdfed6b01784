"""`stream` and `astream`: what `generate` does, as events while it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

from structgen.arguments import without_nones
from structgen.decoding.call_options import StreamOptions, require_known
from structgen.decoding.request import Request, prepare
from structgen.decoding.stream import Event, events, in_one_run, warning
from structgen.decoding.threads import awaited_each
from structgen.few_shot import shown_prompts
from structgen.models.model import Model, as_model
from structgen.remote import Remote

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding, BatchFeature, PreTrainedModel
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.constraints.basic import Choice, Regex
    from structgen.constraints.compositions import Composition
    from structgen.constraints.languages import Lark, Machine

    Message = dict[str, Any]
    Prompt = str | list[int] | Tensor | list[Message] | Mapping[str, Any]
    Prompts = (
        list[str] | list[list[int]] | list[Tensor] | list[list[Message]] | list[BatchFeature] | list[BatchEncoding]
    )
    AnyModel = Model | PreTrainedModel | Remote
    Text = Regex | Choice | Composition | Lark | Machine
    T = TypeVar("T", default=Any)  # type checkers that do not know `TypeForm` give Any


@overload
def stream(
    model: AnyModel, prompt: Prompt | Prompts, schema: Text | None = None, **options: Unpack[StreamOptions]
) -> Iterator[Event[str]]: ...
@overload
def stream(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt | Prompts, schema: TypeForm[T], **options: Unpack[StreamOptions]
) -> Iterator[Event[T]]: ...
@overload
def stream(
    model: AnyModel, prompt: Prompt | Prompts, schema: Callable[..., object], **options: Unpack[StreamOptions]
) -> Iterator[Event[dict[str, Any]]]: ...
@overload
def stream(
    model: AnyModel, prompt: Prompt | Prompts, schema: object, **options: Unpack[StreamOptions]
) -> Iterator[Event[Any]]: ...
def stream(model: Any, prompt: Any = None, schema: Any = None, **options: Any) -> Iterator[Event[Any]]:
    """`generate`, told while it happens.

        for event in stream(model, prompt, schema=City):
            print(event.text, end="")
            if event.path == "/name":
                print(event.value)
        city = event.result.value

    Args:
        model, prompt, schema: as for `generate`. For a list of prompts, events of all rows come as they happen.
        options: as for `generate`, without `details` and `reask`.

    Warns:
        BudgetWarning: limits cut values short; with the last event, whose `result.caps` says the same.

    Returns:
        An iterator of `Event`s. Stop whenever you like: no token is chosen ahead.

    Raises:
        RequestError: at once, before the first event is asked for.
        RunError: by the iterator, for a single prompt. For a list the row's last event has the error in `result`.
    """
    request = in_one_run(_request(model, prompt, schema, options))
    return warning(events(request), request, lambda event: event.result)


astream = awaited_each(stream)
"""`stream` for `async for`: each step runs in a thread, the event loop continues meanwhile."""


def _request(model: Any, prompt: Any, schema: Any, options: Mapping[str, Any]) -> Request:
    """The request of a stream."""
    require_known(options, StreamOptions.__annotations__)
    given = without_nones(options)
    tokenizer = given.pop("tokenizer", None)
    prompts, call = shown_prompts(prompt, schema, given)
    return prepare(as_model(model, tokenizer), prompts, schema, call)
