#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks and reads the figures: what `make bench` does.

    bench/run.py [FILTER]    FILTER: a regular expression for the names of benchmarks; -REGEX: all others

One line a benchmark: the time of a round, its items (runs, rows, entries) and what one of them takes, and the floor of the same run,
which is memcpy of the bytes written or memcmp of the bytes read, and what part of the floor's rate was reached. Then how
times grow: the exponent of a power of S, P and T, fitted to the series made for it. Times are processor time, medians of several repetitions.
Everything goes to build/bench/benchmarks.json too, when all has been measured. Exit code 2: wrong use, or the program is missing, 1: it
failed, or was interrupted.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build", "bench", "benchmarks")
RESULT = os.path.join(ROOT, "build", "bench", "benchmarks.json")
REPETITIONS, SECONDS = 5, 0.02
PROGRESS_EVERY = 10
FLOORS = ("memcpy", "memcmp")

# Series, what grows in it, what is expected of the exponent, and why.
GROWTH = [
    ("build/by_S", "S", "1", "entries and runs grow with S"),
    ("build/by_P", "P", "0", "a rank's runs do not grow with P"),
    ("build/by_T", "T", "0", "nothing grows with T"),
    ("validate", "S", "1", "entries grow with S"),
    ("all_ranks", "S", "1", "the runs of all ranks grow with S"),
    ("all_ranks", "P", "1", "the runs of all ranks grow with P"),
]
# Where a round is so short that calls and constant work are most of it.
FITTED_FROM_NS = {"1": 300, "0": 0}


def end(code, what):
    print(f"bench/run.py: {what}", file=sys.stderr)
    sys.exit(code)


def count_of(pattern):
    """How many benchmarks there are to run."""
    if not os.path.exists(PROGRAM):
        end(2, "build/bench/benchmarks is missing: run make bench")
    listed = subprocess.run([PROGRAM, "--benchmark_list_tests=true", f"--benchmark_filter={pattern}"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace")
    if not listed.stdout:
        reason = listed.stderr.strip().splitlines()[0] if listed.stderr.strip() else "no benchmark is left"
        end(2, f"FILTER={pattern}: {reason}. `build/bench/benchmarks --benchmark_list_tests=true` lists the names")
    return len(listed.stdout.splitlines())


def watch(lines, total):
    """Tells how far it is."""
    begun = told = time.monotonic()
    done = 0
    for line in lines:
        done += "_median" in line
        if time.monotonic() - told >= PROGRESS_EVERY:
            told = time.monotonic()
            print(f"{told - begun:6.0f} s  {done} of {total} benchmarks", file=sys.stderr, flush=True)


def run(pattern):
    """What Google Benchmark writes."""
    total = count_of(pattern)
    with tempfile.TemporaryDirectory() as folder:
        out, errors = os.path.join(folder, "out.json"), os.path.join(folder, "errors")
        with open(errors, "w") as file, subprocess.Popen(
                [PROGRAM, f"--benchmark_filter={pattern}", f"--benchmark_repetitions={REPETITIONS}", f"--benchmark_min_time={SECONDS}",
                 "--benchmark_report_aggregates_only=true", f"--benchmark_out={out}", "--benchmark_out_format=json"],
                stdout=subprocess.PIPE, stderr=file, text=True, errors="replace") as process:
            try:
                watch(process.stdout, total)
            except KeyboardInterrupt:
                process.kill()  # or the interruption is waited for until all is measured
                raise
        if process.returncode:
            with open(errors, errors="replace") as file:
                end(1, f"exit code {process.returncode} of build/bench/benchmarks\n{file.read()}")
        with open(out) as file:
            return json.load(file)


UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def medians(result):
    """name -> (nanoseconds, items, bytes)"""
    return {one["run_name"]: (one["cpu_time"] * UNITS[one["time_unit"]], one.get("items", 0), one.get("bytes", 0))
            for one in result["benchmarks"] if one.get("aggregate_name") == "median"}


def floor_of(name, times):
    for floor in FLOORS:
        if f"{name}/{floor}" in times:
            return floor, times[f"{name}/{floor}"][0]
    return None, None


def lines(times):
    for name, (ns, items, size) in times.items():
        if name.rsplit("/", 1)[-1] in FLOORS:
            continue
        floor, floor_ns = floor_of(name, times)
        yield {"name": name, "ns": ns, "items": items, "ns_per_item": ns / items if items else None, "bytes": size,
               "floor": floor, "floor_ns": floor_ns, "of_floor": floor_ns / ns if floor else None}


def print_table(table):
    width = max([len(one["name"]) for one in table], default=0)
    print(f"# {'benchmark':<{width}} {'round':>12} {'items':>9} {'ns/item':>8} {'GB/s':>6}  {'floor':<18} reached")
    for one in table:
        each = f"{one['ns_per_item']:8.2f}" if one["items"] else " " * 8
        rate = f"{one['bytes'] / one['ns']:6.1f}" if one["floor"] else " " * 6
        floor = f"{one['floor']} {one['floor_ns']:,.0f} ns" if one["floor"] else ""
        reached = f"{one['of_floor']:7.0%}" if one["floor"] else ""
        print(f"  {one['name']:<{width}} {one['ns']:>9,.0f} ns {one['items']:>9,.0f} {each} {rate}  {floor:<18} {reached}".rstrip())


def parameter(name, letter):
    found = re.search(rf"/{letter}:(\d+)", name)
    return int(found.group(1)) if found else None


def points(series, letter, times):
    """(parameter, ns) of a series in which this parameter alone grows; sizes with the others go their own ways."""
    found = {}
    others = [other for other in "SP" if other != letter]
    for name, (ns, _, _) in times.items():
        if name.startswith(series + "/") and name.rsplit("/", 1)[-1] not in FLOORS:
            found.setdefault(tuple(parameter(name, other) for other in others), []).append((parameter(name, letter), ns))
    return sorted(max(found.values(), key=len)) if found else []


def exponent(pairs):
    """Of the power that fits best: the slope of logarithms by least squares."""
    xs, ys = [math.log(x) for x, _ in pairs], [math.log(y) for _, y in pairs]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / sum((x - mean_x) ** 2 for x in xs)


def growth(times):
    for series, letter, expected, why in GROWTH:
        pairs = [pair for pair in points(series, letter, times) if pair[1] >= FITTED_FROM_NS[expected]]
        if len(pairs) >= 3:
            yield {"series": series, "of": letter, "from": pairs[0][0], "to": pairs[-1][0], "exponent": exponent(pairs),
                   "expected": expected, "why": why}


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        sys.exit(0)
    if len(sys.argv) > 2 or sys.argv[1:2] and sys.argv[1].startswith("--"):
        end(2, "the one argument is a regular expression for the names of benchmarks")
    try:
        result = run(sys.argv[1] if sys.argv[1:] else ".")
    except KeyboardInterrupt:
        end(1, f"interrupted: {os.path.relpath(RESULT)} is as it was")
    times = medians(result)
    table, fits = list(lines(times)), list(growth(times))
    print_table(table)
    for fit in fits:
        print(f"# {fit['series']} grows with {fit['of']}^{fit['exponent']:.2f} from {fit['from']:,} to {fit['to']:,}: "
              f"{fit['expected']} expected, {fit['why']}")
    result["table"], result["growth"] = table, fits
    with open(RESULT, "w") as file:
        json.dump(result, file, indent=1)
    print(f"# {os.path.relpath(RESULT, os.getcwd())}")


if __name__ == "__main__":
    main()
