"""The joint walk of a vocabulary's trie and a constraint's automaton: packed masks, and matchers."""

from structgen.masks.batch import fill_masks, find_masks
from structgen.masks.grammar import Grammar
from structgen.masks.grammar import Matcher
from structgen.masks.words import only_token

why_refused = Matcher.explain

__all__ = ["Grammar", "Matcher", "fill_masks", "find_masks", "only_token", "why_refused"]
