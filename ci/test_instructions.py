#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ci/instructions.py makes of callgrind's dumps and of counts that are not as recorded."""

import os
import shutil
import unittest

import instructions
import suite
import tree

DUMP = """\
events: Ir

ob=(1) /build/counted_builds
fl=(1)
fn=(1) cpr_route_build
0 10
cob=(2) /lib/libc.so.6
cfi=(2)
cfn=(2) malloc
calls=3 0
0 500
+2 5
* 1

ob=(2)
fl=(2)
fn=(2)
0 500

ob=(1)
fl=(1)
fn=(3) cpr_route_free
0 7

totals: 523
"""
GCC, CLANG = "gcc 12", "clang 14"
RECORDS = {GCC: {"small": 1000, "large": 9000}, CLANG: {"small": 1200, "large": 8000}}


class InstructionsTest(unittest.TestCase):
    def test_only_the_program_itself_counts(self):
        self.assertEqual(instructions.own_cost(DUMP.splitlines(keepends=True), "counted_builds"), 23)

    def judge(self, toolchain, small, large):
        return instructions.judge(toolchain, {"small": (small, 1), "large": (large, 1)}, RECORDS)

    def test_a_recorded_toolchain_keeps_its_record(self):
        self.assertIn("within 3%", self.judge(GCC, 1029, 8740))

    def test_more_and_fewer_are_found(self):
        for small, large, told in ((1031, 9000, r"small: 1,031 instead of 1,000, \+3.1%"), (1000, 8700, "large: .*-3.3%")):
            with self.assertRaisesRegex(suite.Failed, told):
                self.judge(GCC, small, large)

    def test_another_toolchain_is_held_to_the_dearest_record(self):
        self.assertIn("not on record", self.judge("gcc 15", 2399, 100))
        with self.assertRaisesRegex(suite.Failed, "small: 2,401, more than 2 times the 1,200"):
            self.judge("gcc 15", 2401, 100)

    def test_builds_and_records_that_lack_each_other_are_found(self):
        with self.assertRaisesRegex(suite.Failed, "new: 5, not recorded\nlarge: recorded, but not counted"):
            instructions.judge(GCC, {"small": (1000, 1), "new": (5, 1)}, RECORDS)
        with self.assertRaisesRegex(suite.Failed, "new: 5, not recorded"):
            instructions.judge("gcc 15", {"new": (5, 1)}, RECORDS)

    def test_what_cannot_be_counted_is_told(self):
        for program, told in (("nothing", "nothing is missing: make instructions"), (tree.path("LICENSE"), "LICENSE is no program"),
                              (os.path.dirname(__file__), "is no program")):
            with self.assertRaisesRegex(instructions.NoProgram, told):
                instructions.count(program)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind is missing")
    def test_another_program_is_not_counted(self):
        with self.assertRaisesRegex(instructions.NoProgram, "true is not what make instructions builds"):
            instructions.count(shutil.which("true"))


if __name__ == "__main__":
    unittest.main()
