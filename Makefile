# `make demo` and `make test` set up everything they need in .venv and work on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
SHELL := bash
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-all docs pictures clean

# Four stages, each with a picture in demo/: about a minute after the installation.
demo: .venv/run-ready
	mkdir -p demo
	$(BIN)/basegraph topology base --nodes 6 --degree 1 --draw demo/rounds.png --force
	$(BIN)/python examples/compare_topologies.py demo
	$(BIN)/python examples/train_on_digits.py demo --seeds 1 --epochs 60
	$(BIN)/basegraph advise --nodes 25 --bandwidth 1Gbit --latency 1ms --model-size 9.2M --step-time 50ms --alpha 0.1
	$(BIN)/basegraph bench model --nodes 2:256 --bandwidth 1Gbit --latency 1ms --topologies base:k=1,ring,all-reduce,all-reduce-halving --plot demo/scaling.png --force > demo/scaling.txt
	@echo "pictures: demo/rounds.png (the topology), demo/consensus.png (averaging), demo/learning.png (training), demo/scaling.png (its cost on a network)"

# `make test-all` also runs the tests marked slow, which go through more of the same cases.
# Bytecode is written: many processes import the same files. Output is buffered: what a node prints and flushes is then
# one write, and lines of several nodes stay apart.
test test-all: .venv/test-ready
	tests/install_chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONDONTWRITEBYTECODE= PYTHONUNBUFFERED= $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(if $(filter test-all,$@),-m '')

# The site, in build/docs: open build/docs/index.html. Warnings are errors.
docs: .venv/docs-ready
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs auto docs build/docs

# The pictures of README and docs, each from a command that README or docs show.
pictures: .venv/run-ready
	mkdir -p docs/images
	$(BIN)/basegraph topology base --nodes 6 --degree 1 --draw docs/images/base-6.svg --force
	$(BIN)/basegraph topology base --nodes 5 --degree 1 --draw docs/images/base-5.svg --force
	$(BIN)/basegraph topology ceca --nodes 7 --draw docs/images/ceca-7.svg --force
	for n in 5 6 9 10 25; do $(BIN)/basegraph topology euclid --nodes $$n --draw docs/images/euclid-$$n.svg --force; done
	for n in 25 33; do $(BIN)/basegraph topology block-mix --nodes $$n --draw docs/images/block-mix-$$n.svg --force; done
	$(BIN)/basegraph topology block-merge --nodes 10 --degree 3 --draw docs/images/block-merge-10.svg --force
	$(BIN)/basegraph lengths --nodes 2:200 --degree 1:5 --plot docs/images/lengths.png --force
	$(BIN)/basegraph lengths --topologies base,short --nodes 2:256 --degree 1:4 --plot docs/images/short.png --force
	$(BIN)/basegraph bench model --nodes 2:4096 --plot docs/images/scaling.png --force
	$(BIN)/python examples/compare_topologies.py docs/images
	$(BIN)/python examples/train_on_digits.py demo
	cp demo/learning.png docs/images/learning.png
	rm -rf demo/tutorial
	for run in all-reduce:complete:allreduce-sgd base:base:dsgdm one-peer:one-peer-exponential:dsgdm ring:ring:dsgdm; do \
		IFS=: read -r name topology algorithm <<< $$run; \
		$(BIN)/basegraph train --topology $$topology --algorithm $$algorithm --nodes 10 --alpha 0.1 --lr 0.1 \
			--epochs 30 --evaluate-every 5 --seed 0 --out demo/tutorial/$$name; \
	done
	$(BIN)/basegraph compare demo/tutorial/* --plot docs/images/tutorial-curves.png --force
	$(BIN)/python scripts/draw_results.py

clean:
	rm -rf .venv demo build

.venv/run-ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[train,plots]'
	touch $@

.venv/test-ready: .venv/run-ready
	$(INSTALL) --editable '.[dev]'
	touch $@

.venv/docs-ready: .venv/run-ready
	$(INSTALL) --editable '.[docs]'
	touch $@
