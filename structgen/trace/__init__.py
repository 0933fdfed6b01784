"""Traces of runs: records, and a report of them as a page, in a notebook or in a terminal."""
