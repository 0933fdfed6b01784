"""How often a model is right, field by field, on rows whose values are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from structgen.arguments import is_listed, require
from structgen.batch_jobs.columns import PROBABILITIES
from structgen.batch_jobs.inputs import read_inputs
from structgen.batch_jobs.job import extract_many
from structgen.batch_jobs.job_files import Entry, Places, entries_of, is_of_a_job
from structgen.batch_jobs.rows import Prompt, names_of
from structgen.constraints.basic import Constraint, JsonSchema
from structgen.errors import OptionError, quoted
from structgen.evaluating.comparison import Case, Mistake, Row, Same, alike, cases_of
from structgen.evaluating.counts import Accuracy, Comparison, difference, worth
from structgen.evaluating.mistakes_page import mistakes_page
from structgen.fitting import Fit, Fitting, fit
from structgen.json_text.pointers import unescaped

NO_FAULT = Fit(0, {}, (), None)


class Review(NamedTuple):
    """What is taken without a look, if less sure values are reviewed."""

    threshold: float  # a value is taken from this confidence on; above 1 if none is
    coverage: float  # the share of the values that is taken
    accuracy: Accuracy  # of these


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What `evaluate` gives. `print` shows its table.

    Attributes:
        rows: every value with its comparison, in the order of the inputs.
        fit: the expected values that the schema makes impossible, and why; with a JSON Schema or a type.
    """

    rows: list[Row] = field(repr=False)
    fit: Fit = field(default=NO_FAULT, repr=False)

    @property
    def whole(self) -> Accuracy:
        """The rows of which every place is right."""
        return _accuracy((row.group, Case("", "", True, None if row.error else True, row.right)) for row in self.rows)

    @property
    def fields(self) -> dict[str, Accuracy]:
        """By field, the places that are right. Items of lists count under `*`, whatever their order."""
        found: dict[str, list[tuple[str, Case]]] = {}
        for row in self.rows:
            for case in row.cases:
                found.setdefault(case.field, []).append((row.group, case))
        return {name: _accuracy(cases) for name, cases in found.items()}

    @property
    def failed(self) -> int:
        """The number of rows without a value; each counts as wrong."""
        return sum(bool(row.error) for row in self.rows)

    @property
    def mistakes(self) -> list[Mistake]:
        """What is not right: first what the model was surest of, last what is missing."""
        found = [
            Mistake(row.id, case.field, case.expected, case.given, row.confidence_of(case), row)
            for row in self.rows
            for case in row.cases
            if not case.right
        ]
        return sorted(found, key=lambda each: -1.0 if each.confidence is None else each.confidence, reverse=True)

    def review(self, risk: float, field: str | None = None) -> Review:
        """The confidence from which on values may be taken without a look, so that at most `risk` of them are wrong.

        Of all thresholds that hold on these rows the one that takes the most values; `accuracy.interval` says how
        sure that is.

        Args:
            risk: the share of wrong values, from 0 to 1.
            field: for values of this field; None for whole rows.
        """
        require(isinstance(risk, (int, float)) and 0 <= risk <= 1, "risk", risk, "a share from 0 to 1")
        own = [row for row in self.rows if field is None or any(case.field == field for case in row.cases)]
        sure = sorted(((row.confidence(field), row) for row in own), key=lambda each: -each[0])
        best, wrong = 0, 0
        for count, (confidence, row) in enumerate(sure, 1):
            wrong += row.share(field) < 1
            ends = count == len(sure) or sure[count][0] < confidence
            best = count if ends and wrong <= risk * count else best
        taken = [row for _, row in sure[:best]]
        threshold = sure[best - 1][0] if best else 2.0
        accuracy = _accuracy((row.group, Case("", "", True, True, row.share(field) == 1)) for row in taken)
        return Review(threshold, best / len(sure) if sure else 0.0, accuracy)

    def compare(self, other: Evaluation) -> Comparison:
        """How much better another evaluation of the same rows is: `before.compare(after)`.

        Raises:
            OptionError: they have no row in common.
        """
        mine, others = {row.id: row for row in self.rows}, {row.id: row for row in other.rows}
        common = [(row, others[id_]) for id_, row in mine.items() if id_ in others]
        require(bool(common), "other", sorted(others)[:3], f"rows with the same ids, as {quoted(sorted(mine)[:3])}")
        whole = difference((row.group, then.share() - row.share()) for row, then in common)
        fields = {
            name: difference((row.group, then.share(name) - row.share(name)) for row, then in common)
            for name in {**self.fields, **other.fields}
        }
        return Comparison(fields, whole, len(mine) + len(others) - 2 * len(common))

    def __str__(self) -> str:
        """The table: a line for each field, and one for whole rows."""
        width = max(9, *(len(name) for name, _ in self._lines()))
        rows = [f"{'field':{width}}  right     of  accuracy  95% interval  precision  recall"]
        for name, each in self._lines():
            low, high = each.interval
            told = f"{each.right:6} {each.total:6} {each.share:9.0%}  {f'{low:.0%} to {high:.0%}':12}"
            told += f"  {each.precision:9.0%} {each.recall:7.0%}" if name != "whole row" else ""
            rows.append(f"{name:{width}} {told}".rstrip())
        return "\n".join([*rows, *([str(self.fit)] if self.fit.impossible else [])])

    def page(self, path: str | PathLike[str]) -> None:
        """Writes a page of the rows that are wrong, the surest first, each beside its input.

        There an expected value can be corrected; a button saves the corrected rows as JSON lines, to be evaluated on.
        """
        rows: dict[str, list[Mistake]] = {}
        for mistake in self.mistakes:
            rows.setdefault(mistake.id, []).append(mistake)
        shown = [(own[0].row, own) for own in rows.values()]
        shown += [(row, []) for row in self.rows if not row.right and row.id not in rows]
        Path(path).write_text(mistakes_page(Path(path).stem, str(self), shown), encoding="utf-8")

    def _lines(self) -> Iterator[tuple[str, Accuracy]]:
        yield from ((name or "(value)", each) for name, each in self.fields.items())
        yield "whole row", self.whole

    @staticmethod
    def read(
        out: str | PathLike[str],
        schema: Any = None,
        *,
        expected: str | Sequence[str] = "expected",
        same: Same | Mapping[str, Same] | None = None,
        group: str | None = None,
    ) -> Evaluation:
        """The evaluation of a job that has run: of `evaluate(..., out=...)`, or of any with `keep=[expected]`.

        Raises:
            OptionError: there is no such job, or its first row has no expected value.
        """
        require(Places.of(out).settings.exists(), "out", str(out), "the file that a job has written")
        return Comparing(schema, expected, same, group).evaluation(entries_of(out))


def _accuracy(cases: Iterable[tuple[str, Case]]) -> Accuracy:
    """The counts of some cases, each with its group."""
    groups, right, total, expected, given, hits = dict[str, tuple[int, int]](), 0, 0, 0, 0, 0
    for group, case in cases:
        before = groups.get(group, (0, 0))
        groups[group] = before[0] + case.right, before[1] + 1
        is_there, is_given = case.expected is not None, case.given is not None
        right, total, hits = right + case.right, total + 1, hits + (case.right and is_there and is_given)
        expected, given = expected + is_there, given + is_given
    return Accuracy(right, total, expected, given, hits, worth(groups) if groups else 0.0)


class Comparing:
    """Makes rows of a job's entries: what was expected is read from their `input`."""

    def __init__(
        self, schema: Any, expected: str | Sequence[str], same: Same | Mapping[str, Same] | None, group: str | None
    ) -> None:
        named = (isinstance(expected, str) and expected != "") or (is_listed(expected, str) and bool(expected))
        require(named, "expected", expected, "the name of a field of the rows, or a list of names")
        self.expected, self._group, self._schema = expected, group, schema
        self.names = [expected] if isinstance(expected, str) else [*expected]
        self._same = {"*": alike, **({"*": same} if callable(same) else same or {})}
        is_json = not isinstance(schema, Constraint) or isinstance(schema, (type, JsonSchema))
        schema = schema if isinstance(schema, JsonSchema) or not is_json else JsonSchema(schema)
        self._fitting = Fitting(schema) if is_json and self._schema is not None else None

    def gold(self, entry: Entry) -> Any:
        """The expected value of an entry; None without one. Texts that the schema refuses are read as JSON.

        An empty cell among several columns is null where the schema lets its member be null.
        """
        source = entry.get("input")
        if not isinstance(source, Mapping) or not any(name in source for name in self.names):
            return None
        listed = not isinstance(self.expected, str)
        wanted = {name: source.get(name) for name in self.names} if listed else source.get(self.names[0])
        gold: Any = to_jsonable_python(wanted)
        for _ in range(len(self.names) if self._fitting is not None else 0):
            fault = self._fitting.fault(gold)  # type: ignore[union-attr]
            name = unescaped(fault.pointer[1:]) if fault is not None and listed else None
            cell: Any = None if fault is None else gold.get(name) if listed else gold
            if not isinstance(cell, str):
                break
            with suppress(ValueError):  # the cell of a CSV file is a text
                cell = json.loads(cell) if cell.strip() else None
            gold = {**gold, name: cell} if listed else cell
        for name in self.names if listed and self._fitting is not None else ():
            without = {**gold, name: None}
            if gold[name] == "" and self._fitting.fault(without) is None:  # type: ignore[union-attr]
                gold = without
        return gold

    def row(self, entry: Entry) -> Row:
        """Compares one entry. A row that cannot be read, or has no expected value, is wrong."""
        gold, error = self.gold(entry), entry.get("error", {}).get("message", "")
        source: Mapping[str, Any] = entry["input"] if isinstance(entry.get("input"), Mapping) else {}
        if gold is None and not error:
            error = f"the row has no field {quoted(self.expected)} with its right value"
        given = entry.get("value")
        cases = () if gold is None else tuple(cases_of(gold, given, self._same))
        group = str(source.get(self._group) if self._group else entry.get("input_id", entry["id"]))
        return Row(entry["id"], group, source, gold, given, cases, entry.get(PROBABILITIES, {}), error)

    def evaluation(self, entries: Iterable[Entry]) -> Evaluation:
        rows = [self.row(entry) for entry in entries]
        golds = [row.expected for row in rows if row.expected is not None]
        return Evaluation(rows, NO_FAULT if self._fitting is None else fit(self._schema, golds))


def evaluate(
    model: Any,
    rows: Any,
    schema: Any,
    *,
    expected: str | Sequence[str] = "expected",
    prompt: Prompt = None,
    same: Same | Mapping[str, Same] | None = None,
    group: str | None = None,
    out: str | PathLike[str] | None = None,
    keep: Sequence[str] = (),
    columns: Sequence[str] = (),
    **options: Any,
) -> Evaluation:
    """Generates a value for each row, and counts for each field how often it is the expected one.

        print(evaluate(model, "labelled.csv", Ticket, prompt="Classify.\\n{text}\\nJSON: ", out="run.jsonl"))

    It is a job of `extract_many`, which keeps the expected values and how sure the model was of each value.

    Args:
        model, prompt, options: as for `extract_many`; with `out` also `resume` and `on_entry`.
        rows: inputs as for `extract_many`, each with its right value in a field.
        schema: as for `generate`.
        expected: that field's name. Its value is JSON, a text with JSON (as in a CSV file), or a value of the type. Or
            a list of names, as of columns of a CSV file, whose values are the members of the right value.
        same: whether a value is the expected one, `same(expected, given)`; or a dict of such functions by field, as
            "/lines/*/price", of which "*" is for all others. By default texts are compared without case and runs of
            white space, all else exactly. A field that is an object or a list and has a function is compared as one.
        group: the name of a field; rows that have the same there (pages of one document) do not count as independent.
            Values of `several` never do.
        out: the file of the job. Its folder has `mistakes.html`, see `Evaluation.page`. `Evaluation.read` reads it.
        keep, columns: further ones for the lines of `out`, as for `extract_many`.

    Raises:
        OptionError: the first row has no such field, or null in it; or as `extract_many`. Later such rows are wrong.
    """
    require(out is not None or "on_entry" not in options, "on_entry", "given", "out= with it")
    comparing = Comparing(schema, expected, same, group)
    inputs = read_inputs(rows, encoding=options.get("encoding"), without=is_of_a_job)
    for first in inputs.first(1):
        if not first.error and comparing.gold({"input": first.fields}) is None:
            raise OptionError(f"row {quoted(first.id)} has no field {quoted(expected)} with its right value")
    kept = [*keep, *comparing.names, *([group] if group else []), *names_of(prompt)]
    told = list(dict.fromkeys([*columns, PROBABILITIES]))
    keep = list(dict.fromkeys(kept))
    job = extract_many(model, inputs, schema, prompt=prompt, out=out, keep=keep, columns=told, **options)
    result = comparing.evaluation(job.results if out is None else entries_of(out))
    if out is not None:
        result.page(Places.of(out).folder / "mistakes.html")
    return result
