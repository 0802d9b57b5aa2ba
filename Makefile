# qsched — `make help` lists what there is. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed

.PHONY: help demo test check gate sim interleave fault mutants bench links clean

help:  ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(RUNTIME)  ## half a minute: triggers fire, a node stops, a misfire shows
	$(BIN)/python -m qsched demo

test: $(INSTALLED)  ## every test in its short form (under 8 minutes)
	$(BIN)/pytest -n 2 --dist loadfile -m "not alone"
	$(BIN)/pytest -m alone

check: $(INSTALLED) links  ## lint, format, types, contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd .links && ../$(BIN)/lint-imports --no-logo --no-cache ../pyproject.toml

gate: $(INSTALLED)  ## every test in its long form
	QSCHED_LONG=1 $(BIN)/pytest

SEEDS ?= 5000
sim: $(INSTALLED)  ## thousands of seeds of the whole protocol, in virtual time
	PYTHONPATH=tests $(BIN)/python -m sim --seeds $(SEEDS)

interleave: $(INSTALLED)  ## each two operations of the protocol, statement by statement, on real servers
	PYTHONPATH=tests $(BIN)/python -m interleave

fault: $(INSTALLED)  ## real nodes and servers killed, stopped, cut off and misled (half an hour)
	PYTHONPATH=tests $(BIN)/python -m fault --all

mutants: $(INSTALLED)  ## the protocol broken in every known way, each breakage noticed
	PYTHONPATH=tests $(BIN)/python -m mutants

bench: $(INSTALLED)  ## the measurements, one after another
	@set -e; export PYTHONPATH=tests; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

# The floors under their installed name, for the tools that read files and not import hooks.
links:
	@mkdir -p .links/qsched
	@for file in qsched/*.py qsched/py.typed; do ln -sfn ../../$$file .links/$$file; done
	@for floor in triggers scheduler cluster cli; do ln -sfn ../../$$floor .links/qsched/$$floor; done
	@for link in .links/qsched/*; do [ -e $$link ] || rm $$link; done

clean:  ## remove what make made
	rm -rf $(VENV) .links build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(MADE):
	@[ -n "$(PYTHON)" ] || { echo "qsched needs Python 3.11 or newer: install it, or name it: make PYTHON=…" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME): pyproject.toml | $(MADE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(INSTALLED): pyproject.toml | $(MADE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $(RUNTIME) $@
