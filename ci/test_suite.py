# SPDX-License-Identifier: Apache-2.0
"""What runs tests side by side: what is ended ends with all that it started, and lanes that wait are not waited for."""

import contextlib
import io
import os
import signal
import threading
import time
import unittest

import check
import suite
import tree

# Starts another process, tells its number, and waits for it.
STARTS_ANOTHER = ["sh", "-c", "sleep 60 & echo $!; wait"]


class SuiteTest(unittest.TestCase):
    def assert_gone(self, process):
        for _ in range(100):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{process}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    time.sleep(0.05)
                    continue
            return
        self.fail(f"process {process} is still there")

    def test_what_a_command_started_ends_with_it(self):
        with self.assertRaisesRegex(suite.Failed, "over 0.5 s: sh") as failed:
            suite.command(STARTS_ANOTHER, timeout=0.5)
        self.assert_gone(int(str(failed.exception).splitlines()[1]))

    def test_an_interruption_ends_what_is_under_way_and_nothing_follows(self):
        tests, begun = suite.Suite(), time.monotonic()
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            tests.run("before", lambda: None)
            with tests.stop:
                threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
                self.assertFalse(tests.run("under way", suite.command, STARTS_ANOTHER))
                self.assertFalse(tests.run("behind", self.fail))
            self.assertEqual(tests.end(), tree.EXIT_INTERRUPTED)
        self.assertLess(time.monotonic() - begun, 10.0)
        self.assertEqual(told.getvalue().splitlines()[1:], ["interrupted: the rest was not run", "1 passed, 0 failed, 0 skipped"])
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_failure_before_an_interruption_is_one(self):
        tests = suite.Suite()
        with contextlib.redirect_stdout(io.StringIO()):
            tests.run("fails", suite.command, ["false"])
            tests.stop.ask()
            self.assertEqual(tests.end(), tree.EXIT_FINDINGS)

    def test_the_lane_that_others_wait_for_is_first(self):
        self.assertEqual(check.Lanes(None, ["msan", "m32", "release", "msan"]).names, ["release", "msan", "m32"])


if __name__ == "__main__":
    unittest.main()
