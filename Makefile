# Two commands for a fresh machine with Python 3.11, 3.12 or 3.13: `make demo` and `make test`.
# Each builds its own virtual environment and does the rest.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
DEMO_VENV ?= .venv-demo
DAFT_VENV ?= .venv-daft
BIN := $(VENV)/bin
PIP_OPTIONS ?= --quiet --disable-pip-version-check

.PHONY: demo test lint check-python campaign bench clean

demo: $(DEMO_VENV)/.ready
	@$(DEMO_VENV)/bin/tsviz demo

test: $(VENV)/.ready $(DAFT_VENV)/.ready lint
	$(BIN)/python -m pytest -ra -n 2 --dist loadgroup

lint: $(VENV)/.ready
	$(BIN)/ruff check tsviz tests bench
	$(BIN)/ruff format --check tsviz tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Minutes to an hour: random lifetimes against the real scheduler. SEED=... and LIFETIMES=... choose others.
campaign: $(VENV)/.ready
	SPDLOG_LEVEL=off $(BIN)/python -m tests.conformance.campaign --lifetimes $(or $(LIFETIMES),20000) --processes 2 --seed $(or $(SEED),1)

bench: $(VENV)/.ready
	$(BIN)/python -m bench

check-python:
	@test -n "$(PYTHON)" || { echo "tsviz needs Python 3.11, 3.12 or 3.13 on the PATH (or make PYTHON=...)" >&2; exit 1; }

$(VENV)/.ready: pyproject.toml constraints.txt | check-python
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) -c constraints.txt -e '.[dev,perfetto,report,serve,tokenspeed]'
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
	rm -rf $(VENV) $(DEMO_VENV) $(DAFT_VENV)
