"""Which tokens: masks and matchers.

A `Grammar` is a constraint compiled for a vocabulary. Kernels walk the vocabulary's trie and the constraint's automaton
together, and give a mask: a bit for each token that may come next. A `Matcher` follows one text through a grammar.
`walk` is the general walk; `string_walk`, `text_walk` and `alike` take shortcuts where a state allows them. `tested`
corrects masks that depend on the text. This folder knows no schemas and no models.
"""

from structgen.masks.batch import fill_masks, find_masks
from structgen.masks.canonical_matcher import CanonicalMatcher
from structgen.masks.grammar import Grammar
from structgen.masks.grammar import Matcher
from structgen.masks.words import only_token

why_refused = Matcher.explain

__all__ = ["CanonicalMatcher", "Grammar", "Matcher", "fill_masks", "find_masks", "only_token", "why_refused"]
