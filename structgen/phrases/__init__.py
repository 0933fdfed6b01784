"""Phrases that a text must have: which they are, and how far a text has come with them. No model, no tokenizer.

A phrase is an automaton over bytes, so that it does not matter into which tokens a text is cut.
"""
