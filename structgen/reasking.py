"""Asking again: a value that its type's validators refused to the end is shown to the model with their reasons.

Value and reasons are added to the prompt, as an assistant's and a user's message of a chat or as text after a string,
and the row is generated again. Rows that were not refused are not run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from structgen.arguments import require, require_count
from structgen.decoding.generation import Generation, Reasked, Stats
from structgen.decoding.request import Request
from structgen.decoding.session import Session
from structgen.errors import RequestError, ValidationFailed

MAX_REASK = 100
"""Times that a row may be asked again: each adds two turns to its prompt."""


def results_asking_again(request: Request, reask: int, *, record: bool) -> list[Generation[Any]]:
    """Runs a request; rows that end with `ValidationFailed` are asked again.

    Args:
        reask: how often a row may be asked again.

    Returns:
        The last outcome of each row. A row whose longer prompt cannot be read keeps its refusal, and the message says
        so.

    Raises:
        OptionError: `reask` is no count up to `MAX_REASK`, or a prompt is neither a string nor chat messages, so no
            turns can be added to it. Nothing has run.
    """
    require_count("reask", reask, 0)
    require(reask <= MAX_REASK, "reask", reask, f"at most {MAX_REASK}")
    if reask:
        request.prompts.mapped(lambda prompt: prompt.with_retry("", ""))  # raises where no turn can be added
    results, prompts = request.results(record=record), [*request.prompts.each]
    rows: Iterable[int] = range(len(results))
    for _ in range(reask):
        sessions: dict[int, Session] = {}
        for row in rows:
            refusal = results[row].error
            if isinstance(refusal, ValidationFailed):
                asked = _reasked(refusal, results[row], request.model.vocabulary.special_names)
                prompts[row] = prompts[row].with_retry(asked.text, asked.message)
                try:
                    sessions[row] = request.builder.session_for(row, prompts[row])
                except RequestError as reason:
                    refusal.args = (f"{refusal}; the model cannot be asked again: {reason}", *refusal.args[1:])
                else:
                    results[row] = replace(results[row], reasked=(*results[row].reasked, asked))
        if not sessions:
            break
        later = request.with_sessions(sessions).results(record=record)
        results = _merged(results, dict(zip(sessions, later, strict=True)))
        rows = sessions
    for result in results:
        if result.reasked and isinstance(result.error, ValidationFailed):
            times = "once" if len(result.reasked) == 1 else f"{len(result.reasked)} times"
            result.error.args = (f"{result.error}; the model was asked again {times}", *result.error.args[1:])
    return results


def _reasked(refusal: ValidationFailed, result: Generation[Any], control: Iterable[str]) -> Reasked:
    place = f" at {refusal.pointer}" if refusal.pointer else ""
    message = f"This was refused{place}: {refusal.reason}\nAnswer again, and correct it."
    return Reasked(_as_text(refusal.text, control), refusal.pointer, _as_text(message, control), result.prompt_tokens)


def _as_text(text: str, control: Iterable[str]) -> str:
    """A text with a space inside each control token's name, so that a tokenizer reads the name as text."""
    for name in control:
        if len(name) > 1:
            text = text.replace(name, f"{name[0]} {name[1:]}")
    return text


def _merged(results: Sequence[Generation[Any]], later: Mapping[int, Generation[Any]]) -> list[Generation[Any]]:
    """The outcomes after another run of some rows; every row of the batch shares its costs."""
    batch = next(iter(later.values())).stats
    return [
        _with(later[row], result.stats.with_run(later[row].stats, same_row=True), result.reasked)
        if row in later
        else _with(result, result.stats.with_run(batch, same_row=False), result.reasked)
        for row, result in enumerate(results)
    ]


def _with(result: Generation[Any], stats: Stats, reasked: tuple[Reasked, ...]) -> Generation[Any]:
    """An outcome, and each of its beams, with other costs."""
    beams = tuple(replace(beam, stats=stats, reasked=reasked) for beam in result.beams)
    return replace(result, stats=stats, reasked=reasked, beams=beams)
