"""The peers' logits processors over the vocabulary of `gpu.py`."""

from __future__ import annotations

from typing import Any

import structgen as sg
from benchmarks.processors import Factory, llguidance_processor, xgrammar_processor


def llguidance_peer(model: sg.Model, schema: Any) -> Factory:
    import llguidance

    vocabulary = model.vocabulary

    class Tokenizer:
        def __init__(self) -> None:
            self.eos_token_id, self.bos_token_id = vocabulary.end_ids[0], None
            self.tokens = [vocabulary.token(i) or b"\xff<end>" for i in range(vocabulary.width)]
            self.special_token_ids = list(vocabulary.end_ids)

        def __call__(self, text: str) -> list[int]:
            return model.tokenizer.encode(text)

    return llguidance_processor(llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokenizer())), schema)


def xgrammar_peer(model: sg.Model, schema: Any) -> Factory:
    import xgrammar

    names = [model.vocabulary.token(i) for i in range(model.vocabulary.width)]
    info = xgrammar.TokenizerInfo(names, vocab_size=len(names), stop_token_ids=list(model.vocabulary.end_ids))
    return xgrammar_processor(info, schema)


PEERS = {"llguidance": llguidance_peer, "xgrammar": xgrammar_peer}
