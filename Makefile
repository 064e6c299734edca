# SPDX-License-Identifier: Apache-2.0
# The front door. Each target is one line that a person could type; the work is done by CMake presets and ci/.
PYTHON ?= python3
ifeq ($(strip $(JOBS)),)
override JOBS := $(shell nproc)
endif
export JOBS FUZZ_SECONDS SOAK_MINUTES LAW MUTANTS SEED FILES STAGES RULES BUGS SEEDS DETECTION_SECONDS SHRINK

.PHONY: all cache-guards check check-all oss-fuzz fuzz fuzz-afl soak triage fuzz-report detection figures metrics mutants planted why replay cover asan \
    msan tsan lint format clean help bench gpu upstream instructions compare
.DEFAULT_GOAL := all

all: ## the command build/release/cproute and the libraries
	@$(call build,release)

check: ## the test suite; ends with: N passed, N failed, N skipped. LANES=ci adds coverage, AFL++ and the GPU part
	@$(PYTHON) ci/check.py $(LANES)

fuzz: ## libFuzzer on every law, from the corpus. FUZZ_SECONDS=60 LAW=a,b JOBS=n
	@$(PYTHON) ci/fuzz.py

fuzz-afl: ## the same with AFL++
	@$(PYTHON) ci/fuzz_afl.py

soak: ## both fuzzers on all laws for long, each from what the other found. SOAK_MINUTES=60 LAW=a,b JOBS=n
	@$(PYTHON) ci/soak.py

triage: ## judge findings again, put equal ones together, shrink them to text cases
	@$(PYTHON) ci/triage.py

fuzz-report: ## plots of all fuzzing so far: build/fuzz-report.html
	@$(PYTHON) ci/report.py

figures: ## measure what fuzzing reaches here, write docs/fuzzing.md; three minutes
	@$(PYTHON) ci/figures.py

mutants: ## mutation testing of the engine; resumes. MUTANTS=400 for a sample of ten minutes, FILES=a.c SEED=1 FUZZ_SECONDS=60
	@$(PYTHON) ci/mutants.py

detection: ## how soon planted faults are found, beside two baselines; resumes. BUGS=a,b SEEDS=10 DETECTION_SECONDS=30 SHRINK=5
	@$(PYTHON) ci/detection.py

metrics: ## mutants, detection and an hour of soak, as far as not measured of these sources yet, and docs/METRICS.md; a night
	@$(PYTHON) ci/metrics.py

upstream: ## hold the generations of Megatron-LM to conform, write docs/upstream.md. SOURCE=clone [ALSO=name=checkout]; needs torch
	@test -n ''$(call quoted,SOURCE) || { echo "make upstream: SOURCE=path/to/Megatron-LM is missing" >&2; exit 2; }
	@$(call build,release)
	@$(PYTHON) tools/adapters/upstream.py --source $(call quoted,SOURCE) $(foreach one,$(ALSO),--also "$(one)")

planted: ## plant each bug of planted/ into a copy of the tree and show which laws see it; ten minutes
	@$(PYTHON) ci/planted.py

why: ## train a tiny model with each of those bugs, and write docs/why.md and its pictures; three minutes
	@$(PYTHON) ci/why.py

replay: ## every corpus file through every law it fits, under ASan and UBSan
	@$(call build,asan,cproute)
	@build/asan/cproute replay corpus

cache-guards: ## what guards of cached routes miss: write docs/cache-guards.md from runs
	@$(call build,release,cache_guards)
	@mkdir -p docs && build/release/cache_guards > docs/cache-guards.md.new && mv docs/cache-guards.md.new docs/cache-guards.md

cover: ## coverage of the engine: HTML report, summary and gate
	@$(PYTHON) ci/cover.py

asan: ## build and test with AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call build,asan)
	@ctest --preset asan -j "$$JOBS"

msan: ## replay the byte inputs with MemorySanitizer
	@$(PYTHON) ci/check.py msan

tsan: ## build and test with ThreadSanitizer
	@$(call build,tsan)
	@ctest --preset tsan -j "$$JOBS"

lint: ## formatting, licences, headers as C and C++, cppcheck, clang-tidy, scripts, warnings of every clang
	@$(PYTHON) ci/check.py lint warnings tidy

check-all: ## every lane that CI has, on this machine: other compilers, 32 bits, OSS-Fuzz ... an hour on two cores
	@$(PYTHON) ci/check.py all

oss-fuzz: ## run .clusterfuzzlite/build.sh without a container, check what it builds as OSS-Fuzz would
	@$(PYTHON) ci/oss_fuzz.py

format: ## clang-format on every C source
	@bash -c 'source ci/toolchain.sh; \
	    test "$$CLANG_FORMAT" || { echo "clang-format-14 is missing: run ci/install-deps.sh" >&2; exit 2; }; \
	    git ls-files -co --exclude-standard "*.c" "*.cu" "*.h" | xargs "$$CLANG_FORMAT" -i'

clean: ## remove build/; findings/ stays
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  make %-12s %s\n' "$$name" "$$text"; done

bench: ## what routes, rows, moves and cached lookups cost, against memcpy and memcmp; how it grows. FILTER=regex
	@$(call build,bench,benchmarks)
	@$(PYTHON) bench/run.py $(call quoted,FILTER)

compare: ## Megatron-LM's builder and this one in one run. SOURCE=checkout, or SOURCE=clone COMMIT=ref; needs torch
	@test -n ''$(call quoted,SOURCE) || { echo "make compare: SOURCE=path/to/Megatron-LM is missing" >&2; exit 2; }
	@$(call build,bench,time_packs) && $(call build,bench,cproute_shared)
	@$(PYTHON) bench/compare_upstream.py --source $(call quoted,SOURCE) $(if $(COMMIT),--commit $(call quoted,COMMIT))

instructions: ## how many instructions builds take, beside the record of bench/instructions.json; needs valgrind
	@$(call build,release,counted_builds)
	@$(PYTHON) ci/instructions.py

gpu: ## build, test and measure on the GPUs here, write docs/gpu.md; eight minutes, or SECONDS=540. SOURCE=, COMMIT=: PyTorch's beside it
	@$(PYTHON) ci/gpu.py $(if $(SOURCE),--source $(call quoted,SOURCE)) $(if $(COMMIT),--commit $(call quoted,COMMIT)) \
	    $(if $(SECONDS),--seconds $(call quoted,SECONDS))

# $(call quoted,NAME): the value of a variable as one word for the shell, dollars and quotes as they are; nothing if it has none.
quoted = $(if $(value $(1)),'$(subst ','\'',$(value $(1)))')

# $(call build,PRESET[,TARGET]): configures once, builds quietly, one at a time.
build = case "$$JOBS" in 0* | *[!0-9]* | ??????????*) \
    echo "make: JOBS=$$JOBS is not a whole number from 1 to 999999999" >&2; exit 2;; esac; for tool in cmake ninja; do \
    command -v $$tool >/dev/null || { echo "$$tool is missing: run ci/install-deps.sh" >&2; exit 2; }; done; \
    mkdir -p build && { test -f build/$(1)/build.ninja || test -f build/$(1)/Makefile || $(call turn,$(1)) cmake --preset $(1) >/dev/null; } && \
    $(call turn,$(1)) cmake --build --preset $(1) --parallel "$$JOBS" $(if $(2),--target $(2))
turn = flock --close build/.$(1).lock
