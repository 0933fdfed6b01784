"""Which JSON: a value as frames of the byte automaton, from the normal form of a schema.

`JsonAutomaton` has a writer for each kind of frame (arrays, names, objects, strings, numbers). A writer writes a state
when a walk reaches it. Alternatives are read in lockstep (`lockstep`). A progress tells what an array or an object may
still hold (`array_progress`, `object_progress`). `emptiness` finds schemas that no value satisfies. This folder knows
no tokens, and no text other than JSON.
"""
