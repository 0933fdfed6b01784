"""Which JSON: a value as frames of the byte automaton, from the normal form of a schema.

Each frame is an array, an object, a name or a scalar, written one phase at a time when a walk meets it. Alternatives
are read in lockstep. Progress says what an array or object may still hold; `emptiness` which values cannot be. Knows no
token and no text that is not JSON.
"""
