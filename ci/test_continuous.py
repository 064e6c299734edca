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
import stat
import subprocess
import tempfile
import unittest
from unittest import mock

import afl_machines
import check
import corpora
import fuzz
import fuzz_afl
import history
import oss_fuzz
import report
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

    def prune(self, script):
        for name in "abc":
            self.write(f"build/fuzz-corpus/{LAW}/{name}", name.encode())
        sizes = corpora.prune(LAW, self.script("merge", script), [], os.path.join(self.folder, "artifacts"))
        return sizes, sorted(os.listdir(corpora.common(LAW)))

    def test_what_the_merge_kept_takes_the_place_of_all(self):
        self.assertEqual(self.prune("cp $4/b $3/"), ((3, 1), ["b"]))

    def test_a_merge_that_fails_or_keeps_nothing_costs_no_input(self):
        for script in ("cp $4/b $3/; exit 1", "true", "cp $4/b $3/; sleep 60"):
            with self.subTest(script), mock.patch.object(corpora, "MERGE_SECONDS", 0.5):
                self.assertEqual(self.prune(script), ((3, 3), ["a", "b", "c"]))
                self.assertEqual(os.listdir(os.path.join(self.folder, "build", "fuzz-corpus")), [LAW])

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
        self.assertEqual(corpora.prune(LAW, self.script("merge", "exit 1"), [], os.path.join(self.folder, "artifacts")), (1, 1))
        self.assertEqual(os.listdir(corpora.common(LAW)), ["d"])
        self.assertEqual(os.listdir(os.path.join(self.folder, "build", "fuzz-corpus")), [LAW])

    def test_what_is_gathered_is_whole(self):
        path = self.write(f"out/{LAW}/one/queue/id:000000", b"abc")

        def cut_off(source, target):
            with open(target, "wb") as file:
                file.write(b"a")
            raise OSError(errno.ENOSPC, "no space left")

        out = [os.path.join(self.folder, "out")]
        with mock.patch("shutil.copyfile", cut_off), self.assertRaises(OSError):
            corpora.gather(LAW, out)
        self.assertEqual(corpora.gather(LAW, out), 1)
        self.assertEqual(os.listdir(corpora.common(LAW)), [corpora.named_by_content(path)])


class TriageTest(InFolder):
    def setUp(self):
        super().setUp()
        # Fails on inputs that hold an x, for a reason that is their length.
        self.target = self.script("target", 'grep -q x "$1" || exit 0\n'
                                  'echo "law splits failed: $(wc -c < "$1") bytes"; exit 77')

    def judge(self, law, path):
        return triage.judge(self.target, path)

    def test_equal_laws_and_reasons_are_one_and_the_smallest_comes_first(self):
        paths = [self.write(f"f/{LAW}/1/crash-1", b"xx"), self.write(f"f/{LAW}/2/crash-2", b"ax"),
                 self.write(f"f/{OTHER_LAW}/crash-3", b"xx"), self.write(f"f/{LAW}/crash-4", b"x"), self.write(f"f/{LAW}/crash-5", b"a")]
        groups, held = triage.group(triage.with_laws(paths), self.judge)
        self.assertEqual(held, 1)
        self.assertEqual({key: len(alike) for key, alike in groups.items()},
                         {(LAW, "2 bytes"): 2, (OTHER_LAW, "2 bytes"): 1, (LAW, "1 bytes"): 1})

    def triaged(self, *places):
        """(exit code, what is told) with builds that find what `judge` finds."""
        out = io.StringIO()
        with mock.patch("sys.argv", ["triage.py", *places]), mock.patch.object(tree, "build", lambda *_: None), \
                mock.patch.object(triage, "judge_by_all", self.judge), mock.patch.object(triage, "explain", lambda *_: ""), \
                contextlib.redirect_stdout(out):
            return triage.run(), out.getvalue()

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

    def salvage(self):
        with contextlib.redirect_stdout(io.StringIO()):
            return triage.salvage(lambda law: self.target)

    def test_what_a_killed_run_left_is_kept(self):
        self.write(f"left/{LAW}/3/crash-1", b"x")
        self.write(f"left/{LAW}/4/crash-2", b"holds now")
        self.write("left/canary/canary/crashes/id:000000", b"x")
        self.assertEqual([(finding.law, finding.reason) for finding in self.salvage()], [(LAW, "1 bytes")])
        kept = tree.matching(tree.FINDINGS, "*", "*")
        self.assertEqual([self.read(path) for path in kept], [b"x"])

    def test_a_failing_input_leaves_the_corpus(self):
        path = self.write("crash", b"x")
        inside = self.write(f"build/fuzz-corpus/{LAW}/{corpora.named_by_content(path)}", b"x")
        other = self.write(f"build/fuzz-corpus/{LAW}/other", b"y")
        triage.keep(LAW, path)
        self.assertEqual((os.path.exists(inside), os.path.exists(other)), (False, True))


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
            afl_machines.fuzz_here("main", "one", LAW, self.folder)
        self.assertIsNotNone(started[0].poll())


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
