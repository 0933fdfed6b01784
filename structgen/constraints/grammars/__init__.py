"""Grammars in the notations of the field: llguidance's Lark, llama.cpp's GBNF, EBNF.

Each front end reads a text as `rules.Productions`. `plans` makes the plan of a composition of them.
"""
