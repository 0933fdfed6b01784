"""Which JSON: a value as frames of the byte automaton, from the normal form of a schema.

`JsonAutomaton` has a writer for each kind of frame (arrays, names, objects, strings, numbers), and writes a state when
a walk meets it. Alternatives are read in lockstep. Progress says what an array or object may still hold; `emptiness`
which values cannot be. Knows no token and no text that is not JSON.
"""
