# SPDX-License-Identifier: Apache-2.0
"""What runs tests side by side: what is ended ends with all that it started, and lanes that wait are not waited for."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
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
        with self.assertRaisesRegex(suite.Failed, "over 2 s: sh") as failed:
            suite.command(STARTS_ANOTHER, timeout=2)
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

    def test_what_failed_is_told_again_at_the_end(self):
        tests, told = suite.Suite(), io.StringIO()
        with contextlib.redirect_stdout(told):
            tests.run("fails", suite.command, ["sh", "-c", "echo why; false"])
            tests.run("passes", lambda: None)
            tests.end()
        lines = told.getvalue().splitlines()
        self.assertEqual(lines[lines.index("what failed:") + 1:], [*lines[:3], "1 passed, 1 failed, 0 skipped"])

    def test_the_lane_that_others_wait_for_is_first(self):
        self.assertEqual(check.Lanes(None, ["msan", "m32", "release", "msan"]).names, ["release", "msan", "m32"])


class EndTest(unittest.TestCase):
    """How scripts end: one line for what is wrong around them, and no code that means findings."""

    def ended(self, script, *arguments, **more):
        return subprocess.run([sys.executable, "-c", f"import os, sys, suite, tree\n{script}", *arguments], cwd=tree.path("ci"),
                              stderr=subprocess.PIPE, text=True, **{"stdout": subprocess.PIPE, **more})

    def assert_ended(self, script, code, told, **more):
        done = self.ended(f"def run():\n    {script}\ntree.main(run)", **more)
        with self.subTest(script):
            self.assertEqual((done.returncode, done.stderr), (code, told))

    def test_what_the_system_refuses_is_wrong_use_in_one_line(self):
        with tempfile.TemporaryDirectory() as folder:
            for script, told in ((f"open({folder!r})", f"-c: {folder}: Is a directory\n"),
                                 (f"open({folder!r} + '/none')", f"-c: {folder}/none: No such file or directory\n"),
                                 (f"os.rename({folder!r} + '/a', 'b')", f"-c: {folder}/a: b: No such file or directory\n"),
                                 ("raise OSError(28, os.strerror(28))", "-c: No space left on device\n"),
                                 ("raise OSError('odd')", "-c: odd\n")):
                self.assert_ended(script, tree.EXIT_USAGE, told)

    def test_output_that_nobody_takes(self):
        with open("/dev/full", "w") as full:
            for script in ("print(1)", "print(1, flush=True)"):
                self.assert_ended(script, tree.EXIT_USAGE, "-c: No space left on device\n", stdout=full)
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w") as pipe:
            self.assert_ended("print(1)", tree.EXIT_USAGE, "-c: Broken pipe\n", stdout=pipe)

    def test_what_failed_is_a_finding_and_what_is_missing_none(self):
        self.assert_ended("raise suite.Failed('sums differ')", tree.EXIT_FINDINGS, "sums differ\n")
        self.assert_ended("raise tree.BuildFailed('no rule')", tree.EXIT_FINDINGS, "no rule\n")
        self.assert_ended("suite.need(None, 'a tool')", tree.EXIT_USAGE, "-c: a tool is missing: ci/install-deps.sh installs it\n")

    def test_refused_addresses_are_told_where_something_failed(self):
        refused = ("tree.needs_fixed_addresses = lambda: True; tree.shutil.which = lambda name: 'setarch';"
                   "tree.subprocess.run = lambda *_, **__: tree.subprocess.CompletedProcess([], 1);")
        environment = {name: value for name, value in os.environ.items() if name != "CPROUTE_FIXED_ADDRESSES"}
        for code, told in ((tree.EXIT_FINDINGS, "setarch -R is refused"), (tree.EXIT_CLEAN, ""), (tree.EXIT_USAGE, "")):
            done = self.ended(f"{refused}tree.main(lambda: {code})", env=environment)
            self.assertEqual(done.returncode, code)
            self.assertTrue(done.stderr.startswith(told) if told else not done.stderr)


if __name__ == "__main__":
    unittest.main()
