"""Draws from the model's own distribution, given that the whole text is valid.

`refused_mass` is the tree of what was refused, and the draws from the rest (adaptive rejection: CARS, arXiv
2510.01902). `exact_session` is a row that walks it; `validity` estimates the probability that a text of the model is
valid.
"""
