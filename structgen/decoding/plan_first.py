"""A plan before the answer: the model first writes freely, then the value, in the same row.

A model that must begin with the value has no room to work it out. So its own answer comes first, as text, and a turn
that asks for the value in its form. All that it has read stays in the cache, and values are looked up in what it wrote.
In a chat the plan is the assistant's own turn, as the chat template writes it; elsewhere it is a paragraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from structgen.constraints.basic import JsonSchema
from structgen.decoding.ahead.forced import plain_encoder
from structgen.decoding.prompts.prompt import Prompt, read_prompt
from structgen.decoding.prompts.targets import Target
from structgen.decoding.session import Session
from structgen.decoding.thinking import ThinkingSession, ThinkingTags, before_answer
from structgen.errors import OptionError
from structgen.given_prompts import ChatPrompt
from structgen.guards import Guard
from structgen.models.model import Model
from structgen.options import Limits
from structgen.rendering import schema_text
from structgen.vocabulary import spelled

FREE = "free"
"""The only kind of plan."""
ANSWER_SHARE = 0.25
"""The share of the room in the model's context that is kept for the answer."""
LEAD = "Now answer with JSON of this form alone:"
ASK = "Now give the answer alone."
_PROBE = "It is so."
_LEAST_ALIKE = 3
"""The equal last tokens of two prompts that both begin an assistant's turn, if the template has no special tokens."""


def plan_session(
    model: Model, prompt: Prompt, limits: Limits, target: Target, answer: Session, guards: Sequence[Guard[Any]]
) -> ThinkingSession:
    """The session that writes the plan before `answer`.

    Raises:
        OptionError: there is no schema, or the model's context has no room for a plan.
    """
    if target.constraint is None:
        raise OptionError("plan='free' is for an answer with a schema: plain text is free anyway")
    constraint = target.constraint
    asked = schema_text(constraint, LEAD) if isinstance(constraint, JsonSchema) else ASK
    behind = _behind(model, prompt, asked)
    options = before_answer(
        model, "plan", limits.max_plan_tokens, ANSWER_SHARE, len(prompt.read) + len(behind), answer, guards
    )
    tags = ThinkingTags([], behind, behind, "")
    return ThinkingSession(answer, tags, prompt, model, name="plan", matcher=None, **options)


def _behind(model: Model, prompt: Prompt, asked: str) -> list[int]:
    """The tokens from the end of the plan to the beginning of the answer."""
    turn = _turn(model, asked)
    if turn is not None and _begins_turn(model, prompt.read, turn):
        return turn
    return list(plain_encoder(model.tokenizer)(f"\n\n{asked}\n"))


def _turn(model: Model, asked: str) -> list[int] | None:
    """What the chat template writes after an assistant's text: its end, the user's request, the next turn's beginning.

    None without a template, and where it does not write the assistant's text.
    """
    messages = [("user", "Is it so?"), ("assistant", _PROBE), ("user", asked)]
    try:
        given = ChatPrompt([{"role": role, "content": content} for role, content in messages])
        ids = read_prompt(model, given, thinks=False).read
    except OptionError:
        return None
    probe = _PROBE.encode()
    for place in range(1, len(ids) + 1):
        _, found, behind = spelled(model.vocabulary, ids[:place]).partition(probe)
        if found:
            return [*plain_encoder(model.tokenizer)(behind.decode()), *ids[place:]] if behind else ids[place:]
    return None


def _begins_turn(model: Model, prompt: Sequence[int], turn: Sequence[int]) -> bool:
    """Does a prompt end as a chat template begins the assistant's turn?"""
    pairs = zip(reversed(prompt), reversed(turn), strict=False)
    alike = next((count for count, (a, b) in enumerate(pairs) if a != b), min(len(prompt), len(turn)))
    special = set(model.vocabulary.special_names.values())
    return alike >= _LEAST_ALIKE or any(token in special for token in prompt[len(prompt) - alike :])
