"""Constraints: a schema, a pattern, one of several texts, a composition, a grammar, a byte machine.

Each constraint is a frozen value that compiles to a `Grammar` for one vocabulary.
"""
