# One place for every command; `make` alone lists them. CI runs `make check` and `make test`, nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
READY := .venv/.ready
SITE_READY := .venv-site/.ready
ARGS ?=
RESOLVE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
# The tests that `make check` runs.
HOUSE := tests/house
# The documents of `make conformance`, which are none of this repository.
DOCS ?= ../shared/seeds

export PATH := $(BIN):$(PATH)
# Without it Spark asks the network for the name of this machine, which may not have one.
export SPARK_LOCAL_IP ?= 127.0.0.1
# Tests and benches start hundreds of Python processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-all test-servers check unit bench campaign conformance golden docs site pictures jar lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 16

setup: $(READY) ## make .venv with the locked packages and jars; seconds when nothing changed

$(READY): requirements.lock pyproject.toml src/headrace/connectors/jars.lock.toml $(wildcard tools/java* tests/servers/*.toml)
	@tools/java.sh
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make setup PYTHON=python3.12")'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { echo "On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@echo "Installing the locked packages into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@echo "Fetching the locked jars"
	@$(BIN)/python tools/jars.py
	@[ ! -e tests/servers/jars.py ] || $(BIN)/python tests/servers/jars.py
	@touch $@

demo: $(READY) ## run the example project on real data and show what came of it
	@$(BIN)/python examples/flights/demo.py

test: $(READY) ## run the tests that a change needs; ARGS="path -k name" go to pytest
	@$(PYTEST) -m "not long" $(or $(ARGS),--ignore=$(HOUSE))

test-all: $(READY) ## the same, the long tests and more examples of each law
	@HEADRACE_TESTS=all $(PYTEST) $(ARGS)

test-servers: $(READY) ## install the servers and the browser of `make test-all`; needs Go, npm and, once, apt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/browser/requirements.lock
	@$(BIN)/python tests/browser/parts.py
	@GOBIN=$(abspath $(BIN)) go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
	@GOBIN=$(abspath $(BIN)) go install github.com/fsouza/fake-gcs-server@v1.56.1
	@npm install --silent --no-audit --no-fund --no-save --prefix .venv/servers azurite@3.37.0

unit: $(READY) ## run the tests that need no JVM, in seconds
	@$(BIN)/pytest tests/unit $(ARGS)

check: $(READY) ## format, lint, types, import contracts and house rules; no JVM
	@$(BIN)/ruff format --check --quiet . || { echo "Run: .venv/bin/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }
	@$(BIN)/pytest -q $(HOUSE)

bench: $(READY) ## measure side by side with peers; ARGS="--only NAME --rows N --repeats N" for less
	@$(BIN)/python bench/run.py $(ARGS)

campaign: $(READY) ## kill, stop and race real updates; ARGS="--only kill --seed 7 --points 40 --master local[2]", ARGS="--only soak --minutes 120"
	@$(BIN)/python -m campaign $(ARGS)

conformance: $(READY) ## run the code examples of documents; DOCS=folder, ARGS="--only 000-02 --publish"
	@$(BIN)/python -m conformance $(DOCS) $(ARGS)

golden: $(READY) ## rewrite the expected texts of the tests; read the diff before you commit
	@HEADRACE_GOLDEN=rewrite $(BIN)/pytest $(ARGS)

pictures: $(READY) ## draw the pictures of the README and the docs again, from runs of the example and the tutorial; needs `make test-servers`
	@$(BIN)/python tools/pictures.py
	@$(BIN)/python tools/site/tutorial_pictures.py
	@$(BIN)/python tools/site/page_pictures.py

docs: $(READY) ## rewrite the reference pages that are made from the program
	@$(BIN)/python tools/docs.py

site: $(SITE_READY) ## build the documentation as a website, site/index.html, which needs no network and no server
	@NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --strict
	@echo "site/index.html"

$(SITE_READY): tools/site/requirements.lock
	@[ -x .venv-site/bin/python ] || $(PYTHON) -m venv .venv-site
	@.venv-site/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

jar: $(READY) ## build the package's own jar from src/java and lock its digest; needs a JDK 17
	@$(BIN)/python tools/storage_jar.py

lock: $(READY) ## resolve pyproject.toml, and what the website and the browser's tests need, into their requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(RESOLVE) --extra dev pyproject.toml -o requirements.lock
	@$(RESOLVE) tools/site/requirements.in -o tools/site/requirements.lock
	@$(RESOLVE) -c requirements.lock tests/browser/requirements.in -o tests/browser/requirements.lock

clean: ## remove the environment and everything else that was made here
	@rm -rf .venv .venv-site site .demo .bench .campaign .conformance dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@rm -rf spark-warehouse metastore_db derby.log
	@find src tests tools examples bench campaign conformance -name __pycache__ -type d -prune -exec rm -rf {} +
