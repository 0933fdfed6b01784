"""Search policies: how the next token is chosen among the allowed ones."""
