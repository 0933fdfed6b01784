"""What a row may say, and where it goes on from when that is refused: budget, guards, validators, rollback, retries."""
