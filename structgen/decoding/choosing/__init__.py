"""Search policies: how the next token is chosen among the allowed ones.

`masking` and `triton_masks` apply masks to logits. `scores` are changed by penalties and logits processors; `sampling`
filters and draws, by inverse transform sampling with a row's own random numbers. `choice` puts them together;
`measure` keeps what is known of each choice. This folder knows no grammars: a mask is words of bits.
"""
