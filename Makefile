# CI runs exactly these. PYTHON is the interpreter of the environment that has the extras.
PYTHON ?= python3
export PYTHONPATH := src
WORKERS := $(shell $(PYTHON) -c "import importlib.util as u; print('-n 2' if u.find_spec('xdist') else '')")

# Options of the benchmarks, as in `make bench BENCH="--workloads bert-* --threads 1"`.
BENCH ?=

.PHONY: check lint test bench docs docs-site page-pictures first-hour native web

check: lint
	$(PYTHON) -m pytest $(WORKERS) tests/arch tests/facade

lint:
	$(PYTHON) -m ruff format --check src tests benchmarks tools examples
	$(PYTHON) -m ruff check src tests benchmarks tools examples
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command as check; check()" --no-cache

test:
	$(PYTHON) -m pytest $(WORKERS) tests

bench:
	$(PYTHON) benchmarks/import_time.py
	$(PYTHON) -m benchmarks $(BENCH)

docs:
	$(PYTHON) -m heddle.driver.docs docs

# The documentation site, in build/site/html. It needs the extra `docs`.
docs-site:
	$(PYTHON) -m tools.site

# The pictures of docs/inspect-html.md. It needs Chromium and chromedriver.
page-pictures:
	$(PYTHON) -m tools.page_pictures

# The first commands of three users, in new virtual environments, and the page of what they print.
first-hour:
	$(PYTHON) -m tools.first_hour --fresh -o docs/first-hour.md

# The native library's text, from its sources in the systems language.
native:
	$(PYTHON) -m heddle.driver.native_text

# The page of `heddle inspect --html`, from its sources in web/. Needs Node; installing and testing do not.
web:
	cd web && npm ci --no-audit --no-fund && npm run build
