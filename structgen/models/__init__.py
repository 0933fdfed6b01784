"""How a transformers model reads rows of tokens: caches, snapshots, graphs, several devices. Knows no grammar.

A `Forward` takes for each row the tokens it has to have read, and gives the logits behind them. Which kind of cache a
model gets is chosen by its configuration and confirmed by a probe (`forward`).
"""
