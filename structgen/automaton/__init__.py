"""Which bytes: the tables of a lazy pushdown automaton, and the step through them.

A state is a row of integers (`table_format`). A stub is a state that is written when a walk first reaches it
(`machine`). The frames on the stack are interned, so a position is one int. A check answers what no automaton can know
(`checks`). `writing` has the kernels that write states. This folder knows neither JSON Schema nor tokens.
"""
