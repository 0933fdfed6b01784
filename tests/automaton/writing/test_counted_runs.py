"""A run of states that count characters is one state with a counter, and takes what the run takes: same texts, same
masks, wherever its end is near or far."""

from __future__ import annotations

import json
import random
from fractions import Fraction

import numpy as np
import pytest

from structgen.automaton.bytewise import Bytewise
from structgen.automaton.machine import Automaton
from structgen.automaton.table_format import UNBOUNDED
from structgen.automaton.writing import chars
from structgen.automaton.writing.counted_runs import LEAST, counted_runs
from structgen.automaton.writing.outline import outline_of
from structgen.masks.grammar import Grammar
from structgen.regular.chardfa import CharDfa, from_pattern, intersect
from structgen.regular.number_sets import number_language
from structgen.regular.numbers import any_finite_dfa
from structgen.schema.normal import Numbers
from structgen.vocabulary import Vocabulary
from tests.automaton.test_step import takes
from tests.support.thinning import diagonal, thinned

LANGUAGES = {
    "finite numbers": any_finite_dfa(),
    "from 0 on": number_language(Numbers(minimum=Fraction(0))),
    "above 3.7": number_language(Numbers(minimum=Fraction(37, 10), exclusive_minimum=True)),
    "below -1": number_language(Numbers(maximum=Fraction(-1))),
    "a bounded word": from_pattern("^x[a-f]{0,80}$"),
    "again and again": from_pattern("^(x[a-f]{0,80}-)*$"),
    "short": from_pattern("^x[a-f]{0,9}$"),
    "short before long": from_pattern("^x[a-f]{0,9}(x[a-c]{0,70})?$"),
    "escapes": from_pattern('^x["\\\\\\x00-\\x1f]{0,20}(/|$)'),
    "beyond ASCII behind it": from_pattern("^x[a-f]{0,80}é$"),
    "beyond ASCII": from_pattern("^x[à-ÿ]{0,80}a$"),
    "all but a few": from_pattern("^x?[^<\\n]{1,80}(<b)?$"),
    "all but a few beyond ASCII": from_pattern("^x[^é€😀]{0,80}(é(-€)?)?$"),
    "a script": from_pattern("^x[a一-龥😀-🙏]{0,80}(-|é|$)"),
    "letters": from_pattern(r"^(\w{0,40}[-–])*$"),
    "two of them": from_pattern("^x[a-f]{1,80}(-[a-c]{1,90}|-é)?$"),
}
UNCOUNTED = {
    "back to its first state": from_pattern("^(x[a-f]{0,80})+-$"),
    "too short": from_pattern(f"^x[a-f]{{0,{LEAST - 1}}}$"),
    "at least": from_pattern("^x[a-f]{80,}$"),
    "two ways in": from_pattern("^x([a-f]{0,10}|-[a-f]{0,5})$"),
    "a multiple": number_language(Numbers(integer=True, multiples=(Fraction(97),))),
}


class Lifted(Automaton):
    """One language, its runs counted or not, as text or behind an opening quote."""

    def __init__(self, dfa: CharDfa, *, quoted: bool, runs: bool) -> None:
        super().__init__()
        close = self.pop()
        self.start = chars.Lifted(self, dfa, lambda final: close if quoted else 0, quoted=quoted, runs=runs).start


def spellings(text: str, draw: random.Random) -> list[str]:
    """A text as JSON may spell it, behind its opening quote."""
    escaped = "".join(
        f"\\u{ord(char):04x}" if char < "\uffff" and draw.random() < 0.4 else json.dumps(char)[1:-1] for char in text
    )
    return [json.dumps(text, ensure_ascii=False)[1:], escaped + '"']


def texts(dfa: CharDfa, draw: random.Random) -> list[str]:
    """Members and near misses: random walks, many of which stay in a run for long."""
    characters = [chr(start) for start, kind in zip(dfa.bounds.tolist(), dfa.classes.tolist(), strict=True) if kind]
    found = []
    for _ in range(60):
        text, state, longest = "", 1, draw.choice([3, 20, 78, 79, 80, 81, 82, 83, 305, 306, 307, 308, 309, 310])
        while state and len(text) < longest:
            alive = [
                char for char in characters if dfa.next[state, dfa.classes[np.searchsorted(dfa.bounds, ord(char))]]
            ]
            if not alive:
                break
            same = [char for char in alive if text.endswith(char)]
            text += draw.choice(same if same and draw.random() < 0.97 else alive)
            state = dfa.state_after(text)
        found += [text, text + draw.choice(characters)]
    return found


@pytest.mark.parametrize("name", thinned([*LANGUAGES, *UNCOUNTED], 3))
def test_the_same_texts_are_taken(name: str) -> None:
    dfa = (LANGUAGES | UNCOUNTED)[name]
    draw, plain, quoted = random.Random(name), *(Lifted(dfa, quoted=each, runs=True) for each in (False, True))
    walks, verdicts = (Bytewise(plain), Bytewise(quoted)), set[bool]()
    for text in texts(dfa, draw):
        verdicts.add(dfa.matches(text))
        assert takes(walks[0], plain.start, text.encode()) == dfa.matches(text), text
        for spelled in spellings(text, draw):
            assert takes(walks[1], quoted.start, spelled.encode()) == dfa.matches(text), spelled
    assert verdicts == {False, True}


@pytest.mark.parametrize(("quoted", "name"), diagonal([False, True], LANGUAGES))
def test_the_same_masks_are_made(name: str, quoted: bool) -> None:
    """Tokens of one and of many characters that count, alone and before others; at each place of the texts."""
    dfa, draw = LANGUAGES[name], random.Random(name)
    words = [*"0123456789abcdefxu.-/", "12", "345", "6" * 20, "9" * 70, ".5", "e5", "E-3", "abc", "f" * 30, "-a"]
    words += ["\\", "u00", "\\u0061", "\\u0", "61", '"', 'a"', "1\\u002e", "b\\u00", "\\t", 'x\\n\\"', "00"]
    words += ["a" * 79 + "-b", "1" * 290 + ".0", "0" * 9 + "e2"]
    words += ["é", "-é", "éé", "é" * 40, "a中", "中文", "中", "–", "€", "😀", "😀é", "à" * 9 + "a", "\\ud83d", "\\u4e"]
    tokens = [word.encode() for word in words]
    tokens += [b"\xc3", b"\xa9", b"\xe4", b"\xb8\xad", b"\xb8", b"\xf0\x9f", b"\x98\x80", b"a\xc3", b"\xa9a"]
    tokens += [bytes([byte]) for byte in range(0x80, 0xC0)]
    tokens = list(dict.fromkeys(tokens))
    vocabulary = Vocabulary.from_tokens(tokens, end_ids=[len(tokens)], width=len(tokens) + 1)
    grammars = [Grammar(Lifted(dfa, quoted=quoted, runs=runs), vocabulary) for runs in (True, False)]
    masks = 0
    for text in texts(dfa, draw)[:8]:
        left = (draw.choice(spellings(text, draw)) if quoted else text).encode()
        matchers = [grammar.matcher() for grammar in grammars]
        while left:
            rows = [matcher.mask() if not matcher.finished else None for matcher in matchers]
            assert np.array_equal(*rows), matchers[0].text
            masks += 1
            fitting = [i for i, token in enumerate(tokens) if left.startswith(token) and rows[0][0] >> i & 1]
            if not fitting:
                break
            chosen = draw.choice(fitting)
            left = left[len(tokens[chosen]) :]
            for matcher in matchers:
                matcher.advance(chosen)
    assert masks > 8


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("name", LANGUAGES)
def test_as_many_characters_may_follow(name: str, quoted: bool) -> None:
    """The outline of the runs is that of the states that are left, made from fewer."""
    dfa = LANGUAGES[name]
    runs = counted_runs(dfa)
    assert runs is not None
    assert len(runs.dfa.next) + LEAST / 2 < len(dfa.next)
    assert (runs.limits[runs.limits != UNBOUNDED] >= LEAST).all()
    states, todo = {1: 1}, [1]
    while todo:  # states of the runs, and those of the original that are reached by the same characters
        q = todo.pop()
        for target, own in zip(runs.dfa.next[q].tolist(), dfa.next[states[q]].tolist(), strict=True):
            if target and target not in states:
                states[target] = own
                todo.append(target)
    kept = [states[q] - 1 for q in range(1, len(runs.dfa.next))]
    whole = outline_of(dfa, quoted=quoted, name=False)
    assert np.array_equal(runs.outline(quoted).depths, whole.depths[:, kept])


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_is_no_run_is_left_alone(name: str) -> None:
    runs = counted_runs(UNCOUNTED[name])
    assert runs is None


def test_an_intersection_keeps_its_runs() -> None:
    dfa = intersect(any_finite_dfa(), from_pattern("^[1-9][0-9]*$"))
    runs = counted_runs(dfa)
    assert runs is not None
    assert max(limit for limit in runs.limits.tolist() if limit != UNBOUNDED) == 307
