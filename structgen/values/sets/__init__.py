"""Sets of numbers and of strings with all fields of the normal form, as automata over characters and predicates."""
