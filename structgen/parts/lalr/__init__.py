"""Lark grammars: Lark reads a grammar, and its LALR table becomes frames of the byte automaton.

`grammar` asks Lark, after `size` has refused what would take too long. `lr1` splits the states of Lark's table by
context (Knuth 1965). `scanner` (with `program` and `scanner_kernels`) finds tokens as Python's `re` would. `part`
writes both into the tables. This folder knows no tokens of a vocabulary.
"""
