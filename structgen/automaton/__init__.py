"""Which bytes: the tables of a lazy pushdown automaton, the step through them, and what lifts a `CharDfa` to bytes.

A state is a row of integers; a stub is expanded when a walk first meets it; frames on the stack are interned, so a
position is one int. Knows neither JSON Schema nor tokens. A check is what no automaton can know.
"""
