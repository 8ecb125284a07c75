# make demo    the demonstration of the README (sets everything up by itself)
# make test    the tests
# make test-thorough    and those of them that take longer than a change can wait
# make formats and then
# make test    the tests of files that need half a gigabyte of other packages, too
# make engines and then
# make test-engines    the tests on Flink, Prism, S3 and GCS servers; needs Java, Maven and Go
# make docs    docs/reference/coverage.md and docs/images, from code
# make site    the documentation as a site, in build/site
# make lint    style and types
# make soak    random plans, killed at random and resumed, for MINUTES=10
# make bench   benchmarks against other ways to do the same
# make clean   remove what the above have made

PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
MINUTES ?= 10
# Most tests start processes, and half the time of their imports is compiling what is not kept.
unexport PYTHONDONTWRITEBYTECODE
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --no-input
# uv installs in a fraction of the time. Where it cannot, pip does: of an index that only pip is told of.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
UV = VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --quiet
INSTALL = install() { $(UV) "$$@" || $(PIP) install --quiet --no-compile "$$@"; }; install

.PHONY: venv demo test test-thorough formats engines test-engines soak docs site lint bench clean

venv: $(VENV)/.checks

# What running needs, and what checking needs on top: the demo does not wait for the latter.
$(VENV)/.ready: pyproject.toml setup.py
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet uv || true
	$(INSTALL) -e .
	touch $@

$(VENV)/.checks: $(VENV)/.ready
	$(INSTALL) -e '.[test,lint]'
	touch $@

demo: $(VENV)/.ready
	$(VENV)/bin/beam-volumes demo --out demo

# Neighbours stay in one process, as far as it goes: they need the same kernels.
test: venv
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist worksteal -m "not thorough"

test-thorough: venv
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist worksteal -m thorough

formats: $(VENV)/.formats

$(VENV)/.formats: $(VENV)/.checks
	$(INSTALL) -e '.[test-formats]'
	touch $@

engines: venv
	PYTHON=$(abspath $(VENV))/bin/python engines/install.sh

# One after the other: an engine takes all cores.
test-engines: venv
	$(VENV)/bin/python -m pytest tests/engines --durations=0 --durations-min=1

soak: venv
	$(VENV)/bin/python benchmarks/soak.py --minutes $(MINUTES)

docs: venv
	$(VENV)/bin/python docs/coverage.py
	$(VENV)/bin/python docs/pictures.py
	$(VENV)/bin/python docs/concept_pictures.py

site: $(VENV)/.docs
	$(VENV)/bin/python docs/site/build.py build/site

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) -e '.[docs]'
	touch $@

lint: venv
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/.bench
	$(VENV)/bin/python benchmarks/contract.py
	$(VENV)/bin/python benchmarks/sweep.py
	$(VENV)/bin/python benchmarks/slow.py
	$(VENV)/bin/python benchmarks/merge.py
	$(VENV)/bin/python benchmarks/across.py
	$(VENV)/bin/python benchmarks/scale.py
	$(VENV)/bin/python benchmarks/peaks.py
	$(VENV)/bin/python benchmarks/convert.py

$(VENV)/.bench: $(VENV)/.ready
	$(INSTALL) -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .engines demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
