"""Ids, holes, twins, end ids, width and errors of a vocabulary.

Covers `table`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import GenerationConfig, LlamaConfig, LlavaConfig, PreTrainedTokenizerFast

from structgen.errors import VocabularyError
from structgen.vocabulary import Vocabulary


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTGEN_CACHE_DIR", str(tmp_path / "cache"))


def tokenizer() -> Tokenizer:
    """Ids 0 to 3 are text, 4 is <end>, 5 is <turn>."""
    made = Tokenizer(models.BPE({"a": 0, "b": 1, "Ġ": 2, "Ã": 3}, []))
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken("<end>", special=True), AddedToken("<turn>", special=True)])
    return made


def test_tokens_by_id() -> None:
    """Each id gives back its bytes, also those that are no whole character."""
    vocabulary = Vocabulary.from_tokens([b"a", b"\xe6", None, b"bc", b"\x97\xa5"], [2])
    assert [vocabulary.token(i) for i in range(5)] == [b"a", b"\xe6", b"", b"bc", b"\x97\xa5"]
    assert vocabulary.decode([0, 1, 4, 3]) == "a日bc".encode()
    assert len(vocabulary) == vocabulary.width == 5


def test_wide_logits_have_rows_that_are_never_text() -> None:
    """Padding rows have no bytes, count in the width and the mask's words, and are not special tokens."""
    vocabulary = Vocabulary.from_tokens([b"a", None], [1], width=40)
    assert vocabulary.width == 40
    assert vocabulary.words == 2
    assert all(vocabulary.token(i) == b"" for i in range(1, 40))
    assert vocabulary.special_ids == {1}
    assert set(vocabulary.trie.token.tolist()) == {0}


def test_twins_are_all_found() -> None:
    """Ids with the same bytes follow each other from the lowest on."""
    vocabulary = Vocabulary.from_tokens([b"x", b"a", b"x", b"x", None], [4])
    assert vocabulary.trie.token.tolist() == [1, 0]
    assert vocabulary.trie.twin.tolist() == [2, -1, 3, -1, -1]


def test_an_end_token_is_never_text() -> None:
    """An end id given with bytes loses them: it only ends."""
    vocabulary = Vocabulary.from_tokens([b"a", b"</s>", b"\n"], [2, 1, 1])
    assert vocabulary.end_ids == (1, 2)
    assert vocabulary.token(1) == vocabulary.token(2) == b""
    assert vocabulary.special_ids == {1, 2}


def test_token_beyond_the_logits() -> None:
    """Asking for a row that does not exist is an IndexError, also below zero."""
    vocabulary = Vocabulary.from_tokens([b"a", None], [1])
    for wrong in (-1, 2):
        with pytest.raises(IndexError, match=f"token id {wrong}: the logits have rows 0 to 1"):
            vocabulary.token(wrong)


def test_fingerprint_follows_what_a_mask_depends_on() -> None:
    """Equal vocabularies have equal fingerprints; bytes, ids, ends and width each change it."""
    tokens: list[bytes | None] = [b"ab", b"c", None, None]
    same = [Vocabulary.from_tokens(list(tokens), [2]).fingerprint for _ in range(2)]
    others = [
        Vocabulary.from_tokens([b"a", b"bc", None, None], [2]).fingerprint,
        Vocabulary.from_tokens([b"c", b"ab", None, None], [2]).fingerprint,
        Vocabulary.from_tokens(tokens, [3]).fingerprint,
        Vocabulary.from_tokens(tokens, [2, 3]).fingerprint,
        Vocabulary.from_tokens(tokens, [2], width=64).fingerprint,
    ]
    assert same[0] == same[1]
    assert len({same[0], *others}) == 6


def test_errors_say_what_to_do() -> None:
    """No end id, an end id that is no row, and narrow logits are refused."""
    with pytest.raises(VocabularyError, match=r"pass end_ids=\[\.\.\.\]"):
        Vocabulary.from_tokens([b"a"], [])
    with pytest.raises(VocabularyError, match="end id 7 is not a row of the logits: expected 0 to 0"):
        Vocabulary.from_tokens([b"a"], [7])
    with pytest.raises(VocabularyError, match="end id -1 is not a row"):
        Vocabulary.from_tokens([b"a"], [-1])
    with pytest.raises(VocabularyError, match="have 1 rows, but the highest token id is 1"):
        Vocabulary.from_tokens([b"a", b"b"], [1], width=1)


def test_end_ids_are_united() -> None:
    """The tokenizer's, both configurations' and the caller's end ids all count, once each."""
    backend = tokenizer()
    wrapped = SimpleNamespace(
        backend_tokenizer=backend,
        eos_token_id=4,
        all_special_ids=[4, 5],
        convert_ids_to_tokens=backend.id_to_token,
    )
    vocabulary = Vocabulary.from_tokenizer(
        wrapped,
        model_config={"eos_token_id": [4, 5], "vocab_size": 64},
        generation_config=SimpleNamespace(eos_token_id=[5, 7]),
        end_ids=[9],
    )
    assert vocabulary.end_ids == (4, 5, 7, 9)
    assert vocabulary.width == 64


def test_a_special_token_that_nobody_declares_does_not_end() -> None:
    """`<turn>` is special and no text, but it ends nothing unless it is declared."""
    vocabulary = Vocabulary.from_tokenizer(tokenizer(), end_ids=[4])
    assert vocabulary.end_ids == (4,)
    assert vocabulary.special_ids == {4, 5}
    assert vocabulary.token(5) == b""


def test_a_raw_tokenizer_declares_no_end() -> None:
    """A tokenizer without an end token is refused with the remedy."""
    with pytest.raises(VocabularyError, match=r"the tokenizer declares none; pass end_ids"):
        Vocabulary.from_tokenizer(tokenizer())


def test_logits_narrower_than_the_tokenizer() -> None:
    """A model with fewer rows than the highest id is refused, whether by its configuration or by `width`."""
    for setting in ({"width": 5}, {"model_config": {"vocab_size": 5}}):
        with pytest.raises(VocabularyError, match="have 5 rows, but the highest token id is 5"):
            Vocabulary.from_tokenizer(tokenizer(), end_ids=[4], **setting)


def test_width_comes_from_the_caller_then_from_the_text_configuration() -> None:
    """`width` wins; a composite model's width and ends are those of its text part."""
    config = {"text_config": {"vocab_size": 100, "eos_token_id": 5}, "eos_token_id": None}
    assert Vocabulary.from_tokenizer(tokenizer(), model_config=config).width == 100
    vocabulary = Vocabulary.from_tokenizer(tokenizer(), model_config=config, width=128)
    assert vocabulary.width == 128
    assert vocabulary.end_ids == (5,)


def test_configurations_of_transformers() -> None:
    """Real configuration objects are read, a composite model's by the part that writes text."""
    plain = LlamaConfig(vocab_size=300, eos_token_id=[1, 4])
    generation = GenerationConfig(eos_token_id=5)
    made = Vocabulary.from_tokenizer(tokenizer(), model_config=plain, generation_config=generation)
    assert (made.width, made.end_ids) == (300, (1, 4, 5))
    assert made.token(1) == b""
    composite = LlavaConfig(text_config=LlamaConfig(vocab_size=320, eos_token_id=5))
    made = Vocabulary.from_tokenizer(tokenizer(), model_config=composite)
    assert (made.width, made.end_ids) == (320, (5,))


def test_a_tokenizer_that_knows_of_no_end() -> None:
    """A transformers tokenizer without an end token is refused, unless the model's configuration has one."""
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer())
    with pytest.raises(VocabularyError, match="pass end_ids"):
        Vocabulary.from_tokenizer(wrapped)
    assert Vocabulary.from_tokenizer(wrapped, model_config={"eos_token_id": 4}).end_ids == (4,)


def test_a_declared_end_beyond_the_logits_is_left_out() -> None:
    """A configuration's default end id that is no row can never come; the others still end the text."""
    vocabulary = Vocabulary.from_tokenizer(
        tokenizer(), model_config={"eos_token_id": 50256, "vocab_size": 6}, end_ids=[4]
    )
    assert vocabulary.end_ids == (4,)
    with pytest.raises(VocabularyError, match="no token ends the text"):
        Vocabulary.from_tokenizer(tokenizer(), model_config={"eos_token_id": 50256, "vocab_size": 6})


def test_an_end_id_of_a_wrong_type() -> None:
    """An end id that is no id says where it was found."""
    with pytest.raises(VocabularyError, match="eos_token_id of the model configuration is '</s>'"):
        Vocabulary.from_tokenizer(tokenizer(), model_config={"eos_token_id": "</s>"})


def test_something_that_is_no_tokenizer() -> None:
    """An object of no known library is refused with what would do."""
    with pytest.raises(VocabularyError, match=r"builtins\.str is not a tokenizer .* Vocabulary\.from_tokens"):
        Vocabulary.from_tokenizer("meta-llama/Llama-3")
