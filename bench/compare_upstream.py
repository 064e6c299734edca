#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's builder against this one, through Python and straight from C, in one run on one core of this machine.

    bench/compare_upstream.py --source DIR [--commit COMMIT] [--json FILE]

DIR is a checkout of Megatron-LM whose builder makes routes ahead (#5664, #6387 and what followed); or, with --commit, a clone that has the
commit. Needs NumPy and torch, and build/bench/libcproute.so and build/bench/time_packs: `make compare SOURCE=DIR` builds them. The same
packs for all, rank P/2, medians of processor time. Routes are compared before times are. Exit codes: 1 they differ, 2 something is
missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from upstream_source import ROOT, Missing, checkout, commit_of, load

BUILD = os.path.join(ROOT, "build", "bench")

# (P, sequences, tokens), equal sequences. The first three are what was promised for: runs 1,000 and int64 rows 100 times faster.
PACKS = [(4, 16, 98304), (4, 4096, 98304), (64, 4096, 524288), (2, 8, 2048), (8, 32, 131072), (8, 64, 131072), (32, 128, 524288)]
ROUNDS = 5


def missing(what):
    print(f"compare_upstream.py: {what}", file=sys.stderr)
    sys.exit(2)


def builder_of(form, megatron):
    """A function (cu, P, rank) that makes what upstream's exchange from zigzag to contiguous needs, and one that reads it as
    (send_rows, recv_rows, input_splits, output_splits)."""
    build = form.module.build_thd_cp_partition_route if hasattr(form, "module") else None
    if isinstance(form, megatron.TwoViews):
        return build, lambda made, size, rank: (made.zigzag_index, made.contiguous_index, made.zigzag_split_sizes, made.contiguous_split_sizes)
    if isinstance(form, megatron.FlatRoute):
        def directed(cu, size, rank):
            return build(cu, size, rank, "zigzag", "contiguous")
        return directed, lambda made, size, rank: form.module.decode_thd_cp_partition_route(made, size, rank)[2:]
    missing(f"{form.generation} makes no route ahead that could be compared")


def listed(rows, splits):
    return list(range(sum(splits))) if rows is None or len(rows) == 0 else [int(row) for row in rows]


def same(a, b):
    """Rows and splits, whatever holds them."""
    return all(list(map(int, a[2 + side])) == list(map(int, b[2 + side])) and listed(a[side], a[2 + side]) == listed(b[side], b[2 + side])
               for side in (0, 1))


def processor_us(action, repetitions):
    begun = time.thread_time()
    for _ in range(repetitions):
        action()
    return (time.thread_time() - begun) / repetitions * 1e6


def straight_from_c(pack):
    done = subprocess.run([os.path.join(BUILD, "time_packs"), *map(str, pack)], stdout=subprocess.PIPE, text=True, errors="replace", check=True)
    return {name: ns / 1e3 for name, ns in json.loads(done.stdout).items()}


def compare(pack, torch, upstream, read, cproute):
    size, sequences, tokens = pack
    rank = size // 2
    cu = torch.arange(sequences + 1, dtype=torch.int32) * (tokens // sequences)
    cache = cproute.RouteCache()

    def ours():
        route = cproute.build_route(cu, size, rank)
        return route.send_rows, route.recv_rows, route.input_splits, route.output_splits

    if not same(read(upstream(cu, size, rank), size, rank), ours()):
        print(f"compare_upstream.py: the routes of {pack} differ", file=sys.stderr)
        sys.exit(1)
    times = {"upstream": [], "python": [], "cache": []}
    for _ in range(ROUNDS):
        times["upstream"].append(processor_us(lambda: upstream(cu, size, rank), 3))
        times["python"].append(processor_us(ours, 30))
        times["cache"].append(processor_us(lambda: cache.get(cu, size, rank).recv_rows, 30))
    result = {name: statistics.median(list_of_times) for name, list_of_times in times.items()}
    result.update(straight_from_c(pack), pack=list(pack))
    return result


def print_line(result):
    size, sequences, tokens = result["pack"]
    cells = [f"{size}", f"{sequences:,}", f"{tokens:,}", f"{result['upstream']:,.0f}"]
    for name in ("python", "cache", "rows", "runs", "runs_malloc"):
        cells.append(f"{result[name]:,.1f} ({result['upstream'] / result[name]:,.0f}x)")
    print("| " + " | ".join(cells) + " |", flush=True)


def run(source, torch, cproute, json_file):
    megatron = load("megatron")
    try:
        form = megatron.form_of(torch, megatron.import_routes(source))
    except megatron.Unavailable as reason:
        missing(reason)
    upstream, read = builder_of(form, megatron)
    print(f"Megatron-LM {(commit_of(source) or 'of a folder')[:11]}, {form.generation}, torch {torch.__version__}\n")
    titles = ["P", "sequences", "tokens", "upstream, us", "Python, us", "from the cache, us", "C, int64 rows, us", "C, runs, us",
              "C, runs with malloc, us"]
    print("| " + " | ".join(titles) + " |\n|" + " --- |" * len(titles), flush=True)
    results = []
    for pack in PACKS:
        results.append(compare(pack, torch, upstream, read, cproute))
        print_line(results[-1])
    if json_file:
        with open(json_file, "w") as file:
            json.dump({"generation": form.generation, "torch": torch.__version__, "unit": "us", "packs": results}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True, help="a checkout of Megatron-LM, or with --commit a clone")
    parser.add_argument("--commit", help="the generation, by commit or ref of the clone")
    parser.add_argument("--json", help="write the medians to this file too")
    options = parser.parse_args()
    if options.json and not os.path.isdir(os.path.dirname(os.path.abspath(options.json))):
        parser.error(f"there is no folder for {options.json}")
    library = os.path.join(BUILD, "libcproute.so")
    for file in (library, os.path.join(BUILD, "time_packs")):
        if not os.path.exists(file):
            missing(f"{os.path.relpath(file)} is missing: run make compare SOURCE=...")
    os.environ["CPROUTE_LIBRARY"] = library
    sys.path.insert(0, os.path.join(ROOT, "python"))
    try:
        import torch
        import cproute
    except ImportError as failure:
        missing(f"{failure}; PYTHON= chooses who runs this")
    torch.set_num_threads(1)
    try:
        with checkout(options.source, options.commit) as source:
            run(source, torch, cproute, options.json)
    except Missing as what:
        missing(what)


if __name__ == "__main__":
    main()
