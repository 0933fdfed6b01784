"""How the demo model was made: corpus, tokenizer, training, evaluation. Not part of the package."""
