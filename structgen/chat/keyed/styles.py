"""How structural tags write arguments, by xgrammar's names of styles."""

from __future__ import annotations

from collections.abc import Mapping

from structgen.chat.arguments import JSON_TYPES, ArgumentFormat, JsonLayout, KeyedArguments, Raw
from structgen.chat.formats import keyed
from structgen.chat.pieces import Slot


def _by_type(before: str, name_ends: str, behind: str, words: Mapping[str, str]) -> KeyedArguments:
    """Arguments in whose tag a word tells the type of the value. Values of other types cannot be written."""
    writers = {"string": Raw()}
    formats = {
        type_: ArgumentFormat((before, Slot.KEY, name_ends.format(word)), writers.get(type_, JsonLayout()), (behind,))
        for type_, word in words.items()
    }
    return KeyedArguments(tuple(formats.items()))


_IS_TEXT = {type_: "true" if type_ == "string" else "false" for type_ in JSON_TYPES}
STYLES: dict[str, KeyedArguments] = {
    "qwen_xml": keyed(("<parameter=", Slot.KEY, ">"), ("</parameter>",)),
    "minimax_xml": keyed(('<parameter name="', Slot.KEY, '">'), ("</parameter>",)),
    "glm_xml": keyed(("<arg_key>", Slot.KEY, "</arg_key><arg_value>"), ("</arg_value>",)),
    "deepseek_xml": _by_type('<｜DSML｜parameter name="', '" string="{}">', "</｜DSML｜parameter>", _IS_TEXT),
    "deepseek_v4_1_xml": _by_type('<｜DSML｜ parameter name="', '" string="{}">', "</｜DSML｜ parameter>", _IS_TEXT),
    "cohere_xml": _by_type(
        '<cofl:value name="', '" type="{}">', "</cofl:value>",
        {"string": "raw", "number": "json", "boolean": "json", "null": "json"},  # others are elements
    ),
    "kimi_k3_xml": _by_type(
        '<|open|>argument key="', '" type="{}"<|sep|>', "<|close|>argument<|sep|>", {each: each for each in JSON_TYPES},
    ),
}  # fmt: skip
"""How each property of an object is written."""
