"""What writes states: characters of a `CharDfa` as bytes, tries of literals, free strings, the phases of objects.

Each writer turns what it is given into rows of the tables, mostly by a kernel; see `automaton` for what rows say. Knows
no schema: `values` and `parts` say what is to be written.
"""
