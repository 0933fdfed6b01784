"""Phrases that a text must have: their kinds, and how far a text has come with them. No model, no tokenizer.

A phrase is an automaton over bytes, so it does not matter how a text is cut into tokens.
"""

from structgen.phrases.kinds import AnyOf, BytePhrase, Gap, Ordered, Phrase, Template

__all__ = ["AnyOf", "BytePhrase", "Gap", "Ordered", "Phrase", "Template"]
