#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs .clusterfuzzlite/build.sh without a container, under the contract of OSS-Fuzz, and checks $OUT as OSS-Fuzz's own
bad_build_check and test_all do. What `make oss-fuzz` runs.

    ci/oss_fuzz.py [BUILD...]    address undefined memory coverage afl; all of them if none is named
    LAW=a,b                      checks only these targets; all are built
    JOBS=n                       processes at once; all processors if not given

The tree is copied, and what was built is moved before it is checked, so nothing may depend on where it was built. What differs from
the images: compilers and runtimes are this machine's, and C++ is linked with its own library. Exit code 0: all passed, 1: some failed,
2: wrong use, 130: interrupted before any failed.
"""

import concurrent.futures
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import corpora
import fuzz_afl
import lint
import suite
import tree

BASE_FLAGS = "-O1 -fno-omit-frame-pointer -gline-tables-only -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION"
UNDEFINED = ("array-bounds,bool,builtin,enum,float-divide-by-zero,function,integer-divide-by-zero,null,object-size,return,"
             "returns-nonnull-attribute,shift,signed-integer-overflow,unsigned-integer-overflow,unreachable,vla-bound,vptr")
SANITIZER_FLAGS = {
    "address": "-fsanitize=address -fsanitize-address-use-after-scope",
    "undefined": f"-fsanitize={UNDEFINED} -fno-sanitize-recover={UNDEFINED.replace('unsigned-integer-overflow,', '')}",
    "memory": "-fsanitize=memory -fsanitize-memory-track-origins",
    "coverage": "",
}
COVERAGE_FLAGS = "-fsanitize=fuzzer-no-link"
COVERAGE_FLAGS_OF_COVERAGE = "-fprofile-instr-generate -fcoverage-mapping -pthread -Wl,--no-as-needed -Wl,-ldl -Wl,-lm" \
                             " -Wno-unused-command-line-argument"
AFL_DRIVER = "/usr/lib/afl/libAFLDriver.a"
BUILDS = (*SANITIZER_FLAGS, "afl")

# As bad_build_check has them: calls of a runtime that a build with this sanitizer must at least have, and one without at most.
LEAST_CALLS = {"address": ("__asan", 1000), "memory": ("__msan", 1000), "undefined": ("__ubsan", 168)}
MOST_CALLS_ELSEWHERE = {"__asan": 0, "__msan": 3, "__ubsan": 200}
LEAST_EDGES = 100
RUNS = 4
RUN_SECONDS = 60
# What the image that runs targets has; libc++ is linked statically there, and libstdc++ is what takes its place here.
EXPECTED_LIBRARIES = re.compile(r"linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so")


class Build:
    """One run of build.sh, and what it left in $OUT."""

    def __init__(self, name):
        self.name = name
        self.sanitizer = "address" if name == "afl" else name
        self.root = os.path.join(tree.BUILD, "oss-fuzz", name)
        self.out = os.path.join(self.root, "out")
        self.moved = os.path.join(self.root, "not-out")

    def environment(self):
        tools = tree.toolchain()
        flags = f"{BASE_FLAGS} {SANITIZER_FLAGS[self.sanitizer]}"
        result = {"SRC": os.path.join(self.root, "src"), "WORK": os.path.join(self.root, "work"), "OUT": self.out,
                  "SANITIZER": self.sanitizer, "ARCHITECTURE": "x86_64", "FUZZING_LANGUAGE": "c",
                  "HOST_CC": tools["FUZZ_CC"], "HOST_CXX": tools["FUZZ_CXX"],
                  "CMAKE_BUILD_PARALLEL_LEVEL": str(tree.jobs())}
        if self.name == "afl":
            wrapper = suite.need(tools["AFL_CC_WRAPPER"], "afl++")
            result.update(FUZZING_ENGINE="afl", CC=wrapper, CXX=wrapper + "++", AFL_QUIET="1", LIB_FUZZING_ENGINE=AFL_DRIVER,
                          ASAN_OPTIONS="detect_leaks=0:symbolize=0:detect_odr_violation=0:abort_on_error=1")
        else:
            flags += " " + (COVERAGE_FLAGS_OF_COVERAGE if self.name == "coverage" else COVERAGE_FLAGS)
            result.update(FUZZING_ENGINE="libfuzzer", CC=tools["FUZZ_CC"], CXX=tools["FUZZ_CXX"],
                          LIB_FUZZING_ENGINE="-fsanitize=fuzzer")
        return {**result, "CFLAGS": flags, "CXXFLAGS": flags}

    def make(self):
        """What is below $WORK stays, so that the next run compiles only what changed."""
        environment = self.environment()
        for folder in (environment["SRC"], self.out, self.moved):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("SRC", "WORK", "OUT"):
            os.makedirs(environment[name], exist_ok=True)
        copy_tree(os.path.join(environment["SRC"], "cproute"))
        script = os.path.join(environment["SRC"], "build.sh")
        shutil.copy(tree.path(".clusterfuzzlite", "build.sh"), script)
        suite.command(["bash", "-eu", script], cwd=os.path.join(environment["SRC"], "cproute"), timeout=1800, **environment)
        os.rename(self.out, self.moved)

    def target(self, law):
        return os.path.join(self.moved, f"fuzz_{law}")

    def run(self, law, *arguments, **environment):
        """As run_fuzzer: from $OUT, with the options beside the target; the output, of a good end only."""
        return suite.command([self.target(law), *arguments, *options_of(self.target(law))], cwd=self.moved, timeout=RUN_SECONDS,
                             UBSAN_OPTIONS="silence_unsigned_overflow=1:print_stacktrace=1", **environment)


def copy_tree(to):
    """As a container's COPY or clone would get it."""
    for name in lint.files_of_tree():
        os.makedirs(os.path.dirname(os.path.join(to, name)), exist_ok=True)
        shutil.copy2(tree.path(name), os.path.join(to, name))


def options_of(target):
    """The [libfuzzer] section of the options beside a target, as arguments."""
    options = configparser.ConfigParser()
    options.read(target + ".options")
    return [f"-{name}={value}" for name, value in options["libfuzzer"].items()]


def targets_are_the_laws(build):
    """test_all finds targets by mode, format and symbol; each law is one, and nothing else is."""
    found = set()
    for name in os.listdir(build.moved):
        path = os.path.join(build.moved, name)
        if not os.access(path, os.X_OK):
            continue
        with open(path, "rb") as file:
            content = file.read()
        if content.startswith(b"\x7fELF") and b"LLVMFuzzerTestOneInput" in content:
            found.add(name)
    wanted = {f"fuzz_{law}" for law in tree.laws()}
    if found != wanted:
        raise suite.Failed(f"missing: {sorted(wanted - found)}, unexpected: {sorted(found - wanted)}")
    beside = {name for name in os.listdir(build.moved) if name not in found}
    unexpected = [name for name in beside if not re.fullmatch(r"fuzz_\w+(\.options|\.dict|_seed_corpus\.zip)", name)]
    if unexpected:
        raise suite.Failed(f"unexpected: {sorted(unexpected)}")
    return f"{len(found)} targets"


def is_self_contained(build, law):
    """check_architecture, and no library that the image that runs targets lacks."""
    header = suite.command(["readelf", "-h", "-d", build.target(law)])
    if "X86-64" not in header:
        raise suite.Failed("not built for x86-64")
    if "RUNPATH" in header or "RPATH" in header:
        raise suite.Failed("looks for libraries where it was built")
    odd = [line.strip() for line in suite.command(["ldd", build.target(law)]).splitlines() if not EXPECTED_LIBRARIES.search(line)]
    if odd:
        raise suite.Failed("links " + ", ".join(odd))


def has_its_sanitizer(build, law):
    """check_mixed_sanitizers: counts calls of the runtimes."""
    if build.name not in LEAST_CALLS:
        return
    code = suite.command(["objdump", "-dC", "--no-show-raw-insn", build.target(law)])
    own, least = LEAST_CALLS[build.name]
    for runtime, most in MOST_CALLS_ELSEWHERE.items():
        calls = len(re.findall(rf"callq?\s+[0-9a-f]+\s+<{runtime}", code))
        if runtime == own and calls < least:
            raise suite.Failed(f"{calls} calls of {runtime}, {least} are wanted")
        if runtime != own and calls > most:
            raise suite.Failed(f"{calls} calls of {runtime}, which is not of this build; {most} at most")


def starts(build, law):
    """check_engine and check_startup_crash: instrumented, and some runs end well; the dictionary is understood."""
    dictionary = build.target(law) + ".dict"
    given = [f"-dict={dictionary}"] if os.path.exists(dictionary) else []
    output = build.run(law, "-seed=1337", f"-runs={RUNS}", *given)
    if f"Done {RUNS} runs" not in output:
        raise suite.Failed(f"did not run {RUNS} times:\n{suite.tail(output)}")
    edges = re.search(r"INFO: Loaded \d+ modules? +\((\d+) inline 8-bit counters\)", output)
    if not edges or int(edges.group(1)) < LEAST_EDGES:
        raise suite.Failed(f"hardly instrumented:\n{suite.tail(output)}")
    if "unrecognized flag" in output:
        raise suite.Failed(f"{law}.options: {re.search('.*unrecognized flag.*', output).group()}")
    if given and not re.search(r"Dictionary: [1-9]\d* entries", output):
        raise suite.Failed(f"the dictionary is not understood:\n{suite.tail(output)}")


def seeds_of(build, law, folder):
    """The unpacked seed corpus."""
    with zipfile.ZipFile(f"{build.target(law)}_seed_corpus.zip") as archive:
        archive.extractall(folder)
    seeds = corpora.files_in(folder)
    if not seeds:
        raise suite.Failed("no seed in the seed corpus")
    return seeds


def survives_its_seeds(build, law):
    """check_seed_corpus; and that it is all that the text cases give."""
    with tempfile.TemporaryDirectory() as folder:
        seeds = seeds_of(build, law, folder)
        output = build.run(law, "-runs=0", folder)
    ran = re.search(r"INFO: +(\d+) files found", output)
    if not ran or int(ran.group(1)) != len(seeds):
        raise suite.Failed(f"not all of {len(seeds)} seeds were run:\n{suite.tail(output)}")


def covers_the_engine(build, law):
    """The coverage build, which has no feedback for a fuzzer, as the coverage script runs it: profiles that name lines of engine/."""
    tools = tree.toolchain()
    with tempfile.TemporaryDirectory() as folder:
        seeds = os.path.join(folder, "seeds")
        seeds_of(build, law, seeds)
        merged, raw, profile = (os.path.join(folder, name) for name in ("merged", "raw", "profile"))
        os.makedirs(merged)
        build.run(law, "-merge=1", merged, seeds, LLVM_PROFILE_FILE=os.path.join(raw, "%p"))
        suite.command([suite.need(tools["LLVM_PROFDATA"], "llvm-profdata"), "merge", "-sparse", "-o", profile, *corpora.files_in(raw)])
        report = suite.command([suite.need(tools["LLVM_COV"], "llvm-cov"), "report", build.target(law), f"-instr-profile={profile}"])
    if not re.search(r"engine/\w+\.c", report) or not re.search(r"^TOTAL", report, re.MULTILINE):
        raise suite.Failed(f"no line of engine/ in the report:\n{suite.tail(report)}")


def is_fuzzed_by_afl(build, law):
    """check_engine for AFL++: afl-fuzz takes it and runs it from its seeds."""
    with tempfile.TemporaryDirectory() as folder:
        seeds = os.path.join(folder, "seeds")
        seeds_of(build, law, seeds)
        for path in corpora.files_in(seeds):
            if not os.path.getsize(path):
                os.remove(path)
        environment = fuzz_afl.afl_environment(AFL_NO_UI="1", AFL_FORKSRV_INIT_TMOUT="30000")
        environment.pop("AFL_FORCE_UI")
        dictionary = build.target(law) + ".dict"
        given = ["-x", dictionary] if os.path.exists(dictionary) else []
        done = subprocess.run(["afl-fuzz", "-i", seeds, "-o", os.path.join(folder, "out"), "-m", "none", "-t", "5000+", "-E", "2000",
                               *given, "--", build.target(law)],
                              cwd=build.moved, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=RUN_SECONDS * 2,
                              env=environment)
        crashes = fuzz_afl.inputs_in(os.path.join(folder, "out", "default", "crashes"))
    if "All set and ready to roll" not in done.stdout:
        raise suite.Failed(f"afl-fuzz does not take it:\n{suite.tail(done.stdout)}")
    if crashes:
        raise suite.Failed(f"{len(crashes)} crashes in 2,000 runs")


CHECKS = {
    "address": (is_self_contained, has_its_sanitizer, starts, survives_its_seeds),
    "undefined": (is_self_contained, has_its_sanitizer, starts, survives_its_seeds),
    "memory": (is_self_contained, has_its_sanitizer, starts, survives_its_seeds),
    "coverage": (is_self_contained, covers_the_engine),
    "afl": (is_self_contained, is_fuzzed_by_afl),
}


def check_target(build, law):
    for check in CHECKS[build.name]:
        try:
            check(build, law)
        except suite.Failed as failed:
            raise suite.Failed(f"{check.__name__.replace('_', ' ')}: {failed}")


def check_build(tests, name, laws):
    build = Build(name)
    if not tests.run(f"oss-fuzz: build.sh, {name}", build.make):
        return
    tests.run(f"oss-fuzz: {name}: every law is a target", targets_are_the_laws, build)
    with concurrent.futures.ThreadPoolExecutor(max_workers=tree.jobs()) as pool:
        list(pool.map(lambda law: tests.run(f"oss-fuzz: {name}: fuzz_{law}", check_target, build, law), laws))


def run():
    names = sys.argv[1:] or BUILDS
    for name in names:
        if name not in BUILDS:
            raise tree.WrongUse(f"{name} is no build. The builds: {' '.join(BUILDS)}")
    laws = tree.chosen_laws(os.environ.get("LAW"))
    tree.alone("oss-fuzz")
    tests = suite.Suite()
    with tests.stop:
        for name in names:
            check_build(tests, name, laws)
    return tests.end()


if __name__ == "__main__":
    tree.main(run)
