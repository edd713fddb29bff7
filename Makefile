# A newcomer needs `make demo` and `make test`. Both build the environment first; later runs reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCHMARKS := $(filter-out benchmarks/common.py,$(wildcard benchmarks/*.py))

.PHONY: demo test test-fast check env bench clean

demo: env ## train and score on the built-in hospitals
	$(BIN)/wardround demo --out runs/demo

test: env ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-fast: env ## all tests except the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

check: env ## the checks that a change must pass
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

bench: env ## every benchmark at its quick size; the first run installs the peers into .bench/
	@for benchmark in $(BENCHMARKS); do echo "== $$benchmark"; $(BIN)/python $$benchmark --quick || exit 1; done

env: $(STAMP) ## only the virtual environment

# torch comes first and pinned: an open range would download gigabytes of CUDA where the CPU build is enough.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[minilm,lora,sealed,keyring,flare,console,tracking,dev]"
	touch $(STAMP)

clean: ## remove everything that was built
	rm -rf $(VENV) runs .mypy_cache .ruff_cache .hypothesis
