# Everything is set up on first use: `make demo` and `make test` need Python 3.11+ and a package index.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Exact versions: an open range would pull the newest torch, with gigabytes of CUDA packages.
CONSTRAINTS ?= constraints.txt
export PIP_CONSTRAINT := $(abspath $(CONSTRAINTS))
# Tests start many processes: what they import is compiled once, not in each of them.
unexport PYTHONDONTWRITEBYTECODE
# About two minutes.
DEMO := --dataset cora --clients 3 --partition metis --secure shares --budget 100s

.PHONY: install demo test test-all docs bench dist clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "AutoFGL needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,docs,dev]'
	@touch $@

demo: install
	$(BIN)/autofgl auto $(DEMO)

test: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

docs: install
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/check_links.py site

test-all: test
	$(BIN)/pytest -m slow

bench: install
	@for script in $(filter-out benchmarks/asfgnn_%,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

dist: install
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

clean:
	rm -rf .venv dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
