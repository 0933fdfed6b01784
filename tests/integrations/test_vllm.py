"""The backend of structured outputs, against vLLM's real classes and its real manager.

Covers `integrations.vllm.backend` and `text_grammars`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import structgen as sg
from structgen.demo import load_demo

pytest.importorskip("vllm.v1.structured_output.backend_types", reason="needs vLLM")

from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1 import structured_output
from vllm.v1.structured_output import backend_outlines
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind
from vllm.v1.structured_output.request import StructuredOutputRequest

from structgen.integrations.text_grammars import constraint_of
from structgen.integrations.vllm import make_backend, register
from structgen.integrations.vllm.backend import VLLMBackend, validate
from structgen.vocabulary.vocabulary import single_bytes

WIDTH = 2100
SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Lyon", "Oslo"]}}, "required": ["city"]}
SCHEMA["additionalProperties"] = False


@pytest.fixture(scope="module")
def tokenizer():
    return load_demo()[1]


@pytest.fixture(scope="module")
def backend(tokenizer) -> VLLMBackend:
    settings = SimpleNamespace(
        structured_outputs_config=SimpleNamespace(disable_any_whitespace=False), speculative_config=None
    )
    return VLLMBackend(settings, tokenizer, WIDTH)


def greedy(backend, grammar, tokenizer, seed: int = 0) -> str:
    logits = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed)).numpy()
    bitmask, tokens = backend.allocate_token_bitmask(4), []
    while not grammar.is_terminated():
        grammar.fill_bitmask(bitmask, 2)
        allowed = np.unpackbits(bitmask[2].numpy().view(np.uint8), bitorder="little")[:WIDTH]
        tokens.append(int(np.where(allowed, logits, -np.inf).argmax()))
        assert grammar.validate_tokens([tokens[-1]]) == [tokens[-1]]
        assert grammar.accept_tokens("request", [tokens[-1]])
    assert (bitmask[[0, 1, 3]] == -1).all()
    return tokenizer.decode(tokens[:-1])


def test_requests_of_every_kind_say_what_is_valid(backend, tokenizer):
    ends = {tokenizer.eos_token_id}
    text = greedy(backend, backend.compile_grammar(Kind.JSON, json.dumps(SCHEMA), ends), tokenizer)
    assert json.loads(text)["city"] in ("Lyon", "Oslo")
    assert greedy(backend, backend.compile_grammar(Kind.CHOICE, '["ab", "cd"]', ends), tokenizer) in ("ab", "cd")
    assert greedy(backend, backend.compile_grammar(Kind.REGEX, "[a-c]{4}x", ends), tokenizer)[4] == "x"
    assert greedy(backend, backend.compile_grammar(Kind.GRAMMAR, 'start: "ab" "c"', ends), tokenizer) == "abc"
    walk = backend.compile_grammar(Kind.JSON_OBJECT, "", ends)
    assert walk.validate_tokens(tokenizer.encode("{", add_special_tokens=False))
    assert not walk.validate_tokens(tokenizer.encode("[", add_special_tokens=False))
    with pytest.raises(ValueError, match="neither a format nor structures"):
        backend.compile_grammar(Kind.STRUCTURAL_TAG, '{"type": "structural_tag"}', ends)


def test_strict_tools_of_every_model_write_what_xgrammar_takes():
    """The structural tags that vLLM makes of `tools` and `tool_choice`; each text of ours, judged by xgrammar."""
    from vllm.entrypoints.openai.chat_completion import protocol
    from vllm.tool_parsers.structural_tag_registry import SUPPORTED_STRUCTURAL_TAG_MODELS, get_model_structural_tag
    from xgrammar import Grammar
    from xgrammar.testing import _is_grammar_accept_string

    vocabulary, judged = single_bytes(), 0
    tools = [
        protocol.ChatCompletionToolsParam(function={"name": name, "parameters": SCHEMA, "strict": True})
        for name in ("weather", "news")
    ]
    choices = ["auto", "required", protocol.ChatCompletionNamedToolChoiceParam(function={"name": "weather"})]
    for number, model in enumerate(sorted(SUPPORTED_STRUCTURAL_TAG_MODELS)):
        for choice in choices:
            tag = get_model_structural_tag(model, tools, choice, reasoning=False)
            grammar = constraint_of("structural_tag", json.dumps(tag.model_dump())).compile(vocabulary)
            random, matcher = Random(number), grammar.matcher()
            while not (matcher.can_finish and matcher.text) and len(matcher.text) < 300:
                allowed = [t for t in matcher.allowed_tokens() if vocabulary.token(t)]
                matcher.advance(random.choice([t for t in allowed if chr(t) in '<>{}:/", abci'] or allowed))
            if matcher.can_finish:
                judged += 1
                assert _is_grammar_accept_string(Grammar.from_structural_tag(tag), matcher.text.decode()), matcher.text
    assert judged > 2 * len(SUPPORTED_STRUCTURAL_TAG_MODELS)


def test_stop_tokens_of_a_request_end_its_text(backend, tokenizer):
    stop = tokenizer.encode("z", add_special_tokens=False)[-1]
    walk = backend.compile_grammar(Kind.REGEX, "a*", {tokenizer.eos_token_id, stop})
    assert walk.accept_tokens("request", [stop])
    assert walk.is_terminated()


def test_drafts_are_verified_and_rolled_back(backend, tokenizer):
    """As the scheduler does: it validates a draft, accepts what holds, and takes back what the model did not say."""
    walk = backend.compile_grammar(Kind.JSON, json.dumps(SCHEMA), {tokenizer.eos_token_id})
    draft = tokenizer.encode('{"city": "Oslo"}', add_special_tokens=False)
    wrong = tokenizer.encode("?", add_special_tokens=False)
    before, after = (backend.allocate_token_bitmask(1) for _ in range(2))
    walk.fill_bitmask(before, 0)
    assert walk.validate_tokens([*draft, *wrong]) == draft
    assert walk.validate_tokens([*draft, -1, -1]) == draft
    walk.fill_bitmask(after, 0)
    assert torch.equal(before, after)
    assert not walk.accept_tokens("request", wrong)
    assert walk.accept_tokens("request", [*draft, tokenizer.eos_token_id])
    assert walk.is_terminated()
    walk.rollback(3)
    assert not walk.is_terminated()
    assert walk.accept_tokens("request", [*draft[-2:], tokenizer.eos_token_id])
    walk.reset()
    walk.fill_bitmask(after, 0)
    assert torch.equal(before, after)


def test_rows_are_filled_on_many_threads(backend, tokenizer):
    """vLLM fills a large batch on several threads; grammars are shared and new masks are found meanwhile."""
    schemas = [json.dumps({"enum": [f"{n}" * 40, n, [n] * 9]}) for n in range(6)]
    walks = [backend.compile_grammar(Kind.JSON, schemas[n % 6], ()) for n in range(48)]
    bitmask, alone = (backend.allocate_token_bitmask(len(walks)) for _ in range(2))
    with ThreadPoolExecutor(8) as pool:
        for _ in range(12):
            list(pool.map(lambda n: walks[n].fill_bitmask(bitmask, n), range(len(walks))))
            for n, walk in enumerate(walks):
                walk.fill_bitmask(alone, n)
                first = int(np.flatnonzero(np.unpackbits(alone[n].numpy().view(np.uint8), bitorder="little"))[0])
                if not walk.is_terminated():
                    assert walk.accept_tokens("request", [first])
            assert torch.equal(bitmask, alone)
            if any(walk.is_terminated() for walk in walks):
                break


def test_requests_that_cannot_work_are_refused_before_the_engine():
    validate(SamplingParams())
    validate(SamplingParams(structured_outputs=StructuredOutputsParams(json=SCHEMA)))
    validate(SamplingParams(structured_outputs=StructuredOutputsParams(choice=["a", "b"])))
    for wrong in ({"json": {"type": "strin"}}, {"regex": "(a"}, {"grammar": "start: nothing"}):
        with pytest.raises(VLLMValidationError, match="structgen: "):
            validate(SamplingParams(structured_outputs=StructuredOutputsParams(**wrong)))


def test_the_plugin_takes_its_place_only_where_it_is_asked_to(monkeypatch):
    for name in ("OutlinesBackend", "validate_structured_output_request_outlines"):
        monkeypatch.setattr(backend_outlines, name, getattr(backend_outlines, name))
    theirs = backend_outlines.OutlinesBackend
    monkeypatch.delenv("STRUCTGEN_VLLM", raising=False)
    register()
    assert backend_outlines.OutlinesBackend is theirs
    monkeypatch.setenv("STRUCTGEN_VLLM", "1")
    register()
    assert backend_outlines.OutlinesBackend is make_backend
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no TOML reader")
    project = tomllib.loads((Path(sg.__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    value = project["entry-points"]["vllm.general_plugins"]["structgen"]
    assert EntryPoint("structgen", value, "vllm.general_plugins").load() is register


def test_a_worker_that_registers_the_plugin_loads_nothing_of_it():
    """vLLM's workers make no masks: kernels and tables are not for them."""
    told = "print('structgen.kernels' in sys.modules)"
    code = f"import sys; from structgen.integrations.vllm import register; register(); {told}"
    environment = {**os.environ, "STRUCTGEN_VLLM": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_vllms_own_manager_compiles_masks_and_accepts(monkeypatch, tokenizer):
    """The real validation and the real manager of structured outputs, with a draft; no engine."""
    for name in ("OutlinesBackend", "validate_structured_output_request_outlines"):
        monkeypatch.setattr(backend_outlines, name, getattr(backend_outlines, name))
    monkeypatch.setenv("STRUCTGEN_VLLM", "1")
    register()
    monkeypatch.setattr(structured_output, "cached_tokenizer_from_config", lambda model_config: tokenizer)
    settings = {"reasoning_parser_plugin": "", "reasoning_parser": "", "enable_in_reasoning": False}
    config = SimpleNamespace(
        model_config=SimpleNamespace(skip_tokenizer_init=False, get_vocab_size=lambda: 2048, is_diffusion=False),
        parallel_config=SimpleNamespace(distributed_executor_backend=None),
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        structured_outputs_config=SimpleNamespace(backend="outlines", disable_any_whitespace=False, **settings),
        speculative_config=None,
        num_speculative_tokens=8,
    )
    params = SamplingParams(structured_outputs=StructuredOutputsParams(json={"enum": ["Lyon", "Oslo"]}))
    params._validate_structured_outputs(config.model_config, config.structured_outputs_config, tokenizer)
    manager = structured_output.StructuredOutputManager(config)
    request = SimpleNamespace(
        request_id="r", sampling_params=params, use_structured_output=True, prompt_token_ids=[1], all_token_ids=[1],
        structured_output_request=StructuredOutputRequest(params=params.structured_outputs),
    )  # fmt: skip
    manager.grammar_init(request)
    asked = request.structured_output_request
    while (grammar := asked.grammar) is None:  # it is compiled by another thread
        time.sleep(0.01)
    assert isinstance(manager.backend, VLLMBackend)
    draft = tokenizer.encode('"Oslo"', add_special_tokens=False)
    words = manager.grammar_bitmask({"r": request}, ["r"], {"r": draft})
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    for row, token in enumerate([*draft, tokenizer.eos_token_id]):
        assert bits[row, token]
        assert bits[row].sum() < 100
    assert manager.accept_tokens(request, [*draft, tokenizer.eos_token_id])
    assert grammar.is_terminated()


def test_a_request_that_cannot_go_on_ends_with_an_error():
    from structgen.integrations.vllm.backend import VLLMGrammar

    vocabulary = sg.Vocabulary.from_tokens([b"a", None], end_ids=[1])
    walk = VLLMGrammar(sg.Regex("ab").compile(vocabulary).matcher())
    bitmask = torch.full((1, 1), -1, dtype=torch.int32)
    assert walk.accept_tokens("request", [0])
    walk.fill_bitmask(bitmask, 0)
    assert bitmask[0].item() == 0b10
    assert not walk.accept_tokens("request", [1])
