# Every target needs nothing but python3 and g++: it makes its own environment (.venv) and builds what is missing.
#   TORCH='torch==2.13.0' make test    another torch        PYTHON=python3.12    another Python for a new environment
#   VENV=path                          another environment  REPROCUDA_CUDA=0     no CUDA library
PYTHON ?= python3
TORCH ?= torch>=2.11
VENV ?= .venv
PYTEST_ARGS ?=

RUN := $(abspath $(VENV))/bin/python
export PATH := $(abspath $(VENV))/bin:$(PATH)

.PHONY: help environment build native test demo bench lint clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 14

environment:
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(RUN) setup_support/environment.py '$(TORCH)'

build: environment  ## compile the libraries in place; the edit loop (seconds)
	@mkdir -p build
	$(RUN) setup.py --quiet build_ext --inplace

native: environment  ## compile the modules that let tests reach numerics and emulated kernels
	@mkdir -p build
	$(RUN) tests/native/setup.py --quiet build_ext

test: build native  ## run all tests (PYTEST_ARGS='-k name' for some)
	$(RUN) -m pytest $(PYTEST_ARGS)

demo: build  ## train a small text model several times: native drifts, reprocuda repeats
	$(RUN) -m demo

bench: build  ## time against native torch; writes benchmarks/results
	$(RUN) -m benchmarks

lint: environment  ## ruff
	$(RUN) -m ruff check .

clean:  ## remove what was built (not the environment)
	rm -rf build dist reprocuda/*.so reprocuda/_build_info.json *.egg-info
