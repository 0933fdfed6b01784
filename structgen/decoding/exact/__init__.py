"""Draws from the model's own distribution, given that the whole text is valid."""
