"""A GGUF file, and the tokenizer and the chat template inside it."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

from structgen.errors import OptionError, quoted

PIECE = 256
"""The first size, in bytes, of the buffer for a token."""

SAID = "\ue000", "\ue001"
"""Marks around the name of a control token in a message, which is to be read as text."""


class GgufFile:
    """A file that llama.cpp has loaded.

    Args:
        model: llama.cpp's pointer.
        owner: what has to live as long, if the file is not freed with this object.
    """

    def __init__(self, api: Any, model: Any, owner: object = None) -> None:
        self.api, self.model, self.owner = api, model, owner

    @classmethod
    def load(cls, api: Any, path: str, settings: Any) -> GgufFile:
        """Reads a file with llama.cpp's parameters of a model; it is freed with the object."""
        model = api.llama_model_load_from_file(os.fsencode(path), settings)
        if not model:
            raise OptionError(f"llama.cpp cannot load {quoted(path)}: it is not a GGUF file of a model that it knows")
        file = cls(api, model)
        weakref.finalize(file, api.llama_model_free, model)
        return file


class GgufTokenizer:
    """llama.cpp's tokenizer, with the methods of transformers' tokenizers.

    Attributes:
        chat_template: the source of the file's template; None without one.
    """

    def __init__(self, file: GgufFile) -> None:
        self.api, self._file, api = file.api, file, file.api
        self._vocab = api.llama_model_get_vocab(file.model)
        self.size: int = api.llama_vocab_n_tokens(self._vocab)
        self.end_ids = [token for token in range(self.size) if api.llama_vocab_is_eog(self._vocab, token)]
        template = api.llama_model_chat_template(file.model, None)
        self.chat_template: str | None = None if template is None else template.decode()

    def attributes(self, token: int) -> int:
        """The token's kind, as bits of llama.cpp's `LLAMA_TOKEN_ATTR_...`."""
        return int(self.api.llama_vocab_get_attr(self._vocab, token))

    def name(self, token: int) -> str:
        """The token's name in the file."""
        return bytes(self.api.llama_vocab_get_text(self._vocab, token)).decode(errors="replace")

    def piece(self, token: int) -> bytes:
        """The bytes that a token adds to a text."""
        room = PIECE
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self.api.llama_token_to_piece(self._vocab, token, buffer, room, 0, True)
            if count >= 0:
                return buffer.raw[:count]
            room = -count

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text; the name of a control token gives that token."""
        return self._encoded(text, special=add_special_tokens, control=True)

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.piece, ids)).decode(errors="replace")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Any] | None = None,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        return_dict: bool = True,
        sanitize_control_tokens: bool = False,
        **options: Any,
    ) -> Any:
        """As in transformers: the text of chat messages, or its ids.

        Raises:
            ValueError: the file has no chat template.
        """
        if self.chat_template is None:
            raise ValueError("the GGUF file has no chat template")
        given: Any = [self._marked(message) if sanitize_control_tokens else message for message in conversation]
        rendered: Any = render_jinja_template(
            [given],
            tools=list(tools) if tools else None,
            chat_template=self.chat_template,
            add_generation_prompt=add_generation_prompt,
            **{**self.special_tokens_map, **options},
        )
        pieces = re.split(f"{SAID[0]}(.*?){SAID[1]}", rendered[0][0])  # every second one was marked
        if not tokenize:
            return "".join(pieces)
        ids = [i for n, piece in enumerate(pieces) for i in self._encoded(piece, special=False, control=n % 2 == 0)]
        return {"input_ids": ids} if return_dict else ids

    def _encoded(self, text: str, *, special: bool, control: bool) -> list[int]:
        raw = text.encode()
        room = len(raw) + 8
        ids = (self.api.llama_token * room)()
        count = self.api.llama_tokenize(self._vocab, raw, len(raw), ids, room, special, control)
        return list(ids[:count])

    def _marked(self, value: Any) -> Any:
        """A message with marks around the names of control tokens in its texts."""
        if isinstance(value, str):
            clean = re.sub(f"[{''.join(SAID)}]", "", value)
            return self._control.sub(lambda match: SAID[0] + match[0] + SAID[1], clean)
        if isinstance(value, Mapping):
            return {key: self._marked(each) for key, each in value.items()}
        return [self._marked(each) for each in value] if isinstance(value, (list, tuple)) else value

    @cached_property
    def _control(self) -> re.Pattern[str]:
        kinds = self.api.LLAMA_TOKEN_ATTR_CONTROL | self.api.LLAMA_TOKEN_ATTR_USER_DEFINED
        names = [self.name(token) for token in range(self.size) if self.attributes(token) & kinds]
        return re.compile("|".join(map(re.escape, sorted(filter(None, names), key=len, reverse=True))) or "(?!)")

    @cached_property
    def special_tokens_map(self) -> dict[str, str]:
        """The tokens that templates refer to, by their names there."""
        ids = {"bos_token": self.api.llama_vocab_bos(self._vocab), "eos_token": self.api.llama_vocab_eos(self._vocab)}
        return {name: self.name(token) if token >= 0 else "" for name, token in ids.items()}
