"""Texts of parts: sequences, options, repetitions, Lark grammars and a caller's own machines, in the same tables.

A thread is one way to read such a text. Where a byte may belong to more than one part, several threads run side by
side. `lalr` turns Lark's LALR table into frames.
"""
