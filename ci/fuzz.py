#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the laws with libFuzzer under ASan and UBSan: what `make fuzz` runs.

    FUZZ_SECONDS=60   for all laws together
    LAW=a,b           only these laws
    JOBS=n            processes at once; all processors if not given

Ctrl-C ends it early and still reports; a second one does not wait for an input that may hang. Exit code 0: clean, 1: findings, or the
canary was not found, or a law was not fuzzed, 2: wrong use, 130: ended before every law had a case.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import campaign
import corpora
import tree
import triage

SPEED_SECONDS = 3
SPEED_LAW = "equivalence"
# Room for the longest drawn case, and a little to mutate with.
LONGEST_INPUT = 256
HANG_SECONDS = 10
ARTIFACTS = os.path.join(tree.BUILD, "fuzz-artifacts")
# How often an edge was taken is no feedback here: it follows the number of tokens, costs half of the speed, and leads to no edge
# that is not found without.
LIBFUZZER_OPTIONS = [f"-max_len={LONGEST_INPUT}", f"-timeout={HANG_SECONDS}", "-rss_limit_mb=2048", "-print_final_stats=1",
                     "-use_value_profile=0", "-use_counters=0"]


# A case takes kilobytes, so this is thousands of cases; the default of 256 MiB is a third slower for its page faults.
ASAN_OPTIONS = "quarantine_size_mb=16:allocator_may_return_null=1"


def fuzz_environment():
    return tree.environment(ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", ASAN_OPTIONS))


def last_number(pattern, text):
    numbers = re.findall(pattern, text, re.MULTILINE)
    return int(numbers[-1]) if numbers else 0


def executed(text):
    """Cases that a libFuzzer process ran, by its output so far."""
    return max(last_number(r"^#(\d+)", text), last_number(r"^stat::number_of_executed_units: (\d+)", text))


def fresh_artifacts(law, name):
    """An empty folder for what fails."""
    folder = os.path.join(ARTIFACTS, law, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


class Unmeasured(tree.Failed):
    """No fault was found, and no speed."""


class LibFuzzerRun(campaign.Run):
    # Heard between two inputs, so that one that hangs is called a timeout and saved; SIGINT drops it. While libFuzzer loads a corpus it
    # hears nothing.
    END_SIGNAL = signal.SIGUSR1
    # It looks for hangs every half of that time, and has a report to write.
    GRACE_SECONDS = 3 * HANG_SECONDS

    def __init__(self, law, number, binary, seconds):
        self.artifacts = fresh_artifacts(law, str(number))
        corpus = corpora.common(law)
        os.makedirs(corpus, exist_ok=True)
        command = [binary, *LIBFUZZER_OPTIONS, f"-artifact_prefix={self.artifacts}/", corpus, *corpora.seeds_of(law)]
        super().__init__(law, command, fuzz_environment(), seconds, os.path.join(self.artifacts, "log"))

    def numbers(self):
        text = self.log_text()
        return {
            "cases": executed(text),
            "seconds": self.seconds(),
            "edges": last_number(r"\bcov: (\d+)", text),
            "new": max(len(re.findall(r"^#\d+\s+NEW ", text, re.MULTILINE)),
                       last_number(r"^stat::new_units_added: +(\d+)", text)),
        }

    def failing_inputs(self, stop):
        """Not among them is what it saves because it is only slow, as slow-unit-*, and goes on after."""
        reason = triage.reason_of(self.log_text()) or "crash"
        return [(name, reason) for name in triage.failing_inputs_below(self.artifacts)]

    def broken(self):
        """Without an input, it is also what a failure leaves that struck within malloc: libFuzzer waits there for the memory to save the
        input with, until it is interrupted."""
        log = self.log_text()
        return not self.interrupted or triage.reason_of(log) is not None or (self.stuck and "INITED" in log)


class LibFuzzer:
    name = "libFuzzer"
    longest_run = 10

    def __init__(self, preset="fuzz", name=name):
        self.preset = preset
        self.name = name

    def binary(self, law):
        return tree.fuzz_target(self.preset, law)

    def prune(self, law, stop):
        """Keeps of a law's common corpus what reaches all of its edges; (files before, files after)."""
        return corpora.prune(law, self.binary(law), LIBFUZZER_OPTIONS, self.merge_artifacts(law), stop)

    def merge_artifacts(self, law):
        return os.path.join(ARTIFACTS, law, "merge")

    def failing_in_merge(self, law, judges=(), over=triage.never):
        """(path, reason) of inputs on which pruning failed, and which it drops."""
        return self.failing_again(law, self.merge_artifacts(law), judges, over)

    def failing_again(self, law, artifacts, judges=(), over=triage.never):
        """(path, reason) of what a process saved and nobody judged. A hang that is none belongs to the common corpus."""
        saved = triage.failing_inputs_below(artifacts)
        hangs = [path for path in saved if triage.is_called_a_hang(path)]
        yield from triage.crashed((self.preset, *judges), law, [path for path in saved if path not in hangs], over)
        for path in hangs:
            reason = triage.judge(self.binary(law), path, over)
            if reason:
                yield path, reason
            else:
                corpora.admit(law, path)

    def failing_seeds(self, law, stop):
        """It ends at the first of them, in every run, and tells it."""
        return ()

    def start(self, law, number, seconds):
        return LibFuzzerRun(law, number, self.binary(law), seconds)

    def canary(self, seconds, over=triage.never):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            command = [self.binary("canary"), *LIBFUZZER_OPTIONS, f"-max_total_time={seconds}", f"-artifact_prefix={folder}/"]
            _, printed = triage.output_of(command, seconds + campaign.STOP_GRACE_SECONDS, over, env=fuzz_environment())
            took = time.monotonic() - begun
        return took if "law canary failed" in printed else None

    def measure(self, law, seconds, folders):
        """(cases for each second of processor time, edges) of one process that starts from the inputs in `folders` and writes what
        it finds into the first; 0 seconds: it only runs those. Processor time, because that is what one core does, also while the
        machine does other things."""
        limit = f"-max_total_time={seconds}" if seconds else "-runs=0"
        artifacts = fresh_artifacts(law, "measured")
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            process = tree.start([self.binary(law), *LIBFUZZER_OPTIONS, limit, f"-artifact_prefix={artifacts}/", *folders],
                                 stdout=log, stderr=subprocess.STDOUT, env=fuzz_environment())
            try:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            except BaseException:
                tree.end(process)
                raise
            log.seek(0)
            text = log.read()
        if process.returncode:
            self.refuse_what_failed(law, artifacts, text)
        return round(executed(text) / max(usage.ru_utime + usage.ru_stime, 0.01)), last_number(r"\bcov: (\d+)", text)

    def refuse_what_failed(self, law, artifacts, text):
        kept = [f"{tree.relative(triage.keep(law, path))}: {reason}" for path, reason in self.failing_again(law, artifacts)]
        if not kept and triage.reason_of(text) == "libFuzzer: timeout":
            raise Unmeasured(f"not measured: an input of {law} took over {HANG_SECONDS} s and holds when it is run again, as happens where the machine"
                             " does other things")
        raise tree.Failed("\n".join([f"{law} failed while its speed was measured", *kept, *([] if kept else [campaign.last_lines(text)])]))

    def speed(self, law, seconds):
        """Cases for each second of processor time, from all inputs that are known."""
        with tempfile.TemporaryDirectory() as fresh:
            return self.measure(law, seconds, [fresh, *corpora.inputs_of(law)])[0]

    def edges(self, law, seconds):
        """(edges reached from an empty corpus, edges that any input is known to reach, those just found included)"""
        with tempfile.TemporaryDirectory() as found:
            _, reached = self.measure(law, seconds, [found])
            _, kept = self.measure(law, 0, [found, *corpora.inputs_of(law)])
        # What was reached by an input that was not kept is known to be reachable too.
        return reached, max(reached, kept)


def print_figures():
    """What one core does on the law that matters most."""
    fast = LibFuzzer("fuzz-fast")
    for label, engine in (("plain", fast), ("ASan + UBSan", LibFuzzer())):
        rate = engine.speed(SPEED_LAW, SPEED_SECONDS)
        print(f"speed: {SPEED_LAW}, one core, {label}: {rate:,} cases/s", flush=True)
    reached, full = fast.edges(SPEED_LAW, SPEED_SECONDS)
    print(f"edges: {SPEED_LAW}, from an empty corpus in {SPEED_SECONDS} s: {reached:,} of the {full:,} that all known inputs"
          f" reach, {100 * reached / max(full, 1):.1f} %", flush=True)


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments: FUZZ_SECONDS=, LAW= and JOBS= are read from the environment")
    seconds, laws, jobs = campaign.settings()
    tree.alone("fuzzing")
    print(f"building the fuzz targets, {tree.commit()}", flush=True)
    targets = [f"fuzz_{law}" for law in laws] + ["fuzz_canary"]
    tree.build("release", "cproute")
    tree.build("fuzz", *targets, f"fuzz_{SPEED_LAW}")
    tree.build("fuzz-fast", f"fuzz_{SPEED_LAW}")
    corpora.make_seeds()
    engine = LibFuzzer()
    with tree.Stop(tree.kill_below) as telling:
        with tree.Stop() as stop:
            left = triage.salvage(laws, [engine.preset], lambda: stop.asked)
            canary_found = campaign.canary_found(engine, lambda: stop.asked)
            print(f"fuzzing {len(laws)} laws for {seconds:g} s with {jobs} processes", flush=True)
            fuzzing = campaign.Campaign(engine, laws, seconds, jobs, stop)
            fuzzing.run()
        triage.report(left, telling)
        fuzzing.report(telling)
        code = campaign.exit_code([fuzzing], canary_found and not left)
    if code == tree.EXIT_CLEAN and not fuzzing.stopped:
        try:
            print_figures()
        except Unmeasured as why:
            print(why, flush=True)
    return code


if __name__ == "__main__":
    tree.main(run)
