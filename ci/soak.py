#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes all laws for a long time with both fuzzers, which pass on to each other what they find. What `make soak` runs.

    SOAK_MINUTES=60   for all laws together
    LAW=a,b           only these laws
    JOBS=n            processes at once; all processors if not given

In turns of a quarter of an hour: libFuzzer explores with the build without sanitizers, the builds with ASan + UBSan and with MSan judge
what that found and go on from there, and AFL++ starts from all of it; what AFL++ found is copied to the common corpus and judged by the same
two builds, and the corpus is then pruned. Ctrl-C ends it early and still reports; after a kill, the next run keeps what failed. Ends with
a summary and build/fuzz-report.html; of all laws, its numbers are kept for docs/METRICS.md. Exit code 0: clean, 1: findings, or the canary
was not found, or a law was not fuzzed, 2: wrong use, 130: ended before every law had a case with every build, and all was judged.
"""

import contextlib
import os
import sys
import time

import campaign
import corpora
import fuzz
import fuzz_afl
import metrics
import report
import tree
import triage

TURN_MINUTES = 15


def settings():
    minutes = tree.number("SOAK_MINUTES", os.environ.get("SOAK_MINUTES") or "60", float)
    return minutes, tree.chosen_laws(os.environ.get("LAW")), tree.jobs()


class Soak:
    def __init__(self, laws, minutes, jobs, earlier=(), stop=None):
        """`earlier` are findings that an earlier run left."""
        self.laws, self.earlier = laws, earlier
        self.begun = time.monotonic()
        self.seconds = minutes * 60
        self.stop = stop or tree.Stop()
        self.explorer = fuzz.LibFuzzer("fuzz-fast", "libFuzzer")
        self.judges = [fuzz.LibFuzzer(preset, f"libFuzzer, {name}") for preset, name in zip(triage.JUDGES, ("ASan + UBSan", "MSan"))]
        self.afl = fuzz_afl.Afl(laws, judges=triage.JUDGES)
        engines = zip((self.explorer, *self.judges, self.afl), (0.35, 0.2, 0.1, 0.35))
        self.legs = [(campaign.Campaign(engine, laws, 0, jobs, self.stop), share) for engine, share in engines]

    def left(self):
        return self.seconds - (time.monotonic() - self.begun)

    def run(self):
        turns = max(1, round(self.seconds / 60 / TURN_MINUTES))
        with self.stop:
            for turn in range(turns):
                if not self.stop.asked:
                    print(f"\nturn {turn + 1} of {turns}, {self.left() / 60:.0f} minutes left", flush=True)
                    self.turn(self.left() / (turns - turn))

    def turn(self, seconds):
        """Pruning takes what it takes, and the next turn has that much less."""
        for fuzzing, share in self.legs:
            if self.stop.asked:
                return
            print(f"\n{fuzzing.engine.name}, {share * seconds:.0f} s", flush=True)
            if fuzzing.engine is self.afl:
                self.afl.start_afresh()
            fuzzing.run(share * seconds)
        passed = sum(corpora.gather(law) for law in self.laws)
        print(f"\nAFL++ passed {passed:,} inputs to the common corpus", flush=True)
        self.judge_queues()
        if not self.stop.asked:
            self.prune()

    def judge_queues(self):
        """What AFL++ kept for reasons that pruning does not know is dropped by it, and after the last turn nobody comes."""
        for fuzzing, _ in self.legs:
            if fuzzing.engine in self.judges:
                self.judge_queues_with(fuzzing)

    def judge_queues_with(self, fuzzing):
        told, done = time.monotonic(), 0

        def judge(law):
            nonlocal told, done
            inputs = len(corpora.queued(law))
            found = fuzzing.find_all(law, self.failing_in_queues(law, fuzzing.engine))
            done += 1
            if time.monotonic() - told >= tree.PROGRESS_EVERY_SECONDS:
                told = time.monotonic()
                print(f"{fuzzing.engine.name}: {done} of {len(self.laws)} queues", flush=True)
            return inputs, found

        counts = [count for _, count in corpora.side_by_side(judge, self.laws)]
        print(f"{fuzzing.engine.name}: {sum(inputs for inputs, _ in counts):,} inputs of AFL++'s queues"
              f" {'left, it was ended' if self.stop.asked else 'judged'}, {sum(found for _, found in counts)} fail", flush=True)

    def failing_in_queues(self, law, engine):
        """Those leave the queue, which is gathered again."""
        for path, reason in triage.failing(engine.binary(law), corpora.queued(law), lambda: self.stop.asked):
            yield path, reason
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)

    def prune(self):
        kept = [sizes for _, sizes in corpora.side_by_side(lambda law: self.explorer.prune(law, self.stop), self.laws) if sizes]
        print(f"the common corpus: {sum(before for before, _ in kept):,} inputs pruned to {sum(after for _, after in kept):,}",
              flush=True)
        explored = self.legs[0][0]
        for law in self.laws:
            explored.find_all(law, self.explorer.failing_in_merge(law, triage.JUDGES, lambda: self.stop.again))

    def findings(self):
        """[(finding, the engine that found it)], each law and reason once."""
        found = {}
        for fuzzing, _ in self.legs:
            for finding in fuzzing.findings():
                found.setdefault((finding.law, finding.reason), (finding, fuzzing.engine))
        return list(found.values())

    def numbers(self):
        """For docs/METRICS.md."""
        legs = {fuzzing.engine.name: fuzzing.tallies.values() for fuzzing, _ in self.legs}
        return {"minutes": round((time.monotonic() - self.begun) / 60, 1), "laws": len(self.laws),
                "findings": list(dict.fromkeys(f"{finding.law}: {finding.reason}"
                                               for finding in [*self.earlier, *(finding for finding, _ in self.findings())])),
                "kept": sum(len(corpora.files_in(corpora.common(law))) for law in self.laws),
                "engines": {name: {"cases": sum(tally.cases for tally in tallies), "laws": sum(tally.cases > 0 for tally in tallies),
                                   "process_minutes": round(sum(tally.seconds for tally in tallies) / 60, 1)}
                            for name, tallies in legs.items()}}

    def report(self, stop):
        for fuzzing, _ in self.legs:
            print(f"\n{fuzzing.engine.name}")
            fuzzing.report_laws()
        triage.report([finding for finding, _ in self.findings()], stop)
        numbers = self.numbers()
        engines = numbers["engines"].values()
        print(f"\nsoak: {numbers['minutes']:.1f} minutes{', ended early' if self.stop.asked else ''}, {numbers['laws']} laws,"
              f" {sum(engine['cases'] for engine in engines):,} cases,"
              f" {sum(engine['process_minutes'] for engine in engines):.0f} process minutes,"
              f" {numbers['kept']:,} inputs kept, {len(numbers['findings'])} findings")
        return numbers


def build(laws):
    """Every build that takes part, and the binary of each law in it."""
    targets = [f"fuzz_{law}" for law in laws] + ["fuzz_canary"]
    tree.build("release", "cproute")
    for preset in ("fuzz-fast", "fuzz", "fuzz-msan", "afl", "afl-cmplog"):
        print(f"building {preset}", flush=True)
        tree.build(preset, *targets)


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments: SOAK_MINUTES=, LAW= and JOBS= are read from the environment")
    minutes, laws, jobs = settings()
    measurement = metrics.Measurement("soak", SOAK_MINUTES=minutes)
    tree.require("afl-fuzz")
    tree.alone("fuzzing")
    print(f"soak of {len(laws)} laws for {minutes:g} minutes with {jobs} processes, {tree.commit()}, {tree.machine()}", flush=True)
    build(laws)
    corpora.make_seeds()
    with tree.Stop(tree.kill_below) as telling:
        with tree.Stop() as stop:
            left = triage.salvage(laws, triage.JUDGES, lambda: stop.asked)
            canaries = [campaign.canary_found(engine, lambda: stop.asked) for engine in (fuzz.LibFuzzer(), fuzz_afl.Afl([]))]
            soak = Soak(laws, minutes, jobs, left, stop)
            soak.run()
        triage.report(left, telling)
        numbers = soak.report(telling)
        code = campaign.exit_code([fuzzing for fuzzing, _ in soak.legs], all(canaries) and not left)
        print(f"plots: {tree.relative(report.write())}", flush=True)
        if not (os.environ.get("LAW") or soak.stop.asked):
            code = measurement.keep({**numbers, "canaries": canaries}, code == tree.EXIT_CLEAN)
    return code


if __name__ == "__main__":
    tree.main(run)
