"""Banned words: what leaks, what is read again and what it costs, beside the usual ways.

    python benchmarks/guards.py [--data FOLDER] [--words 200] [--tokenizers demo llama3 tekken v1]

A scripted model wants each word and nothing else, in tokens that it chooses anew at each prefix.
The contestants:

- guard: `BannedWords` in structgen's loop; `masks`: the same with `rollbacks=0`.
- routes: every tokenisation of the word is listed; when the text's tokens end with one, they are taken back, the
  cache is dropped and all is read again, and the first of them is banned at its position for good.
- bad_words_ids: transformers' processor with the word's own tokens, with and without a space before it.
- tokens: every token is forbidden that stands in the word's own tokens.

Writes results/guards.json and results/guards.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers import NoBadWordsLogitsProcessor, PreTrainedTokenizerFast

from structgen.decoding.forced import plain_encoder
from structgen.decoding.guarding import Guarding
from structgen.decoding.loop import decode
from structgen.decoding.session import Session
from structgen.demo import load_demo
from structgen.guards import BannedWords, Veto
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary

HERE = Path(__file__).resolve().parent
PROMPT = [5, 6, 7, 8, 9, 10, 11, 12]
TOKENS, ROLLBACKS, ROUTES = 16, 24, 2000


class Stubborn(ScriptedModel):
    """Wants one word for ever."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__("", vocabulary)
        self.known = {text: i for i in range(vocabulary.width - 1, -1, -1) if (text := vocabulary.token(i))}
        self.read = 0
        self.word = b"x"
        self.register_forward_pre_hook(self.count, with_kwargs=True)

    def count(self, _: Any, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Adds what a forward pass reads."""
        self.read += (given[0] if given else options["input_ids"]).numel()

    def _scores(self, row: int, said: Any) -> torch.Tensor:
        text, word = self.vocabulary.decode(said), self.word
        begun = next(n for n in range(min(len(word) - 1, len(text)), -1, -1) if text.endswith(word[:n]))
        rest = word[begun:]
        scores = torch.zeros(self.vocabulary.width)
        order = random.Random(hash(tuple(said)))
        for token in [self.known[rest[:n]] for n in range(1, len(rest) + 1) if rest[:n] in self.known]:
            scores[token] = 10 + order.random()
        scores[list(self.vocabulary.end_ids)] = -1
        return scores


def guarded(model: Stubborn, word: str, rollbacks: int) -> tuple[bytes, int]:
    """The text, and the tokens that the model read."""
    vocabulary, model.read = model.vocabulary, 0
    guards = Guarding([BannedWords([word])], vocabulary)
    session = Session(
        PROMPT, vocabulary, matcher=None, sampling=Sampling(), limits=Limits(TOKENS, rollbacks), guards=guards
    )
    decode(model, vocabulary, [session])
    assert session.error is None, session.error
    return session.said, model.read


def routes(vocabulary: Vocabulary, known: dict[bytes, int], text: bytes) -> Iterator[list[int]]:
    """Every tokenisation of a text."""
    if not text:
        yield []
    for end in range(len(text), 0, -1):
        if text[:end] in known:
            for rest in routes(vocabulary, known, text[end:]):
                yield [known[text[:end]], *rest]


def by_routes(model: Stubborn, word: str) -> tuple[bytes, int]:
    """The baseline: the text, and the tokens that a model would have read."""
    listed = list(islice(routes(model.vocabulary, model.known, word.encode()), ROUTES))
    tokens, banned, read, backs = list[int](), dict[int, set[int]](), len(PROMPT), 0
    while len(tokens) < TOKENS:
        scores = model._scores(0, tokens)
        scores[list(banned.get(len(tokens), ()))] = -torch.inf
        tokens.append(int(scores.argmax()))
        read += 1
        found = next((route for route in listed if tokens[-len(route) :] == route), None)
        if found is not None:
            first = len(tokens) - len(found)
            banned.setdefault(first, set()).add(found[0])
            del tokens[first:]
            backs += 1
            read += len(PROMPT) + len(tokens) - 1
            if backs > 50 * TOKENS:
                break
    return model.vocabulary.decode(tokens), read


def processed(model: Stubborn, change: Callable[[list[int], torch.Tensor], torch.Tensor]) -> bytes:
    """The text with scores that a processor changes."""
    tokens: list[int] = []
    while len(tokens) < TOKENS:
        tokens.append(int(change(tokens, model._scores(0, tokens)).argmax()))
    return model.vocabulary.decode(tokens)


def without_words(spelled: list[list[int]]) -> Callable[[list[int], torch.Tensor], torch.Tensor]:
    """transformers' `bad_words_ids`."""
    processor = NoBadWordsLogitsProcessor(spelled)
    return lambda said, scores: processor(torch.tensor([PROMPT + said]), scores[None])[0]


def without_tokens(spelled: list[list[int]]) -> Callable[[list[int], torch.Tensor], torch.Tensor]:
    """Every token of the word is forbidden."""
    tokens = sorted({token for ids in spelled for token in ids})
    return lambda said, scores: scores.index_fill(0, torch.tensor(tokens), -torch.inf)


def random_words(model: Stubborn, count: int) -> list[str]:
    """Texts of one to four tokens."""
    rng, tokens, words = random.Random(11), list(model.known), list[str]()
    while len(words) < count:
        text = b"".join(rng.choices(tokens, k=rng.randint(1, 4))).strip()
        try:
            word = text.decode()
        except UnicodeDecodeError:
            continue
        if 2 <= len(text) <= 24 and word.isprintable():
            words.append(word)
    return words


def compare(tokenizer: Any, count: int) -> dict[str, Any]:
    """All contestants with one tokenizer."""
    model = Stubborn(Vocabulary.from_tokenizer(tokenizer))
    encode = plain_encoder(tokenizer)
    names = ("guard", "masks", "routes", "bad_words_ids", "tokens")
    guarded(model, "x", 0)  # finds out how the model is read
    leaks, read = dict.fromkeys(names, 0), dict.fromkeys(names[:3], 0)
    for word in random_words(model, count):
        model.word = word.encode()
        spelled = [ids for ids in (encode(word), encode(" " + word)) if ids]
        texts = {
            "bad_words_ids": processed(model, without_words(spelled)),
            "tokens": processed(model, without_tokens(spelled)),
        }
        for name, run in (
            ("guard", lambda word=word: guarded(model, word, ROLLBACKS)),
            ("masks", lambda word=word: guarded(model, word, 0)),
            ("routes", lambda word=word: by_routes(model, word)),
        ):
            texts[name], tokens = run()
            read[name] += tokens
        for name, text in texts.items():
            leaks[name] += word.encode() in text
    return {"words": count, "leaks": leaks, "tokens_read": read}


def cost() -> dict[str, float]:
    """Ten thousand words: seconds to build, microseconds for a token of a stream without a hit."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(5, 14))) for _ in range(10_000)]
    built, fed = [], []
    tokens = [b" " + word.encode() for word in "the quick brown fox jumps over the lazy dog again".split()] * 1000
    for _ in range(5):
        began = time.process_time()
        guard = BannedWords(words)
        built.append(time.process_time() - began)
        for _ in range(2):  # the second time as any stream goes on
            state = guard.start()
            began = time.process_time()
            for token in tokens:
                state = guard.feed(state, token)
                assert not isinstance(state, Veto)
            fed.append((time.process_time() - began) / len(tokens) * 1e6)
    return {"build_seconds": statistics.median(built), "microseconds_per_token": statistics.median(fed)}


def tokenizers(folder: Path) -> dict[str, Callable[[], Any]]:
    """Where each tokenizer comes from."""

    def llama3() -> Any:
        with tempfile.TemporaryDirectory() as place:
            source = folder / "llama3-tokenizer"
            packed = (source / "tokenizer.json.xz").read_bytes()
            (Path(place) / "tokenizer.json").write_bytes(lzma.decompress(packed))
            (Path(place) / "tokenizer_config.json").write_bytes((source / "tokenizer_config.json").read_bytes())
            return PreTrainedTokenizerFast.from_pretrained(place)

    def mistral(name: str) -> Any:
        import mistral_common
        from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

        return MistralTokenizer.from_file(str(Path(mistral_common.__file__).parent / "data" / name))

    return {
        "demo": lambda: load_demo()[1],
        "llama3": llama3,
        "tekken": lambda: mistral("tekken_240911.json"),
        "v1": lambda: mistral("tokenizer.model.v1"),
    }


def page(results: dict[str, Any]) -> str:
    """The results as Markdown."""
    lines = [
        "| tokenizer | words | leaks: guard | masks | routes | bad_words_ids | tokens "
        "| tokens read: guard | masks | routes |",
        "| --- " + "| ---: " * 9 + "|",
    ]
    for name, found in results["tokenizers"].items():
        numbers = [found["words"], *found["leaks"].values(), *found["tokens_read"].values()]
        lines.append(f"| {name} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    build, token = results["cost"]["build_seconds"], results["cost"]["microseconds_per_token"]
    lines += ["", f"10,000 words: built in {build:.2f} s, {token:.1f} µs per token of a stream without a hit."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("STRUCTGEN_DATA", HERE.parent.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--words", type=int, default=200)
    parser.add_argument("--tokenizers", nargs="+", default=["demo", "llama3", "tekken", "v1"])
    options = parser.parse_args()
    sources = tokenizers(options.data)
    results: dict[str, Any] = {"tokenizers": {}, "cost": cost()}
    for name in options.tokenizers:
        results["tokenizers"][name] = compare(sources[name](), options.words)
        (HERE / "results" / "guards.json").write_text(json.dumps(results, indent=1) + "\n")
        (HERE / "results" / "guards.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
