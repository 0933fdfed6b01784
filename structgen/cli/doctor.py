"""`structgen doctor` with a model: how the model writes calls; whether it works together with a schema."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from transformers import AutoTokenizer

from structgen import api
from structgen.chat import call_format
from structgen.constraints.basic import JsonSchema
from structgen.decoding.grammars import grammar_for
from structgen.errors import OptionError, StructgenError, VocabularyError, excerpt
from structgen.explanation import explain
from structgen.models.evaluation_mode import evaluating
from structgen.models.forward import forward_for
from structgen.models.known import is_known
from structgen.models.loading import load
from structgen.models.model import Model
from structgen.models.quiet import quietly
from structgen.options import Limits
from structgen.vocabulary import Vocabulary
from structgen.waiting import waiting

FINE, NOTE, FAULT = "fine", "note", "fault"
SLOW_MASK = 0.05
"""A first mask that takes longer, in seconds, is worth a note."""


def examine_format(console: Console, source: str) -> bool:
    """Prints how a model writes calls and thinking. Returns False if its chat template does not tell.

    Args:
        source: a folder or an id on the Hugging Face hub, of which only the tokenizer is read; a GGUF or Jinja file; or
            `demo` or `smollm2`.
    """
    path = Path(source)
    try:
        with waiting("reading the chat template"), quietly():
            if path.suffix == ".gguf" or is_known(source):
                model = load(source)
                format_ = call_format(model.tokenizer, model.vocabulary)
            elif path.is_file():
                format_ = call_format(path.read_text(encoding="utf-8"))
            else:
                tokenizer: Any = AutoTokenizer.from_pretrained(source)
                format_ = call_format(tokenizer, Vocabulary.from_tokenizer(tokenizer))
    except (OptionError, VocabularyError) as refusal:
        console.print(str(refusal), markup=False)
        return False
    table = Table("part", "as the chat template has it", title="call format")
    for part, text in format_.described():
        table.add_row(Text(part), Text(text))
    console.print(table)
    return True


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one part: `fine`, a `note` (it works, with a drawback), or a `fault`."""

    part: str
    state: str
    told: str

    def __str__(self) -> str:
        return f"{self.state:<5}  {self.part}: {self.told}"


def diagnose(model: Model, schema: Any) -> Iterator[Finding]:
    """Yields the findings about a model, its tokenizer and a schema."""
    for part, examine in _PARTS.items():
        try:
            yield from (Finding(part, state, told) for state, told in examine(model, schema))
        except StructgenError as error:
            yield Finding(part, FAULT, excerpt(error))


Told = Iterator[tuple[str, str]]


def _tokenizer(model: Model, schema: Any) -> Told:
    vocabulary = model.vocabulary
    yield FINE, f"{type(model.tokenizer).__name__}, {len(vocabulary):,} ids, {vocabulary.width:,} columns of logits"
    try:
        vocabulary.canonical  # noqa: B018 - is known, or raises
    except StructgenError as error:
        yield NOTE, f"canonical= cannot be used: {excerpt(error)}"


def _ends(model: Model, schema: Any) -> Told:
    names = {token: name for name, token in model.vocabulary.special_names.items()}
    yield FINE, ", ".join(f"{names.get(token, 'unnamed')} ({token})" for token in model.vocabulary.end_ids)


def _template(model: Model, schema: Any) -> Told:
    has = getattr(model.tokenizer, "chat_template", None) or hasattr(model.tokenizer, "apply_chat_template")
    yield (FINE, "there is one") if has else (NOTE, "none: prompts are texts, not messages")


def _calls(model: Model, schema: Any) -> Told:
    try:
        format_ = call_format(model.tokenizer, model.vocabulary)
    except OptionError as error:
        yield NOTE, f"no tools: {excerpt(error)}"
        return
    parts = dict(format_.described())
    yield FINE, f"{format_.name or 'of its template'}: {parts['call']}"
    if "cannot be written" in parts:
        yield NOTE, f"cannot be written in a call: {parts['cannot be written']}"
    if format_.thinking is None:
        yield NOTE, "no tags of thinking in the template: plan='free' lets the model work an answer out first"


def _cache(model: Model, schema: Any) -> Told:
    with evaluating(model.module):
        forward = forward_for(model.module)
    yield FINE if not forward.why_slow else NOTE, forward.kind + (f": {forward.why_slow}" if forward.why_slow else "")
    context = model.context
    yield FINE, "a context without a known end" if context is None else f"a context of {context:,} tokens"


def _coverage(model: Model, schema: Any) -> Told:
    explanation = explain(schema)
    counts = {how: sum(rule.how == how for rule in explanation.rules) for how in ("masked", "checked", "not enforced")}
    yield FINE, ", ".join(f"{count} {how}" for how, count in counts.items())
    for rule in explanation.rules:
        if rule.how == "not enforced":
            yield NOTE, f"{rule.pointer}: {rule.why}"


def _cliffs(model: Model, schema: Any) -> Told:
    cliffs = explain(schema).cliffs
    yield from ((NOTE, f"{cliff.pointer or '/'}: {cliff.what}") for cliff in cliffs)
    began = time.perf_counter()
    grammar = grammar_for(JsonSchema(schema), model.vocabulary)
    read = time.perf_counter() - began
    grammar.matcher().mask()
    first = time.perf_counter() - began - read
    slow = first > SLOW_MASK or read > 1
    yield NOTE if slow else FINE, f"compiled in {1000 * read:.0f} ms, the first mask in {1000 * first:.1f} ms"


def _value(model: Model, schema: Any) -> Told:
    began = time.perf_counter()
    run = api.generate(model, "Answer in JSON.", schema, limits=Limits(64), details=True)
    took, cost = time.perf_counter() - began, run.stats
    yield FINE, f"{cost.tokens} tokens in {took:.2f} s, {cost.fast_forwarded} of them forced; {excerpt(run.text)}"


_PARTS: dict[str, Callable[[Model, Any], Told]] = {
    "tokenizer": _tokenizer,
    "end tokens": _ends,
    "chat template": _template,
    "tool format": _calls,
    "cache": _cache,
    "schema": _coverage,
    "speed": _cliffs,
    "a value": _value,
}
