"""langextract, the real package, with a provider in this process."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("langextract", reason="needs langextract")

import langextract as lx

from structgen.integrations.langextract import StructgenLanguageModel

EXAMPLE = lx.data.ExampleData(
    text="Patient has asthma.",
    extractions=[lx.data.Extraction("condition", "asthma", attributes={"status": "present"})],
)


@pytest.mark.parametrize("own", [False, True], ids=["a schema of the examples", "an own schema"])
def test_each_answer_follows_the_schema(own: bool) -> None:
    """Each class that is found is one of the examples', each status one of the schema's."""
    item = {"status": {"type": "string", "enum": ["present", "absent"]}}
    schema = lx.schema.extractions_schema(lx.schema.extraction_item_schema("condition", attributes=item))
    found = lx.extract(
        "Patient has a fever. Patient denies pain.",
        prompt_description="Extract conditions.",
        examples=[EXAMPLE],
        model_id="structgen:demo",
        output_schema=schema if own else None,
        resolver_params={"suppress_parse_errors": False},
        show_progress=False,
    )
    assert {each.extraction_class for each in found.extractions} <= {"condition"}
    if own:
        assert {each.attributes["status"] for each in found.extractions} <= {"present", "absent"}


def test_the_provider_is_an_entry_point() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML reader")
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    module, _, name = project["entry-points"]["langextract.providers"]["structgen"].partition(":")
    assert getattr(import_module(module), name) is StructgenLanguageModel
