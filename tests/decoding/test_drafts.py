"""Drafts change how much is read at once, and no choice: with them a batch says what it says without."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MambaConfig, MambaForCausalLM

import structgen as sg
from structgen.constraints.basic import Regex
from structgen.decoding.ahead.lookup import Lookup
from structgen.decoding.drafts import LONGEST, Draft, DraftReader, worthwhile
from structgen.decoding.engine import decode
from structgen.decoding.loop import Execution
from structgen.decoding.prompts.prompt import Prompt
from structgen.decoding.request import CallOptions, prepare
from structgen.decoding.session import Session
from structgen.decoding.stream import events
from structgen.demo import load_demo
from structgen.demo.show import SENTENCES
from structgen.demo.tasks import TASKS
from structgen.given_prompts import GivenPrompts
from structgen.models.grouping import SHORT
from structgen.models.row import Forward, Row
from structgen.models.slots import DRAFTED, SlotForward
from structgen.models.uncached import at_once
from structgen.testing import ByteTokenizer, byte_vocabulary
from tests.support.architectures import MORE_SLOTTED, SLOTTED, make
from tests.support.mixed_rows import WITHOUT_Z, everything, llama, outcome, sessions
from tests.support.releases import require_release
from tests.support.thinning import diagonal
from tests.support.tiny_configurations import make as tiny


def told(module, rows, *, drafts, places=5):
    batch = decode(module, WITHOUT_Z, rows, rows=places, record=True, execution=Execution(drafts=drafts))
    return [outcome(session, batch) for session in rows], batch


def rows_of_all_kinds(seed: int) -> list[Session]:
    """Also one that can say nothing but what its prompt says."""
    matcher = Regex("(abc){9}").compile(WITHOUT_Z).matcher()
    copying = Session(Prompt(list(b"abcabcabc")), WITHOUT_Z, matcher=matcher, sampling=sg.Sampling())
    return [copying, *sessions(seed)]


@pytest.mark.parametrize("places", [1, 4])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_a_batch_says_the_same_with_drafts_and_without(seed, places):
    """Rows of all kinds: tokens, ends, errors, rollbacks, forced text and measures."""
    module, rows = llama(), rows_of_all_kinds(seed)
    with_drafts, batch = told(module, rows, drafts=True, places=places)
    assert with_drafts == told(module, rows_of_all_kinds(seed), drafts=False, places=places)[0]
    assert sum(row[4] for row in with_drafts) > 0
    assert places > 1 or batch.stats(0).drafted > 9


@pytest.mark.parametrize("name", [*SLOTTED, *MORE_SLOTTED])
def test_logits_behind_a_draft_are_those_of_the_text_read_at_once(name):
    """Three rows that stand at different places, one without a draft; then each goes on as far as it agrees."""
    if name in ("deepseek-v3", "gemma3n"):  # older releases of them differ with a cache, and are read without one
        require_release("transformers", "5.14")
    module = make(name)
    forward = SlotForward(module)
    rows = [Row(list(range(3, 3 + n))) for n in (9, 4, 14)]
    assert forward.columns_for(rows) > 0
    with torch.inference_mode():
        forward.read(rows)
        for row, new in zip(rows, ([5], [6, 7, 8], [9, 1]), strict=True):
            row.ids += new
        drafts = [[40, 41, 42, 43], [], [50, 51]]
        logits = forward.read_drafted(rows, drafts)
        assert logits.shape[:2] == (3, 5)
        for i, (row, draft) in enumerate(zip(rows, drafts, strict=True)):
            assert row.valid == len(row.ids)
            for count in range(len(draft) + 1):
                expected = at_once(module, Row([*row.ids, *draft[:count]]))
                assert (logits[i, 4 - len(draft) + count] - expected).abs().max() < 1e-3
        for row, said, right in zip(rows, ([40, 41, 60], [61], [50, 51, 62]), (2, 0, 2), strict=True):
            row.ids += said
            row.valid += right
        found = forward.read(rows)
        for i, row in enumerate(rows):
            assert (found[i] - at_once(module, row)).abs().max() < 1e-3


def test_prompts_are_read_with_their_drafts():
    """Two prompts that begin alike, one that does not: the logits behind each draft are those of the text at once."""
    module = make("llama")
    forward = SlotForward(module)
    rows = [Row([*range(3, 80), last]) for last in (5, 6)] + [Row(list(range(9, 50)))]
    drafts = [[40, 41], [], [50]]
    with torch.inference_mode():
        assert forward.columns_for(rows) > 78
        logits = forward.read_drafted(rows, drafts)
        assert forward.count == 2  # the common beginning is read once
        for i, (row, draft) in enumerate(zip(rows, drafts, strict=True)):
            for count in range(len(draft) + 1):
                expected = at_once(module, Row([*row.ids, *draft[:count]]))
                assert (logits[i, 2 - len(draft) + count] - expected).abs().max() < 1e-3


def test_a_model_with_recurrent_states_gets_no_drafts():
    torch.manual_seed(1)
    config = MambaConfig(vocab_size=257, hidden_size=32, num_hidden_layers=2, state_size=8)
    module = MambaForCausalLM(config).eval()
    session = Session(Prompt([1, 2]), byte_vocabulary(), matcher=None, sampling=sg.Sampling(), limits=sg.Limits(5))
    batch = decode(module, byte_vocabulary(), [session], execution=Execution(drafts=True))
    assert batch.stats(0).drafted == 0


@pytest.mark.parametrize(("places", "name"), diagonal([1, 3], ["t5", "bart", "mpt", "bloom"]))
def test_rows_with_a_cache_each_say_the_same_with_drafts_in_fewer_forwards(name, places):
    """Encoder-decoders, and models that count positions by the cache; one row is sent back, another is drawn."""
    module = tiny(name, encoder_decoder=name in ("t5", "bart"))
    module.config.decoder_start_token_id, module.config.forced_bos_token_id = 1, None
    model = sg.Model(module, ByteTokenizer(), byte_vocabulary(width=260))
    options = CallOptions(
        limits=[sg.Limits(max_new_tokens=60)] * 3,
        sampling=[sg.Sampling(), sg.Sampling(temperature=1.0, seed=4), sg.Sampling()],
        banned=[[], [], ["cabca"]],
        fast_forward=False,
    )
    said, forwards = [], []
    for drafts in (True, False):
        execution, schema = (
            Execution(drafts=drafts),
            [Regex("[ab]{3}(abc){9}"), Regex("(ab|abc){12}"), Regex("[abc]{20}")],
        )
        request = replace(
            prepare(model, GivenPrompts.of(["abcabcabc", "ab abc", "x"]), schema, options), execution=execution
        )
        batch = decode(module, model.vocabulary, request.sessions, rows=places, execution=execution)
        said.append([session.tokens for session in request.sessions])
        forwards.append(batch.stats(0).forwards)
    assert said[0] == said[1]
    assert forwards[0] < 0.8 * forwards[1]


@pytest.fixture(scope="module")
def demo():
    module, tokenizer = load_demo()
    return sg.Model.of(module, tokenizer)


def invoices(model, drafts, count=8, **options):
    sentence = dict(SENTENCES)["invoice"]
    prompts = [TASKS["invoice"].prompt(sentence.replace("7730", f"773{n}")) for n in range(count)]
    execution = Execution(drafts=drafts)
    request = replace(
        prepare(model, GivenPrompts.of(prompts), TASKS["invoice"].model, CallOptions(**options)), execution=execution
    )
    batch = decode(model.module, model.vocabulary, request.sessions, record=True, execution=execution)
    return [request.result(row, batch) for row in range(count)]


@pytest.mark.parametrize("count", [1, 8])
def test_copied_values_and_held_back_tokens_cost_few_forwards(demo, count):
    """The demo model's invoices: at most half of the forward passes, the same values, tokens and probabilities."""
    fast, slow = (invoices(demo, drafts, count) for drafts in (True, False))
    for one, other in zip(fast, slow, strict=True):
        assert (one.value, one.token_ids, one.finish) == (other.value, other.token_ids, other.finish)
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4, nan_ok=True)
        assert one.removed == pytest.approx(other.removed, abs=1e-4, nan_ok=True)
        assert one.stats.fast_forwarded == other.stats.fast_forwarded
        assert one.stats.drafted >= 12
        assert other.stats.drafted == 0
    assert fast[0].stats.forwards <= 0.55 * slow[0].stats.forwards


def test_where_tokens_have_a_price_fewer_are_guessed_and_the_text_is_the_same(demo, monkeypatch):
    """A guess goes on as long as its tokens are right more often than they cost."""
    free = invoices(demo, True, 1)[0]
    lengths = []
    follow = Lookup.after
    monkeypatch.setattr(Lookup, "after", lambda self, ids, most: lengths.append(most) or follow(self, ids, most))
    monkeypatch.setattr(Forward, "price", 0.6)
    dear = invoices(demo, True, 1)[0]
    assert (dear.token_ids, max(lengths)) == (free.token_ids, 2)
    assert dear.stats.forwards > free.stats.forwards


def test_a_seed_draws_the_same_with_drafts_and_without(demo):
    sampling = [sg.Sampling(temperature=0.9, top_p=0.95, seed=seed) for seed in range(6)]
    fast, slow = (invoices(demo, drafts, 6, sampling=sampling) for drafts in (True, False))
    assert [one.token_ids for one in fast] == [other.token_ids for other in slow]
    assert sum(one.stats.drafted for one in fast) > 0


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_whatever_a_request_asks_for_it_gets_with_drafts(seed, fast_forward):
    found = [everything(seed, Execution(drafts=drafts), fast_forward=fast_forward) for drafts in (True, False)]
    assert found[0] == found[1]
    assert sum(row[5] for row in found[0]) > 0


def test_nothing_is_read_beyond_the_context():
    """Positions that are learned end where the context does: a draft must not reach behind it."""
    torch.manual_seed(3)
    module = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=257)).eval()
    prompt = list(b"abcabcabcabcabcabcabcabc")
    limits = sg.Limits(max_new_tokens=64 - len(prompt) + 1)
    for drafts in (True, False):
        matcher = Regex("(abc){40}").compile(byte_vocabulary()).matcher()
        session = Session(Prompt(prompt), byte_vocabulary(), matcher=matcher, sampling=sg.Sampling(), limits=limits)
        batch = decode(module, byte_vocabulary(), [session], execution=Execution(drafts=drafts))
        assert len(session.tokens) == limits.max_new_tokens
        assert (batch.stats(0).drafted > 0) == drafts


def draft_of(pending, length):
    session = Session(Prompt([1] * 9), byte_vocabulary(), matcher=None, sampling=sg.Sampling())
    session.row.valid = 9 - pending
    return Draft(session, 9, list(range(length)), 0)


def test_a_column_is_worth_it_where_half_of_the_rows_fill_it():
    def kept(*rows):
        return [len(draft.tokens) for draft in worthwhile([draft_of(*row) for row in rows])]

    assert kept((1, 5)) == [5]
    assert kept((1, 5), (1, 0)) == [5, 0]
    assert kept((1, 5), (1, 2), (1, 0), (1, 0)) == [2, 2, 0, 0]
    assert kept((1, 5), (1, 0), (1, 0)) == [0, 0, 0]
    assert kept((1, 5), (4, 0), (1, 0)) == [3, 0, 0]


def test_the_columns_of_a_read_are_what_padding_leaves():
    forward = SlotForward(llama())
    rows = [Row([row, *range(SHORT + row)]) for row in range(8)]
    assert forward.columns_for(rows) == SHORT + 8 + 4  # 32 tokens more than the prompts, by rows
    assert forward.columns_for([*rows, Row(rows[0].ids)]) == 0  # twins are read once
    for row in rows:
        row.valid = len(row.ids) - 1
    assert forward.columns_for(rows) == 5
    assert forward.columns_for(rows[:1]) == SHORT > LONGEST
    rows[0].ids += [4] * SHORT
    assert forward.columns_for(rows) == 0  # it is read by itself
    long = [Row([row] * (DRAFTED + 1)) for row in range(2)]
    assert forward.columns_for(long) == 0  # without a mask
    assert forward.columns_for(long[:1]) > DRAFTED


def test_streams_tell_the_same_with_drafts(demo):
    prompt = TASKS["invoice"].prompt(dict(SENTENCES)["invoice"])
    texts = []
    for drafts in (True, False):
        request = prepare(demo, GivenPrompts.of(prompt), TASKS["invoice"].model)
        found = [
            (e.text, e.start, e.path, e.value) for e in events(replace(request, execution=Execution(drafts=drafts)))
        ]
        texts.append(found)
    assert texts[0] == texts[1]
    assert len(texts[0]) > 5


def test_a_row_that_is_read_without_a_draft_forgets_its_last_draft():
    """Otherwise tokens that were read since would count as not read."""
    reader, row = DraftReader(), Row([1, 2])
    reader.keep([row], [[3]], torch.zeros(1, 2, 8))
    row.ids, row.valid = [1, 2, 3], 2
    assert reader.confirm([row]).keys() == {row}
    row.ids, row.valid = [1, 2, 3, 4], 4
    reader.keep([row], [[]], torch.zeros(1, 1, 8))
    row.ids.append(5)
    assert not reader.confirm([row])
    assert row.valid == 4
