"""JSON text as text: one lexer, and three readers that take it piece by piece.

`lexer` has the tokens of JSON, their values, and the form in which values are compared. `reading` keeps values for
checks, `pointers` keeps places, `strings` finds strings and decodes them while they are written. This folder knows
no schema, no automaton and no vocabulary.
"""
