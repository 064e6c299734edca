#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the laws with AFL++: persistent mode, inputs in shared memory, comparisons logged. What `make fuzz-afl` runs.

    FUZZ_SECONDS=60   for all laws together
    LAW=a,b           only these laws
    JOBS=n            processes at once; all processors if not given

afl-fuzz exits 0 whatever it found, so its crashes/ and hangs/ are judged here, and its seeds before, of which it skips those that fail.
Ctrl-C ends it early and still reports, but does not wait for hangs to be judged: the next run does. Exit code 0: clean, 1: findings, or
the canary was not found, or a law was not fuzzed, 2: wrong use, 130: ended before every law had a case, and all was judged.
"""

import contextlib
import os
import re
import shutil
import signal
import sys
import time

import campaign
import corpora
import fuzz
import tree
import triage

AFL_ENVIRONMENT = {
    # Its statistics file is written once a minute, its screen all the time, if it thinks that somebody looks.
    "AFL_FORCE_UI": "1",
    # An instance and its target hand over to each other for every case; on one core that is several times faster.
    "AFL_TRY_AFFINITY": "1",
    "AFL_SKIP_CPUFREQ": "1",
    "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
    "AFL_NO_CRASH_README": "1",
    "AFL_FAST_CAL": "1",
    "AFL_CMPLOG_ONLY_NEW": "1",
}
# One case is judged in microseconds; AFL++ would otherwise guess the limit anew each time.
TIMEOUT_MILLISECONDS = 1000
LONGEST_INPUT = fuzz.LONGEST_INPUT


def afl_environment(**more):
    """AFL++ refuses sanitizer options that were not made for it."""
    result = tree.environment(**AFL_ENVIRONMENT, **more)
    for name in ("ASAN_OPTIONS", "MSAN_OPTIONS", "UBSAN_OPTIONS"):
        result.pop(name, None)
    return result


def adopt_orphans():
    """afl-fuzz kills the fork server of its CMPLOG build, but not the target that this one keeps stopped. Such orphans become
    children of this process, which ends them."""
    tree.LIBC.prctl(tree.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# Of a target that has ended, nothing but its name is known.
ENDED_TARGET = re.compile(r"\d+ \((fuzz|afl)_[^)]*\) Z ")


def is_target(process, programs):
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat") as file:
        return bool(ENDED_TARGET.match(file.read())) or os.readlink(f"/proc/{process}/exe").startswith(programs)
    return False


def end_orphans(programs=os.path.join(tree.BUILD, "afl")):
    """Ends orphans whose program's path begins so, and takes leave of those that have ended. With a fork server goes what it kept, which
    then is an orphan too."""
    programs = os.path.realpath(programs)  # as the kernel tells paths
    ended = True
    while ended:
        ended = False
        with tree.STARTING:
            for child in [child for child in tree.others() if is_target(child, programs)]:
                with contextlib.suppress(OSError):
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    ended = True


def fuzzer_stats(folder):
    """What afl-fuzz wrote about itself; complete only after its end."""
    stats = {}
    try:
        with open(os.path.join(folder, "fuzzer_stats"), errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                stats[name.strip()] = value.strip()
    except OSError:
        pass
    return stats


def numbers_on_screen(text, total_edges):
    """The same from the last screen that afl-fuzz drew, rounded as it rounds."""
    text = triage.without_colour(text)

    def last(pattern):
        found = re.findall(pattern, text)
        return found[-1] if found else None

    scale = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
    execs = last(r"total execs : ([\d.]+)([kMG]?)")
    density = last(r"map density : [\d.]+% / ([\d.]+)%")
    return {
        "cases": round(float(execs[0]) * scale[execs[1]]) if execs else 0,
        "new": int(last(r"own finds : (\d+)") or 0),
        "edges": round(float(density or 0) * total_edges / 100),
        "stability": last(r"stability : ([\d.]+%)"),
    }


def inputs_in(folder):
    return [name for name in corpora.files_in(folder) if os.path.basename(name).startswith("id:")]


def prepare_seeds(law):
    """One folder with all that is known for a law; AFL++ wants at least one input and no empty one."""
    folder = os.path.join(tree.BUILD, "afl-seeds", law)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for source in corpora.inputs_of(law):
        for name in corpora.files_in(source):
            if os.path.getsize(name):
                shutil.copyfile(name, os.path.join(folder, os.path.basename(name)))
    need_a_seed(folder)
    return folder


def need_a_seed(folder):
    if not os.listdir(folder):
        with open(os.path.join(folder, "zero"), "wb") as file:
            file.write(b"\0")


def failing_seeds(folder, binary, over):
    """(path, reason) of seeds on which the target fails; then they are no seeds. AFL++ would skip them without a word."""
    for path, reason in triage.failing(binary, corpora.files_in(folder), over):
        yield path, reason
        os.remove(path)
    need_a_seed(folder)


def afl_command(binary, cmplog_binary, seeds, out, role, seconds):
    companion = ["-c", cmplog_binary] if cmplog_binary else []
    return ["afl-fuzz", "-i", seeds, "-o", out, *role, "-V", str(max(1, round(seconds + 1))), "-t", str(TIMEOUT_MILLISECONDS),
            "-m", "none", "-G", str(LONGEST_INPUT), *companion, "--", binary]


# A kill would leave its fork servers behind.
LAST_SIGNAL = signal.SIGTERM


class AflRun(campaign.Run):
    LAST_SIGNAL = LAST_SIGNAL

    def __init__(self, law, engine, number, role, seconds):
        self.engine = engine
        self.folder = os.path.join(engine.out(law), f"run{number}")
        os.makedirs(engine.out(law), exist_ok=True)
        command = afl_command(engine.binary(law), engine.cmplog_binary(law), engine.seeds[law], engine.out(law),
                              [role, f"run{number}"], seconds)
        super().__init__(law, command, afl_environment(), seconds)

    def finish(self):
        super().finish()
        end_orphans()

    def numbers(self):
        stats = fuzzer_stats(self.folder)

        def number(name):
            text = stats.get(name, "")
            return int(text) if text.isdecimal() else 0  # a full disk cuts it off

        if self.running():
            return {"seconds": self.seconds(), "crashes": len(inputs_in(os.path.join(self.folder, "crashes"))),
                    **numbers_on_screen(self.log_text(), number("total_edges"))}
        return {
            "cases": number("execs_done"),
            "seconds": number("run_time"),
            "edges": number("edges_found"),
            "new": number("corpus_found"),
            "stability": stats.get("stability"),
        }

    def failing_inputs(self, stop):
        """What is called a hang takes long to judge, and on a busy machine it mostly is none."""
        crashes, hangs = [inputs_in(os.path.join(self.folder, kind)) for kind in ("crashes", "hangs")]
        yield from triage.crashed((*self.engine.judges, "afl"), self.law, crashes, lambda: stop.again)
        yield from triage.failing(self.engine.binary(self.law), hangs, lambda: stop.asked)

    def broken(self):
        """One that is interrupted while its fork server starts dies too; a law that never ran is told of by the campaign. One that ends by
        itself does so after its time, and well."""
        return not self.interrupted and (self.process.returncode != 0 or self.seconds() < self.limit)


class Afl:
    name = "AFL++"
    longest_run = 10**9

    def __init__(self, laws, cmplog=True, judges=()):
        """`judges` are builds that are asked too about a crash that does not reproduce."""
        adopt_orphans()
        self.cmplog = cmplog
        self.judges = judges
        self.laws = laws
        self.start_afresh()

    def start_afresh(self):
        """What instances found goes to the common corpus, and all of that is what the next ones start from."""
        self.started = set()
        for law in self.laws:
            corpora.gather(law)
            shutil.rmtree(self.out(law), ignore_errors=True)
        self.seeds = {law: prepare_seeds(law) for law in self.laws}

    def binary(self, law):
        return tree.fuzz_target("afl", law)

    def cmplog_binary(self, law):
        return tree.fuzz_target("afl-cmplog", law) if self.cmplog else None

    def out(self, law):
        return os.path.join(corpora.AFL_OUT, law)

    def failing_seeds(self, law, stop):
        return failing_seeds(self.seeds[law], self.binary(law), lambda: stop.asked)

    def start(self, law, number, seconds):
        role = "-S" if law in self.started else "-M"
        self.started.add(law)
        return AflRun(law, self, number, role, seconds)

    def canary(self, seconds, over=triage.never):
        out = self.out("canary")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        begun = time.monotonic()
        try:
            command = afl_command(self.binary("canary"), self.cmplog_binary("canary"), prepare_seeds("canary"), out, ["-S", "canary"], seconds)
            triage.output_of(command, seconds + campaign.STOP_GRACE_SECONDS, over, last_signal=LAST_SIGNAL,
                             env=afl_environment(AFL_BENCH_UNTIL_CRASH="1"))
            took = time.monotonic() - begun
        finally:
            end_orphans()
        crashes = inputs_in(os.path.join(out, "canary", "crashes"))
        return took if any(triage.judge(self.binary("canary"), name) for name in crashes) else None


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments: FUZZ_SECONDS=, LAW= and JOBS= are read from the environment")
    tree.require("afl-fuzz")
    seconds, laws, jobs = campaign.settings()
    tree.alone("fuzzing")
    print(f"building the fuzz targets, {tree.commit()}", flush=True)
    targets = [f"fuzz_{law}" for law in laws] + ["fuzz_canary"]
    tree.build("release", "cproute")
    tree.build("afl", *targets)
    tree.build("afl-cmplog", *targets)
    corpora.make_seeds()
    with tree.Stop(tree.kill_below) as telling:
        with tree.Stop() as stop:
            left = triage.salvage(laws, ["afl"], lambda: stop.asked)
            engine = Afl(laws)
            canary_found = campaign.canary_found(engine, lambda: stop.asked)
            print(f"fuzzing {len(laws)} laws for {seconds:g} s with {jobs} processes", flush=True)
            fuzzing = campaign.Campaign(engine, laws, seconds, jobs, stop)
            fuzzing.run()
        for law in laws:
            corpora.gather(law)
        triage.report(left, telling)
        fuzzing.report(telling)
        return campaign.exit_code([fuzzing], canary_found and not left)


if __name__ == "__main__":
    tree.main(run)
