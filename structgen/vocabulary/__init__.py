"""Tokenizers as bytes: `Vocabulary` and its prefix tree."""

from __future__ import annotations

from structgen.vocabulary.trie import Trie
from structgen.vocabulary.vocabulary import Vocabulary

__all__ = ["Trie", "Vocabulary"]
