"""Tokens known ahead: forced text, and text that stands elsewhere already."""
