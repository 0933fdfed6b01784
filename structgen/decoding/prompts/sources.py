"""The sources of a call: what the quotes of each row are pieces of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from structgen.constraints.basic import JsonSchema
from structgen.constraints.quotes import Quote
from structgen.decoding.call_options import CallOptions
from structgen.decoding.grammars import grammar_for
from structgen.decoding.prompts.per_row import per_row, shared
from structgen.decoding.prompts.targets import Target, targets_of
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompt
from structgen.models.model import Model
from structgen.regular.quotes import MissingSource, Source


def sources_of(given: Any, count: int) -> Sequence[Source | None]:
    """The source of each row that `source=` gives: one for all, or a list with one for each.

    For one row, a list of several texts is its documents.
    """
    if isinstance(given, (list, tuple)) and (count != 1 or len(given) == 1):
        return [None if each is None else Source.of(each) for each in per_row("source", given, count)]
    return [None if given is None else Source.of(given)] * count


def sourced_targets(
    targets: Sequence[Target], given: Any, prompts: Sequence[GivenPrompt], compiled: Callable[[Target], object]
) -> list[Target]:
    """The targets with their sources; without one, those that quote have the user's last message.

    Args:
        given: the option `source=`.
        compiled: compiles a target; raises `MissingSource` where the target quotes and has no source.

    Raises:
        OptionError: a source is for a constraint that quotes nothing, or a prompt has no text.
    """

    def one(target: Target, source: Source | None, prompt: GivenPrompt) -> Target:
        if source is None:
            source = Source.of(prompt.quotable())
        return replace(target, constraint=with_source(target.constraint, source))

    sources = sources_of(given, len(targets))
    wanted = shared(
        lambda target, source: source is not None or is_missing(partial(compiled, target)), targets, sources
    )
    columns = list(zip(wanted, targets, sources, prompts, strict=True))
    made = iter(shared(one, *zip(*(rest for needed, *rest in columns if needed), strict=True))) if any(wanted) else None
    return [target if made is None or not needed else next(made) for needed, target, *_ in columns]


def is_missing(compiled: Callable[[], object]) -> bool:
    """Does a compilation fail because a quote has no source?"""
    try:
        compiled()
    except MissingSource:
        return True
    return False


def quotes_a_source(model: Model, schema: Any, options: CallOptions) -> bool:
    """Does a call with this schema need a source?"""
    target = targets_of([schema], options.whitespace, options.order)[0]
    return target.constraint is not None and is_missing(partial(grammar_for, target.constraint, model.vocabulary))


def with_source(constraint: Any, source: Source) -> Any:
    """A constraint that quotes this source.

    Raises:
        OptionError: it quotes nothing, or has a source already.
    """
    if not isinstance(constraint, (JsonSchema, Quote)):
        advice = "source= is for a schema with sg.Quote(): give the parts of a composition their own, sg.Quote(text)"
        raise OptionError(advice)
    if constraint.source is not None:
        raise OptionError(f"source= of the call and of {type(constraint).__name__}(...): give one of them")
    return replace(constraint, source=source)
