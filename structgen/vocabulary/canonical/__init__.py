"""Canonical tokens: the sequences that a tokenizer itself would make of their text.

- `asked`: asks the tokenizer about each token, after the tokens before it. This takes any tokenizer.
- `masks`: all tokens that may come next, for loops that cannot choose again: for byte-level byte-pair encodings.
- `merges`: which tokens byte-pair encoding leaves side by side.
- `classes`, `splits`: where the pre-tokenizer cuts, learned by asking it; `signatures`: what that means for tokens.

It knows tokens and texts, and no grammars. Sources: V. Tran-Thien, *Fast, High-Fidelity LLM Decoding with Regex
Constraints* (2024), for its use; T. Vieira et al., *Language Models over Canonical Byte-Pair Encodings* (2025), for the
theorem on neighbours.
"""

from structgen.vocabulary.canonical.asked import Canonical, CanonicalState, Encoder

__all__ = ["Canonical", "CanonicalState", "Encoder"]
