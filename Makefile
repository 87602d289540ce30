# Each target sets up what it needs: a virtual environment, the native build, the packages.
#   make demo | test | nightly | foreign | test-duckdb | docs | bench | lint | types | format | native | smoke | sanitize
#   make faults | sanitize-learners | sanitize-postgres | sanitize-all | test-postgres | wheel | wheels | release | cross
#   make arm-check | community | pgxn | debian | gpu-check | warnings | clean

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SANITIZE ?= address,undefined
PYTEST_ARGS ?=
# Three processes, each with a PostgreSQL of its own, since many tests wait for a database or a client.
# PARALLEL= is one process, as a debugger wants it.
# Files run in their order: those of dbt and faults, whose few tests take long, come first.
# A process that dies ends the run: pytest-xdist waits for ever for the one that replaces the last of a run.
BY_FILE := --dist loadfile --no-loadscope-reorder --max-worker-restart=0
PARALLEL ?= -n 3 $(BY_FILE)
# These processes share the cores already: threads of libraries beside would spin for them.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# Bytecode is kept, which the hundreds of processes that tests start would compile again.
unexport PYTHONDONTWRITEBYTECODE
VERSION ?= 1.5.*
DUCKDB_TESTS := tests/sql tests/udas/duckdb tests/faults tests/front tests/learners
# What `make sanitize-learners` looks at, and by which tests.
SANITIZED := kernels/native/trees kernels/native/nets kernels/native/topics kernels/native/paths \
    kernels/native/fm kernels/native/clusters kernels/native/ordinal kernels/native/rows kernels/native/shared udas
SANITIZED_TESTS := tests/learners/trees tests/learners/nets tests/learners/clusters tests/learners/ordinal tests/learners/topics \
    tests/learners/paths tests/kernels/topics tests/sql/trees tests/sql/nets tests/udas/trees tests/udas/nets tests/udas/topics \
    tests/udas/duckdb/test_forged_trees.py tests/udas/duckdb/test_payload.py \
    tests/kernels/test_charged.py tests/kernels/test_cells.py tests/sql/selection \
    tests/sql/trees/test_forged_sizes.py

NATIVE := $(filter %.c %.h %.cpp %.hpp,$(wildcard kernels/native/*/* kernels/native/*/*/* udas/rowblock/* udas/scalars/* udas/scalars/*/* \
    udas/rowblock/*/* udas/duckdb/* udas/duckdb/*/* udas/duckdb/*/*/* partitioner/native/* schedule/native/* kvstore/native/* kvstore/native/*/* \
    kvstore/mapped/*))
BUILD := setup.py pyproject.toml $(wildcard scripts/build/*.py)
# What lizard counts the branches of functions in.
COMPLEX := kernels/native kernels/gpu kvstore partitioner schedule udas
FORMATTED := $(NATIVE) $(filter %.c %.h,$(wildcard udas/postgres/* udas/postgres/*/*))

.PHONY: demo test nightly foreign faults test-duckdb docs bench gpu-check lint types format native warnings wheel wheels smoke sanitize \
    sanitize-learners sanitize-postgres sanitize-all test-postgres release cross community pgxn \
    debian arm-check clean \
    postgres-packages browser-packages

demo: $(READY)-demo
	$(BIN)/tuskml demo

# A test that fails runs once more, since a busy machine must not hide what the others say; both runs are printed.
test: $(READY)-test postgres-packages browser-packages
	@$(ONE_THREAD) $(BIN)/pytest $(PARALLEL) --reruns 1 $(PYTEST_ARGS)

# What `make test` leaves out, every property with twenty times the examples of its test, and trees, nets and
# topics under sanitizers.
nightly: $(READY)-nightly postgres-packages browser-packages
	@TUSKML_EXAMPLES=20 TUSKML_REQUIRE_S3=1 $(ONE_THREAD) $(BIN)/pytest $(PARALLEL) -m "nightly or hypothesis" $(PYTEST_ARGS)
	@$(MAKE) sanitize-learners PYTEST_ARGS=
	@$(MAKE) warnings

# Suites of others through SQL in both databases, and a table of what agrees and what differs and why. R is the
# oracle on its own data sets; scikit-learn's tests ask SQL for each metric and each fit. Takes a quarter of an hour.
foreign: $(READY)-test postgres-packages
	@scripts/foreign_packages.sh
	@$(ONE_THREAD) $(BIN)/pytest -m foreign -q $(or $(PYTEST_ARGS),tests/foreign)

# The whole catalogue of faults (docs/reliability.md), of which `make test` tries a twentieth: cancels alone first, since
# they are timed. At the end the table of what was found.
FAULTS := $(BIN)/pytest -m fault -o faulthandler_timeout=3600 --faults-json
faults: export TUSKML_FAULTS := all
faults: $(READY)-test postgres-packages
	@rm -rf build/faults
	@$(ONE_THREAD) $(FAULTS) build/faults/cancels.json $(PYTEST_ARGS) \
	    $$(grep -rl 'fault(family="cancels")' tests --include='*.py'); first=$$?; \
	$(ONE_THREAD) $(FAULTS) build/faults/others.json -n 2 $(BY_FILE) $(PYTEST_ARGS) \
	    $$(grep -rl 'fault(family=' tests --include='test_*.py' | xargs grep -L 'fault(family="cancels")'); second=$$?; \
	$(BIN)/python scripts/docs/faults.py build/faults/*.json; exit $$((first + second))

# The same build with the oldest DuckDB that is promised, or with VERSION='1.5.0'
test-duckdb: $(READY)-test
	rm -rf build/duckdb
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps \
	    --target build/duckdb 'duckdb==$(VERSION)'
	PYTHONPATH=$(CURDIR)/build/duckdb $(BIN)/pytest $(PARALLEL) $(or $(PYTEST_ARGS),$(DUCKDB_TESTS))

# The manual, in build/docs/index.html: what is generated anew from the code; a broken link fails.
docs: $(READY)-docs
	$(BIN)/python scripts/docs/reference.py
	$(BIN)/python scripts/docs/capabilities.py
	$(BIN)/python scripts/docs/benchmarks.py
	$(BIN)/python scripts/docs/papers.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

bench: $(READY)-bench
	$(BIN)/python scripts/bench/run.py $(BENCH_ARGS)

# On a machine with an NVIDIA GPU and CuPy, by the Python at hand: the tests marked gpu, and the
# figures. Nothing is installed.
gpu-check:
	$(PYTHON) scripts/bench/gpu/gpu_check.py $(BENCH_ARGS)

lint: $(READY)-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(BIN)/lizard -l cpp --CCN 22 --warnings_only $(COMPLEX)

types: $(READY)-test
	$(BIN)/python scripts/link_tree.py
	$(BIN)/mypy
	$(BIN)/mypy setup.py scripts/link_tree.py scripts/build scripts/docs

format: $(READY)-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

# Compiles what changed, in place, without reinstalling.
native: $(READY)-test
	$(BIN)/python setup.py --quiet build_ext --inplace

# Compiles every source with the compilers' warnings, each of which is an error. Builds leave them out, as they take a
# twelfth of the time.
warnings: $(READY)-test
	TUSKML_WARNINGS=1 $(BIN)/python setup.py --quiet build_ext --build-lib build/warnings

# The archive and the wheel from it. On Linux the wheel is for glibc 2.31 and later, which auditwheel confirms.
wheel: $(READY)-release
	rm -f dist/tuskml-*
	TUSKML_ISA=all TUSKML_PORTABLE=1 $(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python scripts/build/audit.py dist/*.whl

# Wheels for x86-64 and, where a cross compiler is (Debian: apt install g++-aarch64-linux-gnu), for 64-bit Arm.
ARM := aarch64-linux-gnu
FOR_ARM = TUSKML_MACHINE=aarch64 CC=$(ARM)-gcc CXX=$(ARM)-g++ TUSKML_ISA=all TUSKML_PORTABLE=1
wheels: wheel
	@command -v $(ARM)-g++ >/dev/null || { echo "no $(ARM)-g++: Debian has it by apt install g++-$(ARM)" >&2; exit 1; }
	$(FOR_ARM) $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist dist/tuskml-*.tar.gz
	$(BIN)/python scripts/build/audit.py dist/*.whl

# The wheel for 64-bit Arm, of the objects that are compiled already, run by qemu (Debian: apt install
# qemu-user-static): a model for each task, with this machine's numbers. The root and what pip brings stay in build/arm.
arm-check: $(READY)-release
	@for program in $(ARM)-g++ qemu-aarch64-static; do command -v $$program >/dev/null || { \
	    echo "no $$program: Debian has it by apt install g++-$(ARM) qemu-user-static" >&2; exit 1; }; done
	rm -rf build/arm/dist
	$(FOR_ARM) _PYTHON_HOST_PLATFORM=linux-aarch64 $(BIN)/python setup.py --quiet bdist_wheel --dist-dir build/arm/dist
	$(BIN)/python scripts/build/audit.py build/arm/dist/*.whl
	$(BIN)/python scripts/tests/arm_check.py build/arm/dist/*.whl

# Writes the archive of the PostgreSQL extensions for PGXN.
pgxn:
	python3 scripts/build/pgxn.py dist

# Debian packages of the PostgreSQL extensions and of the Python package that trains, in build/debian. As root they are
# tried in a copy of this system that is gone at the end.
debian: | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check cryptography 'setuptools>=77'
	$(BIN)/python scripts/build/debian.py build/debian $(if $(filter command line,$(origin VERSION)),--postgres $(VERSION))
	if command -v lintian >/dev/null; then lintian --fail-on error build/debian/*.changes; fi
	if [ $$(id -u) = 0 ]; then scripts/tests/debian_packages.sh build/debian; fi

# A wheel with an SBOM and checksums, signed if a key is given: make release KEY=~/.ssh/id_ed25519
release: wheel
	$(BIN)/python scripts/build/release.py dist $(if $(KEY),--key $(KEY))

# Builds the archive, the wheel from it, and tries the wheel in a clean environment. Objects whose sources and headers
# are the same in the archive are not compiled again.
smoke: $(READY)-test postgres-packages
	rm -rf build/smoke
	TUSKML_OBJECTS=$(CURDIR)/build/native $(BIN)/python -m build --quiet --outdir build/smoke .
	$(PYTHON) -m venv build/smoke/venv
	build/smoke/venv/bin/pip install --quiet "$$(echo build/smoke/*.whl)[test]"
	build/smoke/venv/bin/pytest -m smoke

# The DuckDB extension alone, in the tree that DuckDB's community repository builds (build/community), tried in three
# versions of DuckDB without the package.
COMMUNITY_VERSIONS := 1.4 1.5 2.0
community: | $(BIN)/python
	$(BIN)/python scripts/build/community.py build/community --build
	@for version in $(COMMUNITY_VERSIONS); do \
	    $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	        --target build/community-$$version "duckdb==$$version.*" && \
	    TUSKML_PYTHON=off PYTHONPATH=build/community-$$version $(BIN)/python scripts/tests/sqllogic.py \
	        build/community/tuskml.duckdb_extension build/community/test/sql/*.test || exit 1; \
	done

# Runs the tests of the native code under sanitizers: make sanitize SANITIZE=thread
sanitize: $(READY)-test
	rm -rf build/sanitize
	TUSKML_SANITIZE=$(SANITIZE) $(BIN)/python -m build --quiet --outdir build/sanitize .
	$(PYTHON) -m venv build/sanitize/venv
	build/sanitize/venv/bin/pip install --quiet "$$(echo build/sanitize/*.whl)[test]"
	scripts/sanitized.sh $(SANITIZE) build/sanitize/venv/bin/python -m pytest \
	    --capture=sys -m "native and not memory" $(PYTEST_ARGS)

# Runs the tests of trees, nets, topics and paths with their kernels and scorers under sanitizers. All else is built
# as ever, the server of PostgreSQL too, whose bits differ from those of a build without optimisation.
sanitize-learners: $(READY)-test
	TUSKML_SANITIZE=$(SANITIZE) TUSKML_SANITIZE_ONLY="$(SANITIZED)" $(BIN)/python setup.py --quiet \
	    build --build-lib build/sanitize/lib
	PYTHONPATH=build/sanitize/lib $(ONE_THREAD) scripts/sanitized.sh $(SANITIZE) $(BIN)/python -m pytest \
	    --capture=sys -m "not memory" -k "not test_both_databases" $(or $(PYTEST_ARGS),$(SANITIZED_TESTS))

# Runs the tests of the PostgreSQL extension with another PostgreSQL, as root on Debian: make test-postgres VERSION=17
test-postgres: $(READY)-test
	scripts/postgres_version.sh $(if $(filter command line,$(origin VERSION)),$(VERSION),17) $(PYTEST_ARGS)

# Runs the tests of the PostgreSQL extension with its C under sanitizers, in a server that is not.
sanitize-postgres: $(READY)-test postgres-packages
	TUSKML_REQUIRE_POSTGRES=1 TUSKML_SANITIZE_POSTGRES=$(SANITIZE) $(BIN)/pytest \
	    $(or $(PYTEST_ARGS),tests/postgres)

# All native code under all sanitizers: kernels, stores, the extensions for both databases. Takes hours.
sanitize-all:
	$(MAKE) sanitize SANITIZE=address,undefined
	$(MAKE) sanitize SANITIZE=thread
	$(MAKE) sanitize-learners SANITIZE=address,undefined
	$(MAKE) sanitize-learners SANITIZE=thread
	$(MAKE) sanitize-postgres SANITIZE=address,undefined

# Compiles every native source for another machine with clang, and links nothing: make cross TARGET=...
# Debian: apt install clang libc6-dev-arm64-cross libstdc++-12-dev-arm64-cross
cross: $(READY)-test
	$(BIN)/python scripts/build/cross.py $(TARGET)

# As root on Debian and Ubuntu, what the PostgreSQL tests need; they are skipped without it.
postgres-packages:
	@scripts/postgres_packages.sh

# The same for the browser that looks at reports, and the shells that complete commands.
browser-packages:
	@scripts/browser_packages.sh

clean:
	rm -rf .links .venv build dist *.egg-info .coverage* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	rm -f */_native.json kernels/*.so partitioner/*.so schedule/*.so kvstore/*.so udas/duckdb/*.duckdb_extension udas/duckdb/tuskml.pem
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	    "tuskml needs Python 3.11 or later, and $(PYTHON) is not: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@cxx="$${CXX:-c++}"; command -v $${cxx%% *} >/dev/null || { echo \
	    "tuskml needs a C++20 compiler, and $${cxx%% *} was not found (Debian: apt install g++)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# Peers of the benchmarks are installed one by one, and those that do not build are left out.
$(READY)-bench: $(BUILD) $(NATIVE) | $(BIN)/python
	@echo "Setting up $(VENV) for tuskml[bench]: compiling, then installing packages"
	@$(BIN)/pip install --quiet --disable-pip-version-check cryptography 'setuptools>=77'
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
	@peers=$$($(BIN)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	    print(*project["optional-dependencies"]["bench"])'); \
	for peer in $$peers; do \
	    $(BIN)/pip install --quiet --disable-pip-version-check "$$peer" || \
	        echo "The benchmarks leave out $$peer, which could not be installed" >&2; \
	done
	@touch $@

$(READY)-%: $(BUILD) $(NATIVE) | $(BIN)/python
	@echo "Setting up $(VENV) for tuskml[$*]: compiling, and installing packages meanwhile"
	@$(BIN)/pip install --quiet --disable-pip-version-check cryptography 'setuptools>=77'
	@$(BIN)/python setup.py --quiet build_ext --inplace & compiling=$$!; \
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[$*]'; \
	installed=$$?; wait $$compiling && exit $$installed
	@touch $@
