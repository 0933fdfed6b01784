"""Other engines and loops: each module imports its package, and is imported by nothing here."""
