"""Images as results of tools: read where the model has a processor and the template takes them, told as text elsewhere.

Covers `results`.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

import structgen as sg
from structgen.calling.loop import reads_images
from structgen.calling.results import content
from structgen.models.model import Model
from structgen.testing import HERMES, scripted_chat
from tests.support.releases import require_release

Image = pytest.importorskip("PIL.Image")

IN_PARTS = HERMES.replace(
    "{{ message.content }}",
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}",
)
"""The template of `scripted_chat`, with content as a list of parts that may be images."""


def picture() -> Any:
    return Image.new("RGB", (16, 16), "red")


@sg.tool
def look(at: str) -> Any:
    """Looks."""
    return picture()


def seeing(template: str) -> Model:
    """A model with random weights that reads images of 2 x 2 patches."""
    tokenizer = scripted_chat("").tokenizer
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<image>"]})
    tokenizer.chat_template = template
    mark = tokenizer.convert_tokens_to_ids("<image>")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=2048, **sizes)
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(**sizes, image_size=16, patch_size=8), text_config=text, image_token_id=mark,
        image_token_index=mark,
    )  # fmt: skip
    torch.manual_seed(3)
    module = LlavaForConditionalGeneration(config).eval()
    module.generation_config.eos_token_id = tokenizer.eos_token_id
    size = {"height": 16, "width": 16}
    processor = LlavaProcessor(
        CLIPImageProcessor(size=size, crop_size=size), tokenizer, patch_size=8, num_additional_image_tokens=1,
        vision_feature_select_strategy="default", chat_template=template, image_token="<image>",
    )  # fmt: skip
    return Model.of(module, processor)


def after_a_call(result: Any, *, images: bool) -> list[dict[str, Any]]:
    call = look.called('{"at": "x"}')
    return [
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call.id, "name": "look", "content": content(result, look, images=images)},
    ]


def test_an_image_is_read_by_a_model_that_sees():
    require_release("transformers", "5.2")
    model = seeing(IN_PARTS)
    assert reads_images(model, None)
    reply = sg.call(model, after_a_call(picture(), images=True), [look], details=True, limits=sg.Limits(4))
    mark = model.tokenizer.convert_tokens_to_ids("<image>")
    assert reply.generation.prompt.count("<image>") == 4
    assert model.tokenizer.encode("<image>") == [mark]
    both = sg.call(model, after_a_call(["Two:", picture(), picture()], images=True), [look], details=True,
                   limits=sg.Limits(4))  # fmt: skip
    assert "Two:" in both.prompt
    assert both.generation.prompt.count("<image>") == 8
    shown = [{"role": "user", "content": [{"type": "image", "image": picture()}, {"type": "text", "text": "What?"}]}]
    assert isinstance(sg.generate(model, shown, int), int)


def test_where_the_template_or_the_model_takes_none_a_text_tells_of_it():
    assert not reads_images(seeing(HERMES), None)
    assert not reads_images(seeing(IN_PARTS.replace("<image>", "")), None)
    assert not reads_images(scripted_chat(""), None)
    told = "[an image of 16 x 16 pixels, which this model cannot read]"
    assert content(picture(), look) == told
    assert content(["One:", picture(), {"n": 1}], look) == f'One:\n{told}\n{{"n": 1}}'
    said = '<tool_call>\n{"name": "look", "arguments": {"at": "x"}}\n</tool_call>'
    done = sg.run(scripted_chat(said, "Nothing."), "What is there?", [look], details=True)
    assert done.messages[2]["content"] == told
