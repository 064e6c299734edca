#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/run.py: what it refuses, and what an end before the end leaves behind, with a stand-in for the benchmarks."""

import contextlib
import importlib.util
import io
import json
import os
import stat
import tempfile
import unittest
from unittest import mock

import tree

# In place of build/bench/benchmarks: one benchmark and its floor, and what Google Benchmark says of filters.
PROGRAM = """#!/bin/sh
for word; do
    case $word in
    *_filter=nothing) echo 'Failed to match any benchmarks against regex: nothing' >&2; exit ;;
    *_filter=-.) exit ;;
    *_filter=broken) broken=1 ;;
    --benchmark_out=*) out=${word#*=} ;;
    --benchmark_list_tests=true) list=1 ;;
    esac
done
if [ "$list" ]; then echo work; echo work/memcpy; exit; fi
if [ "$broken" ]; then echo '{"bench' >"$out"; echo why >&2; exit 3; fi
echo 'work_median 2 ns'
echo '{"benchmarks": [
    {"run_name": "work", "aggregate_name": "median", "cpu_time": 20, "time_unit": "us", "items": 10, "bytes": 80},
    {"run_name": "work/memcpy", "aggregate_name": "median", "cpu_time": 5, "time_unit": "us"}]}' >"$out"
"""


class BenchTest(unittest.TestCase):
    def setUp(self):
        spec = importlib.util.spec_from_file_location("bench_run", tree.path("bench", "run.py"))
        self.bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.bench)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bench.PROGRAM, self.bench.RESULT = (os.path.join(folder.name, name) for name in ("benchmarks", "benchmarks.json"))
        with open(self.bench.PROGRAM, "w") as file:
            file.write(PROGRAM)
        os.chmod(self.bench.PROGRAM, stat.S_IRWXU)

    def main(self, *arguments):
        """(exit code, output, errors)"""
        code, output, errors = 0, io.StringIO(), io.StringIO()
        with mock.patch("sys.argv", ["run.py", *arguments]), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                self.bench.main()
            except SystemExit as end:
                code = end.code
        return code, output.getvalue(), errors.getvalue()

    def test_a_table_and_a_file(self):
        code, output, _ = self.main("work")
        self.assertEqual(code, 0)
        self.assertRegex(output, r"work +20,000 ns +10 +2000.00 +0.0  memcpy 5,000 ns +25%")
        with open(self.bench.RESULT) as file:
            self.assertEqual(json.load(file)["table"][0]["of_floor"], 0.25)

    def test_wrong_uses(self):
        for arguments, told in ((["nothing"], "FILTER=nothing: Failed to match any"), (["-."], "FILTER=-.: no benchmark is left"),
                                (["--nope"], "regular expression"), (["a", "b"], "regular expression")):
            code, output, errors = self.main(*arguments)
            self.assertEqual((code, output), (2, ""))
            self.assertIn(told, errors)
        os.remove(self.bench.PROGRAM)
        self.assertEqual(self.main()[0], 2)

    def test_what_fails_or_is_interrupted_leaves_the_last_result(self):
        self.main("work")
        code, _, errors = self.main("broken")
        self.assertEqual(code, 1)
        self.assertRegex(errors, r"exit code 3 .*\nwhy")
        with mock.patch.object(self.bench, "watch", side_effect=KeyboardInterrupt):
            code, _, errors = self.main("work")
        self.assertEqual(code, 1)
        self.assertIn("interrupted", errors)
        with open(self.bench.RESULT) as file:
            self.assertIn("table", json.load(file))


if __name__ == "__main__":
    unittest.main()
