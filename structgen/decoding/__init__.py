"""The decode loop: sessions ask a model for logits and say tokens until their texts are complete.

`request` makes sessions from a caller's arguments, `loop` runs them, `stream` gives their events. `session` is one row,
with its policies in the folders below.
"""
