#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ci/gpu.py plans for any number of GPUs, how it takes results, and what becomes of them on the page."""

import contextlib
import io
import json
import os
import re
import stat
import sys
import tempfile
import unittest
from unittest import mock

import gpu
import gpu_report
import tree


def a_job(name, outcome="passed", figures=None, lines=()):
    return {"name": name, "meaning": "something holds", "outcome": outcome, "details": "" if outcome == "passed" else "rank 1: why",
            "seconds": 1.0, "cases": 1234, "wrong": 0, "figures": figures or {}, "lines": list(lines)}


def a_line(what, source, time):
    return {"what": what, "from": source, "to": "x", "type": "bf16", "bytes": 4096 * 8192, "rows": 4096, "width": 4096, "cp": 2,
            "sequences": 8, "time": time, "algbw": 100.0, "busbw": 200.0, "wrong": 0}


def a_run(jobs, gpus=2, **more):
    run = {"name": "all GPUs", "options": ["--measure"], "date": "2026-01-02", "devices": ["Some GPU"] * gpus, "driver": "1.2",
           "nccl": "2.28.9", "cuda_runtime": 13000, "ranks": gpus, "shares_gpus": False, "jobs": jobs, "passed": 0, "failed": 0,
           "skipped": 0, "wrong": 0}
    return {**run, **more}


class Plan(unittest.TestCase):
    def ranks(self, gpus, option):
        return [int(run.options[run.options.index(option) + 1]) for run in gpu.plan(gpus, False) if option in run.options]

    def test_no_gpu_is_one_run(self):
        self.assertEqual(len(gpu.plan(0, False)), 1)

    def test_ranks_share_what_gpus_are_too_few_for(self):
        self.assertEqual(self.ranks(1, "--oversubscribe"), [2, 3, 4])
        self.assertEqual(self.ranks(2, "--oversubscribe"), [4, 3])
        self.assertEqual(self.ranks(3, "--oversubscribe"), [4])
        self.assertEqual(self.ranks(8, "--oversubscribe"), [])

    def test_ranks_of_one_host_share_it_by_memory(self):
        def shared(gpus, quick=False):
            return [run.options[2:] for run in gpu.plan(gpus, quick, one_host=True) if "--oversubscribe" in run.options]
        by_memory = [["--quick", "--one-host", "--oversubscribe", ranks] for ranks in ("4", "8")]
        two = ["--measure", "--quick", "--one-host", "--oversubscribe", "2"]
        self.assertEqual(shared(1), [["--oversubscribe", "2"], two, *by_memory])
        self.assertEqual(shared(1, True)[0], ["--quick", "--oversubscribe", "2"])
        self.assertEqual(shared(2), [*by_memory, ["--quick", "--oversubscribe", "3"]])
        self.assertEqual(shared(4), by_memory[1:])
        self.assertEqual(shared(8), [])
        runs = gpu.plan(1, False, one_host=True)
        self.assertEqual([run.options[1] for run in runs[2:4]], ["nccl", ",".join(f"nccl/{name}" for name in gpu.OF_MANY_RANKS.split(","))])
        self.assertEqual(gpu.plan(1, False, "graph", one_host=True)[-1].options[:2], ["--only", "nccl/graph"])

    def test_smaller_groups_of_many_gpus(self):
        self.assertEqual(self.ranks(1, "--ranks"), [])
        self.assertEqual(self.ranks(4, "--ranks"), [2, 3])
        self.assertEqual(self.ranks(8, "--ranks"), [2, 3, 4])

    def test_lost_ranks_of_several_gpus_come_last(self):
        runs = gpu.plan(2, False, one_host=True)
        self.assertEqual(runs[0].options, ["--measure", "--except", gpu.FAULTS])
        self.assertEqual([run.name for run in runs[-2:]], ["lost ranks", "lost ranks, and calls that block"])
        self.assertIn("nccl/direct_stuck", runs[-2].options[-1])
        self.assertEqual([run for run in runs if "--ranks" in run.options], [])
        self.assertEqual([run.name for run in gpu.plan(2, True, one_host=True)][-1], "lost ranks")
        self.assertEqual([run for run in gpu.plan(1, False, one_host=True) if "--except" in run.options], [])
        some = gpu.plan(2, False, "killed", one_host=True)
        self.assertEqual(some[0].options, ["--measure", "--only", "killed"])
        self.assertFalse([run for run in some if "--except" in run.options or run.name.startswith("lost")])
        for run in gpu.plan(8, False, one_host=True)[:4]:
            self.assertIn("--except", run.options)

    def test_only_some_tests(self):
        runs = gpu.plan(1, True, "direct,graph")
        self.assertEqual(runs[0].options, ["--quick", "--measure", "--only", "direct,graph"])
        self.assertIn("nccl/direct,nccl/graph", runs[1].options)
        self.assertEqual(gpu.sanitized_tests("direct_refill,graph", "memcheck"), "simulated/graph,simulated/direct_refill")
        self.assertEqual(gpu.sanitized_tests(None, "memcheck"), gpu.SANITIZED)
        self.assertEqual(gpu.sanitized_tests(None, "racecheck"), gpu.RACECHECKED)
        self.assertEqual(gpu.sanitize("memcheck", gpu.sanitized_tests("measure", "memcheck"))[0], "skipped")


class Names(unittest.TestCase):
    """A test that has another name now would be left out without a word."""

    def names(self, *places):
        with open(tree.path("gpu_tests", "tests.def")) as file:
            return [name for name, place in re.findall(r"^TEST\((\w+), (\w+),", file.read(), re.MULTILINE) if place in places]

    def test_sanitized_tests_are_there(self):
        simulated = self.names("SIMULATED", "BOTH", "ONCE", "BOTH_ONCE")
        for chosen in (gpu.SANITIZED, gpu.RACECHECKED):
            for word in chosen.split(","):
                self.assertIn(word.removeprefix("simulated/"), simulated)

    def test_faults_are_those_that_lose_ranks_or_refuse(self):
        faults = self.names("FAULT", "LOST")
        everything = self.names("SIMULATED", "REAL", "FAULT", "LOST", "BOTH", "ONCE", "BOTH_ONCE")
        self.assertEqual([name for name in everything if name.startswith(tuple(gpu.FAULTS.split(",")))], faults)
        self.assertEqual([f"{name}_blocking" for name in self.names("LOST")], gpu.BLOCKING.split(","))

    def test_what_is_measured_comes_before_ranks_are_lost(self):
        with open(tree.path("gpu_tests", "tests.def")) as file:
            order = re.findall(r"^TEST\((\w+),", file.read(), re.MULTILINE)
        measured = [order.index(name) for name in order if "measure" in name]
        self.assertLess(max(measured), min(order.index(name) for name in self.names("FAULT", "LOST")))

    def test_tests_of_ranks_that_share_are_there(self):
        real = self.names("REAL", "FAULT", "LOST", "BOTH", "BOTH_ONCE")
        for chosen in (gpu.OVER_SOCKETS, gpu.FEWER_OVER_SOCKETS, gpu.OF_MANY_RANKS):
            for word in chosen.split(","):
                self.assertTrue([name for name in real if name.startswith(word)], word)


class Results(unittest.TestCase):
    def results_of(self, script, before=None, **more):
        """As if the tests were a shell script, whose last argument is the JSON file."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "tests")
            with open(program, "w") as file:
                file.write("#!/bin/sh\nfor last; do :; done\n" + script)
            os.chmod(program, stat.S_IRWXU)
            if before:
                with open(os.path.join(folder, "0.json"), "w") as file:
                    file.write(before)
            kept = gpu.PROGRAM, gpu.RESULTS
            gpu.PROGRAM, gpu.RESULTS = program, folder
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    return gpu.run_tests(gpu.Run("some", []), 0, **more)
            finally:
                gpu.PROGRAM, gpu.RESULTS = kept

    def test_good_results_are_taken(self):
        self.assertEqual(self.results_of("echo '{\"failed\": 0, \"wrong\": 0}' > $last")["failed"], 0)

    def test_a_crash_is_a_failure(self):
        self.assertEqual(self.results_of("kill -SEGV $$")["failed"], 1)
        self.assertEqual(self.results_of("echo '{\"failed\": 0, \"wrong\": 0}' > $last; kill -SEGV $$")["failed"], 1)

    def test_results_of_an_earlier_run_are_not_taken(self):
        self.assertEqual(self.results_of("exit 0", before='{"failed": 0, "wrong": 0}')["broken"], "no results: exit code 0")

    BEGIN = '{"devices": ["Some GPU"], "jobs":['

    def unfinished(self, *jobs, after=""):
        """As json_job leaves it: each job is a line, and flushed."""
        return self.BEGIN + ",".join("\n" + json.dumps(job) for job in jobs) + after

    def test_results_of_a_cut_run_are_closed(self):
        jobs = [a_job("nccl/a"), {**a_job("nccl/b", "failed"), "wrong": 3}, a_job("nccl/c", "skipped")]
        for after in ("", ",\n{\"name\":\"nccl/d\",\"mean", ",\n", "],\"pass"):
            results = self.results_of(f"cat >$last <<'END'\n{self.unfinished(*jobs, a_job('nccl/d'), after=after)}\nEND\nkill -KILL $$")
            names = [job["name"] for job in results["jobs"]]
            self.assertEqual(names, ["nccl/a", "nccl/b", "nccl/c", "nccl/d"][:3 if after.startswith("]") else 4], after)
            self.assertEqual((results["failed"], results["skipped"], results["wrong"]), (2, 1, 3))
            self.assertEqual(results["broken"], "not all tests have results: exit code -9")
        self.assertEqual(self.results_of(f"echo '{self.BEGIN}' >$last; exit 1")["jobs"], [])
        self.assertEqual(self.results_of("echo '{\"devices\": [\"So' >$last; exit 1")["broken"], "no results: exit code 1")

    def test_a_run_that_takes_too_long_keeps_what_had_ended(self):
        script = f"cat >$last <<'END'\n{self.unfinished(a_job('nccl/a'))}\nEND\nexec sleep 60"
        results = self.results_of(script, seconds=2)
        self.assertEqual((results["passed"], results["failed"]), (1, 1))
        self.assertEqual(results["broken"], "not all tests have results: it was ended after 2 s")

    def test_a_run_without_time_is_not_begun(self):
        results = self.results_of("exit 9", seconds=0)
        self.assertEqual((results["not_run"], results["failed"], results["jobs"]), ("no time left", 0, []))
        code, said = self.verdict([a_run([a_job("nccl/a")], passed=1), results], {})
        self.assertEqual(code, tree.EXIT_CLEAN)
        self.assertIn("# not run: some: no time left", said)
        self.assertEqual(gpu.sanitize("memcheck", "simulated/laws", 0)[0], "not run")

    def test_failures_that_the_results_do_not_know(self):
        self.assertEqual(self.results_of("echo '{\"failed\": 0, \"wrong\": 0}' > $last; exit 1")["failed"], 1)

    def test_a_program_that_does_not_start_is_told(self):
        kept = gpu.PROGRAM
        with tempfile.TemporaryDirectory() as folder:
            gpu.PROGRAM = os.path.join(folder, "program")
            try:
                for script, wanted in (("echo '2 '", (2, "")), ("echo '1 one-host'", (1, "one-host")), ("echo '0 no driver'", (0, "no driver"))):
                    with open(gpu.PROGRAM, "w") as file:
                        file.write(f"#!/bin/sh\n{script}\n")
                    os.chmod(gpu.PROGRAM, stat.S_IRWXU)
                    self.assertEqual(gpu.gpu_count(), wanted)
                with open(gpu.PROGRAM, "w") as file:
                    file.write("#!/bin/sh\necho 'libcudart.so: cannot open' >&2\nexit 127\n")
                with self.assertRaisesRegex(tree.BuildFailed, "libcudart.so: cannot open\n.*exit code 127"):
                    gpu.gpu_count()
            finally:
                gpu.PROGRAM = kept

    def test_nobody_has_results(self):
        broken = gpu.nothing_of(gpu.Run("some", []), failed=1, broken="no results")
        self.assertEqual(self.verdict([broken], {})[0], tree.EXIT_FINDINGS)

    def verdict(self, runs, sanitized):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            return gpu.verdict(runs, sanitized), said.getvalue()

    def test_verdicts(self):
        good = a_run([a_job("nccl/a")], passed=1)
        self.assertEqual(self.verdict([good], {})[0], tree.EXIT_CLEAN)
        code, said = self.verdict([good, a_run([a_job("nccl/b", "failed")], failed=1)], {})
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn("nccl/b: rank 1: why", said)
        self.assertEqual(self.verdict([good], {"memcheck": "failed"})[0], tree.EXIT_FINDINGS)
        self.assertEqual(self.verdict([a_run([], wrong=3)], {})[0], tree.EXIT_FINDINGS)


def beside_pytorch(lines, **more):
    return {"date": "2026-01-02", "command": "bench/compare_torch.py --source SOURCE", "commit": "0123456789abcdef", "generation": "some", "ranks": 2,
            "device": "cuda", "shares_gpus": False, "batches": 9, "runs": 20, "torch": "9.9", "torch_nccl": "2.27.5", "nccl": "2.28.9", "lines": lines,
            "wrong": sum(line["wrong"] for line in lines), "failed": [], **more}


class BesidePyTorch(unittest.TestCase):
    def run_by(self, script, source="somewhere", gpus=2, commit=None, **more):
        """As if the comparison were a script; what it was asked for ends in its folder."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "compare.py")
            with open(program, "w") as file:
                file.write(f"import json, sys\nasked = sys.argv[1:]\nresults = asked[asked.index('--json') + 1]\n{script}\n")
            kept = gpu.BESIDE_PYTORCH, gpu.RESULTS
            gpu.BESIDE_PYTORCH, gpu.RESULTS = program, folder
            try:
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    return gpu.beside_pytorch(source, commit, gpus, **more), said.getvalue()
            finally:
                gpu.BESIDE_PYTORCH, gpu.RESULTS = kept

    TELL = "json.dump(dict(failed=[], wrong=0, lines=[], asked=asked), open(results, 'w'))"

    def test_left_out_and_said(self):
        results, said = self.run_by("sys.exit(9)", source=None)
        self.assertIsNone(results)
        self.assertIn("left out: SOURCE=", said)
        self.assertIsNone(self.run_by("sys.exit(9)", gpus=0)[0])

    def test_what_is_asked_for(self):
        asked = self.run_by(self.TELL, commit="dev")[0]["asked"]
        self.assertEqual(asked[:-2], ["--source", "somewhere", "--commit", "dev", "--ranks", "2", "--seconds", "900"])
        self.assertEqual(self.run_by(self.TELL, gpus=1)[0]["asked"][2:-2], ["--oversubscribe", "2", "--seconds", "900"])
        self.assertEqual(self.run_by(self.TELL, seconds=51.2)[0]["asked"][-3], "51")

    def test_failures(self):
        self.assertEqual(len(self.run_by("sys.exit(1)")[0]["failed"]), 1)
        self.assertEqual(len(self.run_by(self.TELL + "; sys.exit(1)")[0]["failed"]), 1)
        self.assertEqual(self.run_by("import time; time.sleep(60)", seconds=1 - gpu.ENDING_SECONDS)[0]["failed"],
                         ["PyTorch's conversion has no results: it was ended after 1 s"])

    def test_what_pytorch_cannot_do_is_a_finding(self):
        results = self.run_by("json.dump(dict(failed=['torch sees one GPU'], wrong=0, lines=[]), open(results, 'w')); sys.exit(2)")[0]
        self.assertEqual(results["failed"], ["torch sees one GPU"])
        self.assertEqual(self.run_by("sys.exit(2)")[0]["failed"], ["PyTorch's conversion has no results: exit code 2"])

    def test_without_time_it_is_not_run(self):
        results, said = self.run_by("sys.exit(9)", seconds=0)
        self.assertEqual((results["failed"], results["not_run"]), ([], "no time left"))
        self.assertIn("# not run: PyTorch's conversion: no time left", said)
        self.assertEqual(gpu_report.beside_pytorch(results), "Not run: no time left.\n")

    def test_a_source_that_is_none_is_said_at_once(self):
        gpu.look_at_source(None, None)
        with self.assertRaisesRegex(tree.WrongUse, "^/nowhere is no folder: .*; without SOURCE= it is left out$"):
            gpu.look_at_source("/nowhere", None)

    def test_verdict(self):
        good = a_run([a_job("nccl/a")], passed=1)
        slow, fast = [a_line("torch", "zigzag", 100.0), a_line("direct", "zigzag", 51.0)], [a_line("torch", "zigzag", 100.0), a_line("direct", "zigzag", 50.0)]
        for torch, code, said in ((beside_pytorch(slow), tree.EXIT_CLEAN, "not reached: without a route, times as fast as PyTorch"),
                                  (beside_pytorch(fast), tree.EXIT_CLEAN, "# reached: without a route"),
                                  (beside_pytorch([{**slow[0], "wrong": 4}]), tree.EXIT_FINDINGS, "wrong bytes: 4"),
                                  (beside_pytorch([], failed=["why"]), tree.EXIT_FINDINGS, "beside PyTorch: why")):
            with contextlib.redirect_stdout(io.StringIO()) as output:
                self.assertEqual(gpu.verdict([good], {}, torch), code)
            self.assertIn(said, output.getvalue())


class Budget(unittest.TestCase):
    def clock(self, seconds, passed):
        clock = gpu.Clock(seconds)
        clock.begun -= passed
        return clock

    def test_shares(self):
        self.assertEqual(self.clock(None, 5000).share(900, 20, 5), 900)
        self.assertAlmostEqual(self.clock(540, 40).share(900, 20, 6), 500 - 6 * gpu.LATER_SECONDS, 0)
        self.assertAlmostEqual(self.clock(540, 440).share(900, 60, 3), 60, 0)
        self.assertAlmostEqual(self.clock(540, 440).share(30, 20), 30, 0)
        self.assertEqual(self.clock(540, 490).share(900, 60), 0)
        self.assertEqual(self.clock(540, 600).share(900, 20), 0)

    def whole(self, seconds, takes, *, broken=False, torch=True):
        """(exit code, output, page, [what was run]) of all of it on two GPUs, each run of which takes so long."""
        now, done = [1000.0], []

        def run_tests(run, number, seconds):
            if not seconds:
                return gpu.nothing_of(run, not_run=gpu.NO_TIME)
            done.append(run.name)
            now[0] += min(seconds, takes)
            if broken and number == 0:
                return gpu.nothing_of(run, failed=1, broken="no results: exit code -11")
            return {**a_run([a_job("nccl/layouts")], passed=1), "name": run.name, "options": run.options}

        def beside(source, commit, gpus, seconds):
            done.append("PyTorch")
            now[0] += min(seconds, takes)
            return {**gpu_report.NO_PYTORCH, "failed": ["torch sees one GPU"]}

        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            page = os.path.join(folder, "gpu.md")
            arguments = ["gpu.py", *(["--seconds", str(seconds)] if seconds else []), *(["--source", "somewhere"] if torch else [])]
            with mock.patch.multiple(gpu, build=mock.Mock(), look_at_source=mock.Mock(), gpu_count=lambda: (2, "one-host"), RESULTS=folder,
                                     run_tests=run_tests, beside_pytorch=beside, sanitize=lambda tool, tests, seconds: ("passed" if seconds else "not run", "")), \
                    mock.patch.object(tree, "BUILD", folder), mock.patch.multiple(gpu_report, FOLDER=os.path.join(folder, "gpu"), PAGE=page), \
                    mock.patch.object(gpu.time, "monotonic", lambda: now[0]), mock.patch.object(sys, "argv", arguments):
                code = gpu.run()
            text = ""
            if os.path.exists(page):
                with open(page) as file:
                    text = file.read()
        return code, said.getvalue(), text, done

    def test_all_of_it_where_there_is_time(self):
        code, said, page, done = self.whole(None, 100)
        self.assertEqual(done[:2], ["all GPUs", "PyTorch"])
        self.assertEqual(done[-2:], ["lost ranks", "lost ranks, and calls that block"])
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn("- **failed**: torch sees one GPU", page)
        self.assertIn("memcheck passed", page)

    def test_what_has_no_time_left_is_left_out_and_said(self):
        code, said, page, done = self.whole(300, 100)
        self.assertEqual(done, ["all GPUs", "PyTorch", "4 ranks share 2 GPUs and memory", "8 ranks share 2 GPUs and memory", "3 ranks share 2 GPUs",
                                "lost ranks"])
        for text in (said, page):
            self.assertRegex(text, "[Nn]ot run: lost ranks, and calls that block: no time left")
        self.assertIn("memcheck not run", page)
        self.assertNotIn("cproute_gpu_tests --only nccl/killed_before_blocking", page)

    def test_a_first_run_without_results_loses_no_other(self):
        code, said, page, done = self.whole(None, 10, broken=True, torch=False)
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn("## 2 × Some GPU", page)
        self.assertIn("- Broken: all GPUs: no results: exit code -11.", page)
        self.assertIn("| layouts |  | 1,234 | something holds |", page)
        self.assertIn("# failed: all GPUs: no results: exit code -11", said)

    def test_pages_that_cannot_be_written_end_nothing(self):
        with mock.patch.object(gpu_report, "write", side_effect=[KeyError("x")] * 3 + [None] * 9):
            code, said, _, done = self.whole(None, 10)
        self.assertIn("could not be written: KeyError('x')", said)
        self.assertEqual(done[-1], "lost ranks, and calls that block")


class Page(unittest.TestCase):
    def page_of(self, runs, torch=None):
        with tempfile.TemporaryDirectory() as folder:
            kept = gpu_report.FOLDER, gpu_report.PAGE
            gpu_report.FOLDER, gpu_report.PAGE = os.path.join(folder, "gpu"), os.path.join(folder, "gpu.md")
            try:
                self.assertTrue(gpu_report.keep(runs, {"memcheck": "passed"}, 300, torch))
                gpu_report.write()
                with open(gpu_report.PAGE) as file:
                    return file.read()
            finally:
                gpu_report.FOLDER, gpu_report.PAGE = kept

    def test_measured(self):
        lines = [a_line("conversion", "zigzag", 125.0), a_line("conversion", "contiguous", 150.0), a_line("all-to-all", "zigzag", 100.0)]
        page = self.page_of([a_run([a_job("nccl/measure_conversion", lines=lines)], passed=1)])
        self.assertIn("## 2 × Some GPU", page)
        self.assertIn("| 2 | 8,192 | 8 | 125 | 150 | 100 | 1.25 | 1.50 | 100 |", page)
        lines = [a_line("direct", "zigzag", 60.0), a_line("direct", "contiguous", 75.0), a_line("all-to-all", "zigzag", 50.0)]
        without_route = a_job("nccl/measure_without_route", lines=lines)
        both = self.page_of([a_run([a_job("nccl/measure_conversion", lines=lines), without_route], passed=1)])
        self.assertIn("| 2 | 8,192 | 8 | 60 | 75 | 50 | 1.20 | 1.50 | 200 | 200 |", both)

    def test_what_was_cut_while_it_was_measured(self):
        for test in ("measure_conversion", "measure_without_route", "measure_kernels", "direct_measure", "measure_delta"):
            for what in ("conversion", "direct", "pack", "direct, one device", "headwise"):
                page = self.page_of([a_run([{**a_job(f"nccl/{test}", "failed"), "lines": [a_line(what, "zigzag", 125.0)]}], failed=1)])
                self.assertIn("**failed**", page)
        self.page_of([a_run([a_job("nccl/direct_syncs", "failed")], failed=1)])

    def test_runs_of_as_many_ranks_are_one_column(self):
        first, second = a_run([a_job("nccl/layouts")], passed=1), a_run([a_job("nccl/stuck")], passed=1)
        page = self.page_of([first, second, a_run([], name="third", options=["--x"], not_run="no time left")])
        self.assertIn("| test | simulated | P = 2 | what holds |", page)
        self.assertIn("| stuck |  | 1,234 | something holds |", page)
        self.assertIn("- Not run: third: no time left.", page)
        self.assertNotIn("cproute_gpu_tests --x", page)

    def test_steps_of_the_layer(self):
        step, moves = a_line("headwise", "step", 20000.0), a_line("headwise", "moves", 1500.0)
        job = a_job("nccl/measure_delta", lines=[step, moves], figures={"waits, headwise, 4096": 0.0})
        self.assertIn("| 2 | 4,096 | headwise | 20.00 | 1.500 | 7.5 % | 0 |", self.page_of([a_run([job], passed=1)]))
        self.assertIn("by one kernel were not measured", self.page_of([a_run([job], passed=1)]))
        counted = {**job, "lines": []}
        self.assertIn("| P = 2, sharing | headwise | 4096 | 0 |", self.page_of([a_run([counted], passed=1, shares_gpus=True)]))
        self.assertIn("| 7.5 % | not counted |", self.page_of([a_run([{**job, "figures": {}}], passed=1)]))

    def test_goals_are_judged(self):
        lines = [a_line("conversion", "zigzag", 125.0), a_line("conversion", "contiguous", 126.0), a_line("all-to-all", "zigzag", 100.0)]
        small = a_run([a_job("nccl/measure_conversion", lines=lines)], passed=1)
        self.assertEqual(gpu_report.goals([small]), [])
        self.assertIn("### To be reached\n\nNot measured on this machine.", self.page_of([{**small, "devices": ["Some GPU"]}]))
        self.assertEqual(len(gpu_report.goals([small], gpus=2)), 7)
        self.assertIn("- not measured: without a route, times as fast as PyTorch with upstream's cached route\n", self.page_of([small]))
        self.assertIn("32 MB are 8,192 tokens on two ranks, of which about 16 MB cross the link", self.page_of([small]))
        large = a_run([a_job("nccl/measure_conversion", lines=[{**line, "rows": 8192} for line in lines])], passed=1)
        self.assertEqual(gpu_report.goals([large])[0].partition(":")[0], "not reached")
        self.assertIn("1.26 x at worst (P = 2, 16,384 tokens, S = 8)", self.page_of([large]))
        lines[1]["time"] = 125.0
        large = a_run([a_job("nccl/measure_conversion", lines=[{**line, "rows": 8192} for line in lines])], passed=1)
        self.assertEqual(gpu_report.goals([large])[0].partition(":")[0], "reached")
        kernels = [{**a_line(what, source, 1.0), "busbw": busbw}
                   for what, source, busbw in (("pack", "contiguous", 90.0), ("scatter", "zigzag", 84.0), ("copy", "zigzag", 100.0))]
        run = a_run([a_job("nccl/measure_kernels", lines=kernels)], passed=1)
        self.assertEqual(gpu_report.goals([run])[0].partition(":")[0], "not reached")
        self.assertIn("0.84 x at worst", gpu_report.goals([run])[0])

    def test_beside_pytorch(self):
        run = a_run([a_job("simulated/layouts")], passed=1)
        self.assertIn("### Beside PyTorch\n\nNot measured on this machine: `make gpu SOURCE=", self.page_of([run]))
        lines = [a_line(what, source, time) for what, source, time in (
            ("torch", "zigzag", 300.0), ("torch", "contiguous", 200.0), ("direct", "zigzag", 100.0), ("direct", "contiguous", 80.0),
            ("conversion", "zigzag", 150.0), ("conversion", "contiguous", 160.0))]
        page = self.page_of([run], beside_pytorch(lines))
        self.assertIn("| 2 | 8,192 | 8 | 300 | 200 | 100 | 80 | 3.00 | 2.50 | 150 | 160 | 2.00 | 1.25 |", page)
        self.assertIn("median of 9 batches of 20", page)
        self.assertIn("Megatron-LM 0123456789a, some,", page)
        self.assertIn("torch 9.9, its NCCL 2.27.5, ours 2.28.9", page)
        self.assertIn("- reached: without a route, times as fast as PyTorch with upstream's cached route, at least 2 x: 2.50 x at worst (P = 2, 8,192 tokens", page)
        self.assertIn("| 2 | 8,192 | 8 | 300 | 200 | - | - | - | - | 150 | 160 | 2.00 | 1.25 |", self.page_of([run], beside_pytorch(lines[:2] + lines[4:])))
        self.assertIn("Nothing was timed.", self.page_of([run], {**gpu_report.NO_PYTORCH, "failed": ["why"]}))
        shared = self.page_of([run], beside_pytorch(lines, shares_gpus=True))
        self.assertIn("Not measured: it takes two GPUs. Judged on 2 ranks that share a GPU: 2 of 2 conversions", shared)
        self.assertNotIn("reached: without a route, times as fast as PyTorch", shared)
        broken = self.page_of([run], beside_pytorch([{**lines[0], "time": 0, "wrong": 6}], failed=["why"]))
        self.assertIn("- **wrong**: 6 bytes of torch, zigzag → x, P = 2, 8,192 tokens, S = 8\n- **failed**: why", broken)

    def test_not_measured_is_said(self):
        page = self.page_of([a_run([a_job("simulated/layouts"), a_job("nccl/stuck", "skipped")], gpus=1)])
        self.assertIn("Not measured on this machine: it takes two GPUs or more, and here is one.", page)
        self.assertIn("| layouts | 1,234 |", page)

    def test_failures_are_said(self):
        page = self.page_of([a_run([a_job("nccl/layouts", "failed")], failed=1, broken="exit code 9")])
        self.assertIn("**failed**", page)
        self.assertIn("all GPUs, nccl/layouts: rank 1: why", page)
        self.assertIn("- Broken: all GPUs: exit code 9.\n- all GPUs, nccl", page)


if __name__ == "__main__":
    unittest.main()
