# Everything starts from Python 3.11+, make and git: the virtual environment with tox is made on first use.
PYTHON ?= python3
TOX = .venv/bin/tox

.PHONY: leaderboard test docs clean

leaderboard: $(TOX)  ## measure the quick sweep on this machine for a quarter of an hour, and build its page
	$(TOX) run -e leaderboard

test: $(TOX)  ## everything that CI runs
	$(TOX) run -e test

docs: $(TOX)  ## the documents and the API as pages, into site/docs
	$(TOX) run -e docs

$(TOX): constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt tox
	touch $(TOX)

clean:  ## remove environments and built pages; measured results stay
	rm -rf .venv .tox site build *.egg-info
