# Two commands do everything: `make run` shows the demo, `make test` runs all tests. Both make what they need.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.PHONY: run test check bench docs proof simulate mutants clean

run: $(READY)  ## the demo: an agent killed three times, and what its memory says then
	$(BIN)/lineal demo $(TRANSCRIPT)

test: $(READY)  ## all tests, style and types
	$(BIN)/ruff check src tests bench examples
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadgroup

check: test

proof: $(READY)  ## every campaign of faults, as one table (minutes; SCALE=4 for longer)
	$(BIN)/python -m lineal.testing prove --scale $(or $(SCALE),1)

simulate: $(READY)  ## the deterministic simulation, SEEDS=n of it, on both engines
	$(BIN)/python -m lineal.testing simulate --seeds $(or $(SEEDS),2000)
	$(BIN)/python -m lineal.testing simulate --seeds $(or $(SQLITE_SEEDS),200) --engine sqlite

mutants: $(READY)  ## leave out each rule and each step: some test must fail (half an hour)
	$(BIN)/python tests/mutations/run.py

bench: $(READY)  ## ratios against the bare engine, on this machine
	$(BIN)/python bench/append.py
	$(BIN)/python bench/open_and_show.py

docs: $(READY)  ## print the docs' tables again from the code
	$(BIN)/python docs/render.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lineal needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) lineal-demo.*
