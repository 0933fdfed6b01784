"""How a model writes calls and thoughts, derived from what its chat template renders.

`probes` are conversations with known names and values. `calls`, `arguments` and `thinking` find them in the rendering.
"""
