"""Canonical tokens: the sequences that a tokenizer itself would make of their text.

- `merges`: which tokens byte-pair encoding leaves side by side.
- `classes`, `splits`: where the pre-tokenizer cuts, learned by asking it; `signatures`: what that means for tokens.
- `unicode_form`: texts that normalisation leaves as they are.
- `added`: the contents of added tokens, which no other tokens may spell.
- `model`: reads a byte-pair encoding; `canonical`: all of it together, one token after the other.
- `words`: tokenizers that encode each word alone; `unigram`, `wordpiece`: their rules.
- `recognizer`: what the kinds have in common; `kinds`: which one a tokenizer of Hugging Face needs.

It knows tokens and texts, and no grammars. Sources: V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex
Constraints* (2024), for its use; T. Vieira et al., *Language Models over Canonical Byte-Pair Encodings* (2025), for the
theorem on neighbours.
"""

from structgen.vocabulary.canonical.recognizer import Canonical, CanonicalState

__all__ = ["Canonical", "CanonicalState"]
