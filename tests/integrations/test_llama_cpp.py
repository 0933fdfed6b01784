"""The constraint for llama-cpp-python's loop, on the demo model as a GGUF file. Covers `llama_cpp`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.errors import TokenRejected

llama_cpp = pytest.importorskip("llama_cpp", reason="needs the extra llama-cpp")
pytest.importorskip("gguf", reason="needs the package gguf, to write a file")

from structgen.integrations.llama_cpp import ConstraintLogitsProcessor  # noqa: E402 - after the skip

PROMPT = "Extract the person: name, age, city.\nText: {}\nJSON: "
TEXTS = ["Ada Moreau, 36, lives in Lyon.", "Tom Berg is 51 years old, and he lives in Oslo."]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    from tests.support.gguf_files import write_gguf

    file = write_gguf(tmp_path_factory.mktemp("gguf") / "demo.gguf", *load_demo(), "{{ messages[0].content }}")
    return llama_cpp.Llama(str(file), n_ctx=256, n_threads=1, verbose=False)


def written(llama, text: str, *processors, **options) -> str:
    masks = llama_cpp.LogitsProcessorList(processors)
    options = {"temperature": 0.0, "max_tokens": 64, **options}
    return llama.create_completion(PROMPT.format(text), logits_processor=masks, **options)["choices"][0]["text"]


def test_one_processor_is_for_one_text_after_the_other(llama):
    """What llama.cpp's loop says is what structgen's says, also after a text that was cut off."""
    model, masks = sg.load("demo"), ConstraintLogitsProcessor(Person, llama)
    assert written(llama, TEXTS[0], masks, max_tokens=5)
    for text in TEXTS:
        assert written(llama, text, masks) == sg.generate(model, PROMPT.format(text), schema=Person, details=True).text
        assert masks.error is None


@pytest.mark.parametrize("seed", range(3))
def test_every_sampled_text_is_valid(llama, seed):
    masks = ConstraintLogitsProcessor(sg.Regex("[a-c]{3}[0-9]{2}"), llama)
    text = written(llama, TEXTS[0], masks, temperature=2.0, seed=seed)
    assert len(text) == 5
    assert set(text[:3]) <= set("abc")
    assert text[3:].isdecimal()


def test_a_text_ends_where_another_processor_has_raised_a_forbidden_token(llama):
    """llama.cpp ignores exceptions of a processor, so the error is kept, and only an end may follow."""
    masks, (wrong,) = ConstraintLogitsProcessor(Person, llama), llama.tokenize(b"?", add_bos=False)

    def raised(_, scores):
        if np.isfinite(scores).sum() < len(scores) / 2 and masks.error is None:
            scores[wrong] = 1e9
        return scores

    assert written(llama, TEXTS[0], masks, raised) == "?"
    assert isinstance(masks.error, TokenRejected)


def test_drafts_and_lists_of_schemas_are_refused(llama):
    with pytest.raises(sg.OptionError, match="draft"):
        ConstraintLogitsProcessor(Person, SimpleNamespace(draft_model=object()))
    with pytest.raises(sg.OptionError, match="one schema"):
        ConstraintLogitsProcessor([Person, Person], llama)
