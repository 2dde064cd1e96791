# `make serve` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8787
PACKAGES := clients durable_objects protocols r2 worker wrangler_compat
# `acceptance` sizes, e.g. `make acceptance KILLS=1000`
KILLS ?= 200

.PHONY: install serve dev test lint types format bench vectors acceptance lock clean

install: $(VENV)/.installed

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Moorage needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	# an editable install compiles nothing, and where Python may not write bytecode every start would compile it all
	$(BIN)/python -m compileall -q $(PACKAGES)
	touch $@

serve: install
	$(BIN)/moorage serve --init-secrets --port $(PORT)

dev: install
	$(BIN)/moorage dev --init-secrets --r2 moto --port $(PORT)

test: install
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: install
	$(BIN)/python tests/support/typelinks.py
	$(BIN)/mypy

bench: install
	$(BIN)/python -m benchmarks

vectors: install
	$(BIN)/python -m tests.contract --vectors '$(VECTORS)' --family '$(FAMILY)' --area '$(AREA)'

acceptance: install
	$(BIN)/python -m pytest tests/acceptance --acceptance --kills $(KILLS)

lock: install
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) .types build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
