# Two commands do everything on a fresh machine with git, make and Python >= 3.10 (with venv):
#   make demo    the old program and the new call on real data
#   make test    the whole suite, through tox
# The rest: make lint (style, structure, types), docs (the site), compat (five torches, what CI runs), matrix
# (the nine pairs and the lower bounds), matrix-full (every pair there is), support-table (what they said, into
# the README), formats (the files that they wrote, into the tests).
PYTHON ?= python3
DEFAULT := torch213

TOX := .venv/bin/tox run --runner virtualenv
# uv is several times faster than pip where an environment of several GB is made for one run only.
MATRIX := .venv-matrix/bin/python tools/matrix.py

.PHONY: demo test lint docs compat matrix matrix-full support-table formats clean

demo: .venv/bin/tox
	@echo 'Making the environment of the tests ready (the first time it installs torch) ...'
	@$(TOX) -q --notest -e $(DEFAULT)
	.tox/$(DEFAULT)/bin/python examples/old_names_classifier.py

test: .venv/bin/tox
	$(TOX) -e $(DEFAULT)

lint: .venv/bin/tox
	$(TOX) -e lint,types

docs: .venv/bin/tox
	$(TOX) -e docs
	@echo 'The site: build/docs/index.html'

compat: .venv-matrix/bin/tox
	$(MATRIX) compat -m compat

matrix: .venv-matrix/bin/tox
	$(MATRIX) matrix

matrix-full: .venv-matrix/bin/tox
	$(MATRIX) full; status=$$?; \
	for suite in bookworm trixie sid; do tools/debian.sh $$suite || status=1; done; exit $$status

formats:
	cp -r .tox/formats/. tests/formats/

support-table:
	$(PYTHON) tools/support_table.py

.venv/bin/tox:
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet "tox>=4.40,<5"

.venv-matrix/bin/tox:
	$(PYTHON) -m venv .venv-matrix
	.venv-matrix/bin/python -m pip install --quiet "tox>=4.40,<5" tox-uv

clean:
	rm -rf .venv .venv-matrix .tox build dist *.egg-info
