"""Search policies: how the next token is chosen among those that are allowed."""
