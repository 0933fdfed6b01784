"""The table of the call formats that are known by name: how models were trained to write calls.

A row has the spellings of a format and the marks by which a chat template is known to be for it.
`docs/reference/call-formats.md` lists the formats with their sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from structgen.chat.arguments import (
    JSON_TYPES,
    ArgumentFormat,
    JsonLayout,
    KeyedArguments,
    Raw,
    ValueWriter,
)
from structgen.chat.call_format import NINE, Spellings, Tags
from structgen.chat.keyed.nested import LITERALS, Elements, Nested
from structgen.chat.native import Native
from structgen.chat.pieces import Blank, Maybe, Pieces, Slot, Spelling
from structgen.chat.spellings import maybe, one_of, spelled

NAME, ID, INDEX, ARGUMENTS, KEY = Slot.NAME, Slot.ID, Slot.INDEX, Slot.ARGUMENTS, Slot.KEY


def _object(name: str = "name", arguments: Sequence[str] = ("arguments", "parameters")) -> Spelling:
    """A call as a JSON object with its name and its arguments, in either order."""
    keys = one_of(*(f'"{key}"' for key in arguments))
    return spelled(
        "{", maybe('"type": "function", ', written=False), maybe('"id": "', ID, '", ', written=False),
        one_of(
            (f'"{name}": "', NAME, '", ', keys, ": ", ARGUMENTS),
            (keys, ": ", ARGUMENTS, f', "{name}": "', NAME, '"'),
        ),
        maybe(', "id": "', ID, '"', written=False), "}",
    )  # fmt: skip


def _listed(begin: Any, end: Any, body: Spelling = (), blank: str = "", **more: Any) -> Spellings:
    """Calls in a JSON list, between two texts."""
    before, behind = (each if isinstance(each, tuple) else (each,) for each in (begin, end))
    return Spellings(
        begin=spelled(*before, "["), body=body or _object(), between=spelled("," + (blank or " ")),
        closing=spelled("]", *behind), **more,
    )  # fmt: skip


def _tagged(opening: str, closing: str, body: Spelling = ()) -> Spellings:
    """Calls that each are between two tags."""
    return Spellings(
        begin=spelled(opening), body=body or _object(), between=spelled(closing + "\n" + opening),
        closing=spelled(closing), apart=(Blank("\n"),),
    )  # fmt: skip


def keyed(before: Pieces, after: Pieces, separator: str = "", **writers: ValueWriter) -> KeyedArguments:
    """Arguments that are written alike for all types; strings as they are, and other values as JSON."""
    formats = {
        type_: ArgumentFormat(before, writers.get(type_, Raw() if type_ == "string" else JsonLayout()), after)
        for type_ in JSON_TYPES
    }
    return KeyedArguments(tuple(formats.items()), separator)


PYTHON_ARGUMENTS = KeyedArguments(
    tuple((type_, ArgumentFormat((KEY, "="), LITERALS, ())) for type_ in JSON_TYPES), separator=", "
)
"""Arguments as a call in Python has them: `city="Rome", days=2, sunny=True`."""


def _python(begin: Any, end: Any, between: str = ", ") -> Spellings:
    """Calls as Python writes them."""
    before, behind = (each if isinstance(each, tuple) else (each,) for each in (begin, end))
    return Spellings(
        begin=spelled(*before), body=(NAME, *spelled("("), ARGUMENTS, *spelled(")")), between=spelled(between),
        closing=spelled(*behind),
    )  # fmt: skip


_ESCAPE = "<escape>"
_GEMMA = Nested((_ESCAPE, _ESCAPE), ("[", ",", "]"), ("{", ",", "}"), ("", ":"), ("true", "false", "null"))
GEMMA_ARGUMENTS = KeyedArguments(
    (
        ("string", ArgumentFormat((KEY, ":" + _ESCAPE), Raw(), (_ESCAPE,))),
        *((type_, ArgumentFormat((KEY, ":"), JsonLayout(), ())) for type_ in ("number", "boolean", "null")),
        *((type_, ArgumentFormat((KEY, ":"), _GEMMA, ())) for type_ in ("array", "object")),
    ),
    separator=",",
)
"""Arguments as FunctionGemma has them: `city:<escape>Rome<escape>,days:2`."""

_COFL = KeyedArguments(
    tuple(
        (
            type_,
            ArgumentFormat(
                ('<cofl:tool_param name="', KEY, f'" string="{str(type_ == "string").lower()}">'),
                Raw(frozenset("<&"), entities=True) if type_ == "string" else JsonLayout(),
                ("</cofl:tool_param>",),
            ),
        )
        for type_ in JSON_TYPES
    )
)
_MARK = "]<]minimax[>["
_HARMONY = Spellings(
    begin=(one_of(" to=functions.", "<|channel|>commentary to=functions.", "<|channel|>analysis to=functions."),),
    body=(
        NAME, *spelled(maybe(one_of("<|channel|>commentary", "<|channel|>analysis"))), Blank(" "),
        *spelled(maybe(maybe("<|constrain|>", written=False), "json"), "<|message|>"), ARGUMENTS,
    ),
    between=None,
    closing=(Maybe(("<|call|>",), written=False),),
    opening=(one_of("<|channel|>final<|message|>", "<|channel|>commentary<|message|>"),),
    answered=(Maybe(("<|end|>",), written=False),),
    apart=("<|end|><|start|>assistant",),
)  # fmt: skip
_ACTION = spelled(
    '{"tool_call_id": "', INDEX, '", "tool_name": "', NAME, '", "parameters": ', ARGUMENTS, "}"
)  # fmt: skip

NATIVE = (
    Native("harmony", ("<|channel|>commentary", "functions."), _HARMONY),
    Native(
        "kimi-k3", ("<|open|>", "<|sep|>"),
        Spellings(
            begin=('<|open|>tools<|sep|><|open|>call tool="',),
            body=(NAME, '" index="', INDEX, '"<|sep|>', ARGUMENTS),
            between=('<|close|>call<|sep|><|open|>call tool="',),
            closing=("<|close|>call<|sep|><|close|>tools<|sep|>", maybe("<|close|>message<|sep|>")),
            prefix=(maybe("<|open|>response<|sep|>", written=False), maybe("<|close|>response<|sep|>")),
            opening=(maybe("<|open|>response<|sep|>", written=False),),
            answered=("<|close|>response<|sep|>", maybe("<|close|>message<|sep|>")),
            apart=("<|close|>response<|sep|>",),
        ),
        thinking=Tags("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
        first_index=1,
    ),
    Native(
        "kimi-k2", ("<|tool_calls_section_begin|>",),
        Spellings(
            begin=spelled(maybe("<|tool_calls_section_begin|>"), "<|tool_call_begin|>", maybe("functions.")),
            body=(NAME, ":", INDEX, *spelled("<|tool_call_argument_begin|>"), ARGUMENTS),
            between=spelled("<|tool_call_end|><|tool_call_begin|>", maybe("functions.")),
            closing=spelled(maybe("<|tool_call_end|>"), maybe("<|tool_calls_section_end|>")),
        ),
        thought_ends=("<|tool_calls_section_begin|>",),
        ids="functions.{name}:{index}",
    ),
    Native(
        "deepseek-v3.1", ("<｜tool▁sep｜>",),
        Spellings(
            begin=spelled(maybe("<｜tool▁calls▁begin｜>"), "<｜tool▁call▁begin｜>"),
            body=(NAME, "<｜tool▁sep｜>", Blank(), ARGUMENTS),
            between=spelled("<｜tool▁call▁end｜><｜tool▁call▁begin｜>"),
            closing=spelled("<｜tool▁call▁end｜>", maybe("<｜tool▁calls▁end｜>")),
        ),
        without=("```json", "<｜tool▁sep｜>' + tool['function']['name'] + '\\n", "function<｜tool▁sep｜>"),
    ),
    Native(
        "deepseek-v3", ("<｜tool▁sep｜>",),
        Spellings(
            begin=spelled(maybe("<｜tool▁calls▁begin｜>"), "<｜tool▁call▁begin｜>", maybe("function<｜tool▁sep｜>")),
            body=(NAME, *spelled("\n", maybe("```json\n")), ARGUMENTS),
            between=spelled(
                maybe("\n```"), "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>", maybe("function<｜tool▁sep｜>")
            ),
            closing=spelled(maybe("\n```"), "<｜tool▁call▁end｜>", maybe("<｜tool▁calls▁end｜>")),
        ),
    ),
    Native(
        "minimax-m3", (_MARK,),
        Spellings(
            begin=(_MARK + "<tool_call>", Blank("\n"), _MARK + '<invoke name="'),
            body=(NAME, '">', ARGUMENTS),
            between=(_MARK + "</invoke>", Blank("\n"), _MARK + '<invoke name="'),
            closing=(_MARK + "</invoke>", Blank("\n"), _MARK + "</tool_call>"),
        ),
        arguments=keyed(
            (_MARK + "<", KEY, ">"), (_MARK + "</", KEY, ">"),
            array=Elements(_MARK + "<", _MARK + "</", ">"), object=Elements(_MARK + "<", _MARK + "</", ">"),
        ),
    ),
    Native(
        "seed-oss", ("<seed:tool_call>",),
        Spellings(
            begin=spelled("<seed:tool_call>\n<function="),
            body=(NAME, *spelled(">"), ARGUMENTS),
            between=spelled("\n</function>\n", maybe("</seed:tool_call>\n<seed:tool_call>\n"), "<function="),
            closing=spelled("\n</function>\n</seed:tool_call>"),
        ),
        arguments=keyed(("\n<parameter=", KEY, ">"), ("</parameter>",)),
        thinking=Tags("<seed:think>", "</seed:think>"),
    ),
    Native(
        "qwen3-coder", ("<function=", "<parameter=", "</tool_call>"),
        Spellings(
            begin=spelled(maybe("<tool_call>\n"), "<function="),
            body=(NAME, *spelled(">"), ARGUMENTS),
            between=spelled("\n</function>", maybe("\n</tool_call>"), maybe("\n<tool_call>"), "\n<function="),
            closing=spelled("\n</function>", maybe("\n</tool_call>")),
        ),
        arguments=keyed(("\n<parameter=", KEY, ">\n"), ("\n</parameter>",)),
    ),
    Native(
        "glm-4.5", ("<arg_key>", "<arg_value>"),
        Spellings(
            begin=spelled("<tool_call>"),
            body=(NAME, ARGUMENTS),
            between=spelled("\n</tool_call>\n<tool_call>"),
            closing=spelled("\n</tool_call>"),
        ),
        arguments=keyed(("\n<arg_key>", KEY, "</arg_key>\n<arg_value>"), ("</arg_value>",)),
    ),
    Native("longcat", ("<longcat_tool_call>",), _tagged("<longcat_tool_call>\n", "\n</longcat_tool_call>"),
           without=("<longcat_arg_key>",), thinking=Tags("<longcat_think>\n", "\n</longcat_think>\n")),
    Native(
        "longcat-xml", ("<longcat_arg_key>",),
        Spellings(
            begin=spelled("<longcat_tool_call>"),
            body=(NAME, ARGUMENTS),
            between=spelled("\n</longcat_tool_call>\n<longcat_tool_call>"),
            closing=spelled("\n</longcat_tool_call>"),
        ),
        arguments=keyed(
            ("\n<longcat_arg_key>", KEY, "</longcat_arg_key>\n<longcat_arg_value>"), ("</longcat_arg_value>",)
        ),
        thinking=Tags("<longcat_think>\n", "\n</longcat_think>\n"),
    ),
    Native(
        "step-3", ("<steptml:invoke",),
        Spellings(
            begin=spelled(
                maybe("<｜tool_calls_begin｜>"), "<｜tool_call_begin｜>", maybe("function"), maybe("<｜tool_sep｜>"),
                '<steptml:invoke name="',
            ),
            body=(NAME, *spelled('">'), ARGUMENTS),
            between=spelled(
                "</steptml:invoke>", maybe("<｜tool_call_end｜>"), maybe("<｜tool_call_begin｜>"), maybe("function"),
                maybe("<｜tool_sep｜>"), '<steptml:invoke name="',
            ),
            closing=spelled("</steptml:invoke>", maybe("<｜tool_call_end｜>"), maybe("<｜tool_calls_end｜>")),
        ),
        arguments=keyed(('<steptml:parameter name="', KEY, '">'), ("</steptml:parameter>",)),
    ),
    Native(
        "gigachat-3", ("<|role_sep|>", "function"),
        Spellings(
            begin=spelled(one_of("<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n")),
            body=_object(arguments=("arguments",)), between=None, closing=(),
        ),
    ),
    Native("pangu", ("[unused11]", "[unused12]"), _listed("[unused11]", "[unused12]"),
           thinking=Tags("[unused16]", "[unused17]")),
    Native("nemotron-nano-2", ("<TOOLCALL>",), _listed("<TOOLCALL>", "</TOOLCALL>")),
    Native(
        "functionary-3.1", ("<function=", "</function>"),
        Spellings(
            begin=spelled("<function="), body=(NAME, *spelled(">"), ARGUMENTS),
            between=spelled("</function><function="), closing=spelled("</function>"),
        ),
        without=("<parameter=", "<tool_call>"),
    ),
    Native(
        "functionary-3.2", (">>>", "all\\n"),
        Spellings(
            begin=(), body=(NAME, "\n", ARGUMENTS), between=(">>>",), closing=(), prefix=(), opening=("all\n",),
            apart=(">>>",),
        ),
    ),
    Native("functools", ("functools[",), _listed(" functools", "")),
    Native(
        "mistral-v11", ("[TOOL_CALLS]", "[ARGS]"),
        Spellings(
            begin=spelled("[TOOL_CALLS]"),
            body=(NAME, maybe("[CALL_ID]", ID), *spelled("[ARGS]"), ARGUMENTS),
            between=spelled("[TOOL_CALLS]"),
            closing=(),
            id=NINE,
        ),
        without=("[CALL_ID]",),
        thinking=Tags("[THINK]", "[/THINK]"),
    ),
    Native(
        "mistral-v11-id", ("[TOOL_CALLS]", "[CALL_ID]"),
        Spellings(
            begin=spelled("[TOOL_CALLS]"),
            body=(NAME, "[CALL_ID]", ID, *spelled("[ARGS]"), ARGUMENTS),
            between=spelled("[TOOL_CALLS]"),
            closing=(),
            id=NINE,
        ),
    ),
    Native(
        "mistral", ("[TOOL_CALLS]",),
        _listed(
            "[TOOL_CALLS] ", "", spelled(
                "{", '"name": "', NAME, '", "arguments": ', ARGUMENTS, maybe(', "id": "', ID, '"'), "}"
            ), id=NINE,
        ),
    ),
    Native(
        "cohere-cofl", ("<cofl:tool_param",),
        Spellings(
            begin=spelled('<cofl:tool_calls><cofl:tool_call id="'),
            body=(ID, '" name="', NAME, *spelled('">'), ARGUMENTS),
            between=spelled('</cofl:tool_call><cofl:tool_call id="'),
            closing=spelled("</cofl:tool_call></cofl:tool_calls>"),
            opening=(maybe("<|START_TEXT|>"),),
            answered=(maybe("<|END_TEXT|>", written=False),),
            apart=(maybe("<|END_TEXT|>", written=False),),
        ),
        arguments=_COFL,
        thinking=Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    Native(
        "minicpm-5", ('<function name="', "<![CDATA["),
        Spellings(
            begin=spelled('<function name="'),
            body=(NAME, *spelled('">'), ARGUMENTS),
            between=spelled('</function>\n<function name="'),
            closing=spelled("</function>"),
        ),
        arguments=keyed(
            ('<param name="', KEY, '">'), ("</param>",),
            string=Raw(frozenset("<&\n"), wrap=("<![CDATA[", "]]>")), array=LITERALS, object=LITERALS,
        ),
    ),
    Native(
        "command-r7b", ("<|START_ACTION|>",),
        _listed(
            "<|START_ACTION|>", "<|END_ACTION|>", _ACTION, blank="\n    ",
            prefix=(Blank(),),
            opening=(one_of("<|START_RESPONSE|>", "<|START_TEXT|>"),),
            answered=(maybe(one_of("<|END_RESPONSE|>", "<|END_TEXT|>"), written=False),),
            apart=(maybe(one_of("<|END_RESPONSE|>", "<|END_TEXT|>"), written=False),),
        ),
        thinking=Tags("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    Native(
        "granite-20b", ("<function_call>",),
        Spellings(
            begin=spelled("<function_call> "), body=_object(), between=spelled("\n<function_call> "), closing=(Blank(),)
        ),
    ),
    Native(
        "granite-3", ("<|tool_call|> followed by a JSON list",), _listed(one_of("<|tool_call|>", "<tool_call>"), "")
    ),
    Native("hunyuan-a13b", ("<tool_calls>[", "助手："),
           replace(_listed("<tool_calls>", "</tool_calls>"), opening=(maybe("助手："),))),
    Native("tool-calls", ("<tool_calls>[",), _listed("<tool_calls>", "</tool_calls>")),
    Native(
        "internlm2", ("<|action_start|>", "<|plugin|>"),
        _tagged("<|action_start|><|plugin|>\n", "<|action_end|>", _object(arguments=("parameters", "arguments"))),
    ),
    Native("lfm2", ("<|tool_list_start|>",), _python("<|tool_call_start|>[", "]<|tool_call_end|>"),
           arguments=PYTHON_ARGUMENTS, thinking=Tags("<think>", "</think>")),
    Native(
        "functiongemma", ("<start_function_call>",),
        Spellings(
            begin=spelled("<start_function_call>call:"),
            body=(NAME, *spelled("{"), ARGUMENTS),
            between=spelled("}<end_function_call><start_function_call>call:"),
            closing=spelled("}<end_function_call>"),
        ),
        arguments=GEMMA_ARGUMENTS,
    ),
    Native("olmo-3", ("<function_calls>",), _python("<function_calls>\n", "\n</function_calls>", "\n"),
           without=("｜DSML｜", "<atem:"), arguments=PYTHON_ARGUMENTS),
    Native("pythonic", ("[func_name1(",), _python((maybe("<|python_start|>", written=False), "["),
           ("]", maybe("<|python_end|>", written=False))), arguments=PYTHON_ARGUMENTS),
    Native("xlam", ('[{"name": "tool_call_name", "arguments": ',), _listed(
        (maybe(one_of("[TOOL_CALLS]", "<tool_call>", "```json\n"), written=False),),
        (maybe(one_of("</tool_call>", "\n```"), written=False),),
    )),
    Native(
        "llama3-json", ('"parameters": ', "<|start_header_id|>", "ipython"),
        Spellings(
            begin=spelled(
                maybe("<|python_tag|>", written=False), "{", maybe('"type": "function", ', written=False), '"name": "'
            ),
            body=spelled(NAME, '", ', one_of('"parameters"', '"arguments"'), ": ", ARGUMENTS, "}"),
            between=spelled("; {", maybe('"type": "function", ', written=False), '"name": "'),
            closing=(),
        ),
        without=("<function=",),
    ),
    Native(
        "ernie-4.5", ("<response>", "</response>", "<tool_call>"),
        replace(
            _tagged("<tool_call>\n", "\n</tool_call>"), opening=spelled(maybe("<response>\n")),
            answered=spelled(maybe("\n</response>\n")), apart=spelled(maybe("\n</response>\n")),
        ),
        without=("<arg_key>", "<function="),
    ),
    Native(
        "hermes", ("<tool_call>", "</tool_call>", '"arguments"'), _tagged("<tool_call>\n", "\n</tool_call>"),
        without=("<arg_key>", "<function="),
    ),
)  # fmt: skip
"""The formats, those with the clearest marks first."""


def by_name(name: str) -> Native | None:
    """Returns the format with this name; None if there is none."""
    return next((each for each in NATIVE if each.name == name), None)


def native_of(text: str) -> Native | None:
    """Returns the format that a chat template is for; None if it is of no known one.

    Args:
        text: the template, and the prompt that it renders with tools.
    """
    return next((each for each in NATIVE if each.is_of(text)), None)
