"""Adapters for other engines and loops. Each module imports the other package; nothing of structgen imports it."""
