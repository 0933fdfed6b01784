"""The policy of beam search, over scores alone: a table of chances stands for the model."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest

import structgen as sg
from structgen.decoding.beams.policy import BeamStep, BestTexts, Candidate, FinishingCosts, Taken, select
from tests.support.tables import cases

END = "."


@dataclass(frozen=True)
class Word:
    said: str
    longest: int
    finish: str | None = None  # none is cut off

    @property
    def done(self) -> bool:
        return self.said.endswith(END) or len(self.said) == self.longest


def table(seed: int, letters: str, longest: int) -> dict[str, dict[str, float]]:
    """Log-probabilities of the next letter behind every text."""
    random, chances = np.random.default_rng(seed), {}
    for length in range(longest):
        for said in map("".join, itertools.product(letters, repeat=length)):
            shares = random.dirichlet(np.ones(len(letters) + 1) * 0.7)
            chances[said] = dict(zip(letters + END, map(math.log, shares), strict=True))
    return chances


def by_score(offered):
    return iter([Candidate(token, score, score) for token, score in offered])


def searched(chances, longest, options, refused=frozenset(), limit=None):
    """The whole search: what is kept, best first."""
    beams, best = [Taken(0, 0.0, Word("", longest))], BestTexts(options, longest)
    while True:
        tried = [set() for _ in beams]

        def offers(at, beams=beams, tried=tried):
            known = sorted(chances[beams[at].text.said].items(), key=lambda pair: -pair[1])
            left = [(ord(c), beams[at].score + log) for c, log in known if ord(c) not in tried[at]]
            return {0: iter([Candidate(token, score, score) for token, score in left])}

        def judge(at, token, beams=beams, tried=tried):
            tried[at].add(token)
            said = beams[at].text.said + chr(token)
            return None if any(word in said for word in refused) else Word(said, longest)

        step = select(offers, judge, parents=len(beams), count=options.count, limit=limit or 2 * options.count)
        length = len(beams[0].text.said) + 1
        for taken in step.done:
            best.add(taken, len(taken.text.said))
        beams = step.beams
        if not beams or best.is_over(beams[0].score, length):
            return best.kept


def every_text(chances, longest, options, refused=frozenset()):
    """All complete texts with their scores, best first."""
    found = []

    def walk(said, score):
        for letter, log in chances[said].items():
            text = said + letter
            if any(word in text for word in refused):
                continue
            if Word(text, longest).done:
                found.append(((score + log) / len(text) ** options.length_penalty, text))
            else:
                walk(text, score + log)

    walk("", 0.0)
    return sorted(found, reverse=True)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("refused", [(), ("ab", "c.")])
@pytest.mark.parametrize("seed", range(8))
def test_wide_beams_find_what_looking_at_every_text_finds(seed, refused, length_penalty):
    chances = table(seed, "abc", 5)
    options = sg.Beams(256, length_penalty=length_penalty, early_stopping="never")
    kept = searched(chances, 5, options, refused)
    expected = every_text(chances, 5, options, refused)
    assert [text.said for text, _ in kept] == [text for _, text in expected[:256]]
    assert [score for _, score in kept] == pytest.approx([score for score, _ in expected[:256]])


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_what_is_kept_is_never_refused_and_comes_best_first(early_stopping):
    for seed in range(20):
        chances = table(seed, "abcd", 6)
        kept = searched(chances, 6, sg.Beams(3, early_stopping=early_stopping), ("a", "db"))
        assert kept
        assert not any("a" in text.said or "db" in text.said for text, _ in kept)
        assert [score for _, score in kept] == sorted((score for _, score in kept), reverse=True)


def test_a_refused_candidate_counts_as_if_it_had_not_been_there():
    chances = table(1, "abc", 5)
    without = {said: {c: log for c, log in letters.items() if c != "b"} for said, letters in chances.items()}
    for count in (1, 2, 3):
        refusing, never_offered = (searched(t, 5, sg.Beams(count), r) for t, r in ((chances, "b"), (without, "")))
        assert [(text.said, score) for text, score in refusing] == [(text.said, score) for text, score in never_offered]


def test_after_a_refusal_a_beam_is_asked_again():
    """What may come instead may be another than what was offered before."""
    asked = []

    def offers(at):
        asked.append(at)
        return {0: by_score([(1, -1.0), (2, -2.0)] if len(asked) == 1 else [(3, -3.0)])}

    step = select(offers, lambda at, token: None if token == 1 else Word("x", 9), parents=1, count=4, limit=8)
    assert [taken.score for taken in step.beams] == [-3.0]
    assert step.exhausted


def test_only_the_best_candidates_complete_a_text():
    """A complete text behind so many better candidates as there are beams is not kept: as in transformers."""
    offered = [(1, -1.0), (2, -2.0), (3, -3.0), (4, -4.0)]
    texts = {1: "a", 2: ".", 3: ".", 4: "b"}
    step: BeamStep[Word] = select(
        lambda at: {0: by_score(offered)}, lambda at, token: Word(texts[token], 9), parents=1, count=2, limit=4
    )
    assert [taken.score for taken in step.done] == [-2.0]
    assert [taken.score for taken in step.beams] == [-1.0, -4.0]


def banked(offered, count, refused=()):
    """The scores of the beams that are taken from banks; the bank of a candidate is the key of its list."""

    def offers(at):
        left = {bank: [each for each in tokens if each[0] not in tried] for bank, tokens in offered.items()}
        return {bank: by_score(tokens) for bank, tokens in left.items()}

    taken, tried = [], set()

    def judge(at, token):
        tried.add(token)
        if token in refused:
            return None
        taken.append(token)
        return Word("x", 9)

    return [beam.score for beam in select(offers, judge, parents=1, count=count, limit=2 * count).beams], taken


def test_banks_are_served_in_turn_and_beams_come_best_first():
    offered = {0: [(1, -9.0), (2, -10.0)], -3: [(3, -5.0)], -7: [(4, -1.0), (5, -2.0), (6, -3.0), (7, -4.0)]}
    scores, taken = banked(offered, 6)
    assert taken == [1, 3, 4, 2, 5, 6]
    assert scores == sorted(scores, reverse=True)


def test_the_highest_of_many_banks_are_served():
    offered = {-bank: [(bank, -float(bank)), (bank + 100, -50.0)] for bank in range(10)}
    assert banked(offered, 4)[1] == [0, 1, 2, 3]


def test_candidates_are_taken_by_rank_and_keep_their_scores():
    offered = [Candidate(1, -9.0, -1.0), Candidate(2, -1.0, -2.0)]
    step = select(lambda at: {0: iter(offered)}, lambda at, token: Word("x", 9), parents=1, count=1, limit=2)
    assert [taken.score for taken in step.beams] == [-9.0]


def test_what_a_phrase_costs_is_the_mean_of_what_its_ends_have_cost():
    costs = FinishingCosts()
    assert costs.of(2) == 0.0  # never seen
    costs.learn(1, [(-3.0, 0), (-5.0, 0)])
    costs.learn(2, [(-1.0, 1), (-9.0, 0)])
    assert (costs.of(1), costs.of(2)) == (-3.0, -4.0)
    costs.learn(2, [(-5.0, 1)])
    assert costs.of(2) == -6.0
    costs.learn(2, [])
    assert costs.of(2) == -6.0


def test_banks_whose_candidates_are_all_refused_are_left_alone():
    offered = {0: [(1, -9.0)], -3: [(2, -1.0), (3, -2.0)], -7: [(4, -1.0)]}
    assert banked(offered, 2, refused={1, 2, 4})[1] == [3]
    assert banked(offered, 2, refused={1, 2, 3, 4}) == ([], [])


def test_what_a_bank_has_no_beams_for_goes_to_the_others():
    offered = {0: [(1, -9.0)], -7: [(4, -1.0), (5, -2.0), (6, -3.0)]}
    assert banked(offered, 4)[1] == [1, 4, 5, 6]


@pytest.mark.parametrize(("options", "score", "over"), cases("decoding/beams/policy", "when_it_is_over", globals()))
def test_when_it_is_over(options, score, over):
    """A text of two tokens with -2 is kept; the best beam has four tokens, and twenty are allowed."""
    best = BestTexts(options, 20)
    best.add(Taken(0, -2.0, Word(".", 9)), 2)
    assert best.is_over(score, 4) is over


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"count": 1.5}, {"count": True}, {"count": 2, "length_penalty": math.inf},
              {"count": 2, "early_stopping": "always"}],
)  # fmt: skip
def test_options_are_checked(wrong):
    with pytest.raises(sg.OptionError, match="expected"):
        sg.Beams(**wrong)
