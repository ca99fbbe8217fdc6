# Newcomers need `make report` and `make test` only; both make .venv on first use.
PYTHON ?= python3
BIN := .venv/bin

# The seed of the random search; HYPOTHESIS_SEED=... repeats a run.
HYPOTHESIS_SEED ?= $(shell $(PYTHON) -c 'import secrets; print(secrets.randbits(32))')
# The Pythons of `make test-versions`.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

.PHONY: report docs test lint types layers pytest pytest-first pytest-second notebooks-write test-long test-versions release-check book release bench outside clean

report: .venv/report
	$(BIN)/skdp report --out report

# The site, in site/html/index.html. Warnings, such as broken links, are errors; then its search is tested.
docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -j 2 -q -d site/.doctrees docs site/html
	$(BIN)/python docs/check_search.py site/html

# Lint first, which takes a second; then the checks of types and layers beside the tests.
test: lint
	$(MAKE) --no-print-directory -j 4 types layers pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Without the collection of garbage, which takes a fifth of the time of mypy, and saves half a gigabyte.
types: .venv/installed
	$(BIN)/python -c 'import gc; gc.enable = gc.disable; gc.disable(); import mypy.__main__ as m; m.console_entry()'

layers: .venv/installed
	$(BIN)/lint-imports

# Two runs of half of the tests each: workers of one run would collect all tests twice, and pickle each result. The first
# three packages share workers of joblib, which import skdp for three seconds. Rewriting all assertions, so that failures
# show their values, takes as long as a thousand tests, so only failed tests run again with it. Plugins that these runs do
# not use, such as xdist, are not loaded.
FIRST := $(addprefix tests/,base evaluation privacy central engines)
pytest: pytest-first pytest-second
pytest-first: SELECTED = $(FIRST) skdp
pytest-second: SELECTED = tests $(addprefix --ignore=,$(FIRST))
# Threads of Polars wait for work in a loop, which takes an eighth of the time of its tests; those of engines, in the first
# run, need several threads.
pytest-second: export POLARS_MAX_THREADS = 1
pytest-first pytest-second: .venv/installed
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/pytest -p _hypothesis_pytestplugin -m "not long" -o cache_dir=.pytest_cache/$@ --assert=plain $(SELECTED) \
		|| { $(BIN)/pytest -o cache_dir=.pytest_cache/$@ --last-failed --last-failed-no-failures=none $(SELECTED); exit 1; }

# Make the notebooks, with output, from the percent scripts, which are the source.
notebooks-write: .venv/installed
	$(BIN)/jupytext --to ipynb --execute notebooks/*.py

# All notebooks, the studies that take minutes, and the property tests on random examples (the printed command shows the
# seed). The quick tests run again for the branch coverage of all tests together.
test-long: .venv/installed .venv/spark docs
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 -m long --secure --cov --cov-append --cov-fail-under=0 --cov-report=
	$(BIN)/pytest -n 2 -m "hypothesis and not long" --hypothesis-profile=search --hypothesis-seed=$(HYPOTHESIS_SEED) --secure \
		--cov --cov-append --cov-fail-under=0 --cov-report= tests
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" --cov --cov-append --cov-fail-under=0 --cov-report= tests skdp
	$(BIN)/coverage report

# The newest dependencies on each installed Python of the list, and the oldest dependencies on the first.
test-versions:
	$(PYTHON) .ci/versions.py $(PYTHONS)

# Two builds that are equal byte for byte, a test of the wheel in a bare environment, and a list of its packages: in dist.
release-check: .venv/release
	$(BIN)/python .ci/release.py

# The whole documentation in one file, in site/epub/skdp.epub.
book: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -b epub -q -d site/.doctrees docs site/epub
	$(BIN)/python docs/check_book.py site/epub/skdp.epub

# In a clean clone: build and check the release, add the book, check that no headline is older than its code, and tag
# the commit.
release: release-check book
	$(BIN)/python benchmarks/_headlines.py
	$(BIN)/python .ci/tag_release.py

# All benchmarks, one after another, and their headlines; an interrupted run continues. Other libraries have a separate
# environment.
BENCHMARKS = $(filter-out run, $(basename $(notdir $(wildcard benchmarks/[a-z]*.py))))
bench: .venv-bench/installed
	for name in $(BENCHMARKS); do .venv-bench/bin/python benchmarks/run.py $$name || exit 1; done
	.venv-bench/bin/python benchmarks/_headlines.py

# uv takes a sixth of the time of pip. pip is used if uv is not available, or finds no packages because it does not read
# pip's settings.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[$(EXTRAS)]' \
		|| $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[$(EXTRAS)]'
.venv/uv: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("skdp needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv --without-pip .venv
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --no-compile pip uv \
		|| { $(PYTHON) -m venv .venv; $(BIN)/pip install --quiet uv || true; }
	touch $@

# The report needs 32 of the 149 packages of the tests.
.venv/report: EXTRAS = fairness,plot
.venv/report: .venv/uv
	$(INSTALL)
	touch $@

# All files are compiled once, except tests of dependencies and rarely used packages; otherwise each process of the tests
# compiles skdp.
.venv/installed: EXTRAS = all,dev
UNUSED := '/(tests?|_spark_like|axisartist|babel|bleach|bs4|cobyqa|coverage|dashboard|debugpy|distutils|docutils|experimental|fontTools|hypothesis/extra|importlinter|IPython|ipykernel|jedi|mistune|mypyc?|nbconvert|parso|pexpect|pip|pkg_resources|prettytable|prompt_toolkit|pygments|pyprima|requests|scipy/cluster|scipy/signal|setuptools|snowballstemmer|soupsieve|sphinx|urllib3|wcwidth)/'
.venv/installed: .venv/uv
	$(INSTALL)
	-$(BIN)/python -m compileall -qq -j 0 -x $(UNUSED) .venv/lib skdp tests
	touch $@

# Some of the long tests need Spark and Java 17.
.venv/spark: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[spark]'
	touch $@

.venv/docs: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

.venv/release: .venv/installed
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[release]'
	touch $@

# dp-accounting requires an older version of attrs than the tests have.
.venv-bench/installed: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	grep -v '^attrs==' constraints.txt > .venv-bench/constraints.txt
	.venv-bench/bin/pip install --quiet --constraint .venv-bench/constraints.txt --editable '.[fairness]' --requirement benchmarks/requirements.txt
	touch $@

# Checks by tools that others wrote, in an environment of their own; their logs are in benchmarks/results/outside.
outside: .venv-outside/installed
	.venv-outside/bin/python .ci/outside/run.py

DP_RECORDER ?= git+https://github.com/ObliviousAI/dp-recorder@85d189ebd7ff81a52984708322ee2c2d8c479db4
.venv-outside/installed: pyproject.toml .ci/outside/requirements.txt
	$(PYTHON) -m venv .venv-outside
	.venv-outside/bin/pip install --quiet --editable . --requirement .ci/outside/requirements.txt
	.venv-outside/bin/pip install --quiet --no-deps '$(DP_RECORDER)'
	touch $@

clean:
	rm -rf .venv .venv-versions .venv-bench .venv-outside report site
