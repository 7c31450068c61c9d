# Everything runs in a virtual environment of its own; only Python >= 3.11 and make are needed.
VENV ?= .venv
PY := $(VENV)/bin/python
OUTPUT ?= output
WORKERS ?= auto
# One thread for each test process: many small fits in parallel, none large.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# The first interpreter of at least 3.11 (names on the path may be stubs, so each is run).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help demo test test-all conformance lint bench clean

help:
	@echo "make demo      the main job on real data: tables and one picture in $(OUTPUT)/"
	@echo "make test      install and run the tests (a few minutes)"
	@echo "make test-all  the same, with the statistical tests in full size"
	@echo "make conformance  scikit-learn's own search tests, with our search swapped in"
	@echo "make lint      ruff, layers, docstrings, spelling"
	@echo "make bench     speed, as ratios against named peers in one run"

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 is needed and was not found"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.plot: $(VENV)/.made setup.cfg pyproject.toml
	$(PY) -m pip install --quiet --editable ".[plot]"
	@touch $@

$(VENV)/.test: $(VENV)/.made setup.cfg pyproject.toml
	$(PY) -m pip install --quiet --editable ".[test]"
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(PY) -m pip install --quiet --editable ".[lint]"
	@touch $@

demo: $(VENV)/.plot
	$(PY) examples/demo.py --output $(OUTPUT)

test: $(VENV)/.test
	$(PY) -m pytest -n $(WORKERS) -m "not slow"

test-all: $(VENV)/.test
	$(PY) -m pytest -n $(WORKERS)

conformance: $(VENV)/.test
	$(PY) tests/conformance/run.py

lint: $(VENV)/.lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(PY) -m codespell_lib
	$(PY) .ci/validate_docstrings.py

bench: $(VENV)/.test
	$(PY) -m benchmarks

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis $(OUTPUT)
