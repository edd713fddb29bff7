# A newcomer needs `make demo` and `make test`. Both build the environment first; later runs reuse it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := minilm,lora,sealed,dp,keyring,flare,console,serve,onnx,spacy,parquet,tracking,notebook,docs,dev
BENCHMARKS := $(filter-out benchmarks/common.py,$(wildcard benchmarks/*.py))

.PHONY: demo test test-fast test-lowest check env bench docs dist clean

demo: env ## train and score on the built-in hospitals
	$(BIN)/wardround demo --out runs/demo

test: env ## the whole suite
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-fast: env ## all tests except the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-lowest: ## a part of the suite with the lowest versions that pyproject.toml allows, in .lowest/
	$(PYTHON) scripts/lowest_versions.py

check: env ## the checks that a change must pass
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

bench: env ## every benchmark at its quick size; the first run installs the peers into .bench/
	@for benchmark in $(BENCHMARKS); do echo "== $$benchmark"; $(BIN)/python $$benchmark --quick || exit 1; done

docs: env ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: env ## the wheel and the source archive, in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

env: $(STAMP) ## only the virtual environment

# torch comes first and pinned: an open range would download gigabytes of CUDA where the CPU build is enough.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $(STAMP)

clean: ## remove everything that was built
	rm -rf $(VENV) .lowest dist site runs .mypy_cache .ruff_cache .hypothesis
