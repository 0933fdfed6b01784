"""Sets of strings as deterministic automata over code points: patterns, formats, sets of numbers and of strings.

Knows characters; neither bytes, nor tokens, nor JSON's structure. A `CharDfa` is closed under and, or and not;
`regex` reads ECMA-262 patterns into one. Minimisation follows Valmari and Lehtinen (2008), subsets are built lazily.
"""
