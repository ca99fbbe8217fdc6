# Newcomers need `make report` and `make test` only; both make .venv on first use.
PYTHON ?= python3
BIN := .venv/bin

# The seed of the random search; HYPOTHESIS_SEED=... repeats a run.
HYPOTHESIS_SEED ?= $(shell $(PYTHON) -c 'import secrets; print(secrets.randbits(32))')
# The Pythons of `make test-versions`.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

.PHONY: report docs test lint types layers pytest notebooks-write test-long test-versions release-check book release bench outside clean

report: .venv/installed
	$(BIN)/skdp report --out report

# The site, in site/html/index.html. Warnings are errors, links that lead nowhere among them; then its search is asked.
docs: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -j 2 -q -d site/.doctrees docs site/html
	$(BIN)/python docs/check_search.py site/html

# Lint first, which takes a second; then the checks of types and layers beside the tests.
test: lint
	$(MAKE) --no-print-directory -j 3 types layers pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/mypy

layers: .venv/installed
	$(BIN)/lint-imports

# A short notebook first: it is a long test. The other notebooks run in `make test-long`. To write the assertions of all
# files again, so that failures show their values, takes as long as to run a thousand tests: what fails is run once more.
pytest: .venv/installed
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" --assert=plain tests/test_notebooks.py tests skdp \
		|| { $(BIN)/pytest --last-failed --last-failed-no-failures=none tests skdp; exit 1; }

# The percent scripts are the source; this makes the notebooks from them, with output.
notebooks-write: .venv/installed
	$(BIN)/jupytext --to ipynb --execute notebooks/*.py

# All notebooks, the studies that take minutes, and the property tests on random examples (the printed command shows the
# seed). The quick tests run once more for the branches that all tests together take.
test-long: .venv/installed .venv/spark docs
	$(BIN)/coverage erase
	$(BIN)/pytest -n 2 -m long --secure --cov --cov-append --cov-fail-under=0 --cov-report=
	$(BIN)/pytest -n 2 -m "hypothesis and not long" --hypothesis-profile=search --hypothesis-seed=$(HYPOTHESIS_SEED) --secure \
		--cov --cov-append --cov-fail-under=0 --cov-report= tests
	$(BIN)/pytest -n 2 --dist worksteal -m "not long" --cov --cov-append --cov-fail-under=0 --cov-report= tests skdp
	$(BIN)/coverage report

# The newest dependencies on each installed Python of the list, and the oldest ones on the first.
test-versions:
	$(PYTHON) .ci/versions.py $(PYTHONS)

# Two builds that are equal byte for byte, a bare environment with the wheel in it, and a list of what that has: in dist.
release-check: .venv/release
	$(BIN)/python .ci/release.py

# The whole documentation in one file, in site/epub/skdp.epub.
book: .venv/docs
	$(BIN)/sphinx-build -W --keep-going -b epub -q -d site/.doctrees docs site/epub

# From a clean clone: build and check the release, add the book to it, and tag the commit.
release: release-check book
	$(BIN)/python .ci/tag_release.py

# All benchmarks, one after the other; a run that stopped goes on. The peers have an environment of their own.
BENCHMARKS = $(filter-out run, $(basename $(notdir $(wildcard benchmarks/[a-z]*.py))))
bench: .venv-bench/installed
	for name in $(BENCHMARKS); do .venv-bench/bin/python benchmarks/run.py $$name || exit 1; done

# uv takes a sixth of the time of pip, which steps in where uv cannot be had, or finds no packages as it does not read
# pip's settings. Compiled on all cores, without the tests of others and what is hardly used; ours, too, or each process
# that tests start compiles them.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("skdp needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	-$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[all]' \
		|| $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[all]'
	-$(BIN)/python -m compileall -qq -j 0 -x '/(tests|debugpy|fontTools|jedi|mypyc?|pip|pygments|setuptools)/' .venv/lib skdp tests
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

.venv-bench/installed: pyproject.toml constraints.txt benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --constraint constraints.txt --editable . --requirement benchmarks/requirements.txt
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
