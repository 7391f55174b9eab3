# Two targets do everything on a fresh machine: `make demo` and `make test`. A rerun skips what is already there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODEL := .cache/smollm2
# Without a GPU this release has a small CPU build on some mirrors; override TORCH to choose another.
TORCH ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo 'torch>=2.10' || echo 'torch==2.13.0')

# Downloads may only be missing where no package index answers; where one does, a failed download is a failed test.
UNREACHABLE = ! $(BIN)/pip download --quiet --no-cache-dir --no-deps --dest .cache/probe iniconfig

.PHONY: demo demo-real test lint unit test-sglang live-matrix setup model docs clean

demo: setup
	$(BIN)/hsforensics demo
	@echo "hsforensics lies in $(BIN); to type it as above: . $(BIN)/activate"

demo-real: setup model
	BIN=$(BIN) MODEL=$(MODEL) bash tools/demo.sh

test: setup lint
	@$(MAKE) --no-print-directory model || { $(UNREACHABLE) && echo "LOUD: no real model: tests marked 'real' are skipped" >&2; }
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory test-sglang

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/gen_docs.py --check

unit: setup
	OMP_NUM_THREADS=1 HSF_SMOLLM2=$(MODEL) $(BIN)/python -m pytest -n 2 --durations 10 -m 'not sglang'

# Real SGLang on the CPU, in virtual environments of its own (2.3 GB each); without a package index only a loud skip.
test-sglang: setup
	@if bash tests/sglang/install.sh .cache $(PYTHON); then \
	  OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/sglang -m sglang -v --durations 0; \
	else \
	  $(UNREACHABLE) && echo "LOUD: no SGLang: tests marked 'sglang' are skipped" >&2; \
	fi

live-matrix: setup
	bash tests/sglang/install.sh .cache $(PYTHON)
	OMP_NUM_THREADS=1 $(BIN)/python tools/live_matrix.py

setup: $(READY)

$(READY): pyproject.toml tools/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -qq '$(TORCH)'
	$(BIN)/pip install -qq --constraint tools/constraints.txt --editable '.[test]'
	touch $@

model: setup
	$(BIN)/python tools/fetch_smollm2.py $(MODEL)

docs: setup
	$(BIN)/python tools/gen_docs.py

clean:
	rm -rf $(VENV) .cache demo-out
