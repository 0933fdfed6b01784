"""Derives the tags around a model's thinking from what its chat template renders."""

from __future__ import annotations

import re

from structgen.chat.call_format import Tags
from structgen.chat.deriving.probes import Probes
from structgen.chat.pieces import common_prefix
from structgen.chat.templates import CannotRender

CONTENT, THOUGHT = "QcontentQ", "QthoughtQ"
FIELDS = ("reasoning_content", "reasoning", "thinking", "thought")
"""Names that templates give to the thinking in a message."""

KNOWN = (
    Tags("<think>\n", "\n</think>\n\n"),
    Tags("[THINK]", "[/THINK]"),
    Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    Tags("<|inner_prefix|>", "<|inner_suffix|>"),
    Tags("<|channel>thought\n", "<channel|>"),
    Tags("<reasoning>\n", "</reasoning>\n\n"),
    Tags("<longcat_think>\n", "\n</longcat_think>\n"),
    Tags("Here is my thought process:", "Here is my response:"),
)
"""Common tags, for templates whose messages have no field for the thinking. They are searched in the text before an
answer, and then tried in its content."""

_TAG = r"(?:<[^<>\s]+>|\[[A-Z_]+\])"
_LAST_TAG = re.compile(rf"(?:{_TAG}(?:think|thought|reason)\w*)?{_TAG}[^<>\[\]]*\Z")


def thinking_tags(probes: Probes) -> Tags | None:
    """Returns the tags that a template puts around thinking; None if it has none."""
    prompt, plain = probes.prompt(), probes.answer(CONTENT).partition(CONTENT)[0]
    for field in FIELDS:
        try:
            text = probes.answer(CONTENT, **{field: THOUGHT})
        except CannotRender:
            continue
        before, has_thought, behind = text.partition(THOUGHT)
        if has_thought and CONTENT in behind:
            return _tags(before, behind.partition(CONTENT)[0], plain, prompt)
    marks = [(tags, mark.strip()) for tags in KNOWN for mark in (tags.opening, tags.closing)]
    written = next((tags for tags, mark in marks if mark in prompt or mark in plain), None)
    return written or next((tags for tags in KNOWN if _is_taken_out(probes, tags)), None)


def tags_in(source: str) -> Tags | None:
    """Returns the common tags that both are in a template's source."""
    return next((tags for tags in KNOWN if tags.opening.strip() in source and tags.closing.strip() in source), None)


def _is_taken_out(probes: Probes, tags: Tags) -> bool:
    """Does the template remove the text between these tags from the content of the assistant's messages?"""
    try:
        text = probes.answer(tags.opening + THOUGHT + tags.closing + CONTENT)
    except CannotRender:
        return False
    return THOUGHT not in text and CONTENT in text


def _tags(before: str, behind: str, plain: str, prompt: str) -> Tags | None:
    """Returns the tags around the thinking.

    Args:
        before: the text before the thinking.
        behind: the text between the thinking and the answer.
        plain: the text before an answer without thinking.
        prompt: the text before the model's turn.
    """
    if before.startswith(prompt) and before != prompt:
        opening = before[len(prompt) :]
    else:
        last = _LAST_TAG.search(before)
        if last is None:
            return None
        opening = last[0]
    closing = behind
    if opening not in plain:  # the beginning of an answer without thinking belongs to the answer
        header = before[: len(before) - len(opening)]
        own = plain[len(header) :] if plain.startswith(header) else ""
        if own and own.strip() != behind.strip() and behind.endswith(own):
            closing = behind[: len(behind) - len(own)]
    return Tags(opening, closing) if closing.strip() else None


def without_thinking(text: str, prompt: str, thinking: Tags | None) -> str:
    """Returns the text before an answer or a call, without the prompt and the thinking at its beginning."""
    if thinking is not None:
        closing, opening = thinking.closing.strip(), thinking.opening.strip()
        if closing in text:
            rest = text[text.rindex(closing) + len(closing) :]
            blank = thinking.closing[len(thinking.closing.rstrip()) :]
            return rest[common_prefix(rest, blank) :]
        for tag in (opening, closing):
            if not text.startswith(prompt) and tag in prompt:
                prompt = prompt[: prompt.rindex(tag)]
    return text[_prompted(text, prompt) :]


def _prompted(text: str, prompt: str) -> int:
    """Returns the number of characters at the beginning of a text that belong to the prompt.

    A template may write a past turn with other blanks than a prompt, or with other words before it. Then the last tag,
    or the last mark, that both texts share ends the prompt.
    """
    if text.startswith(prompt):
        return len(prompt)
    with_other_blanks = re.match("".join(rf"\s*{re.escape(char)}" for char in "".join(prompt.split())) + r"\s*", text)
    if with_other_blanks is not None:
        return with_other_blanks.end()
    last = _LAST_TAG.search(prompt)
    if last is not None and last[0] in text:
        return text.rindex(last[0]) + len(last[0])
    shared = text[: common_prefix(text, prompt)]
    return max((shared.rfind(mark) + 1 for mark in (">", "]", "\n", " ")), default=0)
