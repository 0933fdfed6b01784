"""Limits, refusals and rollback: the tokens that a row may say, and where it continues when its text is refused.

Whatever refuses a text is a `rule`: `budget` with `caps`, `canonical_row`, `phrase_row`, `guarding`, `validating`.
`checks` has the rules of a row, `row_refusals` joins their masks and goes back; `retry_tree` chooses the place (Shi,
Bieber and Sutton, *Incremental Sampling Without Replacement*, 2020). `transcript` is one text with its tokens, the
model's row and the matcher.
"""
