# `make demo` or `make test` is all a fresh machine needs: each makes its own environment from the lock first.

PYTHON  ?= $(shell command -v python3.11 >/dev/null 2>&1 && python3.11 -c 'import sys' 2>/dev/null && echo python3.11 || echo python3)
VENV    ?= .venv
WORKERS ?= 2
LOWEST_PYTHON ?= python3.10
LOWEST  ?= .venv-lowest
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed

# Two cores are shared by the test workers; libraries that start a thread per core each would only fight.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: environment demo test test-slow lowest lint types docs check bench clean

environment: $(STAMP)

# torch comes first and alone, pinned by the lock, so that no other package pulls in another build of it.
$(STAMP): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' requirements-dev.lock)"
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/structgen demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow

# The oldest Python with the oldest packages that pyproject.toml permits, each of them pinned. Not in CI: torch of that age comes
# from the index with CUDA's libraries, 6 GB in all.
lowest:
	test -x $(LOWEST)/bin/python || $(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --requirement requirements-lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: $(STAMP)
	$(BIN)/mypy

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What the continuous integration runs.
check: test lint types docs test-slow

bench: $(STAMP)
	$(BIN)/python benchmarks/maskbench.py --readme README.md

clean:
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
