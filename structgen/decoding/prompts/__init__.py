"""Prompts to token ids, options to rows, schemas to targets.

`prompt` reads texts, messages, ids, and what processors return for images and sounds. `per_row` spreads the options of
a call over its rows. `targets` finds the constraint and the type that `schema=` means. All of it runs before the first
forward pass.
"""
