#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rank of bench/compare_torch.py, which starts it: Megatron-LM's conversion as PyTorch runs it, with the route that was built ahead.

    bench/torch_rank.py SOURCE PLAN RESULTS

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say which rank this is. PLAN is what `cproute_gpu_tests --packs` tells, with "device":
cuda, over NCCL, or cpu, over gloo, where nothing is timed; and "counts": whether times mean anything. Every pack is judged both ways before it
is timed, on all sets of buffers: whoever holds a token by the definition of the layout has its bytes. What is wrong is not timed. Rank 0 writes
RESULTS, anew after each pack. Exit code 3: some is wrong; 2: SOURCE has no such conversion, and RESULTS say so.
"""
import datetime
import importlib
import json
import os
import statistics
import sys
import types
import warnings

import torch
import torch.distributed

from upstream_source import EXCHANGE, Missing, load

WAYS = (("zigzag", "contiguous"), ("contiguous", "zigzag"))
# Odd: what two tokens have differs in every element, up to 65,536 tokens.
TOKEN_FACTOR, ELEMENT_FACTOR, SET_FACTOR = 40503, 30011, 7919
NO_CONVERSION = "no conversion with a route that was built ahead is in SOURCE, as #5664, #6387 and what followed have it"
EXIT_GOOD, EXIT_USAGE, EXIT_WRONG = 0, 2, 3  # as compare_torch.py takes them
MEETING = datetime.timedelta(seconds=120)

tokens_of = load("example").tokens_of  # the definition of the layouts, which `cproute conform` holds to the engine


def painted(tokens, width, number, device, dtype):
    """Rows of 16-bit patterns that tell token, element and set; among them are all kinds of NaN."""
    rows = torch.tensor(tokens, dtype=torch.int32, device=device) * TOKEN_FACTOR + SET_FACTOR * number
    elements = torch.arange(width, dtype=torch.int32, device=device) * ELEMENT_FACTOR
    bits = (rows[:, None] ^ elements[None, :]) & 0xFFFF
    return (bits - 0x8000).to(torch.int16).view(dtype)


def wrong_elements(got, wanted):
    """By their bits: a NaN is equal to itself."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return wanted.numel()
    return int((got.view(torch.int16) != wanted.view(torch.int16)).sum())


def megatron_with_exchange(source):
    """The adapter, that imports what moves rows as it is, too."""
    megatron = load("megatron")
    file = os.path.join(source, EXCHANGE)

    class Finder(megatron.Finder):
        def __init__(self, package, real):
            super().__init__(package, {**real, megatron.module_name(source, file): file})

    megatron.Finder = Finder
    return megatron


class Upstream:
    """The public names of megatron.core.context_parallel_layout, of #5664 and what followed."""

    def __init__(self, source):
        megatron = megatron_with_exchange(source)
        try:
            modules = megatron.import_routes(source)
            self.generation = megatron.form_of(torch, modules).generation
            package = importlib.import_module("megatron.core.context_parallel_layout")
            self.prebuild, self.converter = package.prebuild_thd_cp_partition_routes, package.CpPartitionModeConverter
        except (megatron.Unavailable, ImportError, AttributeError) as reason:
            raise Missing(f"{NO_CONVERSION}: {reason}")
        if not isinstance(self.converter, type):  # but what stands for modules that are not there
            raise Missing(f"{NO_CONVERSION}: {package.__name__} is not there")
        # It would build a route anew in each conversion, and say so.
        warnings.filterwarnings("error", message=".*missing precomputed", category=FutureWarning)

    def conversions(self, cu, group, device):
        """Functions of rows, there and back, that share one route."""
        offsets = torch.tensor(cu, dtype=torch.int32, device=device)
        params = types.SimpleNamespace(qkv_format="thd", cp_group=group, cp_partition_mode="zigzag", cu_seqlens_q=offsets, cu_seqlens_kv=offsets,
                                       cu_seqlens_q_padded=None, cu_seqlens_kv_padded=None)
        self.prebuild(params, group)
        config = types.SimpleNamespace(cuda_graph_impl="none")
        return [self.converter(packed_seq_params=params, source_partition_mode=source, target_partition_mode=target, config=config,
                               cp_group=group).convert for source, target in WAYS]


class Rank:
    def __init__(self, plan):
        self.plan, self.device = plan, plan["device"]
        self.is_gpu = self.device == "cuda"
        if self.is_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        else:
            torch.set_num_threads(1)
            torch.cuda.current_device = lambda: "cpu"  # where upstream's exchange makes its tensors
        torch.distributed.init_process_group("nccl" if self.is_gpu else "gloo", timeout=MEETING)
        self.group = torch.distributed.group.WORLD
        self.rank, self.ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        # gloo does not know bf16; rows are moved and never computed with
        self.dtype = torch.bfloat16 if self.is_gpu else torch.float16

    def of_all(self, number, how):
        tensor = torch.tensor([number], dtype=torch.float64, device=self.device)
        torch.distributed.all_reduce(tensor, op=how)
        return tensor.item()

    def buffers(self, cu, layout):
        tokens = tokens_of(cu, self.ranks, self.rank, layout)
        return [painted(tokens, self.plan["width"], number, self.device, self.dtype) for number in range(self.plan["sets"])]

    def wrong_bytes(self, conversions, sides):
        """Of all ranks, for each way."""
        wrong = []
        for convert, (source, target) in zip(conversions, WAYS):
            here = sum(wrong_elements(convert(rows), wanted) for rows, wanted in zip(sides[source], sides[target]))
            wrong.append(2 * int(self.of_all(here, torch.distributed.ReduceOp.SUM)))
        return wrong

    def batch(self, convert, sets, runs):
        """Microseconds of one run. The first is not timed: it waits for its launch, and for ranks that come to this batch later."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        convert(sets[-1])
        begin.record()
        for number in range(runs):
            convert(sets[number % len(sets)])
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / runs

    def timed(self, conversions, sides):
        """Microseconds of the slowest rank, for each way: as gpu_tests does it, batches of both ways take turns."""
        work = [(convert, sides[source]) for convert, (source, _) in zip(conversions, WAYS)]
        for convert, sets in work:
            self.batch(convert, sets, self.plan["warm_up"])
        batches = [[self.batch(convert, sets, self.plan["runs"]) for convert, sets in work] for _ in range(self.plan["batches"])]
        return [self.of_all(statistics.median(times), torch.distributed.ReduceOp.MAX) for times in zip(*batches)]

    def lines(self, upstream, cu):
        conversions = upstream.conversions(cu, self.group, self.device)
        sides = {layout: self.buffers(cu, layout) for layout in WAYS[0]}
        wrong = self.wrong_bytes(conversions, sides)
        times = self.timed(conversions, sides) if self.is_gpu and not any(wrong) else None
        if not times or not self.plan["counts"]:
            times = [0.0, 0.0]
        rows = cu[-1] // self.ranks
        size = 2 * rows * self.plan["width"]
        return [{"what": "torch", "type": str(self.dtype).rpartition(".")[2], "from": source, "to": target, "bytes": size, "rows": rows,
                 "width": self.plan["width"], "cp": self.ranks, "sequences": len(cu) - 1, "time": round(us, 3), "wrong": bad}
                for (source, target), us, bad in zip(WAYS, times, wrong)]


def say(lines):
    there, back = lines
    how = (f"{there['wrong']} and {back['wrong']} bytes wrong" if there["wrong"] or back["wrong"] else
           f"{there['time']:.1f} / {back['time']:.1f} us" if there["time"] else "right")
    print(f"# PyTorch, {there['rows'] * there['cp']:>7,} tokens, S = {there['sequences']:>5,}: {how}", flush=True)


def write(results, path):
    """Whole at any time."""
    with open(path + ".new", "w") as file:
        json.dump(results, file)
    os.replace(path + ".new", path)


def main(source, plan_file, results_file):
    with open(plan_file) as file:
        plan = json.load(file)
    try:
        upstream = Upstream(source)
    except Missing as what:
        if os.environ["RANK"] == "0":
            write({"missing": str(what)}, results_file)
        return EXIT_USAGE
    rank = Rank(plan)
    results = {"generation": upstream.generation, "torch": torch.__version__, "lines": [],
               "torch_nccl": ".".join(map(str, torch.cuda.nccl.version())) if rank.is_gpu else None}
    with torch.no_grad():
        for cu in plan["packs"]:
            lines = rank.lines(upstream, cu)
            results["lines"] += lines
            if rank.rank == 0:
                say(lines)
                write(results, results_file)
    torch.distributed.destroy_process_group()
    return EXIT_WRONG if any(line["wrong"] for line in results["lines"]) else EXIT_GOOD


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
