"""Images in the messages of requests: data URLs for a model that sees, refused by name elsewhere."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO

import openai
import pytest

from structgen.server import Settings
from structgen.testing import scripted_chat
from tests.calling.test_images import IN_PARTS, seeing
from tests.support.releases import require_release
from tests.support.serving import served

Image = pytest.importorskip("PIL.Image")


def url(size=(16, 16), kind="PNG"):
    written = BytesIO()
    Image.new("RGB", size, "red").save(written, kind)
    return f"data:image/{kind.lower()};base64,{b64encode(written.getvalue()).decode()}"


def shown(address):
    image = {"type": "image_url", "image_url": {"url": address}}
    return [{"role": "user", "content": [image, {"type": "text", "text": "What?"}]}]


def test_images_are_read_by_a_model_that_sees_and_others_say_so():
    require_release("transformers", "5.2")
    with served(seeing(IN_PARTS), Settings(name="m", max_tokens=20)) as server:
        chat = server.client.chat.completions

        def asked(messages):
            return chat.create(model="m", messages=messages, max_tokens=4, temperature=0)

        plain = asked([{"role": "user", "content": "What?"}])
        seen = asked(shown(url(kind="JPEG")))
        assert seen.usage.prompt_tokens == plain.usage.prompt_tokens + 4  # patches
        item = [{"type": "input_image", "image_url": url(kind="JPEG")}, {"type": "input_text", "text": "What?"}]
        answer = server.client.responses.create(
            model="m", input=[{"role": "user", "content": item}], max_output_tokens=16
        )
        assert answer.usage.input_tokens == seen.usage.prompt_tokens
        for wrong, why in (
            ("https://example.org/a.png", "data URL"),
            ("data:image/png;base64,AAAA", "40,000,000"),
            ("data:image/png;base64,?", "40,000,000"),
            (url((7000, 6000)), "40,000,000"),
            ("file:///etc/passwd", "data URL"),
        ):
            with pytest.raises(openai.BadRequestError, match=why):
                asked(shown(wrong))
    blind = served(scripted_chat("Hi."), Settings(name="m"))
    with blind as server, pytest.raises(openai.BadRequestError, match="reads no images"):
        server.client.chat.completions.create(model="m", messages=shown(url()))
