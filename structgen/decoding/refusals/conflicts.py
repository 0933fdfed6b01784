"""Messages about a guard and a constraint that want different texts."""

from __future__ import annotations

from collections.abc import Sequence

from structgen.decoding.ahead.forced import ForcedText
from structgen.decoding.choosing.masking import count, ids_of
from structgen.errors import DeadEnd, excerpt, quoted
from structgen.guards import Veto
from structgen.guards.pointers import pointer_at
from structgen.masks import Matcher
from structgen.values.json_automaton import JsonAutomaton

FEW = 4
"""Alternatives that a message names."""


def conflict(veto: Veto, said: str, matcher: Matcher | None, tokens: Sequence[int], reason: str = "") -> str:
    """A message: the text that a guard refuses, and the texts that the constraint wants in its place.

    Args:
        said: the text, for the message.
        matcher: of the constraint, wherever it stands.
        tokens: of the text, before the one with which the offence begins.
        reason: in place of the veto's.
    """
    wanted = ""
    if matcher is not None:
        walk = matcher.grammar.matcher()
        for token in tokens:
            walk.advance(token)
        texts = _alternatives(walk)
        if isinstance(walk.grammar.automaton, JsonAutomaton):
            wanted = f" at {excerpt(pointer_at(walk.text)) or 'the root'}"
        wanted += f", which wants {' or '.join(map(quoted, texts))} there" if texts else ""
    return f"{reason or veto.reason} stands in the way of the constraint{wanted}, from byte {veto.offset} on, in {said}"


def _alternatives(walk: Matcher) -> list[str]:
    """The texts that may follow, each as far as it is forced; nothing where they are many."""
    forced = ForcedText(walk.grammar.vocabulary)
    text, _ = forced.text(walk.grammar, walk.position)
    if text:
        return [text.decode("utf-8", errors="replace")]
    try:
        words = walk.mask()
    except DeadEnd:
        return []
    if count(words) > FEW:
        return []
    texts = []
    for token in ids_of(words).tolist():
        step = walk.fork()
        step.advance(token)
        more = b"" if step.finished else forced.text(step.grammar, step.position)[0]
        texts.append((walk.grammar.vocabulary.token(token) + more).decode("utf-8", errors="replace"))
    return [text for text in texts if text]
