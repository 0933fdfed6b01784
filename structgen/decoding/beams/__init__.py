"""Beam search over rows of one cache."""
