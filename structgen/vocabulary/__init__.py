"""Tokenizers as bytes: `Vocabulary` and its prefix tree."""

from __future__ import annotations

from structgen.vocabulary.trie import Trie
from structgen.vocabulary.vocabulary import Vocabulary, require_vocabulary, special_text, spelled

__all__ = ["Trie", "Vocabulary", "require_vocabulary", "special_text", "spelled"]
