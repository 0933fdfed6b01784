"""The public functions of generation, with their types; the algorithms are elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from structgen.arguments import require, require_flag
from structgen.decoding.call_options import GREEDY, LIMITS, CallOptions
from structgen.decoding.confidence import Field
from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.loop import ROWS
from structgen.decoding.request import Request, prepare, raise_first_error
from structgen.decoding.run import in_thread
from structgen.decoding.stream import Event, in_one_run, warned_events, warned_events_in_thread
from structgen.few_shot import example_turns
from structgen.given_prompts import GivenPrompts
from structgen.models.loading import load
from structgen.models.model import Model, as_model
from structgen.options import Beams, Limits, Sampling, Thinking, Whitespace
from structgen.patience import CancelEvent
from structgen.reasking import results_asking_again
from structgen.remote import Remote, prepare_remote
from structgen.rendering import schema_text
from structgen.trace.records import Cap
from structgen.waiting import waiting

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import BatchEncoding, BatchFeature, PreTrainedModel
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.constraints.basic import Choice, Regex
    from structgen.constraints.compositions import Composition
    from structgen.constraints.languages import Lark, Machine
    from structgen.guards import Guard
    from structgen.phrases.kinds import Wanted

    Message = dict[str, Any]
    Prompt = str | list[int] | Tensor | list[Message] | Mapping[str, Any]
    Prompts = (
        list[str] | list[list[int]] | list[Tensor] | list[list[Message]] | list[BatchFeature] | list[BatchEncoding]
    )
    AnyModel = Model | PreTrainedModel | Remote
    Text = Regex | Choice | Composition | Lark | Machine
    YES = Literal[True]
    NO = Literal[False]
    T = TypeVar("T", default=Any)  # type checkers that do not know `TypeForm` give Any

    from structgen.api_options import Options, StreamOptions

__all__ = ["Cap", "Event", "Field", "Generation", "Model", "agenerate", "astream", "generate", "load", "stream"]


@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: Text | None = None, *, details: NO = False, **options: Unpack[Options]
) -> str: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> Generation[str]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: Text | None = None, *, details: NO = False, **options: Unpack[Options]
) -> list[str]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> list[Generation[str]]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt, schema: TypeForm[T], *, details: NO = False, **options: Unpack[Options]
) -> T: ...
@overload
def generate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt, schema: TypeForm[T], *, details: YES, **options: Unpack[Options]
) -> Generation[T]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompts, schema: TypeForm[T], *, details: NO = False, **options: Unpack[Options]
) -> list[T]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompts, schema: TypeForm[T], *, details: YES, **options: Unpack[Options]
) -> list[Generation[T]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: Callable[..., object], *, details: NO = False, **options: Unpack[Options]
) -> dict[str, Any]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: Callable[..., object], *, details: YES, **options: Unpack[Options]
) -> Generation[dict[str, Any]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: Callable[..., object], *, details: NO = False, **options: Unpack[Options]
) -> list[dict[str, Any]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: Callable[..., object], *, details: YES, **options: Unpack[Options]
) -> list[Generation[dict[str, Any]]]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: object, *, details: NO = False, **options: Unpack[Options]
) -> Any: ...
@overload
def generate(
    model: AnyModel, prompt: Prompt, schema: object, *, details: YES, **options: Unpack[Options]
) -> Generation[Any]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: object, *, details: NO = False, **options: Unpack[Options]
) -> list[Any]: ...
@overload
def generate(
    model: AnyModel, prompt: Prompts, schema: object, *, details: YES, **options: Unpack[Options]
) -> list[Generation[Any]]: ...
def generate(
    model: Any,
    prompt: Any = None,
    schema: Any = None,
    *,
    tokenizer: Any = None,
    sampling: Sampling | Sequence[Sampling] = GREEDY,
    limits: Limits | Sequence[Limits] = LIMITS,
    whitespace: Whitespace = Whitespace.SPACED,
    order: str | Sequence[str] = "schema",
    fast_forward: bool = True,
    batch_size: int = ROWS,
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] = (),
    banned: Sequence[str] | Sequence[Sequence[str]] = (),
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None = None,
    beams: int | Beams = 1,
    canonical: bool | Literal["off", "prefer", "strict"] = "off",
    token_healing: bool | None = None,
    phrases: Sequence[str | Wanted] | Sequence[Sequence[str | Wanted]] = (),
    plan: Literal["free"] | None = None,
    source: Any = None,
    absent: Literal["ask"] | float | Mapping[str, float] | None = None,
    prompt_schema: bool = False,
    examples: Sequence[tuple[str, Any]] = (),
    reask: int = 0,
    cancel: CancelEvent | None = None,
    details: bool = False,
    **unknown: Any,
) -> Any:
    """Generates a value that satisfies `schema`: never text that fails to parse.

    Args:
        model: what `load` gave, a `Remote`, or a transformers model (causal or encoder-decoder, of text, images or
            sounds) with `tokenizer=`. Of its `generation_config` only the tokens that begin and end a text count;
            `Sampling.from_model(model)` reads how it is sampled. A text-generation pipeline stands for its model.
        prompt: a string, chat messages (dicts with role and content), token ids (a list, or a tensor with one row), or
            what a tokenizer or processor of transformers returns for one prompt, with images or sounds (`input_ids`,
            `pixel_values`, ...; `inputs_embeds` too). A list of any of those runs as one batch; an empty list gives an
            empty list.
        schema: a Pydantic model or any other type that Pydantic knows, a function (for the arguments it can be called
            with; it is not called), a JSON Schema as a dict, a constraint (`JsonSchema`, `Regex`, `Choice`, `Lark`,
            `Machine`, or a composition of them), or None for plain text. For a list of prompts, a list of these gives
            each its own.
        tokenizer: of a bare transformers model.
        sampling: how tokens are drawn, greedily by default; a list gives each prompt of a list its own.
        limits: bounds of the run; a list gives each prompt its own.
        whitespace: the white space in JSON; that of `json.dumps` by default.
        order: of an object's keys: "schema", "any", or a list of names.
        fast_forward: feed text that must come next without asking the model for each of its tokens.
        batch_size: how many prompts of a list are decoded at once; the others take the rows that become free.
        guards: refuse text that no schema can exclude, by going back: `BannedWords`, `BannedPattern`, or your own.
            A list of such lists gives each prompt its own.
        banned: words and phrases that never occur, as they are written; in JSON, in strings and in names that the
            schema does not have. `BannedWords` has more options. A list of lists gives each prompt its own.
        thinking: let the model think before it answers: True, or `Thinking(...)` with its tags and a limit; False keeps
            it from that. Both switch the chat template, where it has a switch. None leaves it to the template: a
            thought that the prompt opens is told apart from the answer. A list gives each prompt its own.
            `Generation.thinking` has the text, and a stream tells it first.
        beams: search for the likeliest text with so many beams, or with the options of `Beams(...)`;
            `Generation.beams` has the best texts. 1 takes the likeliest token each time.
        canonical: allow only the tokens that the tokenizer would make of the text, as the model has learned it.
            Where no such token is left, "prefer" (or True) allows others and counts the step in
            `Stats.canonical_relaxed`, and "strict" raises `DeadEnd`.
        token_healing: choose the prompt's last token again, together with the first characters of the answer, if it
            ends within a line (`Generation.healed`); the default is to do so with canonical tokens where possible.
        phrases: what the text must contain, found with `beams=` or `Sampling(exact=True)`: texts, `Phrase`, `AnyOf`,
            `Ordered`, `Template`, or your own `BytePhrase`. A list of lists gives each prompt its own.
        plan: "free": the model first answers in its own words, then gives the value, in one run. For answers that have
            to be worked out, such as a number or a choice alone. `Generation.plan` has the text, a stream tells it as
            thinking, and `Limits(max_plan_tokens=...)` bounds it.
        source: what the schema's `Quote`s are pieces of: a text, a dict of texts by their names, or a list of texts;
            for a list of prompts, a list gives each its own. None is the user's last message.
        absent: decide for each member that may be null whether it is, by the probability of null against all values
            together, and a threshold: "ask" for 0.5, a number, or a dict of numbers by JSON pointer, as
            `absence_thresholds` finds it. Such members are always written. `Generation.absences` has what was decided.
            A quote whose source does not have what the model wanted to write becomes null, too.
        prompt_schema: add the schema to the prompt, as `render` shows it; in chat messages behind the user's last one.
            The mask says only what is allowed; a model that was not told the names has to guess them.
        examples: pairs of a user's text and its value, written as turns before the chat messages, in the layout that
            the mask demands of the answer.
        reask: how often a value that the type's own validators refused to the end (`Limits(validations=...)`) is
            generated again, with the value and the validators' messages as new turns behind the prompt, which is a
            string or chat messages. Only refused rows are. `Generation.reasked` has these turns.
        cancel: a `threading.Event`: the call ends with `Stopped` as soon as it is set, after the model's step in
            progress. `Limits(seconds=...)` ends a call in time.
        details: return `Generation`s, with text, token ids, finish reason, confidence and costs beside the value.
        unknown: nothing. An option of another library (`temperature=`, `max_tokens=`) is refused with the right call.

    Warns:
        BudgetWarning: limits cut values short; not with `details=True`, where `Generation.caps` says it.

    Returns:
        A type's value through Pydantic; a dict of arguments for a function; parsed JSON for a dict or `JsonSchema`; a
        string for the other constraints and for plain text. A list of them for a list of prompts.

    Raises:
        RequestError: the schema, an option, the model or the prompt cannot work; nothing has run.
        BudgetExhausted: with `Limits(strict=True)`, `max_new_tokens` were spent before the value was complete.
        Stopped: `cancel` was set, or `Limits(seconds=...)` are over and the value could not be closed.
        RunError: the run failed in another way. A failed prompt of a list does not stop the others: the first
            failure is raised when all are done; with `details=True` each is its row's `error` instead.
    """
    require_flag("details", details)
    results, many = _results(model, prompt, schema, details, {
        "tokenizer": tokenizer, "prompt_schema": prompt_schema, "examples": examples, "reask": reask,
        "sampling": sampling, "limits": limits, "whitespace": whitespace, "order": order, "fast_forward": fast_forward,
        "batch_size": batch_size, "guards": guards, "banned": banned, "thinking": thinking, "beams": beams,
        "phrases": phrases, "plan": plan, "source": source, "absent": absent, "canonical": canonical,
        "token_healing": token_healing, "cancel": cancel, **unknown,
    })  # fmt: skip
    return _values(results, many=many, details=details)


@overload
async def agenerate(
    model: AnyModel, prompt: Prompt, schema: Text | None = None, *, details: NO = False, **options: Unpack[Options]
) -> str: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompt, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> Generation[str]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompts, schema: Text | None = None, *, details: NO = False, **options: Unpack[Options]
) -> list[str]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompts, schema: Text | None = None, *, details: YES, **options: Unpack[Options]
) -> list[Generation[str]]: ...
@overload
async def agenerate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt, schema: TypeForm[T], *, details: NO = False, **options: Unpack[Options]
) -> T: ...
@overload
async def agenerate(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt, schema: TypeForm[T], *, details: YES, **options: Unpack[Options]
) -> Generation[T]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompts, schema: TypeForm[T], *, details: NO = False, **options: Unpack[Options]
) -> list[T]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompts, schema: TypeForm[T], *, details: YES, **options: Unpack[Options]
) -> list[Generation[T]]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompt, schema: Callable[..., object], *, details: NO = False, **options: Unpack[Options]
) -> dict[str, Any]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompt, schema: Callable[..., object], *, details: YES, **options: Unpack[Options]
) -> Generation[dict[str, Any]]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompt | Prompts, schema: object, *, details: NO = False, **options: Unpack[Options]
) -> Any: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompt, schema: object, *, details: YES, **options: Unpack[Options]
) -> Generation[Any]: ...
@overload
async def agenerate(
    model: AnyModel, prompt: Prompts, schema: object, *, details: YES, **options: Unpack[Options]
) -> list[Generation[Any]]: ...
async def agenerate(
    model: Any, prompt: Any = None, schema: Any = None, *, details: bool = False, **options: Any
) -> Any:
    """`generate` for async code: it runs in a thread, and the event loop goes on meanwhile.

        cities = await asyncio.gather(*(agenerate(model, prompt, City) for prompt in prompts))

    A cancelled call ends after the model's present step, one that waits at once. Concurrent calls share the forward
    passes of their model, if `batch_size` is not below its default and there is no beam search.

    Arguments, results and errors are those of `generate`.
    """
    require_flag("details", details)
    with waiting("generating"):
        results, many = await in_thread(partial(_results, model, prompt, schema, details, options))
    return _values(results, many=many, details=details)


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
    return warned_events(in_one_run(_request(model, prompt, schema, **options)))


@overload
def astream(
    model: AnyModel, prompt: Prompt | Prompts, schema: Text | None = None, **options: Unpack[StreamOptions]
) -> AsyncIterator[Event[str]]: ...
@overload
def astream(  # type: ignore[overload-overlap]
    model: AnyModel, prompt: Prompt | Prompts, schema: TypeForm[T], **options: Unpack[StreamOptions]
) -> AsyncIterator[Event[T]]: ...
@overload
def astream(
    model: AnyModel, prompt: Prompt | Prompts, schema: Callable[..., object], **options: Unpack[StreamOptions]
) -> AsyncIterator[Event[dict[str, Any]]]: ...
@overload
def astream(
    model: AnyModel, prompt: Prompt | Prompts, schema: object, **options: Unpack[StreamOptions]
) -> AsyncIterator[Event[Any]]: ...
def astream(model: Any, prompt: Any = None, schema: Any = None, **options: Any) -> AsyncIterator[Event[Any]]:
    """`stream` for `async for`: each step runs in a thread, the event loop goes on meanwhile."""
    return warned_events_in_thread(in_one_run(_request(model, prompt, schema, **options)))


def _results(
    model: Any, prompt: Any, schema: Any, record: bool, options: Mapping[str, Any]
) -> tuple[list[Generation[Any]], bool]:
    """The results of `generate`, and whether there was a list of prompts.

    Args:
        record: measure every choice.
    """
    given = dict(options)
    tokenizer, reask = given.pop("tokenizer", None), given.pop("reask", 0)
    prompt_schema, examples = given.pop("prompt_schema", False), given.pop("examples", ())
    call = CallOptions.of(given)
    prompts = _prompts(prompt, schema, prompt_schema, examples, call.whitespace, call.order)
    if isinstance(model, Remote):
        require(tokenizer is None, "tokenizer", tokenizer, "nothing: the model is remote")
        require(reask == 0, "reask", reask, "0: the model is remote")
        return prepare_remote(model, prompts, schema, call).results(), prompts.many
    request = prepare(as_model(model, tokenizer), prompts, schema, call)
    return results_asking_again(request, reask, record=record), prompts.many


def _request(
    model: Any,
    prompt: Any,
    schema: Any,
    *,
    tokenizer: Any = None,
    prompt_schema: bool = False,
    examples: Sequence[tuple[str, Any]] = (),
    whitespace: Whitespace = Whitespace.SPACED,
    order: str | Sequence[str] = "schema",
    **options: Any,
) -> Request:
    """The request of a stream."""
    given = CallOptions.of({"whitespace": whitespace, "order": order, **options})
    prompts = _prompts(prompt, schema, prompt_schema, examples, whitespace, order)
    return prepare(as_model(model, tokenizer), prompts, schema, given)


def _prompts(given: Any, schema: Any, prompt_schema: Any, examples: Any, whitespace: Any, order: Any) -> GivenPrompts:
    """The prompts, with the schema and examples where these options ask for them."""
    require_flag("prompt_schema", prompt_schema)
    prompts = GivenPrompts.of(given)
    if examples != ():
        turns = example_turns(examples, schema, whitespace, order)
        prompts = prompts.mapped(lambda prompt: prompt.with_examples(turns))
    if prompt_schema:
        text = schema_text(schema)
        prompts = prompts.mapped(lambda prompt: prompt.with_schema(text))
    return prompts


def _values(results: list[Generation[Any]], *, many: bool, details: bool) -> Any:
    """Each row's value or, with details, its whole result; a list for a list of prompts."""
    if not (details and many):
        raise_first_error([result.error for result in results])
    if details:
        return results if many else results[0]
    cuts = Cuts(len(results), many=many)
    for row, result in enumerate(results):
        cuts.note(row, result, stacklevel=3)
    return [result.value for result in results] if many else results[0].value
