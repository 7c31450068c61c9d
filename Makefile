# Everything runs in a virtual environment of its own; only Python >= 3.11 and make are needed.
VENV ?= .venv
PY := $(VENV)/bin/python
# Without a warning of setuptools about folders of the same name.
INSTALL := PYTHONWARNINGS="ignore:Editable installation" $(PY) -m pip install --quiet
OUTPUT ?= output
WORKERS ?= auto
# How many of the slowest tests are listed.
SLOWEST ?= 25
# One thread for each test process: many small fits in parallel, none large.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

# The first interpreter of at least 3.11 (names on the path may be stubs, so each is run).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help demo test test-all test-oldest conformance lint docs bench dist clean

help:
	@echo "To use the package:"
	@echo "  make demo         the main job on real data: tables, and one picture in $(OUTPUT)/"
	@echo "  make test         install and run the tests (SLOWEST=25 lists so many of the slowest)"
	@echo "To change it (CONTRIBUTING.md says how long each takes):"
	@echo "  make lint         ruff, layers, types, docstrings, labels, words, names, spelling"
	@echo "  make conformance  scikit-learn's own search tests, with our search swapped in"
	@echo "  make docs         the documentation, in doc/_build/html"
	@echo "  make test-oldest  the tests with the oldest versions that are supported"
	@echo "  make test-all     the tests with the statistical ones in full size (40 minutes)"
	@echo "  make bench        all benchmarks, into benchmarks/results.md (hours)"
	@echo "                    SIZE=small: minutes, into $(OUTPUT)/"
	@echo "  make dist         source distribution and wheel, in dist/ (URL=: of the repository, for links)"
	@echo "  make clean        remove everything that the targets above made"
	@echo "One file or one test: $(PY) -m pytest tests/planning -k certify"

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 is needed and was not found"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.plot: $(VENV)/.made setup.cfg pyproject.toml
	$(INSTALL) --editable ".[plot]"
	@touch $@

$(VENV)/.test: $(VENV)/.made setup.cfg pyproject.toml
	$(INSTALL) --editable ".[test]"
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	$(INSTALL) --editable ".[lint]"
	@touch $@

demo: $(VENV)/.plot
	$(PY) examples/demo.py --output $(OUTPUT)

test: $(VENV)/.test
	$(PY) -m pytest -n $(WORKERS) -m "not slow" --durations=$(SLOWEST)

test-all: $(VENV)/.test
	$(PY) -m pytest -n $(WORKERS) --durations=$(SLOWEST)

conformance: $(VENV)/.test
	$(PY) tests/conformance/run.py

lint: $(VENV)/.lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(PY) -m codespell_lib
	$(PY) -m mypy
	$(PY) .ci/check_types.py
	$(PY) .ci/validate_docstrings.py
	$(PY) .ci/check_circles.py
	$(PY) .ci/check_labels.py
	$(PY) .ci/check_words.py
	$(PY) .ci/check_names.py

# The oldest versions that setup.cfg admits, in an environment of their own.
test-oldest:
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 is needed and was not found"; exit 1; }
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-oldest/bin/python .ci/oldest.py > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --editable ".[test]" \
		--constraint $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pytest -n $(WORKERS) -m "not slow"

# A quick look: make bench SIZE=small
SIZE ?= full
bench: $(VENV)/.test
	$(PY) -m benchmarks --size $(SIZE)

$(VENV)/.docs: $(VENV)/.test doc/constraints.txt
	$(INSTALL) --editable ".[docs]" --constraint doc/constraints.txt
	@touch $@

# Each page prints what it shows, with the versions of doc/constraints.txt. Warnings are errors; the
# examples run and their pictures become the gallery.
docs: $(VENV)/.docs
	$(PY) -m pytest -q -n $(WORKERS) tests/test_docs.py -k "code_blocks"
	$(PY) -m sphinx -W --keep-going -b html doc doc/_build/html
	$(PY) .ci/check_site.py doc/_build/html
	$(PY) .ci/check_layout.py doc/_build/html
	@echo "open doc/_build/html/index.html"

# The wheel is checked, installed into a bare environment and used.
dist: $(VENV)/.made
	rm -rf dist build/export build/smoke
	$(PY) -m pip install --quiet build twine
	$(PY) .ci/export.py build/export $(URL)
	$(PY) -m build --outdir dist build/export
	$(PY) -m twine check --strict dist/*
	$(PYTHON) -m venv build/smoke
	build/smoke/bin/python -m pip install --quiet dist/*.whl
	build/smoke/bin/python .ci/smoke.py

clean:
	rm -rf $(VENV) $(VENV)-oldest doc/_build doc/auto_examples doc/generated doc/api*.rst build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis $(OUTPUT)
