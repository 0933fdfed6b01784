"""lm-evaluation-harness: a model whose answers follow a schema.

    from lm_eval import simple_evaluate
    from structgen.integrations.lm_eval import StructgenLM

    model = StructgenLM("Qwen/Qwen3-0.6B", schema=lambda doc: json.loads(doc["json_schema"]))
    simple_evaluate(model, tasks=["jsonschema_bench_easy"])

Importing the module registers the name "structgen" for models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM

from structgen.api import generate
from structgen.models.model import Model
from structgen.options import Limits, Sampling


@register_model("structgen")
class StructgenLM(HFLM):  # type: ignore[misc]
    """The harness's `HFLM`, except that `generate_until` runs structgen's loop for requests with a schema.

    Log-likelihoods, and requests without a schema, are left to `HFLM`. Stop strings of a task do not cut an answer with
    a schema: the schema says where it ends. An answer that fails is the text up to there.

    Args:
        pretrained: a name or a transformers model, as for `HFLM`.
        schema: what `structgen.generate` takes as `schema=`, or a function that gives it for a document of the task;
            None for no constraint.
        options: further options of `structgen.generate` (`canonical`, `whitespace`, `banned`, ...).
        arguments: of `HFLM`.
    """

    def __init__(
        self, pretrained: Any, *, schema: Any = None, options: dict[str, Any] | None = None, **arguments: Any
    ) -> None:
        super().__init__(pretrained, **arguments)
        self._schema, self._options = schema, options or {}

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Returns the answers to requests of the harness."""
        by_function = callable(self._schema) and not isinstance(self._schema, type)
        schemas = [self._schema(request.doc) if by_function else self._schema for request in requests]
        answers: dict[int, str] = {}
        free = [index for index, schema in enumerate(schemas) if schema is None]
        if free:
            texts = super().generate_until([requests[index] for index in free], disable_tqdm=disable_tqdm)
            answers |= dict(zip(free, texts, strict=True))
        groups: dict[tuple[int, float], list[int]] = {}
        for index, request in enumerate(requests):
            if index not in answers:
                asked = request.args[1]
                temperature = float(asked.get("temperature") or 0.0) if asked.get("do_sample") else 0.0
                groups.setdefault((int(asked.get("max_gen_toks", self.max_gen_toks)), temperature), []).append(index)
        for (budget, temperature), indexes in groups.items():
            runs = generate(
                Model.of(self.model, self.tokenizer),
                [self.tok_encode(requests[index].args[0]) for index in indexes],
                schema=[schemas[index] for index in indexes],
                limits=Limits(max_new_tokens=budget),
                sampling=Sampling(temperature=temperature),
                details=True,
                **self._options,
            )
            answers |= {index: run.text for index, run in zip(indexes, runs, strict=True)}
        return [answers[index] for index in range(len(requests))]
