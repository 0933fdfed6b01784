"""Writers of states: characters of a `CharDfa` as bytes, tries of literals, free strings.

Each writer writes rows of the tables, mostly by a kernel; `automaton.table_format` explains the rows. The writers know
no schema: `values` and `parts` tell them what to write.
"""
