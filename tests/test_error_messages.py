"""Messages quote little of what they are about, however long it is."""

from __future__ import annotations

from collections.abc import Callable

import openai
import pytest

import structgen as sg
from structgen.demo import load_demo
from structgen.testing import byte_vocabulary
from tests.support.tables import cases

LONG = "ab" * 100_000
VOCABULARY = byte_vocabulary()


def compiled(schema: object) -> Callable[[], object]:
    return lambda: sg.JsonSchema(schema).compile(VOCABULARY)


CALLS: dict[str, Callable[[], object]] = cases("error_messages", "CALLS", globals())


@pytest.mark.parametrize("name", CALLS)
def test_a_message_about_a_long_text_is_short(name: str) -> None:
    """Every text that a user gives is quoted in part."""
    with pytest.raises(sg.StructgenError) as caught:
        CALLS[name]()
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("module", [None, 3, "x", object()], ids=["None", "3", "x", "object"])
def test_what_is_no_model_is_told_what_to_pass(module: object) -> None:
    """`Model.of` takes transformers models alone."""
    with pytest.raises(sg.OptionError, match=r"expected what structgen.load\(...\) returns, or a transformers model"):
        sg.Model.of(module, load_demo()[1])  # type: ignore[arg-type]


def test_what_stands_for_a_model_elsewhere_is_told_what_to_pass() -> None:
    """A name, a client and a pair are passed to other libraries."""
    with pytest.raises(sg.OptionError, match=r"pass structgen.load\('gpt-4o'\), or structgen.Remote"):
        sg.generate("gpt-4o", "x")  # type: ignore[call-overload]
    with pytest.raises(sg.OptionError, match=r"pass structgen.Remote\(url, name\)"):
        sg.generate(openai.OpenAI(api_key="none"), "x")  # type: ignore[call-overload]
    with pytest.raises(sg.OptionError, match=r"pass structgen.Model.of\(model, tokenizer\)"):
        sg.generate(load_demo(), "x")  # type: ignore[call-overload]


def test_a_model_that_fills_gaps_is_told_what_to_load() -> None:
    """It has a head over the vocabulary, but generates nothing."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    with pytest.raises(sg.OptionError, match="BertForMaskedLM does not generate text: load a causal"):
        sg.generate(BertForMaskedLM(BertConfig(vocab_size=50, **sizes)), "x", {}, tokenizer=load_demo()[1])
