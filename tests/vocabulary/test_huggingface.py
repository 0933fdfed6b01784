"""Which added and user-defined tokens are text, and which are commands to the model."""

from __future__ import annotations

import io
from typing import Any

import pytest
import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

from structgen.constraints.basic import JsonSchema
from structgen.masks.canonical_matcher import CanonicalMatcher
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.huggingface import is_word, looks_like_control
from tests.support.releases import require_release
from tests.support.small_tokenizers import byte_level_bpe
from tests.support.walking import tokens_of


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        "<think>",
        "</tool_call>",
        "<|im_start|>",
        "[INST]",
        " <mask>",
        "<｜User｜>",
        "▁<sep>",
        "<\n>",
        "<start_of_turn>",
        "[TOOL_CALLS]",
        "<minimax:tool_call>",
        "<extra_id_0>",
        "<arg_key>",
        "<0x41>",
        "<a b>",
        "<->",
        "<>",
        "<reserved_special_token_7>",
        "<image_soft_token>",
        "<|đem|>",
        "<repo_name>",
        "<s2>",
    ],
)
def test_brackets_are_commands(content: str) -> None:
    """A token in brackets is a command, whatever blanks stand around it."""
    assert looks_like_control(content)
    assert not is_word(content, content.encode())


@pytest.mark.parametrize("content", ["  ", "\n\n", "▁▁", "aspirin", "a[0]", "<", "[a>", "日本", "->", "\t"])
def test_blanks_and_words_are_text(content: str) -> None:
    """Runs of blanks and words are text: they are the only canonical way to write themselves."""
    assert is_word(content, content.replace("▁", " ").encode())


@pytest.mark.parametrize(
    "content",
    [
        "<td>",
        "</td>",
        "<br/>",
        "<h1>",
        "[loc]",
        "<loc0001>",
        "<PERSON>",
        " <i>",
        "<loc_1>",
        "[NAME_1]",
        "<ner:PER>",
        "<日本>",
        "</đem>",
        "[a.b-c]",
        "<e1>",
        "[1]",
        "<हिन्दी>",
    ],
)
def test_plain_words_in_brackets_are_text(content: str) -> None:
    """Unless the word names a command."""
    assert is_word(content, content.encode())


@pytest.mark.parametrize(
    "content", ["<td>", "[loc]", "đem", "ăn", "čaj", "ēka", "café", "naïve Ń", "Ġx", "ÿÿ", "日本", "a b", "<none", "Ω"]
)
@pytest.mark.parametrize("wrapped", [True, False])
def test_an_added_word_stands_for_its_content(content: str, wrapped: bool) -> None:
    """Though a byte-level decoder takes some of its letters for bytes; the other tokens stay as they are."""
    made: Any = byte_level_bpe(["the cat and the hat", "đem ăn čaj"] * 30, 290)
    plain = Vocabulary.from_tokenizer(made)
    made.add_tokens([content])
    vocabulary = Vocabulary.from_tokenizer(made if wrapped else made.backend_tokenizer, end_ids=plain.end_ids)
    added = made.convert_tokens_to_ids(content)
    assert vocabulary.token(added) == content.encode()
    assert [vocabulary.token(i) for i in range(added)] == [plain.token(i) for i in range(added)]
    text = f'"the {content} cat {content}"'
    ids = made.encode(text)
    assert added in ids
    assert vocabulary.decode(ids) == text.encode()
    matcher = CanonicalMatcher(JsonSchema({"type": "string"}).compile(vocabulary))
    for token in ids:
        assert token in tokens_of(matcher.mask()), (token, vocabulary.token(token))
        matcher.advance(token)


def test_an_added_word_stands_for_what_its_normalizer_makes_of_it() -> None:
    """Llama 2's puts a blank before each text, so also before an added word: it is written after a blank alone."""
    require_release("tokenizers", "0.23")  # older ones decode it as its content
    pieces = ["<unk>", "▁", "t", *(f"<0x{byte:02X}>" for byte in range(256))]
    model: Any = models.BPE({piece: i for i, piece in enumerate(pieces)}, [], unk_token="<unk>", byte_fallback=True)
    made = Tokenizer(model)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])  # type: ignore[assignment]
    chain: list[Any] = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(chain)  # type: ignore[assignment]
    made.add_tokens(["đem", "<td>", "<think>", AddedToken("ăn", normalized=False)])
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[0])
    text = {word: vocabulary.token(made.token_to_id(word)) for word in ("đem", "<td>", "<think>", "ăn")}
    assert text == {"đem": " đem".encode(), "<td>": b" <td>", "<think>": b"", "ăn": "ăn".encode()}
    ids = made.encode("t đem <td>tđem t").ids
    assert ids.count(made.token_to_id("đem")) == 1
    assert vocabulary.decode(ids) == " t đem <td>tđem t".encode()


def test_what_the_chat_template_writes_in_brackets_is_a_command() -> None:
    """A word like any other, but the template writes it."""
    made: Any = byte_level_bpe(["the cat"] * 30, 290)
    made.add_tokens(["<weather>", "<td>"])
    made.chat_template = "{% for m in messages %}<weather>{{ m.content }}{% endfor %}"
    vocabulary = Vocabulary.from_tokenizer(made)
    assert vocabulary.token(made.convert_tokens_to_ids("<weather>")) == b""
    assert vocabulary.token(made.convert_tokens_to_ids("<td>")) == b"<td>"


def test_a_word_that_the_model_has_as_bytes_is_no_text() -> None:
    """`é` is byte 0xE9 to the model, and the two bytes of `é` where it was added: it is never allowed."""
    assert not is_word("é", b"\xe9")
    assert not is_word("a", b" a")


def test_added_tokens_of_a_fast_tokenizer() -> None:
    """Special tokens and commands are never text; blanks and words are."""
    made = Tokenizer(models.BPE({"</s>": 0, "Ġ": 1, "x": 2}, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["</s>", "secret"])
    made.add_tokens([AddedToken(t, normalized=False) for t in ("   ", "aspirin", "<think>", "é", "日本")])
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[0])
    text = {t: vocabulary.token(made.token_to_id(t)) for t in made.get_vocab()}
    assert text == {
        "</s>": b"", "secret": b"", "<think>": b"", "é": "é".encode(),
        "Ġ": b" ", "x": b"x", "   ": b"   ", "aspirin": b"aspirin", "日本": "日本".encode(),
    }  # fmt: skip
    assert vocabulary.special_ids == {made.token_to_id(t) for t in ("</s>", "secret", "<think>")}
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
