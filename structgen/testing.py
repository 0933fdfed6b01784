"""Public fakes: a byte vocabulary, and a model that wants to say a given text; and how a model's turns are read.

    model = scripted('{"name": "Paris"}')
    generate(model, "anything", schema=City)        # the whole way, without weights

Nothing is downloaded and nothing is random, so tests of your code that calls structgen are exact.
"""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from itertools import count, pairwise
from typing import Any, Literal, NamedTuple

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast

from structgen.arguments import require_unicode
from structgen.chat import CallFormat, call_format
from structgen.chat.calls_constraint import TurnRules, turn
from structgen.chat.parser import TextPiece, ThoughtPiece, TurnReader
from structgen.constraints.languages import ByteMachine
from structgen.errors import TokenRejected, quoted
from structgen.guards import Guard, Veto
from structgen.models.model import Model
from structgen.tools import Tool
from structgen.vocabulary import Vocabulary

__all__ = [
    "ByteTokenizer", "ScriptedModel", "TurnRead", "byte_vocabulary", "check_machine", "mask_refuses_at", "read_turn",
    "scripted", "scripted_chat", "veto_of",
]  # fmt: skip

END = 256
"""The end token of the byte vocabulary."""

CLOSERS = (b'"', b"}", b"]")


def byte_vocabulary(*, width: int = 257, special: Iterable[str] = ()) -> Vocabulary:
    """256 tokens of one byte each, the end token 256, and special tokens with these names from 257 on.

    A larger `width` adds padding rows.
    """
    tokens: list[bytes | None] = [bytes([byte]) for byte in range(256)]
    names = {name: END + 1 + place for place, name in enumerate(sorted(set(special)))}
    tokens += [None] * (1 + len(names))
    return Vocabulary.from_tokens(tokens, end_ids=[END], width=max(width, len(tokens)), names=names)


class ByteTokenizer:
    """A tokenizer whose ids are UTF-8 bytes; chat messages become `role: content` lines."""

    eos_token_id = END

    def encode(self, text: str) -> list[int]:
        """The text's bytes."""
        return list(text.encode())

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of the bytes among the ids."""
        return bytes(i for i in token_ids if i < END).decode("utf-8", errors="replace")

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        **options: Any,
    ) -> dict[str, list[int]] | str:
        """One line per message, and the opening of the assistant's; as ids, or as text without `tokenize`."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        text = "".join(lines) + "assistant: " * add_generation_prompt
        return {"input_ids": self.encode(text)} if tokenize else text


class ScriptedConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """What transformers wants to know about a `ScriptedModel`."""

    model_type = "structgen-scripted"
    vocab_size = 257
    max_position_embeddings = 4096
    num_hidden_layers = 1
    num_attention_heads = 1
    hidden_size = 1


class ScriptedModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A causal model whose most likely tokens spell a text, and then end it.

    It keeps what it has read in the KV cache, as any model does, so batches, padding and rollback work. Where a mask
    makes it write other bytes than it wanted, it continues where it was in its own text. So it starts a banned word
    again after each byte, until `Limits(rollbacks=...)` are spent. At the end of its text, it wants to end, or else to
    close what is open.

    Args:
        text: what it wants to say after any prompt; a list has one text for each row.
        vocabulary: it takes the longest token that fits.
    """

    config_class = ScriptedConfig

    def __init__(self, text: str | Sequence[str], vocabulary: Vocabulary, **config: Any) -> None:
        options: dict[str, Any] = {"vocab_size": vocabulary.width, **config}
        super().__init__(ScriptedConfig(**options))
        require_unicode("text", *([text] if isinstance(text, str) else text))
        self.wanted = [part.encode() for part in ([text] if isinstance(text, str) else text)]
        self.vocabulary = vocabulary
        self.embedding = nn.Embedding(vocabulary.width, 1)
        self.lm_head = nn.Linear(1, vocabulary.width, bias=False)
        self._left: dict[tuple[int, tuple[int, ...]], bytes] = {}
        self._prompts_of: weakref.WeakKeyDictionary[Cache, int] = weakref.WeakKeyDictionary()
        self.post_init()  # type: ignore[no-untyped-call]
        self.train(False)

    def get_input_embeddings(self) -> nn.Module:
        """As many rows as the vocabulary has ids; never read."""
        return self.embedding

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        prompt_tokens: Sequence[int] | None = None,
        **options: Any,
    ) -> CausalLMOutputWithPast:
        """Logits of the last token only: float32[rows, 1, width].

        Args:
            input_ids: int64[rows, columns].
            attention_mask: of any kind; only one of four dimensions matters: [rows, 1, columns, slots].
            position_ids: int64[rows, columns].
            prompt_tokens: of each row, how many tokens are its prompt; by default what comes first.
            options: a cache, under the name that this release of transformers has for it; everything else is ignored.
        """
        cache = next((value for value in options.values() if isinstance(value, Cache)), None)
        cache = DynamicCache() if cache is None else cache
        fed = input_ids[:, None, :, None].float()  # the ids as keys, exact up to 2**24
        marks = torch.zeros_like(fed)
        for row, script in enumerate(self._started(cache, input_ids, position_ids)):
            marks[row] = 0 if script is None else -1 - script  # as values: which prompt this is, or what was said
        ids, values = cache.update(fed, marks, 0)
        logits = []
        for row in range(len(input_ids)):
            seen = _seen(attention_mask, row, ids.shape[2])
            keys, notes = ids[row, 0, :, 0][seen], values[row, 0, :, 0][seen]
            taken = keys[notes == 0] if prompt_tokens is None else keys[prompt_tokens[row] :]
            logits.append(self._scores(self._script_of(keys, notes), tuple(taken.long().tolist())))
        return CausalLMOutputWithPast(None, torch.stack(logits)[:, None].to(self.device), cache)

    def _script_of(self, ids: Tensor, notes: Tensor) -> int:
        """The number of a row's script, by the ids it has read and the values noted next to them."""
        return int(-1 - notes.min())

    def _started(self, cache: Cache, ids: Tensor, positions: Tensor | None) -> list[int | None]:
        """For each row the number of its script if a prompt starts here; prompts are numbered as they come."""
        if positions is None:
            fresh = [cache.get_seq_length() == 0] * len(ids)
        else:
            fresh = [_reaches_zero(row) for row in positions.tolist()]
        numbers = count(self._prompts_of.get(cache, 0))
        started = [next(numbers) if is_new else None for is_new in fresh]
        self._prompts_of[cache] = next(numbers)
        return started

    def _rest(self, row: int, said: tuple[int, ...]) -> bytes:
        """What a row still wants to say."""
        rest = self._left.get((row, said[:-1]))
        new, rest = (said, self.wanted[row % len(self.wanted)]) if rest is None else (said[-1:], rest)
        for byte in self.vocabulary.decode(new):
            rest = rest[rest[:1] == bytes([byte]) :]
        if len(self._left) > 1000:
            self._left.clear()
        self._left[row, said] = rest
        return rest

    def _scores(self, row: int, said: tuple[int, ...]) -> Tensor:
        rest = self._rest(row, said)
        scores = torch.zeros(self.vocabulary.width)
        if not rest:
            scores[[self._by_bytes[closer] for closer in CLOSERS if closer in self._by_bytes]] = 10.0
            scores[list(self.vocabulary.end_ids)] = 20.0
        for length in range(1, min(len(rest), self._longest) + 1):
            if rest[:length] in self._by_bytes:
                scores[self._by_bytes[rest[:length]]] = 20.0 + length
        return scores

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        ids = range(self.vocabulary.width - 1, -1, -1)  # the lowest of equal tokens wins
        return {self.vocabulary.token(i): i for i in ids if self.vocabulary.token(i)}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_bytes))


def _seen(mask: Tensor | None, row: int, slots: int) -> Tensor:
    """The slots that the row's last token sees: bool[slots]."""
    if mask is None or mask.dim() != 4:
        return torch.ones(slots, dtype=torch.bool)
    last = mask[row if len(mask) > 1 else 0, 0, -1]
    return last if last.dtype == torch.bool else last >= 0


def _reaches_zero(positions: Sequence[int]) -> bool:
    """Do the positions end with 0, 1, 2, ... up to the last one? Those before are padding's."""
    last = positions[-1]
    return positions[-1 - last :] == [*range(last + 1)]


def scripted(text: str | Sequence[str], **config: Any) -> Model:
    """A loaded model over bytes that wants to say `text`: for `generate(scripted(...), prompt, schema=...)`.

    Args:
        text: what it wants to say; a list is taken row by row.
        config: `max_position_embeddings` for a shorter context than 4096.
    """
    vocabulary = byte_vocabulary()
    return Model(ScriptedModel(text, vocabulary, **config), ByteTokenizer(), vocabulary)


HERMES = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>
{{ message.reasoning_content }}
</think>

{% endif %}{{ message.content }}{% for call in message.tool_calls or [] %}{% if message.content or not loop.first %}

{% endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A chat template: tools declared as JSON, calls as JSON between tags after text, thinking."""


class ScriptedChatModel(ScriptedModel):  # type: ignore[no-untyped-call]
    """A `ScriptedModel` that says another text in each turn of a conversation: the turns are counted in its prompt."""

    def _started(self, cache: Cache, ids: Tensor, positions: Tensor | None) -> list[int | None]:
        mark = torch.tensor(self.vocabulary.special_names["<|im_start|>"])
        header = torch.cat([mark[None], torch.tensor([self._by_bytes[bytes([byte])] for byte in b"assistant\n"])])
        turns = [int((row.unfold(0, len(header), 1) == header).all(1).sum()) if len(row) >= len(header) else 0
                 for row in ids]  # fmt: skip
        started = super()._started(cache, ids, positions)
        return [None if new is None else max(turn - 1, 0) for new, turn in zip(started, turns, strict=True)]


def scripted_chat(*turns: str) -> Model:
    """A loaded model over bytes, with a chat template that renders calls, that wants to say a text in each turn.

        call = '<tool_call>\\n{"name": "add", "arguments": {"a": 1, "b": 2}}\\n</tool_call>'
        run(scripted_chat(call, "Three."), "How many?", [add])

    Args:
        turns: what it wants to say in its first turn of a conversation, in its second, ...
    """
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({character: i for i, character in enumerate(characters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made: Any = PreTrainedTokenizerFast
    tokenizer = made(tokenizer_object=backend, eos_token="<|im_end|>", chat_template=HERMES)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    return Model(ScriptedChatModel(list(turns), vocabulary), tokenizer, vocabulary)


def veto_of(guard: Guard[Any], text: str | bytes) -> Veto | None:
    """A guard's verdict on a whole text; None where it lets the text and its end pass.

    Raises:
        AssertionError: the guard breaks its contract: its verdict depends on the pieces in which the text comes, or
            feeding changed a state.
    """
    data = text.encode() if isinstance(text, str) else text
    whole = guard.feed(guard.start(), data)
    verdict = whole if isinstance(whole, Veto) else guard.finish(whole)
    state: Any = guard.start()
    for index in range(len(data)):
        after = guard.feed(state, data[index : index + 1])
        assert guard.feed(state, data[index : index + 1]) == after, f"feed is not pure at byte {index}"
        state = after
        if isinstance(state, Veto):
            break
    veto = state if isinstance(state, Veto) else guard.finish(state)
    assert veto == verdict, f"byte by byte the verdict is {veto}, at once {verdict}"
    return verdict


class TurnRead(NamedTuple):
    """What `read_turn` finds in a turn.

    Attributes:
        calls: the name and the arguments of each call.
        content: the text of the answer.
        reasoning: the text of the thought before it.
    """

    calls: list[tuple[str, dict[str, Any]]]
    content: str
    reasoning: str


def read_turn(
    format_or_template: CallFormat | str,
    tools: Sequence[Any],
    text: str,
    cuts: Sequence[int] = (),
    thought: Literal["open", "closed"] | None = None,
) -> TurnRead:
    """Reads the text of a model's turn: its calls, its answer and its thought.

        read_turn("hermes", [get_weather], text).calls

    Args:
        format_or_template: the name of a call format, a `CallFormat`, or the Jinja source of a chat template.
        tools: functions, `Tool`s, or declarations of tools as OpenAI's interface has them.
        text: the turn, with special tokens by their names.
        cuts: the places in the text, in order, between which it is fed piece by piece.
        thought: how the prompt ends: "open", within a thought; "closed", after one; None if this is not known.

    Raises:
        StructgenError: the text is not a turn in the format, or the template has no format that is known.
    """
    reader = TurnReader(_format(format_or_template), _schemas(tools), thought=thought)
    pieces = (text[begin:end] for begin, end in pairwise([0, *cuts, len(text)]))
    turn = reader.finish(reduce(reader.feed, pieces, reader.start))
    calls = [(each.name, json.loads(each.arguments)) for each in turn.calls]
    return TurnRead(calls, turn.said(TextPiece), turn.said(ThoughtPiece))


def mask_refuses_at(
    format_or_template: CallFormat | str,
    tools: Sequence[Any],
    text: str,
    special: Sequence[str] = (),
    required: bool = False,
    thought: bool = True,
) -> int | None:
    """The offset in bytes at which the masks of a turn refuse a text; None if they take all of it.

    Args:
        format_or_template, tools, text: as for `read_turn`.
        special: the names of special tokens, each of which is one token of its own wherever it appears in the text.
        required: must the turn call a tool, as with `tool_choice="required"`?
        thought: may the text begin with a thought, with or without its opening tag?

    Returns:
        The offset of the first token that no mask allows; the length of the text if it may not end there.

    Raises:
        StructgenError: the template has no format that is known, or a tool cannot be written in it.
    """
    vocabulary = byte_vocabulary(special=special)
    ids, names = vocabulary.special_names, "|".join(map(re.escape, special))
    declared = tuple(map(Tool.of, tools))
    rules = TurnRules(declared, min_calls=int(required), text=not required, thought=thought)
    matcher = turn(_format(format_or_template), rules, vocabulary).compile(vocabulary).matcher()
    offset = 0
    for piece in re.split(f"({names})", text) if names else [text]:
        for token in [ids[piece]] if piece in ids else piece.encode():
            try:
                matcher.advance(token)
            except TokenRejected:
                return offset
            offset += len(piece.encode()) if token > END else 1
    return None if matcher.can_finish else offset


def _format(source: CallFormat | str) -> CallFormat:
    return source if isinstance(source, CallFormat) else call_format(source)


def _schemas(tools: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    return {tool.name: tool.arguments_schema for tool in map(Tool.of, tools)}


def check_machine(machine: ByteMachine, texts: Iterable[str | bytes]) -> None:
    """Does a byte machine keep the contract of `Machine`, as far as these texts show?

    Every state must be hashable and stay as it is. `step` and `accepts` must give equal answers for equal states,
    wherever and however often they are asked.

    Raises:
        AssertionError: says which text, byte and state show that it is not.
    """
    known: dict[Any, dict[int, Any]] = {}
    for _ in range(2):  # the second time, every answer is known
        for text in texts:
            state = machine.start
            for index, byte in enumerate(text.encode() if isinstance(text, str) else text):
                where = f"{quoted(text)}, byte {index}, state {quoted(state)}"
                try:
                    before = hash(state)
                except TypeError as error:
                    raise AssertionError(f"{where}: {error}") from None
                answers = known.setdefault(state, {})
                after, accepts = machine.step(state, byte), machine.accepts(state)
                assert hash(state) == before, f"{where}: step or accepts has changed the state"
                assert answers.setdefault(byte, after) == after, f"{where}: equal states have different futures"
                assert answers.setdefault(-1, accepts) == accepts, f"{where}: accepts() gives different answers"
                if after is None:
                    break
                state = after
