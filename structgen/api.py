"""The public functions of generation, with their types; the algorithms are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from structgen.arguments import flag_of, require, without_nones
from structgen.decoding.call_options import Options, require_known
from structgen.decoding.cuts import Cuts
from structgen.decoding.generation import Generation
from structgen.decoding.request import prepare, raise_first_error
from structgen.decoding.threads import awaited
from structgen.few_shot import shown_prompts
from structgen.models.model import as_model
from structgen.reasking import results_asking_again
from structgen.remote import Remote, prepare_remote

if TYPE_CHECKING:
    from typing_extensions import TypeForm, TypeVar, Unpack

    from structgen.guards import Guard
    from structgen.options import Limits, Sampling, Thinking
    from structgen.streams import AnyModel, Prompt, Prompts, Text

    YES = Literal[True]
    NO = Literal[False] | None
    T = TypeVar("T", default=Any)  # type checkers that do not know `TypeForm` give Any


@overload
def generate(model: AnyModel, prompt: Prompt, schema: Text | None = None,
    *, details: NO = False, **options: Unpack[Options]) -> str: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: Text | None = None,
    *, details: YES, **options: Unpack[Options]) -> Generation[str]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: Text | None = None,
    *, details: NO = False, **options: Unpack[Options]) -> list[str]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: Text | None = None,
    *, details: YES, **options: Unpack[Options]) -> list[Generation[str]]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: TypeForm[T],  # type: ignore[overload-overlap]
    *, details: NO = False, **options: Unpack[Options]) -> T: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: TypeForm[T],  # type: ignore[overload-overlap]
    *, details: YES, **options: Unpack[Options]) -> Generation[T]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: TypeForm[T],  # type: ignore[overload-overlap]
    *, details: NO = False, **options: Unpack[Options]) -> list[T]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: TypeForm[T],  # type: ignore[overload-overlap]
    *, details: YES, **options: Unpack[Options]) -> list[Generation[T]]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: Callable[..., object],
    *, details: NO = False, **options: Unpack[Options]) -> dict[str, Any]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: Callable[..., object],
    *, details: YES, **options: Unpack[Options]) -> Generation[dict[str, Any]]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: Callable[..., object],
    *, details: NO = False, **options: Unpack[Options]) -> list[dict[str, Any]]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: Callable[..., object],
    *, details: YES, **options: Unpack[Options]) -> list[Generation[dict[str, Any]]]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: object,
    *, details: NO = False, **options: Unpack[Options]) -> Any: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompt, schema: object,
    *, details: YES, **options: Unpack[Options]) -> Generation[Any]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: object,
    *, details: NO = False, **options: Unpack[Options]) -> list[Any]: ...  # fmt: skip
@overload
def generate(model: AnyModel, prompt: Prompts, schema: object,
    *, details: YES, **options: Unpack[Options]) -> list[Generation[Any]]: ...  # fmt: skip
def generate(
    model: Any,
    prompt: Any = None,
    schema: Any = None,
    *,
    sampling: Sampling | Sequence[Sampling] | None = None,
    limits: Limits | Sequence[Limits] | None = None,
    examples: Sequence[tuple[str, Any]] | None = None,
    source: Any = None,
    thinking: bool | Thinking | Sequence[bool | Thinking | None] | None = None,
    banned: Sequence[str] | Sequence[Sequence[str]] | None = None,
    guards: Sequence[Guard[Any]] | Sequence[Sequence[Guard[Any]]] | None = None,
    tokenizer: Any = None,
    details: bool | None = False,
    **options: Any,
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
        sampling: how tokens are drawn, greedily by default; a list gives each prompt of a list its own.
        limits: bounds of the run; a list gives each prompt its own.
        examples: pairs of a user's text and its value, written as turns before the chat messages, in the layout that
            the mask demands of the answer.
        source: what the schema's `Quote`s are pieces of: a text, a dict of texts by their names, or a list of texts;
            for a list of prompts, a list gives each its own. None is the user's last message.
        thinking: let the model think before it answers: True, or `Thinking(...)` with its tags and a limit; False keeps
            it from that. Both switch the chat template, where it has a switch. None leaves it to the template: a
            thought that the prompt opens is distinguished from the answer. A list gives each prompt its own.
            `Generation.thinking` has the text, and a stream tells it first.
        banned: words and phrases that never occur, as they are written; in JSON, in strings and in names that the
            schema does not have. `BannedWords` has more options. A list of lists gives each prompt its own.
        guards: refuse text that no schema can exclude, by going back: `BannedWords`, `BannedPattern`, or your own.
            A list of such lists gives each prompt its own.
        tokenizer: of a bare transformers model.
        details: return `Generation`s, with text, token ids, finish reason, confidence and costs next to the value.
        options: further ones, see `help(structgen.CallOptions)`. The layout of JSON: `whitespace`, `order`,
            `prompt_schema`. A search: `beams`, `phrases`. The tokens: `canonical`, `token_healing`. Other ways to a
            value: `plan`, `absent`, `optional`, `reask`. Batches and time: `batch_size`, `fast_forward`, `cancel`. An
            option of another library (`temperature=`, `max_tokens=`) is refused with the right call.

    Warns:
        BudgetWarning: limits cut values short; not with `details=True`, where `Generation.caps` says it.

    Returns:
        A type's value through Pydantic; a dict of arguments for a function; parsed JSON for a dict or `JsonSchema`; a
        string for the other constraints and for plain text. A list of them for a list of prompts.

    Raises:
        RequestError: the schema, an option, the model or the prompt cannot work; nothing has run.
        BudgetExhausted: with `Limits(strict=True)`, `max_new_tokens` were spent before the value was complete, or
            a cap cut it.
        Stopped: `cancel` was set, or `Limits(seconds=...)` are over and the value could not be closed.
        RunError: the run failed in another way. A failed prompt of a list does not stop the others: the first
            failure is raised when all are done; with `details=True` each is its row's `error` instead.
    """
    options |= {
        "sampling": sampling, "limits": limits, "examples": examples, "source": source, "thinking": thinking,
        "banned": banned, "guards": guards, "tokenizer": tokenizer,
    }  # fmt: skip
    details = flag_of("details", details)
    results, many = _results(model, prompt, schema, options, record=details)
    return _values(results, many=many, details=details)


agenerate = awaited(generate)
"""`generate` for async code: it runs in a thread, and the event loop continues meanwhile.

    cities = await asyncio.gather(*(agenerate(model, prompt, City) for prompt in prompts))

A cancelled call ends after the model's present step, one that waits at once. Concurrent calls of one model share
its forward passes, as those of several threads do.

Arguments, results and errors are those of `generate`.
"""


def _results(
    model: Any, prompt: Any, schema: Any, options: Mapping[str, Any], *, record: bool
) -> tuple[list[Generation[Any]], bool]:
    """The results of `generate`, and whether there was a list of prompts. `record`: measure every choice."""
    require_known(options, Options.__annotations__)
    given = without_nones(options)
    tokenizer, reask = given.pop("tokenizer", None), given.pop("reask", None)
    prompts, call = shown_prompts(prompt, schema, given)
    if isinstance(model, Remote):
        require(tokenizer is None, "tokenizer", tokenizer, "nothing: the model is remote")
        require(not reask, "reask", reask, "0: the model is remote")
        return prepare_remote(model, prompts, schema, call).results(), prompts.many
    request = prepare(as_model(model, tokenizer), prompts, schema, call)
    results = request.results(record=record) if reask is None else results_asking_again(request, reask, record=record)
    return results, prompts.many


def _values(results: list[Generation[Any]], *, many: bool, details: bool) -> Any:
    """Each row's value or, with details, its whole result; a list for a list of prompts."""
    if not (details and many):
        raise_first_error([result.error for result in results])
    if details:
        return results if many else results[0]
    cuts = Cuts(len(results), many=many)
    for row, result in enumerate(results):
        cuts.note(row, result)
    return [result.value for result in results] if many else results[0].value
