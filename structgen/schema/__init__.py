"""JSON Schema -> normal form: a union of shapes, one independent set per JSON type. Knows no byte and no token.

`keywords` is the one table of keywords; `reader` reads a schema lazily; `algebra` is and, or, not over shapes.
"""
