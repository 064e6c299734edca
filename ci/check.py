#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The test suite, from a clean clone, in two minutes on two processors: what `make check` runs.

    ci/check.py [LANE...]    the lanes that fit two minutes, or those that are named
    ci/check.py ci           what CI runs first: three lanes more
    ci/check.py all          every lane: what CI runs on several machines

    two minutes: release fuzz msan tsan lint
    ci:          cover afl gpu too
    others:      warnings tidy gcc-12 clang-14 clang-16 clang-19 debug asan tsan-all m32 oss-fuzz

    JOBS=n       processes at once; all processors if not given

Prints one line a test, then `N passed, N failed, N skipped`. Exit code 0: all passed, 1: some failed, 2: wrong use, 130: interrupted
before any failed. Only what needs a tool beyond the compilers is ever skipped, and the line says which tool.
"""

import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

import campaign
import corpora
import cover
import detection
import fuzz
import fuzz_afl
import gpu
import instructions
import lint
import oss_fuzz
import planted
import suite
import tree

# Under a second of most laws.
SMOKE_CASES = 1000
# What the tests under ASan leave out: the fuzz targets judge the laws under ASan already, the rest is about tests and not the
# engine. `make asan` runs all.
NOT_UNDER_ASAN = "exhaustive|judge|test_laws|test_kit|test_shrink|guards|alarms|conform|python|adapters"
# All laws as one target, and the one that takes bytes as they come: measurements rest on both finding nothing in the engine.
PROOF_TARGETS = ("fuzz_suite", "fuzz_raw")
# Of a whole build's tests; each has its own limit in CMakePresets.json. For machines that do other work too.
TEST_TIMEOUT = 600


def built(preset, *targets):
    """A test that has nothing to tell but that it passed."""
    tree.build(preset, *targets)


def ctest(tests, preset, label, *options):
    """Each of a build's tests as one of ours."""
    report = os.path.join(tree.BUILD, preset, "tests.xml")
    with contextlib.suppress(FileNotFoundError):
        os.remove(report)  # that of an earlier run tells nothing about this one
    failure = None
    try:
        suite.command(["ctest", "--preset", preset, "-j", str(tree.jobs()), "--output-junit", report, *options],
                      timeout=TEST_TIMEOUT)
    except suite.Failed as failed:
        failure = failed
    cases = []
    if os.path.exists(report):
        cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    outcomes = {"run": "passed", "fail": "failed", "notrun": "skipped", "disabled": "skipped"}
    for case in cases:
        outcome = outcomes.get(case.get("status"), "failed")
        output = case.find("system-out")
        details = suite.tail(output.text or "") if outcome == "failed" and output is not None else ""
        tests.record(outcome, f"{label}: {case.get('name')}", float(case.get("time") or 0), details)
    if failure and not any(case.get("status") == "fail" for case in cases):
        tests.record("failed", f"{label}: ctest", 0, str(failure))
    if not cases and not failure:
        tests.record("failed", f"{label}: ctest", 0, "no test ran")


def replay(preset):
    """Every file of the corpus through every law it fits."""
    output = suite.command([os.path.join(tree.BUILD, preset, "cproute"), "replay", "corpus"])
    return suite.tail(output, 1)


def replay_bytes(preset):
    """The byte inputs, by the driver that needs no library from outside this tree."""
    folders = [folder for folder in (tree.CORPUS_SEEDS, os.path.join(tree.BUILD, "seeds")) if os.path.isdir(folder)]
    return suite.tail(suite.command([os.path.join(tree.BUILD, preset, "replay_bytes"), *folders]), 1)


def readme_sessions():
    """[(arguments, output)] of what README.md shows as typed after a dollar."""
    with open(tree.path("README.md")) as file:
        blocks = re.findall(r"^```\n(\$ .*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    sessions = []
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, output = part.partition("\n")
            sessions.append((typed.split()[1:], output))
    return sessions


def readme_is_true():
    sessions = readme_sessions()
    if not sessions:
        raise suite.Failed("README.md shows no command")
    for arguments, output in sessions:
        answered = suite.command([tree.COMMAND, *arguments], good=(0, 1))
        if answered != output:
            raise suite.Failed(f"README.md shows for cproute {' '.join(arguments)}\n{output}but it answers\n{answered}")
    return f"{len(sessions)} commands"


def readme_example(folder):
    """The C program of README.md, so that it cannot rot."""
    with open(tree.path("README.md")) as file:
        found = re.search(r"^```c\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)
    if not found:
        raise suite.Failed("README.md has no C example")
    example = os.path.join(folder, "example.c")
    with open(example, "w") as file:
        file.write(found.group(1))
    return example


def installed_library_is_usable():
    """Installs, then builds and runs a program outside the tree: CMake static and shared, pkg-config, as C++."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        suite.command(["cmake", "--install", os.path.join(tree.BUILD, "release"), "--prefix", prefix])
        example = readme_example(folder)
        outside = os.path.join(folder, "outside")
        suite.command(["cmake", "-G", "Ninja", "-S", tree.path("ci", "outside"), "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}",
                       f"-DEXAMPLE={example}"])
        suite.command(["cmake", "--build", outside])
        pc = tree.matching(prefix, "**", "cproute.pc")
        if not pc:
            raise suite.Failed("cproute.pc was not installed")
        library = os.path.dirname(os.path.dirname(pc[0]))
        flags = suite.command(["pkg-config", "--cflags", "--libs", "cproute"],
                              PKG_CONFIG_PATH=os.path.dirname(pc[0])).split()
        by_pkg_config = os.path.join(folder, "by_pkg_config")
        suite.command(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", example, "-o", by_pkg_config, *flags])
        programs = [os.path.join(outside, "example_cproute"), os.path.join(outside, "example_cproute_static"), by_pkg_config]
        outputs = {suite.command([program], LD_LIBRARY_PATH=library) for program in programs}
        if len(outputs) != 1 or not outputs.pop().strip():
            raise suite.Failed("the three programs do not print the same")
        suite.command([os.path.join(prefix, "bin", "cproute"), "route", "--cu", "0,4,16", "--cp", "2", "--json"])


def only_public_symbols(preset="release", library="libcproute.so", header=("engine", "include", "cproute", "cproute.h")):
    libraries = tree.matching(os.path.join(tree.BUILD, preset), "**", library)
    if not libraries:
        raise suite.Failed("no shared library")
    table = suite.command(["nm", "-D", "--defined-only", libraries[0]])
    names = {line.split()[-1] for line in table.splitlines()}
    with open(tree.path(*header)) as file:
        declared = set(re.findall(r"^CPR_API[^;]*?\b(cpr_\w+)\(", file.read(), re.MULTILINE))
    if names != declared:
        raise suite.Failed(f"exported but not declared: {sorted(names - declared)}; declared but not exported: "
                           f"{sorted(declared - names)}")
    return f"{len(names)} functions"


def gpu_built():
    missing = suite.command([tree.path("ci", "install-deps.sh"), "--gpu", "--check"], good=(0, 1)).strip()
    if missing:
        raise suite.Skipped(f"{missing}: ci/install-deps.sh --gpu brings it")
    built("gpu")


def gpu_tests_answer():
    """Also where it is that they are skipped; `make gpu` is for machines with GPUs."""
    output = suite.command([gpu.PROGRAM, "--quick"], timeout=TEST_TIMEOUT)
    outcomes = re.findall(r"^# (passed|skipped) +[0-9.]+ s  (\S+)", output, re.MULTILINE)
    names = [line.split()[0] for line in suite.command([gpu.PROGRAM, "--quick", "--list"]).splitlines()]
    if [name for _, name in outcomes] != names:
        raise suite.Failed(f"not every test has an outcome:\n{suite.tail(output)}")
    passed = sum(outcome == "passed" for outcome, _ in outcomes)
    if not passed:
        raise suite.Skipped(f"{len(outcomes)} tests are compiled and linked, and skip themselves: {gpu.gpu_count()[1]}")
    return f"{passed} passed, {len(outcomes) - passed} skipped"


def gpu_tests_find_their_libraries():
    """By themselves, wherever CUDA and NCCL are: the loader does not look into a toolkit, nor into what install-deps brought."""
    with open(os.path.join(tree.BUILD, "gpu", "CMakeCache.txt")) as file:
        places = dict(re.findall(r"^(CUDA_CUDART|NCCL_LIBRARY):\w+=(.+)$", file.read(), re.MULTILINE))
    path = re.search(r"R(?:UN)?PATH\)[^[]*\[(.*)\]", suite.command(["readelf", "-d", gpu.PROGRAM]))
    listed = path.group(1).split(":") if path else []
    missing = {os.path.dirname(os.path.realpath(place)) for place in places.values()} - set(listed)
    if len(places) != 2 or missing:
        raise suite.Failed(f"the run path {listed} lacks {sorted(missing)}, of {places}")


def installed_gpu_part_is_usable():
    """Installs, then builds and runs a program outside the tree: CMake static and shared, pkg-config. No GPU is asked."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        suite.command(["cmake", "--install", os.path.join(tree.BUILD, "gpu"), "--prefix", prefix])
        example = tree.path("ci", "outside", "gpu.c")
        outside = os.path.join(folder, "outside")
        suite.command(["cmake", "-S", tree.path("ci", "outside"), "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}", "-DGPU=ON",
                       f"-DEXAMPLE={example}"])
        suite.command(["cmake", "--build", outside])
        library = os.path.dirname(os.path.dirname(tree.matching(prefix, "**", "cproute-cuda.pc")[0]))
        flags = suite.command(["pkg-config", "--cflags", "--libs", "cproute-cuda"],
                              PKG_CONFIG_PATH=os.path.join(library, "pkgconfig")).split()
        by_pkg_config = os.path.join(folder, "by_pkg_config")
        suite.command(["gcc", "-std=c11", example, "-o", by_pkg_config, *flags])
        paths = os.pathsep.join([library, *(flag[2:] for flag in flags if flag.startswith("-L"))])
        for program in ("example_cproute_cuda", "example_cproute_cuda_static"):
            suite.command([os.path.join(outside, program)], LD_LIBRARY_PATH="")
        suite.command([by_pkg_config], LD_LIBRARY_PATH=paths)


def gpu_header_as(compiler, language, standard):
    with open(os.path.join(tree.BUILD, "gpu", "compile_commands.json")) as file:
        words = next(entry["command"] for entry in json.load(file) if entry["file"].endswith("exchange.c")
                     and "cuda" in entry["file"]).split()
    folders = [word for number, word in enumerate(words) if word.startswith("-I") or words[number - 1] == "-isystem"
               or word == "-isystem"]
    suite.command([compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror",
                   "-fsyntax-only", *folders, tree.path("engine", "cuda", "include", "cproute", "cproute_cuda.h")])


def built_by(preset, compiler):
    suite.need(shutil.which(compiler), compiler)
    built(preset)


def built_for_32_bits():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.c")
        with open(program, "w") as file:
            file.write("int main(void) { return 0; }\n")
        can = subprocess.run(["cc", "-m32", program, "-o", os.path.join(folder, "program")], stderr=subprocess.DEVNULL)
    suite.need(can.returncode == 0, "gcc-multilib")
    built("m32", "replay_bytes", "test_threads")


def threads(preset):
    suite.command(tree.matching(os.path.join(tree.BUILD, preset), "**", "test_threads"))


def afl_built():
    suite.need(tree.toolchain()["AFL_CC_WRAPPER"], "afl++")
    built("afl", "fuzz_canary")


def scripts_tested():
    output = suite.command([sys.executable, "-m", "unittest", "discover"], cwd=tree.path("ci"))
    return re.search(r"^Ran .*", output, re.MULTILINE).group()


def planted_bugs_apply():
    """They are diffs against the sources: one that does not apply proves nothing any more."""
    found = planted.bugs()
    for bug in found:
        planted.applies(bug)
    return f"{len(found)} bugs"


def canary_found(engine):
    took = engine.canary(campaign.CANARY_SECONDS)
    if took is None:
        raise suite.Failed(f"the planted bug was not found within {campaign.CANARY_SECONDS} s")
    return f"found after {took:.2f} s"


def fuzz_smoke(name, program, seeds=()):
    """The seeds, then some fuzzing from them; nothing is kept but a failing input."""
    with tempfile.TemporaryDirectory() as folder:
        output = suite.command([program, *fuzz.LIBFUZZER_OPTIONS, f"-runs={SMOKE_CASES}", f"-artifact_prefix={tree.BUILD}/{name}-", folder,
                                *seeds])
    return f"{fuzz.executed(output):,} cases"


def targets_under_asan():
    """What of the build with sanitizers is used; the whole of it takes a third longer."""
    tests = [os.path.splitext(os.path.basename(path))[0] for path in tree.matching(tree.path("props"), "test_*.c")]
    fuzz_targets = [f"fuzz_{law}" for law in tree.laws()] + ["fuzz_canary", *PROOF_TARGETS]
    return ["cproute", *(test for test in tests if not re.search(NOT_UNDER_ASAN, test)), *fuzz_targets]


class Lanes:
    """The tests in lanes that run side by side; tests of one lane run in order. Each method is a lane."""

    def __init__(self, tests, names):
        self.tests = tests
        # Others wait for release, which must not wait for a place among them.
        self.names = sorted(dict.fromkeys(names), key=lambda name: name != "release")
        self.seeds_made = concurrent.futures.Future()
        self.seeding = threading.Lock()

    def start(self, pool):
        return [pool.submit(self.build_and_test, name) if name in PRESETS_OF_LANES else
                pool.submit(getattr(self, name.replace("-", "_"))) for name in self.names]

    def build_and_test(self, lane):
        """The whole tree, built and tested in another way."""
        preset, compiler = PRESETS_OF_LANES[lane]
        if self.tests.run(f"build: {lane}", built_by, preset, compiler):
            ctest(self.tests, preset, f"test, {lane}")

    def seeds(self):
        """Waits for the byte seeds, which the release lane makes; makes them where that lane was not asked for."""
        with self.seeding:
            if "release" not in self.names and not self.seeds_made.done():
                self.make_seeds("cproute")
        return self.seeds_made.result()

    def make_seeds(self, *targets):
        """Builds the command and the byte seeds; true if the command was built."""
        command_built = self.tests.run("build: gcc, release", built, "release", *targets)
        self.seeds_made.set_result(
            command_built and self.tests.run("corpus: byte seeds from text cases", corpora.make_seeds))
        return command_built

    def release(self):
        if not self.make_seeds():
            return
        ctest(self.tests, "release", "test")
        self.tests.run("corpus: replay, release", replay, "release")
        self.tests.run("command: answers as the README shows", readme_is_true)
        self.tests.run("library: installed and used from outside", installed_library_is_usable)
        self.tests.run("library: exports what the header declares", only_public_symbols)
        self.tests.run("builds: instructions as recorded", instructions.gate)

    def warnings(self):
        if self.tests.run("build: gcc, release", built, "release"):
            for version in lint.clangs():
                self.tests.run(f"build: warnings of clang-{version}", lint.warnings_of, version)

    def tidy(self):
        if self.tests.run("build: gcc, release", built, "release"):
            self.tests.run("lint: clang-tidy", lint.tidy)

    def m32(self):
        if self.tests.run("build: 32 bits", built_for_32_bits) and self.seeds():
            self.tests.run("corpus: replay, 32 bits", replay_bytes, "m32")
            self.tests.run("threads: 32 bits", threads, "m32")

    def oss_fuzz(self):
        for name in oss_fuzz.BUILDS:
            oss_fuzz.check_build(self.tests, name, tree.laws())

    def cover(self):
        if self.tests.run("build: coverage", built, "cover"):
            self.tests.run("coverage: every line, 98 % of branches", cover.gate_of_build)

    def fuzz(self):
        if self.tests.run("build: clang, ASan + UBSan, libFuzzer", built, "fuzz", *targets_under_asan()):
            self.tests.run("fuzz: canary, libFuzzer", canary_found, fuzz.LibFuzzer())
            ctest(self.tests, "fuzz", "test, ASan + UBSan", "-E", NOT_UNDER_ASAN)
            self.tests.run("corpus: replay, ASan + UBSan", replay, "fuzz")
            for target in PROOF_TARGETS:
                self.tests.run(f"fuzz: {target}", fuzz_smoke, target, os.path.join(tree.BUILD, "fuzz", "proof", target))
            if self.seeds():
                for law in tree.laws():
                    self.tests.run(f"fuzz: {law}", fuzz_smoke, law, fuzz.LibFuzzer().binary(law), corpora.seeds_of(law))

    def afl(self):
        if self.tests.run("build: AFL++ canary", afl_built):
            self.tests.run("fuzz: canary, AFL++", canary_found, fuzz_afl.Afl([], cmplog=False))

    def msan(self):
        if self.tests.run("build: MSan", built, "msan", "replay_bytes") and self.seeds():
            self.tests.run("corpus: replay, MSan", replay_bytes, "msan")

    def tsan(self):
        if self.tests.run("build: TSan", built, "tsan", "test_threads"):
            self.tests.run("threads: TSan", threads, "tsan")

    def gpu(self):
        if self.tests.run("build: CUDA, NCCL", gpu_built):
            ctest(self.tests, "gpu", "test, GPU part")
            self.tests.run("gpu: every test of gpu_tests has an outcome", gpu_tests_answer)
            self.tests.run("gpu: tests find CUDA and NCCL by themselves", gpu_tests_find_their_libraries)
            self.tests.run("gpu: installed and used from outside", installed_gpu_part_is_usable)
            self.tests.run("gpu: exports what the header declares", only_public_symbols, "gpu", "libcproute_cuda.so",
                           ("engine", "cuda", "include", "cproute", "cproute_cuda.h"))
            self.tests.run("gpu: public header as C11", gpu_header_as, "gcc", "c", "c11")
            self.tests.run("gpu: public header as C++17", gpu_header_as, "g++", "c++", "c++17")

    def lint(self):
        for name, check in lint.CHECKS:
            self.tests.run(name, check)
        self.tests.run("ci: the scripts' own tests", scripts_tested)
        self.tests.run("planted: every bug applies", planted_bugs_apply)
        self.tests.run("planted: bugs of the engine compile", detection.check)


LANES = ("release", "fuzz", "msan", "tsan", "lint")
CI_LANES = (*LANES, "cover", "afl", "gpu")
# The preset of each lane that builds and tests the whole tree, and what it cannot do without.
PRESETS_OF_LANES = {
    "gcc-12": ("gcc-12", "gcc-12"),
    "clang-14": ("clang-14", "clang-14"),
    "clang-16": ("clang-16", "clang-16"),
    "clang-19": ("clang-19", "clang-19"),
    "debug": ("debug", "cc"),
    "asan": ("asan", "clang"),
    "tsan-all": ("tsan", "clang"),
}
EXTRA_LANES = ("warnings", "tidy", *PRESETS_OF_LANES, "m32", "oss-fuzz")


def run():
    every = CI_LANES + EXTRA_LANES
    names = {(): LANES, ("ci",): CI_LANES, ("all",): every}.get(tuple(sys.argv[1:]), sys.argv[1:])
    for name in names:
        if name not in every:
            raise tree.WrongUse(f"{name} is no lane. The lanes: {' '.join(every)}; together: ci, all")
    if not tree.toolchain()["FUZZ_CC"]:
        raise tree.WrongUse("clang is missing: run ci/install-deps.sh")
    for name in names:
        tree.alone(name)  # of some of them there is a script that does the same
    begun = time.monotonic()
    tests = suite.Suite()
    with tests.stop, concurrent.futures.ThreadPoolExecutor(max_workers=max(2, tree.jobs())) as pool:
        for lane in Lanes(tests, names).start(pool):
            lane.result()
    print(f"{tree.commit()}, {time.monotonic() - begun:.0f} s")
    return tests.end()


if __name__ == "__main__":
    tree.main(run)
