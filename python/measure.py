#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's builder against this package, in one run on the CPU.

    python3 python/measure.py --source CHECKOUT    # as tools/adapters/megatron.py takes it; a generation with a two-view route
"""
import argparse
import importlib.util
import os
import statistics
import sys
import time

import cproute
import torch

ADAPTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "adapters", "megatron.py")

# (P, sequences, tokens of a sequence as a multiple of 2P)
PACKS = [(2, 8, 64), (8, 32, 64), (8, 32, 256), (32, 128, 64)]


def load_adapter():
    """Under another name than that of the package which it imports."""
    spec = importlib.util.spec_from_file_location("megatron_adapter", ADAPTER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def median_us(build, cu, cp_size, repeats=9):
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        build(cu, cp_size, cp_size // 2)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def same(a, b):
    def rows(index, splits):
        return list(range(sum(splits))) if index is None else index.tolist()
    return all(rows(getattr(a, f"{side}_index"), getattr(a, f"{side}_split_sizes")) == rows(getattr(b, f"{side}_index"), getattr(b, f"{side}_split_sizes"))
               and list(getattr(a, f"{side}_split_sizes")) == list(getattr(b, f"{side}_split_sizes")) for side in ("zigzag", "contiguous"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True)
    torch.set_num_threads(1)
    megatron = load_adapter()
    form = megatron.form_of(torch, megatron.import_routes(os.path.abspath(parser.parse_args().source)))
    if not isinstance(form, megatron.TwoViews):
        sys.exit(f"measure.py: {form.generation} has another form of route")
    upstream, cache = form.module.build_thd_cp_partition_route, cproute.RouteCache()
    print("| P | sequences | tokens | upstream, us | built here, us | times faster | from the cache, us |\n| --- | --- | --- | --- | --- | --- | --- |")
    for cp_size, sequences, multiple in PACKS:
        cu = torch.arange(sequences + 1, dtype=torch.int32) * (2 * cp_size * multiple)
        if not same(upstream(cu, cp_size, 1), cproute.build_thd_cp_partition_route(cu, cp_size, 1)):
            sys.exit("measure.py: the routes differ")
        theirs, ours = median_us(upstream, cu, cp_size), median_us(cproute.build_thd_cp_partition_route, cu, cp_size, 99)
        hit = median_us(lambda cu, size, rank: cache.get(cu, size, rank).recv_rows, cu, cp_size, 99)
        print(f"| {cp_size} | {sequences} | {int(cu[-1]):,} | {theirs:,.0f} | {ours:,.0f} | {theirs / ours:.0f} | {hit:,.0f} |")


if __name__ == "__main__":
    main()
