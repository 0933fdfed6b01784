"""Canonical tokens of each kind of tokenizer: texts drawn token by token, judged by the tokenizer's own `encode`.

    python -m benchmarks canonical [--texts 10000] [--write]

A text is 3 to 12 canonical tokens, drawn in three ways: any alike, the shortest and the longest of 20. `encode` of
the text must give the tokens that were drawn. The other way round, `encode` of real lines must be taken. Byte-pair
encodings are real ones. No Unigram or WordPiece tokenizer can be had offline, so they are trained here on the
documentation (by SentencePiece with its own normalisation, and by `tokenizers`), and read by the classes of
transformers; two more have the pieces of Llama and Gemma, with scores.

`--write` writes results/canonical.md.
"""

from __future__ import annotations

import io
import json
import math
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import structgen as sg
from benchmarks.report import DATA, ROOT, parser, setting, table, unpacked, write

BYTE_LEVEL, FALLBACK, ADDED = "gpt-2-tokenizer", "llama-spm-tokenizer", "gemma-4-tokenizer"


def lines() -> list[str]:
    """Lines of the documentation and of the tests of escapes."""
    files = sorted((ROOT / "docs").rglob("*.md"))
    return [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


def real(name: str) -> Tokenizer:
    with unpacked(DATA / "tokenizers" / name) as files:
        return Tokenizer.from_file(str(files / "tokenizer.json"))


def sentencepiece() -> Tokenizer:
    """Trained by SentencePiece, with its normalisation, in transformers' T5Tokenizer."""
    import sentencepiece as spm
    from transformers import T5Tokenizer

    with tempfile.TemporaryDirectory() as folder:
        written = io.BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(lines()), model_writer=written, vocab_size=5_000, minloglevel=2, pad_id=3
        )
        (Path(folder) / "spiece.model").write_bytes(written.getvalue())
        return T5Tokenizer.from_pretrained(folder)._tokenizer


def trained_unigram(*, fallback: bool) -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=6_000, special_tokens=["<unk>", "</s>"], unk_token="<unk>")
    tokenizer.train_from_iterator(lines(), trainer)
    if not fallback:
        return tokenizer
    told = json.loads(tokenizer.to_str())
    told["model"] |= {"byte_fallback": True}
    told["model"]["vocab"] += [[f"<0x{byte:02X}>", -30.0] for byte in range(256)]
    steps = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}]
    told["decoder"] = {"type": "Sequence", "decoders": [*steps, {"type": "Fuse"}]}
    return Tokenizer.from_str(json.dumps(told))


def scored(name: str) -> Tokenizer:
    """A Unigram model with the pieces of a real byte-pair encoding; a piece's score is that of its rank."""
    told = json.loads(real(name).to_str())["model"]["vocab"]
    pieces = [piece for piece in sorted(told, key=told.get) if not piece.startswith("<") and "\u2581" not in piece[1:]]
    scores = [(piece, -math.log(rank + 100)) for rank, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", 0.0), *scores], 0))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return tokenizer


def wordpiece(*, lowercase: bool) -> Tokenizer:
    """Trained, in transformers' BertTokenizer."""
    from transformers import BertTokenizer

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(lines(), trainers.WordPieceTrainer(vocab_size=6_000, special_tokens=special))
    return BertTokenizer(tokenizer.get_vocab(), do_lower_case=lowercase)._tokenizer


class Kind(NamedTuple):
    """A tokenizer with its own encoder and decoder."""

    tokenizer: Any
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]


def fast(tokenizer: Tokenizer) -> Kind:
    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False).ids)

    return Kind(tokenizer, encode, lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def tiktoken_style() -> Kind:
    """The pieces of GPT-2 with the pattern of later models, in tiktoken."""
    import tiktoken

    told = json.loads(real(BYTE_LEVEL).to_str())["model"]["vocab"]
    vocabulary = sg.engine.Vocabulary.from_tokenizer(real(BYTE_LEVEL), end_ids=[told["<|endoftext|>"]])
    ranks = {vocabulary.token(i): i for i in told.values() if vocabulary.token(i)}
    contractions, words, digits = r"'(?i:[sdmt]|ll|ve|re)", r"[^\r\n\p{L}\p{N}]?+\p{L}++", r"\p{N}{1,3}+"
    signs, blanks = r" ?[^\s\p{L}\p{N}]++[\r\n]*+", r"\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    pattern = "|".join((contractions, words, digits, signs, blanks))
    encoding = tiktoken.Encoding(
        "pieces", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": len(ranks)}
    )
    return Kind(encoding, encoding.encode_ordinary, encoding.decode)


def mistral(name: str) -> Kind:
    """A tokenizer that mistral-common brings along."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    whole = MistralTokenizer.from_file(str(resources.files("mistral_common") / "data" / name))
    inner = whole.instruct_tokenizer.tokenizer
    return Kind(whole, lambda text: inner.encode(text, bos=False, eos=False), inner.decode)


def kinds() -> Iterator[tuple[str, Tokenizer | Kind]]:
    yield "BPE of tiktoken, GPT-2's pieces, a later pattern", tiktoken_style()
    yield "BPE of mistral-common (tekken)", mistral("tekken_240911.json")
    yield "SentencePiece's BPE in mistral-common (v3)", mistral("mistral_instruct_tokenizer_240323.model.v3")
    yield "byte-level BPE (GPT-2)", real(BYTE_LEVEL)
    yield "BPE with byte fallback (Llama)", real(FALLBACK)
    yield "BPE, 262,000 pieces, added tokens (Gemma 4)", real(ADDED)
    yield "Unigram, SentencePiece's own (T5Tokenizer)", sentencepiece()
    yield "Unigram", trained_unigram(fallback=False)
    yield "Unigram with byte fallback", trained_unigram(fallback=True)
    yield "Unigram, Llama's pieces", scored(FALLBACK)
    yield "Unigram, Gemma's 250,000 pieces", scored(ADDED)
    yield "WordPiece, lower case (BertTokenizer)", wordpiece(lowercase=True)
    yield "WordPiece, cased (BertTokenizer)", wordpiece(lowercase=False)


def row(name: str, kind: Kind, texts: int) -> list[Any]:
    """The columns of the table."""
    vocabulary, draw = sg.engine.Vocabulary.from_tokenizer(kind.tokenizer, end_ids=[1]), random.Random(44)
    encoded = kind.encode
    begun = time.process_time()
    canonical = vocabulary.canonical
    made, spent, steps, wrong, tokens = time.process_time() - begun, 0.0, 0, 0, 0
    words = [i for i in range(vocabulary.width) if vocabulary.token(i)]

    def again(ids: list[int]) -> list[int]:
        """The tokens of their text; most decoders drop the space that the encoder puts before a text."""
        return encoded(kind.decode(ids))

    for number in range(texts):
        state, ids, way = canonical.start, list[int](), (None, min, max)[number % 3]
        for _ in range(draw.randint(3, 12)):
            some = draw.choices(words, k=20)
            if way:
                some.sort(key=lambda i: len(vocabulary.token(i)), reverse=way is max)
            for token in some:
                begun = time.thread_time()
                after = canonical.advance(state, token)
                spent, steps = spent + time.thread_time() - begun, steps + 1
                if after is not None:
                    state, ids = after, [*ids, token]
                    break
            else:
                break
        while not vocabulary.is_canonical(ids):  # an end that is not one, such as half a character
            ids.pop()
        text = vocabulary.decode(ids).decode()
        tokens, wrong = tokens + len(ids), wrong + (ids not in (again(ids), encoded(text)))
    own = [ids for line in lines() if (ids := encoded(line)) and not vocabulary.special_ids & {*ids}]
    own = [ids for ids in own if again(ids) == ids]
    taken = sum(map(vocabulary.is_canonical, own))
    return [
        name, f"{vocabulary.width:,}", f"{made:.2f}", f"{texts:,}", f"{tokens:,}", wrong,
        f"{taken:,} of {len(own):,}", f"{1e6 * spent / max(steps, 1):,.0f}",
    ]  # fmt: skip


def main() -> None:
    given = parser(__doc__)
    given.add_argument("--texts", type=int, default=10_000)
    given.add_argument("--write", action="store_true")
    options = given.parse_args()
    head = ["tokenizer", "tokens", "made once, s of CPU", "texts", "tokens drawn", "not the tokenizer's own",
            "the tokenizer's own, taken", "us a token asked"]  # fmt: skip
    rows = []
    for name, tokenizer in kinds():
        rows.append(row(name, tokenizer if isinstance(tokenizer, Kind) else fast(tokenizer), options.texts))
        print(rows[-1], flush=True)
    lines = ["# Canonical tokens of each kind of tokenizer", "", setting(), "", *table(head, rows)]
    print("\n".join(lines))
    if options.write:
        write("canonical", lines)
