PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Two stamps, one per lock. The development lock holds all of the runtime lock, at the same versions, so
# whoever has it installed needs nothing more to run.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: setup run test test-all lint audit bench lock
.DEFAULT_GOAL := run

setup: $(DEV_STAMP)

run: $(RUN_STAMP)
	@$(BIN)/python manage.py serve

test: $(DEV_STAMP)
	$(BIN)/python -m pytest -m "not slow" -n 2 $(PYTEST_ARGS)

test-all: $(DEV_STAMP)
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive agent chatsite manage.py

# The lock against the known holes. It asks PyPI, so it is no part of the tests: they must not fail for what others found.
# Strict: an index that knows nothing of holes would else be taken for one that knows of none. (tests/site/known_holes.toml
# has some, for where PyPI cannot be reached.)
audit: $(DEV_STAMP)
	$(BIN)/pip-audit --disable-pip --strict --requirement requirements.lock

bench: $(DEV_STAMP)
	$(BIN)/python -m bench $(BENCH_ARGS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(DEV_STAMP): requirements-dev.lock | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $(RUN_STAMP) $@

$(RUN_STAMP): requirements.lock | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# Remakes both locks from pyproject.toml. `--universal` gives markers and hashes for every platform, so one
# file serves x86_64 and aarch64; without `--emit-index-url` it says nothing of where packages come from.
# The development lock is made first, and the runtime lock is held to its versions.
UV := $(VENV)/.lock/bin/uv
COMPILE := $(UV) --no-config pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-strip-extras --custom-compile-command "make lock"

lock: | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/.lock
	$(VENV)/.lock/bin/pip install --quiet uv
	$(COMPILE) --upgrade --extra dev --output-file requirements-dev.lock
	$(COMPILE) --upgrade --constraints requirements-dev.lock --output-file requirements.lock
