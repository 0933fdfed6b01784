"""Scripted models: which prompt has which script."""

from __future__ import annotations

import pytest

import structgen as sg
from structgen.testing import scripted, scripted_chat


@pytest.mark.parametrize("length", [1, 17, 300])
def test_each_prompt_has_a_script_of_its_own_also_where_they_begin_alike(length):
    model = scripted(["one", "two", "three"])
    assert sg.generate(model, ["x" * length + end for end in "abc"]) == ["one", "two", "three"]
    assert sg.generate(scripted_chat("one", "two"), "x" * length + "a") == "one"
