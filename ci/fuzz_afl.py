# SPDX-License-Identifier: Apache-2.0
"""Fuzzes the laws with AFL++: persistent mode, inputs in shared memory, comparisons logged. What `make fuzz-afl` runs.

    FUZZ_SECONDS=60   for all laws together
    LAW=a,b           only these laws
    JOBS=n            processes at once; all processors if not given

afl-fuzz exits 0 whatever it found, so its crashes/ and hangs/ are judged here. Exit code 0: clean, 1: findings, or the
canary was not found, 2: wrong use.
"""

import os
import shutil
import subprocess
import sys
import time

import campaign
import tree

AFL_ENVIRONMENT = {
    "AFL_NO_UI": "1",
    "AFL_NO_AFFINITY": "1",
    "AFL_SKIP_CPUFREQ": "1",
    "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
    "AFL_NO_CRASH_README": "1",
    "AFL_FAST_CAL": "1",
    "AFL_CMPLOG_ONLY_NEW": "1",
}
# One case is judged in microseconds; AFL++ would otherwise guess the limit anew each time.
TIMEOUT_MILLISECONDS = 1000
LONGEST_INPUT = 256


def afl_environment(**more):
    """AFL++ refuses sanitizer options that were not made for it."""
    result = tree.environment(**AFL_ENVIRONMENT, **more)
    for name in ("ASAN_OPTIONS", "MSAN_OPTIONS", "UBSAN_OPTIONS"):
        result.pop(name, None)
    return result


def fuzzer_stats(folder):
    """fuzzer_stats and the last line of plot_data as one dictionary; the second is written far more often."""
    stats = {}
    try:
        with open(os.path.join(folder, "fuzzer_stats")) as file:
            for line in file:
                name, _, value = line.partition(":")
                stats[name.strip()] = value.strip()
    except OSError:
        pass
    try:
        with open(os.path.join(folder, "plot_data")) as file:
            lines = file.read().splitlines()
        names = [name.strip() for name in lines[0].lstrip("# ").split(",")]
        for line in lines[1:]:
            values = [value.strip() for value in line.split(",")]
            if len(values) == len(names):
                stats.update({f"plot_{name}": value for name, value in zip(names, values)})
    except (OSError, IndexError):
        pass
    return stats


def inputs_in(folder):
    return [name for name in campaign.files_in(folder) if os.path.basename(name).startswith("id:")]


def prepare_seeds(law):
    """One folder with a law's seeds; AFL++ wants at least one and no empty one."""
    folder = os.path.join(tree.BUILD, "afl-seeds", law)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for source in campaign.seeds_of(law):
        for name in campaign.files_in(source):
            if os.path.getsize(name):
                shutil.copyfile(name, os.path.join(folder, os.path.basename(name)))
    if not os.listdir(folder):
        with open(os.path.join(folder, "zero"), "wb") as file:
            file.write(b"\0")
    return folder


def afl_command(binary, cmplog_binary, seeds, out, role, seconds):
    companion = ["-c", cmplog_binary] if cmplog_binary else []
    return ["afl-fuzz", "-i", seeds, "-o", out, *role, "-V", str(max(1, round(seconds + 1))), "-t", str(TIMEOUT_MILLISECONDS),
            "-m", "none", "-G", str(LONGEST_INPUT), *companion, "--", binary]


class AflRun(campaign.Run):
    def __init__(self, law, engine, number, role, seconds):
        self.engine = engine
        self.folder = os.path.join(engine.out(law), f"run{number}")
        os.makedirs(engine.out(law), exist_ok=True)
        command = afl_command(engine.binary(law), engine.cmplog_binary(law), engine.seeds[law], engine.out(law),
                              [role, f"run{number}"], seconds)
        super().__init__(law, command, os.path.join(engine.out(law), f"run{number}.log"),
                         afl_environment(), seconds)

    def numbers(self):
        stats = fuzzer_stats(self.folder)

        def number(*names):
            return max([int(stats[name]) for name in names if stats.get(name, "").isdigit()], default=0)

        return {
            "cases": number("execs_done", "plot_total_execs"),
            "seconds": number("run_time", "plot_relative_time"),
            "edges": number("edges_found", "plot_edges_found"),
            "new": number("corpus_found"),
            "stability": stats.get("stability"),
        }

    def failing_inputs(self):
        failing = []
        for kind in ("crashes", "hangs"):
            for name in inputs_in(os.path.join(self.folder, kind)):
                reason = self.engine.judge(self.law, name)
                if reason:
                    failing.append((name, reason))
        return failing

    def broken(self):
        return not os.path.exists(os.path.join(self.folder, "fuzzer_stats"))


class Afl:
    name = "AFL++"
    longest_run = 10**9

    def __init__(self, laws, cmplog=True):
        self.cmplog = cmplog
        self.started = set()
        self.seeds = {law: prepare_seeds(law) for law in laws}
        for law in laws:
            shutil.rmtree(self.out(law), ignore_errors=True)

    def binary(self, law):
        return os.path.join(tree.BUILD, "afl", "fuzz", f"fuzz_{law}")

    def cmplog_binary(self, law):
        return os.path.join(tree.BUILD, "afl-cmplog", "fuzz", f"fuzz_{law}") if self.cmplog else None

    def out(self, law):
        return os.path.join(tree.BUILD, "afl-out", law)

    def start(self, law, number, seconds):
        role = "-S" if law in self.started else "-M"
        self.started.add(law)
        return AflRun(law, self, number, role, seconds)

    def judge(self, law, path):
        """Runs the target on one file; the reason if it fails, None if it passes."""
        try:
            done = subprocess.run([self.binary(law), path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=10,
                                  env=tree.environment())
        except subprocess.TimeoutExpired:
            return "hang: over 10 s"
        if done.returncode == 0:
            return None
        return campaign.reason_of(done.stdout) or f"killed by signal {-done.returncode}"

    def canary(self, seconds):
        out = self.out("canary")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        begun = time.monotonic()
        subprocess.run(afl_command(self.binary("canary"), self.cmplog_binary("canary"), prepare_seeds("canary"), out,
                                   ["-S", "canary"], seconds),
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=afl_environment(AFL_BENCH_UNTIL_CRASH="1"))
        took = time.monotonic() - begun
        crashes = inputs_in(os.path.join(out, "canary", "crashes"))
        return took if any(self.judge("canary", name) for name in crashes) else None


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments: FUZZ_SECONDS=, LAW= and JOBS= are read from the environment")
    if not shutil.which("afl-fuzz"):
        raise tree.WrongUse("afl-fuzz is missing: run ci/install-deps.sh")
    seconds, laws, jobs = campaign.settings()
    print(f"building the fuzz targets, {tree.commit()}", flush=True)
    targets = [f"fuzz_{law}" for law in laws] + ["fuzz_canary"]
    tree.build("release", "cproute")
    tree.build("afl", *targets)
    tree.build("afl-cmplog", *targets)
    campaign.make_seeds()
    engine = Afl(laws)
    canary_found = campaign.report_canary(engine.canary(campaign.CANARY_SECONDS), engine)
    print(f"fuzzing {len(laws)} laws for {seconds:g} s with {jobs} processes", flush=True)
    fuzzing = campaign.Campaign(engine, laws, seconds, jobs)
    fuzzing.run()
    fuzzing.report()
    return tree.EXIT_CLEAN if fuzzing.clean() and canary_found else tree.EXIT_FINDINGS


if __name__ == "__main__":
    tree.main(run)
