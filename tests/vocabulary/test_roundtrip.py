"""The bytes of the tokens of a text, one after the other, are the text: on real tokenizers and real text.

The one exception is documented: SentencePiece and WordPiece put a space before the first word, which their
decoders take away again at the start of a text.

Covers `pieces`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sentencepiece
import tiktoken
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.report import unpacked
from structgen.vocabulary import Vocabulary
from tests.support.mistral import mistral
from tests.support.tables import cases

ARTICLE_ONE = cases("vocabulary/roundtrip", "ARTICLE_ONE", globals())
FIRST_SPACE = b" "


@cache
def llama3() -> Any:
    """Llama-3's tokenizer from the shared data."""
    root = os.environ.get("STRUCTGEN_DATA", Path(__file__).parents[2] / ".." / "shared" / "data")
    packed = Path(root) / "llama3-tokenizer" / "tokenizer.json.xz"
    if not packed.exists():
        pytest.skip(f"no {packed}: set STRUCTGEN_DATA to the folder with the test data")
    with unpacked(packed.parent) as folder:
        return AutoTokenizer.from_pretrained(folder)


@cache
def llama2() -> Any:
    """Mistral's first SentencePiece model (32k, byte fallback) as transformers converts it."""
    model = mistral("tokenizer.model.v1").instruct_tokenizer.tokenizer.file_path
    with TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.model").write_bytes(model.read_bytes())
        config = {"tokenizer_class": "LlamaTokenizer"}
        (Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
        return AutoTokenizer.from_pretrained(folder)


@cache
def tekken_as_tiktoken() -> tiktoken.Encoding:
    """The 130k ranks and the pattern of tekken as a plain tiktoken encoding with an end of its own."""
    model = mistral("tekken_240911.json").instruct_tokenizer.tokenizer._model
    ranks = {token: i for i, token in enumerate(map(model.decode_single_token_bytes, range(model.n_vocab)))}
    special = {"<|endoftext|>": len(ranks) + 5, "<|im_end|>": len(ranks) + 6}
    pattern = model._pat_str
    return tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)


def train_sentencepiece(kind: str) -> sentencepiece.SentencePieceProcessor:
    """A SentencePiece model trained here, with byte fallback and no normalisation."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(list(ARTICLE_ONE.values())[:12] * 20),
        model_writer=written,
        model_type=kind,
        vocab_size=540,
        byte_fallback=True,
        character_coverage=0.99,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def transformers_ids(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.encode(text, add_special_tokens=False)


def mistral_ids(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: tokenizer.instruct_tokenizer.tokenizer.encode(text, False, False)


def mistral_in_transformers() -> Any:
    module = pytest.importorskip("transformers.tokenization_mistral_common")
    path = mistral("mistral_instruct_tokenizer_240323.model.v3").instruct_tokenizer.tokenizer.file_path
    return module.MistralCommonBackend(str(path))


REAL: dict[str, tuple[Callable[[], Any], Callable[[Any], Callable[[str], list[int]]], bytes]] = cases(
    "vocabulary/roundtrip", "REAL", globals()
)


@cache
def prepared(name: str) -> tuple[Vocabulary, Callable[[str], list[int]], bytes]:
    make, ids_of, prefix = REAL[name]
    tokenizer = make()
    return Vocabulary.from_tokenizer(tokenizer), ids_of(tokenizer), prefix


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("script", ARTICLE_ONE)
@pytest.mark.parametrize("name", REAL)
def test_the_tokens_of_a_text_are_the_text(name: str, script: str) -> None:
    """Encoding and then joining the bytes gives back every byte, in every script."""
    vocabulary, ids_of, prefix = prepared(name)
    text = ARTICLE_ONE[script]
    ids = ids_of(text)
    assert vocabulary.decode(ids) == prefix + text.encode()
    assert all(vocabulary.token(i) for i in ids)
    assert not vocabulary.special_ids & set(ids)


def test_two_readers_agree_on_one_model() -> None:
    """transformers' conversion, mistral-common and sentencepiece itself give the same vocabulary."""
    plain = mistral("tokenizer.model.v1").instruct_tokenizer.tokenizer
    processor = sentencepiece.SentencePieceProcessor(model_file=str(plain.file_path))
    made = [Vocabulary.from_tokenizer(t) for t in (llama2(), plain, processor)]
    assert len({vocabulary.fingerprint for vocabulary in made}) == 1


def test_tiktoken_holes_and_ends() -> None:
    """Ids between the ranks and the special tokens are nobody's; only `<|endoftext|>` is declared to end."""
    encoding = tekken_as_tiktoken()
    vocabulary = prepared("tiktoken")[0]
    ranks = len(encoding.token_byte_values())
    assert vocabulary.end_ids == (ranks + 5,)
    assert vocabulary.special_ids == {ranks + 5, ranks + 6}
    assert vocabulary.special_names == encoding._special_tokens
    assert all(vocabulary.token(i) == b"" for i in range(ranks, ranks + 7))
    assert vocabulary.width == ranks + 7


def test_tekken_special_ids_come_first() -> None:
    """tekken's control tokens are its first ids, none of them text; `</s>` ends."""
    tokenizer = mistral("tekken_240911.json").instruct_tokenizer.tokenizer
    vocabulary = prepared("tekken 131k")[0]
    assert vocabulary.special_ids == frozenset(range(tokenizer.num_special_tokens))
    assert vocabulary.end_ids == (tokenizer.eos_id,)
    assert vocabulary.special_names["</s>"] == tokenizer.eos_id
    assert set(vocabulary.special_names.values()) == vocabulary.special_ids
    assert vocabulary.width == tokenizer.n_words


def test_llama3_ends_and_specials() -> None:
    """All 256 special tokens are no text, and a generation configuration adds its end ids."""
    tokenizer = llama3()
    config = {"eos_token_id": [128001, 128008, 128009]}
    vocabulary = Vocabulary.from_tokenizer(tokenizer, generation_config=config)
    assert vocabulary.end_ids == (128001, 128008, 128009)
    assert vocabulary.special_ids == frozenset(range(128000, 128256))
    assert vocabulary.special_names["<|eot_id|>"] == 128009
    assert set(vocabulary.special_names.values()) == vocabulary.special_ids
    assert len(vocabulary.trie) == 274_520
    assert prepared("Llama-3, fast")[0].end_ids == (tokenizer.eos_token_id,)


@pytest.mark.parametrize("name", ["Llama-3, fast", "Llama-2 kind, fast"])
def test_each_token_is_what_the_tokenizer_decodes(name: str) -> None:
    """After another token, the tokenizer's decoder adds exactly the token's bytes, where they are text."""
    vocabulary = prepared(name)[0]
    backend = (llama3() if name.startswith("Llama-3") else llama2()).backend_tokenizer
    (anchor,) = (i for i in range(vocabulary.width) if vocabulary.token(i) == b"Hello")
    for i in range(0, vocabulary.width, 5):
        token = vocabulary.token(i)
        try:
            text = token.decode()
        except UnicodeDecodeError:
            continue
        if token:
            assert backend.decode([anchor, i], skip_special_tokens=False) == "Hello" + text, i


def unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=800, special_tokens=special, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(list(ARTICLE_ONE.values())[:12], trainer)
    return made


def wordpiece(*, cleanup: bool) -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=cleanup)
    special = ["[SEP]", "[UNK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False)
    made.train_from_iterator(list(ARTICLE_ONE.values())[:12], trainer)
    return made


@pytest.mark.parametrize("script", list(ARTICLE_ONE)[:12])
def test_unigram(script: str) -> None:
    """A Unigram tokenizer of `tokenizers`: the text behind one space."""
    made = unigram()
    vocabulary = Vocabulary.from_tokenizer(PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>"))
    text = ARTICLE_ONE[script]
    assert vocabulary.decode(made.encode(text).ids) == FIRST_SPACE + text.encode()
    assert vocabulary.end_ids == (made.token_to_id("</s>"),)
    assert vocabulary.token(made.token_to_id("<unk>")) == b""


@pytest.mark.parametrize("cleanup", [False, True])
@pytest.mark.parametrize("script", list(ARTICLE_ONE)[:12])
def test_wordpiece(script: str, cleanup: bool) -> None:
    """A word start is a space and the word, `##` continues it: what the tokenizer's decoder writes."""
    made = wordpiece(cleanup=cleanup)
    vocabulary = Vocabulary.from_tokenizer(made, end_ids=[made.token_to_id("[SEP]")])
    ids = made.encode(ARTICLE_ONE[script]).ids
    assert made.token_to_id("[UNK]") not in ids
    assert vocabulary.decode(ids) == FIRST_SPACE + made.decode(ids).encode()
    words = ARTICLE_ONE[script].replace("、", " ").replace("，", " ").rstrip("。.।").split()
    spaced = " ".join(word for word in words if word.isalpha())
    assert vocabulary.decode(made.encode(spaced).ids).decode() == (" " + spaced if spaced else "")
