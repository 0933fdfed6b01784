"""lm-evaluation-harness, the real package: a task whose documents bring their schemas, and one without."""

from __future__ import annotations

import json

import pytest

import structgen as sg
from structgen.demo import load_demo

pytest.importorskip("lm_eval.models.huggingface", reason="needs lm_eval")

from datasets import Dataset
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from structgen.integrations.lm_eval import StructgenLM

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
    {"enum": ["Lyon", "Oslo"]},
]
DOCS = [
    {"text": f"Extract the person: name, age, city.\nText: Ada, 36, lives in Lyon.\nJSON: {n}", "schema": json.dumps(s)}
    for n, s in enumerate(SCHEMAS)
]


@pytest.fixture(scope="module")
def model() -> StructgenLM:
    bare, tokenizer = load_demo()
    return StructgenLM(bare, tokenizer=tokenizer, device="cpu", schema=lambda doc: json.loads(doc["schema"]))


def asked(kind: str, *arguments: object, doc: dict[str, str]) -> Instance:
    return Instance(kind, doc, arguments, 0, metadata=("task", 0, 1))


def test_answers_are_those_of_generate(model):
    options = {"until": ["\n", ","], "max_gen_toks": 80}
    requests = [asked("generate_until", doc["text"], options, doc=doc) for doc in DOCS]
    answers = model.generate_until(requests, disable_tqdm=True)
    bare, tokenizer = load_demo()
    limits = sg.Limits(max_new_tokens=80)
    prompts = [doc["text"] for doc in DOCS]
    runs = sg.generate(bare, prompts, SCHEMAS, tokenizer=tokenizer, limits=limits, details=True)
    assert answers == [run.text for run in runs]
    assert json.loads(answers[1]) in ("Lyon", "Oslo")


def test_what_has_no_schema_is_left_to_the_harness(model):
    bare, tokenizer = load_demo()
    plain = StructgenLM(bare, tokenizer=tokenizer, device="cpu")
    requests = [asked("generate_until", DOCS[0]["text"], {"until": ["}"], "max_gen_toks": 30}, doc=DOCS[0])]
    assert "}" not in plain.generate_until(requests, disable_tqdm=True)[0]
    scored = [asked("loglikelihood", "The city is", " Lyon", doc=DOCS[0])]
    assert model.loglikelihood(scored, disable_tqdm=True) == plain.loglikelihood(scored, disable_tqdm=True)


def test_a_task_of_the_harness(model):
    data = Dataset.from_list([{**doc, "answer": '"Lyon"'} for doc in DOCS[1:]])

    class Cities(ConfigurableTask):
        def download(self, *_: object, **__: object) -> None:
            self.dataset = {"test": data}

    config = {
        "task": "cities", "test_split": "test", "doc_to_text": "{{text}}", "doc_to_target": "{{answer}}",
        "output_type": "generate_until", "metric_list": [{"metric": "exact_match"}],
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 20},
    }  # fmt: skip
    result = simple_evaluate(model, tasks=[Cities(config=config)], bootstrap_iters=0, log_samples=True)
    [sample] = result["samples"]["cities"]
    assert json.loads(sample["resps"][0][0]) in ("Lyon", "Oslo")
    assert result["results"]["cities"]["exact_match,none"] in (0.0, 1.0)
