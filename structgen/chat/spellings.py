"""Call formats that a chat template tells in its prompt only: a table, by the words with which it tells them.

Such a template renders no call, so nothing can be derived from one. Its words are looked for in what it renders.
"""

from __future__ import annotations

from structgen.chat.arguments import ArgumentFormat, JsonLayout, KeyedArguments, PythonText, ValueWriter
from structgen.chat.call_format import CallFormat, Tags
from structgen.chat.derive_thinking import CONTENT, thinking_tags
from structgen.chat.keyed.nested import TRICKY, Nested
from structgen.chat.pieces import Slot
from structgen.chat.probes import DECLARED, USER, Probes
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
        "string": JsonLayout(), "number": JsonLayout(), "boolean": PythonText(), "null": PythonText(),
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
"""What a prompt says of calls -> the format; the text behind a turn and the marks of thinking are the template's."""


def told_format(template: ChatTemplate) -> CallFormat | None:
    """Returns the call format that a template tells in its prompt; None if it tells none that is known."""
    probes = Probes(template)
    try:
        prompt = template.render([{"role": "user", "content": USER}], DECLARED, prompt=True)
        behind = probes.answer(CONTENT).partition(CONTENT)[2]
    except CannotRender:
        return None
    for words, format_ in SPELLINGS.items():
        if words in prompt:
            return format_.ending(behind, thinking_tags(probes, probes.prompt()))
    return None
