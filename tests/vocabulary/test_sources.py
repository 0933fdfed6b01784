"""The readers on small tokenizers: symbols, holes, unknown tokens, raw and wrapped, slow ones of every habit.

Covers `table`.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    ByT5Tokenizer,
    GPTSw3Tokenizer,
    LlamaTokenizer,
    MBartTokenizer,
    PreTrainedTokenizerFast,
    T5Tokenizer,
    XLMRobertaTokenizer,
)
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy

import structgen as sg
from structgen.errors import VocabularyError
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.decoders import CODE_POINTS
from structgen.vocabulary.pieces import spell_piece
from structgen.vocabulary.sources import source_of
from tests.support.tables import cases


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path / "cache"))


def slow(vocab: dict[Any, int], **habits: Any) -> SimpleNamespace:
    """The least of a slow tokenizer: `vocab`, ids 0 special and ending, and what tells its habits."""
    added = {0: SimpleNamespace(content="</s>", special=True)}
    return SimpleNamespace(
        get_vocab=lambda: vocab,
        added_tokens_decoder=added,
        all_special_ids=[0],
        special_tokens_map={"eos_token": "</s>"},
        eos_token_id=0,
        convert_ids_to_tokens=None,
        **habits,
    )


SYMBOLS = ["{", "}", '"', ":", "7", "<tool>"]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a SentencePiece model that was trained with symbols of its user, under the names it may have."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"the fox {i} jumps over the dog {j}" for i in range(40) for j in range(20)]),
        model_writer=model, vocab_size=70, model_type=request.param, user_defined_symbols=SYMBOLS,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp(request.param)
    for name in ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"):
        (folder / name).write_bytes(model.getvalue())
    return folder


@pytest.mark.parametrize("kind", [T5Tokenizer, XLMRobertaTokenizer, LlamaTokenizer, MBartTokenizer])
def test_symbols_of_a_sentencepiece_models_user_are_text(trained: Path, kind: Any) -> None:
    """transformers lists them among the special ids, but decodes them; those that look like control tokens stay so."""
    tokenizer = kind.from_pretrained(trained)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for symbol in SYMBOLS:
        (i,) = tokenizer.convert_tokens_to_ids([symbol])
        assert vocabulary.token(i) == (b"" if symbol == "<tool>" else symbol.encode())
    named = tokenizer.convert_tokens_to_ids(["</s>", "<unk>", "<pad>", "<tool>"])
    assert set(named) <= vocabulary.special_ids
    matcher = sg.JsonSchema({"const": {"the": 7}}, whitespace=sg.Whitespace.COMPACT).compile(vocabulary).matcher()
    for piece in ("{", '"', "the", '"', ":", "7", "}"):
        options = [i for i in range(vocabulary.width) if vocabulary.token(i) == piece.encode()]
        if not options:  # `the` in letters
            options = [next(i for i in range(vocabulary.width) if vocabulary.token(i) == b"t")]
            for letter in b"th":
                matcher.advance(next(i for i in range(vocabulary.width) if vocabulary.token(i) == bytes([letter])))
            options = [next(i for i in range(vocabulary.width) if vocabulary.token(i) == b"e")]
        matcher.advance(options[0])
    assert matcher.can_finish


def test_a_token_that_the_tokenizer_decodes_to_another_text_is_refused() -> None:
    """A sample of all tokens is compared with the tokenizer's own decoder when the vocabulary is made."""
    made = Tokenizer(models.WordLevel({"</s>": 0, "a": 1, "b": 2}, unk_token="</s>"))
    made.decoder = decoders.Fuse()
    table = source_of(made).table()
    table.tokens[2] = b"c"
    with pytest.raises(VocabularyError, match="token 2 is 'c' here, and 'b' to the tokenizer's decoder"):
        table.require_decoded([], made.decode)
    table.tokens[2] = None
    with pytest.raises(VocabularyError, match="token 2 is '' here, and 'b'"):
        table.require_decoded([2], made.decode)


def test_holes_between_ids() -> None:
    """Ids that nobody has are no text and no special token; the highest id is found behind them."""
    made = Tokenizer(models.WordLevel({"</s>": 0, "a": 3, "b": 70}, unk_token="</s>"))
    made.decoder = decoders.Fuse()
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[0])
    assert vocabulary.width == 71
    assert {i: vocabulary.token(i) for i in range(71) if vocabulary.token(i)} == {3: b"a", 70: b"b"}
    assert vocabulary.special_ids == {0}


@pytest.mark.parametrize(
    "model",
    cases("vocabulary/sources", "the_unknown_token_is_never_text", globals()),
    ids=lambda model: type(model).__name__,
)
def test_the_unknown_token_is_never_text(model: Any) -> None:
    """What stands for anything unknown is the text of nothing, even where it is not marked as special."""
    made = Tokenizer(model)
    made.decoder = decoders.Fuse()
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[0])
    assert [vocabulary.token(i) for i in range(3)] == [b"", b"", b"a"]
    assert vocabulary.special_ids == {0, 1}


def test_raw_and_wrapped_tokenizers_agree() -> None:
    """`tokenizers.Tokenizer` with its end id passed equals the transformers tokenizer around it."""
    made = Tokenizer(models.BPE({c: i for i, c in enumerate(map(chr, CODE_POINTS))}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", extra_special_tokens=["<turn>"])
    raw = Vocabulary.from_tokenizer(wrapped.backend_tokenizer, end_ids=[wrapped.eos_token_id])
    vocabulary = Vocabulary.from_tokenizer(wrapped)
    assert raw.fingerprint == vocabulary.fingerprint
    assert vocabulary.special_ids == {256, 257}
    assert sorted(vocabulary.token(i) for i in range(256)) == [bytes([b]) for b in range(256)]


def test_a_decoder_that_cannot_be_represented() -> None:
    """A tokenizer whose words end with a mark is refused by the name of its decoder."""
    made = Tokenizer(models.BPE({"</s>": 0, "a</w>": 1}, [], end_of_word_suffix="</w>"))
    made.decoder = decoders.BPEDecoder()
    with pytest.raises(VocabularyError, match="BPEDecoder"):
        Vocabulary.from_tokenizer(made, end_ids=[0])


def test_slow_byte_level() -> None:
    """GPT-2's slow tokenizer carries its alphabet; a token outside of it is an error that names it."""
    alphabet = {chr(code): byte for code, byte in CODE_POINTS.items()}
    vocabulary = Vocabulary.from_tokenizer(slow({"</s>": 0, "Ġa": 1, "Ã": 2}, byte_decoder=alphabet))
    assert [vocabulary.token(i) for i in range(3)] == [b"", b" a", b"\xc3"]
    with pytest.raises(VocabularyError, match="token 1, 'a日', has no bytes"):
        Vocabulary.from_tokenizer(slow({"</s>": 0, "a日": 1}, byte_decoder=alphabet))


def test_slow_with_bytes_as_tokens() -> None:
    """The first Qwen's tokenizer has bytes for tokens."""
    vocabulary = Vocabulary.from_tokenizer(slow({b"a": 1, b"\xe6": 2}, byte_decoder={}))
    assert [vocabulary.token(i) for i in range(3)] == [b"", b"a", b"\xe6"]


def test_slow_wordpiece(tmp_path: Path) -> None:
    """BERT's slow tokenizer: a word start is a space and the word."""
    words = ["[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]", "un", "##aff", "##able", "日", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tokenizer = BertTokenizerLegacy(str(tmp_path / "vocab.txt"), eos_token="[SEP]")
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    ids = tokenizer.encode("unaffable 日 un.", add_special_tokens=False)
    assert vocabulary.decode(ids) == " unaffable 日 un .".encode()
    assert vocabulary.decode(ids).decode() == " " + tokenizer.convert_tokens_to_string(
        tokenizer.tokenize("unaffable 日 un.")
    )
    assert vocabulary.special_ids == frozenset(range(5))
    assert list(vocabulary.special_names) == ["[MASK]", "[CLS]", "[SEP]", "[UNK]", "[PAD]"]


def test_slow_bytes() -> None:
    """ByT5's 256 tokens are the bytes, behind three special ids and before its sentinels."""
    vocabulary = Vocabulary.from_tokenizer(ByT5Tokenizer())
    assert [vocabulary.token(i + 3) for i in range(256)] == [bytes([b]) for b in range(256)]
    assert vocabulary.end_ids == (1,)
    assert not any(vocabulary.token(i) for i in [0, 1, 2, *range(259, vocabulary.width)])


def test_slow_sentencepiece() -> None:
    """A slow tokenizer around a real SentencePiece model, with special tokens that it added itself."""
    module = pytest.importorskip("mistral_common.tokens.tokenizers.mistral", reason="mistral-common is absent")
    path = Path(module.__file__).parents[2] / "data" / "tokenizer.model.v1"
    if not path.exists():
        pytest.skip("this release of mistral-common has no tokenizer.model.v1")
    tokenizer = GPTSw3Tokenizer(str(path), name_or_path="test")
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    text = "Hello wörld, 日本語 \U0001f9ff ok"
    assert vocabulary.decode(tokenizer.encode(text, add_special_tokens=False)) == b" " + text.encode()
    assert vocabulary.end_ids == (tokenizer.eos_token_id,)
    assert {0, 1, 2, 32000, 32001} <= vocabulary.special_ids


def test_slow_of_unknown_habits() -> None:
    """A slow tokenizer that tells nothing about its bytes is refused, with a token of it and what to do."""
    with pytest.raises(VocabularyError, match=r"token 1 is 'a@@'\): use its fast version, or Vocabulary\.from_tok"):
        Vocabulary.from_tokenizer(slow({"</s>": 0, "a@@": 1}))


def test_a_byte_piece_that_is_not_written_as_one() -> None:
    """A byte piece of an unknown spelling is refused by name."""
    assert spell_piece("<0x0A>", True) == b"\n"
    assert spell_piece("<0x0A>", False) == b"<0x0A>"
    with pytest.raises(VocabularyError, match="token '<10>' is a byte piece"):
        spell_piece("<10>", True)


def test_mistral_tokenizer_of_an_unknown_kind() -> None:
    """Another tokenizer of mistral-common is refused by its name."""
    kind = type("Other", (), {"__module__": "mistral_common.tokens"})
    with pytest.raises(VocabularyError, match="mistral-common's Other is neither tekken nor SentencePiece"):
        Vocabulary.from_tokenizer(kind())
