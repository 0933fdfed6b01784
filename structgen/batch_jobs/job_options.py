"""The options of a job next to those of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

from structgen.arguments import (
    allowing,
    check_options,
    count_from,
    is_listed,
    option,
    optional,
    options_with,
    require,
    require_flag,
    without_nones,
)
from structgen.batch_jobs.columns import require_columns
from structgen.batch_jobs.rows import InputRow, Prompt, require_template
from structgen.decoding.call_options import CallOptions, StreamOptions, require_known
from structgen.documents.windows import Windows
from structgen.errors import OptionError
from structgen.few_shot import example_turns, pairs
from structgen.given_prompts import GivenPrompts, PlainText
from structgen.options import Sampling
from structgen.patience import CancelEvent
from structgen.rendering import schema_text


class ExtractOptions(StreamOptions, total=False):
    """The options of `extract_many`, which explains them."""

    out: str | PathLike[str] | None
    prompt: Prompt
    chat: bool | None
    resume: bool | None
    progress: bool | None
    id: str | None
    keep: bool | Sequence[str] | None
    columns: Sequence[str] | None
    several: int | None
    windows: Windows | None
    encoding: str | None
    max_failures: int | None
    on_entry: Callable[[dict[str, Any]], object] | None
    escape_formulas: bool | None


_KEEP = allowing(lambda value: isinstance(value, bool) or is_listed(value, str), "True, or a list of names of fields")
_NAME = allowing(lambda value: isinstance(value, str) and value != "", "the name of a field")
_WINDOWS = allowing(lambda value: value is None or isinstance(value, Windows), "structgen.Windows(...)")
_EVENT = allowing(lambda value: value is None or hasattr(value, "is_set"), "a threading.Event")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of a job with their checks and defaults. `extract_many` explains `prompt`, `out` and `resume`.

    Of the metadata, an option that `decides` must be equal where a job continues, and one of the `driver` is not for
    Ray's actors.

    Attributes:
        chat: send each prompt through the chat template, as a message of the user.
        id: the field of the inputs that is their id.
        progress: show a bar on the standard error.
        keep: fields of the inputs that are carried into their results, as `input`; True for all but `text`.
        columns: what each result says next to its value: "confidence" (of each member of an object, the probability of
            the scalar that the model was least sure of), "truncated" (JSON pointers of what limits have cut), "seed",
            "tokens", "seconds", "places" (of quotes; they are there anyway if the schema has some), "source" (the texts
            that are quoted, for the page `quotes.html`).
        several: how many values each input gets, with a seed each. Their ids are that of the input with `#1`, `#2`, ...
            after it, and they have `input_id` and `sample`. A job may continue with a larger number.
        windows: reads each input in windows, and merges their values: the lists of the value, or the value if it is a
            list, by the lines that say their items, or by a key; other members by what a line says. Results have
            `complete`, and the lines that may be rows without a value in `unused`, see `structgen.extract`. The columns
            "places" are the lines of values, in a PDF with their boxes. A limit is a window's, and by default eight
            tokens for each of the window's.
        encoding: of files; None for UTF-8, or what a byte order mark says.
        max_failures: the most inputs that may fail before the job ends.
        cancel: ends the job when it is set, from another thread or a signal's handler.
        on_entry: is called with each entry as it comes.
        escape_formulas: in `.csv` and `.tsv`, write `'` before a text that a spreadsheet would execute, as `=1+1`: ids,
            fields and values may be chosen by whoever wrote the inputs. False writes texts as they are.
        prompt_schema, examples: as for `generate`.
    """

    prompt: Prompt = field(default=None, metadata=option(lambda _, prompt: require_template(prompt), decides=True))
    chat: bool = field(default=False, metadata=option(require_flag, decides=True))
    prompt_schema: bool = field(default=False, metadata=option(require_flag, decides=True))
    id: str = field(default="id", metadata=option(_NAME, decides=True, driver=True))
    keep: bool | Sequence[str] = field(default=(), metadata=option(_KEEP, decides=True, driver=True))
    columns: Sequence[str] = field(
        default=(), metadata=option(lambda _, columns: require_columns(columns), decides=True)
    )
    examples: Sequence[tuple[str, Any]] = field(default=(), metadata=option(lambda _, examples: pairs(examples)))
    several: int = field(default=1, metadata=option(count_from(1), driver=True))
    windows: Windows | None = field(default=None, metadata=option(_WINDOWS, driver=True))
    encoding: str | None = field(default=None, metadata={"driver": True})
    max_failures: int | None = field(default=None, metadata=option(optional(count_from(0)), driver=True))
    cancel: CancelEvent | None = field(default=None, metadata=option(_EVENT, driver=True))
    on_entry: Callable[[dict[str, Any]], object] | None = field(default=None, metadata={"driver": True})
    resume: bool = field(default=False, metadata=option(require_flag, driver=True))
    progress: bool = field(default=False, metadata=option(require_flag, driver=True))
    escape_formulas: bool = field(default=True, metadata=option(require_flag, driver=True))

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "columns", tuple(self.columns))

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[JobOptions, CallOptions]:
        """The options of a job and those of its calls.

        Raises:
            OptionError: one is unknown or wrong, or they do not go together.
        """
        require_known(given, ExtractOptions.__annotations__)
        own, given = {each.name for each in fields(cls)}, without_nones(given)
        job = cls(**{name: value for name, value in given.items() if name in own})
        call = CallOptions.of({name: given[name] for name in given if name not in (*own, "out", "tokenizer")})
        require(call.beams.count == 1, "beams", call.beams, "1: jobs have no beam search")  # type: ignore[union-attr]
        greedy = isinstance(call.sampling, Sampling) and call.sampling.greedy
        drawn = job.several == 1 or not greedy
        require(drawn, "several", job.several, "1, or sampling=sg.Sampling(temperature=...): greedy values are equal")
        return job, call

    @property
    def deciding(self) -> dict[str, Any]:
        """Those that must be equal where a job continues. More values of each input may be added to several."""
        deciding = {name: getattr(self, name) for name in options_with(JobOptions, "decides")}
        rare = {name: getattr(self, name) for name in ("examples", "windows") if getattr(self, name)}
        return {**deciding, "several": self.several > 1, **rare}

    def prompts_for(self, schema: Any, call: CallOptions) -> Callable[[InputRow], GivenPrompts]:
        """Makes the prompt of an input."""
        behind = schema_text(schema) if self.prompt_schema else ""
        turns = example_turns(self.examples, schema, call.whitespace, call.order) if self.examples else []

        def prompts(row: InputRow) -> GivenPrompts:
            prompt = row.prompt(self.prompt)
            if self.chat and isinstance(prompt, (str, PlainText)):
                prompt = [{"role": "user", "content": str(prompt)}]
            made = GivenPrompts.of(prompt)
            if made.many:
                raise OptionError("the prompt of an input is a list of prompts: expected one")
            if turns:
                made = made.mapped(lambda each: each.with_examples(turns))
            return made.mapped(lambda each: each.with_schema(behind)) if behind else made

        return prompts
