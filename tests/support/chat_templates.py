"""Chat templates of real models, and a vocabulary of bytes and their control tokens."""

from __future__ import annotations

import os
import re
import tarfile
from functools import cache
from pathlib import Path

import pytest

from structgen.chat.arguments import KeyedArguments
from structgen.chat.call_format import CallFormat
from structgen.chat.known import call_format
from structgen.chat.pieces import TAG
from structgen.errors import TokenRejected
from structgen.masks import Grammar
from structgen.vocabulary import Vocabulary

DATA = Path(os.environ.get("STRUCTGEN_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

SILENT = frozenset(
    ("HuggingFaceTB-SmolLM3-3B", "google-gemma-2-2b-it", "llama-cpp-rwkv-world", "microsoft-Phi-3.5-mini-instruct")
)
"""Templates that render no call at all, and tell no format."""
TOLD = frozenset(
    ("LFM2-8B-A1B", "ibm-granite-granite-3.3-2B-Instruct", "tool_chat_template_gemma3_pythonic",
     "tool_chat_template_glm4")
)  # fmt: skip
"""Templates that render no call, or none that can be read back, and that are of a known format."""

NULL_CONTENT = (
    "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}{% elif m.content is none %}<|bot|>"
    "{% for c in m.tool_calls %}<|call|>{{ c.type + ' ' + c.function.name + '\\n' + c.function.arguments }}<|/call|>"
    "{% if not loop.first %}<|/calls|><|end|>{% endif %}{% endfor %}{% else %}<|bot|>{{ m.content }}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|bot|>{% endif %}"
)
"""Renders calls where the content is None only, and ends the turn behind every call but the first (DeepSeek R1)."""

ID_ONLY = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
    "<|call|>{{ c.id }}<|args|>{{ c.function.arguments | tojson }}<|/call|>{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Writes the id of a call and no name: its model puts the name into the id (Kimi K2.5)."""


@cache
def templates() -> dict[str, str]:
    """The source of each template, by its name; none without the data."""
    archive = DATA / "chat-templates.tar.xz"
    if not archive.exists():
        return {}
    with tarfile.open(archive) as packed:
        files = {Path(entry.name): packed.extractfile(entry) for entry in packed if entry.name.endswith(".jinja")}
        return {path.stem: file.read().decode() for path, file in sorted(files.items()) if file is not None}


def template_of(name: str) -> str:
    """The source of one of these templates. Without the data, the test that asks is skipped."""
    return templates().get(name) or pytest.skip(f"no template {name}: set STRUCTGEN_DATA to the folder with the data")


@cache
def format_of(name: str) -> CallFormat:
    """The call format of one of these templates."""
    return call_format(template_of(name))


def derivable() -> list[str]:
    """The names of those whose call format can be told."""
    return [name for name in templates() if name not in SILENT | TOLD]


def control_tokens(format_: CallFormat) -> list[str]:
    """What a format has that looks like control tokens."""
    texts = [
        format_.lead,
        *format_.body,
        format_.between,
        format_.gap,
        format_.closing,
        *vars(format_.content).values(),
    ]
    if isinstance(format_.arguments, KeyedArguments):
        texts += [piece for _, each in format_.arguments.formats for piece in (*each.before, *each.after)]
    return sorted({tag for text in texts if isinstance(text, str) for tag in TAG.findall(text)})


def byte_vocabulary(names: list[str]) -> Vocabulary:
    """A token for each byte, and special tokens with these names."""
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    return Vocabulary.from_tokens(
        [*tokens, None, *[None] * len(names)], [256], names={name: 257 + place for place, name in enumerate(names)}
    )


def token_ids(text: str, vocabulary: Vocabulary) -> list[int]:
    """A text in the tokens of `byte_vocabulary`."""
    names = sorted(vocabulary.special_names, key=len, reverse=True)
    pieces = re.split("(" + "|".join(map(re.escape, names)) + ")", text) if names else [text]
    return [
        token
        for place, piece in enumerate(pieces)
        for token in ([vocabulary.special_names[piece]] if place % 2 else piece.encode())
    ]


def refused_at(grammar: Grammar, text: str, vocabulary: Vocabulary) -> int | None:
    """The token of a text that a grammar refuses; its length where the text may not end; None where it is accepted."""
    matcher, ids = grammar.matcher(), token_ids(text, vocabulary)
    for place, token in enumerate(ids):
        try:
            matcher.advance(token)
        except TokenRejected:
            return place
    return None if matcher.can_finish else len(ids)
