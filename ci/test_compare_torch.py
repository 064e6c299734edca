#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/compare_torch.py: how it starts ranks, joins both sides and tells what is missing, with stand-ins for ranks and for the GPU tests; and,
where there is torch, bench/torch_rank.py over gloo on packages made here, one of which is wrong."""

import contextlib
import importlib.util
import io
import json
import os
import shutil
import stat
import sys
import tempfile
import unittest
from unittest import mock

import tree

sys.path.insert(0, tree.path("bench"))
import compare_torch  # noqa: E402
import upstream_source  # noqa: E402

PLAN = {"cp": 2, "width": 8, "batches": 3, "runs": 2, "warm_up": 1, "sets": 2, "packs": [[0, 48], [0, 0, 12, 12, 36, 48]]}

# In place of cproute_gpu_tests. What is measured by it, and in which environment, is kept beside it.
PROGRAM = """#!/bin/sh
case $1 in
--gpus) echo "{gpus} why" ;;
--packs) echo '{plan}' ;;
*) echo "$*" >$0.asked; env >$0.environment
   for results; do :; done
   echo '{results}' >$results; exit {code} ;;
esac
"""


def results_of_ours(gpus, outcome, without_route):
    line = {"type": "bf16", "bytes": 1, "rows": 24, "width": 8, "cp": 2, "sequences": 1, "wrong": 0}
    def job(name, outcome, what, time):
        lines = [{**line, "what": what, "from": source, "time": time} for source in ("zigzag", "contiguous") if outcome == "passed"]
        return {"name": name, "outcome": outcome, "details": "rank 1: why", "lines": lines, "wrong": 0}

    return {"nccl": "2.9", "driver": "1.2", "devices": ["Some GPU"] * gpus,
            "jobs": [job("nccl/measure_conversion", outcome, "conversion", 200.0), job("nccl/measure_without_route", without_route, "direct", 100.0)]}


# In place of torch_rank.py.
RANK = """
import json, os, sys, time
rank = int(os.environ["RANK"])
with open(sys.argv[2]) as file:
    plan = json.load(file)
with open(f"{kept}.{{rank}}", "w") as file:
    json.dump([plan, dict(os.environ)], file)
if rank == 0:
    line = dict(what="torch", type="bf16", bytes=1, rows=24, width=8, cp=2, sequences=1, time=250.0, wrong={wrong})
    with open(sys.argv[3], "w") as file:
        json.dump(dict(generation="some", torch="9.9", torch_nccl="2.8",
                       lines=[dict(line, **{{"from": source, "to": "x"}}) for source in ("zigzag", "contiguous")]), file)
{rest}
"""

ROUTES = """
from megatron.core.tensor_parallel.mappings import all_to_all
from megatron.core.elsewhere import nvtx_range
import torch

def tokens_of(cu, size, rank, layout):
    if layout == "contiguous":
        return list(range(rank * cu[-1] // size, (rank + 1) * cu[-1] // size))
    chunks = [range(a + n * (b - a) // (2 * size), a + (n + 1) * (b - a) // (2 * size))
              for a, b in zip(cu, cu[1:]) for n in (rank, 2 * size - 1 - rank)]
    return [token for chunk in chunks for token in chunk]

def build_thd_cp_partition_route(cu, cp_size, cp_rank, device=None):
    with nvtx_range("route"):
        made = {}
        for layout, other in (("zigzag", "contiguous"), ("contiguous", "zigzag")):
            here = tokens_of(cu.tolist(), cp_size, cp_rank, layout)
            parts = [[here.index(token) for token in tokens_of(cu.tolist(), cp_size, peer, other) if token in here] for peer in range(cp_size)]
            made[layout] = [torch.tensor(sum(parts, [])), [len(part) for part in parts]]
        return made

def prebuild_thd_cp_partition_routes(params, group):
    params.cp_partition_route = build_thd_cp_partition_route(params.cu_seqlens_q, group.size(), group.rank())

class CpPartitionModeConverter:
    def __init__(self, *, packed_seq_params, source_partition_mode, target_partition_mode, config, cp_group):
        self.route, self.group = packed_seq_params.cp_partition_route, cp_group
        self.source, self.target = source_partition_mode, target_partition_mode

    def convert(self, rows):
        (send, inputs), (receive, outputs) = self.route[self.source], self.route[self.target]
        arrived = all_to_all(self.group, rows[send], outputs, inputs)
        out = torch.empty_like(rows)
        out[receive] = arrived
        return out
"""
EXCHANGE = """
import torch
def all_to_all(group, rows, outputs, inputs):
    arrived = torch.empty(sum(outputs), *rows.shape[1:], dtype=rows.dtype, device=torch.cuda.current_device())
    torch.distributed.all_to_all_single(arrived, rows.contiguous(), outputs, inputs, group=group)
    return arrived
"""
PACKAGE = "megatron/core/context_parallel_layout/"


class Comparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.source = os.path.join(self.folder, "source")
        self.upstream()
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            os.environ.pop(name, None)

    def write(self, name, text, executable=False):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        if executable:
            os.chmod(path, stat.S_IRWXU)
        return path

    def upstream(self, routes=ROUTES):
        self.write(f"source/{PACKAGE}__init__.py", "from megatron.core.context_parallel_layout.routes import *\n")
        self.write(f"source/{PACKAGE}routes.py", routes)
        self.write("source/" + upstream_source.EXCHANGE, EXCHANGE)
        self.write("source/COMMIT", "0123456789abcdef\n")

    def compared(self, *options, gpus=2, wrong=0, rest="", code=0, outcome="passed", without_route="passed", written=None, torch=None, rank=None):
        """(exit code, output, complaints, results or None)"""
        ours = json.dumps(results_of_ours(gpus, outcome, without_route))
        program = self.write("program", PROGRAM.format(gpus=gpus, plan=json.dumps(PLAN), code=code, results=written(ours) if written else ours), True)
        rank = rank or self.write("rank.py", RANK.format(kept=os.path.join(self.folder, "rank"), wrong=wrong, rest=rest))
        results = os.path.join(self.folder, "results.json")
        look = compare_torch.look_at_torch if torch else mock.Mock()
        arguments = ["compare_torch.py", "--source", self.source, "--json", results, *options]
        with mock.patch.object(compare_torch, "PROGRAM", program), mock.patch.object(compare_torch, "RANK", rank), \
                mock.patch.object(compare_torch, "PROBE", torch or ""), mock.patch.object(compare_torch, "look_at_torch", look), mock.patch.object(compare_torch, "GRACE_SECONDS", 0.3), \
                mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(io.StringIO()) as output, \
                contextlib.redirect_stderr(io.StringIO()) as complaints:
            try:
                code = compare_torch.main()
            except SystemExit as ended:
                code = ended.code
        found = None
        if os.path.exists(results):
            with open(results) as file:
                found = json.load(file)
        return code, output.getvalue(), complaints.getvalue(), found

    def text(self, name):
        with open(os.path.join(self.folder, name)) as file:
            return file.read()

    def asked(self, rank):
        return json.loads(self.text(f"rank.{rank}"))

    def test_both_sides_are_joined(self):
        code, output, _, results = self.compared()
        self.assertEqual(code, tree.EXIT_CLEAN)
        self.assertIn("| 2 | 48 | 1 | 250 | 250 | 100 | 100 | 2.50 | 2.50 | 200 | 200 | 1.25 | 1.25 |", output)
        self.assertEqual((results["torch"], results["torch_nccl"], results["nccl"], results["commit"]), ("9.9", "2.8", "2.9", "0123456789abcdef"))
        self.assertEqual(results["command"], "bench/compare_torch.py --source SOURCE")
        self.assertEqual({line["what"] for line in results["lines"]}, {"torch", "direct", "conversion"})
        plan, environment = self.asked(1)
        self.assertEqual(plan, {**PLAN, "device": "cuda", "counts": True})
        self.assertEqual([environment[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NCCL_NVLS_ENABLE")], ["1", "2", "1", "0"])
        self.assertIn("--measure --only nccl/measure_conversion,nccl/measure_without_route --ranks 2 --json", self.text("program.asked"))

    def test_wrong_rows_of_upstream(self):
        code, output, _, results = self.compared(wrong=6, rest=f"sys.exit({compare_torch.RANK_IS_WRONG})")
        self.assertEqual((code, results["wrong"], results["failed"]), (tree.EXIT_FINDINGS, 12, []))
        self.assertIn("- **wrong**: 6 bytes of torch, zigzag → x, P = 2, 48 tokens, S = 1", output)

    def test_a_rank_that_dies_takes_the_others_along(self):
        code, output, _, results = self.compared(rest="sys.exit(9) if rank == 1 else (os.remove(sys.argv[3]), time.sleep(60))")
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn("PyTorch's conversion failed: exit code 9 of a rank", output)
        self.assertEqual({line["what"] for line in results["lines"]}, set())
        self.assertFalse(os.path.exists(os.path.join(self.folder, "program.asked")))

    # The others fail once rank 0 has told of a pack.
    TOLD = "results = sys.argv[3]\nwhile not (os.path.exists(results) and os.path.getsize(results)): time.sleep(0.01)\n"

    def test_packs_that_were_told_are_kept_and_joined(self):
        code, output, _, results = self.compared(rest=self.TOLD + "sys.exit(9) if rank == 1 else time.sleep(60)")
        self.assertEqual((code, results["failed"]), (tree.EXIT_FINDINGS, ["PyTorch's conversion failed: exit code 9 of a rank"]))
        self.assertIn("| 2 | 48 | 1 | 250 | 250 | 100 | 100 | 2.50 | 2.50 |", output)

    def test_time_that_is_short(self):
        with mock.patch.object(compare_torch, "LEAST_SECONDS", 0.5):
            code, _, _, results = self.compared("--seconds", "5", rest=self.TOLD + "time.sleep(60)")
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertRegex(" ".join(results["failed"]), r"^PyTorch's conversion failed: it took more than \d s$")
        self.assertEqual({line["what"] for line in results["lines"]}, {"torch", "direct", "conversion"})
        code, _, _, results = self.compared("--seconds", "9")
        self.assertEqual((code, results["failed"]), (tree.EXIT_FINDINGS, ["our conversion was not run: no time left"]))
        self.assertEqual({line["what"] for line in results["lines"]}, {"torch"})

    def test_ours_is_cut(self):
        """What had ended by then is kept."""
        code, _, _, results = self.compared(code=9, written=lambda text: text[:text.index('"jobs": [') + 9] + "\n" + text[text.index('"jobs": [') + 9:-2])
        self.assertEqual((code, results["failed"]), (tree.EXIT_FINDINGS, ["our conversion failed: exit code 9"]))
        self.assertEqual({line["what"] for line in results["lines"]}, {"torch", "direct", "conversion"})

    def test_gpus_that_do_not_reach_each_other(self):
        code, output, _, results = self.compared(without_route="skipped")
        self.assertEqual((code, results["failed"]), (tree.EXIT_CLEAN, []))
        self.assertIn("| 2 | 48 | 1 | 250 | 250 | - | - | - | - | 200 | 200 | 1.25 | 1.25 |", output)

    def test_a_look_needs_no_gpu(self):
        self.assertEqual(self.compared("--look", gpus=0)[0], tree.EXIT_CLEAN)
        self.source += "/nowhere"
        self.assertEqual(self.compared("--look", gpus=0)[0], tree.EXIT_USAGE)

    def test_ours_fails(self):
        code, output, _, _ = self.compared(code=1, outcome="failed")
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn("- **failed**: our conversion: rank 1: why", output)
        self.assertEqual(self.compared(code=1)[0], tree.EXIT_FINDINGS)
        self.assertEqual(self.compared(outcome="skipped")[0], tree.EXIT_FINDINGS)

    def test_ranks_that_share_a_gpu_are_judged_and_not_measured(self):
        code, output, _, results = self.compared("--oversubscribe", "2", gpus=1)
        self.assertEqual((code, results["shares_gpus"]), (tree.EXIT_CLEAN, True))
        self.assertIn("2 of 2 conversions of PyTorch's are right", output)
        self.assertNotIn("250", output)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "program.asked")))
        plans, environments = zip(self.asked(0), self.asked(1))
        self.assertEqual((plans[0]["runs"], plans[0]["counts"]), (compare_torch.FEW["runs"], False))
        self.assertNotEqual(*[environment["NCCL_HOSTID"] for environment in environments])

    def test_under_a_launcher(self):
        launched = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "there", "LOCAL_RANK": "5"}
        with mock.patch.dict(os.environ, launched):
            code, _, _, results = self.compared(gpus=8)
        self.assertEqual((code, results), (tree.EXIT_CLEAN, None))
        self.assertFalse(os.path.exists(os.path.join(self.folder, "rank.0")))
        self.assertNotIn("--ranks", self.text("program.asked"))
        self.assertLessEqual({f"{name}={value}" for name, value in launched.items()}, set(self.text("program.environment").splitlines()))
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "2", "RANK": "0"}):
            self.assert_missing("MASTER_ADDR")

    def assert_missing(self, what, *options, **more):
        code, _, complaints, results = self.compared(*options, **more)
        self.assertEqual((code, results["lines"]), (tree.EXIT_USAGE, []))
        self.assertRegex(complaints, f"^compare_torch.py: .*{what}.*\n$")
        self.assertEqual(complaints, f"compare_torch.py: {results['failed'][0]}\n")

    def test_what_is_missing(self):
        self.assert_missing("--oversubscribe 2 has two share", gpus=1)
        self.assert_missing("no GPU: why; --cpu 2", gpus=0)
        self.assert_missing("--ranks 4 asks for more GPUs", "--ranks", "4")
        self.assert_missing("cannot take part: no such thing; PYTHON=", torch="assert False, 'no such thing'")
        self.assert_missing("has no commit nope", "--commit", "nope")
        self.assertEqual(self.compared("--cpu", "0")[0], tree.EXIT_USAGE)
        os.remove(os.path.join(self.source, upstream_source.EXCHANGE))
        self.assert_missing("lacks megatron/core/tensor_parallel/mappings.py")
        os.remove(os.path.join(self.source, PACKAGE, "routes.py"))
        self.assert_missing("has no file that makes routes: SOURCE= .* COMMIT=")
        shutil.rmtree(os.path.join(self.source, "megatron"))
        self.assert_missing("has no folder megatron: SOURCE=")
        self.source += "/nowhere"
        self.assert_missing("nowhere is no folder")
        with mock.patch.object(compare_torch, "answer_of_program", side_effect=upstream_source.Missing("program is missing: make gpu builds it")):
            self.assert_missing("make gpu builds it")

    def on_cpu(self, routes):
        self.upstream(routes)
        return self.compared("--cpu", "2", rank=tree.path("bench", "torch_rank.py"))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
    def test_rows_that_torch_moves_are_judged(self):
        """Of the second pack, two rows of one rank come back in each other's place."""
        swapped = ROUTES.replace("return out\n", """if self.several and self.target == 'zigzag' and self.group.rank() == 1:
            out[[0, 1]] = out[[1, 0]]
        return out
""").replace("self.source, self.target =", "self.several = packed_seq_params.cu_seqlens_q.numel() > 2\n        self.source, self.target =")
        code, output, _, results = self.on_cpu(swapped)
        self.assertEqual(code, tree.EXIT_FINDINGS)
        wrong = 2 * 2 * compare_torch.WIDTH_ON_CPU * PLAN["sets"]
        self.assertEqual([(line["from"], line["sequences"], line["wrong"]) for line in results["lines"]],
                         [("zigzag", 1, 0), ("contiguous", 1, 0), ("zigzag", 5, 0), ("contiguous", 5, wrong)])
        self.assertIn("Judged on 2 ranks that have none: 3 of 4", output)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
    def test_a_generation_without_cached_routes(self):
        code, _, complaints, results = self.on_cpu(ROUTES.replace("class CpPartitionModeConverter", "class Other"))
        self.assertEqual((code, results["lines"]), (tree.EXIT_USAGE, []))
        self.assertRegex(results["failed"][0], "^no conversion with a route that was built ahead is in SOURCE")
        self.assertIn(results["failed"][0], complaints)


if __name__ == "__main__":
    unittest.main()
