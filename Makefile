# Two commands matter: `make demo` and `make test`. Both set up what they need in .venv and target.

PYTHON ?= python3
VENV := .venv
DOCS_VENV := .venv-docs
PROOFS_VENV := .venv-proofs
BIN := $(VENV)/bin
# Cargo profile of the programs and the native module. With `checked`, a test run compiles most crates once.
PROFILE ?= release
TEST_PROFILE := $(if $(filter release,$(PROFILE)),test,$(PROFILE))
BUILT := target/$(PROFILE)
TEST_BUILT := target/$(if $(filter test,$(TEST_PROFILE)),debug,$(TEST_PROFILE))
NATIVE := $(VENV)/.native-built-$(PROFILE)
LOADER := $(BIN)/anabranch-cc
PROXY := $(BIN)/anabranch-proxy
ENDPOINT := $(BIN)/anabranch-endpoint
# Blocks SIGINT until Python has loaded its handler, where env is GNU's.
BLOCK_SIGNAL := $(shell env --block-signal=INT true 2> /dev/null && echo --block-signal=INT)
LAUNCHER := \#!/bin/sh\nexec env $(BLOCK_SIGNAL) "%s" -m anabranch "$$@"\n
# Python loads the module, so that it does not link Python's library. Cargo compiles pyo3 again after a change of the variable.
export PYO3_BUILD_EXTENSION_MODULE := 1
# Tests start hundreds of programs: without stored bytecode each of them would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE
# Make passes MAKEFLAGS with a job server that its children may not use, and Cargo warns each time.
CARGO := env -u MAKEFLAGS cargo
SKIPS := target/skipped-tests.txt
# Cargo chooses the features of dependencies for all that it builds together. For a part of the workspace they differ from those
# of the tests, and most crates would be compiled once more: with `checked`, programs, module and examples are built at once.
BUILD = $(CARGO) build --profile $(PROFILE) --locked $(if $(filter checked,$(PROFILE)),--lib --bins --examples,--quiet $(1))
RUST := $(shell find crates apps -name '*.rs' -o -name 'Cargo.toml') Cargo.toml Cargo.lock

.PHONY: build package compile own loader proxy page dist lab test-lab bench-lab bench-stack demo test lint lint-text lint-types lint-rust audit test-rust test-rust-build test-rust-kernel test-rust-parts test-rust-runs test-rust-whole test-python test-of-machine test-of-code-1 test-of-code-2 test-of-instructions profile generate figures reproduce docs bpf format interop packetdrill proofs clean

## build: leave the command at .venv/bin/anabranch
build: compile $(NATIVE) loader proxy page
	@echo "the command is $(BIN)/anabranch; to call it by its name: . $(BIN)/activate"
	@if [ "$$(uname -s)" = Linux ] && [ ! -x $(LOADER) ]; then echo "left out: $(NO_LOADER)" >&2; fi
	@if [ ! -f $(LAB) ]; then echo "left out: $(NO_LAB)" >&2; fi

# With several jobs, `checked` compiles while the packages of Python are installed. Other profiles compile part by part, below.
compile:
	@$(if $(filter checked,$(PROFILE)),$(call BUILD),:)

## own: build the command with the algorithms of a crate outside the workspace: make own CRATE=../my-control
# The command in .venv then has them; make build removes them, since it builds the module again.
OWN := target/own
own: $(VENV)/.installed
	@[ -n "$(CRATE)" ] || { echo "name the folder of a crate: make own CRATE=../my-control" >&2; exit 2; }
	@$(BIN)/python crates/py/own.py "$(CRATE)" $(OWN)
	@[ -x $(BIN)/anabranch ] || $(MAKE) --no-print-directory $(NATIVE)
	$(CARGO) build --profile $(PROFILE) --manifest-path $(OWN)/Cargo.toml --target-dir target
	@rm -f $(VENV)/.native-built*
	install -m 755 $(BUILT)/lib_native.so python/anabranch/_native.abi3.so

NO_LOADER := $(LOADER), which loads congestion controls into Linux: install libelf-dev, zlib1g-dev and pkg-config, then make build

# Loads congestion controls into Linux. Only this program needs libelf; everything else can be built without libelf.
loader: $(VENV)/.installed
	@if [ "$$(uname -s)" != Linux ]; then :; \
	elif ! pkg-config --exists libelf zlib 2> /dev/null; then \
	  echo "$(NO_LOADER)" >&2; \
	else \
	  $(call BUILD,-p anabranch-cc) && install -m 755 $(BUILT)/anabranch-cc $(LOADER); \
	fi

proxy: $(VENV)/.installed
	@if [ "$$(uname -s)" = Linux ]; then \
	  $(call BUILD,-p anabranch-proxy -p anabranch-endpoint-app) && \
	  install -m 755 $(BUILT)/anabranch-proxy $(PROXY) && \
	  install -m 755 $(BUILT)/anabranch-endpoint $(ENDPOINT); \
	fi

LAB := python/anabranch/lab/lab.html
LAB_MODULES := target/wasm32-unknown-unknown/lab
LAB_CORE := $(LAB_MODULES)/anabranch_lab.wasm
LAB_UNPACKER := $(LAB_MODULES)/anabranch_unpack.wasm
LAB_PACKED := target/lab-core.lzma
LAB_RULES := target/lab-rules.js
LAB_PACKAGES := lab/node_modules/.installed
LAB_SOURCES := $(wildcard lab/*.json lab/*.mjs lab/pack.py lab/rules/*.py lab/lessons/*.toml lab/src/* lab/src/*/*)
# The rules of explanations, and the modules that they need; tests/test_rules_of_page.py checks the list.
LAB_RULE_MODULES := explain/*.py fairness/*.py report/explanation.py _core/simulator.py coverage.py diagnostics.py link_values.py quantities.py remarks.py stats.py sweep.py
LAB_SOURCES += $(wildcard $(addprefix python/anabranch/,$(LAB_RULE_MODULES)))
NO_LAB := the laboratory in a page: install Node.js 20 or newer with npm, run rustup target add wasm32-unknown-unknown, then make build
# Other profiles than that of releases are for tests, where the size of the page does not matter. The file makes a page of
# another profile be built again, so that no release contains one for tests.
LAB_PROFILE := target/lab-profile-$(PROFILE)
LAB_LTO := $(if $(filter release,$(PROFILE)),,CARGO_PROFILE_LAB_LTO=off CARGO_PROFILE_LAB_CODEGEN_UNITS=16)
HAS_NODE := command -v npm > /dev/null && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'
HAS_WASM := [ -d "$$(rustc --print target-libdir --target wasm32-unknown-unknown 2> /dev/null)" ]

# The laboratory needs Node.js and a target of Rust, and packages from the network; all else works without it.
page: $(VENV)/.installed
	@if $(HAS_NODE) 2> /dev/null && $(HAS_WASM) && $(MAKE) --no-print-directory $(LAB_PACKAGES); then \
	  $(MAKE) --no-print-directory $(LAB); \
	fi

## dist: build a wheel with all programs, and a static anabranch-proxy for routers, in target/dist; test both without Rust
# glibc is chosen by zig, the compiler of the native module and the programs: the wheel then runs on older systems than
# this one. anabranch-cc links Debian's libelf and zlib, which zig does not see, and is static instead: it looks up no names.
DIST := target/dist
DIST_VENV := .venv-dist
DIST_TARGET := x86_64-unknown-linux-gnu
DIST_GLIBC := 2.17
ROUTER_TARGET := x86_64-unknown-linux-musl
DIST_BUILT := target/$(DIST_TARGET)/release
DIST_PROGRAMS := anabranch-proxy anabranch-endpoint anabranch-cc
ZIG := env -u MAKEFLAGS PATH="$(CURDIR)/$(DIST_VENV)/bin:$$PATH"
dist: $(DIST_VENV)/.installed lab
	@[ "$$(uname -sm)" = "Linux x86_64" ] || { echo "make dist needs Linux on x86-64" >&2; exit 2; }
	@[ -d "$$(rustc --print target-libdir --target $(ROUTER_TARGET))" ] || { echo "run: rustup target add $(ROUTER_TARGET)" >&2; exit 2; }
	rm -rf $(DIST) && mkdir -p $(DIST)
	$(ZIG) cargo zigbuild --release --locked --target $(DIST_TARGET).$(DIST_GLIBC) -p anabranch-proxy -p anabranch-endpoint-app
	RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --locked --target $(DIST_TARGET) -p anabranch-cc
	$(CARGO) build --release --locked --target $(ROUTER_TARGET) -p anabranch-proxy
	$(ZIG) maturin build --release --locked --zig --target $(DIST_TARGET) --compatibility manylinux2014 --out $(DIST)
	$(DIST_VENV)/bin/wheel unpack --dest $(DIST) $(DIST)/*.whl && rm $(DIST)/*.whl
	cd $(DIST)/anabranch-* && mkdir -p $$(basename $$PWD).data/scripts
	install -s -m 755 $(addprefix $(DIST_BUILT)/,$(DIST_PROGRAMS)) $(DIST)/anabranch-*/*.data/scripts
	$(DIST_VENV)/bin/wheel pack --dest-dir $(DIST) $(DIST)/anabranch-*/ && rm -r $(DIST)/anabranch-*/
	install -s -m 755 target/$(ROUTER_TARGET)/release/anabranch-proxy $(DIST)/anabranch-proxy-x86_64-static
	$(DIST_VENV)/bin/auditwheel show $(DIST)/*.whl | grep '"manylinux_$(subst .,_,$(DIST_GLIBC))_x86_64"'
	$(PYTHON) tests/dist.py $(DIST)/*.whl $(DIST)/anabranch-proxy-x86_64-static

$(DIST_VENV)/.installed: crates/py/dist-requirements.lock
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/pip install --quiet --no-deps --requirement $<
	@touch $@

## lab: build the laboratory, one page that anabranch lab serves
lab:
	@$(HAS_NODE) 2> /dev/null && $(HAS_WASM) || { echo "not built: $(NO_LAB)" >&2; exit 2; }
	$(MAKE) $(LAB)

$(LAB): $(LAB_SOURCES) $(RUST) $(LAB_PACKAGES) $(LAB_PROFILE)
	$(LAB_LTO) $(CARGO) build --profile lab --locked --quiet -p anabranch-lab -p anabranch-unpack --target wasm32-unknown-unknown
	cd lab && node_modules/.bin/tsc
	$(BIN)/python lab/pack.py $(LAB_CORE) $(LAB_PACKED)
	$(BIN)/python lab/rules $(LAB_RULES)
	node lab/build.mjs $(LAB_PACKED) $(LAB_UNPACKER) $(LAB_RULES) $@

$(LAB_PROFILE):
	@mkdir -p target && rm -f target/lab-profile-* && touch $@

$(LAB_PACKAGES): lab/package.json lab/package-lock.json
	cd lab && npm ci --silent --no-audit --no-fund
	@touch $@

## test-lab: test the page in Chromium, which is not part of `make test`
test-lab: build lab
	cd lab && node --test --test-concurrency=1 test/unpack.test.mjs test/explain.test.mjs test/page.test.mjs

## bench-lab: measure size, time to the first packet, frames and events a second of the page
bench-lab: lab
	node lab/test/bench.mjs

## bench-stack: measure the stack on TUN interfaces, over UDP and in memory, and other stacks, as root
bench-stack:
	$(CARGO) bench --locked --quiet -p anabranch-net --bench speed

DEMO := lugowski2017-bottleneck

## demo: run a quick study, print its verdicts on published values and statements, and write all results to results/
demo: build
	@mkdir -p results
	@$(BIN)/anabranch study run $(DEMO) --quick > results/demo.txt
	@sed -n '/^## Deviations/,/^## Figures/{/^## Figures/!p}' results/$(DEMO)/quick/report.md
	@tail -n 1 results/demo.txt
	@echo "Every point: results/demo.txt"

## test: set up and run every test and check
# Tests of the machine mostly wait, so that they run beside the other tests. clippy and the compiler of the tests in
# Rust have the lowest priority; they run one after the other, since Cargo locks its folder. Congestion controls of the
# kernel are those of the whole machine: the tests in Rust that load them run after the tests of the machine. The
# variable ALSO contains further targets.
test: lint-text
	$(MAKE) --jobs=4 build
	$(MAKE) --jobs=6 --output-sync=target PROGRAMS= FIRST=lint-rust LAST=test-of-machine test-of-machine test-of-code-2 \
	  test-of-code-1 lint-rust lint-types $(RUST_TESTS) $(ALSO)
	@echo "$$(wc -l < $(SKIPS)) tests in Rust skipped here:"; cat $(SKIPS)

lint: lint-text lint-types lint-rust

# These checks take seconds.
lint-text: $(VENV)/.installed
	cargo fmt --all --check
	$(BIN)/ruff check python tests docs/site lab
	$(BIN)/ruff format --check python tests docs/site lab
	$(BIN)/python tests/prose/lint.py

lint-types: $(VENV)/.installed
	nice $(BIN)/mypy

lint-rust:
	nice $(CARGO) clippy --profile $(TEST_PROFILE) --workspace --all-targets --locked -- -D warnings

# The same random cases each time, so that a failure is of the change; `cargo test` by hand draws others.
# Tests that this machine cannot run are skipped; `make test` lists them at its end. ANABRANCH_ALLOW_SKIP=0 makes them fail,
# as does `cargo test` by hand.
RUST_TESTS := test-rust-whole test-rust-runs test-rust-parts test-rust-kernel
$(RUST_TESTS): export ANABRANCH_ALLOW_SKIP ?= 1
$(RUST_TESTS): export ANABRANCH_SKIPS = $(CURDIR)/$(SKIPS)
$(RUST_TESTS): export PROPTEST_RNG_SEED = 20261122

test-rust:
	$(MAKE) --jobs=3 --output-sync=target $(RUST_TESTS)

$(RUST_TESTS): test-rust-build

test-rust-build: $(FIRST)
	@mkdir -p target && : > $(SKIPS)
	nice $(CARGO) test --profile $(TEST_PROFILE) --locked --no-run

# Unit tests, doctests and examples.
test-rust-parts:
	$(CARGO) test --profile $(TEST_PROFILE) --locked --lib --bins
	$(CARGO) test --profile $(TEST_PROFILE) --locked --doc
	$(TEST_BUILT)/examples/own_control
	$(TEST_BUILT)/examples/own_scheduler
	$(TEST_BUILT)/examples/read_pcap

# Tests that load congestion controls into the kernel are files whose names begin with kernel_. Both commands take all
# packages: for a part of them Cargo would choose other features, and compile most crates again. The variable LAST
# contains a target that must end before this one.
test-rust-kernel: $(LAST)
	$(CARGO) test --profile $(TEST_PROFILE) --locked --test 'kernel_*'

# Simulations compute all the time, most others wait for the kernel and its clock: they run at the same time.
test-rust-runs:
	nice $(CARGO) test --profile $(TEST_PROFILE) --locked --test 'ru*'

test-rust-whole:
	$(CARGO) test --profile $(TEST_PROFILE) --locked --test '[!kr]*' --test 'r[!u]*'

# Programs and native module that the tests in Python use. `make test` has built them before, and leaves this empty.
PROGRAMS := build

test-python: $(PROGRAMS)
	$(MAKE) --jobs=3 --output-sync=target test-of-machine test-of-code-1 test-of-code-2

## interop: run all cases with other stacks, as root, and write docs/lab-notes/interoperation.md
interop: build
	$(BIN)/python tests/interop.py

## packetdrill: run the scripts of two checkouts in which packetdrill is built, as root: make packetdrill TCP=DIR MPTCP=DIR
packetdrill: $(VENV)/.installed
	@[ -n "$(TCP)$(MPTCP)" ] || { echo "name the checkouts: make packetdrill TCP=DIR MPTCP=DIR" >&2; exit 2; }
	$(CARGO) build --locked --quiet -p anabranch-packetdrill
	$(BIN)/python tests/packetdrill.py target/debug/libanabranch_packetdrill.so $(if $(TCP),--tcp $(TCP)) $(if $(MPTCP),--mptcp $(MPTCP))

## proofs: prove the theorems about checksums, lengths, serial numbers and windows (ONLY=WORD: those whose name has it)
# The solver and its environment take 500 MB, so they have their own one; nothing else needs them. Symbolic execution covers
# programs for x86-64 only.
PROVED := proof base wire tcp sctp
proofs:
	@if [ "$$(uname -sm)" != "Linux x86_64" ]; then \
	  echo "skipped: proofs need Linux on x86-64" >&2; \
	elif ! $(MAKE) --no-print-directory $(PROOFS_VENV)/.installed; then \
	  echo "skipped: the packages of tests/proofs/requirements.lock cannot be installed" >&2; \
	else \
	  $(CARGO) test --no-run --locked --profile checked --lib $(PROVED:%=-p anabranch-%) --message-format json \
	    | $(PROOFS_VENV)/bin/python tests/proofs/prove.py $(if $(ONLY),--only $(ONLY)) \
	      --count $$(grep -rhE '^ *(anabranch_proof::)?theorem! \{' --include='*.rs' crates | wc -l); \
	fi

$(PROOFS_VENV)/.installed: tests/proofs/requirements.lock
	$(PYTHON) -m venv $(PROOFS_VENV)
	$(PROOFS_VENV)/bin/pip install --quiet --no-deps --requirement $<
	@touch $@

# Runs in real time fail where other programs delay them. Tests that failed (status 1) are repeated once; their failures stay
# in the output. The folder has the list of these tests.
MACHINE_TESTS := $(BIN)/pytest -m machine -o addopts='-q --strict-markers' -o cache_dir=target/tests-of-machine
test-of-machine: $(PROGRAMS)
	@rm -rf target/tests-of-machine
	$(MACHINE_TESTS) || { [ $$? -eq 1 ] && echo "the tests that failed run once more" && $(MACHINE_TESTS) --last-failed --last-failed-no-failures none; }

# Two processes, by the names of the files: tests of the machine wait most of the time.
test-of-code-1: $(PROGRAMS)
	$(BIN)/pytest -m "not machine" tests/test_[a-e]*.py

test-of-code-2: $(PROGRAMS)
	$(BIN)/pytest -m "not machine" tests/test_[!a-e]*.py

# Counted instructions repeat on a loaded machine, times do not. Counts of another compiler are skipped with a message.
test-of-instructions: $(PROGRAMS)
	@if command -v valgrind > /dev/null; then \
	  $(BIN)/anabranch bench --baseline .ci/instructions.json; \
	else \
	  echo "skipped: valgrind is missing" >&2; \
	fi

## audit: check licences, advisories and sources of all dependencies; needs the network, cargo-deny and pip-audit
audit:
	@if cargo deny --version > /dev/null 2>&1; then \
	  $(CARGO) deny --locked check; \
	else \
	  echo "skipped: cargo-deny is missing; install it: cargo install --locked cargo-deny" >&2; \
	fi
	@if command -v pip-audit > /dev/null; then \
	  pip-audit --requirement requirements.lock --no-deps --disable-pip; \
	else \
	  echo "skipped: pip-audit is missing; install it: pipx install pip-audit" >&2; \
	fi

## package: pack the crates that other programs can use, and compile each from its package (PACKAGE=--no-verify: pack only)
UNPUBLISHED := fuzz proof testkit py lab unpack packetdrill proxy endpoint-app cc
package:
	$(CARGO) package --workspace --locked --allow-dirty --quiet $(UNPUBLISHED:%=--exclude anabranch-%) $(PACKAGE)

## profile: write instructions, cache misses and allocations of six scenarios to target/profile; needs valgrind
# Cargo leaves the symbols in the library, which an installation strips.
profile: $(VENV)/.installed
	$(CARGO) build --release --locked --quiet -p anabranch-py
	PYTHONPATH=python $(BIN)/python -m anabranch.bench.profile target/release/lib_native.so target/profile

## generate: write every file that is made from tables, by the controls or by runs: pages and schema in docs, vectors/congestion
generate: build
	ANABRANCH_GENERATE=1 $(CARGO) test --quiet --locked -p anabranch-multipath -p anabranch-scenario -p anabranch-sim generated
	$(BIN)/anabranch schema study > docs/reference/study.schema.json
	$(BIN)/anabranch schema claims > docs/reference/claims.schema.json
	PYTHONPATH=python $(BIN)/python tests/command_reference.py
	PYTHONPATH=python $(BIN)/python tests/study_reference.py
	PYTHONPATH=python $(BIN)/python tests/result_classes.py

## reproduce: run the quick form of every study and write a table of verdicts; README=--readme also puts it into README.md
reproduce: build
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/site/reproduce.py $(README)

## figures: draw the figures of single runs in docs/gallery.md again
figures: build
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python docs/site/figures.py

## docs: write the documentation site to target/docs/site; fails on a broken link
# The generator has its own environment: building and testing need none of it. It sees the packages of the other one.
docs: build $(DOCS_VENV)/.installed
	PYTHONPATH=python $(DOCS_VENV)/bin/python docs/site/build.py

$(DOCS_VENV)/.installed: docs/site/requirements.lock | $(VENV)/.installed
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --no-deps --requirement $<
	@$(BIN)/python -c 'import site; print(site.getsitepackages()[0])' \
	  > "$$($(DOCS_VENV)/bin/python -c 'import site; print(site.getsitepackages()[0])')/anabranch.pth"
	@touch $@

## bpf: compile the congestion controls for Linux again, which needs clang; the objects are kept in the repository
bpf:
	$(MAKE) -C crates/kernel/bpf

## format: rewrite all sources in the house format
format: $(VENV)/.installed
	cargo fmt --all
	$(BIN)/ruff check --fix python tests docs/site lab
	$(BIN)/ruff format python tests docs/site lab

## clean: remove everything that was built; results stay
clean:
	rm -rf $(VENV) $(DOCS_VENV) $(PROOFS_VENV) $(DIST_VENV) target

$(VENV)/.installed: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name it with PYTHON=..." >&2; exit 2; }
	@command -v cargo > /dev/null || { echo "Rust is needed: no cargo found" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-deps --requirement requirements.lock
	@touch $@

# The package of a release is installed by maturin. That of `checked` is the source with the module that all else is built with;
# maturin reads its description.
ifeq ($(PROFILE),checked)
define INSTALL_MODULE
	$(call BUILD)
	install -m 755 $(BUILT)/lib_native.so python/anabranch/_native.abi3.so
	$(BIN)/maturin pep517 write-dist-info --quiet --interpreter $(BIN)/python --metadata-directory target/dist-info
	echo "$(CURDIR)/python" > "$$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])')/anabranch.pth"
endef
else
define INSTALL_MODULE
	VIRTUAL_ENV=$(CURDIR)/$(VENV) env -u MAKEFLAGS $(BIN)/maturin develop --profile $(PROFILE) --locked
endef
endif

# The stamp has the time before the build: a source that changes meanwhile is newer.
$(NATIVE): $(VENV)/.installed pyproject.toml $(RUST)
	@rm -f $(VENV)/.native-built*
	@touch $@.begin
	$(INSTALL_MODULE)
	@printf '$(LAUNCHER)' "$(CURDIR)/$(BIN)/python" > $(BIN)/anabranch && chmod +x $(BIN)/anabranch
	@mv $@.begin $@
