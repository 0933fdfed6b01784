"""Search policies: how the next token is chosen among the allowed ones.

`masking`, `device_masks` and `triton_masks` apply masks to logits. `penalties` and `logits_processors` change scores;
`sampling` filters and draws, by inverse transform sampling with the random numbers of `draws`. `choice` puts them
together; `measure` keeps what is known of each choice. This folder knows no grammars: a mask is words of bits.
"""
