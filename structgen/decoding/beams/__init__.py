"""Beam search over rows of one cache.

`policy` decides which candidates go on, as in transformers, and knows neither model nor tokens. A `hypothesis` is one
text. `search` gives hypotheses their rows, and goes back to pruned candidates if all others fail (Zhou and Hansen,
*Beam-Stack Search*, 2005). `batch` is the loop: one forward pass for the beams of all prompts.
"""
