"""Which added and user-defined tokens are text, and which are commands to the model."""

from __future__ import annotations

import io
from typing import Any

import pytest
import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models

from structgen.vocabulary import Vocabulary
from structgen.vocabulary.huggingface import is_word, looks_like_control


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    "content",
    ["<think>", "</tool_call>", "<|im_start|>", "[INST]", " <mask>", "<｜User｜>", "▁<sep>", "<\n>"],
)
def test_brackets_are_commands(content: str) -> None:
    """A token in brackets is a command, whatever blanks stand around it."""
    assert looks_like_control(content)
    assert not is_word(content, content.encode())


@pytest.mark.parametrize("content", ["  ", "\n\n", "▁▁", "aspirin", "a[0]", "<", "[a>", "日本", "->", "\t"])
def test_blanks_and_words_are_text(content: str) -> None:
    """Runs of blanks and words are text: they are the only canonical way to write themselves."""
    assert is_word(content, content.replace("▁", " ").encode())


def test_a_token_that_decodes_to_something_else_is_no_text() -> None:
    """`é` added to a byte-level tokenizer comes back as half a character: it is never allowed."""
    assert not is_word("é", b"\xe9")
    assert not is_word("a", b" a")


def test_added_tokens_of_a_fast_tokenizer() -> None:
    """Special, bracketed and wrongly decoded added tokens are never text; blanks and words are."""
    made = Tokenizer(models.BPE({"</s>": 0, "Ġ": 1, "x": 2}, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["</s>", "secret"])
    made.add_tokens([AddedToken(t, normalized=False) for t in ("   ", "aspirin", "<think>", "é", "日本")])
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[0])
    text = {t: vocabulary.token(made.token_to_id(t)) for t in made.get_vocab()}
    assert text == {
        "</s>": b"", "secret": b"", "<think>": b"", "é": b"",
        "Ġ": b" ", "x": b"x", "   ": b"   ", "aspirin": b"aspirin", "日本": "日本".encode(),
    }  # fmt: skip
    assert vocabulary.special_ids == {made.token_to_id(t) for t in ("</s>", "secret", "<think>", "é")}
    ids = made.encode("x   aspirin日本x").ids
    assert vocabulary.decode(ids) == "x   aspirin日本x".encode()


def test_user_defined_pieces_of_sentencepiece() -> None:
    """Gemma's way: blanks are user-defined pieces, as its turns are; an ordinary `[]` is learnt."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a [] b [] c [] <b> d"] * 50),
        model_writer=written,
        model_type="bpe",
        vocab_size=290,
        byte_fallback=True,
        user_defined_symbols=["<start_of_turn>", "▁▁▁", "\n\n", "word"],
        control_symbols=["<ctl>"],
        hard_vocab_limit=False,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    vocabulary = Vocabulary.from_tokenizer(processor)
    pieces = ["<start_of_turn>", "<ctl>", "<unk>", "</s>", "▁▁▁", "\n\n", "word", "▁[]", "<0x0A>"]
    expected = [b"", b"", b"", b"", b"   ", b"\n\n", b"word", b" []", b"\n"]
    assert [vocabulary.token(processor.piece_to_id(piece)) for piece in pieces] == expected
    assert vocabulary.end_ids == (processor.eos_id(),)
