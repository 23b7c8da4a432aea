# The one interface of the checkout; CI calls the same targets. The environment is `.venv`, made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNING := $(VENV)/.running
INSTALLED := $(VENV)/.installed
REPORTING := $(VENV)/.reporting
BENCH_ENV := $(VENV)/.benchmarking
TESTING := ,test
OPTIONAL := ,envs,fast-envs,report,film,search,parquet,wandb,mlflow,trackio
FILMING := $(VENV)/.filming
EXTRAS := $(VENV)/.extras
PEERS := .venv-peers
RAY := .venv-ray
JAX := .venv-jax
GPU_ENV := .venv-gpu
GPU_PARTS := right,fast,seen,broken
GPU_NEEDS := textual rich stable-baselines3 sb3-contrib gymnasium nvidia-ml-py psutil msgspec tomli-w safetensors click
# One torch thread each: the tests start trainers of their own. More than half of their time they wait, so six keep two cores busy.
WORKERS := 6
# A worker takes whole modules, one after another: what a module trains or starts for all of its tests is made once.
# Also where PYTHONDONTWRITEBYTECODE is set, as in many containers: each of a thousand interpreters would compile what it imports.
PYTEST := LC_ALL=C.UTF-8 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := run
.PHONY: test-engines train train-parallel train-timed train-parallel-timed compare evaluate calibration help kernels run test test-slow test-forked test-all check fmt lint types fast explore bench bench-report peers health health-advice health-traces zoo zoo-agents zoo-presets large-batch presets-measured faults tour film night gpu gpu-rehearsal ray jax

help:  ## what can be made here
	@sed -nE 's/^([a-z%-]+):[^#]*## (.*)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

# SYSTEM=1 takes what PYTHON has installed: its CUDA build of torch, for one.
run: $(RUNNING)  ## open the screen
	@$(BIN)/mission-tui

# Where every test ran and a few that wait for real processes failed, those are tried once more, alone: tests/retrying.py
# says whether the session passed. A test that passes only then stands in build/flaky.txt; twice in ten sessions is a failure.
define tested
@rm -f .pytest_cache/session.json
@mkdir -p build
-$(PYTEST) $(if $(1),-m "$(1)") --durations=50 --durations-min=1 --junitxml=build/$(2).xml
@LC_ALL=C.UTF-8 OMP_NUM_THREADS=1 $(BIN)/python -m tests.retrying
endef

test: $(INSTALLED)  ## the tests that take a second or two, always with the same examples
	$(call tested,not slow,test)

test-slow: $(INSTALLED)  ## the others: trainings, faults, benchmarks
	$(call tested,slow,test-slow)

# They start the engines themselves, in private folders. Slurm: apt install slurm-wlm munge. Ray: `make ray` before. ONLY=slurm
test-engines: $(INSTALLED)  ## runs on a Slurm, on a Ray, and on boxes over sshd, all of this machine
	$(PYTEST) $(addprefix tests/,$(or $(ONLY),slurm ray hosts))

test-forked: $(INSTALLED)  ## keepers and supervisors again, every launch forked off a preloader; about a quarter of an hour
	MISSION_TUI_PRELOAD=always $(PYTEST) -m process tests/keeper tests/supervisor

# In one session: those that wait run beside those that compute.
test-all: $(EXTRAS)  ## every test, with lint, types and the optional packages
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory -j 2 types every-test

every-test: $(EXTRAS)
	$(call tested,,test-all)

check: lint types fast  ## what to run before each commit, under a minute

kernels: $(INSTALLED)  ## compile the trainer's kernels again after a change of their C
	$(BIN)/python mission_tui/trainer/native/build.py

fmt: $(INSTALLED)  ## format, and fix what can be fixed mechanically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: $(INSTALLED)  ## style and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(INSTALLED)  ## mypy --strict over package and tests
	$(BIN)/mypy

fast: $(INSTALLED)  ## tests without trainings, supervisors at work and terminals
	$(PYTEST) -m "not slow and not process and not tmux"

# ONLY=replay,framing explores those alone. What fails is kept in .hypothesis/ and printed as an @example.
explore: $(INSTALLED)  ## new examples for every property test; MINUTES=60
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.exploring --minutes $(or $(MINUTES),10) --only "$(ONLY)"

# SECONDS=1500 begins no further benchmark after so long; the same command goes on where it was left. ONLY="ppo screen"
bench: $(BENCH_ENV) peers  ## every speed beside its peers and floors, then docs/performance.md; nothing is asserted
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --seconds $(or $(SECONDS),inf) $(ONLY)
	$(BIN)/python -m benchmarks.report

bench-report: $(INSTALLED)  ## write docs/performance.md and .json from what was measured so far
	$(BIN)/python -m benchmarks.report

bench-%: $(BENCH_ENV)  ## one benchmark, kept in benchmarks/results/
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.$* --json benchmarks/results/$*.json

peers: $(PEERS)/.installed  ## the throw-away environment of the trainers that ours are compared with

ray: $(RAY)/.installed  ## the environment with Ray that the tests in tests/ray start; 380 MB

jax: $(JAX)/.installed  ## the environment with JAX in which the recipe of docs/recipes/purejaxrl.md is tested; 620 MB

health: $(REPORTING)  ## score the health rules on every labelled run, and write docs/health.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.health

health-traces: $(INSTALLED)  ## record the constructed runs that are missing: about half an hour on one core
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.health.record

# SECONDS=600 begins no further pair after so long; the same command goes on where it was left.
health-advice: $(INSTALLED)  ## whether advice cures each sick construction; writes docs/health/advice.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.health.advice --seconds $(or $(SECONDS),inf)

# SECONDS=600 stops in good order after so long; the same command goes on where it was left, in build/. ONLY="pendulum-sac
# cartpole-dqn" trains those presets, in this order.
zoo: $(BENCH_ENV)  ## the RL zoo's table trained here, five seeds each; writes docs/zoo.md. Six hours on two cores, four of them TD3's
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.zoo --json benchmarks/results/zoo.json --page docs/zoo.md \
	  --seconds $(or $(SECONDS),inf) $(if $(ONLY),--only $(ONLY))
	$(BIN)/python -m benchmarks.zoo.presets --page docs/zoo.md

# AGENTS=rl-trained-agents is a checkout of DLR-RM/rl-trained-agents; SECONDS as above.
zoo-agents: $(BENCH_ENV)  ## the RL zoo's published PPO agents imported and played; AGENTS=FOLDER; a part of docs/zoo.md
	@test -n "$(AGENTS)" || { echo "say where they are: make zoo-agents AGENTS=rl-trained-agents" >&2; exit 2; }
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.zoo.agents "$(AGENTS)" --page docs/zoo.md --seconds $(or $(SECONDS),inf)

# ZOO=rl-baselines3-zoo, a checkout of DLR-RM/rl-baselines3-zoo, takes its values anew; without it those that lie here.
zoo-presets: $(INSTALLED)  ## presets/zoo of the RL zoo's PPO settings, and which of its rows were trained here (docs/zoo.md)
	$(BIN)/python -m benchmarks.zoo.presets $(if $(ZOO),--from "$(ZOO)") --page docs/zoo.md

calibration: $(INSTALLED)  ## how often intervals and verdicts of `compare` are right; writes docs/statistics.md. Three minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.calibration

# STEPS=100000000 is the source's length; with a card DEVICE=cuda AT_ONCE=9 trains so many side by side.
large-batch: $(INSTALLED)  ## what rollouts eight times as large do on MissionGym, three seeds; writes docs/large-batch.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.large_batch --json benchmarks/results/large_batch.json \
	  --page docs/large-batch.md --seconds $(or $(SECONDS),inf) $(if $(STEPS),--steps $(STEPS)) \
	  --device $(or $(DEVICE),cpu) --at-once $(or $(AT_ONCE),1)

# SECONDS=600 is shared among the presets; ONLY="fast swarm" trains those. Goes on where it was left, in build/.
presets-measured: $(REPORTING)  ## the presets on their mission, as far as they get; writes docs/presets-measured.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.presets --seconds $(or $(SECONDS),inf) $(if $(ONLY),--only $(ONLY))

# ONLY=corruption,names  SEED=2  SECONDS=600 (for each part)  SCALE=0.1; without them the whole campaign, where it was left
faults: $(INSTALLED)  ## the long fault campaign; writes its figures into docs/faults.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.campaign --only "$(ONLY)" --seed $(or $(SEED),1) \
	  --seconds $(or $(SECONDS),inf) --scale $(or $(SCALE),1)

# PYTHON=... has a CUDA build of torch, which is used as it is; what else is lacking is put beside it, from the folder
# WHEELS where there is no network. PARTS=right,fast.heavy  SECONDS=300 (for each part)  OUT=folder for the sheets
# TRAIN_SECONDS=5 of each side that is compared; PAGE=docs/gpu.md writes them into the page, beside what it has;
# with MISSING=1 only what it lacks is measured
gpu:  ## the campaign on a real card, in parts that go on where they were left; without one it says what it would measure
	@$(PYTHON) -m venv --without-pip $(GPU_ENV) && mkdir -p build
	@$(call beside,$(GPU_ENV),"$(CURDIR)")
	$(call unpinned,build)
	-@$(PYTHON) -m pip --python $(GPU_ENV)/bin/python install --quiet --disable-pip-version-check \
	  $(if $(WHEELS),--no-index --find-links "$(WHEELS)") -c build/constraints.txt $(GPU_NEEDS)
	@OMP_NUM_THREADS=1 $(GPU_ENV)/bin/python -m benchmarks.gpu --parts "$(or $(PARTS),$(GPU_PARTS))" \
	  --seconds $(or $(SECONDS),480) --train-seconds $(or $(TRAIN_SECONDS),15) --folder "$(or $(OUT),build/gpu)" \
	  $(if $(PAGE),--page "$(PAGE)") $(if $(MISSING),--missing)

gpu-rehearsal: $(EXTRAS)  ## every measurement of `make gpu` on this processor, in small: before a card is borrowed; six minutes
	GPU_REHEARSAL=1 $(PYTEST) --dist load tests/benchmarks/test_gpu.py

# What stands in front of `make` is handed on: ARGS="--timesteps 500k", RUN=name, DURATION=10m.
train: $(RUNNING)  ## CoinRun's stand-in, one process: launch modes-sequential-mission; ARGS="--timesteps 500k"
	$(BIN)/mission-tui launch modes-sequential-mission --wait $(ARGS)

train-parallel: $(RUNNING)  ## the same with env workers: launch modes-workers-mission
	$(BIN)/mission-tui launch modes-workers-mission --wait $(ARGS)

train-timed: $(RUNNING)  ## one process for DURATION=1h; leaves benchmark_metrics.json in the run directory
	$(BIN)/mission-tui launch modes-sequential-mission --duration $(or $(DURATION),1h) --wait $(ARGS)

train-parallel-timed: $(RUNNING)  ## the same with env workers
	$(BIN)/mission-tui launch modes-workers-mission --duration $(or $(DURATION),1h) --wait $(ARGS)

compare: $(RUNNING)  ## one process against env workers, timed in turns; DURATION=10m
	$(BIN)/mission-tui bench modes-sequential-mission --vs modes-workers-mission --duration $(or $(DURATION),60s) $(ARGS)

evaluate: $(RUNNING)  ## 100 episodes of the newest run's policy; RUN=name
	$(BIN)/mission-tui evaluate $(or $(RUN),@last) $(ARGS)

tour: $(INSTALLED)  ## docs/tour.md: a picture of every screen, taken of a real fleet; a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.tour $(if $(ONLY),--only "$(ONLY)")

# The checkpoints and the seed are those of the README's sentence about it; below a megabyte.
film: $(FILMING)  ## docs/growth.gif: how the demo learns, three of its policies side by side; a few minutes
	$(BIN)/mission-tui --runs-dir build/film launch demo --wait --set run.seed=1 --set run.total_timesteps=600_000 \
	  --set keep.checkpoint.every_steps=100_000 --set keep.checkpoint.last=8
	$(BIN)/mission-tui --runs-dir build/film film @last --checkpoints 3 --out docs/growth.gif
	$(BIN)/mission-tui --runs-dir build/film supervisor stop

night: $(INSTALLED)  ## a whole night: twenty dropped lines, a full disk, an upgrade, a reboot; all is counted; 64 stuck env workers; bursts of keys split at each place
	MISSION_TUI_NIGHT=20 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/e2e/test_night.py \
	  tests/supervisor/test_env_failures.py tests/tui/test_bursts.py tests/tui/test_sheet_bursts.py

# What PYTHON has is seen by the environment $(1) too, after its own, also where PYTHON is of an environment itself; $(2) as well.
define beside
$(PYTHON) -c 'import sys; print(*[p for p in sys.path if p.endswith("-packages")], *sys.argv[1:], sep="\n")' $(2) \
  > "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/beside.pth"
endef

# What PYTHON has is taken as it is: a torch of its own wants other versions of its own needs than those that are pinned here.
define unpinned
@$(PYTHON) -c 'import importlib.metadata as known, re, sys; normal = lambda name: re.sub("[-_.]+", "-", name).lower(); \
  here = {normal(each.metadata["Name"] or "") for each in known.distributions()}; \
  print(*[line for line in open("constraints.txt").read().splitlines() if normal(line.partition("==")[0]) not in here], sep="\n")' > $(1)/constraints.txt
endef

# $(1): what is installed besides what running needs; $(2): words for pip
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "mission-tui needs Python 3.11 or newer, and '$(PYTHON)' is not: try 'make $(MAKECMDGOALS) PYTHON=python3.11'" >&2; exit 2; }
@$(PYTHON) -c 'import sys, sysconfig; sys.exit(sys.platform != "linux" or "musl" in str(sysconfig.get_config_var("SOABI")))' || { \
  echo "mission-tui needs Linux with glibc, as torch's packages do: on macOS, Windows or Alpine run it in a Debian container, in WSL2 or on another machine" >&2; exit 2; }
$(PYTHON) -m venv $(if $(SYSTEM),--system-site-packages) $(VENV)
$(if $(SYSTEM),@$(call beside,$(VENV)))
$(if $(SYSTEM),$(call unpinned,$(VENV)))
$(BIN)/python -m pip install $(2) --disable-pip-version-check --no-compile $(if $(SYSTEM),-c $(VENV)/constraints.txt,-c constraints.txt) -e '.[tensorboard,notify,contrib,serve$(1)]'
@# Bytecode of what a screen, a supervisor and a training import; pip would make that of ten times as many modules.
@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import mission_tui.supervisor.__main__, mission_tui.cli.screen, mission_tui.tui.session; \
  from mission_tui.preloader.__main__ import load; load()' || true
@touch $(RUNNING)
endef

$(RUNNING): pyproject.toml constraints.txt
	@echo "setting up $(VENV), once: $(if $(SYSTEM),what $(PYTHON) lacks: 0.2 GB where it has torch 2.10 or newer,about 1.2 GB, most of it torch (several GB with CUDA)); a minute, or longer on a slow line"
	$(call install,,--progress-bar on)
	@echo "set up: $$(du -sh $(VENV) | cut -f1) in $(VENV)"

$(INSTALLED): pyproject.toml constraints.txt
	$(call install,$(TESTING),--quiet)
	@touch $@

$(REPORTING): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[report]'
	@touch $@

$(FILMING): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[film]'
	@touch $@

# At once with what the tests need, where nothing was installed before.
$(EXTRAS): pyproject.toml constraints.txt
	$(call install,$(TESTING)$(OPTIONAL),--quiet)
	@touch $(INSTALLED) $@

$(BENCH_ENV): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[envs]'
	@touch $@

$(PEERS)/.installed: benchmarks/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -r $<
	@touch $@

$(RAY)/.installed: constraints.txt
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt 'ray[default]'
	@touch $@

$(JAX)/.installed: constraints.txt
	$(PYTHON) -m venv $(JAX)
	$(JAX)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt jax
	@touch $@
