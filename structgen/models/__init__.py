"""How a transformers model reads rows of tokens: caches, snapshots, graphs, several devices. No grammar is known here.

A `Forward` reads the pending tokens of each row and gives the logits after them. The kind of a model's cache follows
from its configuration and is confirmed by a probe (`forward`).
"""
