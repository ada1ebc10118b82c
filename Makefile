# SPDX-License-Identifier: Apache-2.0
# Verbs only; how things are built stands in CMakeLists.txt. `make help` lists them.
BUILD ?= build
PYTHON = $(BUILD)/venv/bin/python
NINJA = ninja -C $(BUILD)
.DEFAULT_GOAL := all

.PHONY: all
all: programs venv ## build everything: programs, libraries, the compiler's environment

.PHONY: programs
programs: packages
	@test -f $(BUILD)/build.ninja || cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS)
	@$(NINJA)

.PHONY: packages
packages:
	@tools/packages.sh

.PHONY: venv
venv: packages
	@tools/venv.sh $(BUILD)/venv

.PHONY: run
run: all ## read the text of a picture with a real network on the emulated DSP: make run [IMAGE=line.png]
	@$(PYTHON) examples/ocr/ocr.py $(if $(IMAGE),--image $(IMAGE))

.PHONY: test
test: all ## every test; the last line is "N passed, N failed"
	@$(PYTHON) tools/test.py --build $(BUILD)

.PHONY: models
models: all ## compile the real models and compare them with onnxruntime
	@$(PYTHON) tests/models/run.py --all

.PHONY: bench
bench: all ## measure, each figure beside its limit or peer; writes build/bench: make bench [ONLY=GROUP] [PEERS=1]
	@$(PYTHON) bench/bench.py $(ONLY) $(if $(PEERS),--peers)

.PHONY: bench-guard
bench-guard: all ## a quick bench: which ratios got worse than the stored ones by more than the spread
	@$(PYTHON) bench/guard.py $(ONLY)

.PHONY: bench-store
bench-store: all ## measure what bench-guard compares with, and write bench/stored.json
	@$(PYTHON) bench/guard.py --store

.PHONY: asan tsan
asan: all ## the tests under AddressSanitizer and UBSan, with the two smallest models
	@$(MAKE) --no-print-directory programs BUILD=build-asan CMAKE_FLAGS="-DC7X_SANITIZE=address,undefined"
	@$(PYTHON) tools/test.py --build build-asan --quick

tsan: all ## the tests under ThreadSanitizer, with the two smallest models
	@$(MAKE) --no-print-directory programs BUILD=build-tsan CMAKE_FLAGS="-DC7X_SANITIZE=thread"
	@$(PYTHON) tools/test.py --build build-tsan --quick

.PHONY: aarch64
aarch64: all ## the tests and all models as AArch64 programs under qemu, on a Cortex-A53
	@tools/packages.sh aarch64
	@tools/sysroot.sh build-aarch64
	@$(MAKE) --no-print-directory programs BUILD=build-aarch64 \
	    CMAKE_FLAGS="-DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DC7X_WERROR=ON"
	@$(PYTHON) tools/test.py --build build-aarch64 --aarch64

.PHONY: fuzz
SECONDS ?= 20
fuzz: ## each fuzz target for 20 s under ASan and UBSan: make fuzz [SECONDS=20] [HOURS=1 over all]
	@tools/packages.sh fuzz
	@cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DC7X_FUZZ=ON -DC7X_WERROR=ON \
	    -DC7X_SANITIZE=address,undefined >/dev/null
	@ninja -C build-fuzz --quiet fuzzers
	@python3 fuzz/run.py --build build-fuzz --seconds $(SECONDS) $(if $(HOURS),--hours $(HOURS))

.PHONY: soak
soak: all ## the long tests at full count; or, for so long, a mixed load with faults and kills: make soak [HOURS=24]
	@$(if $(HOURS),C7X_SOAK_HOURS=$(HOURS) C7X_BUILD_DIR=$(BUILD) C7X_EMULATOR=$(BUILD)/bin/c7x_emulator \
	    $(BUILD)/tests/users_soak_test,C7X_SOAK=1 $(PYTHON) tools/test.py --build $(BUILD) --only soak)

.PHONY: lint
lint: ## format, layers, and a build without warnings by gcc and clang
	@tools/packages.sh lint
	@tools/lint.sh

.PHONY: install
install: programs ## install to DESTDIR and PREFIX: headers, libraries, programs, manual pages
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

.PHONY: ci
ci: ## what CI runs
	@.ci/run

.PHONY: clean
clean: ## remove all that was built
	rm -rf build build-*

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9 -]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
