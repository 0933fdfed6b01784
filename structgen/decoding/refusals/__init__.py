"""Limits, refusals and rollback: the tokens that a row may say, and where it goes on when its text is refused.

`allowed` joins the masks. A `check` may refuse a text: `guarding` and `validating` are checks. `phrase_row` sees to
phrases; `budget` and `caps` end texts in time. `rollback` goes back; `retry_tree` chooses the place (Shi, Bieber and
Sutton, *Incremental Sampling Without Replacement*, 2020). `canonical_row` keeps tokens canonical. `transcript` is one
text with its tokens, the model's row and the matcher.
"""
