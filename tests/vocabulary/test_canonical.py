"""Canonical tokens: what the tokenizer itself makes of a text is taken, nothing else is; on real tokenizers.

Covers `vocabulary.canonical.asked`, `vocabulary.canonical.classes`, `vocabulary.canonical.masks`,
`vocabulary.canonical.merges`, `vocabulary.canonical.signatures` and `vocabulary.canonical.splits`.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from benchmarks.report import unpacked
from structgen.errors import OptionError
from structgen.masks.words import ids_of
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical.asked import AFRESH
from structgen.vocabulary.canonical.classes import GPT2
from tests.support.releases import require_release
from tests.support.tables import cases
from tests.vocabulary.test_roundtrip import ARTICLE_ONE

ODD = cases("vocabulary/canonical", "ODD", globals())
ALPHABET = " \n\t'sStTaeZ19{}[]\":,.\u00e9\u65e5\U0001f98a\u2581-_<|>\u0301\u0323\u1100\u1161"
PATTERNS = cases("vocabulary/canonical", "PATTERNS", globals())


@cache
def trained(name: str) -> Tokenizer:
    """A small byte-level BPE that cuts by a real model's patterns."""
    tokenizer = Tokenizer(models.BPE())
    patterns = PATTERNS[name] or PATTERNS["GPT-4o"]
    if not PATTERNS[name]:
        tokenizer.normalizer = normalizers.NFC()
    cuts: list[Any] = [pre_tokenizers.Split(Regex(each), "isolated") for each in patterns]
    cuts.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cuts)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=["</s>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator([*ARTICLE_ONE.values(), *ODD] * 3, trainer)
    return tokenizer


WORDWISE = ["Unigram", "Unigram, bytes", "Unigram, blanks dropped", "WordPiece", "WordPiece, cased"]


@cache
def wordwise(name: str) -> Tokenizer:
    """A small tokenizer that encodes each word alone."""
    kind, _, rest = name.partition(", ")
    if kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=rest != "cased")
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=900, special_tokens=["</s>", "[UNK]"])
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
        blanks = [pre_tokenizers.WhitespaceSplit()] if rest == "blanks dropped" else []
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*blanks, pre_tokenizers.Metaspace()])
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=["</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator([*ARTICLE_ONE.values(), *ODD] * 3, trainer)
    if rest != "bytes":
        return tokenizer
    told = json.loads(tokenizer.to_str())
    told["model"]["byte_fallback"] = True
    vocab = [each for each in told["model"]["vocab"] if each[0] not in "\u00e9\u65e5Z"]
    told["model"]["vocab"] = vocab + [[f"<0x{byte:02X}>", -30.0] for byte in range(256)]
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    steps = [
        spaces,
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    told["decoder"] = {"type": "Sequence", "decoders": steps}
    return Tokenizer.from_str(json.dumps(told))


@cache
def real(folder: Path) -> Tokenizer:
    with unpacked(folder) as files:
        return Tokenizer.from_file(str(files / "tokenizer.json"))


@cache
def sentencepiece(kind: str) -> Any:
    require_release("sentencepiece", "0.2.1")  # two spellings have equal scores in what older ones train
    written = io.BytesIO()
    pytest.importorskip("sentencepiece").SentencePieceTrainer.train(
        sentence_iterator=iter([*ARTICLE_ONE.values(), *texts()] * 3),
        model_writer=written,
        vocab_size=700,
        minloglevel=2,
        model_type=kind,
        byte_fallback=True,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    return pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=written.getvalue())


def tiktoken(folder: Path) -> Any:
    """GPT-2's encoding as tiktoken has it."""
    told = json.loads(real(folder).to_str())["model"]["vocab"]
    vocabulary = Vocabulary.from_tokenizer(real(folder), end_ids=[50256])
    ranks = {vocabulary.token(i): i for i in told.values() if vocabulary.token(i)}
    end = {"<|endoftext|>": told["<|endoftext|>"]}
    return pytest.importorskip("tiktoken").Encoding("gpt2", pat_str=GPT2, mergeable_ranks=ranks, special_tokens=end)


SLOW = ("llama3-tokenizer", "tokenizers/qwen2-tokenizer", "tokenizers/gemma-4-tokenizer")
GPT_2 = "tokenizers/gpt-2-tokenizer"
NAMES = cases("vocabulary/canonical", "NAMES", globals())
MASKED = [*PATTERNS, GPT_2, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW[:2])]


def tokenizer_of(name: str, data_folder: Path) -> Any:
    if name.startswith("sentencepiece "):
        return sentencepiece(name.removeprefix("sentencepiece "))
    if name == "tiktoken":
        return tiktoken(data_folder / GPT_2)
    return trained(name) if name in PATTERNS else wordwise(name) if name in WORDWISE else real(data_folder / name)


@pytest.fixture(scope="module", params=NAMES)
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return tokenizer_of(request.param, request.getfixturevalue("data_folder"))


@pytest.fixture(scope="module")
def vocabulary(tokenizer: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer, end_ids=[0])


def plain(tokenizer: Any, text: str) -> list[int]:
    if not isinstance(tokenizer, Tokenizer):
        return list(tokenizer.encode(text))
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def again(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    decode: Callable[..., str] = tokenizer.decode
    return plain(tokenizer, decode(ids, skip_special_tokens=False) if isinstance(tokenizer, Tokenizer) else decode(ids))


def texts() -> list[str]:
    draw = random.Random(0)
    soup = ["".join(draw.choices(ALPHABET, k=120)) for _ in range(20)]
    return [*ARTICLE_ONE.values(), *ODD, *soup]


def own(tokenizer: Any, vocabulary: Vocabulary) -> list[list[int]]:
    """The tokens of texts that the decoder gives back."""
    encoded = [plain(tokenizer, text) for text in texts() if "<|" not in text and "<s>" not in text]
    kept = [ids for ids in encoded if all(map(vocabulary.token, ids)) and again(tokenizer, ids) == ids]
    assert len(kept) > 15
    return kept


def test_what_the_tokenizer_writes_is_canonical(tokenizer: Any, vocabulary: Vocabulary):
    for ids in own(tokenizer, vocabulary):
        assert vocabulary.is_canonical(ids), [vocabulary.token(i) for i in ids]


def test_what_is_canonical_the_tokenizer_writes(tokenizer: Any, vocabulary: Vocabulary):
    """Random walks of any tokens and of short ones, which are seldom canonical."""
    canonical, draw = vocabulary.canonical, random.Random(1)
    words = [i for i in range(vocabulary.width) if vocabulary.token(i)]
    usual = [i for ids in own(tokenizer, vocabulary) for i in ids]
    for walk in range(24):
        state, ids = canonical.start, list[int]()
        for _ in range(30):
            some = draw.choices(usual if draw.random() < 0.7 else words, k=20)
            if walk % 2:
                some.sort(key=lambda i: len(vocabulary.token(i)))
            steps = ((i, canonical.advance(state, i)) for i in some)
            token, after = next((step for step in steps if step[1] is not None), (0, None))
            if after is None:
                break
            state, ids = after, [*ids, token]
        while not vocabulary.is_canonical(ids):  # an end that is not one, such as half a character
            ids.pop()
        text = vocabulary.decode(ids).decode()
        assert ids in (again(tokenizer, ids), plain(tokenizer, text)), [vocabulary.token(i) for i in ids]


def ends_whole(text: bytes) -> bool:
    """Does a text end with a whole character? The masks know only the kinds of characters that may be begun."""
    try:
        return text.decode().encode() == text
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("name", MASKED)
def test_masks_have_the_tokens_that_are_canonical(name: str, data_folder: Path):
    tokenizer = tokenizer_of(name, data_folder)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_ids=[0])
    canonical, masks, draw = vocabulary.canonical, vocabulary.canonical_masks, random.Random(2)
    for ids in own(tokenizer, vocabulary):
        state, place = canonical.start, draw.randrange(len(ids))
        for token in ids[:place]:
            state = canonical.advance(state, token) or AFRESH
        mask = set(ids_of(masks.mask(state)).tolist())
        assert ids[place] in mask
        for token in [*draw.sample(range(vocabulary.width), 150), *draw.sample(sorted(mask), min(len(mask), 50))]:
            if vocabulary.token(token) or token in vocabulary.special_ids:
                taken = canonical.advance(state, token) is not None
                maybe = token in mask and not ends_whole(state.text + vocabulary.token(token))
                assert (token in mask) == taken or maybe, (state.text, vocabulary.token(token))


def test_tokens_side_by_side_are_what_byte_pair_encoding_leaves(data_folder: Path):
    """Every pair, judged by the tokenizer's own merges without what it does to texts before."""
    tokenizer = real(data_folder / GPT_2)
    told = json.loads(tokenizer.to_str())
    told |= {"pre_tokenizer": None, "normalizer": None, "post_processor": None, "added_tokens": []}
    merging, draw = Tokenizer.from_str(json.dumps(told)), random.Random(3)
    merges = Vocabulary.from_tokenizer(tokenizer, end_ids=[50256]).canonical_masks._merges
    ids = [int(i) for i in np.flatnonzero(merges.alone)]
    pieces = {i: tokenizer.id_to_token(i) for i in ids}
    short = [i for i in ids if len(pieces[i]) <= 3]
    for k in range(4_000):
        a, b = draw.choice(ids if k % 2 else short), draw.choice(ids if k % 3 else short)
        expected = merging.encode(pieces[a] + pieces[b], add_special_tokens=False).ids == [a, b]
        assert merges.joins(a, b) == expected, (pieces[a], pieces[b])
    none = np.zeros((merges.alone.size + 31) // 32, np.uint32)
    for a in draw.sample(ids, 20):
        followers = np.unpackbits(merges.followers(a, ~none, none).view(np.uint8), bitorder="little")
        assert all(bool(followers[b]) == merges.joins(a, b) for b in draw.sample(ids, 300))


SMALL = {"a": 0, "b": 1, "ab": 2, "</s>": 3}
SPELLINGS = cases("vocabulary/canonical", "SPELLINGS", globals())


@pytest.mark.parametrize(("vocab", "merges", "expected"), [row[1:] for row in SPELLINGS], ids=[r[0] for r in SPELLINGS])
def test_spellings(vocab: Any, merges: Any, expected: dict[tuple[int, ...], bool]):
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_ids=[3])
    assert {ids: vocabulary.is_canonical(ids) for ids in expected} == expected
    first = set(ids_of(vocabulary.canonical_masks.mask(AFRESH)).tolist())
    assert {ids[0] for ids in expected if len(ids) == 1 and expected[ids]} <= first
    assert 4 not in first


def test_added_tokens_are_not_spelled_by_others(small_bpe: Any):
    """`</s>` in a text is the end token to the tokenizer, never its letters."""
    vocabulary = Vocabulary.from_tokenizer(small_bpe)
    model = json.loads(small_bpe.backend_tokenizer.to_str())["model"]["vocab"]
    ids = small_bpe.encode('{"name": "Paris"}')
    assert not vocabulary.is_canonical([model[letter] for letter in "</s>"])
    assert vocabulary.is_canonical([model[letter] for letter in "</s"])
    assert vocabulary.is_canonical([*ids, vocabulary.end_ids[0], *ids])


@pytest.mark.parametrize(
    ("model", "normalizer", "pre_tokenizer"),
    cases("vocabulary/canonical", "what_has_no_masks_is_refused", globals()),
    ids=["WordPiece", "Unigram", "no bytes", "NFKC", "space before a text"],
)
def test_what_has_no_masks_is_refused(model: Any, normalizer: Any, pre_tokenizer: Any):
    tokenizer = Tokenizer(model)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_ids=[0])
    with pytest.raises(OptionError, match="masks of canonical tokens"):
        _ = vocabulary.canonical_masks
    with pytest.raises(OptionError, match="canonical tokens need a tokenizer"):
        _ = Vocabulary.from_tokens([b"a", None], [1]).canonical
