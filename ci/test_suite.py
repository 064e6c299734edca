#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs tests side by side: what is ended ends with all that it started, and lanes that wait are not waited for."""

import ast
import contextlib
import fcntl
import importlib
import io
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

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

    def test_a_wrong_number_of_jobs_is_told_before_anything_is_done(self):
        for jobs in ("x", "0", "-1"):
            environment = {**os.environ, "JOBS": jobs}
            self.assert_ended("print('begun')", tree.EXIT_USAGE, f"-c: JOBS={jobs} is not a whole number from 1 to 999999999\n", env=environment)
        done = subprocess.run([sys.executable, tree.path("ci", "oss_fuzz.py")], env={**os.environ, "JOBS": "x"}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (tree.EXIT_USAGE, "", 1))

    def test_names_from_outside_are_told_in_one_line_of_text(self):
        odd = b"id:\xff\x1b[2J\n\xc3\xbc"
        for encoding in ("utf-8:strict", "ascii:strict"):
            environment = {**os.environ, "PYTHONIOENCODING": encoding}
            u_umlaut = "\u00fc" if encoding.startswith("utf") else "\\xfc"
            name = "id:\\udcff\\x1b[2J\\n" + u_umlaut
            for script, told in (("open(sys.argv[1])", f"{name}: No such file or directory"), ("raise tree.WrongUse(sys.argv[1])", name)):
                done = self.ended(f"def run():\n    {script}\ntree.main(run)", odd, env=environment, encoding="utf-8")
                self.assertEqual((done.returncode, done.stderr), (tree.EXIT_USAGE, f"-c: {told}\n"))
            done = self.ended("def run():\n    print(sys.argv[1])\n    return 0\ntree.main(run)", odd, env=environment, encoding="utf-8")
            self.assertEqual((done.returncode, done.stderr), (tree.EXIT_CLEAN, ""))
        tests = "tests = suite.Suite()\ndef test():\n    raise suite.Failed(sys.argv[1])\ntests.run('a', test)\n"
        self.assertIn("    id:\\udcff\\x1b[2J\n", self.ended(f"{tests}tree.main(tests.end)", odd).stdout)

    def test_refused_addresses_are_told_where_something_failed(self):
        refused = ("tree.needs_fixed_addresses = lambda: True; tree.shutil.which = lambda name: 'setarch';"
                   "tree.subprocess.run = lambda *_, **__: tree.subprocess.CompletedProcess([], 1);")
        environment = {name: value for name, value in os.environ.items() if name != "CPROUTE_FIXED_ADDRESSES"}
        for code, told in ((tree.EXIT_FINDINGS, "setarch -R is refused"), (tree.EXIT_CLEAN, ""), (tree.EXIT_USAGE, "")):
            done = self.ended(f"{refused}tree.main(lambda: {code})", env=environment)
            self.assertEqual(done.returncode, code)
            self.assertTrue(done.stderr.startswith(told) if told else not done.stderr)

    def test_a_wrong_number_of_jobs_is_told_by_make_too(self):
        """With stand-ins for what would build."""
        with tempfile.TemporaryDirectory() as folder:
            for tool in ("cmake", "ninja", "ctest"):
                path = os.path.join(folder, tool)
                with open(path, "w") as file:
                    file.write(f'#!/bin/sh\necho {tool} "$@"\n')
                os.chmod(path, 0o755)
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "MAKEFLAGS": ""}
            for jobs in ("x", "0", "-1", "1;ls", "'", "9" * 10):
                for target in ("all", "asan"):
                    done = subprocess.run(["make", "--no-print-directory", target], cwd=tree.ROOT, env={**environment, "JOBS": jobs}, capture_output=True, text=True)
                    self.assertEqual((done.returncode, done.stdout), (tree.EXIT_USAGE, ""), jobs)
                    self.assertEqual(done.stderr.splitlines()[0], f"make: JOBS={jobs} is not a whole number from 1 to 999999999")
            for jobs, taken in (("3", "3"), ("", str(len(os.sched_getaffinity(0))))):
                done = subprocess.run(["make", "--no-print-directory", "tsan"], cwd=tree.ROOT, env={**environment, "JOBS": jobs}, capture_output=True, text=True)
                self.assertIn(f"cmake --build --preset tsan --parallel {taken}", done.stdout)
                self.assertIn(f"ctest --preset tsan -j {taken}\n", done.stdout)


class ApartTest(unittest.TestCase):
    """Two scripts in one tree."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def started(self, script, **environment):
        process = subprocess.Popen([sys.executable, "-c", f"import subprocess, sys, tree\ntree.BUILD = {self.folder!r}\n"
                                    f"def run():\n    {script}\n    return 0\ntree.main(run)"], cwd=tree.path("ci"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ended(self, script):
        process = self.started(script)
        _, told = process.communicate()
        return process.returncode, told

    def test_the_second_is_refused_until_the_first_has_ended_however_it_does(self):
        first = self.started("tree.alone('a'); tree.alone('a'); print(subprocess.Popen(['sleep', '60'], stdout=2).pid, flush=True); input()")
        child = int(first.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        self.assertEqual(self.ended("tree.alone('a')"),
                         (tree.EXIT_USAGE, f"-c: -c, process {first.pid}, is at work in this tree, and writes to the same folders\n"))
        self.assertEqual(self.ended("tree.alone('b')"), (tree.EXIT_CLEAN, ""))
        first.kill()
        first.wait()
        self.assertEqual(self.ended("tree.alone('a')"), (tree.EXIT_CLEAN, ""))

    SCRIPTS = (("fuzzing", "fuzz"), ("fuzzing", "fuzz_afl"), ("fuzzing", "soak"), ("fuzzing", "figures"), ("fuzzing", "triage", "INPUT"),
               ("fuzzing", "corpora", "gather"), ("fuzzing", "corpora", "prune"), ("mutants", "mutants"), ("detection", "detection"),
               ("lint", "detection", "check"), ("planted", "planted"), ("planted", "why"), ("cover", "cover"), ("oss-fuzz", "oss_fuzz"), ("gpu", "gpu"),
               ("lint", "check"), ("cover", "check", "cover"), ("oss-fuzz", "check", "oss-fuzz"), ("gpu", "check", "gpu"))

    def test_whoever_writes_to_shared_folders_refuses(self):
        os.makedirs(os.path.join(self.folder, "order"))
        an_input = os.path.join(self.folder, "order", "crash-1")
        open(an_input, "w").close()
        went_on = mock.Mock(side_effect=AssertionError("it went on"))
        for held, name, *arguments in self.SCRIPTS:
            with self.subTest(name, arguments=arguments), contextlib.ExitStack() as stack:
                for target, attribute, to in ((tree, "BUILD", os.path.join(self.folder, "-".join([name, *arguments]))), (tree, "build", went_on),
                                              (tree, "toolchain", lambda: {"FUZZ_CC": "clang"}), (suite, "command", went_on), (suite, "Suite", went_on),
                                              (sys, "argv", [f"{name}.py", *(an_input if one == "INPUT" else one for one in arguments)]),
                                              (shutil, "which", lambda tool: tool), (sys, "stdout", io.StringIO())):
                    stack.enter_context(mock.patch.object(target, attribute, to))
                stack.enter_context(mock.patch.dict(os.environ, {"FILES": "", "JOBS": "", "LAW": "order"}))
                script = importlib.import_module(name)
                os.makedirs(os.path.join(tree.BUILD, "running"))
                file = stack.enter_context(open(os.path.join(tree.BUILD, "running", held), "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
                with self.assertRaisesRegex(tree.WrongUse, "another script is at work in this tree"):
                    script.run()

    def test_seeds_that_are_made_anew_are_there_all_the_time(self):
        for name in ("made/order/a", "made/order/b", "seeds/order/a", "seeds/order/old"):
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(name)
        kept, target = os.path.join(self.folder, "seeds/order/a"), os.path.join(self.folder, "seeds")

        def watched(act):
            def do(*arguments, **more):
                self.assertTrue(os.path.exists(kept))
                act(*arguments, **more)
                self.assertTrue(os.path.exists(kept))
            return do

        with mock.patch.object(os, "replace", watched(os.replace)), mock.patch.object(os, "remove", watched(os.remove)):
            tree.take_over(os.path.join(self.folder, "made"), target)
        self.assertEqual(sorted(os.listdir(os.path.join(target, "order"))), ["a", "b"])
        self.assertEqual(text_of(kept), "made/order/a")

    def test_a_build_waits_for_another_of_the_same_preset(self):
        for tool, text in (("cmake", f"echo begun >> {self.folder}/log; sleep 0.4; echo ended >> {self.folder}/log"), ("ninja", "")):
            path = os.path.join(self.folder, tool)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(path, 0o755)
        both = [self.started("tree.build('release')", PATH=f"{self.folder}:{os.environ['PATH']}") for _ in range(2)]
        self.assertEqual([process.wait() for process in both], [0, 0])
        self.assertEqual(text_of(os.path.join(self.folder, "log")).split(), ["begun", "ended"] * 4)


def scripts(*folders):
    return [path for folder in folders for path in sorted(tree.matching(tree.path(folder), "**", "*.py"))]


def text_of(path):
    with open(path) as file:
        return file.read()


class ScriptsTest(unittest.TestCase):
    """What holds for each of the scripts."""

    def test_each_tells_what_it_is_for(self):
        asked = [path for path in scripts("ci") if re.search(r"^    (tree|suite)\.main\(", text_of(path), re.MULTILINE)]
        self.assertGreater(len(asked), 15)
        for path, option in zip(asked, itertools.cycle(("-h", "--help"))):
            with self.subTest(path):
                done = subprocess.run([sys.executable, path, option], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (tree.EXIT_CLEAN, ""))
                self.assertEqual(done.stdout, ast.get_docstring(ast.parse(text_of(path)), clean=False).strip() + "\n")
                self.assertTrue(re.search(rf"ci/{os.path.basename(path)}|[A-Z]=", done.stdout), "neither arguments nor environment")

    def test_those_of_bench_tell_it_too(self):
        """They have no tree.main, because they run where there is nothing else."""
        for name in ("run.py", "upstream_source.py"):
            done = subprocess.run([sys.executable, tree.path("bench", name), "--help"], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (tree.EXIT_CLEAN, ""))
            self.assertIn(f"bench/{name}", done.stdout)

    def test_each_that_can_be_run_can_be_typed(self):
        for path in scripts("ci", "bench", "tools"):
            with self.subTest(path):
                text = text_of(path)
                is_script = re.search(r"^if __name__ == .__main__.:", text, re.MULTILINE) is not None
                self.assertEqual((os.access(path, os.X_OK), text.startswith("#!/usr/bin/env python3\n")), (is_script, is_script))

    def test_what_the_pages_show_can_be_typed(self):
        """In code: between backquotes, or in a block."""
        shown = {}
        for page in [*tree.matching(tree.ROOT, "*.md"), *tree.matching(tree.path("docs"), "*.md"), *tree.matching(tree.ROOT, "*", "README.md")]:
            for code in re.findall(r"^```.*?^```|`[^`]+`", text_of(page), re.MULTILINE | re.DOTALL):
                shown.update((name, page) for name in re.findall(r"(?<![\w/.-])((?:ci|bench|tools)/[\w/-]+\.(?:py|sh))\b", code))
        self.assertGreater(len(shown), 10)
        for name, page in shown.items():
            with self.subTest(name, page=page):
                self.assertTrue(os.access(tree.path(name), os.X_OK))

    def test_output_of_processes_may_be_any_bytes(self):
        for path in scripts("ci", "bench", "tools"):
            if os.path.basename(path).startswith("test_"):
                continue
            for call in (node for node in ast.walk(ast.parse(text_of(path))) if isinstance(node, ast.Call)):
                named = {keyword.arg for keyword in call.keywords}
                self.assertFalse(named & {"text", "universal_newlines"} and "errors" not in named, f"{path}:{call.lineno}: text without errors=")


if __name__ == "__main__":
    unittest.main()
