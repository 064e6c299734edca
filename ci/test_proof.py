#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what mutants and planted faults are measured with."""

import contextlib
import functools
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from unittest import mock

import mutants
import mutate
import detection
import fuzz_afl
import metrics
import suite
import swap
import tree

HERE = tree.ROOT
FUNCTION = """
/* a < b is no code */
static int64_t sum(const int64_t *rows, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += rows[i] * 2;
    }
    if (count > 0 &&
        total != 1) {
        note(&total, count);
    }
    return total;
}
"""


def changes(operator):
    found = mutate.mutants_of("f.c", FUNCTION, ["own"])
    return {(mutant["before"], mutant["after"]) for mutant in found if mutant["operator"] == operator}


class Mutants(unittest.TestCase):
    def test_relations_are_moved_and_turned(self):
        loop = "for (int64_t i = 0; i < count; i++) {"
        self.assertIn((loop, loop.replace("<", "<=")), changes("relation"))
        self.assertIn((loop, loop.replace("<", ">=")), changes("relation"))

    def test_comments_and_declarations_are_left_alone(self):
        self.assertFalse([before for before, _ in changes("relation") if "no code" in before])
        self.assertFalse([after for _, after in changes("arithmetic") if "rows, int64_t" in after])

    def test_a_condition_of_several_lines_is_turned_as_one(self):
        self.assertIn(("if (count > 0 && total != 1) {", "if (!(count > 0 && total != 1)) {"), changes("condition"))

    def test_statements_are_dropped_and_declarations_not(self):
        self.assertIn(("note(&total, count);", ";"), changes("dropped"))
        self.assertFalse([before for before, _ in changes("dropped") if before.startswith("int64_t total")])

    def test_indices_and_results_are_off_by_one(self):
        self.assertIn(("total += rows[i] * 2;", "total += rows[(i) + 1] * 2;"), changes("off by one"))
        self.assertIn(("return total;", "return (total) + 1;"), changes("result"))

    def test_ids_survive_edits_elsewhere(self):
        ids = [mutant["id"] for mutant in mutate.mutants_of("f.c", FUNCTION, ["own"])]
        moved = [mutant["id"] for mutant in mutate.mutants_of("f.c", "int other(void);\n" + FUNCTION, ["own"])]
        self.assertEqual(ids, moved)
        self.assertEqual(len(ids), len(set(ids)))


class Choices(unittest.TestCase):
    def test_names_count_once_and_unknown_ones_are_refused(self):
        self.assertEqual(mutants.chosen_files("route.c, runs.c,route.c"), ["route.c", "runs.c"])
        self.assertEqual(mutants.chosen_stages("props,replay"), ["replay", "props"])
        self.assertEqual(mutants.chosen_rules(None), ["own"])
        bug = detection.all_patches()[0].name
        self.assertEqual([patch.name for patch in detection.all_patches(f"{bug},{bug}")], [bug])
        for choose, choice, told in ((mutants.chosen_files, "route.c,", "FILES=route.c,: there is no engine/"),
                                     (mutants.chosen_rules, "x", "RULES=x: the rules are own"),
                                     (mutants.chosen_stages, ",", "STAGES=,: the stages are replay"),
                                     (detection.all_patches, "x", "BUGS=x: there is no planted/engine/x.patch"),
                                     (tree.chosen_laws, "x", "LAW=x: 'x' is no law")):
            with self.assertRaisesRegex(tree.WrongUse, told):
                choose(choice)

    def test_numbers(self):
        with mock.patch.dict(os.environ, {"SEED": "0", "SEEDS": "0", "MUTANTS": ""}):
            self.assertEqual(mutants.whole_number("SEED", 1, least=0), 0)
            self.assertIsNone(mutants.whole_number("MUTANTS", None))
            with self.assertRaisesRegex(tree.WrongUse, "SEEDS=0 is not a whole number from 1 to 999999999"):
                mutants.whole_number("SEEDS", 10)
        self.assertEqual((tree.number("N", "999999999"), tree.number("N", "0.5", float)), (999999999, 0.5))
        for text, kind in (("-1", int), ("1.5", int), ("x", int), ("1000000000", int), ("0", float), ("nan", float), ("inf", float)):
            with self.assertRaisesRegex(tree.WrongUse, f"N={text} is not a "):
                tree.number("N", text, kind)


def mutant_of(after="b", nth=1):
    return {"id": f"{after}{nth}", "file": "engine/f.c", "line": 1, "operator": "constant", "before": "a", "after": after, "nth": nth}


class Lists(unittest.TestCase):
    """What is listed as changing nothing, and what is known of mutants."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(folder, "lines.jsonl")

    def write(self, *lines):
        with open(self.path, "wb") as file:
            file.writelines(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)

    def equivalents(self, *entries):
        self.write(*({"file": "engine/f.c", "before": "a", "why": "so", **entry} for entry in entries))
        return mutants.Equivalents(self.path)

    def state(self, equivalents, stages=mutants.STAGES, fuzz_seconds=60):
        state = mutants.State(list(stages), fuzz_seconds, equivalents, {"b1", "c1"}, mutants.last_written(), self.path)
        self.addCleanup(state.file.close)
        return state

    def verdict(self, mutant, verdict, stage="", **more):
        return {**mutant, "verdict": verdict, "stage": stage, "of": mutants.grounds(verdict, stage), **more}

    def test_a_damaged_list_is_wrong_use_with_its_line(self):
        good = {"file": "engine/f.c", "before": "a", "why": "so"}
        for line, told in ((b"5\n", "no object"), (b"null\n", "no object"), (b"\xff{}\n", "no object"), (b"\n", "no object"),
                           (b'{"file": "engine/f.c"', "no object"), ({"file": "engine/f.c", "why": "so"}, "its members are"),
                           ({**good, "aftr": "b"}, "its members are"), ({**good, "after": 5}, "members are texts"),
                           ({**good, "nth": "2"}, "members are texts"), ({**good, "why": ""}, "no reason"),
                           ({"file": "engine/f.c", "before": "a"}, "no reason")):
            self.write(good, line)
            with self.assertRaisesRegex(tree.WrongUse, f"lines.jsonl:2: {told}"):
                mutants.Equivalents(self.path)

    def test_reasons_are_for_one_mutant_or_for_a_line(self):
        listed = self.equivalents({"after": "b"}, {"after": "c", "nth": 2}, {"after": "gone"})
        self.assertTrue(listed.listed(mutant_of("b", 1)) and listed.listed(mutant_of("b", 2)) and listed.listed(mutant_of("c", 2)))
        self.assertFalse(listed.listed(mutant_of("c", 1)) or listed.reason(mutant_of("d")))
        self.assertEqual(listed.gone([mutant_of("b"), mutant_of("c", 2)]), [("engine/f.c", "a", "gone", None)])
        whole = self.equivalents({})
        self.assertTrue(whole.reason(mutant_of("d")))
        self.assertFalse(whole.listed(mutant_of("d")))

    def test_the_list_itself_is_good(self):
        every = mutants.all_mutants(swap.files(), ["own"])
        self.assertEqual(mutants.Equivalents().gone(every), [])

    def test_damaged_verdicts_are_skipped(self):
        nothing = self.equivalents()
        good = self.verdict(mutant_of("b"), mutants.KILLED, "props")
        self.write(b"null\n", b"5\n", b"{}\n", b"\xff\xfe\n", b"[1]\n", {**good, "id": ["b"]}, {**good, "id": "c", "verdict": []},
                   {**good, "id": "d", "code": {}}, {**good, "id": "e", "verdict": mutants.SURVIVED},
                   {**good, "id": "f", "of": "another tree"}, good, json.dumps(good).encode()[:20])
        state = self.state(nothing)
        self.assertEqual(list(state.verdicts), ["b1"])
        state.add(mutant_of("c"), {"verdict": mutants.KILLED, "stage": "props", "details": ""})
        state.file.flush()
        self.assertEqual(list(self.state(nothing).verdicts), ["b1", "c1"])

    def test_what_has_a_reason_is_not_fuzzed(self):
        listed, other = mutant_of("b"), mutant_of("c")
        reasons = self.equivalents({"after": "b"})
        self.write()
        state = self.state(reasons)
        self.assertEqual(state.stages_of(listed), [stage for stage in mutants.STAGES if stage != "fuzzing"])
        self.assertEqual(state.stages_of(other), list(mutants.STAGES))
        self.assertIsNone(state.verdict_of(listed))
        for mutant in (listed, other):
            state.add(mutant, {"verdict": mutants.SURVIVED, "stage": "", "details": ""})
        state.file.flush()
        self.assertTrue(state.verdict_of(listed) and state.verdict_of(other))
        longer = self.state(reasons, fuzz_seconds=61)
        self.assertTrue(longer.verdict_of(listed))
        self.assertIsNone(longer.verdict_of(other))
        self.assertEqual(self.state(reasons, stages=["fuzzing"]).stages_of(listed), [])

    def test_a_listed_one_that_is_killed_is_told_and_not_counted(self):
        reasons = self.equivalents({"after": "b"}, {"after": "c"}, {"after": "d"})
        every = [mutant_of(after) for after in "bcdxyz"]
        tried = {"stages": list(mutants.STAGES), "fuzzed": 60}
        self.write(self.verdict(every[0], mutants.KILLED, "cmocka", **tried), self.verdict(every[1], mutants.SURVIVED, **tried),
                   self.verdict(every[3], mutants.KILLED, "props", **tried), self.verdict(every[4], mutants.SURVIVED, **tried),
                   self.verdict(every[5], "not C"))
        tally = mutants.Tally(every, self.state(reasons), reasons)
        self.assertEqual(tally.wrongly_listed, [(every[0], "cmocka")])
        self.assertEqual((tally.judged(), tally.killed(), tally.equivalent, tally.survivors), (2, 1, 2, [every[4]]))

    def test_nothing_is_recorded_of_sources_that_were_changed_meanwhile(self):
        state = self.state(self.equivalents())
        now = mutants.last_written()
        path = next(iter(now))
        for changed in ({**now, path: 1}, {name: when for name, when in now.items() if name != path}, {**now, path + ".new": 1}):
            with mock.patch.object(mutants, "last_written", lambda changed=changed: changed), self.assertRaisesRegex(tree.WrongUse, "changed while"):
                state.add(mutant_of(), {"verdict": "not C", "stage": "", "details": ""})
        self.assertEqual(state.verdicts, {})

    def test_one_that_is_like_another_has_its_verdict_where_that_one_is_asked_for(self):
        nothing = self.equivalents()
        self.write(self.verdict(mutant_of("b"), mutants.TWIN, details="c1"), self.verdict(mutant_of("c"), mutants.TWIN, details="u1"))
        state = self.state(nothing)
        self.assertTrue(state.verdict_of(mutant_of("b")))
        self.assertIsNone(state.verdict_of(mutant_of("c")))
        laboratory = mock.Mock(spec=mutants.Laboratory, state=state, lock=threading.Lock(), objects={"code": "c1"})
        self.assertEqual(mutants.Laboratory.twin(laboratory, mutant_of("b"), "code"), "c1")
        self.assertIsNone(mutants.Laboratory.twin(laboratory, mutant_of("c"), "code"))
        self.assertIsNone(mutants.Laboratory.twin(laboratory, mutant_of("b"), "other code"))

    def test_a_stage_counts_only_what_those_before_it_have_let_live(self):
        nothing = self.equivalents()
        self.write(self.verdict(mutant_of("b"), mutants.KILLED, "fuzzing", stages=["fuzzing"]),
                   self.verdict(mutant_of("c"), mutants.KILLED, "cmocka", stages=["replay", "props", "cmocka"]))
        state = self.state(nothing)
        self.assertIsNone(state.verdict_of(mutant_of("b")))
        self.assertTrue(state.verdict_of(mutant_of("c")))
        self.assertTrue(self.state(nothing, stages=["fuzzing"]).verdict_of(mutant_of("b")))

    def test_hangs_are_told_by_processor_time_alone(self):
        worker = mock.Mock(spec=mutants.Worker, lab=mock.Mock(seeds="seeds", **{"cpu_limit.return_value": 40}))
        with tempfile.TemporaryDirectory() as folder:
            worker.path.return_value = os.path.join(folder, "found")
            mutants.Worker.fuzz(worker, 60, "program")
        (_, command), limits = worker.run.call_args
        self.assertEqual([word for word in command if word.startswith("-timeout=")][-1], "-timeout=0")
        self.assertEqual(limits["cpu_seconds"], 120)

    def fuzzed(self, script, seconds=60, took=0.01):
        """How a mutant ends whose fuzzer is such a script, where the engine's took so long for the seeds."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "fuzz_suite-fuzz")
            with open(program, "w") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(program, 0o755)
            laboratory = mock.Mock(fuzz_seconds=seconds, seeds="seeds", took=mock.Mock(get=lambda *_: took), learning=None)
            laboratory.cpu_limit = functools.partial(mutants.Laboratory.cpu_limit, laboratory)
            worker = mock.Mock(spec=mutants.Worker, lab=laboratory, folder=folder, path=functools.partial(os.path.join, folder))
            worker.link.return_value = program
            worker.fuzz, worker.run = (functools.partial(getattr(mutants.Worker, name), worker) for name in ("fuzz", "run"))

            def ended(sources):
                try:
                    mutants.Worker.stage_fuzzing(worker, sources)
                except mutants.Outcome as outcome:
                    return tuple(outcome.verdict[name] for name in ("verdict", "stage", "details"))
                return None

            return ended(["route.c"]), ended([])

    def test_one_that_hangs_is_killed_within_its_processor_time(self):
        with mock.patch.object(mutants, "LEAST_CPU_SECONDS", 1):
            mutant, engine = self.fuzzed("while :; do :; done", seconds=1)
        self.assertEqual(mutant, (mutants.KILLED, "fuzzing", f"signal {int(signal.SIGXCPU)}"))
        self.assertEqual(engine, mutant)

    def test_a_fuzzer_that_cannot_start_is_told_by_the_engine_itself(self):
        self.assertEqual(self.fuzzed('case "$*" in *-runs=0*) ;; *-max_total_time=60*) echo law order failed; exit 77;; esac'),
                         ((mutants.KILLED, "fuzzing", "law order failed"), None))
        refused = (mutants.KILLED, "fuzzing", "no such option")
        self.assertEqual(self.fuzzed("echo no such option; exit 1"), (refused, refused))
        self.assertEqual(self.fuzzed("echo no such option; exit 1", seconds=0), (None, None))

    def test_verdicts_stand_on_compilers_and_presets(self):
        self.assertRegex(mutants.compilers(), r"\d+\.\d+")
        self.addCleanup(mutants.built_with.cache_clear)
        for verdict in (mutants.KILLED, "not C"):
            before = mutants.grounds(verdict, "props")
            mutants.built_with.cache_clear()
            with mock.patch.object(mutants, "compilers", lambda: "another one"):
                self.assertNotEqual(mutants.grounds(verdict, "props"), before)
            mutants.built_with.cache_clear()


class Sources(unittest.TestCase):
    """An editor that is open must not end a night's measurement, nor change what verdicts stand on."""

    LEFT_BY_EDITORS = ("#a.c#", "a.c~", ".a.c.swp", "a.c.orig", "a.c.rej", "a.c.bak", "#atomic#", "atomic~", ".hidden/b.c")

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(mock.patch.object(tree, "ROOT", self.folder))
        stack.enter_context(mock.patch.object(swap, "ENGINE", tree.path("engine")))
        for name in ("a.c", "b.h", "inner/c.h", "atomic"):
            self.write(name)

    def write(self, name, content=""):
        path = tree.path("engine", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content)

    def test_what_editors_leave_is_none(self):
        before = mutants.fingerprint.__wrapped__(("engine",))
        for name in self.LEFT_BY_EDITORS:
            self.write(name)
        for name in (".#a.c", ".#atomic", ".#c.h"):
            os.symlink("somebody@somewhere.1", tree.path("engine", name))
        self.assertEqual(mutants.fingerprint.__wrapped__(("engine",)), before)
        self.assertEqual(swap.files(), ["a.c", "b.h"])
        self.assertEqual(sorted(os.listdir(swap.overlay(os.path.join(self.folder, "worker")))), [".hidden", "a.c", "atomic", "b.h", "inner"])

    def test_what_else_comes_or_goes_changes_the_fingerprint(self):
        prints = {mutants.fingerprint.__wrapped__(("engine",))}
        for change in (lambda: self.write("a.c", "int"), lambda: self.write("inner/c.h", "int"), lambda: self.write("new"),
                       lambda: self.write("zz\udcff.c"), lambda: os.remove(tree.path("engine", "b.h"))):
            change()
            prints.add(mutants.fingerprint.__wrapped__(("engine",)))
        self.assertEqual(len(prints), 6)

    def test_every_file_of_the_folders_that_measurements_stand_on_is_one(self):
        listed = subprocess.run(["git", "ls-files", "-z", "--", *mutants.LAWS, mutants.CORPUS, "planted", "fuzz", "ci/mutants"], cwd=HERE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="surrogateescape").stdout
        self.assertEqual([name for name in listed.split("\0") if name and not tree.SOURCE.fullmatch(os.path.basename(name))], [])


class Refusals(unittest.TestCase):
    def judged(self, returncode, told, refused):
        swap.judge(subprocess.CompletedProcess(["cc", "a.c"], returncode, told), refused)

    def test_what_is_no_c_is_told_from_what_failed(self):
        self.judged(0, "a.c:1:2: warning: odd", swap.REFUSED_BY_COMPILER)
        for told in ("a.c: In function 'f':\na.c:3:5: error: 'x' undeclared\n", "../a.c:3: error: x\n"):
            with self.assertRaises(swap.NotCompiled):
                self.judged(1, told, swap.REFUSED_BY_COMPILER)
        for returncode, told in ((1, "cc: fatal error: Killed signal terminated program cc1\ncompilation terminated.\n"),
                                 (1, "a.c:9:1: fatal error: error writing to /tmp/a.s: No space left on device\n"),
                                 (1, "cc: error: a.c: No such file or directory\n"), (1, ""), (4, "a.c:3:5: error: x\n"),
                                 (1, "a.c:3:5: internal compiler error: Segmentation fault\n"), (-9, ""), (127, "")):
            with self.assertRaisesRegex(tree.BuildFailed, "failed, (exit code|signal) [0-9]+: cc a.c"):
                self.judged(returncode, told, swap.REFUSED_BY_COMPILER)

    def test_what_cannot_be_linked_is_told_from_what_failed(self):
        for told in ("a.c:(.text+0x5): undefined reference to `f'\ncollect2: error: ld returned 1 exit status\n",
                     "b.o: multiple definition of `f'; a.o: first defined here\n", "ld.lld: error: undefined symbol: f\n"):
            with self.assertRaises(swap.NotCompiled):
                self.judged(1, told, swap.REFUSED_BY_LINKER)
        for told in ("ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status\n",
                     "collect2: fatal error: ld terminated with signal 9 [Killed]\n"):
            with self.assertRaises(tree.BuildFailed):
                self.judged(1, told, swap.REFUSED_BY_LINKER)


class Ends(unittest.TestCase):
    def test_a_process_that_is_not_waited_for_is_killed(self):
        process = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, start_new_session=True)
        with mock.patch.object(mutants, "used_and_awake", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            mutants.output_of(process)
        self.assertEqual(process.returncode, -9)

    def test_a_program_does_not_outlive_a_script_that_is_killed(self):
        script = ('import subprocess, sys, time; sys.path.insert(0, sys.argv[1]); import swap\n'
                  'subprocess.Popen(["sleep", "60"], start_new_session=True, preexec_fn=swap.limits(9, 0)); print(flush=True); time.sleep(60)')
        process = subprocess.Popen([sys.executable, "-c", script, tree.path("ci")], stdout=subprocess.PIPE)
        process.stdout.readline()
        process.kill()
        begun = time.monotonic()
        process.communicate()  # to the end of both
        self.assertLess(time.monotonic() - begun, 10)

    def tried(self, *outcomes):
        """What try_all says of mutants with these outcomes, or the outcome of a call, by one worker; and what it recorded."""
        recorded = []
        state = types.SimpleNamespace(verdict_of=lambda _: None, stages_of=lambda _: ["props"],
                                      add=lambda mutant, verdict: recorded.append(mutant["id"]))
        worker = mock.Mock(**{"try_mutant.side_effect": outcomes if len(outcomes) > 1 else outcomes[0]})
        every = [mutant_of(after) for after in "bcd"]
        finished = None
        with mock.patch.object(mutants, "Worker", return_value=worker), contextlib.suppress(tree.BuildFailed):
            finished = mutants.try_all(every, state, types.SimpleNamespace(lock=threading.Lock()), 1)
        return finished, recorded

    SURVIVED = {"verdict": mutants.SURVIVED, "stage": "", "details": ""}

    def test_a_compiler_that_fails_ends_the_run_and_is_no_verdict(self):
        self.assertEqual(self.tried(self.SURVIVED, self.SURVIVED, self.SURVIVED), (True, ["b1", "c1", "d1"]))
        self.assertEqual(self.tried(self.SURVIVED, tree.BuildFailed("no room"), self.SURVIVED), (None, ["b1"]))

    def test_an_interruption_records_nothing_more(self):
        killed = threading.Event()

        def interrupted(_):
            os.kill(os.getpid(), signal.SIGTERM)
            killed.wait(10)
            return self.SURVIVED

        with mock.patch.object(tree, "kill_below", killed.set):
            self.assertEqual(self.tried(interrupted), (False, []))


class Times(unittest.TestCase):
    def test_a12_ranks_what_never_ended_last(self):
        self.assertEqual(detection.a12([1, 2], [math.inf, math.inf]), 1.0)
        self.assertEqual(detection.a12([math.inf], [3]), 0.0)
        self.assertEqual(detection.a12([math.inf], [math.inf]), 0.5)
        self.assertEqual(detection.a12([1, 3], [2, 2]), 0.5)


class Failures(unittest.TestCase):
    def test_one_that_fails_ends_the_rest(self):
        done = []

        def work(number):
            if number == 0:
                raise tree.BuildFailed("no room")
            time.sleep(0.05)
            done.append(number)

        with mock.patch.dict(os.environ, {"JOBS": "1"}), self.assertRaises(tree.BuildFailed):
            detection.in_parallel([(number,) for number in range(200)], work, "runs")
        self.assertLess(len(done), 100)

    def test_afl_ends_its_fork_servers_itself(self):
        self.assertEqual({engine: detection.last_signal_of(engine) for engine in (*detection.ENGINES, *detection.BASELINES)},
                         {"props": signal.SIGKILL, "libFuzzer": signal.SIGKILL, "AFL++": signal.SIGTERM, "raw libFuzzer": signal.SIGKILL,
                          "raw AFL++": signal.SIGTERM, "unit": signal.SIGKILL})

    def interrupted(self, work):
        """What is kept of work that is under way when the end is wished for, and how long it took to end."""
        kept = []
        begun = time.monotonic()
        with mock.patch.dict(os.environ, {"JOBS": "1"}):
            self.assertFalse(detection.in_parallel([(number,) for number in range(3)], work, "runs", lambda *result: kept.append(result)))
        return kept, time.monotonic() - begun

    def test_nothing_is_kept_that_an_end_may_have_cut_short(self):
        kept = []
        self.assertTrue(detection.in_parallel([(1,), (2,)], lambda number: (number, "found") if number == 1 else None, "runs",
                                              lambda *result: kept.append(result)))
        self.assertEqual(kept, [(1, "found")])

        def under_way(number):
            os.kill(os.getpid(), signal.SIGTERM)
            process = tree.start(["sleep", "60"])
            process.wait()
            return number, process.returncode

        def that_fails(number):
            raise suite.Failed(f"run {under_way(number)} was cut short")

        for work in (under_way, that_fails):
            kept, took = self.interrupted(work)
            self.assertEqual(kept, [])
            self.assertLess(took, 10)

    def test_what_does_not_fail_any_more_was_not_shrunk(self):
        with tempfile.TemporaryDirectory() as folder:
            program, path = os.path.join(folder, "fuzz_suite"), os.path.join(folder, "input")
            for code, fails in ((0, False), (1, True)):
                with open(program, "w") as file:
                    file.write(f"#!/bin/sh\nexit {code}\n")
                os.chmod(program, 0o755)
                self.assertFalse(detection.still_fails(folder, "order", os.path.join(folder, "none")))
                open(path, "w").close()
                self.assertEqual(detection.still_fails(folder, "order", path), fails)

    def shrunk(self, judge, fuzz_suite="", tmin=""):
        """What comes of shrinking by programs that are such scripts, of a case that fails as long as it is there."""
        patch = types.SimpleNamespace(name="a-fault")
        with tempfile.TemporaryDirectory() as folder:
            fuzz_suite = f'case "$*" in *minimize*) {fuzz_suite or ":"};; *) exit 1;; esac'
            for name, script in (("judge", judge), ("fuzz_suite", fuzz_suite), ("afl-tmin", tmin)):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(f"#!/bin/sh\n{script}\n")
                os.chmod(os.path.join(folder, name), 0o755)
            with mock.patch.object(detection, "FOLDER", folder), mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}):
                return detection.shrink_once(patch, folder, "order", 1)

    def test_targets_do_not_outlive_who_shrinks(self):
        fuzz_afl.adopt_orphans()
        self.addCleanup(tree.LIBC.prctl, tree.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        before = set(tree.children())
        left = 'for target; do :; done; cp "$(command -v sleep)" "$target"; setsid "$target" 60 > /dev/null 2>&1 & sleep 0.2'
        self.assertEqual(self.shrunk(self.JUDGE, tmin=left)["AFL++"], 9)
        self.assertEqual(set(tree.children()), before)

    JUDGE = 'case $1 in find) echo 12345678 > "$4"; exit 1;; shrink) echo 12 > "$4";; size) wc -c < "$3";; esac'

    def test_a_tool_that_cannot_shrink_is_not_one_that_shrank_nothing(self):
        for said in ("ERROR: the input start did not crash", "[-] PROGRAM ABORT : Target binary times out (adjusting -t may help)"):
            sizes = self.shrunk(self.JUDGE, f"echo '{said}'; exit 1", f"echo '{said}'; exit 1")
            self.assertEqual([sizes[name] for name in ("start", *detection.TOOLS)], [9, 3, 9, 9])
        refuses = "echo no such option; exit 1"
        for programs, told in (((self.JUDGE, refuses), "libFuzzer, which shrinks,"), ((self.JUDGE, "", refuses), "AFL[+][+], which shrinks,"),
                               ((self.JUDGE.replace("echo 12 >", "echo no such option; exit 2; :"),), "ours, which shrinks,"),
                               (("echo no such option; exit 2",), "judge find"),
                               ((self.JUDGE.replace("wc -c", "echo no such option; exit 2; :"),), "judge size")):
            with self.subTest(told), self.assertRaisesRegex(suite.Failed, f"(?s)^{told} did not run .*no such option"):
                self.shrunk(*programs)


RUN = {"seconds": 0.5, "reached": 3, "triggered": 1, "by": "equivalence"}


class Runs(unittest.TestCase):
    def test_damaged_lines_are_run_again(self):
        key = ["0123", "rank-below-zero", "props", 1, 30]
        shrunk = {"key": [*key[:2], "shrink", 1, 20], "law_of": "equivalence", "start": 30, "ours": 4, "libFuzzer": None, "AFL++": 5,
                  "ours seconds": 0.1, "libFuzzer seconds": 10.2, "AFL++ seconds": 1}
        lines = [b"{}", b"7", b"[]", b"null", b'{"key":5}', b'{"key":[1,2]}', b'{"key":[[],{},"props",1,30]}', b"\xff\xfe\x00", b"", b'{"key":["a',
                 *(json.dumps(line).encode() for line in (
                     {"key": key}, {"key": key, **RUN, "seconds": "soon"}, {"key": key, **{**RUN, "by": 3}},
                     {**shrunk, "law_of": None}, {**shrunk, "AFL++ seconds": None}, {"key": [*key[:2], "smallest", 0, 20], "law_of": "scale"}))]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "runs.jsonl")
            self.assertEqual(detection.runs_of(path), {})
            good = [{"key": key, **RUN}, {"key": [*key[:3], 2, 30], **RUN, "seconds": None, "by": None}, shrunk]
            with open(path, "wb") as file:
                file.write(b"\n".join([*lines, *(json.dumps(line).encode() for line in good), b'{"key": ["cut off']))
            self.assertEqual(list(detection.runs_of(path).values()), good)

    def test_crashes_hangs_and_tests_are_told_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIsNone(detection.what_was_found("raw libFuzzer", folder, 0))
            self.assertIsNone(detection.what_was_found("AFL++", folder, 0))
            for engine, path, what in (("libFuzzer", "timeout-1", "a hang"), ("libFuzzer", "crash-1", "a crash"),
                                       ("raw AFL++", "out/default/hangs/id:1", "a hang"), ("raw AFL++", "out/default/crashes/id:1", "a crash")):
                os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
                open(os.path.join(folder, path), "w").close()
                self.assertEqual(detection.what_was_found(engine, folder, 0), what)
        self.assertEqual([detection.what_was_found("props", "", status) for status in (0, -signal.SIGPROF, -signal.SIGSEGV, -signal.SIGTERM)],
                         [None, "a hang", "a crash", None])
        self.assertEqual(detection.what_was_found("unit", "", 1), "a test")

    def ended(self, engine, script, seconds=1):
        patch = types.SimpleNamespace(name="a-fault")
        with tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                detection, FOLDER=folder, GRACE_SECONDS=1, command_of=lambda *_: ["sh", "-c", script]):
            return detection.run_once(patch, folder, engine, 1, seconds)["by"]

    def test_what_did_not_look_did_not_miss_anything(self):
        for engine in (*detection.ENGINES, *detection.BASELINES):
            for end in ("exit 2", "exit 127", "kill -KILL $$", "kill -TERM $$", *["exit 0"] * (engine != "unit")):
                with self.subTest(engine, end=end), self.assertRaisesRegex(suite.Failed, f"(?s)^{re.escape(engine)} did not .*no such option"):
                    self.ended(engine, f"echo no such option; {end}")
            self.assertIsNone(self.ended(engine, "exit 0" if engine == "unit" else "sleep 0.3", 0.3))
        for engine in ("libFuzzer", "raw libFuzzer", "props"):
            self.assertEqual(self.ended(engine, "kill -SEGV $$"), "a crash")
        for said, by in detection.SAID_OF_ALL_INPUTS.items():
            self.assertEqual(self.ended("raw AFL++", f"echo '[-] PROGRAM ABORT : {said}'; exit 1"), by)
        self.assertIsNone(self.ended("props", "exec sleep 60"))

    def test_runs_stand_on_the_machine_and_on_how_many_there_are_at_once(self):
        patch = mock.Mock(text="")
        keys = set()
        for machine, jobs in (("one", "1"), ("one", "2"), ("two", "1")):
            with mock.patch.object(tree, "machine", lambda machine=machine: machine), mock.patch.dict(os.environ, {"JOBS": jobs}):
                detection.circumstances.cache_clear()
                keys.add(detection.key_of(patch, "props", 1, 30))
                keys.add(detection.shrinking_key(patch, "order", "shrink", 1))
                keys.add(detection.shrinking_key(patch, "splits", "shrink", 1))
        detection.circumstances.cache_clear()
        self.assertEqual(len(keys), 9)

    def test_a_crash_within_malloc_is_found_when_it_is_told(self):
        """libFuzzer waits for memory then, or crashes once more, and saves nothing."""
        patch = types.SimpleNamespace(name="a-fault")
        crash = "==7== ERROR: libFuzzer: deadly signal"
        for told, end, by in ((crash, "exec sleep 60", "a crash"), (crash, "kill -ABRT $$", "a crash"), ("#2 INITED", "exec sleep 60", None),
                              ("Done 100 runs", "exec sleep 1", None)):
            with self.subTest(told, end=end), tempfile.TemporaryDirectory() as folder, mock.patch.multiple(
                    detection, FOLDER=folder, GRACE_SECONDS=1, command_of=lambda *_, told=told, end=end: ["sh", "-c", f"echo '{told}'; {end}"]):
                found = detection.run_once(patch, folder, "libFuzzer", 1, 1)
                self.assertEqual(found["by"], by)
                self.assertEqual(found["seconds"] is not None and found["seconds"] < 1.5, by is not None)

    def test_half_of_the_runs_is_no_median(self):
        patch = mock.Mock(text="", fields=dict)
        patch.name = "a-fault"
        for found, median in ((5, None), (6, 0.5)):
            runs = {detection.key_of(patch, engine, seed, 30): {**RUN, **({} if seed <= found else {"seconds": None, "by": None})}
                    for engine in (*detection.ENGINES, *detection.BASELINES) for seed in range(1, 11)}
            figures = detection.figures(types.SimpleNamespace(runs=runs), [patch], 10, 30)[0]
            self.assertEqual(figures["engines"]["AFL++"]["median"], median)

    def test_the_control_has_all_seeds(self):
        jobs = [(engine, seed) for _, engine, seed in detection.control_jobs(3)]
        for engine in (*detection.ENGINES, *detection.BASELINES):
            self.assertEqual([seed for name, seed in jobs if name == engine], [1] if engine == "unit" else [1, 2, 3])
        state = mock.Mock(runs={detection.key_of(*task, 30): {**RUN, "seconds": None, "by": None} for task in detection.control_jobs(3)})
        self.assertFalse(any(alarm["found"] for alarm in detection.false_alarms(state, 3, 30).values()))
        state.runs[detection.key_of(detection.CONTROL, "AFL++", 2, 30)] = {**RUN, "by": "a hang"}
        alarms = detection.false_alarms(state, 3, 30)
        self.assertEqual(alarms["AFL++"], {"found": 1, "of": 3, "by": {"a hang": 1}})
        self.assertEqual(alarms["unit"], {"found": 0, "of": 1, "by": {}})
        goal = metrics.alarm_goal(alarms)
        self.assertFalse(goal.reached)
        self.assertIn("props 0 of 3, libFuzzer 0 of 3, AFL++ 1 of 3 (1 by a hang), raw libFuzzer 0 of 3", goal.got)


def row(name, median=1.0, found=2, raw=1.0, unit=1.0, untriggered=0):
    engine = {"times": [median] * 2, "median": median, "found": found, "of": 2, "reached": True, "triggered": True, "untriggered": untriggered,
              "laws": {"equivalence": found}}
    return {"name": name, "source": "https://", "engines": {each: engine for each in detection.ENGINES + detection.BASELINES},
            "a12": {"raw": {each: raw for each in detection.ENGINES}, "unit": {each: unit for each in detection.ENGINES}}}


def measured(*rows, **more):
    numbers = {"rows": list(rows), "seeds": 2, "limit": 30, "jobs": 1, "seconds": 4321, **more}
    return {"command": "ci/detection.py", "machine": "m", "date": "d", "commit": "c", "load": 0.5, "numbers": numbers}


class Goals(unittest.TestCase):
    def reached(self, *rows):
        return [goal.reached for goal in metrics.detection_goals(measured(*rows)["numbers"])]

    def test_each_is_told(self):
        self.assertEqual(self.reached(row("a"), row("b")), [True] * 7)
        self.assertEqual(self.reached(row("a", found=1)), [True, False] + [True] * 5)
        self.assertEqual(self.reached(row("a", median=None, found=0)), [False] * 3 + [True] * 4)
        self.assertEqual(self.reached(row("a", median=5.0)), [True, True, False] + [True] * 4)
        self.assertEqual(self.reached(row("a"), row("b"), row("c", raw=0.5)), [True] * 4 + [False, True, True])
        self.assertEqual(self.reached(row("a", unit=0.5)), [True] * 5 + [False, False])

    def test_the_median_decides(self):
        self.assertTrue(metrics.detection_reached(measured(row("a"), row("b"), row("c", raw=0.5))["numbers"]))
        self.assertFalse(metrics.detection_reached(measured(row("a", raw=0.5))["numbers"]))
        self.assertTrue(metrics.detection_reached(measured(row("a", found=1))["numbers"]))
        self.assertFalse(metrics.detection_reached(measured(row("a", found=0))["numbers"]))

    def test_the_page_names_what_is_below(self):
        page = metrics.detection_section(measured(row("a"), row("b"), row("c", raw=0.5, untriggered=1)))
        self.assertIn("| A12 of 0.9 against raw bytes, in the median over faults and engines | 1.00 | reached |", page)
        self.assertIn("| A12 of 0.9 against raw bytes, for every fault and engine | below for 3 of 9: c (props, libFuzzer, AFL++) | **missed** |", page)
        self.assertIn("or something else was found: c (props, ", page)
        self.assertIn(", took 4,321 s.", page)
        self.assertNotIn("false alarm", page)
        self.assertIn("| runs that found something: props 0 of 2 | reached |",
                      metrics.detection_section(measured(row("a"), alarms={"props": {"found": 0, "of": 2, "by": {}}})))


class Damage(unittest.TestCase):
    def test_a_measurement_that_cannot_be_told_is_none(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(metrics, "KEPT", folder):
            whole = {**measured(row("a")), "of": "0123"}
            for numbers in (whole["numbers"], {}, {**whole["numbers"], "rows": []}, {**whole["numbers"], "rows": [1]}, {**whole["numbers"], "alarms": 5},
                            {**whole["numbers"], "seconds": "x"}):
                with open(metrics.place_of("detection"), "w") as file:
                    json.dump({**whole, "numbers": numbers}, file)
                self.assertEqual(metrics.kept("detection") is not None, numbers is whole["numbers"], numbers)
            with open(metrics.place_of("detection"), "w") as file:
                file.write("[" * 100000)
            self.assertIsNone(metrics.kept("detection"))


class Measurements(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.kept = os.path.join(self.folder, "docs", "metrics")
        stack.enter_context(mock.patch.multiple(metrics, KEPT=self.kept, PAGE=os.path.join(self.folder, "docs", "METRICS.md"),
                                                PLOT=os.path.join(self.folder, "docs", "detection.svg"), SECTIONS=metrics.SECTIONS[:1],
                                                MEASURED={"mutants": metrics.MEASURED["mutants"]}))
        stack.enter_context(mock.patch.dict(os.environ, {"CPROUTE_COMMIT": "abc", **{name: "" for name in metrics.SETTINGS}}))
        self.output = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(self.output))
        os.makedirs(self.kept)

    NUMBERS = {"files": ["a.c"], "mutants": 9, "dropped": {}, "stages": {}, "survivors": [], "equivalent": 0, "killed_before_fuzzing": 98.0,
               "killed": 99.5, "fuzz_seconds": 10, "seconds": 1234}

    def test_damaged_ones_are_not_measured(self):
        for content in (b"", b"{", b"[]", b"5", b"{}", b'{"numbers": {}}', b"\xff\xfe\xff"):
            with open(metrics.place_of("mutants"), "wb") as file:
                file.write(content)
            self.assertIsNone(metrics.kept("mutants"))
            metrics.write_page()
            with open(metrics.PAGE) as file:
                self.assertIn("not measured here: `FUZZ_SECONDS=60 ci/mutants.py`", file.read())

    def keep(self, numbers=NUMBERS, reached=True, fuzz_seconds=60):
        metrics.Measurement("mutants", MUTANTS=None, FUZZ_SECONDS=fuzz_seconds).keep(numbers, reached)

    def is_good(self):
        return metrics.is_of_these_sources(metrics.kept("mutants"), "mutants")

    def test_one_is_good_as_long_as_what_it_stands_on_is(self):
        self.assertFalse(self.is_good())
        self.keep()
        self.assertTrue(self.is_good())
        with mock.patch.dict(os.environ, {"CPROUTE_COMMIT": "def"}):
            self.assertTrue(self.is_good())
        with mock.patch.object(metrics, "grounds", lambda name: "other"):
            self.assertFalse(self.is_good())
        self.assertNotEqual(metrics.grounds("mutants"), metrics.grounds("detection"))
        self.assertEqual(os.listdir(self.kept), ["mutants.json"])

    def test_one_with_less_than_asked_is_a_look(self):
        self.keep(fuzz_seconds=59)
        self.assertEqual(os.listdir(self.kept), [])
        self.assertIn("a look, and no measurement: METRICS.md takes FUZZ_SECONDS=60 or more", self.output.getvalue())
        self.keep()
        self.keep({**self.NUMBERS, "mutants": 1}, fuzz_seconds=0)
        self.assertEqual(metrics.kept("mutants")["numbers"]["mutants"], 9)

    def test_nothing_is_kept_of_sources_that_were_changed_meanwhile(self):
        measurement = metrics.Measurement("mutants", FUZZ_SECONDS=60)
        told = io.StringIO()
        for reached, code in ((True, tree.EXIT_USAGE), (False, tree.EXIT_FINDINGS)):
            with mock.patch.object(metrics, "grounds", lambda name: "other"), contextlib.redirect_stderr(told):
                self.assertEqual(measurement.keep(self.NUMBERS, reached), code)
        self.assertIn("changed meanwhile", told.getvalue())
        self.assertEqual(os.listdir(self.kept), [])
        with mock.patch.dict(os.environ, {"CPROUTE_COMMIT": "def"}):
            measurement.keep(self.NUMBERS, True)
        self.assertEqual(metrics.kept("mutants")["commit"], "abc")

    def test_what_would_end_a_night_is_refused_before_it(self):
        for name in metrics.SETTINGS:
            with mock.patch.dict(os.environ, {name: "3"}), mock.patch("sys.argv", ["metrics.py"]), \
                    self.assertRaisesRegex(tree.WrongUse, f"^{name}=3: .* only JOBS= is taken"):
                metrics.run()
        for given, told in (({"JOBS": "-1"}, "JOBS=-1"), ({"PATH": self.folder}, "afl-fuzz is missing")):
            with mock.patch.dict(os.environ, given), mock.patch("sys.argv", ["metrics.py"]), self.assertRaisesRegex(tree.WrongUse, told):
                metrics.run()

    def test_one_that_does_not_say_is_shown_and_made_again(self):
        self.keep()
        old = metrics.kept("mutants")
        del old["of"]
        with open(metrics.place_of("mutants"), "w") as file:
            json.dump(old, file)
        self.assertFalse(self.is_good())
        metrics.write_page()
        with open(metrics.PAGE) as file:
            self.assertIn("commit abc", file.read())

    def test_survivors_are_told_by_name(self):
        survivor = {"file": "engine/a.c", "line": 7, "operator": "dropped", "before": "a = b | c;", "after": ";"}
        for survivors in ([], [survivor]):
            self.keep({**self.NUMBERS, "survivors": survivors})
            metrics.write_page()
            with open(metrics.PAGE) as file:
                page = file.read()
            self.assertIn(f"| survived | {len(survivors)} |", page)
            self.assertEqual("- engine/a.c:7, dropped: `a = b | c;` became `;`\n" in page, bool(survivors))

    def measuring(self, code, keep):
        def script(*_):
            if keep:
                self.keep(reached=code == 0)
            return code

        with mock.patch.object(metrics.Child, "exit_code_of", script), mock.patch("sys.argv", ["metrics.py"]):
            return metrics.run()

    def test_the_worst_exit_code_is_passed_on(self):
        self.assertEqual(self.measuring(1, True), 1)
        self.assertEqual(self.measuring(0, True), 1)  # measured before, and missed then
        with open(metrics.PAGE) as file:
            self.assertIn("**A goal was missed.**", file.read())
        os.remove(metrics.place_of("mutants"))
        self.assertEqual(self.measuring(0, True), 0)
        self.assertEqual(self.measuring(1, False), 0)  # nothing is measured again

    def test_a_wish_to_end_is_passed_on_and_nothing_else_is_measured(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            asked = os.path.join(self.folder, f"asked-{number}")
            script = os.path.join(self.folder, "script.py")
            with open(script, "w") as file:
                file.write(f"import os, signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: open({asked!r}, 'a').close() or time.sleep(1) or sys.exit(0))\n"
                           f"os.kill(os.getppid(), {int(number)})\ntime.sleep(60)\n")
            with mock.patch.object(metrics, "MEASURED", {name: (script, {}) for name in metrics.MEASURED}), \
                    mock.patch("sys.argv", ["metrics.py"]), self.subTest(number):
                self.assertEqual(metrics.run(), tree.EXIT_INTERRUPTED)
                self.assertTrue(os.path.exists(asked))
            self.assertEqual(self.output.getvalue().count("measuring: "), 1)
            self.output.truncate(0)

    def test_a_wish_to_end_that_comes_before_the_script_runs_is_passed_on(self):
        child = metrics.Child()
        child.tell()
        self.assertEqual(child.exit_code_of(["sleep", "60"], dict(os.environ)), -signal.SIGINT)

    def test_an_older_measurement_is_none_of_this_run(self):
        for code, told in ((0, 1), (1, 1), (2, 2), (130, 130), (-9, 1)):
            with open(metrics.place_of("mutants"), "w") as file:
                json.dump({**measured(), "numbers": self.NUMBERS}, file)
            self.assertEqual(self.measuring(code, False), told)
            self.assertIn("kept no measurement mutants", self.output.getvalue())

    def test_measurements_make_no_commit_dirty(self):
        def git(*arguments):
            subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

        git("init", "-q")
        names = ["a.c", "docs/METRICS.md", "docs/metrics/mutants.json"]
        for name in names:
            with open(os.path.join(self.folder, name), "w") as file:
                file.write("1\n")
        git("add", ".")
        git("commit", "-qm", "a")
        with mock.patch.object(tree, "ROOT", self.folder), mock.patch.dict(os.environ, {"CPROUTE_COMMIT": ""}), \
                mock.patch.object(metrics, "WRITTEN", (metrics.KEPT, metrics.PAGE, metrics.PLOT)):
            clean = tree.commit()
            self.assertEqual(metrics.commit(), clean)
            for name in names[1:]:
                with open(os.path.join(self.folder, name), "w") as file:
                    file.write("2\n")
            self.assertEqual((tree.commit(), metrics.commit()), (clean + "-dirty", clean))
            with open(os.path.join(self.folder, "a.c"), "w") as file:
                file.write("2\n")
            self.assertEqual(metrics.commit(), clean + "-dirty")


if __name__ == "__main__":
    unittest.main()
