#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the GPU part, tests it on the GPUs that are here, measures, and writes docs/gpu.md: what `make gpu` runs.

    ci/gpu.py [--quick] [--no-sanitizers] [--no-docs]    all of it, or less
    ci/gpu.py --only NAMES [...]                         only tests whose names begin so, with commas; writes no page
    ci/gpu.py --source DIR [--commit COMMIT] [...]       Megatron-LM's conversion in PyTorch beside ours, too: bench/compare_torch.py
    ci/gpu.py --seconds N [...]                          ends in so many: what then has no time left is not run, and that is said
    ci/gpu.py --docs                                     only writes docs/gpu.md from docs/gpu/
    JOBS=n                                               processes at once while it builds; all processors if not given

Needs CUDA, NCCL, CMake and python3, nothing else, and torch where --source is given. Any number of GPUs will do: with one, real NCCL
ranks share it, and what two would be needed for is not measured; with none, everything is built and every test is skipped. Ends in a
verdict. Exit code 0: all good, 1: something failed, 2: wrong usage, or no compiler. What is measured comes first, and lost ranks, on
several GPUs, last; after each run the page is written, so that what ends this before its time loses one run.
"""

import argparse
import collections
import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
import time

import gpu_report
import tree

PROGRAM = os.path.join(tree.BUILD, "gpu", "cproute_gpu_tests")
BESIDE_PYTORCH = tree.path("bench", "compare_torch.py")
RESULTS = os.path.join(tree.BUILD, "gpu", "results")

SANITIZERS = ("memcheck", "racecheck", "initcheck", "synccheck")
SANITIZED = "simulated/control,simulated/laws,simulated/layouts,simulated/widths,simulated/packs,simulated/adjoint,simulated/graph,simulated/delta," \
            "simulated/direct_layouts,simulated/direct_widths,simulated/direct_refill,simulated/direct_errors,simulated/direct_differ"
# Racecheck takes a hundred times as long as the others.
RACECHECKED = "simulated/control,simulated/laws,simulated/layouts,simulated/adjoint,simulated/graph,simulated/direct_refill"
# What differs where ranks are far apart, and, as starting many ranks takes longest, what many ranks of one GPU are tried with.
OVER_SOCKETS = "layouts,packs,dynamic_cp,refusals,no_memory,killed,stuck,direct_methods,direct_refill"
FEWER_OVER_SOCKETS = "layouts,packs,dynamic_cp,refusals,no_memory,killed_during,direct_methods,direct_refill"
OF_MANY_RANKS = "layouts,packs,dynamic_cp,refusals,killed_during,direct_layouts,direct_packs,direct_refill,direct_split,direct_killed_during"
# Faults take long, and one that hangs takes longest: on several GPUs they have runs of their own, behind all others.
FAULTS = "refusals,no_memory,device_memory,killed,stuck,direct_killed,direct_stuck"
BLOCKING = "killed_before_blocking,killed_during_blocking,stuck_blocking,stuck_flood_blocking,killed_graph_blocking"
# A run of the tests has limits of its own for each test; these are for what they did not think of.
RUN_SECONDS, SANITIZER_SECONDS, BUILD_SECONDS, PYTORCH_SECONDS = 900, 300, 600, 900
# Where time is short: what a step is left out below, and what it leaves for each that comes after it.
LEAST_SECONDS, LATER_SECONDS = 20, 30
ENDING_SECONDS = 30  # in which bench/compare_torch.py has to end once it was told to
NO_TIME = "no time left"

# `least`: seconds below which it is not begun.
Run = collections.namedtuple("Run", "name options least", defaults=(LEAST_SECONDS,))


class Clock:
    """How much time there is, where somebody said so."""

    def __init__(self, seconds=None):
        self.begun, self.seconds = time.monotonic(), seconds or math.inf

    def passed(self):
        return time.monotonic() - self.begun

    def share(self, most, least=LEAST_SECONDS, later=0):
        """Seconds that a step may take with so many steps after it; 0: too little is left to begin it."""
        left = self.seconds - self.passed()
        return min(most, max(least, left - later * LATER_SECONDS)) if left >= least else 0


def say(text):
    print(text, flush=True)


def build(*targets):
    """Configures once and builds, all if no target is named; with Ninja where there is one."""
    if not shutil.which("cmake"):
        raise tree.WrongUse("cmake is missing: install it, 3.22 or later")
    steps = [["cmake", "--build", "--preset", "gpu", "--parallel", str(tree.jobs())]]
    if targets:
        steps[0] += ["--target", *targets]
    if not os.path.exists(os.path.join(tree.BUILD, "gpu", "CMakeCache.txt")):
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        steps.insert(0, ["cmake", "--preset", "gpu", *ninja])
    for step in steps:
        done = subprocess.run(step, cwd=tree.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=BUILD_SECONDS)
        if done.returncode and "install-deps.sh --gpu" in done.stdout:
            shutil.rmtree(os.path.join(tree.BUILD, "gpu"))
            raise tree.WrongUse("CUDA's compiler or NCCL is missing: install them, or run ci/install-deps.sh --gpu")
        if done.returncode:
            raise tree.BuildFailed(f"{tree.first_failure(done.stdout)}\nfailed: {' '.join(step)}")


def gpu_count():
    """As the tests count them; why there is none, or what ranks that share one can do."""
    told = subprocess.run([PROGRAM, "--gpus"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          timeout=RUN_SECONDS)
    count, _, remark = told.stdout.strip().partition(" ")
    if told.returncode or not count.isdecimal():
        raise tree.BuildFailed(f"{told.stdout.strip()}\nfailed: the GPU tests were built but do not start: exit code {told.returncode}")
    return int(count), remark


def sharing(gpus, quick, one_host):
    """[(tests, options)] of the runs in which ranks share GPUs, because there are too few: 2, 3 and 4 by sockets, as if far apart. Where
    they can be of one host, they are 2, 4 and 8 by memory, which is more like GPUs of their own, and sockets are tried once."""
    def runs(counts, *options, tests=None):
        return [(tests, [*options, "--oversubscribe", str(ranks)]) for ranks in counts if ranks > gpus]

    least = ["--quick"] if quick else []
    by_memory = runs([4, 8], "--quick", "--one-host", tests=OF_MANY_RANKS)
    if gpus > 1:
        return [*(by_memory if one_host else runs([4], "--quick", tests=OF_MANY_RANKS)),
                *runs([gpus + 1] if gpus < (4 if one_host else 3) else [], "--quick", tests=FEWER_OVER_SOCKETS)]
    if one_host:
        return [*runs([2], *least, tests=OVER_SOCKETS), *runs([2], "--measure", "--quick", "--one-host"), *by_memory]
    return [*runs([2], *(least or ["--measure"])), *runs([3, 4], "--quick")]


def plan(gpus, quick, only=None, one_host=False):
    """Real ranks on GPUs of their own for every power of two and all GPUs; ranks that share GPUs for some beyond; at last, on several
    GPUs, lost ranks."""
    def over_nccl(tests):
        names = only or tests
        return ["--only", ",".join(f"nccl/{name}" for name in names.split(",")) if names else "nccl"]

    less, chosen = ["--quick"] if quick else [], ["--only", only] if only else []
    if not gpus:
        return [Run("no GPU", [*less, *chosen])]
    faults_apart = gpus > 1 and not only
    whole = ["--except", FAULTS] if faults_apart else []
    runs = [Run("all GPUs", [*less, "--measure", *chosen, *whole])]
    runs += [Run(f"{count} of {gpus} GPUs", ["--quick", "--measure", *over_nccl(None), *whole, "--ranks", str(count)])
             for count in (2, 3, 4, 8) if count < gpus]
    runs += [Run(f"{options[-1]} ranks share {gpus} GPU{'s' if gpus > 1 else ''}" + (" and memory" if "--one-host" in options else ""),
                 [*over_nccl(tests), *options], max(LEAST_SECONDS, 5 * int(options[-1]))) for tests, options in sharing(gpus, quick, one_host)]
    if faults_apart:
        runs.append(Run("lost ranks", ["--quick", *over_nccl(FAULTS)], 60))
    if faults_apart and not quick:
        runs.append(Run("lost ranks, and calls that block", over_nccl(BLOCKING), 50))
    return runs


def results_of(command, path, seconds, **environment):
    """(exit code, or what became of it; what the command wrote to `path`, None if that is nothing). Its output goes to this one's."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)  # what an earlier one wrote
    try:
        code = subprocess.run([*command, "--json", path], cwd=tree.ROOT, stdin=subprocess.DEVNULL, timeout=seconds,
                              env={**os.environ, **environment}).returncode
    except subprocess.TimeoutExpired:
        code = f"it was ended after {seconds:.0f} s"
    return code, gpu_report.results_in(path)


def end_of(code):
    return f"exit code {code}" if isinstance(code, int) else code


def nothing_of(run, **why):
    return {"name": run.name, "options": run.options, "jobs": [], "passed": 0, "failed": 0, "skipped": 0, "wrong": 0, **why}


def run_tests(run, number, seconds=RUN_SECONDS):
    """The run's results, or what became of it; of one that was cut, those of the tests that had ended."""
    if not seconds:
        say(f"# not run: {run.name}: {NO_TIME}")
        return nothing_of(run, not_run=NO_TIME)
    command = [PROGRAM, *run.options]
    say(f"# {run.name}: {' '.join([tree.relative(PROGRAM), *run.options])}")
    code, results = results_of(command, os.path.join(RESULTS, f"{number}.json"), seconds, NCCL_NVLS_ENABLE="0")
    if results is None:
        return nothing_of(run, failed=1, broken=f"no results: {end_of(code)}")
    if results.pop("cut", False):
        results["failed"] += 1
        results["broken"] = f"not all tests have results: {end_of(code)}"
    elif code not in (0, 1) or (code == 1) != (results["failed"] > 0 or results["wrong"] > 0):
        results["failed"] += 1
        results["broken"] = end_of(code)
    return {**results, "name": run.name, "options": run.options}


def sanitizer():
    for place in (shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer"):
        if place and os.path.exists(place):
            return place
    return None


def sanitized_tests(only, tool):
    names = (RACECHECKED if tool == "racecheck" else SANITIZED).split(",")
    wanted = tuple(f"simulated/{name}" for name in only.split(",")) if only else ("",)
    return ",".join(name for name in names if name.startswith(wanted))


def sanitize(tool, tests, seconds=SANITIZER_SECONDS):
    """(outcome, details) of a small part of the simulated tests under one tool of compute-sanitizer."""
    if not seconds:
        return "not run", NO_TIME
    if not tests:
        return "skipped", "no test that was chosen is run under compute-sanitizer"
    if not sanitizer():
        return "skipped", "compute-sanitizer is not there"
    leaks = ["--leak-check", "full"] if tool == "memcheck" else []
    command = [sanitizer(), "--tool", tool, "--error-exitcode", "9", *leaks, PROGRAM, "--in-process", "--quick", "--cases", "20",
               "--only", tests, "--timeout", str(SANITIZER_SECONDS)]
    try:
        done = subprocess.run(command, cwd=tree.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired as expired:
        if seconds < SANITIZER_SECONDS:
            return "not run", f"{NO_TIME}: cut after {seconds:.0f} s"
        return "failed", f"over {SANITIZER_SECONDS} s\n{(expired.stdout or b'').decode(errors='replace')[-3000:]}"
    if "Device not supported" in done.stdout:
        return "skipped", "compute-sanitizer does not support this device or its driver"
    counted = re.search(r"^# (\d+) passed, (\d+) failed, (\d+) skipped", done.stdout, re.MULTILINE)
    if done.returncode == 0 and counted and int(counted.group(1)) > 0 and re.search(r"SUMMARY: 0 (errors|hazards)", done.stdout):
        return "passed", f"{counted.group(1)} tests"
    # the first complaint tells most, the end tells the counts
    lines = done.stdout.splitlines()
    first = next((i for i, text in enumerate(lines) if "=========" in text and "COMPUTE-SANITIZER" not in text), 0)
    return "failed", f"exit code {done.returncode}\n" + "\n".join(lines[first:first + 25] + ["..."] + lines[-15:])


def sanitize_all(only, clock):
    outcomes = {}
    for tool in SANITIZERS:
        begun = time.monotonic()
        outcome, details = sanitize(tool, sanitized_tests(only, tool), clock.share(SANITIZER_SECONDS))
        outcomes[tool] = outcome
        say(f"# {outcome:<7} {time.monotonic() - begun:6.1f} s  compute-sanitizer {tool}")
        if details:
            say("\n".join("#     " + line for line in details.splitlines()))
    return outcomes


def look_at_source(source, commit):
    """Before minutes have passed: is it one at all? What PyTorch cannot do with it is a finding, later."""
    if not source:
        return
    command = [sys.executable, BESIDE_PYTORCH, "--source", source, "--look", *(["--commit", commit] if commit else [])]
    done = subprocess.run(command, cwd=tree.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=PYTORCH_SECONDS)
    if done.returncode:
        why = (done.stdout.strip().splitlines() or [f"exit code {done.returncode}"])[-1].removeprefix("compare_torch.py: ")
        raise tree.WrongUse(f"{why}; without SOURCE= it is left out")


def beside_pytorch(source, commit, gpus, seconds=PYTORCH_SECONDS):
    """What bench/compare_torch.py found, or None if nobody asked."""
    if not source:
        say("# PyTorch's conversion is left out: SOURCE=path/to/Megatron-LM has it judged and measured, too")
        return None
    if not gpus:
        say("# PyTorch's conversion is left out: there is no GPU")
        return None
    if not seconds:
        say(f"# not run: PyTorch's conversion: {NO_TIME}")
        return {**gpu_report.NO_PYTORCH, "not_run": NO_TIME}
    command = [sys.executable, BESIDE_PYTORCH, "--source", source]
    command += ["--commit", commit] if commit else []
    command += ["--oversubscribe", "2"] if gpus == 1 else ["--ranks", str(gpus)]
    say(f"# {' '.join([tree.relative(BESIDE_PYTORCH), *command[2:]])}")
    code, results = results_of([*command, "--seconds", f"{seconds:.0f}"], os.path.join(RESULTS, "torch.json"), seconds + ENDING_SECONDS)
    if results is None:
        return {**gpu_report.NO_PYTORCH, "failed": [f"PyTorch's conversion has no results: {end_of(code)}"]}
    bad = results["failed"] or results["wrong"]
    if code not in ((tree.EXIT_FINDINGS, tree.EXIT_USAGE) if bad else (tree.EXIT_CLEAN,)):
        results["failed"] = [*results["failed"], end_of(code)]
    return results


def verdict(runs, sanitized, torch=None):
    torch = torch or gpu_report.NO_PYTORCH
    failed = sum(run["failed"] for run in runs) + sum(outcome == "failed" for outcome in sanitized.values()) + len(torch["failed"])
    passed = sum(run["passed"] for run in runs) + sum(outcome == "passed" for outcome in sanitized.values())
    skipped = sum(run["skipped"] for run in runs) + sum(outcome == "skipped" for outcome in sanitized.values())
    wrong = sum(run["wrong"] for run in runs) + torch["wrong"]
    for sentence in torch["failed"]:
        say(f"# failed: beside PyTorch: {sentence}")
    if torch["wrong"]:
        say(f"# wrong beside PyTorch: {torch['wrong']} bytes")
    for run in runs:
        for job in run["jobs"]:
            if job["outcome"] == "failed":
                say(f"# failed: {run['name']}: {job['name']}: {job['details'].splitlines()[0] if job['details'] else ''}")
        if run.get("broken"):
            say(f"# failed: {run['name']}: {run['broken']}")
    for what, why in gpu_report.not_run(runs, sanitized, torch):
        say(f"# not run: {what}: {why}")
    for goal in gpu_report.goals(runs, torch, max((len(run.get("devices") or []) for run in runs), default=0)):
        say(f"# {goal}")
    say(f"# wrong bytes: {wrong}")
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    say("verdict: " + ("FAILED" if failed or wrong else "OK" if passed else "nothing was run: there is no GPU"))
    return tree.EXIT_FINDINGS if failed or wrong else tree.EXIT_CLEAN


def arguments():
    parser = argparse.ArgumentParser(add_help=False)
    for name in ("--quick", "--no-sanitizers", "--no-docs", "--docs"):
        parser.add_argument(name, action="store_true")
    for name in ("--only", "--source", "--commit", "--seconds"):
        parser.add_argument(name)
    parser.error = lambda message: (_ for _ in ()).throw(tree.WrongUse(message))
    return parser.parse_args()


def run():
    chosen = arguments()
    if chosen.docs:
        gpu_report.write()
        return tree.EXIT_CLEAN
    clock = Clock(tree.number("SECONDS", chosen.seconds) if chosen.seconds is not None else None)
    tree.alone("gpu")
    look_at_source(chosen.source, chosen.commit)
    build("cproute_gpu_tests")
    say(f"# built in {clock.passed():.0f} s")
    os.makedirs(RESULTS, exist_ok=True)
    gpus, remark = gpu_count()
    if not gpus:
        say(f"# no GPU: {remark}")
    runs, sanitized, torch = [], {}, None
    has_page = gpus and not chosen.no_docs and not chosen.only

    def keep(at_last=False):
        """What is wrong with a page must not end what comes after it."""
        try:
            if has_page and gpu_report.keep(runs, sanitized, clock.passed(), torch):
                gpu_report.write()
        except Exception as wrong:
            if at_last:
                raise
            say(f"# {tree.relative(gpu_report.PAGE)} could not be written: {wrong!r}")

    planned = plan(gpus, chosen.quick, chosen.only, remark == "one-host")
    asks_pytorch = bool(chosen.source and gpus)
    for number, each in enumerate(planned):
        later = len(planned) - 1 - number
        runs.append(run_tests(each, number, clock.share(RUN_SECONDS, each.least, later + (asks_pytorch and number == 0))))
        keep()
        if number == 0:
            torch = beside_pytorch(chosen.source, chosen.commit, gpus, clock.share(PYTORCH_SECONDS, 2 * LEAST_SECONDS, later))
            keep()
    if gpus and not chosen.no_sanitizers:
        sanitized = sanitize_all(chosen.only, clock)
    keep(at_last=True)
    if has_page:
        say(f"# {tree.relative(gpu_report.PAGE)} is written")
    say(f"# {tree.commit()}, {clock.passed():.0f} s")
    return verdict(runs, sanitized, torch)


if __name__ == "__main__":
    tree.main(run, fixed_addresses=False)
