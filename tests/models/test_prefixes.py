"""What is remembered of prompts: the same logits and texts as without, over every way of reading; and the bound."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest
import torch

import structgen as sg
from structgen.decoding.request import prepare
from structgen.demo import load_demo
from structgen.demo.tasks import Person
from structgen.given_prompts import GivenPrompts
from structgen.models.forward import forward_for
from structgen.models.hosts.forward import HostForward
from structgen.models.layers import KNOWS_STATES
from structgen.models.prefixes import ID_BYTES, LEAST, PrefixTree, Remembered, common, prefixes_of
from structgen.models.recurrent import ONE_BY_ONE
from structgen.models.row import Row
from structgen.models.uncached import at_once
from tests.models.hosts.test_forward import Uncached
from tests.support.architectures import WIDTH, make
from tests.support.stepping import Stepping
from tests.support.thinning import diagonal

TEXTS = ["Ada Moreau, 36, lives in Lyon", "Tom Berg is 51 years old and lives in Oslo", "Mia Ray, 8, of Rome"]
HEAD = "Extract the person: name, age, city. " * 6
PROMPTS = [f"{HEAD}\nText: {text}.\nJSON: " for text in TEXTS]
TOKEN = 4 * 4 + ID_BYTES


def pieces_of(ids):
    """Two layers' keys and values, which tell a prefix from any other."""
    sums = torch.tensor([hash(tuple(ids[: i + 1])) % 99_991 for i in range(len(ids))], dtype=torch.float32)
    return lambda slots: [(sums[slots] + number).view(1, -1, 1) for number in range(4)]


@pytest.mark.parametrize("bound", [1 << 20, 400 * TOKEN, 60 * TOKEN, 0])
def test_a_tree_gives_what_was_put_in_and_keeps_its_bound(bound):
    """Random texts that branch, cut to the bound, with states behind some: against a list of all that was inserted."""
    rng, tree, inserted = random.Random(bound), PrefixTree(bound), []
    texts = [[rng.randrange(2) for _ in range(10)] for _ in range(3)]
    for step in range(250):
        stem = rng.choice(texts)
        ids = [*stem[: rng.randrange(len(stem) + 1)], *(rng.randrange(2) for _ in range(rng.choice([0, 3, 30, 80])))]
        texts = [*texts[-20:], ids]
        state = tuple(ids) if rng.random() < 0.3 else None
        tree.insert(ids, pieces_of(ids), TOKEN - ID_BYTES, state, 100 if state else 0)
        inserted.append(ids)
        whole = rng.choice(texts)
        for stated in (False, True):
            prefix = tree.lookup(whole, stated=stated)
            assert prefix.length == 0 or LEAST <= prefix.length <= prefix.known <= len(whole)
            assert stated or prefix.length in (0, prefix.known)
            found = [torch.cat(parts, dim=1) for parts in zip(*prefix.pieces, strict=True)]
            for piece, true in zip(found, pieces_of(whole)(slice(0, prefix.length)) if found else [], strict=True):
                assert torch.equal(piece, true)
            assert not stated or not prefix.length or prefix.state == tuple(whole[: prefix.length])
            if bound == 1 << 20:
                assert prefix.known + LEAST > max(common(whole, other) for other in inserted)
        nodes = list(tree._used)
        assert tree.nbytes == sum(node.nbytes for node in nodes) <= bound
        assert tree.tokens == sum(len(node.ids) for node in nodes)
        assert all(nodes.index(node) < nodes.index(node.parent) for node in nodes if node.parent is not tree._root)
        assert step < 200 or bound < 1000 or tree.tokens > 0
    tree.bound = 0
    assert (tree.nbytes, tree.tokens, tree.lookup(ids)) == (0, 0, Remembered())


WAYS = ["llama", "gemma3", "deepseek-v3", "bloom", "t5", "mamba", "qwen3-next", "rwkv", "scans"]
"""Slots, windows, latent keys; one by row, with an encoder; states; no cache; states that are read one by one."""


@torch.inference_mode()
@pytest.mark.parametrize(("bound", "name"), diagonal([1 << 24, 40_000], WAYS))
def test_rows_read_as_if_nothing_were_remembered(name, bound):
    """Runs of rows that begin alike, go on, go back and leave: the logits of a fresh forward each time."""
    module, rng = make("mamba" if name == "scans" else name), random.Random(2)
    source = [5, 6, 7, 8] * 6 if module.config.is_encoder_decoder else None
    prefixes_of(module).bound = bound
    stems, cached = [[rng.randrange(2, WIDTH) for _ in range(40)] for _ in range(2)], 0
    for _ in range(3):
        forward, rows = forward_for(module), list[Row]()
        if name == "scans":
            forward._at_once = ONE_BY_ONE
        for _ in range(7):
            while len(rows) < 3:
                own = [rng.randrange(2, WIDTH) for _ in range(rng.choice([1, 2, 7, 20]))]
                rows.append(Row([*rng.choice(stems)[: rng.choice([20, 40])], *own], source))
            for row in [row for row in rows if forward.reads_parts and row.valid == 0 and rng.random() < 0.5]:
                before = forward.remembers(row)
                most = forward.read_part(row, 9)
                assert row.valid == (before + most if most else row.valid)
            logits = forward.read(rows).float()
            expected = torch.stack([at_once(module, row) for row in rows]).float()
            assert (logits - expected).abs().max() <= 1e-3 * expected.abs().max()
            for row in list(rows):
                if rng.random() < 0.2 and len(row.ids) > 12:
                    row.truncate(len(row.ids) - rng.randrange(1, 9))
                    row.reread()
                elif rng.random() < 0.4:
                    stems.append(list(row.ids))
                    rows.remove(row)
                    cached += row.cached
                    forward.release(row)
                    continue
                row.ids += [rng.randrange(2, WIDTH) for _ in range(rng.choice([1, 1, 5]))]
        assert prefixes_of(module).nbytes <= bound
    keeps = name != "rwkv" and (KNOWS_STATES or not forward.why_slow)  # an older release of transformers
    assert (cached > 60) == keeps or bound < 1 << 20


@pytest.fixture(scope="module")
def model():
    module, tokenizer = load_demo()
    return sg.Model.of(copy.deepcopy(module), tokenizer)


def texts_of(runs):
    return [(run.text, run.token_ids, run.finish) for run in runs]


CALLS = {
    "drafts": {},
    "sampled text": {"schema": None, "sampling": sg.Sampling(temperature=1.0, seed=4)},
    "beams": {"beams": sg.Beams(3)},
    "canonical and healed": {"canonical": True, "token_healing": True, "fast_forward": False},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_texts_are_those_without(model, options):
    """One prompt after the other, then several together: with the default bound, with one that evicts, and with 0."""
    options = {"schema": Person, "limits": sg.Limits(max_new_tokens=20), "details": True, **options}

    def runs(bound):
        model.prefixes.clear()
        model.prefixes.bound = bound
        alone = [sg.generate(model, prompt, **options) for prompt in PROMPTS]
        return alone, sg.generate(model, [*PROMPTS, PROMPTS[0]], **options)

    default = model.prefixes.bound
    expected, batch = runs(0)
    assert not any(run.stats.cached for run in (*expected, *batch))
    for bound in (1_000_000, default):
        mine, together = runs(bound)
        assert texts_of(mine) + texts_of(together) == texts_of(expected) + texts_of(batch)
        assert mine[0].stats.cached == 0
        assert all(LEAST < run.stats.cached <= run.prompt_tokens for run in together if bound == default)
        assert model.prefixes.nbytes <= bound


def test_calls_of_several_threads_take_from_each_other(model):
    prompts = [f"{prompt} " for prompt in PROMPTS] * 5
    default, model.prefixes.bound = model.prefixes.bound, 0
    expected = sg.generate(model, prompts, Person)
    model.prefixes.bound = default
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda prompt: sg.generate(model, prompt, Person, details=True), prompts))
    assert [run.value for run in runs] == expected
    assert sum(run.stats.cached > 0 for run in runs) > len(prompts) / 2


def test_what_was_read_with_other_weights_or_watched_is_not_taken(model):
    module = copy.deepcopy(model.module)
    other = sg.Model(module, model.tokenizer, model.vocabulary)

    def cached():
        return sg.generate(other, PROMPTS[0], limits=sg.Limits(max_new_tokens=2), details=True).stats.cached

    assert (cached(), cached() > LEAST) == (0, True)
    with torch.no_grad():
        next(iter(module.parameters())).add_(0.0)  # as an optimiser's step would
    assert (cached(), cached() > LEAST) == (0, True)
    watching = module.model.layers[0].register_forward_hook(lambda *_: None)
    assert cached() == 0
    watching.remove()
    assert cached() > LEAST
    other.prefixes.clear()
    assert (cached(), cached() > LEAST) == (0, True)
    module.double()
    assert cached() == 0


class Failed(Exception):
    pass


def test_a_read_that_fails_or_is_left_leaves_nothing_wrong(model, monkeypatch):
    """A forward that raises in the middle of its layers, streams that are left, and a batch that goes on."""
    model.prefixes.clear()
    expected, count = sg.generate(model, PROMPTS, Person), [0]
    block = model.module.model.layers[1]
    own = block.forward

    def failing(*args, **options):
        count[0] += 1
        if count[0] % 3 == 2:
            raise Failed
        return own(*args, **options)

    model.prefixes.clear()
    monkeypatch.setattr(block, "forward", failing)
    for prompt in PROMPTS * 2:
        with suppress(sg.RunError):
            sg.generate(model, prompt, Person)
    requests = [prepare(model, GivenPrompts.of(prompt), Person) for prompt in PROMPTS]
    with Stepping(model) as batch:
        seats = [batch.join(request.sessions[0], record=False) for request in requests]
        batch.step()
        monkeypatch.undo()
        while batch.step():
            pass
        values = [request.result(0, seat).value for request, seat in zip(requests, seats, strict=True)]
    assert values == expected
    for steps in (1, 5):
        with closing(sg.stream(model, PROMPTS[1] + " ", Person)) as stream:
            for _ in range(steps):
                next(iter(stream))
    assert sg.generate(model, PROMPTS, Person) == expected


def test_keys_that_depend_on_the_length_of_their_row_are_not_remembered():
    forward = forward_for(make("phi3-longrope"))
    forward.read([Row(range(2, 40))])
    assert (forward.prefixes.tokens, forward.prefixes.bound > 0) == (0, True)


def test_a_host_tells_what_its_places_held():
    host = Uncached(places=2)
    for expected in (0, 19):
        forward, row = HostForward(host), Row(range(1, 21))
        forward.read([row])
        assert row.cached == expected
        forward.release(row)
