"""Models that other engines run, read by our own loop: a `Host` appends tokens, gives logits and goes back.

Each module imports its engine's package only when a model is loaded.
"""
