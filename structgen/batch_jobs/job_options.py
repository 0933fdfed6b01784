"""The options of a job beside those of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from structgen.arguments import is_listed, require, require_count, require_flag
from structgen.batch_jobs.columns import require_columns
from structgen.batch_jobs.rows import InputRow, Prompt, require_template
from structgen.decoding.call_options import CallOptions
from structgen.errors import OptionError
from structgen.given_prompts import GivenPrompts, PlainText
from structgen.options import Sampling
from structgen.patience import CancelEvent
from structgen.rendering import schema_text


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What `extract_many` explains; the same for jobs on Ray."""

    prompt: Prompt = None
    chat: bool = False
    prompt_schema: bool = False
    keep: bool | Sequence[str] = ()
    columns: Sequence[str] = ()
    several: int = 1
    encoding: str | None = None
    max_failures: int | None = None
    cancel: CancelEvent | None = None
    on_entry: Callable[[dict[str, Any]], object] | None = None
    resume: bool = False
    progress: bool = False
    escape_formulas: bool = True

    def __post_init__(self) -> None:
        for name in ("chat", "resume", "progress", "prompt_schema", "escape_formulas"):
            require_flag(name, getattr(self, name))
        require_template(self.prompt)
        listed = isinstance(self.keep, bool) or is_listed(self.keep, str)
        require(listed, "keep", self.keep, "True, or a list of names of fields")
        object.__setattr__(self, "columns", require_columns(self.columns))
        require_count("several", self.several, 1)
        is_event = self.cancel is None or hasattr(self.cancel, "is_set")
        require(is_event, "cancel", self.cancel, "a threading.Event")
        if self.max_failures is not None:
            require_count("max_failures", self.max_failures, 0)

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[JobOptions, CallOptions]:
        """The options of a job and those of its calls.

        Raises:
            OptionError: one is unknown or wrong, or they do not go together.
        """
        own = {each.name for each in fields(cls)}
        job = cls(**{name: value for name, value in given.items() if name in own})
        call = CallOptions.of({name: value for name, value in given.items() if name not in own}, sorted(own))
        require(call.beams.count == 1, "beams", call.beams, "1: jobs have no beam search")  # type: ignore[union-attr]
        greedy = isinstance(call.sampling, Sampling) and call.sampling.greedy
        drawn = job.several == 1 or not greedy
        require(drawn, "several", job.several, "1, or sampling=sg.Sampling(temperature=...): greedy values are equal")
        return job, call

    @property
    def deciding(self) -> dict[str, Any]:
        """Those that must be equal where a job goes on. More values of each input may be added to several."""
        names = "prompt", "chat", "prompt_schema", "keep", "columns"
        return {name: getattr(self, name) for name in names} | {"several": self.several > 1}

    def prompts_for(self, schema: Any) -> Callable[[InputRow], GivenPrompts]:
        """Makes the prompt of an input."""
        behind = schema_text(schema) if self.prompt_schema else ""

        def prompts(row: InputRow) -> GivenPrompts:
            prompt = row.prompt(self.prompt)
            if self.chat and isinstance(prompt, (str, PlainText)):
                prompt = [{"role": "user", "content": str(prompt)}]
            made = GivenPrompts.of(prompt)
            if made.many:
                raise OptionError("the prompt of an input is a list of prompts: expected one")
            return made.mapped(lambda each: each.with_schema(behind)) if behind else made

        return prompts
