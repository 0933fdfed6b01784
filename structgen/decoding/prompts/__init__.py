"""Prompts to token ids, options to rows, schemas to targets."""
