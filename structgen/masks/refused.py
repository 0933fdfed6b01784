"""The errors and explanations for tokens that cannot come next."""

from __future__ import annotations

from functools import partial

from structgen.arguments import is_whole
from structgen.automaton.expected import refused_token
from structgen.errors import DeadEnd, OptionError, RefusedToken, TokenRejected, quoted
from structgen.masks.transitions import Transitions


def explained(grammar: Transitions, text: bytes, token_id: int, *, finished: bool) -> RefusedToken | None:
    """Why a token cannot follow a text, see `Matcher.explain`.

    Args:
        finished: an end token was taken.
    """
    vocabulary = grammar.vocabulary
    ends = token_id in vocabulary.end_ids
    if not ends and not (is_whole(token_id, 0, vocabulary.width - 1) and vocabulary.token(token_id)):
        raise OptionError(f"token_id={quoted(token_id)}: expected the id of a token with a text, or of an end token")
    if finished:
        raise OptionError(f"token_id={token_id}: the text has ended, nothing can come next")
    return refused_token(grammar.automaton, text, b"" if ends else vocabulary.token(token_id), ends=ends)


def rejected(grammar: Transitions, text: bytes, token_id: int, *, finished: bool) -> TokenRejected:
    """The error for a token that is not allowed behind a text."""
    vocabulary, place = grammar.vocabulary, f"at byte {len(text)}"
    if finished:
        return TokenRejected(f"token {quoted(token_id)} after the end of the text {place}")
    if not 0 <= token_id < vocabulary.width:
        return TokenRejected(f"token {quoted(token_id)} {place}: the logits have {vocabulary.width} rows")
    if token_id in vocabulary.end_ids:
        why = partial(refused_token, grammar.automaton, text, b"", ends=True)
        return TokenRejected(f"end token {token_id} {place}: the text is not complete", why)
    token = vocabulary.token(token_id)
    message = f"token {token_id} {quoted(token)} {place}, after {quoted(text[-20:])}: not allowed by the grammar"
    return TokenRejected(message, partial(refused_token, grammar.automaton, text, token, ends=False) if token else None)


def nothing_allowed(grammar: Transitions, text: bytes, why: DeadEnd) -> DeadEnd:
    """The error for a text that can neither go on nor end."""
    message = f"at byte {len(text)}, after {quoted(text[-20:])}: {why.message}"
    return DeadEnd(message, partial(refused_token, grammar.automaton, text, b"", ends=True))
