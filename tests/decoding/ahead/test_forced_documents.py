"""Fast-forward over real documents: what is fed without asking is what the tokenizer makes of the whole document."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

import structgen as sg
from structgen.decoding.ahead.forced import Spans


@pytest.fixture(scope="module")
def llama3(llama: tuple[PreTrainedTokenizerFast, sg.Vocabulary]) -> PreTrainedTokenizerFast:
    return llama[0]


class Tally:
    """What was fed over some documents."""

    def __init__(self) -> None:
        self.documents = self.tokens = self.spans = self.fed = 0
        self.wrong: list[tuple[list[int], list[int]]] = []

    def read(self, grammar: sg.Grammar, spans: Spans, tokens: list[int]) -> None:
        """Walks a document's own tokens; nothing is counted of one that the grammar does not take."""
        matcher, at, found = grammar.matcher(), 0, []
        while at < len(tokens):
            span = spans.at(matcher, tokens[:at])[0]
            if span:
                found.append((span, tokens[at : at + len(span)]))
            step = span if span and span == tokens[at : at + len(span)] else tokens[at : at + 1]
            for token in step:
                try:
                    matcher.advance(token)
                except sg.TokenRejected:
                    return
            at += len(step)
        self.documents += 1
        self.tokens += len(tokens)
        self.spans += len(found)
        self.fed += sum(len(span) for span, _ in found)
        self.wrong += [(span, real) for span, real in found if span != real]


@pytest.mark.slow
def test_spans_are_the_tokens_of_the_document(data_folder, llama3):
    """Valid documents of every ninth schema of MaskBench: at most one span of 5,000 is none of the document's."""
    vocabulary, tally = sg.Vocabulary.from_tokenizer(llama3), Tally()
    lines = lzma.decompress((data_folder / "maskbench-dev.jsonl.xz").read_bytes()).splitlines()
    for row in map(json.loads, lines[::9]):
        documents = [test["data"] for test in row["tests"] if test["valid"]]
        try:
            grammar = sg.JsonSchema(row["schema"]).compile(vocabulary)
        except sg.RequestError:
            continue
        spans = Spans(vocabulary, llama3)
        for document in documents:
            tally.read(grammar, spans, encoded(llama3, document))
    share = f"{tally.fed} of {tally.tokens} tokens fed in {tally.spans} spans, {len(tally.wrong)} wrong"
    print(f"{tally.documents} documents: {share}")
    assert tally.spans > 1000
    assert tally.fed > 0.2 * tally.tokens, share
    assert len(tally.wrong) <= tally.spans / 5000, (share, tally.wrong[:9])


def encoded(tokenizer: Any, document: Any) -> list[int]:
    return list(tokenizer.encode(json.dumps(document, ensure_ascii=False), add_special_tokens=False))


def spans_of(tokenizer, schema, value):
    """What is fed at each token of a value's own tokens, and those tokens from there on."""
    vocabulary = sg.Vocabulary.from_tokenizer(tokenizer)
    grammar = sg.JsonSchema(schema).compile(vocabulary)
    spans, matcher = Spans(vocabulary, tokenizer), grammar.matcher()
    tokens = encoded(tokenizer, value)
    for at, token in enumerate(tokens):
        yield spans.at(matcher, tokens[:at])[0], tokens[at:]
        matcher.advance(token)


def test_the_last_token_is_fed_where_nothing_that_may_follow_belongs_to_it(llama3):
    """`": ` before a number: no token of Llama 3 has white space and digits."""
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    found = [(span, real) for span, real in spans_of(llama3, schema | {"type": "object"}, {"a": 36}) if span]
    assert found
    assert all(span == real[: len(span)] for span, real in found)
    fed = llama3.decode(found[0][0])
    assert fed == '{"a":', "the blank stays the model's: a minus sign may follow, and ` -` is a token"


def test_tokens_are_held_back_as_far_as_what_follows_may_change_them(llama3):
    """`"publi` is forced, but neither of its tokens is one of `"public` or `"publish`."""
    both = {"enum": ["public", "publish"]}
    for value in both["enum"]:
        for span, real in spans_of(llama3, both, value):
            assert span == real[: len(span)]
