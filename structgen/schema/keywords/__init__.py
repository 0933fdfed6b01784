"""The keywords of JSON Schema.

`table` has a row for each; `arguments` checks their arguments; `own` and `in_place` have a function for each, which
writes into the `facts` of one schema object. `evaluation` reads `unevaluatedProperties` and `unevaluatedItems`;
`dialects` has the drafts.
"""
