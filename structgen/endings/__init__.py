"""How a text may end: the fewest bytes from any position to an end, and the tokens that spell them.

Dijkstra's algorithm over frames (Knuth 1977), and the A* algorithm where tests or guards have a say. It uses grammars
and matchers; `masks` does not use it.
"""
