"""Tokenizers as bytes: `Vocabulary` and its prefix tree."""

from __future__ import annotations

from structgen.vocabulary.trie import Trie
from structgen.vocabulary.vocabulary import Vocabulary, special_text

__all__ = ["Trie", "Vocabulary", "special_text"]
