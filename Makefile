# Two commands do everything on a fresh machine with git, make and Python >= 3.10 (with venv):
#   make demo    the old program and the new call on real data
#   make test    the whole suite, through tox
PYTHON ?= python3
DEFAULT := torch213
OLDEST := py311-torch113
NEWEST := py311-torch215

TOX := .venv/bin/tox --runner virtualenv
# uv is several times faster than pip where an environment of several GB is made for one run only.
MATRIX_TOX := .venv-matrix/bin/tox --runner uv-venv-runner
export UV_CACHE_DIR := $(CURDIR)/.tox/uv-cache
export UV_PYTHON_DOWNLOADS := never

.PHONY: demo test matrix oldest newest clean

demo: .venv/bin/tox
	@echo 'Making the environment of the tests ready (the first time it installs torch) ...'
	@$(TOX) run -q --notest -e $(DEFAULT)
	.tox/$(DEFAULT)/bin/python examples/old_names_classifier.py

test: .venv/bin/tox
	$(TOX) run -e $(DEFAULT)

# One environment at a time, each removed after its run: two at once would need over 8 GB.
matrix: test oldest newest

oldest newest: .venv-matrix/bin/tox
	$(MATRIX_TOX) run -e $($(shell echo $@ | tr a-z A-Z)); status=$$?; \
	rm -rf .tox/$($(shell echo $@ | tr a-z A-Z)) "$$UV_CACHE_DIR"; exit $$status

.venv/bin/tox:
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet "tox>=4.40,<5"

.venv-matrix/bin/tox:
	$(PYTHON) -m venv .venv-matrix
	.venv-matrix/bin/python -m pip install --quiet "tox>=4.40,<5" tox-uv

clean:
	rm -rf .venv .venv-matrix .tox build dist *.egg-info
