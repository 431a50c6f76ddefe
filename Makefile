# make setup   a virtual environment in .venv with everything installed
# make demo    the residual block and ResNet-50, verified, optimised and measured
# make test    the test suite
# make check   lint, format, types, import directions, tests
# make fuzz    a minute of random rules, operators and models from a fixed seed; FUZZ_SECONDS and FUZZ_SEED say otherwise
# make nightly the long explorations: the whole library verified with the date for a seed, an hour of fuzzing
# CI runs check and fuzz.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
FUZZ_SECONDS ?= 60
FUZZ_SEED ?= 0
TODAY = $$(date +%Y%m%d)
# Two workers share the machine: more threads within each would only fight for the cores.
THREADS := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: setup demo test check lint format types fuzz nightly clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,onnx,models,cluster]'
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(THREADS) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not nightly'

check: lint types test

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

fuzz: $(STAMP)
	$(THREADS) $(BIN)/python -m rewright fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED) --jobs $(WORKERS)

nightly: $(STAMP)
	HYPOTHESIS_PROFILE=nightly $(THREADS) $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal
	$(THREADS) $(BIN)/python -m rewright verify --fresh --jobs $(WORKERS) --seed $(TODAY)
	$(MAKE) fuzz FUZZ_SECONDS=3600 FUZZ_SEED=$(TODAY)

clean:
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
