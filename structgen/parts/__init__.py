"""Texts of parts: sequences, options, repetitions, Lark grammars and a caller's own machines, in the same tables.

A thread is one way to read a text of parts; several run side by side where it is open which part a byte is of. `lalr`
turns Lark's LALR table into frames.
"""
