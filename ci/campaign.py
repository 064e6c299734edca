# SPDX-License-Identifier: Apache-2.0
"""A fuzzing campaign: shares time between laws, tells how it goes, shrinks and reports what was found.

What differs between fuzzers is an engine (ci/fuzz.py, ci/fuzz_afl.py) with
    name                          how it calls itself
    longest_run                   seconds after which a run is ended and another may start
    binary(law)                   its fuzz target
    start(law, number, seconds)   a Run, which is interrupted after so long; `number` tells apart runs of one law
    failing_seeds(law, stop)      (path, reason) of what fails of that which its runs start from, if they do not tell
    canary(seconds, over)         seconds until the planted bug was found, or None; raises triage.Unjudged when it is over()
"""

import math
import os
import signal
import subprocess
import threading
import time

import corpora
import history
import tree
import triage

SHORTEST_RUN_SECONDS = 0.5
OVERHEAD_OF_A_RUN_SECONDS = 0.15
# A law that failed so often has no further turn.
MOST_FAILURES_OF_A_LAW = 5
STOP_GRACE_SECONDS = 5
PATIENCE_IS_TOLD_AFTER_SECONDS = 2
CANARY_SECONDS = 10
RECENT_BYTES = 16384


class Run:
    """One process of a fuzzer that fuzzes one law. Engines extend it."""

    END_SIGNAL = signal.SIGINT
    # What it gets when nobody is left to end it.
    LAST_SIGNAL = signal.SIGKILL
    # How long it may take from there to its end, the time included after which it calls an input a hang.
    GRACE_SECONDS = STOP_GRACE_SECONDS

    def __init__(self, law, command, environment, limit, log_path=None):
        """Output goes to the file at `log_path`, or if there is none its end is kept in memory."""
        self.law = law
        self.limit = limit
        self.started = time.monotonic()
        self.ended = None
        self.asked_at = None
        self.stuck = False
        self.log_path = log_path
        log = open(log_path, "wb") if log_path else subprocess.PIPE
        self.process = tree.start(command, self.LAST_SIGNAL, cwd=tree.ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment)
        self.recent = b""
        self.reader = None
        if log_path:
            log.close()
        else:
            self.reader = threading.Thread(target=self.read, daemon=True)
            self.reader.start()

    def read(self):
        while True:
            block = os.read(self.process.stdout.fileno(), 65536)
            if not block:
                break
            self.recent = (self.recent + block)[-RECENT_BYTES:]

    def running(self):
        return self.process.poll() is None

    def seconds(self):
        return (self.ended or time.monotonic()) - self.started

    def overdue(self):
        return self.seconds() > self.limit

    def wait(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass

    @property
    def interrupted(self):
        return self.asked_at is not None

    def interrupt(self):
        """Fuzzers take this as a wish to end, and write down what they have. One that takes no notice is ended."""
        if not self.interrupted:
            self.asked_at = time.monotonic()
            self.signal(self.END_SIGNAL)
        elif self.running() and time.monotonic() - self.asked_at > self.GRACE_SECONDS:
            self.stuck = True
            self.signal(signal.SIGKILL)

    def signal(self, number):
        if self.running():
            os.killpg(self.process.pid, number)

    def log_text(self):
        if not self.log_path:
            return self.recent.decode(errors="replace")
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def numbers(self):
        """{"cases":, "edges":, "new":} so far, and the "seconds" since the start when the fuzzer said so; while it runs,
        "crashes" that it saved and that nobody has judged yet, if it goes on after one."""
        raise NotImplementedError

    def failing_inputs(self, stop):
        """(path, reason) of the inputs on which the law or a sanitizer failed. Raises triage.Unjudged where somebody does not want to wait
        for it."""
        raise NotImplementedError

    def broken(self):
        """Did it end in a way that neither a finding nor an interruption explains?"""
        raise NotImplementedError

    def finish(self):
        self.process.wait()
        self.ended = time.monotonic()
        if self.reader:
            self.reader.join(STOP_GRACE_SECONDS)
            self.process.stdout.close()


class Tally:
    """What is known about one law."""

    def __init__(self, law):
        self.law = law
        self.cases = 0
        self.seconds = 0.0
        self.edges = 0
        self.new = 0
        self.stability = None
        self.findings = {}
        self.failures = 0
        self.broken = None
        self.unjudged = False

    def add(self, run, numbers):
        self.cases += numbers["cases"]
        self.seconds += run.seconds()
        self.new += numbers["new"]
        self.see(numbers)

    def see(self, numbers):
        self.edges = max(self.edges, numbers["edges"])
        self.stability = numbers.get("stability") or self.stability

    def rested(self):
        return self.failures >= MOST_FAILURES_OF_A_LAW

    def exhausted(self):
        return self.broken or self.rested()


def last_lines(log):
    return "\n".join("    " + line for line in triage.without_colour(log).strip().splitlines()[-8:])


class Campaign:
    def __init__(self, engine, laws, seconds, jobs, stop=None):
        """A `stop` that is asked for ends this campaign and those that follow it."""
        self.engine = engine
        self.tallies = {law: Tally(law) for law in laws}
        self.seconds = seconds
        self.jobs = jobs
        self.stop = stop or tree.Stop()
        self.number = 0
        self.runs = []  # that were started, and not yet counted
        self.session = f"{time.time():.0f}-{os.getpid()}"

    @property
    def stopped(self):
        return self.stop.asked

    def run(self, seconds=None):
        """May be called again: another turn for every law, which adds to what is known."""
        with self.stop:
            self.run_until_stopped(seconds)

    def run_until_stopped(self, seconds):
        for law in self.tallies:
            self.find_all(law, self.engine.failing_seeds(law, self.stop))
        self.seconds = seconds or self.seconds
        self.begun = time.monotonic()
        self.deadline = self.begun + self.seconds
        self.slice = self.run_length()
        told = time.monotonic()
        try:
            while True:
                for run in [run for run in self.runs if not run.running()]:
                    self.take(run)
                if self.stopped or time.monotonic() >= self.deadline:
                    break
                for run in self.runs:
                    if run.overdue():
                        run.interrupt()
                while len(self.runs) < self.jobs and self.start_next():
                    pass
                if not self.runs:
                    break
                if time.monotonic() - told >= tree.PROGRESS_EVERY_SECONDS:
                    told = time.monotonic()
                    for law in dict.fromkeys(run.law for run in self.runs):
                        self.tell(self.tallies[law])
                time.sleep(0.05)
        finally:
            self.end()

    def run_length(self):
        """Seconds of one run, such that every law has its turn before the time is over."""
        share = self.seconds * self.jobs / len(self.tallies)
        turns = max(1, round(share / self.engine.longest_run))
        rounds = math.ceil(len(self.tallies) * turns / self.jobs)
        return max(SHORTEST_RUN_SECONDS, self.seconds / rounds - OVERHEAD_OF_A_RUN_SECONDS)

    def start_next(self):
        left = self.deadline - time.monotonic()
        if left < SHORTEST_RUN_SECONDS / 2:
            return False
        claimed = {law: tally.seconds for law, tally in self.tallies.items() if not tally.exhausted()}
        for run in self.runs:
            if run.law in claimed:
                claimed[run.law] += self.slice
        if not claimed:
            return False
        law = min(claimed, key=claimed.get)
        self.number += 1
        self.runs.append(self.engine.start(law, self.number, min(self.slice, left)))
        return True

    def end(self):
        told = time.monotonic() + PATIENCE_IS_TOLD_AFTER_SECONDS
        left = self.runs
        while left and not self.stop.again:
            for run in left:
                run.interrupt()
            time.sleep(0.05)
            left = [run for run in left if run.running()]
            if left and time.monotonic() >= told:
                told = math.inf
                print(f"waiting for {' '.join(sorted({run.law for run in left}))}: an input may hang, which is known within"
                      f" {max(run.GRACE_SECONDS for run in left)} s; Ctrl-C ends it at once", flush=True)
        for run in self.runs:  # all of them, before one that cannot be taken leaves others behind
            run.interrupt()
            run.signal(signal.SIGKILL)
        for run in self.runs:
            self.take(run)

    def take(self, run):
        """Counts a run that ended."""
        self.runs = [other for other in self.runs if other is not run]
        run.finish()
        tally = self.tallies[run.law]
        tally.add(run, run.numbers())
        failures = self.find_all(run.law, run.failing_inputs(self.stop))
        tally.failures += failures
        if not failures and run.broken():
            tally.broken = last_lines(run.log_text()) or f"    {tree.how_it_ended(run.process.returncode)}, and not a word"
        self.tell(tally)

    def find_all(self, law, failing):
        """Takes (path, reason) of inputs that fail; how many they were. Those that nobody wanted to wait for are left to the next run."""
        count = 0
        try:
            for path, reason in failing:
                count += 1
                self.find(law, path, reason)
        except triage.Unjudged:
            self.tallies[law].unjudged = True
        return count

    def find(self, law, path, reason):
        findings = self.tallies[law].findings
        if reason not in findings:
            findings[reason] = triage.Finding(law, reason, triage.keep(law, path), self.engine.binary(law))
            history.append(self.session, self.engine.name, law, finding=reason)
        else:
            triage.keep_beside(law, path, reason)

    def tell(self, tally):
        """Of a law: sums of what ended and of all that runs."""
        running = [run.numbers() for run in self.runs if run.law == tally.law]
        for numbers in running:
            tally.see(numbers)
        findings = len(tally.findings) + sum(numbers.get("crashes", 0) for numbers in running)
        cases, seconds, new = (known + sum(numbers[name] for numbers in running)
                               for name, known in (("cases", tally.cases), ("seconds", tally.seconds), ("new", tally.new)))
        if not seconds:
            return
        history.append(self.session, self.engine.name, tally.law, cases=cases, seconds=round(seconds, 1), edges=tally.edges,
                       corpus=len(corpora.files_in(corpora.common(tally.law))))
        stability = f"  stability {tally.stability}" if tally.stability else ""
        print(f"{time.monotonic() - self.begun:5.0f} s  {tally.law:<23} {cases:>11,} cases {cases / max(seconds, 0.1):>9,.0f}/s"
              f" {tally.edges:>6,} edges {new:>6,} new {findings:>3} findings{stability}",
              flush=True)

    def findings(self):
        return [finding for tally in self.tallies.values() for finding in tally.findings.values()]

    def report(self, stop):
        self.report_laws()
        triage.report(self.findings(), stop)
        print(flush=True)

    def report_laws(self):
        print(f"\n{'law':<24}{'seconds':>8}{'cases':>13}{'cases/s':>11}{'edges':>8}{'new':>7}{'findings':>10}")
        for tally in self.tallies.values():
            rested = f"  rested after {tally.failures} failures" if tally.rested() else ""
            print(f"{tally.law:<24}{tally.seconds:>8.1f}{tally.cases:>13,}{tally.cases / max(tally.seconds, 0.1):>11,.0f}"
                  f"{tally.edges:>8,}{tally.new:>7,}{len(tally.findings):>10}{rested}")
        for text in {tally.broken for tally in self.tallies.values() if tally.broken}:
            laws = [tally.law for tally in self.tallies.values() if tally.broken == text]
            print(f"\n{self.engine.name} broke down, with neither a finding nor an end, on: {' '.join(laws)}\n{text}")
        if self.unfuzzed():
            why = "it was ended before" if self.stopped else "give it more time"
            print(f"\nno case was run of: {' '.join(self.unfuzzed())} ({why})")
        if self.unjudged():
            print(f"\nnot judged, it was ended before: inputs of {' '.join(self.unjudged())}; the next run does")

    def unfuzzed(self):
        """Laws that had no turn: nothing is known about them."""
        return [tally.law for tally in self.tallies.values() if not (tally.cases or tally.broken or tally.findings)]

    def unjudged(self):
        return [tally.law for tally in self.tallies.values() if tally.unjudged]

    def clean(self):
        """Is nothing known against any law, and was any left out only because somebody ended it early?"""
        return not (self.findings() or (self.unfuzzed() and not self.stopped) or any(tally.broken for tally in self.tallies.values()))


def exit_code(campaigns, others_clean):
    """Of a script, with what else it looked at: one that was ended before every law had a case, and all that a fuzzer saved was judged, is
    not clean, but interrupted."""
    if not (others_clean and all(fuzzing.clean() for fuzzing in campaigns)):
        return tree.EXIT_FINDINGS
    return tree.EXIT_INTERRUPTED if any(fuzzing.unfuzzed() or fuzzing.unjudged() for fuzzing in campaigns) else tree.EXIT_CLEAN


def canary_found(engine, over):
    """False if it was not; nobody waited for it where it is over()."""
    try:
        seconds = engine.canary(CANARY_SECONDS, over)
    except triage.Unjudged:
        print("canary: it was ended before", flush=True)
        return True
    if seconds is None:
        print(f"canary: NOT found by {engine.name} within {CANARY_SECONDS} s: this fuzzing proves nothing", flush=True)
        return False
    print(f"canary: the planted bug was found by {engine.name} in {seconds:.2f} s", flush=True)
    return True


def settings():
    """FUZZ_SECONDS, LAW and JOBS from the environment."""
    seconds = tree.number("FUZZ_SECONDS", os.environ.get("FUZZ_SECONDS") or "60", float)
    laws = tree.chosen_laws(os.environ.get("LAW"))
    return seconds, laws, tree.jobs()

