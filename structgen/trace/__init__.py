"""Traces of runs: records, and a report of them as a page, in a notebook or in a terminal.

`records` are what a run leaves. `report` is a run as data that can be saved and read; `page` (with `drawings`) and
`terminal` show it. This folder reads results and runs nothing.
"""
