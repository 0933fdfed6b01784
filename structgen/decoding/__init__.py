"""The decode loop: sessions ask a model for logits and say tokens until their texts are complete.

`request` makes sessions of what a caller gave, `loop` runs them, `stream` tells of them as they go. What one row does
is in `session`, with its policies in the folders below.
"""
