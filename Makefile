# Everything is run from here; `make` alone says what there is.

PYTHON ?= python3
VENV ?= .venv
bin := $(VENV)/bin
pip := $(bin)/python -m pip --quiet --quiet --disable-pip-version-check --no-input
demo := out/demo
# One more than there are cores: browsers and processes of training are waited for.
workers := $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
torch := 2.13.0
# NumPy's newest releases, which are pinned, need Python 3.11.
constraints := $(if $(shell $(PYTHON) -c 'import sys; print(*["new"] * (sys.version_info >= (3, 11)))' 2>/dev/null),constraints.txt)
export PIP_CONSTRAINT := $(constraints)
export PIP_BUILD_CONSTRAINT := $(constraints)
# The CPU build where pip finds it; what PyPI calls torch brings gigabytes of CUDA on x86-64.
torch_here = $(bin)/python -c 'import torch' 2>/dev/null || $(pip) install torch==$(torch)+cpu numpy 2>/dev/null || \
  $(pip) install torch==$(torch)+cpu numpy --extra-index-url https://download.pytorch.org/whl/cpu || $(pip) install --group torch
# The environment of all tests; $(VENV) stays without PyTorch.
whole := $(VENV)-torch
torch_npu := 2.13.0
mindspore := 2.10.0
# What is planted: rank 5 compiles operators and collects garbage in every step, and the others wait for it.
faults := --fault recompilation:5 --fault gc_pause:5

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help demo demo-analysis demo-live contact-sheet judge judge-programs judge-zoo judge-live precision paper test test-smoke \
  test-all smoke pins goldens whole check lint format docs docs-check bench accuracy fuzz clean chromium network servers tsc

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)$$/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
	  printf '  %-16s %s\n' "$$target" "$$text"; done

demo: demo-analysis ## analyse a generated 8-rank job, then train for real: notice, capture, explain, cure, measure
	@echo
	@$(MAKE) --silent --no-print-directory demo-live || echo 'the live part of the demo did not run; the report above is whole'

demo-analysis: $(demo)/job/truth.json ## the first part of the demo alone
	@$(bin)/hermes analyze $(demo)/job -o $(demo)/report

demo-live: $(VENV)/.package ## the second part of the demo alone; installs the CPU build of PyTorch into $(VENV)-torch
	@$(bin)/python -c 'import torch' 2>/dev/null || $(MAKE) --silent --no-print-directory $(VENV)-torch/.torch
	@rm -rf out/live
	@python=$(bin)/python; $$python -c 'import torch' 2>/dev/null || python=$(VENV)-torch/bin/python; \
	  $(bin)/python -m hermes_testing.live_demo out/live --python $$python

SHEET ?= demo=$(demo)/job

contact-sheet: $(VENV)/.dev chromium $(demo)/job/truth.json ## draw all pages of the inputs in SHEET in all their looks, as one sheet
	@$(bin)/python benchmarks/contact_sheet.py out/sheet $(SHEET)

judge: $(VENV)/.dev ## compare the first answer about recorded profiles with that of an expert; needs the profiles
	@$(bin)/python -m bench.judgement --page docs/judgement.md

judge-programs: $(VENV)/.dev ## capture programs as people write them, and say whether the first answer is right
	@$(torch_here)
	@$(bin)/python -m bench.judgement.programs

judge-zoo: $(VENV)/.dev ## train programs with planted causes and their cures, compare what Hermes names and predicts
	@$(torch_here)
	@$(bin)/python -m bench.judgement.zoo --page docs/accuracy.md

judge-live: $(VENV)/.dev ## watch, capture and analyse 24 programs as a user would, and say whether the headlines are right
	@$(torch_here)
	@$(bin)/python -m bench.live

precision: $(VENV)/.dev ## plant faults in training programs, and say whether the first culprit is right
	@$(torch_here)
	@$(bin)/python -m bench.precision

paper: $(VENV)/.dev ## make the published cases, predict what their cures give, compare with what was published
	@$(torch_here)
	@$(bin)/python -m bench.paper --page docs/paper.md

# One thread of Polars a worker: the workers share the cores.
spread := --numprocesses $(workers) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
pytest := POLARS_MAX_THREADS=1 $(bin)/python -m pytest $(spread)
# Live tests run where PyTorch is; one that fails runs once more, alone.
twice := POLARS_MAX_THREADS=1 $(whole)/bin/python tools/second_chance.py $(spread)

# Only real profiles may be missing: any other reason to skip a test fails the run, see tests/skips.py .
test: $(VENV)/.dev ## run the core: the tests that stay in their process and give the same result every time
	@$(pytest) -m 'not slow and not live' --whole --durations=20

test-smoke: smoke chromium network ## run one live test for each promise to the user
	@HERMES_PATIENCE_S=120 $(twice) -m smoke --whole --durations=20

test-all: whole chromium network servers ## install all that tests need, and run them all, sweeps and kills too
	@HERMES_MINDSPORE_PYTHON="$(abspath $(VENV)-mindspore)/bin/python" \
	  HERMES_TORCH_NPU_WHEEL="$$(ls $(abspath $(whole))/wheels/torch_npu-*.whl)" \
	  $(twice) --whole --hypothesis-profile=free

smoke: $(whole)/.torch ## install PyTorch and the tools of developers into $(VENV)-torch
	@$(MAKE) --silent --no-print-directory VENV=$(whole) tsc

pins: ## write constraints.txt anew, from the newest releases
	@rm -rf out/pins out/pins-torch
	@$(MAKE) --silent --no-print-directory VENV=out/pins constraints= out/pins-torch/.whole
	@out/pins-torch/bin/python -m pip --quiet install hatchling editables
	@{ sed -n 1p constraints.txt; out/pins-torch/bin/python -m pip freeze --all --exclude-editable \
	  | grep -vE '^(torch|torch_npu|setuptools|wheel)=='; } >out/constraints.txt && mv out/constraints.txt constraints.txt

whole: $(whole)/.whole ## install PyTorch, its trainers, Ray, an S3 server and MindSpore, apart from $(VENV)

goldens: $(VENV)/.dev ## write anew what the tests expect Hermes to say of captures and modelled jobs; read the diff
	@$(pytest) --update-golden tests/goldens
	@git diff --stat -- tests/goldens

check: lint docs-check test test-smoke ## the gate without the demo: format, lint, types, imports, docs, tests

lint: $(VENV)/.dev ## format, lint, types, imports and the oldest Python, without changing a file
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/mypy --python-version 3.14 --package hermes.inside
	$(bin)/vermin --quiet --target=3.8- --no-tips --violations --backport typing --exclude-regex '/launch/' src/hermes/inside
	$(bin)/lint-imports

format: $(VENV)/.dev ## format the code, and mend what ruff can mend
	@$(bin)/ruff format .
	@$(bin)/ruff check --fix .

docs: $(VENV)/.package ## write the generated pages of docs/ anew
	@$(bin)/python docs/generate.py

docs-check: $(VENV)/.package ## say which generated pages of docs/ are out of date
	@$(bin)/python docs/generate.py --check

bench: $(VENV)/.dev ## measure time and memory on large inputs
	@$(bin)/python benchmarks/run.py

accuracy: $(VENV)/.dev ## plant each fault in modelled jobs, and write how far measures and causes give it back
	@$(bin)/python benchmarks/accuracy.py

fuzz: $(VENV)/.dev ## run the coverage-guided fuzzer on each reader, a minute each
	@$(pip) install --group fuzz
	@mkdir -p out/fuzz
	@for reader in ascend-text ascend-db kineto rocpd iterations; do \
	  $(bin)/python fuzz/fuzz_reader.py --reader $$reader -max_total_time=60 -artifact_prefix=out/fuzz/$$reader- || exit 1; done

clean: ## remove what was generated; .venv stays
	@rm -rf out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests docs bench benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(demo)/job/truth.json: $(VENV)/.package $(wildcard src/hermes_testing/*.py) Makefile
	@rm -rf $(demo)/job
	@$(bin)/python -m hermes_testing $(demo)/job --ranks 8 $(faults)

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo 'Hermes needs Python 3.10 or newer; name one: make PYTHON=python3.12 …' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo 'no virtual environment: is python3-venv installed?' >&2; exit 1; }

# The stamps are younger than all that they stand for; pip runs again only when pyproject.toml changes.
$(VENV)/.package: pyproject.toml | $(bin)/python
	@echo 'installing Hermes into $(VENV)'
	@$(pip) install --editable '.[web,timeline]'
	@touch $@

# Apart from $(VENV), so that the tests stay without PyTorch. What PyPI calls torch brings CUDA's libraries on x86-64:
# the CPU build is asked for by its name, first where pip looks anyway, then where PyTorch publishes it.
$(VENV)-torch/.torch:
	@echo 'installing the CPU build of PyTorch into $(VENV)-torch'
	@$(PYTHON) -m venv $(VENV)-torch
	@install="$(VENV)-torch/bin/python -m pip --quiet --quiet --disable-pip-version-check --no-input install --retries 1"; \
	  $$install numpy torch==$(torch)+cpu 2>/dev/null || \
	  $$install numpy torch==$(torch)+cpu --extra-index-url https://download.pytorch.org/whl/cpu || \
	  { echo 'PyTorch could not be installed' >&2; exit 1; }
	@touch $@

# --group came with pip 25.1.
$(VENV)/.dev: $(VENV)/.package
	@echo 'installing the tools of developers into $(VENV)'
	@$(pip) install --upgrade 'pip>=25.1'
	@$(pip) install --group dev
	@touch $@

$(whole)/.whole: pyproject.toml Makefile $(whole)/.torch $(VENV)-mindspore/.mindspore
	@$(MAKE) --silent --no-print-directory VENV=$(whole) tsc
	@echo 'installing the trainers, Ray, an S3 server and the wheel of torch_npu into $(whole)'
	@$(whole)/bin/python -m pip --quiet --quiet --disable-pip-version-check --no-input install \
	  --editable '.[ray,s3]' --group cluster --group trainers
	@rm -rf $(whole)/wheels
	@$(whole)/bin/python -m pip --quiet --quiet --disable-pip-version-check download \
	  --no-deps --only-binary :all: --dest $(whole)/wheels torch_npu==$(torch_npu)
	@touch $@

# MindSpore needs an older NumPy than Hermes does.
$(VENV)-mindspore/.mindspore:
	@echo 'installing MindSpore into $(VENV)-mindspore'
	@$(PYTHON) -m venv $(VENV)-mindspore
	@PIP_CONSTRAINT= PIP_BUILD_CONSTRAINT= $(VENV)-mindspore/bin/python -m pip --quiet --quiet --disable-pip-version-check --no-input install \
	  mindspore==$(mindspore) 'numpy<2'
	@touch $@

# Installs packages of Debian. Where they cannot be installed the tests that need them are skipped, and the run of all
# tests of a tier says so and fails.
debian = mkdir -p out; { [ "$$(id -u)" = 0 ] && apt-get -qq -o Acquire::Retries=3 update && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get -qq -o Acquire::Retries=3 install --yes --no-install-recommends $(1); } </dev/null >/dev/null 2>out/apt.log \
  || { echo 'could not be installed: $(1)' >&2; cat out/apt.log >&2; }

# Browser tests need it.
chromium:
	@[ -x /usr/bin/chromium ] || { echo 'installing chromium for the browser tests'; $(call debian,chromium); }

# Probes are tested in network namespaces, with links that firewall rules and queues make bad.
network:
	@{ command -v iptables && command -v tc; } >/dev/null || { \
	  echo 'installing tools of the network for the tests of probes'; $(call debian,iptables iproute2); }

# Prometheus asks exporters, and its tools check what is shipped for it. Hosts of tests are reached by OpenSSH and Slurm.
# Installing starts no server.
servers:
	@{ command -v promtool && PATH="$$PATH:/usr/sbin" command -v sshd && PATH="$$PATH:/usr/sbin" command -v slurmctld \
	    && command -v srun && command -v faketime; } >/dev/null || { \
	  echo 'installing Prometheus, OpenSSH and Slurm for the tests of the fleet'; \
	  $(call debian,prometheus prometheus-alertmanager openssh-server slurm-wlm munge faketime); }

# TypeScript checks the types of the scripts, with the Node of a wheel: its version and its hash are in tests/web/tsc.
# Nobody else needs either; where it cannot be installed that one check is skipped.
tsc: $(VENV)/.dev
	@cmp -s tests/web/tsc/package-lock.json $(VENV)/tsc/package-lock.json || { \
	  echo 'installing TypeScript into $(VENV)/tsc'; \
	  $(bin)/python tests/web/tsc/install.py $(VENV)/tsc || echo 'TypeScript could not be installed: its check will be skipped'; }
