"""Makes turns that are ready to run of a request of OpenAI's interface. What cannot work is a `Problem`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import SequenceBiasLogitsProcessor

from structgen.arguments import options_with, without_nones
from structgen.calling.request import TurnRequest, prepared
from structgen.chat.known import call_format, thinking_tags_of
from structgen.chat.structural import StructuralTag
from structgen.chat.templates import variables_of
from structgen.constraints.basic import Choice, JsonSchema, Regex
from structgen.constraints.languages import grammar_of
from structgen.decoding.call_options import CallOptions
from structgen.decoding.choosing.measure import ALTERNATIVES
from structgen.decoding.request import prepare
from structgen.errors import LimitExceeded, OptionError, SchemaError, quoted
from structgen.given_prompts import GivenPrompts
from structgen.models.model import Model
from structgen.options import Limits, Sampling, Thinking, Whitespace
from structgen.phrases.kinds import AnyOf, Gap, Ordered, Phrase, Template, Wanted
from structgen.rendering import schema_text
from structgen.server.conversation import chat_messages
from structgen.server.messages_wire import MessagesRequest
from structgen.server.notes import Notes
from structgen.server.offered_tools import OfferedTool, chosen, offered_tools, relaxed
from structgen.server.problems import Problem, invalid
from structgen.server.responses_wire import ResponsesRequest
from structgen.server.settings import Settings
from structgen.server.wire import (
    AnyRequest,
    ChatRequest,
    Common,
    GapField,
    PhraseField,
    SchemaFormat,
    TagFormat,
    TextRequest,
    ThinkingField,
)  # fmt: skip

MOST = 20
"""The most alternatives to a token that a request may ask for, as with OpenAI; there are `ALTERNATIVES` at most."""
DEFAULT_TOKENS = 4096
"""The limit of a text where neither the server nor the model's context has one."""
TOOL_BYTES = 2048
"""What each tool adds to the bytes that the schemas of a request may have: lists of servers have hundreds of tools."""
_ID = re.compile(r"[0-9]+")
ANY_OBJECT: dict[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be run.

    Attributes:
        turns: its texts, sorted by prompt.
        prompts: the number of prompts.
        top_logprobs: the number of alternatives to each token in the answer; None for no log-probabilities at all.
        losses: does the answer tell what the model could not say?
        tools: the tools by the names by which the model calls them.
        notes: what of the request is read otherwise than it says.
    """

    turns: list[TurnRequest]
    prompts: int = 1
    top_logprobs: int | None = None
    losses: bool = False
    tools: Mapping[str, OfferedTool] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)


def texts_of(request: AnyRequest, most: int) -> int:
    """Returns how many texts a request asks for, and lowers its `n` to the `most` of them. Each beam of a search counts
    as one."""
    each = request.extras.beam_count * (len(prompts_of(request.prompt)) if isinstance(request, TextRequest) else 1)
    if not isinstance(request, Common) or request.n is None:
        return each
    bound = max(most // each, 1)
    if request.n > bound:
        request._notes.clamped.append(f"n={request.n}: {bound}")
        request.n = bound
    return each * request.n


def ask_chat(model: Model, request: ChatRequest, settings: Settings) -> Asked:
    """Prepares the turns of a chat request, with their first masks.

    Raises:
        Problem, RequestError: something in it cannot work.
    """
    _check_size(request, settings)
    messages, repaired = chat_messages(model, request.messages)
    request._notes.repaired += repaired
    schema = _schema(request)
    offered = offered_tools(request.tools or (), request._notes)
    choice, only, own_parallel = chosen(request.tool_choice, offered)
    if only is not None:
        offered = {name: tool for name, tool in offered.items() if name in only}
    parallel = next((each for each in (request.parallel_tool_calls, own_parallel) if each is not None), True)
    require_calls(model, [*offered], settings)
    options = {
        **_options(
            model, request, settings, request.max_completion_tokens, free=schema is None and choice in ("auto", "none")
        ),
        "call_format": settings.call_format,
        "template_options": request.extras.template_options,
        "prompt_schema": request.extras.prompt_schema,
    }
    options |= effort_options(model, request, options)
    samplings = _samplings(model, request, settings)

    def turns(tools: Mapping[str, OfferedTool]) -> list[TurnRequest]:
        made, given = [], [each.tool for each in tools.values()]
        for sampling in samplings:
            own = {**options, "sampling": sampling, "parallel": parallel}
            call = prepared(model, messages, given, choice=choice, schema=schema, options=own, begun=request._begun)
            made.append(call.turns[0])
        return made

    try:
        made = turns(offered)
    except (SchemaError, LimitExceeded):
        offered = relaxed(offered, model.vocabulary)
        request._notes.unmasked += [f"{name}{at}" for name, tool in offered.items() for at in tool.unmasked]
        if not request._notes.unmasked:
            raise
        made = turns(offered)
    logprobs = _top_logprobs(request, "top_logprobs", request.logprobs)
    losses = request.extras.losses
    return _with_first_masks(Asked(made, top_logprobs=logprobs, losses=losses, tools=offered, notes=request._notes))


def calls_refused(model: Model, settings: Settings) -> str | None:
    """Returns why the model cannot be given tools; None if it can."""
    if settings.call_format is not None:
        return None
    try:
        call_format(model.tokenizer, model.vocabulary)
    except OptionError as reason:
        return f"{reason}. Start the server with it: --call-format hermes"
    return None


def require_calls(model: Model, tools: Sequence[Any], settings: Settings) -> None:
    """Refuses tools where the model cannot be given any."""
    reason = calls_refused(model, settings) if tools else None
    if reason is not None:
        raise Problem(400, f"tools: {reason}", "option_error", param="tools")


def effort_options(model: Model, request: ChatRequest, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options for `reasoning_effort`: the template's variable of the name, and whether the model thinks."""
    effort, template = request.reasoning_effort, getattr(model.tokenizer, "chat_template", None)
    if effort is None:
        return {}
    own, shown = dict[str, Any](), options["template_options"]
    if isinstance(template, str) and "reasoning_effort" in variables_of(template) and effort != "none":
        own["template_options"] = {"reasoning_effort": effort, **shown}
    if thinking_tags_of(model.tokenizer, model.vocabulary) is not None and options["thinking"] is None:
        limit = request._thinking_tokens
        own["thinking"] = effort != "none" if limit is None else Thinking(max_tokens=limit)
    if not own:
        request._notes.ignored.append("reasoning_effort")
    return own


def ask_response(model: Model, request: ResponsesRequest, settings: Settings) -> Asked:
    """Prepares the turn of a request of `/v1/responses`, with its first mask."""
    return ask_chat(model, request.chat, settings)


def ask_message(model: Model, request: MessagesRequest, settings: Settings) -> Asked:
    """Prepares the turn of a request of `/v1/messages`, with its first mask."""
    return ask_chat(model, request.chat, settings)


def ask_text(model: Model, request: TextRequest, settings: Settings) -> Asked:
    """Prepares the texts of a request without messages, with their first masks."""
    _check_size(request, settings)
    schema = _schema(request)
    options = {**_options(model, request, settings, free=schema is None), "token_healing": False}
    prompts = GivenPrompts.of(prompts_of(request.prompt))
    if request.extras.prompt_schema:
        shown = schema_text(schema)
        prompts = prompts.mapped(lambda prompt: prompt.with_schema(shown))
    turns = []
    for prompt in prompts.each:
        for sampling in _samplings(model, request, settings):
            one = GivenPrompts([prompt], many=False)
            prepared_request = prepare(model, one, schema, CallOptions.of({**options, "sampling": sampling}))
            turns.append(TurnRequest(prepared_request, {}, None, None))
    return _with_first_masks(
        Asked(
            turns,
            len(prompts.each),
            _top_logprobs(request, "logprobs", request.logprobs is not None),
            losses=request.extras.losses,
            notes=request._notes,
        )
    )


def _with_first_masks(asked: Asked) -> Asked:
    """Finds the masks of the first step here, outside of the thread that runs the model."""
    for turn in asked.turns:
        for session in turn.request.sessions:
            if session.matcher is not None and not session.done:
                session.matcher.mask()
    return asked


def prompts_of(given: Any) -> list[str] | list[list[int]]:
    """Returns the prompts of a field that has one or several, texts or lists of token ids."""
    several = isinstance(given, list) and not (given and isinstance(given[0], int))
    return given if several else [given]


def _check_size(request: Common, settings: Settings) -> None:
    """Refuses schemas whose sum of sizes is too large."""
    size = sum(len(json.dumps(part)) for part in _constraints(request))
    tools = len(request.tools or ()) if isinstance(request, ChatRequest) else 0
    most = settings.max_schema_bytes + TOOL_BYTES * tools
    if size > most:
        message = f"the schemas have {size:,} bytes together, this server takes {most:,}"
        raise Problem(400, message, "schema_too_large")


def _constraints(request: Common) -> Iterator[Any]:
    extras = request.extras
    yield from (part for part in (extras.regex, extras.choice, extras.grammar) if part is not None)
    if isinstance(request.response_format, SchemaFormat):
        yield request.response_format.json_schema.schema_
    if isinstance(request, ChatRequest):
        yield from request.tools or ()


def _schema(request: Common) -> Any:
    """Returns the constraint of the text, as `schema=` takes it; None for plain text."""
    extras, given = request.extras, request.response_format
    constraints: list[Any] = []
    if isinstance(given, SchemaFormat):
        schema = given.json_schema.schema_
        constraints.append(JsonSchema(schema) if isinstance(schema, bool) else schema)
    elif isinstance(given, TagFormat):
        constraints.append(StructuralTag(given.model_dump()))
    elif given is not None and given.type == "json_object":
        constraints.append(ANY_OBJECT)
    if extras.regex is not None:
        constraints.append(Regex(extras.regex))
    if extras.choice is not None:
        constraints.append(Choice(extras.choice))
    if extras.grammar is not None:
        constraints.append(grammar_of(extras.grammar))
    if len(constraints) > 1:
        message = "give one constraint: response_format, structgen.regex, structgen.choice or structgen.grammar"
        raise Problem(400, message, "invalid_value", param="structgen")
    return constraints[0] if constraints else None


def _options(
    model: Model, request: Common, settings: Settings, also: int | None = None, *, free: bool
) -> dict[str, Any]:
    """Returns the options of `generate` but `sampling`.

    Args:
        also: `max_completion_tokens`, of requests that have it.
        free: may the answer be free text? Else stop strings have no effect: they cut no value, and nothing follows it.
    """
    extras = request.extras
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    if stop and not free:
        stop = []
        request._notes.ignored.append("stop")
    bound = _bound(model, settings)
    wanted = min((each for each in (request.max_tokens, also) if each is not None), default=bound)
    given, default = dict(extras.budget), Limits().max_plan_tokens
    planned = given.get("max_plan_tokens", default)
    limits: dict[str, Any] = {
        "max_new_tokens": _lowered(request, "max_tokens", wanted, bound),
        "max_plan_tokens": _lowered(request, "structgen.budget.max_plan_tokens", planned, max(bound, default)),
    }
    budget = Limits(stop=tuple(stop), **{**given, **limits})
    spaces, thinking = extras.whitespace, extras.thinking
    return {
        "limits": budget,
        "canonical": extras.canonical,
        "thinking": Thinking(**dict(thinking)) if isinstance(thinking, ThinkingField) else thinking,
        "plan": extras.plan,
        "source": [extras.source] if isinstance(extras.source, list) else extras.source,
        "banned": extras.banned,
        "beams": extras.beam_count,
        "phrases": [_phrase(each) for each in extras.phrases],
        "order": extras.order,
        "whitespace": Whitespace.INDENTED(spaces) if isinstance(spaces, int) else getattr(Whitespace, spaces.upper()),
    }


def _phrase(given: PhraseField) -> Wanted:
    """Returns a phrase as `generate` takes it."""
    options: Any = {"ignore_case": given.ignore_case, "whole_word": given.whole_word, "at": given.at}
    gaps = [
        ... if part is None else Gap(part.characters, part.words) if isinstance(part, GapField) else part
        for part in given.template or ()
    ]
    texts = () if given.text is None else (given.text,)
    kinds = (Phrase, texts), (AnyOf, given.any_of), (Ordered, given.ordered), (Template, gaps)
    named = [(kind, parts) for kind, parts in kinds if parts]
    if len(named) != 1:
        raise invalid("structgen.phrases", "expected a text, or one of text, any_of, ordered and template")
    kind, parts = named[0]
    return kind(*parts, **options)


def _bound(model: Model, settings: Settings) -> int:
    """Returns the most tokens of one text: the server's, and no more than the model's context has."""
    bounds = [each for each in (settings.max_tokens, model.context) if each is not None]
    return min(bounds, default=DEFAULT_TOKENS)


def _lowered(request: Common, name: str, wanted: int, bound: int) -> int:
    """Returns a limit of tokens, no larger than a bound; the notes say where it is lowered."""
    if wanted > bound:
        request._notes.clamped.append(f"{name}={wanted}: {bound}")
    return min(wanted, bound)


def _biases(model: Model, given: Mapping[str, float] | None) -> tuple[Any, ...]:
    """Returns the logits processor that adds the biases to the tokens' scores; none without a bias."""
    digits = len(str(model.vocabulary.width))
    ids = {key: int(key) if _ID.fullmatch(key) and len(key) <= digits else -1 for key in given or ()}
    for key, token in ids.items():
        if not 0 <= token < model.vocabulary.width:
            raise invalid("logit_bias", f"{quoted(key)} is no token's id, 0 to {model.vocabulary.width - 1}")
    changed: list[Any] = [[[ids[key]], float(bias)] for key, bias in (given or {}).items() if bias]
    return (SequenceBiasLogitsProcessor(sequence_bias=changed),) if changed else ()


def _samplings(model: Model, request: Common, settings: Settings) -> Sequence[Sampling]:
    """Returns the sampling of each text of a prompt."""
    extras, is_searched = request.extras, request.extras.beam_count > 1
    if is_searched and (request.n or 1) > 1:
        raise invalid("n", "a beam search finds one text, the likeliest")
    drawn_at = 0.0 if is_searched else settings.temperature
    given = without_nones({name: getattr(request, name) for name in options_with(Sampling, "openai")})
    if request.seed is not None:
        given["seed"] = request.seed % 2**64
    given |= {name: getattr(extras, name) for name in options_with(Sampling, "extra")}
    sampling = Sampling(processors=_biases(model, request.logit_bias), **{"temperature": drawn_at, **given})
    count = request.n or 1
    return [sampling] * count if sampling.greedy or count == 1 else sampling.several(count)


def _top_logprobs(request: ChatRequest | TextRequest, name: str, wanted: bool | None) -> int | None:
    """Returns the number of alternatives to each token in the answer; None for no log-probabilities at all.

    Args:
        name: the field that has the number.
    """
    top: int | None = getattr(request, name)
    if top is not None and not (0 <= top <= MOST and (wanted or top == 0)):
        message = f"top_logprobs={top}: expected 0 to {MOST}, with logprobs"
        raise Problem(400, message, "invalid_value", param="top_logprobs")
    if (top or 0) > ALTERNATIVES:
        request._notes.ignored.append(f"{name} above {ALTERNATIVES}")
    return (top or 0) if wanted else None
