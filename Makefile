# make demo    the demonstration of the README (sets everything up by itself)
# make test    the tests
# make test-thorough    the slow tests
# make formats and then
# make test    the tests of file formats and device code that need a gigabyte of other packages, too
# make engines and then
# make test-engines    the tests on Flink, Prism, S3 and GCS servers; needs Java, Maven and Go
# make docs    generate docs/reference/coverage.md, docs/images, the output of notebooks, and the gallery's README
# make site    the documentation as a site, in build/site; with QUICK=1 no example is executed for it
# make lint    style and types
# make soak    random plans, killed at random and resumed, for MINUTES=10; from the case SEED= on
# make wheel   a wheel for this version of Python with compiled kernels, in dist
# make bench   benchmarks that compare with other packages
# make benchmark-page   run the benchmarks of docs/reference/speed.md, and rewrite its tables and the README's
# make clean   remove everything that these commands created

PYTHON ?= python3
VENV ?= .venv
JOBS ?= auto
MINUTES ?= 10
# Most tests start processes. Without cached bytecode, half the time of their imports is compilation.
unexport PYTHONDONTWRITEBYTECODE
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check --no-input
# uv is much faster. pip is the fallback, for example for an index that is only configured for pip.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
UV = VIRTUAL_ENV=$(VENV) $(VENV)/bin/uv pip install --quiet
INSTALL = install() { $(UV) "$$@" || $(PIP) install --quiet --no-compile "$$@"; }; install

.PHONY: venv demo test test-thorough formats engines test-engines soak docs site wheel lint bench benchmark-page clean

venv: $(VENV)/.checks

# Requirements for running, and additional ones for checking, which the demo does not wait for.
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

# Adjacent tests run in one process if possible, since they need the same kernels.
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

# One after the other, since an engine uses all cores.
test-engines: venv
	$(VENV)/bin/python -m pytest tests/engines --durations=0 --durations-min=1

soak: venv
	$(VENV)/bin/python benchmarks/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

docs: venv
	$(VENV)/bin/python docs/stub.py
	$(VENV)/bin/python docs/coverage.py
	$(VENV)/bin/python docs/pictures.py
	$(VENV)/bin/python docs/concept_pictures.py
	$(VENV)/bin/python docs/site/run_pages.py docs/tutorials/*.ipynb docs/gallery

site: $(VENV)/.docs
	$(VENV)/bin/python docs/site/build.py build/site $(if $(QUICK),--quick)

$(VENV)/.docs: $(VENV)/.ready
	$(INSTALL) -e '.[docs]'
	touch $@

# NUMBA_CPU_NAME is a level that most processors have. WARM=recipe.yaml limits the kernels to those of a recipe.
wheel: venv
	rm -rf build/kernels build/lib
	NUMBA_CACHE_DIR=$(CURDIR)/build/kernels NUMBA_CPU_FEATURES= NUMBA_CPU_NAME=$$($(VENV)/bin/python -c \
	  'from beam_volumes.kernels.cache import LEVEL; print(LEVEL)') $(VENV)/bin/beam-volumes warm-up $(WARM)
	BEAM_VOLUMES_KERNELS=$(CURDIR)/build/kernels/beam_volumes \
	  $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

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

benchmark-page: $(VENV)/.bench
	$(VENV)/bin/python benchmarks/page.py

$(VENV)/.bench: $(VENV)/.ready
	$(INSTALL) -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) .engines demo build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
