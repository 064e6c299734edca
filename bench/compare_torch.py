#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM's conversion as PyTorch runs it, with the route that it cached, beside conversions of this library: the same packs, GPUs and run.

    bench/compare_torch.py --source DIR [--commit COMMIT] [--ranks N | --oversubscribe N | --cpu N] [--seconds N] [--json FILE]
    bench/compare_torch.py --source DIR [--commit COMMIT] --look

DIR is a checkout of Megatron-LM that builds routes ahead (#5664, #6387 and what followed); or, with --commit, a clone that has the commit. One
process for each GPU is started, or N; under torchrun, or whatever else sets RANK, WORLD_SIZE and MASTER_ADDR, this process is one rank. Both
are judged by the definition of the layouts before they are timed, PyTorch's by bench/torch_rank.py, ours by cproute_gpu_tests.
  --oversubscribe N  N ranks share the GPUs there are, over sockets: PyTorch's is judged, and runs as if it were timed; nothing else would mean anything
  --cpu N            N ranks over gloo and narrow rows, without a GPU: PyTorch's is judged
  --seconds N        ends in so many, with what it has by then
  --look             only says whether DIR is such a checkout
Needs build/gpu/cproute_gpu_tests, and torch in the Python that runs this. Exit code 1: something is wrong or failed, 2: something is missing.
"""
import argparse
import ctypes
import datetime
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from upstream_source import EXCHANGE, ROOT, Missing, checkout, commit_of, load

sys.path.insert(0, os.path.join(ROOT, "ci"))
import gpu_report  # noqa: E402
import tree  # noqa: E402

PROGRAM = os.path.join(ROOT, "build", "gpu", "cproute_gpu_tests")
WITHOUT_ROUTE = "nccl/measure_without_route"  # skipped where GPUs cannot reach each other
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_rank.py")
RANK_IS_WRONG = 3  # EXIT_WRONG of a rank: it ran to its end, and rows were wrong
POLL_SECONDS, GRACE_SECONDS, RANKS_SECONDS, PROGRAM_SECONDS, PROBE_SECONDS = 0.05, 15, 400, 400, 120
# Where time is short: which part of it PyTorch may take, and what is too little for ours.
PART_OF_TORCH, LEAST_SECONDS = 0.6, 10
WIDTH_ON_CPU = 16
FEW = {"warm_up": 1, "batches": 1, "runs": 2}  # where times do not count

PROBE = """
import torch
import torch.distributed as d
assert d.is_available(), "torch has no distributed package"
if {gpus}:
    assert d.is_nccl_available(), f"torch {{torch.__version__}} was built without NCCL"
    assert torch.cuda.device_count() >= {gpus}, f"torch {{torch.__version__}} sees {{torch.cuda.device_count()}} GPUs, and {gpus} are needed"
"""


class Clock:
    """How much time there is, where somebody said so."""

    def __init__(self, seconds):
        self.until = time.monotonic() + seconds if seconds else math.inf

    def left(self, most, part=1):
        return max(0, min(most, part * (self.until - time.monotonic())))


class Ranks:
    """Those that this process starts, how many there are in all, and what they run on."""

    def __init__(self, options, gpus):
        self.device = "cpu" if options.cpu else "cuda"
        self.launched = None
        chosen = options.cpu or options.oversubscribe or options.ranks
        if not chosen and int(os.environ.get("WORLD_SIZE", 1)) > 1:
            self.join_launcher(gpus)
            return
        self.all = chosen or gpus
        self.shares_gpus = not options.cpu and self.all > gpus
        if self.all < 2:
            raise Missing("with one rank there is nothing to convert, and upstream returns what it is given: --oversubscribe 2 has two share the GPU")
        if options.ranks and options.ranks > gpus:
            raise Missing(f"--ranks {options.ranks} asks for more GPUs than there are ({gpus}): --oversubscribe has ranks share them")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
        self.here = [{**meeting, "RANK": str(rank), "WORLD_SIZE": str(self.all), "LOCAL_RANK": str(rank), **self.apart(rank)}
                     for rank in range(self.all)]

    def join_launcher(self, gpus):
        lacking = [name for name in ("RANK", "MASTER_ADDR") if not os.environ.get(name)]
        if lacking:
            raise Missing(f"WORLD_SIZE is set and {lacking[0]} is not: start this with torchrun, or without any of them")
        self.all, self.launched, self.shares_gpus = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]), False
        local = os.environ.get("LOCAL_RANK", str(self.launched % gpus))
        self.here = [{"MASTER_PORT": os.environ.get("MASTER_PORT", "29500"), "LOCAL_RANK": local}]

    def apart(self, rank):
        """NCCL takes two ranks on one GPU for a mistake, unless they seem to be on different hosts."""
        if not self.shares_gpus:
            return {}
        return {"NCCL_HOSTID": f"cproute-rank-{rank}", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}

    def tells(self):
        return not self.launched


def environment(more):
    return {**os.environ, "NCCL_NVLS_ENABLE": "0", **more}


def answer_of_program(*options):
    if not os.path.exists(PROGRAM):
        raise Missing(f"{os.path.relpath(PROGRAM)} is missing: make gpu builds it")
    done = subprocess.run([PROGRAM, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=PROBE_SECONDS)
    if done.returncode:
        raise Missing(f"{os.path.relpath(PROGRAM)} does not start, build it anew: {done.stdout.strip()}")
    return done.stdout


def gpu_count():
    count, _, reason = answer_of_program("--gpus").strip().partition(" ")
    if count == "0":
        raise Missing(f"no GPU: {reason}; --cpu 2 judges upstream's conversion without one")
    return int(count)


def look_at_torch(gpus, seconds=PROBE_SECONDS):
    try:
        done = subprocess.run([sys.executable, "-c", PROBE.format(gpus=gpus)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Missing(f"{sys.executable} did not import torch within {seconds:.0f} s")
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason was told"])[-1]
        raise Missing(f"{sys.executable} cannot take part: {why.partition(': ')[2] or why}; PYTHON= chooses who runs this")


def look_at_source(source, given):
    if not load("megatron").landmarks(source):
        raise Missing(f"{given} has no file that makes routes: SOURCE= names a checkout of Megatron-LM, or a clone and COMMIT= its commit "
                      "(3f49de20de is #6387)")
    if not os.path.exists(os.path.join(source, EXCHANGE)):
        raise Missing(f"{given} lacks {EXCHANGE}")


def end_with_parent():
    """Nobody outlives this process, whatever it dies of."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def watch(processes, until):
    """Their exit codes. Once one has failed, the others, which wait for it, have some seconds left."""
    failing = False
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < until:
            if not failing and any(process.poll() not in (None, tree.EXIT_CLEAN, RANK_IS_WRONG) for process in processes):
                failing, until = True, min(until, time.monotonic() + GRACE_SECONDS)
            time.sleep(POLL_SECONDS)
    finally:
        for process in processes:
            process.kill()
    return [process.wait() for process in processes]


def run_torch(ranks, source, plan, folder, seconds):
    """(results of rank 0 as far as it came, sentences about what failed)"""
    plan_file, results_file = os.path.join(folder, "plan.json"), os.path.join(folder, "torch.json")
    with open(plan_file, "w") as file:
        json.dump(plan, file)
    until = time.monotonic() + seconds
    codes = watch([subprocess.Popen([sys.executable, RANK, source, plan_file, results_file], env=environment(more), stdin=subprocess.DEVNULL,
                                    preexec_fn=end_with_parent) for more in ranks.here], until)
    results = gpu_report.results_in(results_file) or {}
    if tree.EXIT_USAGE in codes:
        raise Missing(results.get("missing", "the conversion of SOURCE cannot be run, as rank 0 says"))
    bad = sorted({code for code in codes if code not in (tree.EXIT_CLEAN, RANK_IS_WRONG)})
    end = f"it took more than {seconds:.0f} s" if time.monotonic() > until else f"exit code {bad[-1]} of a rank" if bad else ""
    return {"lines": [], **results}, [f"PyTorch's conversion failed: {end}"] if bad else []


def run_ours(ranks, folder, seconds):
    """The same of cproute_gpu_tests, which forks its own ranks unless a launcher started this one."""
    if seconds < LEAST_SECONDS:
        return {}, [], ["our conversion was not run: no time left"]
    results_file = os.path.join(folder, "ours.json")
    of_own = [] if ranks.launched is not None else ["--ranks", str(ranks.all)]
    command = [PROGRAM, "--measure", "--only", f"nccl/measure_conversion,{WITHOUT_ROUTE}", *of_own, "--json", results_file]
    quiet = {"stdout": subprocess.DEVNULL} if ranks.tells() else {}
    try:
        code = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment(ranks.here[0] if ranks.launched is not None else {}),
                              timeout=seconds, preexec_fn=end_with_parent, **quiet).returncode
    except subprocess.TimeoutExpired:
        code = f"it took more than {seconds:.0f} s"
    end = f"exit code {code}" if isinstance(code, int) else code
    if not ranks.tells():
        return {}, [], [] if code == 0 else [f"our conversion failed: {end}"]
    results = gpu_report.results_in(results_file)
    if results is None:
        return {}, [], [f"our conversion has no results: {end}"]
    failed = [f"our conversion: {job['details'].splitlines()[0] if job['details'] else job['outcome']}" for job in results["jobs"]
              if job["outcome"] == "failed" or (job["outcome"] == "skipped" and job["name"] != WITHOUT_ROUTE)]
    if code and not failed:
        failed = [f"our conversion failed: {end}"]
    return results, [line for job in results["jobs"] for line in job["lines"]], failed


def command_line(options):
    """As others can repeat it: wherever the source lies here, it lies elsewhere there."""
    chosen = [text for name in ("commit", "ranks", "oversubscribe", "cpu") if getattr(options, name)
              for text in (f"--{name}", str(getattr(options, name)))]
    return " ".join(["bench/compare_torch.py", "--source", "SOURCE", *chosen])


def compare(options):
    clock = Clock(options.seconds)
    gpus = 0 if options.cpu else gpu_count()
    ranks = Ranks(options, gpus)
    look_at_torch(gpus if ranks.launched is not None else min(gpus, ranks.all), clock.left(PROBE_SECONDS))
    plan = {**json.loads(answer_of_program("--packs", str(ranks.all))), "device": ranks.device, "counts": ranks.device == "cuda" and not ranks.shares_gpus}
    if ranks.shares_gpus:
        plan.update(FEW)
    if options.cpu:
        plan["width"] = WIDTH_ON_CPU
    with checkout(options.source, options.commit) as source, tempfile.TemporaryDirectory() as folder:
        look_at_source(source, options.source)
        commit = commit_of(source)
        torch, failed = run_torch(ranks, source, plan, folder, clock.left(RANKS_SECONDS, PART_OF_TORCH))
        ours, lines = {}, []
        if plan["counts"] and (not failed or (torch["lines"] and ranks.launched is None)):
            ours, lines, failed_too = run_ours(ranks, folder, clock.left(PROGRAM_SECONDS))
            failed += failed_too
    about = {name: ours.get(name) for name in ("nccl", "driver", "devices")}
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return ranks, {"date": date, "command": command_line(options), "commit": commit, "ranks": ranks.all, "device": ranks.device,
                   "shares_gpus": ranks.shares_gpus, "batches": plan["batches"], "runs": plan["runs"], **about, **torch,
                   "lines": torch["lines"] + lines, "wrong": sum(line["wrong"] for line in torch["lines"] + lines), "failed": failed}


def keep(results, path):
    with open(path, "w") as file:
        json.dump(results, file, indent=1)


def number_of_ranks(text):
    """0 would be as if none was given: all GPUs."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of ranks")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True, help="a checkout of Megatron-LM, or with --commit a clone")
    parser.add_argument("--commit", help="the generation, by commit or ref of the clone")
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--ranks", type=number_of_ranks, help="so many ranks, on the first GPUs")
    several.add_argument("--oversubscribe", type=number_of_ranks, help="so many ranks that share the GPUs there are: judged, not measured")
    several.add_argument("--cpu", type=number_of_ranks, help="so many ranks without a GPU: judged, not measured")
    parser.add_argument("--seconds", type=float, help="end in so many, with what there is by then")
    parser.add_argument("--look", action="store_true", help="only say whether the source is one")
    parser.add_argument("--json", help="write the results to this file too")
    options = parser.parse_args()
    try:
        if options.look:
            with checkout(options.source, options.commit) as source:
                look_at_source(source, options.source)
            return tree.EXIT_CLEAN
        ranks, results = compare(options)
    except Missing as what:
        print(f"compare_torch.py: {what}", file=sys.stderr)
        if options.json and os.environ.get("RANK", "0") == "0":
            keep({**gpu_report.NO_PYTORCH, "failed": [str(what)]}, options.json)
        return tree.EXIT_USAGE
    if ranks.tells():
        print("\n" + gpu_report.beside_pytorch(results), flush=True)
        if options.json:
            keep(results, options.json)
    return tree.EXIT_FINDINGS if results["wrong"] or results["failed"] else tree.EXIT_CLEAN


if __name__ == "__main__":
    sys.exit(main())
