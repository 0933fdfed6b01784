"""Tokenizers as bytes: `Vocabulary` and its prefix tree.

`sources` finds the reader for a tokenizer: `huggingface` (with `decoders`) or `pieces`. `table` is what was read, and
`disk` caches it. `trie` is the prefix tree as flat arrays. `canonical` knows which tokens a tokenizer itself makes.
This folder knows no grammars.
"""

from __future__ import annotations

from structgen.vocabulary.trie import Trie
from structgen.vocabulary.vocabulary import Vocabulary, require_vocabulary, special_text, spelled

__all__ = ["Trie", "Vocabulary", "require_vocabulary", "special_text", "spelled"]
