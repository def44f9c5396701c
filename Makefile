# Needs only Python 3.11+, make and the package registry. Never calls apt.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# the test files with one of the marks: to collect all takes every process 20 seconds
MARKED = $$(grep -rlE --include='*.py' 'mark\.($(1))\b' tests | sort)

.PHONY: demo app test soak docs pictures lint types contracts pytest together alone soak-together soak-alone audit wheel clean help

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(VENV)/bin/python:
	@echo "Creating the environment in $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Copperline needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing Copperline (about 300 MB of packages on the first call) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "Installing the development tools ..."
	@$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.ready-docs: $(VENV)/.ready-dev
	@echo "Installing the documentation tools ..."
	@$(PIP) --editable '.[docs]'
	@touch $@

demo: $(VENV)/.ready  ## steer the built-in example sweep and write a report
	@$(BIN)/copperline demo
	@command -v copperline > /dev/null || echo "The command copperline is in $(BIN); to type it alone: . $(BIN)/activate"

app: $(VENV)/.ready  ## open the browser UI
	@$(BIN)/copperline app

test: $(VENV)/.ready-dev lint contracts together  ## lint, types, import contracts and the tests that this machine allows
	@$(MAKE) --no-print-directory --jobs=2 types alone  # the tests that wait leave a core to the types

lint: $(VENV)/.ready-dev  ## ruff: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-dev  ## mypy, strict
	$(BIN)/mypy

contracts: $(VENV)/.ready-dev  ## import-linter: who may import whom
	$(BIN)/lint-imports

pytest: together alone  ## all tests but the soak, the browser ones too; skips are listed with their reason

together: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m "not soak and not fuzz and not browser and not faults and not slurm" --durations=10

alone: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m "(browser or faults or slurm) and not soak" -n 0 $(call MARKED,browser|faults|slurm) --durations=10

docs: $(VENV)/.ready-docs  ## build the documentation site into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

pictures: $(VENV)/.ready-docs  ## draw the pictures of README and docs anew, from the real programs
	$(BIN)/python docs/pictures/draw_runs.py
	$(BIN)/python docs/pictures/draw_gallery.py
	$(BIN)/python docs/pictures/draw_steering.py

soak: $(VENV)/.ready-dev docs  ## what is long by nature: crash points, fuzzing, whole logs, full sizes; the quick claims of the docs, and their site
	$(BIN)/python -m benchmarks.claims --quick
	@$(MAKE) --no-print-directory --jobs=2 soak-together soak-alone

soak-together: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m "(soak or fuzz) and not browser and not faults and not slurm" $(call MARKED,soak|fuzz) --durations=10

soak-alone: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -m "soak and (browser or faults or slurm)" -n 0 $(call MARKED,browser|faults|slurm) --durations=10

audit: $(VENV)/.ready-dev  ## known vulnerabilities of the pinned packages; needs the advisories of pypi.org
	@$(PIP) pip-audit
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

wheel: $(VENV)/.ready-dev  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove the environment and what was built
	rm -rf $(VENV) dist docs/_build copperline-out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
