"""From what a caller gives to token ids, and what is asked of each row."""
