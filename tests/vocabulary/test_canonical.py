"""Canonical tokens: what the tokenizer itself makes of a text is taken, nothing else is; on real tokenizers.

Covers `vocabulary.canonical.added`, `vocabulary.canonical.canonical`, `vocabulary.canonical.classes`,
`vocabulary.canonical.unicode_form`, `vocabulary.canonical.merges`, `vocabulary.canonical.model`,
`vocabulary.canonical.signatures`, `vocabulary.canonical.splits`, `vocabulary.canonical.step_kernels`,
`vocabulary.canonical.kinds`, `vocabulary.canonical.recognizer`, `vocabulary.canonical.unigram`,
`vocabulary.canonical.wordpiece` and `vocabulary.canonical.words`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

from benchmarks.report import unpacked
from structgen.errors import OptionError
from structgen.vocabulary import Vocabulary
from structgen.vocabulary.canonical import Canonical
from structgen.vocabulary.canonical.added import AddedContents
from structgen.vocabulary.canonical.step_kernels import joins
from tests.support.tables import cases
from tests.vocabulary.test_roundtrip import ARTICLE_ONE

ODD = [
    "   ", "\n\n \n1 234567 12 3", "don't  Don'T I'VE y='ve  'VES", "    1", "{{<a", "\u00a0 \u2003 x\u0301",
    "vi\u1ec7c", " vi\u1ec7c  vi\u1ec7c", "e\u0301 e\u0323\u0302 \u1100\u1161\u11a8", "\uac01\u11a8",
    json.dumps(ARTICLE_ONE, indent=2), json.dumps({"a": [1.5, -2e10, {"b": None}]}, indent=4), "<|im_start|> <s></s>",
]  # fmt: skip
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


SLOW = ("llama3-tokenizer", "tokenizers/qwen2-tokenizer", "tokenizers/gemma-4-tokenizer")
NAMES = [
    *PATTERNS, *WORDWISE, "tokenizers/gpt-2-tokenizer", "tokenizers/llama-spm-tokenizer", "stories260k",
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
]  # fmt: skip


@pytest.fixture(scope="module", params=NAMES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param in PATTERNS:
        return trained(request.param)
    if request.param in WORDWISE:
        return wordwise(request.param)
    return real(request.getfixturevalue("data_folder") / request.param)


@pytest.fixture(scope="module")
def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer, end_ids=[0])


def plain(tokenizer: Tokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def again(tokenizer: Tokenizer, ids: Sequence[int]) -> list[int]:
    return plain(tokenizer, tokenizer.decode(ids, skip_special_tokens=False))


def texts() -> list[str]:
    draw = random.Random(0)
    soup = ["".join(draw.choices(ALPHABET, k=120)) for _ in range(20)]
    return [*ARTICLE_ONE.values(), *ODD, *soup]


def test_what_the_tokenizer_writes_is_canonical(tokenizer: Tokenizer, vocabulary: Vocabulary):
    taken = 0
    for text in texts():
        ids = plain(tokenizer, text)
        if again(tokenizer, ids) == ids:  # the decoder of SentencePiece takes a space away
            assert vocabulary.is_canonical(ids), text
            taken += 1
    assert taken > 15


def test_what_is_canonical_the_tokenizer_writes(tokenizer: Tokenizer, vocabulary: Vocabulary):
    """Random walks over the masks, of any tokens and of short ones, which are seldom canonical."""
    canonical, draw = vocabulary.canonical, random.Random(1)
    for walk in range(16):
        state, ids = canonical.start, list[int]()
        for _ in range(30):
            allowed = ids_in(canonical, state)
            some = [i for i in draw.choices(allowed, k=20) if vocabulary.token(i)] if allowed else []
            if not some:
                break
            token = min(some, key=lambda i: len(vocabulary.token(i))) if walk % 2 else some[0]
            after = canonical.advance(state, token)
            assert after is not None
            state, ids = after, [*ids, token]
        while not vocabulary.is_canonical(ids):  # an end that is not one, such as half a character
            ids.pop()
        assert again(tokenizer, ids) == ids, [tokenizer.id_to_token(i) for i in ids]


def ids_in(canonical: Canonical, state: Any) -> list[int]:
    words = canonical.mask(state)
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def test_a_mask_allows_what_can_be_taken(tokenizer: Tokenizer, vocabulary: Vocabulary):
    canonical, draw = vocabulary.canonical, random.Random(2)
    for text in draw.sample(texts(), 12):
        state = canonical.start
        for token in plain(tokenizer, text)[: draw.randint(0, 25)]:
            state = canonical.advance(state, token) or canonical.start
        allowed = set(ids_in(canonical, state))
        for i in draw.sample(range(vocabulary.width), min(vocabulary.width, 500)):
            if vocabulary.token(i):
                assert (i in allowed) == (canonical.advance(state, i) is not None), (text, vocabulary.token(i))


@pytest.mark.parametrize("text", ["", " ", "a"])
def test_a_character_is_begun_where_one_with_these_bytes_may_stand(tokenizer: Tokenizer, vocabulary: Vocabulary, text):
    """Behind a space that stands alone, for one, no letter can be begun: it would be joined to the space."""
    canonical = vocabulary.canonical
    state = canonical.behind(plain(tokenizer, text))
    states = [canonical.advance(state, i) for i in ids_in(canonical, state) if vocabulary.token(i)]
    begun = [each for each in states if each is not None and each.pending]
    dead = [each for each in begun if not canonical.mask(each).any()]
    assert len(dead) <= len(begun) / 50, [each.pending for each in dead]


def test_tokens_side_by_side_are_what_byte_pair_encoding_leaves(tokenizer: Tokenizer, vocabulary: Vocabulary):
    """Every pair, judged by the tokenizer's own merges without what it does to texts before."""
    told = json.loads(tokenizer.to_str())
    if told["model"]["type"] != "BPE":
        return
    told |= {"pre_tokenizer": None, "normalizer": None, "post_processor": None, "added_tokens": []}
    told["model"]["ignore_merges"] = False
    merging = Tokenizer.from_str(json.dumps(told))
    base, merges, draw = vocabulary.canonical.base, vocabulary.canonical._merges, random.Random(3)
    ids = [int(i) for i in np.flatnonzero(merges.alone) if not tokenizer.id_to_token(int(i)).startswith("<0x")]
    pieces = {i: tokenizer.id_to_token(i) for i in ids}
    short = [i for i in ids if len(pieces[i]) <= 3]
    for k in range(4_000):
        a, b = draw.choice(ids if k % 2 else short), draw.choice(ids if k % 3 else short)
        expected = merging.encode(pieces[a] + pieces[b], add_special_tokens=False).ids == [a, b]
        assert joins(base, a, b) == expected, (pieces[a], pieces[b])
    none = np.zeros(vocabulary.words, np.uint32)
    for a in draw.sample(ids, 20):
        followers = np.unpackbits(merges.followers(a, ~none, none).view(np.uint8), bitorder="little")
        assert all(bool(followers[b]) == joins(base, a, b) for b in draw.sample(ids, min(len(ids), 300)))


def test_a_vocabulary_may_have_whole_characters_only():
    vocabulary = Vocabulary.from_tokenizer(
        Tokenizer(BPE({"a": 0, "b": 1, "ab": 2, "</s>": 3}, [("a", "b")])), end_ids=[3]
    )
    assert ids_in(vocabulary.canonical, vocabulary.canonical.start) == [0, 1, 2, 3]
    assert [vocabulary.is_canonical(ids) for ids in ([2], [0, 1], [1, 0])] == [True, False, True]


def test_a_spelling_of_its_own_is_not_canonical(small_bpe):
    vocabulary = Vocabulary.from_tokenizer(small_bpe)
    ids = small_bpe.encode('{"name": "Paris"}')
    letters = [small_bpe.encode(letter)[0] for letter in "name"]
    assert vocabulary.is_canonical(ids)
    assert small_bpe.encode("name") != letters
    assert not vocabulary.is_canonical(letters)
    assert vocabulary.is_canonical([])
    assert vocabulary.is_canonical([*ids, vocabulary.end_ids[0], *ids])


def test_no_token_completes_the_content_of_an_added_token():
    contents, draw = [b"<|a|>", b"<|ab|>", b"<s>", b"s>>"], random.Random(5)
    tokens = [bytes(draw.choices(b"<|abs>", k=draw.randint(0, 5))) for _ in range(900)]
    added = AddedContents(contents, tokens, Vocabulary.from_tokens([*tokens, None], [len(tokens)]).trie)
    for before in (b"", b"<", b"<|", b"<|a", b"<|ab|", b"s", b"s>"):
        bits = np.unpackbits(added.harmless(before).view(np.uint8), bitorder="little")
        for token, bit in zip(tokens, bits.tolist(), strict=False):
            text = before + token
            assert bit == (not any(content in text for content in contents)), (before, token)


def test_added_tokens_are_not_spelled_by_others(small_bpe):
    """`</s>` in a text is the end token to the tokenizer, never its letters."""
    vocabulary = Vocabulary.from_tokenizer(small_bpe)
    model = json.loads(small_bpe.backend_tokenizer.to_str())["model"]["vocab"]
    assert not vocabulary.is_canonical([model[letter] for letter in "</s>"])
    assert vocabulary.is_canonical([model[letter] for letter in "</s"])


@pytest.mark.parametrize(
    "told",
    [
        (models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"), None, None),
        (models.Unigram([("a", -1.0)], 0), None, None),
        (models.BPE({"a": 0}, []), normalizers.NFKC(), None),
        (models.BPE({"a": 0}, []), None, pre_tokenizers.WhitespaceSplit()),
    ],
    ids=["WordPiece", "Unigram", "NFKC", "WhitespaceSplit"],
)
def test_what_is_not_known_of_a_tokenizer_is_refused(told: tuple[Any, Any, Any]):
    tokenizer = Tokenizer(told[0])
    if told[1] is not None:
        tokenizer.normalizer = told[1]
    if told[2] is not None:
        tokenizer.pre_tokenizer = told[2]
    vocabulary = Vocabulary.from_tokenizer(tokenizer, end_ids=[0])
    with pytest.raises(OptionError, match="canonical tokens"):
        vocabulary.is_canonical([0])
    with pytest.raises(OptionError, match="canonical tokens"):
        _ = Vocabulary.from_tokens([b"a", None], [1]).canonical
