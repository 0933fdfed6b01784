"""The table of call formats: each reads back whatever its mask takes."""

from __future__ import annotations

import pytest

from structgen.chat import call_format
from structgen.chat.formats import NATIVE
from structgen.errors import OptionError
from tests.support.call_proofs import TEXTS, proof
from tests.support.chat_templates import format_of, templates
from tests.support.thinning import thinned

NAMES = [each.name for each in NATIVE]
LOSES = {"cohere-cofl": "<&"}
"""Characters that a format writes as entities of XML, which its mask does not write."""


@pytest.mark.parametrize("name", thinned(NAMES, 5))
def test_a_known_format_reads_back_whatever_its_mask_takes(name):
    """It writes every value of every type, but for strings with the text that ends a value."""
    found = proof(call_format(name))
    assert found.wrong == ""
    assert found.lost.keys() <= {"string"}
    assert not {text for text in found.lost.get("string", ()) if not set(text) & set(LOSES.get(name, ""))} & set(TEXTS)


@pytest.mark.slow
@pytest.mark.skipif(not templates(), reason="no chat templates")
@pytest.mark.parametrize("name", templates())
def test_so_do_the_formats_of_real_templates(name):
    try:
        format_ = format_of(name)
    except OptionError:
        pytest.skip("no call format")
    assert proof(format_).wrong == ""
