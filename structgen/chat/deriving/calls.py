"""Derives the call format of a chat template from its rendering of known calls."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from structgen.chat.arguments import ArgumentWriter
from structgen.chat.call_format import CallFormat, Tags, WrittenCall, common_opening
from structgen.chat.deriving.arguments import argument_writer
from structgen.chat.deriving.probes import KEYS, NAMES, NAMING_IDS, Probes, Underivable
from structgen.chat.deriving.thinking import CONTENT, thinking_tags, without_thinking
from structgen.chat.pieces import TAG, Piece, Slot, common_prefix, common_suffix, joined, read_off
from structgen.chat.templates import CannotRender, ChatTemplate
from structgen.errors import OptionError

ARGUMENTS: tuple[dict[str, Any], ...] = ({KEYS[0]: 7351}, {KEYS[0]: 8462}, {KEYS[0]: 9573})
END_TAGS = frozenset(
    ("<|eom_id|>", "<|eot_id|>", "<|call|>", "<|calls|>", "<|eot|>", "<|eom|>", "<|end|>", "<|return|>", "</s>",
     "<|tool_response>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<|eos|>", "<EOS>")
)  # fmt: skip
"""Tokens that end a turn, for callers that do not know the end tokens of the vocabulary."""


@dataclass(frozen=True)
class _Skeleton:
    """A turn of calls, split at its slots. The attributes are those of `CallFormat`; `tail` is `closing` and `end`."""

    opening: str
    body: tuple[Piece, ...]
    between: str | None
    tail: str
    first_index: int = 0


def derive(template: ChatTemplate, ends: Collection[str]) -> CallFormat:
    """Returns the format in which a chat template writes calls.

    Args:
        ends: the names of the tokens that end the model's texts, if they are known.

    Raises:
        OptionError: the template renders no calls, or no format can be derived from them; the message says why.
    """
    refusals = []
    for variant in Probes(template).variants():
        try:
            return _derived(variant, argument_writer(variant), ends)
        except (CannotRender, Underivable) as refusal:
            refusals.append(str(refusal))
    raise OptionError(f"no format of calls can be derived from the chat template: {refusals[0]}")


def _derived(probes: Probes, writer: ArgumentWriter, ends: Collection[str]) -> CallFormat:
    prompt = probes.prompt()
    thinking = thinking_tags(probes)
    skeleton = _skeleton(probes, writer)
    before, answered, behind = probes.answer(CONTENT).partition(CONTENT)
    if not answered:
        raise Underivable("the template leaves out the text of the assistant")
    end = _end(skeleton.tail, behind, prompt, ends)
    closing = behind[: len(behind) - len(_end(behind, behind, prompt, ends))]
    content = Tags(without_thinking(before, prompt, thinking), closing)
    between = skeleton.between
    if between is not None and any(tag in between for tag in ends):  # the text ends before a second call
        between = None
    format_ = CallFormat(
        lead=without_thinking(skeleton.opening, prompt, thinking),
        body=skeleton.body,
        between=between,
        closing=skeleton.tail[: len(skeleton.tail) - len(end)],
        end=end,
        arguments=writer,
        content=content,
        thinking=thinking,
        as_text=probes.as_text,
        no_content=probes.no_content,
        ids=NAMING_IDS if probes.naming_ids else None,
        first_index=skeleton.first_index,
    )
    gap = _gap(probes, format_, prompt)
    if gap is not None and not any(tag in gap for tag in ends):
        format_ = replace(format_, gap=gap)
    _confirm(probes, format_, skeleton.opening)
    return format_


def _skeleton(probes: Probes, writer: ArgumentWriter) -> _Skeleton:
    texts = [writer.write(each) for each in ARGUMENTS]
    alone = _slots(probes, probes.calls(ARGUMENTS[0]), texts, 0)
    if Slot.NAME not in alone or Slot.ARGUMENTS not in alone:
        raise Underivable("the template changes the name or the arguments of a call")
    both = ""
    with suppress(CannotRender):
        both = "" if probes.single else probes.calls(*ARGUMENTS[:2])
    if NAMES[1] not in both:
        opening, body, tail = _outer(alone)
        return _Skeleton(opening, body, None, tail)
    opening, body, rest = _outer(_slots(probes, both, texts, 0))
    between, second, tail = _outer(_slots(probes, rest, texts, 1))
    return _with_index(opening, body, between, second, tail)


def _slots(probes: Probes, text: str, arguments: list[str], call: int) -> tuple[Piece, ...]:
    """Returns the pieces of a text, with slots in place of the name, the id and the arguments of one known call."""
    slots = {arguments[call]: Slot.ARGUMENTS, NAMES[call]: Slot.NAME}
    return read_off(text, slots if probes.naming_ids else {**slots, probes.ids[call]: Slot.ID})


def _outer(pieces: tuple[Piece, ...]) -> tuple[str, tuple[Piece, ...], str]:
    """Returns the text before the first slot, the pieces from the first slot to the last, and the text after it."""
    places = [place for place, piece in enumerate(pieces) if isinstance(piece, Slot)]
    if not places:
        raise Underivable("the template writes the second call of a turn in another form than the first")
    before = "".join(str(piece) for piece in pieces[: places[0]])
    behind = "".join(str(piece) for piece in pieces[places[-1] + 1 :])
    return before, pieces[places[0] : places[-1] + 1], behind


def _with_index(opening: str, body: tuple[Piece, ...], between: str, second: tuple[Piece, ...], tail: str) -> _Skeleton:
    """Returns the skeleton of two calls. A number that is one higher in the second call becomes `Slot.INDEX`."""
    unlike = Underivable("the template writes the second call of a turn in another form than the first")
    if len(body) != len(second):
        raise unlike
    same = common_suffix(opening, between)
    first, later = opening[: len(opening) - same], between[: len(between) - same]
    counted: list[Piece] = []
    base = 0
    if first[-1:].isdigit() and later[-1:].isdigit() and int(later[-1]) == int(first[-1]) + 1:
        base = int(first[-1])
        counted = [Slot.INDEX, opening[len(opening) - same :]]
        opening, between = first[:-1], later[:-1]
    for one, two in zip(body, second, strict=True):
        if one == two:
            counted.append(one)
            continue
        if isinstance(one, Slot) or isinstance(two, Slot):
            raise unlike
        start, kept = common_prefix(one, two), common_suffix(one, two)
        number, next_ = one[start : len(one) - kept], two[start : len(two) - kept]
        if not (number.isdigit() and next_.isdigit() and int(next_) == int(number) + 1):
            raise unlike
        base = int(number)
        counted += [one[:start], Slot.INDEX, one[len(one) - kept :]]
    return _Skeleton(opening, joined(counted), between, tail, base)


def _end(tail: str, behind: str, prompt: str, ends: Collection[str]) -> str:
    """Returns the end of `tail` that the template writes after the turn, and the model does not.

    Args:
        tail: the text after the last slot of a call, or after an answer.
        prompt: the text after the user's words. If all turns end alike, it begins with the end of a turn. A template
            may write it after each turn of the assistant, too.
        ends: the names of the tokens that end texts, if they are known.
    """
    last = TAG.findall(behind)[-1:] or [behind.strip()]
    names = [tag for tag in (ends or END_TAGS | set(last)) if tag and tag in tail]
    by_tag = tail[min(tail.index(tag) for tag in names) :] if names else ""
    alike = prompt.startswith(behind) or TAG.search(behind[len(behind) - common_suffix(behind, prompt) :])
    shared = tail[len(tail) - common_suffix(tail, behind) :] if alike else ""
    begun = TAG.search(shared)
    return max(by_tag, shared[begun.start() :] if begun else "", key=len)


def _gap(probes: Probes, format_: CallFormat, prompt: str) -> str | None:
    """Returns the text between an answer's text and the first call; None if a turn cannot have both."""
    try:
        text = probes.calls(ARGUMENTS[0], content=CONTENT)
    except CannotRender:
        return None
    before, has_content, behind = text.partition(CONTENT)
    body = format_.render([WrittenCall(NAMES[0], ARGUMENTS[0], probes.ids[0])])[len(format_.lead) :]
    place = behind.find(body)
    if not has_content or place < 0 or without_thinking(before, prompt, format_.thinking) != format_.content.opening:
        return None
    gap = behind[:place]
    opening = common_opening(format_.lead, gap)
    return gap if opening and not gap[: len(gap) - len(opening)].strip() else None


def _confirm(probes: Probes, format_: CallFormat, opening: str) -> None:
    """Checks that the format writes calls as the template does. It uses calls from which nothing was derived.

    Raises:
        Underivable: it writes a call differently.
    """
    given: tuple[dict[str, Any], ...] = ({KEYS[0]: 'a"b', KEYS[1]: "é x"}, {}, {KEYS[2]: 12})
    for count in (1, 2, 3) if format_.between is not None else (1,):
        calls = [WrittenCall(*each) for each in zip(NAMES, given[:count], probes.ids, strict=False)]
        expected = opening + format_.render(calls)[len(format_.lead) :] + format_.end
        text = probes.calls(*given[:count])
        if text != expected:
            offset = common_prefix(text, expected)
            raise Underivable(
                f"the template writes {count} calls as {text[max(0, offset - 30) : offset + 40]!r}, "
                f"expected {expected[max(0, offset - 30) : offset + 40]!r}"
            )
