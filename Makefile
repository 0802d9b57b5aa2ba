# qsched — `make help` lists what there is.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test check gate bench links clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 18

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip setuptools
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $(STAMP)

links: $(STAMP)
	@mkdir -p .links && rm -rf .links/qsched && mkdir .links/qsched
	@for f in qsched/*.py qsched/py.typed; do ln -sfn ../../$$f .links/qsched/$$(basename $$f); done
	@for f in triggers scheduler cluster cli; do ln -sfn ../../$$f .links/qsched/$$f; done

check: links  ## lint, types, contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)  ## every test in its short form (under 8 minutes)
	$(BIN)/pytest

clean:  ## remove what make made
	rm -rf .venv .links build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
