"""The demo model's tokenizer: byte-level BPE in which a word has the same tokens wherever it stands.

The pre-tokenizer separates words, groups of up to two digits, and runs of everything else. A name is then cut the
same way after a blank and after a quotation mark, so a tiny model can copy it token by token.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from training.corpus import Example

BOS, EOS = "<|bos|>", "<|eos|>"
PIECES = r"\p{L}+|\p{N}{1,2}|[^\p{L}\p{N}]+"
CHAT_TEMPLATE = (
    "{{ bos_token }}{% if tools %}{{ 'Call tools: ' }}{% for tool in tools %}{{ tool.function.name }} "
    "({{ tool.function.parameters.properties | join(', ') }}){{ '.\\n' if loop.last else ', ' }}{% endfor %}{% endif %}"
    "{% for message in messages %}{% if message.role == 'assistant' %}{{ '\\nJSON: ' }}{% if message.tool_calls %}["
    "{% for call in message.tool_calls %}{{ '' if loop.first else ', ' }}"
    '{"tool": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}{% endfor %}]'
    "{% else %}{{ message.content }}{% endif %}{{ eos_token }}{% else %}{{ '' if loop.first else '\\n' }}"
    "{% if message.role == 'tool' %}{{ 'Result: ' }}{% elif tools and message.role == 'user' %}{{ 'Text: ' }}{% endif %}"
    "{{ message.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '\\nJSON: ' }}{% endif %}"
)
"""The tools with their arguments, then the messages; what the model writes stands behind `JSON: `, calls as a list."""


def train_tokenizer(examples: Iterator[Example], size: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `size` tokens, the 256 bytes and two special tokens included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[BOS, EOS], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((text for one in examples for text in (one.prompt, one.answer)), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        model_max_length=512,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
