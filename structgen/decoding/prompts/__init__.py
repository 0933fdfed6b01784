"""Prompts to token ids, options to rows, schemas to targets.

`token_ids` takes text, messages and ids, `processor_prompts` embeddings and what processors return for images and
sounds. `per_row` spreads the options of a call over its rows. `targets` finds the constraint and the type that
`schema=` means. All of it runs before the first forward pass.
"""
