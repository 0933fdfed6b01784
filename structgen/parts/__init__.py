"""Texts made of parts: sequences, alternatives, repetitions, Lark grammars and a caller's own machines.

All parts of a text share the same tables. A thread is one way to read the text so far. If a byte may belong to more
than one part, several threads run in parallel. Rules may contain themselves: `beginning` and `rules` say how they are
followed. `lalr` turns Lark's LALR table into frames.
"""
