"""Banned words: what leaks, what is read again, and what a guard costs, beside other ways.

    python -m benchmarks guards [--words 200] [--tokenizers demo llama3 v1 tekken v3]

A scripted model wants each word and nothing else, in tokens that it chooses anew at each prefix: the words are random,
of one to four of the tokenizer's tokens, in whatever script these have. The contestants:

- guard: `BannedWords` in structgen's loop, as it is without options; `masks`: the same with `rollbacks=0`.
- routes: every tokenisation of the word is known; when the text's tokens end with one, they are taken back, the cache
  is dropped and all is read again, and the first of them is banned at its position for good.
- bad_words_ids: transformers' processor with the word's own tokens, with and without a space before it.
- tokens: every token is forbidden that stands in the word's own tokens.

Writes results/guards.json and results/guards.md beside this file.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import NoBadWordsLogitsProcessor, PreTrainedTokenizerFast

from benchmarks.report import DATA, RESULTS, parser, table, unpacked, write, write_rows
from structgen.decoding.ahead.forced import plain_encoder
from structgen.decoding.engine import decode
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.refusals.guarding import Guarding
from structgen.decoding.refusals.rules import Rules
from structgen.decoding.session import Session
from structgen.demo import load_demo
from structgen.guards import BannedWords, Veto
from structgen.options import Limits, Sampling
from structgen.testing import ScriptedModel
from structgen.vocabulary import Vocabulary

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12]
TOKENS, ROLLBACKS = 16, Limits().rollbacks


class Stubborn(ScriptedModel):
    """Wants one word for ever."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__("", vocabulary)
        self.known = {text: i for i in range(vocabulary.width - 1, -1, -1) if (text := vocabulary.token(i))}
        self.textless = [i for i in range(vocabulary.width) if not vocabulary.token(i)]
        self.read = self.forwards = 0
        self.word = b"x"
        self.register_forward_pre_hook(self.count, with_kwargs=True)

    def count(self, _: Any, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Adds what a forward pass reads."""
        self.forwards += 1
        self.read += (given[0] if given else options["input_ids"]).numel()

    def _scores(self, row: int, said: Any) -> torch.Tensor:
        text, word = self.vocabulary.decode(said), self.word
        begun = next(n for n in range(min(len(word) - 1, len(text)), -1, -1) if text.endswith(word[:n]))
        rest = word[begun:]
        scores = torch.zeros(self.vocabulary.width)
        order = random.Random(hash(tuple(said)))
        for token in [self.known[rest[:n]] for n in range(1, len(rest) + 1) if rest[:n] in self.known]:
            scores[token] = 10 + order.random()
        scores[self.textless] = -1
        return scores


@dataclass(frozen=True)
class Outcome:
    """What a contestant said and did.

    Attributes:
        text: what was said.
        forwards: passes of the model.
        read: tokens that it read in them.
    """

    text: bytes
    forwards: int
    read: int


def guarded(model: Stubborn, word: str, rollbacks: int) -> Outcome:
    """What structgen says."""
    vocabulary, model.read, model.forwards = model.vocabulary, 0, 0
    rules, limits = Rules(Guarding([BannedWords([word])], vocabulary)), Limits(TOKENS, rollbacks)
    session = Session(Prompt(PROMPT), vocabulary, matcher=None, sampling=Sampling(), limits=limits, rules=rules)
    decode(model, vocabulary, [session])
    assert session.error is None, session.error
    return Outcome(session.said, model.forwards, model.read)


def route(vocabulary: Vocabulary, tokens: Sequence[int], word: bytes) -> int:
    """How many tokens at the end are a tokenisation of the word; 0 where none are.

    That is what looking them up in a list of all of them tells, which nobody could write for long words.
    """
    text = b""
    for count in range(1, len(tokens) + 1):
        text = vocabulary.token(tokens[-count]) + text
        if text == word:
            return count
        if not word.endswith(text):
            return 0
    return 0


def number_of_routes(known: dict[bytes, int], word: bytes) -> int:
    """Of how many tokenisations the list would be."""
    ways = [1]
    for end in range(1, len(word) + 1):
        ways.append(sum(ways[start] for start in range(end) if word[start:end] in known))
    return ways[-1]


def by_routes(model: Stubborn, word: str) -> Outcome:
    """The baseline, with what a model would have read."""
    tokens, banned, read, backs = list[int](), dict[int, set[int]](), len(PROMPT), 0
    forwards = 0
    while len(tokens) < TOKENS:
        scores = model._scores(0, tokens)
        scores[list(banned.get(len(tokens), ()))] = -torch.inf
        forwards += 1
        tokens.append(int(scores.argmax()))
        read += 1
        first = len(tokens) - route(model.vocabulary, tokens, word.encode())
        if first < len(tokens):
            banned.setdefault(first, set()).add(tokens[first])
            del tokens[first:]
            backs += 1
            read += len(PROMPT) + len(tokens) - 1
            if backs > 50 * TOKENS:
                break
    return Outcome(model.vocabulary.decode(tokens), forwards, read)


def processed(model: Stubborn, change: Callable[[list[int], torch.Tensor], torch.Tensor]) -> Outcome:
    """The text with scores that a processor changes."""
    tokens = list[int]()
    while len(tokens) < TOKENS:
        tokens.append(int(change(tokens, model._scores(0, tokens)).argmax()))
    return Outcome(model.vocabulary.decode(tokens), TOKENS, len(PROMPT) + TOKENS - 1)


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


def compare(tokenizer: Any, count: int, raw: list[dict[str, Any]]) -> dict[str, Any]:
    """All contestants with one tokenizer; each text's row is added to `raw`."""
    model = Stubborn(Vocabulary.from_tokenizer(tokenizer))
    encode = plain_encoder(tokenizer)
    guarded(model, "x", 0)  # finds out how the model is read
    leaks, read, forwards, listed = Counter[str](), Counter[str](), Counter[str](), list[int]()
    for word in random_words(model, count):
        model.word = word.encode()
        listed.append(number_of_routes(model.known, model.word))
        spelled = [ids for ids in (encode(word), encode(" " + word)) if ids]
        outcomes = {
            "guard": guarded(model, word, ROLLBACKS),
            "masks": guarded(model, word, 0),
            "routes": by_routes(model, word),
            "bad_words_ids": processed(model, without_words(spelled)),
            "tokens": processed(model, without_tokens(spelled)),
        }
        for name, outcome in outcomes.items():
            leaks[name] += model.word in outcome.text
            read[name] += outcome.read
            forwards[name] += outcome.forwards
            counts = {"leaks": model.word in outcome.text, "forwards": outcome.forwards, "tokens_read": outcome.read}
            raw.append({"engine": name, "word": word, **counts})
    routes = {"median": statistics.median(listed), "most": max(listed)}
    return {"words": count, "leaks": leaks, "tokens_read": read, "forwards": forwards, "tokenisations": routes}


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
    costs = {"build_seconds": statistics.median(built), "microseconds_per_token": statistics.median(fed)}
    return costs | share_of_a_loop(words)


def share_of_a_loop(words: list[str]) -> dict[str, float]:
    """What the guard adds to a decode loop in least processor time: the demo model, which is tiny, 1 and 16 rows."""
    module, tokenizer = load_demo()
    vocabulary, found = Vocabulary.from_tokenizer(tokenizer), dict[str, float]()
    guard = BannedWords(words)
    for rows in (1, 16):
        taken: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(21):
            for with_guard in (False, True):
                sessions = [free(vocabulary, guard if with_guard else None) for _ in range(rows)]
                began = time.process_time()
                decode(module, vocabulary, sessions)
                seconds = (time.process_time() - began) / sum(len(session.tokens) for session in sessions)
                if turn:
                    taken[with_guard].append(seconds * 1e6)
        plain, watched = min(taken[False]), min(taken[True])  # what else runs on the machine only adds
        found |= {f"loop_microseconds_{rows}": plain, f"added_share_{rows}": watched / plain - 1}
    return found


def free(vocabulary: Vocabulary, guard: BannedWords | None) -> Session:
    """A row of 128 tokens, whatever they are."""
    guards = None if guard is None else Guarding([guard], vocabulary)
    endless = Sampling(temperature=1.0, seed=3)
    return Session(Prompt(PROMPT), vocabulary, matcher=None, sampling=endless, limits=Limits(128), rules=Rules(guards))


def tokenizers(folder: Path) -> dict[str, Callable[[], Any]]:
    """Where each tokenizer comes from."""

    def llama3() -> Any:
        with unpacked(folder / "llama3-tokenizer") as place:
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
        "v3": lambda: mistral("mistral_instruct_tokenizer_240323.model.v3"),
    }


def page(results: dict[str, Any]) -> Iterator[str]:
    """The results as Markdown."""
    rows = []
    for name, found in results["tokenizers"].items():
        known = f"{found['tokenisations']['median']:,.0f}, {found['tokenisations']['most']:,}"
        rows += [[name, found["words"], known, way, *(found[key][way] for key in COUNTED)] for way in found["leaks"]]
    head = ["tokenizer", "words", "tokenisations: median, most", "contestant", "leaks", "forwards", "tokens read"]
    yield from table(head, rows)
    cost = results["cost"]
    built, each = f"{cost['build_seconds']:.2f} s", f"{cost['microseconds_per_token']:.1f} µs"
    yield from ("", f"10,000 words: built in {built}, {each} per token of a stream without a hit.", "")
    loops = [[rows, cost[f"loop_microseconds_{rows}"], f"{cost[f'added_share_{rows}']:.1%}"] for rows in (1, 16)]
    yield from table(["rows of the demo model", "µs per token", "the guard adds"], loops)


COUNTED = "leaks", "forwards", "tokens_read"


def main() -> None:
    """Runs what the arguments say."""
    given = parser(__doc__)
    given.add_argument("--words", type=int, default=200)
    given.add_argument("--tokenizers", nargs="+", default=["demo", "llama3", "v1", "tekken", "v3"])
    given.add_argument("--raw", type=Path, help="a file for the raw rows")
    options = given.parse_args()
    raw = list[dict[str, Any]]()
    sources = tokenizers(DATA)
    results: dict[str, Any] = {"tokenizers": {}, "cost": cost()}
    for name in options.tokenizers:
        results["tokenizers"][name] = compare(sources[name](), options.words, rows := list[dict[str, Any]]())
        raw += [{"tokenizer": name, **row} for row in rows]
        (RESULTS / "guards.json").write_text(json.dumps(results, indent=1) + "\n")
        write("guards", page(results))
    if options.raw:
        write_rows(options.raw, raw)
    print("\n".join(page(results)))
