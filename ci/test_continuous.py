#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts around the fuzzers, on made-up corpora and findings: what passes between fuzzers, what is kept, what is told."""

import contextlib
import errno
import hashlib
import io
import itertools
import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

import afl_machines
import campaign
import check
import corpora
import figures
import fuzz
import fuzz_afl
import history
import metrics
import oss_fuzz
import report
import soak
import suite
import tree
import triage

LAW, OTHER_LAW = "splits", "order"


class InFolder(unittest.TestCase):
    """Everything that the scripts write goes to a folder of the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for module, name, to in ((tree, "BUILD", "build"), (tree, "FINDINGS", "findings"), (history, "FILE", "history"),
                                 (triage, "LEFTOVERS", None)):
            self.addCleanup(setattr, module, name, getattr(module, name))
            setattr(module, name, (os.path.join(self.folder, "left"),) if to is None else os.path.join(self.folder, to))

    def write(self, path, content=b"x", executable=False):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        if executable:
            os.chmod(path, stat.S_IRWXU)
        return path

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def script(self, name, text):
        return self.write(name, f"#!/bin/sh\n{text}\n".encode(), executable=True)

    def fuzz_target(self, preset, law=LAW, fails_on="x", merge="exit 0"):
        """Fails on the first file that holds this, for a reason that is its length."""
        return self.script(f"build/{preset}/fuzz/fuzz_{law}",
                           f'case " $* " in *" -merge=1 "*) for last; do :; done; {merge};; esac\n'
                           f'for path in $(grep -l "{fails_on}" "$@"); do\n'
                           'echo "law splits failed: $(($(wc -c < "$path"))) bytes"; exit 77; done')


def cut_off(source, target):
    with open(target, "wb") as file:
        file.write(b"a")
    raise OSError(errno.ENOSPC, "no space left")


class CorporaTest(InFolder):
    def test_queues_of_all_instances_are_gathered_once(self):
        for path, content in ((f"out/{LAW}/one/queue/id:000000", b"a"), (f"out/{LAW}/two/queue/id:000000", b"a"),
                              (f"out/{LAW}/two/queue/id:000001", b"b"), (f"out/{LAW}/two/crashes/id:000000", b"c")):
            self.write(path, content)
        out = os.path.join(self.folder, "out")
        self.assertEqual(corpora.gather(LAW, [out]), 2)
        self.assertEqual(corpora.gather(LAW, [out]), 0)
        self.assertEqual(sorted(self.read(path) for path in corpora.files_in(corpora.common(LAW))), [b"a", b"b"])

    def test_folders_may_be_called_as_they_like(self):
        for name in ("s[1]", "a*b", "q?", "[", "**"):
            with self.subTest(name):
                self.write(f"{name}/{LAW}/one/queue/id:{name}", name.encode())
                self.write(f"{name}/{LAW}/one/crashes/id:000000")
                out = os.path.join(self.folder, name)
                self.assertEqual(corpora.gather(LAW, [out]), 1)
                self.assertEqual(len(fuzz_afl.inputs_in(os.path.join(out, LAW, "one", "crashes"))), 1)

    def test_no_other_script_has_patterns_of_its_own(self):
        for path in tree.matching(tree.path("ci"), "*.py"):
            with open(path) as file:
                if os.path.basename(path) not in ("tree.py", "test_continuous.py", "mutants.py"):
                    self.assertNotIn("glob.glob(", file.read(), path)

    def test_seeds_are_there_while_they_are_made_anew(self):
        """Another script may be starting from them."""
        law, seen = os.path.join(self.folder, "build", "seeds", LAW), os.path.join(self.folder, "seen")
        command = self.script("cproute", f'ls {law} >> {seen} 2> /dev/null; mkdir -p "$3/{LAW}"; date +%N > "$3/{LAW}/a"; echo made')
        with mock.patch.object(tree, "COMMAND", command):
            self.assertEqual([corpora.make_seeds() for _ in range(2)], ["made", "made"])
        self.assertEqual(self.read(seen), b"a\n")
        self.assertEqual(corpora.seeds_of(LAW), [law])
        self.assertEqual(os.listdir(os.path.join(self.folder, "build")), ["seeds"])

    def prune(self, script, stop=None):
        for name in "abc":
            self.write(f"build/fuzz-corpus/{LAW}/{name}", name.encode())
        sizes = corpora.prune(LAW, self.script("merge", script), [], os.path.join(self.folder, "artifacts"), stop or tree.Stop())
        return sizes, sorted(os.listdir(corpora.common(LAW)))

    def test_what_the_merge_kept_takes_the_place_of_all(self):
        self.assertEqual(self.prune("cp $4/b $3/"), ((3, 1), ["b"]))

    def test_a_merge_that_fails_or_keeps_nothing_costs_no_input(self):
        for script in ("cp $4/b $3/; exit 1", "true", "cp $4/b $3/; sleep 60"):
            with self.subTest(script), mock.patch.object(corpora, "MERGE_SECONDS", 0.5):
                self.assertEqual(self.prune(script), ((3, 3), ["a", "b", "c"]))
                self.assertEqual(os.listdir(os.path.join(self.folder, "build", "fuzz-corpus")), [LAW])

    def test_a_wish_to_end_begins_no_merge_and_a_second_one_ends_it(self):
        stop = tree.Stop()
        stop.ask()
        self.assertEqual(self.prune("cp $4/b $3/", stop), (None, ["a", "b", "c"]))
        stop = tree.Stop()
        begun = os.path.join(self.folder, "begun")
        threading.Thread(target=lambda: self.wait_for(begun) or stop.ask() or setattr(stop, "again", True), daemon=True).start()
        self.assertEqual(self.prune(f"cp $4/b $3/; echo > {begun}; exec sleep 60", stop), (None, ["a", "b", "c"]))
        stop = tree.Stop()
        threading.Thread(target=lambda: self.wait_for(begun + "-2") or stop.ask(), daemon=True).start()
        self.assertEqual(self.prune(f"echo > {begun}-2; sleep 0.3; cp $4/b $3/", stop), ((3, 1), ["b"]))

    def wait_for(self, path):
        while not os.path.exists(path):
            time.sleep(0.01)

    def test_pruning_that_is_ended_is_not_called_done(self):
        def prune(_, law, stop):
            if law == LAW:
                os.kill(os.getpid(), signal.SIGINT)
                return 1, 1
            return None if stop.asked else (1, 1)

        # One at a time: a wish that comes while the last one is pruned leaves nothing out.
        for laws, code in (([OTHER_LAW], tree.EXIT_CLEAN), ([OTHER_LAW, LAW], tree.EXIT_CLEAN), ([LAW, OTHER_LAW], tree.EXIT_INTERRUPTED)):
            with contextlib.ExitStack() as stack:
                for thing, name, stub in ((tree, "alone", lambda what: None), (tree, "build", lambda *_: None), (fuzz.LibFuzzer, "prune", prune),
                                          (fuzz.LibFuzzer, "failing_in_merge", lambda *_: [])):
                    stack.enter_context(mock.patch.object(thing, name, stub))
                stack.enter_context(mock.patch.dict(os.environ, JOBS="1"))
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                self.assertEqual(corpora.prune_laws(laws), code)

    def test_a_kill_at_any_step_costs_nothing_that_is_kept(self):
        class Killed(BaseException):
            pass

        def killed_at(step):
            """Was there such a step?"""
            steps = itertools.count()

            def counted(act):
                def do(*arguments, **more):
                    if next(steps) == step:
                        raise Killed
                    return act(*arguments, **more)
                return do

            with contextlib.ExitStack() as stack:
                for name in ("remove", "rename", "replace", "rmdir"):
                    stack.enter_context(mock.patch.object(os, name, counted(getattr(os, name))))
                try:
                    self.prune("cp $4/b $3/b-by-content; cp $4/c $3/c")
                    return False
                except Killed:
                    return True

        step = 0
        while killed_at(step):
            kept = {self.read(path) for path in corpora.files_in(corpora.common(LAW))}
            with self.subTest(step):
                self.assertLessEqual({b"b", b"c"}, kept)
            step += 1
        self.assertGreaterEqual(step, 4)
        self.assertEqual(sorted(os.listdir(corpora.common(LAW))), ["b-by-content", "c"])

    def test_what_came_during_the_merge_stays(self):
        self.assertEqual(self.prune("cp $4/b $3/; echo new > $4/new"), ((3, 1), ["b", "new"]))

    def test_what_a_killed_prune_of_an_earlier_version_left_comes_back(self):
        self.write(f"build/fuzz-corpus/{LAW}.discarded/d", b"d")
        self.assertEqual(corpora.prune(LAW, self.script("merge", "exit 1"), [], os.path.join(self.folder, "artifacts"), tree.Stop()), (1, 1))
        self.assertEqual(os.listdir(corpora.common(LAW)), ["d"])
        self.assertEqual(os.listdir(os.path.join(self.folder, "build", "fuzz-corpus")), [LAW])

    def test_what_is_gathered_is_whole(self):
        path = self.write(f"out/{LAW}/one/queue/id:000000", b"abc")
        out = [os.path.join(self.folder, "out")]
        with mock.patch("shutil.copyfile", cut_off), self.assertRaises(OSError):
            corpora.gather(LAW, out)
        self.assertEqual(corpora.gather(LAW, out), 1)
        self.assertEqual(os.listdir(corpora.common(LAW)), [corpora.named_by_content(path)])


class TriageTest(InFolder):
    def setUp(self):
        super().setUp()
        self.target = self.fuzz_target("fuzz")
        self.fuzz_target("fuzz", OTHER_LAW)
        for preset in ("fuzz-msan", *triage.OTHER_BUILDS):
            for law in (LAW, OTHER_LAW):
                self.fuzz_target(preset, law, fails_on="no such input")

    def test_equal_laws_and_reasons_are_one_and_the_smallest_is_kept(self):
        paths = [self.write(f"f/{LAW}/1/crash-1", b"xx"), self.write(f"f/{LAW}/2/crash-2", b"ax"),
                 self.write(f"f/{OTHER_LAW}/crash-3", b"xx"), self.write(f"f/{LAW}/crash-4", b"x"), self.write(f"f/{LAW}/crash-5", b"a")]
        groups = {}
        held = triage.judge_all(["fuzz"], triage.with_laws(paths), groups)
        self.assertEqual([self.read(path) for _, path in held], [b"a"])
        self.assertEqual({key: len(alike) for key, alike in groups.items()},
                         {(LAW, "2 bytes"): 2, (OTHER_LAW, "2 bytes"): 1, (LAW, "1 bytes"): 1})
        kept = triage.keep_findings({key: alike[::-1] for key, alike in groups.items()})
        self.assertEqual([(finding.law, finding.reason, self.read(finding.path), finding.target) for finding in kept],
                         [(OTHER_LAW, "2 bytes", b"xx", tree.fuzz_target("fuzz", OTHER_LAW)),
                          (LAW, "1 bytes", b"x", self.target), (LAW, "2 bytes", b"xx", self.target)])

    def test_no_leftover_of_a_finding_comes_back(self):
        self.script(f"build/fuzz/fuzz/fuzz_{LAW}",
                    'if grep -q crash "$@"; then exit 9; fi; if grep -q x "$@"; then echo "law splits failed: sums"; exit 77; fi')
        contents = {"1/crash-1": b"x", "2/crash-2": b"xx", "3/crash-3": b"x", "run1/hangs/id:0": b"crash 1", "run1/crashes/id:1": b"crash 1",
                    "run1/crashes/id:2": b"crash 2"}
        for judge in (lambda: self.salvage(["fuzz"]), self.triaged):
            with self.subTest(judge):
                shutil.rmtree(tree.FINDINGS, ignore_errors=True)
                for name, content in contents.items():
                    self.write(f"left/{LAW}/{name}", content)
                judge()
                self.assertEqual([path for path in triage.files_below(os.path.join(self.folder, "left"))], [])
                self.assertEqual(sorted(self.read(path) for path in triage.files_below(tree.FINDINGS)), [b"crash 1", b"crash 2", b"x"])

    def test_copies_are_one_which_is_no_hang_if_it_crashed(self):
        pairs = [(LAW, self.write(f"left/{LAW}/{name}")) for name in ("1/crash-1", "run1/hangs/id:0", "1/timeout-1", "2/crash-1")]
        elsewhere = (LAW, self.write("elsewhere/crash-1"))
        other = (OTHER_LAW, self.write(f"left/{OTHER_LAW}/crash-1"))
        self.assertEqual(triage.without_copies([elsewhere, pairs[1], *pairs, other, other]), [pairs[0], other])
        self.assertEqual([os.path.exists(path) for _, path in [*pairs, elsewhere, other]], [True, False, False, False, True, True])

    def test_what_cannot_be_read_is_skipped_and_told(self):
        self.write(f"findings/{LAW}/crash-1", b"x")
        self.write(f"left/{LAW}/1/crash-1", b"xx")
        for folder in (f"findings/{LAW}", f"left/{LAW}/1"):
            os.symlink("/proc/self/mem", os.path.join(self.folder, folder, "crash-mem"))
        told = self.salvage(["fuzz"])[1]
        self.assertRegex(told, r"skipped: \S+/left/\S+/crash-mem: ")
        code, told = self.triaged()
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertIn(f"    1 of {LAW}: 1 bytes\n    1 of {LAW}: 2 bytes\n", told)
        self.assertEqual(len(re.findall(r"skipped: \S+/crash-mem: ", told)), 2)

    def test_a_name_is_no_option(self):
        self.script(f"build/fuzz/fuzz/fuzz_{LAW}", 'case $1 in -*) exit 9;; esac')
        self.write(f"{LAW}/-runs=0")
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(os.path.join(self.folder, LAW))
        self.assertIsNone(triage.judge(self.target, "-runs=0"))

    def test_files_of_other_names_among_findings_are_told(self):
        self.write(f"findings/{LAW}/mine.bin", b"x")
        self.write(f"findings/{LAW}-0123456789abcdef.jsonl", b"x")
        code, told = self.triaged()
        self.assertEqual(code, tree.EXIT_CLEAN)
        self.assertIn(f"skipped: 1 files below {tree.FINDINGS}, such as {LAW}/mine.bin: ", told)

    def test_what_holds_in_all_builds_is_no_leftover_any_more(self):
        def left():
            return sorted(os.path.relpath(path, self.folder) for place in ("left", "findings") for path in triage.files_below(os.path.join(self.folder, place)))

        names = [f"findings/unjudged/{LAW}/0123456789abcdef", f"findings/{LAW}/fedcba9876543210", f"left/{LAW}/run1/hangs/id:0"]
        for number, name in enumerate(names):
            self.write(name, b"a%d" % number)
        for found, stay in ((None, sorted(names)), ("afl-fuzz", [names[1]])):
            with mock.patch.object(shutil, "which", lambda _, found=found: found):
                code, told = self.triaged()
            self.assertEqual((code, left()), (tree.EXIT_CLEAN, stay))
            self.assertIn("    3 hold now\n", told)
        self.assertEqual(sorted(self.read(path) for path in corpora.files_in(corpora.common(LAW))), [b"a0", b"a2"])

    def test_an_end_while_leftovers_are_judged_loses_none(self):
        for name, content in (("1/crash-1", b"x"), ("2/crash-2", b"aa"), ("run1/hangs/id:0", b"aaa")):
            self.write(f"left/{LAW}/{name}", content)
        judged = []

        def over():
            return len(judged) > 1

        judge = triage.judge
        with mock.patch.object(triage, "judge", lambda *arguments: judged.append(1) or judge(*arguments)), contextlib.redirect_stdout(io.StringIO()) as out:
            findings = triage.salvage([LAW], ["fuzz"], over)
        self.assertEqual([finding.reason for finding in findings], ["1 bytes"])
        self.assertIn("2 inputs that failed in an earlier run and were not all judged since", out.getvalue())
        self.assertEqual(sorted(self.read(path) for path in triage.files_below(triage.unjudged())), [b"aa", b"aaa"])
        self.assertEqual(triage.files_below(os.path.join(self.folder, "left")), [])

    def test_nothing_is_judged_where_nothing_can_be_kept(self):
        left = self.write(f"left/{LAW}/1/crash-1", b"x")
        with mock.patch.object(os, "access", lambda path, mode: path != tree.FINDINGS), self.assertRaises(tree.WrongUse):
            self.triaged()
        os.rmdir(tree.FINDINGS)
        self.write("findings")
        with self.assertRaises(OSError):
            self.salvage()
        self.assertTrue(os.path.exists(left))

    def triaged(self, *places, build=lambda *_: None):
        """(exit code, what is told)"""
        out = io.StringIO()
        with mock.patch("sys.argv", ["triage.py", *places]), mock.patch.object(tree, "build", build), \
                mock.patch.object(triage, "explain", lambda finding, over: tree.relative(finding.target)), contextlib.redirect_stdout(out):
            try:
                code = triage.run()
            except tree.BuildFailed:
                code = tree.BuildFailed
        return code, out.getvalue()

    def test_what_is_known_is_kept_and_told_though_other_builds_fail_or_nobody_waits_for_them(self):
        def failing(preset, *_):
            if preset in triage.OTHER_BUILDS:
                raise tree.BuildFailed(preset)

        def interrupted(preset, *_):
            if preset in triage.OTHER_BUILDS:
                os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C is heard by the compiler, too
            failing(preset)

        for build, code, told in ((failing, tree.BuildFailed, "of which one cannot be made"), (interrupted, tree.EXIT_FINDINGS, "it was ended before")):
            with self.subTest(told):
                self.write(f"left/{LAW}/1/crash-1", b"x")
                self.write(f"left/{LAW}/2/crash-2", b"a")
                ended, printed = self.triaged(build=build)
                self.assertEqual(ended, code)
                for words in (f"    1 of {LAW}: 1 bytes\n", told, f"FINDING in {LAW}: 1 bytes\n{tree.relative(self.target)}\n"):
                    self.assertIn(words, printed)
                self.assertNotIn("hold now", printed)
                self.assertEqual([self.read(path) for path in triage.files_below(os.path.join(self.folder, "left"))], [b"a"])
                self.assertEqual([self.read(path) for path in triage.files_below(tree.FINDINGS)], [b"x"])
        shutil.rmtree(tree.FINDINGS)
        self.assertEqual(self.triaged(build=interrupted)[0], tree.EXIT_INTERRUPTED)
        self.assertEqual(len(triage.files_below(os.path.join(self.folder, "left"))), 1)

    def test_a_reason_that_several_builds_tell_is_of_all_their_inputs(self):
        for preset in triage.OTHER_BUILDS:
            self.fuzz_target(preset, fails_on="b")
        for number, content in enumerate((b"x", b"b")):
            self.write(f"findings/{LAW}/crash-{number}", content)
        self.assertIn(f"    2 of {LAW}: 1 bytes\n", self.triaged()[1])

    def test_what_is_no_input_of_a_law_is_skipped_and_told(self):
        name = hashlib.sha1(b"x").hexdigest()[:16]
        self.write(f"findings/gravity/{name}", b"x")
        self.write(f"findings/{LAW}/{name}", b"x")
        os.symlink("nowhere", os.path.join(self.folder, f"findings/{LAW}/crash-link"))
        os.mkfifo(os.path.join(self.folder, f"findings/{LAW}/crash-fifo"))
        os.mkdir(os.path.join(self.folder, "left"))
        os.mkfifo(os.path.join(self.folder, "left", "crash-fifo"))
        for places in ((), (tree.FINDINGS,)):
            code, told = self.triaged(*places)
            self.assertEqual(code, tree.EXIT_FINDINGS)
            self.assertIn(f"    1 of {LAW}: 1 bytes\n", told)
            self.assertEqual(sorted(line.split()[1] for line in told.splitlines() if line.startswith("skipped")),
                             sorted(os.path.join(self.folder, path) + ":" for path in (
                                 f"findings/gravity/{name}", f"findings/{LAW}/crash-link", f"findings/{LAW}/crash-fifo",
                                 *(() if places else ("left/crash-fifo",)))))

    def test_names_may_be_any_bytes(self):
        """Those of inputs come from other machines too."""
        self.write(f"findings/{LAW}/0123456789abcdef", b"a")
        os.symlink(b"nowhere", os.fsencode(os.path.join(self.folder, f"findings/{LAW}/id:")) + b"\xff\x1b[2J")
        os.makedirs(os.path.join(self.folder, "findings", "gravity"))
        with open(os.fsencode(os.path.join(self.folder, "findings/gravity/id:")) + b"\n", "wb"):
            pass
        code, told = self.triaged()
        self.assertEqual(code, tree.EXIT_CLEAN)
        self.assertIn(f"{LAW}/id:\\udcff\\x1b[2J: no regular file", told)
        self.assertIn("gravity/id:\\n: no folder", told)

    def test_seeds_of_a_case_file_with_any_name(self):
        with mock.patch.object(tree, "COMMAND", self.script("cproute", "printf '%b' 'zz\\0377.jsonl:1: no case'; exit 2")), \
                self.assertRaisesRegex(tree.BuildFailed, "jsonl:1: no case"):
            corpora.make_seeds()

    def test_findings_of_no_law_alone_are_none(self):
        self.write("findings/gravity/0123456789abcdef", b"x")
        code, told = self.triaged()
        self.assertEqual((code, told.splitlines()[-1]), (tree.EXIT_CLEAN, "no input to judge"))

    def test_a_path_of_no_law_is_wrong_use(self):
        fifo, link = os.path.join(self.folder, LAW, "fifo"), os.path.join(self.folder, LAW, "link")
        self.write(f"{LAW}/crash-1", b"a")
        os.mkfifo(fifo)
        os.symlink("nowhere", link)
        for place in (self.write("f/gravity/crash-1"), os.path.join(self.folder, "f"), fifo, link, os.path.join(self.folder, "none")):
            for places in ((place,), (os.path.join(self.folder, LAW), place)):
                with self.subTest(places), self.assertRaises(tree.WrongUse):
                    self.triaged(*places)

    def test_what_failed_is_told_from_what_was_queued(self):
        names = {f"o/{LAW}/run1/crashes/id:000000", f"o/{LAW}/run1/queue/id:000000", f"o/{LAW}/1/crash-ab", f"o/{LAW}/1/log",
                 f"o/{LAW}/1/slow-unit-ab", f"o/{LAW}/0123456789abcdef", f"o/{LAW}-0123456789abcdef.jsonl"}
        for name in names:
            self.write(name)
        found = {os.path.relpath(path, self.folder) for path in triage.failing_inputs_below(os.path.join(self.folder, "o"))}
        self.assertEqual(found, {f"o/{LAW}/run1/crashes/id:000000", f"o/{LAW}/1/crash-ab", f"o/{LAW}/0123456789abcdef"})

    def salvage(self, presets=triage.JUDGES):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            return triage.salvage([LAW], presets), out.getvalue()

    def test_what_a_killed_run_left_is_kept(self):
        self.write(f"left/{LAW}/3/crash-1", b"x")
        self.write(f"left/{LAW}/4/crash-2", b"holds now")
        self.write("left/canary/canary/crashes/id:000000", b"x")
        self.assertEqual([(finding.law, finding.reason) for finding in self.salvage()[0]], [(LAW, "1 bytes")])
        kept = tree.matching(os.path.join(tree.FINDINGS, LAW), "*")
        self.assertEqual([self.read(path) for path in kept], [b"x"])
        self.assertEqual(self.salvage()[0], [])

    def test_what_holds_in_the_build_at_hand_is_set_aside_for_others(self):
        self.write(f"left/{LAW}/4/crash-2", b"only MSan sees it")
        self.write(f"left/{LAW}/run1/hangs/id:000000", b"the machine was busy")
        findings, told = self.salvage(["fuzz"])
        self.assertEqual(findings, [])
        self.assertIn("set aside in", told)
        aside = os.path.join(triage.unjudged(), LAW)
        self.assertEqual([self.read(path) for path in corpora.files_in(aside)], [b"only MSan sees it"])
        self.fuzz_target("fuzz-msan", fails_on="MSan")
        self.assertEqual([(finding.law, finding.reason) for finding in self.salvage()[0]], [])
        self.assertIn(f"1 of {LAW}: 17 bytes", self.triaged()[1])
        self.assertEqual(os.listdir(aside), [])

    def test_what_holds_in_the_builds_that_judge_is_asked_in_all_others(self):
        for preset in triage.OTHER_BUILDS:
            with self.subTest(preset):
                target = self.fuzz_target(preset, fails_on=preset)
                self.write(f"findings/{LAW}/crash-{preset}", preset.encode())
                code, told = self.triaged()
                self.assertEqual(code, tree.EXIT_FINDINGS)
                self.assertIn(f"1 of {LAW}: {len(preset)} bytes", told)
                self.assertIn(tree.relative(target), told)

    def test_files_that_no_fuzzer_names_so_are_told_and_those_of_its_services_judged(self):
        for name in ("clusterfuzz-testcase-minimized-fuzz_splits-5", "notes", "log"):
            self.write(f"f/{LAW}/{name}")
        code, told = self.triaged(os.path.join(self.folder, "f"))
        self.assertEqual(code, tree.EXIT_FINDINGS)
        self.assertRegex(told, rf"skipped: 2 files below \S+, such as {LAW}/(notes|log): ")
        self.assertIn(f"    1 of {LAW}: 1 bytes\n", told)
        self.assertEqual(self.triaged(self.write(f"g/{LAW}/notes"))[0], tree.EXIT_FINDINGS)

    def test_a_tree_below_a_folder_that_is_called_like_a_law(self):
        with mock.patch.object(tree, "FINDINGS", os.path.join(self.folder, OTHER_LAW, "findings")):
            self.write(f"{OTHER_LAW}/findings/gravity/crash-1")
            self.write(f"{OTHER_LAW}/findings/{LAW}/crash-1")
            told = self.triaged()[1]
        self.assertIn("gravity/crash-1: no folder", told)
        self.assertIn(f"    1 of {LAW}: 1 bytes\n", told)

    def test_laws_that_were_not_built_are_not_judged_but_named(self):
        left = self.write(f"left/{OTHER_LAW}/3/crash-1", b"x")
        findings, told = self.salvage()
        self.assertEqual(findings, [])
        self.assertIn(f"not judged, 1 inputs that an earlier run left of {OTHER_LAW}:", told)
        self.assertTrue(os.path.exists(left))

    def test_an_input_that_is_kept_is_no_leftover(self):
        left = self.write(f"left/{LAW}/3/crash-1", b"x")
        self.write(f"findings/{LAW}/{corpora.named_by_content(left)[:16]}", b"x")
        code, told = self.triaged()
        self.assertIn(f"    1 of {LAW}: 1 bytes\n", told)
        self.assertFalse(os.path.exists(left))
        triage.keep(LAW, self.write(f"left/{LAW}/3/crash-1", b"x"))
        self.assertFalse(os.path.exists(left))

    def test_a_disk_that_is_full_leaves_no_half_of_a_finding(self):
        left = self.write(f"left/{LAW}/3/crash-1", b"x")
        with mock.patch("shutil.copyfile", cut_off), self.assertRaises(OSError):
            triage.keep(LAW, left)
        self.assertEqual(os.listdir(os.path.join(tree.FINDINGS, LAW)), [])
        self.assertTrue(os.path.exists(left))

    def test_folders_behind_links_are_entered_once(self):
        self.write("elsewhere/crash-1", b"x")
        os.mkdir(tree.FINDINGS)
        for target, link in (("../elsewhere", LAW), (".", "loop")):
            os.symlink(target, os.path.join(tree.FINDINGS, link))
        self.assertEqual(triage.failing_inputs_below(tree.FINDINGS), [os.path.join(tree.FINDINGS, LAW, "crash-1")])

    def inputs(self, count, **others):
        contents = {**{f"{number:04}": b"a" for number in range(count)}, **others}
        return [self.write(f"inputs/{name}", content) for name, content in sorted(contents.items())]

    def test_those_that_fail_are_found_among_many_by_few_processes(self):
        paths = self.inputs(600, **{"0077b": b"x", "0300b": b"xx", "0599b": b"xxx"})
        runs, run = [], triage.output_of
        with mock.patch.object(triage, "output_of", lambda *arguments: runs.append(1) or run(*arguments)):
            found = list(triage.failing(self.target, paths))
        self.assertEqual([(os.path.basename(path), reason) for path, reason in found],
                         [("0077b", "1 bytes"), ("0300b", "2 bytes"), ("0599b", "3 bytes")])
        self.assertLess(len(runs), 90)

    def test_a_hang_among_many_is_found(self):
        paths = self.inputs(90, hang=b"h")
        with mock.patch.object(triage, "output_of", lambda command, *_: (None, "") if paths[-1] in command else (0, "")):
            self.assertEqual(list(triage.failing(self.target, paths)), [(paths[-1], f"hang: over {triage.JUDGE_SECONDS} s")])

    def test_what_takes_too_long_is_ended(self):
        self.assertEqual(triage.output_of(["sleep", "60"], 0.1), (None, ""))

    def test_what_fails_in_company_only_is_told(self):
        target = self.script("company", '[ $# -lt 9 ] || { echo "law splits failed: sums"; exit 77; }')
        paths = self.inputs(9)
        self.assertEqual(list(triage.failing(target, paths)), [(paths[-1], "sums, after other inputs only")])

    def test_an_end_that_is_wished_for_is_no_failure(self):
        pid = os.path.join(self.folder, "pid")
        target = self.script("waits", f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60")
        sessions = []

        def over():
            if os.path.exists(pid):
                sessions.append(os.getsid(int(self.read(pid))))
            return bool(sessions)

        with self.assertRaises(triage.Unjudged):
            triage.judge(target, self.write("input"), over)
        self.assertNotEqual(sessions, [os.getsid(0)])  # the terminal's Ctrl-C is for that one
        self.assertRaises(ProcessLookupError, os.kill, int(self.read(pid)), 0)

    def test_what_is_found_is_told_though_nobody_waits_for_it_to_be_shrunk(self):
        def shrink(command, seconds, over, **_):
            os.kill(os.getpid(), signal.SIGINT)
            self.assertTrue(over())
            raise triage.Unjudged

        def build(*_):
            os.kill(os.getpid(), signal.SIGINT)
            raise tree.BuildFailed("killed")

        def missing(*_):
            raise tree.WrongUse("cmake is missing")

        out, kept = io.StringIO(), self.write("kept")
        for stub, why in ((build, triage.ENDED), (missing, "cmake is missing")):
            with mock.patch.object(tree, "build", stub), contextlib.redirect_stdout(out):
                triage.report([triage.Finding(LAW, "sums", kept, self.target)], tree.Stop())
            self.assertIn(f"not shrunk: {why}\n", out.getvalue())
        out.truncate(0)
        with mock.patch.object(tree, "build", lambda *_: None), mock.patch.object(triage, "output_of", shrink), \
                contextlib.redirect_stdout(out):
            triage.report([triage.Finding(law, "sums", kept, self.target) for law in (LAW, OTHER_LAW)], tree.Stop())
        self.assertEqual(re.findall(r"FINDING in (\w+)|not shrunk: (.*)", out.getvalue()),
                         [(LAW, ""), ("", "it was ended before"), (OTHER_LAW, ""), ("", "it was ended before")])

    def test_a_failing_input_leaves_the_corpus(self):
        path = self.write("crash", b"x")
        inside = self.write(f"build/fuzz-corpus/{LAW}/{corpora.named_by_content(path)}", b"x")
        other = self.write(f"build/fuzz-corpus/{LAW}/other", b"y")
        triage.keep(LAW, path)
        self.assertEqual((os.path.exists(inside), os.path.exists(other)), (False, True))


class AflFolder(InFolder):
    def setUp(self):
        super().setUp()
        self.fuzz_target("afl")
        self.script("bin/afl-fuzz", "exec sleep 60")
        for patch in (mock.patch.object(corpora, "AFL_OUT", os.path.join(self.folder, "left", "afl-out")),
                      mock.patch.object(triage, "explain", lambda *_: ""),
                      mock.patch.dict(os.environ, PATH=f"{self.folder}/bin:{os.environ['PATH']}")):
            patch.start()
            self.addCleanup(patch.stop)


class AflTest(AflFolder):
    def fuzzed(self, engine, ask=False):
        """A campaign that takes what one run has saved."""
        fuzzing = campaign.Campaign(engine, [LAW], 60, 1)
        if ask:
            fuzzing.stop.ask()
        run = engine.start(LAW, 1, 60)
        run.interrupt()
        fuzzing.begun = run.started
        with contextlib.redirect_stdout(io.StringIO()):
            fuzzing.take(run)
        return fuzzing

    def reasons(self, fuzzing):
        return sorted(finding.reason for finding in fuzzing.findings())

    def test_a_seed_that_fails_is_a_finding(self):
        name = hashlib.sha1(b"x").hexdigest()
        self.write(f"build/fuzz-corpus/{LAW}/{name}", b"x")
        self.write(f"build/fuzz-corpus/{LAW}/{hashlib.sha1(b'ax').hexdigest()}", b"ax")
        self.write(f"build/seeds/{LAW}/case", b"xx")
        engine = fuzz_afl.Afl([LAW])
        fuzzing = campaign.Campaign(engine, [LAW], 0.1, 1)
        with contextlib.redirect_stdout(io.StringIO()):
            fuzzing.run()
        self.assertEqual(self.reasons(fuzzing), ["1 bytes", "2 bytes"])
        self.assertEqual(os.listdir(corpora.common(LAW)), [])
        self.assertEqual(os.listdir(engine.seeds[LAW]), ["zero"])

    def test_a_crash_that_does_not_reproduce_is_a_finding_but_no_such_hang(self):
        self.fuzz_target("fuzz", fails_on="poison")
        for judges, reasons in (((), [triage.UNREPRODUCED]), (("fuzz",), ["6 bytes", triage.UNREPRODUCED])):
            engine = fuzz_afl.Afl([LAW], judges=judges)
            for name in ("crashes/id:000000", "crashes/id:000001", "hangs/id:000002"):
                self.write(f"left/afl-out/{LAW}/run1/{name}", name.encode())
            self.write(f"left/afl-out/{LAW}/run1/crashes/id:000003", b"poison")
            self.assertEqual(self.reasons(self.fuzzed(engine)), reasons)
        kept = {self.read(path) for path in corpora.files_in(os.path.join(tree.FINDINGS, LAW))}
        self.assertEqual(kept, {b"crashes/id:000000", b"crashes/id:000001", b"poison"})

    def test_what_nobody_waits_for_is_left_to_the_next_run(self):
        engine = fuzz_afl.Afl([LAW])
        hang = self.write(f"left/afl-out/{LAW}/run1/hangs/id:000000", b"x")
        fuzzing = self.fuzzed(engine, ask=True)
        fuzzing.tallies[LAW].cases = 1
        with contextlib.redirect_stdout(io.StringIO()) as out:
            fuzzing.report_laws()
        self.assertIn(f"inputs of {LAW}; the next run does", out.getvalue())
        self.assertEqual(campaign.exit_code([fuzzing], True), tree.EXIT_INTERRUPTED)
        self.assertTrue(os.path.exists(hang))

    def test_an_instance_that_ends_by_itself_before_its_time_or_badly_is_broken(self):
        started = f"mkdir -p $4/{LAW}; echo 'execs_done : 5' > $4/{LAW}/fuzzer_stats"
        for end, limit, broken in (("kill -ABRT $$", 0, True), ("exit 1", 0, True), ("exit 0", 60, True), ("exit 0", 0, False)):
            with self.subTest(end, limit=limit):
                self.script("bin/afl-fuzz", f"{started}; {end}")
                run = fuzz_afl.Afl([LAW], cmplog=False).start(LAW, 1, limit)
                run.finish()
                self.assertEqual(run.broken(), broken)

    def test_ended_orphans_are_taken_leave_of_and_our_own_are_not(self):
        fuzz_afl.adopt_orphans()
        self.addCleanup(tree.LIBC.prctl, tree.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        before = set(tree.children())
        self.script("fuzz_orphan", "exit 0")
        tree.start(["sh", "-c", f"{self.folder}/fuzz_orphan &"]).wait()
        ours = tree.start([self.script("fuzz_ours", "exit 3")])
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(self.state(child) != "Z" for child in set(tree.children()) - before):
            time.sleep(0.01)
        fuzz_afl.end_orphans(self.folder)
        self.assertEqual(set(tree.children()) - before, {ours.pid})
        self.assertEqual(ours.wait(), 3)

    def state(self, process):
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(") ")[2][0]

    def test_a_canary_that_nobody_waits_for_is_ended(self):
        begun = os.path.join(self.folder, "begun")
        self.script("bin/afl-fuzz", f"echo $$ > {begun}.new; mv {begun}.new {begun}; exec sleep 60")
        self.fuzz_target("fuzz", "canary", fails_on="nothing")
        os.replace(self.script("canary", f"echo $$ > {begun}.new; mv {begun}.new {begun}; exec sleep 60"), tree.fuzz_target("fuzz", "canary"))
        for engine in (fuzz_afl.Afl([]), fuzz.LibFuzzer()):
            with self.subTest(engine.name), contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertTrue(campaign.canary_found(engine, lambda: os.path.exists(begun)))
                self.assertIn(triage.ENDED, out.getvalue())
                self.assertRaises(ProcessLookupError, os.kill, int(self.read(begun)), 0)
            os.remove(begun)

    def test_orphans_of_a_folder_behind_a_link_are_ended(self):
        os.symlink(os.path.join(self.folder, "bin"), os.path.join(self.folder, "link"))
        shutil.copy(shutil.which("sleep"), os.path.join(self.folder, "bin", "afl-sleep"))
        process = subprocess.Popen([os.path.join(self.folder, "link", "afl-sleep"), "60"])
        fuzz_afl.end_orphans(os.path.join(self.folder, "link", "afl"))
        with contextlib.suppress(ChildProcessError):
            self.assertEqual(process.wait(5), 0)

    def test_the_speed_is_measured_and_nothing_is_left_behind(self):
        engine = fuzz_afl.Afl([LAW])
        started, start = [], engine.start
        engine.start = lambda *arguments: started.append(start(*arguments)) or started[0]
        with mock.patch.object(figures, "LAW", LAW), mock.patch.object(fuzz_afl.AflRun, "wait", mock.Mock(side_effect=KeyboardInterrupt)), \
                self.assertRaises(KeyboardInterrupt):
            figures.afl_speed(engine)
        self.assertFalse(started[0].running())


class SoakTest(AflFolder):
    def turned(self, queue, end=False, merge="cp $last/* ${last%/*}/" + LAW + ".pruned"):
        """After a turn in which AFL++ did nothing but queue these inputs."""
        self.fuzz_target("fuzz")
        self.fuzz_target("fuzz-msan", fails_on="y")
        self.fuzz_target("fuzz-fast", fails_on="z", merge=merge)
        with mock.patch.object(fuzz, "ARTIFACTS", os.path.join(self.folder, "left", "fuzz-artifacts")), \
                contextlib.redirect_stdout(io.StringIO()):
            soaking = soak.Soak([LAW], 1, 1)

            def run(fuzzing, seconds):
                if end and fuzzing.engine is soaking.afl:
                    soaking.stop.ask()
                for number, content in enumerate(queue):
                    self.write(f"left/afl-out/{LAW}/run1/queue/id:{number:06}", content)

            with mock.patch.object(campaign.Campaign, "run", run):
                soaking.turn(1)
        return soaking

    def reasons(self, soaking):
        return sorted((engine.name, finding.reason) for finding, engine in soaking.findings())

    def test_what_afl_kept_is_judged_before_it_is_pruned(self):
        soaking = self.turned([b"a", b"x1", b"x2", b"yyy"])
        self.assertEqual(self.reasons(soaking), [("libFuzzer, ASan + UBSan", "2 bytes"), ("libFuzzer, MSan", "3 bytes")])
        corpora.gather(LAW)
        self.assertEqual([self.read(path) for path in corpora.files_in(corpora.common(LAW))], [b"a"])

    def test_numbers_and_page_are_written_though_nobody_waits_for_findings_to_be_shrunk(self):
        def find(soaking):
            soaking.legs[0][0].find(LAW, self.write("crash"), "sums differ")

        written = []
        with contextlib.ExitStack() as stack:
            for thing, name, stub in ((soak, "build", lambda laws: None), (corpora, "make_seeds", lambda: None),
                                      (campaign, "canary_found", lambda *_: True), (soak.Soak, "run", find),
                                      (triage, "explain", lambda *_: os.kill(os.getpid(), signal.SIGINT) or ""),
                                      (triage, "salvage", lambda *_: [triage.Finding(OTHER_LAW, "of a run before", "path", "target")]),
                                      (tree, "alone", lambda what: None),
                                      (metrics.Measurement, "keep", lambda _, numbers, reached: written.append((numbers["findings"], reached)) or 5),
                                      (report, "write", lambda: written.append("page") or "page")):
                stack.enter_context(mock.patch.object(thing, name, stub))
            stack.enter_context(mock.patch.dict(os.environ, LAW="", SOAK_MINUTES="1"))
            stack.enter_context(mock.patch("sys.argv", ["soak.py"]))
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            self.assertEqual(soak.run(), 5)
        self.assertEqual(written, ["page", ([f"{OTHER_LAW}: of a run before", f"{LAW}: sums differ"], False)])

    def test_queues_that_nobody_waits_for_are_not_called_judged(self):
        soaking = self.turned([b"x"], end=True)
        self.assertEqual(soaking.findings(), [])
        self.assertEqual([fuzzing.engine.name for fuzzing, _ in soaking.legs if fuzzing.unjudged()],
                         ["libFuzzer, ASan + UBSan", "libFuzzer, MSan"])
        self.assertEqual(len(os.listdir(corpora.common(LAW))), 1)

    def test_what_fails_while_it_is_pruned_is_a_finding(self):
        crash = os.path.join(self.folder, "left", "fuzz-artifacts", LAW, "merge", "crash-1")
        soaking = self.turned([b"a", b"zzz"], merge=f"grep -l z $last/* | while read path; do mv $path {crash}; done")
        self.assertEqual(self.reasons(soaking), [("libFuzzer", "3 bytes")])
        self.assertFalse(os.path.exists(crash))

    def test_what_took_long_while_it_was_pruned_is_a_finding_only_if_it_fails_again(self):
        slow = os.path.join(self.folder, "left", "fuzz-artifacts", LAW, "merge", "timeout-1")
        self.assertEqual(self.reasons(self.turned([b"a", b"b"], merge=f"mv $(grep -l a $last/*) {slow}; cp $last/* ${{last%/*}}/{LAW}.pruned")), [])
        self.assertEqual(sorted(self.read(path) for path in corpora.files_in(corpora.common(LAW))), [b"a", b"b"])
        self.assertEqual(self.reasons(self.turned([b"a"], merge=f"echo z > {slow}")), [("libFuzzer", "2 bytes")])

    def test_an_input_that_fails_like_another_one_is_no_leftover(self):
        soaking = self.turned([])
        paths = [self.write(f"left/fuzz-artifacts/{LAW}/{number}/crash-{number}", bytes([number])) for number in range(2)]
        for path in paths:
            soaking.legs[0][0].find(LAW, path, "sums differ")
        self.assertEqual([os.path.exists(path) for path in paths], [False, False])
        self.assertEqual(len(corpora.files_in(os.path.join(tree.FINDINGS, LAW))), 1)


class SpeedTest(InFolder):
    """What libFuzzer saves while its speed is measured."""

    def measured(self, script):
        target = self.fuzz_target("fuzz")
        os.replace(target, target + ".judge")
        self.script(f"build/fuzz/fuzz/fuzz_{LAW}", 'case " $* " in *" -runs=0 "*) for i; do case $i in -artifact_prefix=*) saved=${i#*=};; esac; done;'
                    f' {script};; *) exec {target}.judge "$@";; esac')
        with mock.patch.object(fuzz, "ARTIFACTS", os.path.join(self.folder, "left")):
            return fuzz.LibFuzzer().measure(LAW, 0, [])

    def kept(self):
        return [self.read(path) for path in triage.files_below(tree.FINDINGS)]

    def test_cases_and_edges_are_told(self):
        self.assertEqual(self.measured("echo '#5 INITED cov: 7'; echo '#9 DONE cov: 8'")[1], 8)
        self.assertEqual(self.kept(), [])

    def test_a_law_that_fails_is_no_speed(self):
        with self.assertRaisesRegex(tree.Failed, r"(?s)failed while its speed was measured\n\S+: 2 bytes$"):
            self.measured("echo x > ${saved}crash-1; echo 'law splits failed: 2 bytes'; exit 77")
        self.assertEqual(self.kept(), [b"x\n"])

    def test_a_hang_is_a_finding_only_if_it_fails_again(self):
        hang = "echo %s > ${saved}timeout-1; echo '==7== ERROR: libFuzzer: timeout after 10 seconds'; exit 70"
        with self.assertRaisesRegex(fuzz.Unmeasured, "holds when it is run again"):
            self.measured(hang % "a")
        self.assertEqual((self.kept(), os.listdir(corpora.common(LAW))), ([], [hashlib.sha1(b"a\n").hexdigest()]))
        with self.assertRaisesRegex(tree.Failed, ": 2 bytes"):
            self.measured(hang % "x")
        self.assertEqual(self.kept(), [b"x\n"])

    def test_what_cannot_be_measured_is_told(self):
        with self.assertRaisesRegex(tree.Failed, "no such option"):
            self.measured("echo no such option; exit 1")


class ReportTest(InFolder):
    def test_numbers_are_told_once_and_gaps_are_no_time(self):
        for at, cases, seconds in ((0, 100, 1.0), (5, 900, 5.0), (100000, 950, 6.0)):
            with open(history.FILE, "a") as file:
                file.write(f'{{"at": {at}, "session": "s", "engine": "<e>", "law": "{LAW}", "cases": {cases}, "seconds": {seconds},'
                           f' "edges": 7, "corpus": 3}}\n')
        for _ in range(2):
            history.append("s", "<e>", LAW, finding="sums & splits")
        with open(history.FILE, "a") as file:
            file.write('{"at": 1, "cut o')
        page = report.page(history.read())
        self.assertIn("950 cases of 1 laws", page)
        self.assertIn("findings: 1.", page)
        self.assertIn("sums &amp; splits", page)
        self.assertNotIn("<e>", page)
        self.assertEqual(report.fuzzing_time(history.read()), 5 + 2 * report.LONGEST_SILENCE_SECONDS)

    def test_findings_without_progress(self):
        history.append("s", "e", LAW, finding="sums differ")
        self.assertIn("findings: 1.", report.page(history.read()))

    def test_what_is_no_record_is_left_out(self):
        good = {"at": 1, "session": "s", "engine": "e", "law": LAW, "cases": 1, "seconds": 1.5, "edges": 2, "corpus": 3}
        others = [{**good, name: value} for name in good for value in (None, "5" if name not in ("session", "engine", "law") else 5, [], {},
                                                                       True, -1, math.nan, math.inf, 1e300, 10**400, "\ud800")]
        others += [{key: value for key, value in good.items() if key != name} for name in good]
        others += [{**good, "finding": 5, "cases": None}, 5, None, {}, [], [good], "x", True]
        lines = [json.dumps(entry).encode() for entry in others]
        lines += [b"", b"\xff\xfe", b"\0" * 10, b"[" * 100000, b'{"at": ' + b"9" * 5000 + b"}", json.dumps(good).encode()[:-9] + b'"\xff"}']
        told = {"at": 2, "session": "s", "engine": "e", "law": LAW, "finding": "sums\tand \u00fc \ufffd"}
        self.write("history", b"\n".join([*lines, json.dumps(good).encode(), *lines, json.dumps(told).encode(), *lines]))
        self.assertEqual(history.read(), [good, told])
        self.assertIn("1 cases of 1 laws", self.read(report.write(out=os.path.join(self.folder, "page"))).decode())

    def test_rates_are_cases_for_seconds_of_a_process(self):
        records = [{"at": at, "session": "s", "engine": "e", "law": LAW, "cases": cases, "seconds": seconds}
                   for at, cases, seconds in ((0, 100, 1.0), (0.2, 300, 2.0))]
        total = report.fuzzing_time(records)
        self.assertEqual([one.lines for one in report.rates(records, total)], [[[(0.5, 150.0)]]])


class MachinesTest(InFolder):
    def test_one_main_and_unique_names(self):
        main, others = afl_machines.instances("main", "one", 3), afl_machines.instances("secondary", "two", 3)
        options = [" ".join(options) for options, _ in main + others]
        self.assertEqual(sum("-M " in text for text in options), 1)
        self.assertEqual(len({text.split()[-1] for text in options}), 6)

    def named(self, own, host=""):
        with mock.patch("socket.gethostname", lambda: own), mock.patch.dict(os.environ, HOST=host):
            return afl_machines.host_name()

    def test_names_are_such_that_afl_takes_them(self):
        owns = ("one", "node1.cluster.local", "node1.cluster.local2", "node1-cluster-local", "x" * 64, "x" * 63 + "y", "-", "...", "main",
                "main-one", "mainframe.local", "m\u00fcnchen", "\udcff", "a" * afl_machines.LONGEST_HOST)
        hosts = [self.named(own) for own in owns]
        names = [options[-1] for host in hosts for role in ("main", "secondary") for options, _ in afl_machines.instances(role, host, 3)]
        self.assertEqual(len(set(names)), 4 * len(owns))  # the numbers 1 and 2 occur in either role
        for name in names + [f"{host}-99999" for host in hosts]:
            self.assertRegex(name, r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,23}$")
        self.assertEqual(self.named("one"), "one")
        self.assertEqual(self.named("node1.cluster.local"), self.named("node1.cluster.local", "node1.cluster.local"))
        self.assertNotEqual(self.named("node1.cluster.local"), self.named("node1.cluster.locaL"))

    def test_a_name_that_was_given_is_taken_or_refused(self):
        self.assertEqual(self.named("node1.cluster.local", "left_1"), "left_1")
        for host in ("a.b", "x" * 19, "-a", "a b", "\u00fc", "main", "main-a", "a/b", "a\n"):
            with self.subTest(host), self.assertRaises(tree.WrongUse):
                self.named("one", host)

    def test_several_laws_are_none(self):
        with mock.patch("sys.argv", ["afl_machines.py", "main", self.folder, f"{LAW},{OTHER_LAW}"]), self.assertRaises(tree.WrongUse):
            afl_machines.run()

    def test_instances_end_though_one_cannot_be_started(self):
        started = []

        def start(*_):
            if started:
                raise OSError("no space left")
            started.append(subprocess.Popen(["sleep", "60"], start_new_session=True))
            return started[0]

        with mock.patch.object(afl_machines, "start", start), mock.patch.dict(os.environ, JOBS="2"), self.assertRaises(OSError):
            afl_machines.fuzz_here("main", "one", LAW, self.folder, self.folder)
        self.assertIsNotNone(started[0].poll())

    def test_a_seed_that_fails_is_told(self):
        self.fuzz_target("afl")
        self.write(f"build/seeds/{LAW}/bad", b"x")
        self.write(f"build/seeds/{LAW}/good", b"a")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            seeds, failed = afl_machines.seeds_that_hold(LAW)
        self.assertEqual((os.listdir(seeds), failed), (["good"], 1))
        self.assertIn("1 bytes", out.getvalue())


class OssFuzzTest(InFolder):
    def test_options_are_those_that_make_fuzz_has(self):
        self.assertLessEqual(set(oss_fuzz.options_of(tree.path("fuzz", "fuzz"))), set(fuzz.LIBFUZZER_OPTIONS))

    def test_a_target_too_few_or_too_many_is_told(self):
        build = oss_fuzz.Build("address")
        build.moved = os.path.join(self.folder, "out")
        for law in tree.laws():
            self.write(f"out/fuzz_{law}", b"\x7fELF LLVMFuzzerTestOneInput", executable=True)
        self.assertEqual(oss_fuzz.targets_are_the_laws(build), f"{len(tree.laws())} targets")
        stray = self.write("out/libcproute.so", b"")
        self.assertRaises(suite.Failed, oss_fuzz.targets_are_the_laws, build)
        os.remove(stray)
        os.remove(build.target(LAW))
        self.assertRaises(suite.Failed, oss_fuzz.targets_are_the_laws, build)


class WorkflowsTest(unittest.TestCase):
    """They call what is in this tree, and nothing else of their own."""

    def texts(self):
        texts = {}
        for path in tree.matching(tree.path(".github", "workflows"), "*.yml"):
            with open(path) as file:
                texts[os.path.basename(path)] = file.read()
        self.assertTrue(texts)
        return texts

    def test_steps_are_scripts_of_this_tree(self):
        with open(tree.path("Makefile")) as file:
            targets = set(re.findall(r"^([a-z-]+):", file.read(), re.MULTILINE))
        for name, text in self.texts().items():
            for step in re.findall(r"- run: (.*)", text):
                with self.subTest(name, step=step):
                    words = step.split()
                    if words[0] == "make":
                        self.assertIn(words[1], targets)
                    elif words[0] not in ("apt-get", "git"):
                        self.assertTrue(os.access(tree.path(words[0]), os.X_OK))

    def test_containers_let_addresses_be_fixed(self):
        found = []
        for name, text in self.texts().items():
            for container in re.findall(r"^ *container:(.*)", text, re.MULTILINE):
                found.append(name)
                with self.subTest(name, container=container):
                    self.assertRegex(container, r"^ \{image: \"[^\"]+\", options: --security-opt seccomp=unconfined\}$")
        self.assertEqual(sorted(found), ["check.yml", "check.yml", "soak.yml"])

    def test_what_a_failing_job_made_is_kept(self):
        for name, text in self.texts().items():
            self.assertNotRegex(text, r"uses: actions/cache@", name)  # saves nothing after an error
            for step in re.findall(r"- uses: (?:actions/cache/save|actions/upload-artifact)@.*\n(.*)", text):
                with self.subTest(name):
                    self.assertEqual(step.strip(), "if: always()")

    def test_lanes_are_there(self):
        lanes = re.search(r"lane: \[(.*)\]", self.texts()["check.yml"]).group(1)
        for lane in lanes.replace(",", " ").split():
            self.assertIn(lane, check.CI_LANES + check.EXTRA_LANES)


if __name__ == "__main__":
    unittest.main()
