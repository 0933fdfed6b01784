"""Tokenizers as bytes: `Vocabulary` and its prefix tree."""

from __future__ import annotations

from structgen.vocabulary.derived import once_per_vocabulary
from structgen.vocabulary.trie import Trie
from structgen.vocabulary.vocabulary import Vocabulary, require_vocabulary, special_text

__all__ = ["Trie", "Vocabulary", "once_per_vocabulary", "require_vocabulary", "special_text"]
