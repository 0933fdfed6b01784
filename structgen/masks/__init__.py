"""The joint walk of a vocabulary's trie and a constraint's automaton: packed masks, and matchers."""

from structgen.masks.grammar import Grammar, Matcher, fill_masks, only_token

__all__ = ["Grammar", "Matcher", "fill_masks", "only_token"]
