"""Benchmarks: `python -m benchmarks NAME` runs one of them, `python -m benchmarks` lists them."""
