"""Tokens known ahead: forced text, and text that is elsewhere already.

`forced` adds text that must come next without asking the model. `lookup` guesses by prompt lookup (Saxena 2023); the
loop checks guesses against the model, so neither changes the output. This folder knows no sampling and no refusals.
"""
