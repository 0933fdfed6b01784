"""Call formats of chat templates that render no calls, so that nothing can be derived from one.

Some tell the format in the prompt: a table has the words to look for. Others leave it to `response_template`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from structgen.chat.arguments import ArgumentFormat, JsonLayout, KeyedArguments, ValueWriter
from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.derive_thinking import CONTENT, thinking_tags
from structgen.chat.keyed.nested import TRICKY, Nested
from structgen.chat.pieces import Slot
from structgen.chat.probes import DECLARED, USER, Probes
from structgen.chat.response_templates import response_format
from structgen.chat.templates import CannotRender, ChatTemplate

_TEXT = Tags("", "")
_JSON_BODY = (Slot.NAME, '", "arguments": ', Slot.ARGUMENTS)
_NESTED = Nested(
    string=('"', '"'), array=("[", ", ", "]"), object=("{", ", ", "}"), key=('"', '": '),
    scalars=("True", "False", "None"), without=frozenset(TRICKY) & frozenset('"\\\n\t'),
)  # fmt: skip


def _python_arguments() -> KeyedArguments:
    """Arguments as a call in Python has them: `city="Rome", days=2, sunny=True`."""
    writers: dict[str, ValueWriter] = {
        "string": JsonLayout(), "number": JsonLayout(), "boolean": _NESTED, "null": _NESTED,
        "array": _NESTED, "object": _NESTED,
    }  # fmt: skip
    formats = {type_: ArgumentFormat((Slot.KEY, "="), writer, ()) for type_, writer in writers.items()}
    return KeyedArguments(tuple(formats.items()), separator=", ")


SPELLINGS = {
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>': CallFormat(  # SmolLM3, Hermes
        '<tool_call>\n{"name": "', _JSON_BODY, '}\n</tool_call>\n<tool_call>\n{"name": "', "}\n</tool_call>", "",
        JsonLayout(), _TEXT, gap='\n<tool_call>\n{"name": "', told=True,
    ),
    "respond only with <|tool_call|> followed by a JSON list of tools used": CallFormat(  # Granite 3.3
        '<|tool_call|>[{"name": "', _JSON_BODY, '}, {"name": "', "}]", "", JsonLayout(), _TEXT, told=True
    ),
    "<|tool_list_start|>": CallFormat(  # LFM2
        "<|tool_call_start|>[", (Slot.NAME, "(", Slot.ARGUMENTS), "), ", ")]<|tool_call_end|>", "",
        _python_arguments(), _TEXT, told=True,
    ),
}  # fmt: skip
"""What a prompt says of calls -> the format. The text behind a turn and the tags of thinking are the template's."""


def told_format(template: ChatTemplate, response: Any = None) -> CallFormat | None:
    """Returns the call format of a template that renders no calls; None if it is unknown.

    It is the format that transformers reads with the tokenizer's `response_template`, or one that the prompt tells.

    Args:
        response: the `response_template` of the tokenizer.
    """
    probes = Probes(template)
    try:
        told = template.render([{"role": "user", "content": USER}], DECLARED, prompt=True)
        prompt, end = probes.prompt(), probes.answer(CONTENT).partition(CONTENT)[2]
    except CannotRender:
        return None
    spelled = next((format_ for words, format_ in SPELLINGS.items() if words in told), None)
    format_ = response_format(response, told, prompt) or spelled
    return None if format_ is None else replace(format_, end=end, thinking=thinking_tags(probes))
