"""How a text may end: the fewest bytes from a position to an end, and the tokens that spell them.

`fewest_bytes` runs Dijkstra's algorithm over frames (Knuth 1977). `agreed` runs the A* algorithm where tests or guards
decide too. `closing` spells an end in tokens. This folder uses grammars and matchers; `masks` does not use it.
"""
