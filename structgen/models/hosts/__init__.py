"""Models that other engines run, for our own loop: a `Host` appends tokens, gives logits and goes back.

Each module imports its package when a model of its kind is loaded.
"""
