#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what fuzzing reaches on this machine and writes docs/fuzzing.md. What `make figures` runs; three minutes.

    ci/figures.py    no arguments; JOBS=n processes at once, all processors if not given
"""

import datetime
import os
import statistics
import sys

import campaign
import corpora
import fuzz
import fuzz_afl
import tree

LAW = fuzz.SPEED_LAW
SPEED_RUNS, SPEED_SECONDS = 5, 4
AFL_SECONDS = 30
EDGE_SECONDS = 60
PAGE = tree.path("docs", "fuzzing.md")


def median_speed(engine):
    return int(statistics.median(engine.speed(LAW, SPEED_SECONDS) for _ in range(SPEED_RUNS)))


def afl_speed(afl):
    """(execs a second, stability) of one afl-fuzz."""
    run = afl.start(LAW, 1, AFL_SECONDS)
    try:
        while run.running() and not run.overdue():
            run.wait(0.1)
    finally:  # it is in a session of its own, out of Ctrl-C's reach
        run.interrupt()
        run.finish()
    numbers = run.numbers()
    return numbers["cases"] // max(numbers["seconds"], 1), numbers["stability"]


def rows():
    """(what, wanted, reached)"""
    afl = fuzz_afl.Afl([LAW])
    yield f"libFuzzer, {LAW}, plain", "100,000 cases/s", f"{median_speed(fuzz.LibFuzzer('fuzz-fast')):,} cases/s"
    yield f"libFuzzer, {LAW}, ASan + UBSan", "30,000 cases/s", f"{median_speed(fuzz.LibFuzzer()):,} cases/s"
    rate, stability = afl_speed(afl)
    yield f"AFL++, {LAW}", "15,000 cases/s", f"{rate:,} cases/s"
    yield f"AFL++, {LAW}, stability", "100 %", str(stability)
    for engine in (fuzz.LibFuzzer(), afl):
        seconds = engine.canary(campaign.CANARY_SECONDS)
        yield f"canary found by {engine.name}", "under 10 s", f"{seconds:.2f} s" if seconds else "not found"
    reached, full = fuzz.LibFuzzer().edges(LAW, EDGE_SECONDS)
    yield (f"edges of {LAW}, empty corpus, {EDGE_SECONDS} s", "95 % of what all known inputs reach",
           f"{reached:,} of {full:,}, {100 * reached / max(full, 1):.1f} %")


HEAD = """# What fuzzing reaches

Written by `make figures`; do not edit. One core unless a line says otherwise.

| | |
| --- | --- |
| machine | {machine} |
| date | {date} |
| commit | {commit} |
| fuzz compiler | clang {llvm} |

Speeds are medians of {runs} runs of {seconds} s each that start from all inputs there are: packs of up to 64 sequences.
Those of libFuzzer are cases for each second of processor time. AFL++ runs {afl_seconds} s by the clock, one instance, with its
CMPLOG companion. Edges are compared with those that the seeds, the corpus of earlier fuzzing and what was just found reach.

| figure | wanted | reached |
| --- | --- | --- |
"""


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments")
    tree.alone("fuzzing")
    targets = [f"fuzz_{LAW}", "fuzz_canary"]
    tree.build("release", "cproute")
    for preset in ("fuzz", "fuzz-fast", "afl", "afl-cmplog"):
        tree.build(preset, *targets)
    corpora.make_seeds()
    page = HEAD.format(machine=tree.machine(), date=datetime.date.today().isoformat(), commit=tree.commit(),
                       llvm=tree.toolchain()["LLVM_VERSION"], runs=SPEED_RUNS, seconds=SPEED_SECONDS,
                       afl_seconds=AFL_SECONDS)
    for what, wanted, reached in rows():
        print(f"{what}: {reached} (wanted {wanted})", flush=True)
        page += f"| {what} | {wanted} | {reached} |\n"
    os.makedirs(os.path.dirname(PAGE), exist_ok=True)
    with open(PAGE, "w") as file:
        file.write(page)
    print(f"written: {tree.relative(PAGE)}")
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
