"""Limits, refusals and rollback: the tokens that a row may say, and where it goes on when its text is refused."""
