"""The keywords: a row each in `table`, the checks of their arguments (`arguments`), what they say (`own`, `in_place`).

`facts` gathers what the keywords of one schema object say, `evaluation` finds what is left for `unevaluatedProperties`
and `unevaluatedItems`, `dialects` has the older drafts. What keywords mean together is the normal form's: `normal`.
"""
