# Every command sets up what it needs, so a clean clone needs no other step.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Modules are compiled once, not by each of the hundred processes that a test run starts.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
N ?= 200
PART ?= kustomizations
KEEP ?=
ONLY ?=
WRITE ?=
PYTEST = $(BIN)/python -m pytest
QUICK_PATH := tests/e2e/test_main_job.py
PYTEST_ARGS ?=
WORKERS ?= 3

# The flags of toolkit/compiling/flags.py, so that tests and checks use what is compiled already.
GO_FLAGS := -buildmode=pie -trimpath -buildvcs=false -pgo=off -gcflags=all=-dwarf=false

NODE_PACKAGES := containerd runc containernetworking-plugins iptables iproute2 util-linux

.PHONY: help nodepackages dev engine controlplane demo up test quick test-slow mutants testtools docs unit loopback contract conformance e2e check generate lock bench image wheel clean

help: ## List the commands
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

demo: dev engine controlplane ## Show the main job from nothing, in a minute
	@KEEP=$(KEEP) $(BIN)/python -m cli.demo

test: dev engine ## Run every test that is not slow
	@$(PYTEST) -m "not slow" -n $(WORKERS) --maxfail=10 $(PYTEST_ARGS)
	@cd engine && GOTOOLCHAIN=local GOFLAGS="$(GO_FLAGS)" "$$(../$(BIN)/python -m controlplane.gotool)" test ./...

quick: dev engine ## Run unit and loopback tests, and one path from end to end
	@paths='tests/unit tests/loopback'; \
	if $(BIN)/python -m controlplane build --check; then paths="$$paths $(QUICK_PATH)"; \
	else echo '► $(QUICK_PATH) is left out: `make controlplane` builds what it needs'; fi; \
	$(PYTEST) -m "not slow" -n $(WORKERS) --maxfail=10 $$paths $(PYTEST_ARGS)

test-slow: dev engine ## Run the fuzzers, soaks and giants
	@$(PYTEST) -m slow -n $(WORKERS) $(PYTEST_ARGS)

mutants: dev engine testtools ## Remove each refusal once and see a test fail (make mutants ONLY=webhooks)
	@$(BIN)/python -m tests.tools.mutants --workers $(WORKERS) $(ONLY)

unit: dev engine ## Run the tests of one module each
	@$(PYTEST) -m "not slow" -n $(WORKERS) tests/unit $(PYTEST_ARGS)

loopback: dev engine ## Run the tests against other servers than an API server
	@$(PYTEST) -m "not slow" tests/loopback $(PYTEST_ARGS)

contract: dev engine ## Run the tests against a real API server
	@$(PYTEST) -m "not slow" tests/contract $(PYTEST_ARGS)

conformance: dev engine ## Run the golden cases
	@$(PYTEST) -m "not slow" tests/conformance $(PYTEST_ARGS)

e2e: dev engine ## Run the whole product through the seeds' manifests and failures
	@$(PYTEST) -m "not slow" tests/e2e $(PYTEST_ARGS)

bench: dev engine controlplane ## Measure N objects (make bench N=200 PART=sources)
	@$(BIN)/python -m bench --part $(PART) --n $(N)

up: dev engine controlplane ## Run Penstock on the embedded control plane until Ctrl-C
	@$(BIN)/python -m cli up

check: dev engine ## Lint, types, import contracts, generated files, documents
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m crds check
	@$(BIN)/python -m controllers.rbac check
	@$(BIN)/python -m webhooks check
	@$(BIN)/python -m apiserver check
	@$(BIN)/python -m cli.reference check
	@$(BIN)/python -m cli.chart check
	@$(PYTEST) --quiet tests/docs
	@go="$$($(BIN)/python -m controlplane.gotool)"; cd engine; \
	  test -z "$$("$$(dirname "$$go")/gofmt" -l . ../tests/tools)" || { echo "gofmt: Go files are not formatted" >&2; exit 1; }; \
	  GOTOOLCHAIN=local GOFLAGS="$(GO_FLAGS)" "$$go" vet -tags=helm ./...

generate: dev engine ## Rewrite every generated file
	@$(BIN)/python -m crds generate
	@$(BIN)/python -m controllers.rbac generate
	@$(BIN)/python -m webhooks generate
	@$(BIN)/python -m apiserver generate
	@$(BIN)/python -m cli.reference generate
	@# Last, because it is made of what the others write.
	@$(BIN)/python -m cli.chart generate

dev: $(VENV)/.locked ## Make the virtual environment from the lock

$(VENV)/.locked: requirements/bootstrap.txt requirements/dev.txt
	@echo '► virtual environment'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Penstock needs Python 3.11 or newer, this is " + sys.version)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements/dev.txt requirements/bootstrap.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@
	@echo '✔ virtual environment'

engine: dev ## Build the Go engine (cached by its sources)
	@$(BIN)/python -m toolkit.native.build

controlplane: dev ## Build the embedded control plane (cached by version)
	@$(BIN)/python -m controlplane build

testtools: dev ## Build the servers and tools that tests run (cached by their pins)
	@$(BIN)/python -m tests.tools.preparing

docs: dev engine controlplane ## Compare outputs in documents with real runs (make docs WRITE=1 rewrites them)
	@$(BIN)/python -m tests.docs.outputs $(if $(WRITE),write)

lock: dev ## Pin Python, Go and Debian packages by hash in requirements/*.txt
	@for name in bootstrap runtime dev go; do \
	  $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 \
	    --custom-compile-command 'make lock' requirements/$$name.in -o requirements/$$name.txt; done
	@$(BIN)/python -m release lock

image: dev engine ## Build the image, without a container daemon
	@$(BIN)/python -m release build

wheel: dev engine ## Build the wheel of the command line for this machine's platform
	@$(BIN)/python -m release wheel

nodepackages: ## Install what a real node takes from Debian or Ubuntu (needs root)
	@dpkg -s $(NODE_PACKAGES) >/dev/null 2>&1 || { apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(NODE_PACKAGES); }

clean: ## Remove what was made in this checkout (not the caches)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist *.egg-info
