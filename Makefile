PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
OUT ?= demo

.PHONY: demo test test-slow test-paper check bench results docs clean

demo: .venv/ready  ## ordinary and self-adaptive training side by side on noisy digits
	$(BIN)/selfadapt demo --out $(OUT)

test: .venv/ready  ## the fast suite
	$(BIN)/pytest

test-slow: .venv/ready  ## the rest: crashes, processes, documentation
	$(BIN)/pytest -m slow

test-paper: .venv/ready  ## every method on every net at paper scale, in its first and last epoch
	PAPER_LOG=results/test_paper.log OMP_NUM_THREADS=$${OMP_NUM_THREADS:-$$(nproc)} \
	$(BIN)/pytest -m paper tests/test_paper.py

check: .venv/ready  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready  ## ratios against named rivals, written to results/
	$(BIN)/python benchmarks/speed.py $(if $(CIFAR),--cifar $(CIFAR))
	$(BIN)/python benchmarks/pages.py

results: .venv/ready  ## docs/results.md from the studies kept under results/study/
	$(BIN)/python benchmarks/results_page.py
	$(BIN)/python benchmarks/selective_page.py

docs: .venv/ready
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build

clean:
	rm -rf .venv build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[fast,hf,dev]"
	touch $@
