#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fuzzing scripts themselves, with a shell script in the place of a fuzzer: no finding may be lost or made up."""

import contextlib
import io
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import afl_machines
import campaign
import corpora
import fuzz
import fuzz_afl
import history
import tree
import triage

FAILING = "law splits failed: sums differ"


class FakeRun(campaign.Run):
    def __init__(self, law, number, script, seconds, folder):
        self.found = os.path.join(folder, f"{number}.crash")
        log_path = os.path.join(folder, f"{number}.log") if number % 2 else None
        super().__init__(law, ["sh", "-c", script, "sh", self.found], dict(os.environ), seconds, log_path)

    def numbers(self):
        return {"cases": 100, "edges": 7, "new": 1, "seconds": self.seconds()}

    def failing_inputs(self, stop):
        reason = triage.reason_of(self.log_text())
        return [(self.found, reason)] if os.path.exists(self.found) else []

    def broken(self):
        return not self.interrupted


class FakeFuzzer:
    name = "a shell script"
    longest_run = 10

    def __init__(self, folder, script):
        self.folder = folder
        self.script = script
        self.started = []

    def binary(self, law):
        return os.path.join(tree.BUILD, law)

    def failing_seeds(self, law, stop):
        return ()

    def start(self, law, number, seconds):
        self.started.append(law)
        return FakeRun(law, number, self.script, seconds, self.folder)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for module, name in ((tree, "FINDINGS"), (tree, "BUILD"), (history, "FILE"), (fuzz, "ARTIFACTS")):
            patch = mock.patch.object(module, name, os.path.join(self.folder, name))
            patch.start()
            self.addCleanup(patch.stop)


class CampaignTest(InFolder):
    def fuzz(self, script, laws=("splits",), seconds=1.0, jobs=1):
        engine = FakeFuzzer(self.folder, script)
        fuzzing = campaign.Campaign(engine, laws, seconds, jobs)
        with contextlib.redirect_stdout(io.StringIO()):
            fuzzing.run()
        return fuzzing, engine

    def printed(self, act, *arguments):
        out = io.StringIO()
        explain = triage.explain
        triage.explain = lambda *_: ""
        self.addCleanup(setattr, triage, "explain", explain)
        with contextlib.redirect_stdout(out):
            act(*arguments)
        return out.getvalue()

    def test_all_that_run_count_while_they_run(self):
        fuzzing, _ = self.fuzz("sleep 60", seconds=0.5)
        self.assertNotIn("rested", self.printed(fuzzing.report, tree.Stop()))
        tally = fuzzing.tallies["splits"]
        tally.cases, tally.seconds = 5, 2.0
        numbers = {"cases": 100, "edges": 1, "new": 2, "seconds": 1.0, "crashes": 3}
        fuzzing.runs = [types.SimpleNamespace(law=law, numbers=lambda: numbers) for law in ("splits", "splits", "order")]
        self.assertRegex(self.printed(fuzzing.tell, tally), r" 205 cases +51/s +7 edges +5 new +6 findings\n$")

    def test_a_quiet_run_is_clean_and_every_law_has_its_turn(self):
        fuzzing, engine = self.fuzz("sleep 60", laws=("a", "b", "c"), seconds=2.5, jobs=2)
        self.assertTrue(fuzzing.clean())
        self.assertEqual(set(engine.started), {"a", "b", "c"})

    def test_time_is_kept(self):
        begun = time.monotonic()
        self.fuzz("sleep 60", seconds=1.0)
        self.assertLess(time.monotonic() - begun, 10.0)

    def test_equal_reasons_are_one_finding_and_the_law_rests_after_some(self):
        fuzzing, engine = self.fuzz(f"echo x > $1; echo '{FAILING}'; exit 77", seconds=5.0)
        self.assertRegex(self.printed(fuzzing.report, tree.Stop()), r"(?m)^splits .* 1  rested after 5 failures$")
        self.assertEqual([finding.reason for finding in fuzzing.findings()], ["sums differ"])
        self.assertEqual(len(engine.started), campaign.MOST_FAILURES_OF_A_LAW)
        self.assertFalse(fuzzing.clean())

    def test_a_finding_is_kept(self):
        fuzzing, _ = self.fuzz(f"printf bytes > $1; echo '{FAILING}'; exit 77")
        with open(fuzzing.findings()[0].path) as file:
            self.assertEqual(file.read(), "bytes")

    def test_a_fuzzer_that_breaks_down_is_not_clean(self):
        fuzzing, engine = self.fuzz("echo no such option; exit 1")
        self.assertFalse(fuzzing.clean())
        self.assertEqual(len(engine.started), 1)
        self.assertIn("no such option", fuzzing.tallies["splits"].broken)

    def test_a_fuzzer_that_dies_without_a_word_is_not_clean(self):
        fuzzing, engine = self.fuzz("exit 3")
        self.assertFalse(fuzzing.clean())
        self.assertEqual(len(engine.started), 1)
        self.assertIn("exit code 3", self.printed(fuzzing.report_laws))

    def test_a_law_without_a_turn_is_not_clean(self):
        fuzzing, _ = self.fuzz("sleep 60", laws=("a", "b"), seconds=0.6)
        self.assertEqual(fuzzing.unfuzzed(), ["b"])
        self.assertFalse(fuzzing.clean())
        self.assertIn("no case was run of: b (give it more time)", self.printed(fuzzing.report_laws))
        self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_FINDINGS)

    def test_an_end_before_every_law_had_a_case_is_no_clean_one(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                threading.Timer(0.5, os.kill, (os.getpid(), number)).start()
                fuzzing, _ = self.fuzz("sleep 60", laws=("a", "b"), seconds=30.0)
                self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_INTERRUPTED)
                self.assertEqual(campaign.exit_code([fuzzing], False), tree.EXIT_FINDINGS)
                self.assertIn("no case was run of: b (it was ended before)", self.printed(fuzzing.report_laws))
        fuzzing.tallies["b"].cases = 1
        self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_CLEAN)
        fuzzing.tallies["a"].broken = "no such option"
        self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_FINDINGS)

    def test_campaigns_that_an_end_left_out_are_not_clean(self):
        stop = tree.Stop()
        stop.ask()
        later = campaign.Campaign(FakeFuzzer(self.folder, "true"), ["a"], 1.0, 1, stop)
        self.assertEqual(campaign.exit_code([later], True), tree.EXIT_INTERRUPTED)

    def test_an_interruption_ends_the_run_and_keeps_what_was_found(self):
        trapped = os.path.join(self.folder, "trapped")

        def interrupt():
            while not os.path.exists(trapped):
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        begun = time.monotonic()
        fuzzing, _ = self.fuzz(f"trap \"echo x > $1; echo '{FAILING}'; exit 77\" INT; : > {trapped}; while :; do sleep 0.1; done",
                               seconds=60.0)
        self.assertLess(time.monotonic() - begun, 30.0)
        self.assertTrue(fuzzing.stopped)
        self.assertEqual(len(fuzzing.findings()), 1)
        # What follows, such as shrinking, can be interrupted as anything else.
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)


class StopTest(unittest.TestCase):
    def test_two_signals_at_once_are_one_wish(self):
        stop = tree.Stop()
        with mock.patch("time.monotonic", mock.Mock(side_effect=(100.0, 100.1, 102.0))):
            asked = [(stop.ask(), stop.asked, stop.again)[1:] for _ in range(3)]
        self.assertEqual(asked, [(True, False), (True, False), (True, True)])

    def test_a_terminal_that_is_closed_is_heard_unless_nohup_said_no(self):
        for before, heard in ((signal.SIG_DFL, True), (signal.SIG_IGN, False)):
            kept = signal.signal(signal.SIGHUP, before)
            try:
                with tree.Stop() as stop:
                    self.assertEqual(signal.getsignal(signal.SIGHUP) == stop.ask, heard)
                self.assertEqual(signal.getsignal(signal.SIGHUP), before)
            finally:
                signal.signal(signal.SIGHUP, kept)


    def test_who_closed_the_terminal_is_told_nothing_more(self):
        script = (f"import sys, time; sys.path.insert(0, {os.path.dirname(tree.__file__)!r}); import tree\n"
                  "with tree.Stop() as stop:\n"
                  "    print('ready', flush=True)\n"
                  "    while not stop.asked: time.sleep(0.01)\n"
                  "    print('told', flush=True); print('told', file=sys.stderr, flush=True); sys.exit(7)")
        ours, theirs = os.openpty()
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        self.assertIn(b"ready", os.read(ours, 100))
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(30), 7)


class StartTest(InFolder):
    def test_what_ended_leaves_nothing_behind(self):
        process = tree.start(["sh", "-c", "sleep 60 & echo $!"], stdout=subprocess.PIPE)
        left = int(process.stdout.readline())
        process.wait()
        self.assertTrue(self.runs(left))
        tree.end(process)
        process.stdout.close()
        self.assert_ends(left)

    def test_nothing_starts_whose_parent_is_gone(self):
        with mock.patch.object(os, "getpid", lambda: -1):
            end_with_parent = tree.ends_with_parent(signal.SIGTERM)
        process = subprocess.Popen(["sleep", "60"], preexec_fn=end_with_parent)
        self.assertEqual(process.wait(30), -signal.SIGTERM)

    def test_afl_ends_its_fork_servers_itself(self):
        signals = []

        class Started(Exception):
            pass

        def start(command, last_signal=signal.SIGKILL, **_):
            signals.append(last_signal)
            raise Started

        with mock.patch.object(tree, "start", start), contextlib.redirect_stdout(io.StringIO()):
            for started in (lambda: fuzz_afl.AflRun("splits", mock.Mock(out=lambda law: self.folder, seeds={"splits": ""}, cmplog_binary=lambda law: None,
                                                                        binary=lambda law: ""), 1, "-M", 1),
                            lambda: afl_machines.start("splits", "", self.folder, ["-M", "main"], {}),
                            lambda: FakeRun("splits", 2, "true", 1, self.folder)):
                self.assertRaises(Started, started)
        self.assertEqual(signals, [signal.SIGTERM, signal.SIGTERM, signal.SIGKILL])

    def test_nothing_outlives_who_started_it(self):
        pid = os.path.join(self.folder, "pid")
        script = (f"import sys; sys.path.insert(0, {os.path.dirname(tree.__file__)!r}); import tree\n"
                  f"tree.start(['sh', '-c', 'echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60']).wait()")
        process = subprocess.Popen([sys.executable, "-c", script])
        deadline = time.monotonic() + 30
        while not os.path.exists(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.wait()
        with open(pid) as file:
            started = int(file.read())
        self.assert_ends(started)

    def assert_ends(self, process):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.runs(process):
            time.sleep(0.01)
        self.assertFalse(self.runs(process))

    def runs(self, process):
        try:
            with open(f"/proc/{process}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False


class ReasonTest(unittest.TestCase):
    def test_reasons(self):
        for text, reason in (
                ("law order failed: rows descend\nrank 3\n", "rows descend"),
                ("SUMMARY: AddressSanitizer: heap-buffer-overflow /a/b/engine/runs.c:12:3 in cpr_x",
                 "AddressSanitizer: heap-buffer-overflow runs.c:12:3 in cpr_x"),
                ("==1== libFuzzer: timeout after 10 s", "libFuzzer: timeout"),
                ("Done 100 runs", None)):
            with self.subTest(text):
                self.assertEqual(triage.reason_of(text), reason)


class AlikeTest(InFolder):
    def test_inputs_of_a_reason_that_says_little_are_all_kept(self):
        for reason, kept in (("killed by signal 11", 2), ("exit code 1", 2), (triage.UNREPRODUCED, 2), ("sums differ", 1)):
            fuzzing = campaign.Campaign(fuzz.LibFuzzer(), ["splits"], 1, 1)
            paths = [os.path.join(self.folder, f"{reason} {number}") for number in range(2)]
            for path in paths:
                with open(path, "w") as file:
                    file.write(path)
            with mock.patch.object(triage, "keep", side_effect=lambda law, path: path) as keep, mock.patch.object(corpora, "evict"):
                fuzzing.find_all("splits", [(path, reason) for path in paths])
            self.assertEqual((keep.call_count, len(fuzzing.findings())), (kept, 1))


class LibFuzzerRunTest(InFolder):
    # A hang: it hears no wish to end, but is told and saved while others wait for it.
    HANG = ("for i; do case $i in -artifact_prefix=*) saved=${i#*=}timeout-1;; esac; done; trap : USR1; echo '#2 INITED cov: 3'\n"
            ": > there; until [ \"$waited\" = xxxxx ]; do sleep 0.1; [ ! -e asked ] || waited=x$waited; done\n"
            "echo x > $saved; echo '==7== ERROR: libFuzzer: timeout after 10 seconds'; exit 70")

    def target(self, script):
        path = os.path.join(self.folder, "target")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\ncd {self.folder}\n{script}\n")
        os.chmod(path, stat.S_IRWXU)
        return path

    def wait_for(self, name):
        while not os.path.exists(os.path.join(self.folder, name)):
            time.sleep(0.01)

    def broken(self, script):
        run = fuzz.LibFuzzerRun("splits", 1, self.target(f"rm -f there; {script}; : > there; exec sleep 60"), 60)
        self.wait_for("there")
        run.interrupt()
        run.finish()
        self.assertEqual(run.failing_inputs(tree.Stop()), [])
        return run.broken()

    def hung(self, script, grace, asks):
        """A campaign whose only run is asked to end while it hangs."""
        engine = fuzz.LibFuzzer()
        engine.binary = lambda law: self.target(script)
        fuzzing = campaign.Campaign(engine, ["splits"], 60, 1)
        out = io.StringIO()

        def ask():
            self.wait_for("there")
            fuzzing.stop.ask()
            open(os.path.join(self.folder, "asked"), "w").close()
            while asks == 2 and "Ctrl-C ends it at once" not in out.getvalue():
                time.sleep(0.01)
            for _ in range(asks - 1):
                fuzzing.stop.ask()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        with mock.patch.object(fuzz.LibFuzzerRun, "GRACE_SECONDS", grace), contextlib.redirect_stdout(out):
            fuzzing.run()
        asking.join()
        return fuzzing

    def test_what_is_only_slow_is_no_finding(self):
        saved = "for i; do case $i in -artifact_prefix=*) echo x > ${i#*=}%s-1;; esac; done"
        self.assertFalse(self.broken(saved % "slow-unit"))
        os.remove(os.path.join(self.folder, "there"))
        with self.assertRaises(AssertionError):
            self.broken(saved % "crash")

    def test_a_hang_at_the_end_of_a_run_is_a_finding(self):
        fuzzing = self.hung(self.HANG, 60, 1)
        self.assertEqual([finding.reason for finding in fuzzing.findings()], ["libFuzzer: timeout"])
        self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_FINDINGS)

    def test_a_run_that_never_ends_is_ended_and_told(self):
        fuzzing = self.hung(f"trap '' USR1 INT; {self.HANG.replace('asked', 'never')}", 0.2, 1)
        self.assertIn("INITED", fuzzing.tallies["splits"].broken)
        self.assertFalse(fuzzing.clean())

    def test_a_second_wish_to_end_is_granted_at_once(self):
        with mock.patch.object(campaign, "PATIENCE_IS_TOLD_AFTER_SECONDS", 0.6):
            fuzzing = self.hung(f"trap '' USR1 INT; {self.HANG.replace('asked', 'never')}", 60, 2)
        self.assertIsNone(fuzzing.tallies["splits"].broken)

    def test_a_failure_that_left_no_input_is_not_lost(self):
        self.assertTrue(self.broken("echo 'free(): corrupted unsorted chunks'; echo '==7== ERROR: libFuzzer: deadly signal'"))
        self.assertFalse(self.broken("echo '#2 INITED cov: 3'; echo '==7== libFuzzer: run interrupted; exiting'"))


class AflStatsTest(unittest.TestCase):
    def test_the_last_screen_is_read(self):
        text = ("x total execs : 1.02k  x\nx map density : 1.00% / 2.00% x\n\x1b[1;90mx\x1b[0m total execs : \x1b[0m63.8k x\n"
                "x exec speed : 7978/sec x\n x  own finds : 214 x stability : 100.00% x map density : 11.45% / 21.37% x")
        self.assertEqual(fuzz_afl.numbers_on_screen(text, 4193),
                         {"cases": 63800, "new": 214, "edges": 896, "stability": "100.00%"})

    def test_statistics_that_were_cut_off_are_none(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "fuzzer_stats"), "wb") as file:
                file.write(b"execs_done        : 12\nedges_found       : \nrun_time \xff: 3\ncorpus_found : 1x")
            run = fuzz_afl.AflRun.__new__(fuzz_afl.AflRun)
            run.folder, run.running = folder, lambda: False
            self.assertEqual(run.numbers(), {"cases": 12, "seconds": 0, "edges": 0, "new": 0, "stability": None})

    def test_no_screen_yet(self):
        self.assertEqual(fuzz_afl.numbers_on_screen("[*] Attempting dry run", 4193)["cases"], 0)


class WrongUseTest(unittest.TestCase):
    def test_exit_code_is_2_before_anything_is_built(self):
        for script in ("fuzz.py", "fuzz_afl.py", "soak.py"):
            seconds = "SOAK_MINUTES" if script == "soak.py" else "FUZZ_SECONDS"
            for setting in ({seconds: "soon"}, {seconds: "-1"}, {"LAW": "gravity"}, {"LAW": ","}, {"JOBS": "0"}):
                with self.subTest(script=script, setting=setting):
                    done = subprocess.run([sys.executable, tree.path("ci", script)], env={**os.environ, **setting},
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(done.returncode, tree.EXIT_USAGE)
                    self.assertEqual(done.stdout, "")
                    self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_arguments_that_no_script_has(self):
        scripts = []
        for path in tree.matching(tree.path("ci"), "*.py"):
            with open(path) as file:
                if re.search(r"^    (tree|suite)\.(main|leave)\(", file.read(), re.MULTILINE):
                    scripts.append(path)
        self.assertGreater(len(scripts), 10)
        for path in scripts:
            with self.subTest(path):
                done = subprocess.run([sys.executable, path, "--no-such"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual((done.returncode, done.stdout), (tree.EXIT_USAGE, ""))
                self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
