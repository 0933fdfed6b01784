"""JSON Schema -> normal form: a union of shapes with one independent set per JSON type. Knows no bytes and no tokens.

`keywords` holds the table of keywords; `reader` reads a schema lazily; `algebra` is and, or, not over shapes.
"""
