"""Look-around in tokens: read where only the token's own text decides, else refused."""

from __future__ import annotations

import re
from itertools import product

import pytest
from lark import Lark
from lark.exceptions import LarkError

import structgen as sg
from structgen.regular.regex.errors import PatternUnsupported
from structgen.regular.regex.python import parse_python
from structgen.regular.token_looks import token_language
from structgen.testing import byte_vocabulary
from tests.support.matching import plain_verdict
from tests.support.tables import cases


def texts(letters: str, longest: int) -> list[str]:
    return ["".join(each) for length in range(longest + 1) for each in product(letters, repeat=length)]


@pytest.mark.parametrize(("pattern", "letters"), cases("regular/token_looks", "a_token_is_what_python_matches_alone"))
def test_a_token_is_what_python_matches_alone(pattern: str, letters: str) -> None:
    language = token_language(pattern, parse_python(pattern))
    for text in texts(letters, 5):
        assert language.matches(text) == bool(re.fullmatch(pattern, text)), text


@pytest.mark.parametrize(
    "pattern",
    [r"a(?!b)", r"a(?=b)", r"(?<!x)a", r"(?!if\b)[a-z]+", r'"(?!"").*?(?<!\\)(\\\\)*?"', r"a(?!.*z)a*;", r"(?!if$)\w+",
     r"(?!\bif)\w+", r"(?!if\b)i\b"],
)  # fmt: skip
def test_what_depends_on_the_text_around_is_refused(pattern: str) -> None:
    with pytest.raises(PatternUnsupported, match=r"look-around"):
        token_language(pattern, parse_python(pattern))


GRAMMARS = [
    ('start: NAME ("," NAME)*\nNAME: /(?!if\\b)\\w+/\n', "if,x"),
    ('start: "if" NAME | NAME "=" TEXT\nNAME: /(?!if\\b)[a-z]\\w*/\nTEXT: /".*?(?<!\\\\)"/\n%ignore " "\n', 'if="\\ '),
]


@pytest.mark.parametrize(("grammar", "letters"), GRAMMARS)
def test_a_grammar_has_the_texts_of_larks_earley_parser(grammar: str, letters: str) -> None:
    parser, own = Lark(grammar, parser="earley"), sg.Lark("%llguidance {}\n" + grammar).compile(byte_vocabulary())
    for text in texts(letters, 5):
        try:
            wanted = bool(parser.parse(text))
        except LarkError:
            wanted = False
        assert plain_verdict(own, text.encode()) == wanted, text
