"""Custom tools, whose argument is a text of a grammar, are written in that grammar by every style of calls."""

from __future__ import annotations

import json
import re

import lark
import pytest

import structgen as sg
from structgen.errors import OptionError, SchemaError
from structgen.testing import scripted_chat
from tests.support.patches import PATCH_GRAMMAR
from tests.support.tables import cases

PATCH = (
    "*** Begin Patch\n*** Update File: a b.py\n@@ def f():\n-\treturn \"\\n\"\n+    return 'é' / 2\n+\n*** End Patch"
)
TOOL = cases("calling/text_tools", "TOOL", globals())
WRITTEN = cases("calling/text_tools", "WRITTEN")
JUDGE = lark.Lark(PATCH_GRAMMAR.replace("/(.*)/", "/.+/?"))


@pytest.mark.parametrize(("style", "choice"), [*((style, "auto") for style in WRITTEN), ("hermes", "required")])
def test_a_text_of_the_grammar_is_written_as_the_model_means_it(style, choice):
    spelled = {"hermes": json.dumps(PATCH, ensure_ascii=False), "pythonic": repr(PATCH)}.get(style, PATCH)
    model = scripted_chat(WRITTEN[style] % spelled)
    (call,) = sg.call(model, "Edit it.", [TOOL], choice=choice, call_format=style)
    assert (call.name, call.arguments) == ("apply_patch", {"input": PATCH})


@pytest.mark.filterwarnings("ignore::structgen.errors.BudgetWarning")
@pytest.mark.parametrize(
    ("style", "wanted"),
    zip(WRITTEN, ["x = 1\n", PATCH.replace("-\t", "?"), PATCH.replace("@@ ", "@@@"), '"""\n\\'], strict=True),
)
def test_any_other_text_becomes_one(style, wanted):
    spelled = {"hermes": json.dumps(wanted), "pythonic": repr(wanted)}.get(style, wanted)
    model, limits = scripted_chat(WRITTEN[style] % spelled), sg.Limits(160)
    call = sg.call(model, "Edit it.", [TOOL], choice="required", call_format=style, limits=limits)[0]
    if not call.cut:
        JUDGE.parse(call.arguments["input"])
    assert call.arguments["input"].startswith("*** Begin Patch\n*** ")


def test_regexes_and_free_texts():
    regex = {"type": "grammar", "grammar": {"syntax": "regex", "definition": r"[a-z]+\n\d"}}
    model = scripted_chat(WRITTEN["hermes"].replace("apply_patch", "t") % '"Ab\\n7!"')
    call = sg.call(model, "?", [{"type": "custom", "custom": {"name": "t", "format": regex}}], choice="required")[0]
    assert re.fullmatch(r"[a-z]+\n\d", call.arguments["input"])
    (free,) = sg.call(model, "?", [{"type": "custom", "name": "t"}], choice="required")
    assert free.arguments == {"input": "Ab\n7!"}


def test_the_model_reads_the_grammar_and_faults_are_told():
    assert PATCH_GRAMMAR in sg.Tool.of(TOOL).description
    with pytest.raises(SchemaError, match="the format of the tool 't'"):
        sg.Tool.of({"type": "custom", "name": "t", "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}})
    broken = {"type": "custom", "name": "t", "format": {**TOOL["format"], "definition": "start: ("}}
    with pytest.raises(OptionError):
        sg.call(scripted_chat("x"), "?", [broken])
