#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What to do with inputs that failed: judge them again, put equal ones together, shrink, write the text case.

    ci/triage.py [PATH...]    files or folders; without any, findings/ and what an earlier run that was killed left behind
    JOBS=n                    processes at once while it builds; all processors if not given

The law of an input is the name of a folder that it lies in; what is of no law, or no regular file, is skipped and told. Inputs with
the same law and the same reason are one finding. Exit code 0: none fails now, 1: some do, 2: wrong use, such as a PATH of no law.
"""

import collections
import os
import re
import shlex
import shutil
import subprocess
import sys

import corpora
import tree

JUDGE_SECONDS = 30
SHRINK_SECONDS = 60
# Exit code of `cproute shrink` for an input that breaks its law.
SHRINK_FOUND = 1
# Builds that judge, the quickest first; the last sees what only a read of what was never written shows.
JUDGES = ("fuzz", "fuzz-msan")
LEFTOVERS = (os.path.join(tree.BUILD, "fuzz-artifacts"), corpora.AFL_OUT)


class Finding:
    def __init__(self, law, reason, path):
        self.law = law
        self.reason = reason
        self.path = path


def without_colour(text):
    return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|[()].)|\x0e|\x0f", "", text)


def reason_of(text):
    """The class of a failure, from what a fuzz target printed before it died; None if it did not fail."""
    for pattern in (r"^law \w+ failed: (.*)$", r"SUMMARY: (\w*Sanitizer: [^\n]*)", r"runtime error: (.*)$",
                    r"(libFuzzer: (?:timeout|out-of-memory|deadly signal))"):
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return re.sub(r"0x[0-9a-f]+|/\S*/(?=[\w.-]+:\d)", "", found.group(1)).strip()
    return None


def judge(binary, path):
    """Runs a fuzz target on one file; the reason if it fails, None if it passes."""
    try:
        done = subprocess.run([binary, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=JUDGE_SECONDS, env=tree.environment())
    except subprocess.TimeoutExpired:
        return f"hang: over {JUDGE_SECONDS} s"
    if done.returncode == 0:
        return None
    ending = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return reason_of(done.stdout) or ending


def keep(law, path):
    """Copies a failing input into findings/<law>/, named by its content, and takes it out of the corpus."""
    kept = os.path.join(tree.FINDINGS, law, corpora.named_by_content(path)[:16])
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    if os.path.abspath(path) != kept:
        shutil.copyfile(path, kept)
    corpora.evict(law, kept)
    return kept


def explain(finding, binary):
    """The shrunk case, drawn, with the line that replays it. What only a sanitizer sees is shrunk under it."""
    for preset in ("release", "asan"):
        try:
            tree.build(preset, "cproute")
            done = subprocess.run([f"build/{preset}/cproute", "shrink", "--law", finding.law, "--out", tree.relative(tree.FINDINGS),
                                   tree.relative(finding.path)],
                                  cwd=tree.ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SHRINK_SECONDS,
                                  env=tree.environment())
            if done.returncode == SHRINK_FOUND:
                return done.stdout.rstrip()
            why = "only the fuzz target fails on it"
        except subprocess.TimeoutExpired:
            why = f"shrinking took over {SHRINK_SECONDS} s"
        except tree.BuildFailed as failed:
            why = str(failed)
    words = [tree.relative(binary), tree.relative(finding.path)]
    return f"  not shrunk: {why}\n  replay: {shlex.join(words)}"


def report(findings, binary_of):
    """Each finding with what explains it; `binary_of(finding)` is the fuzz target that found it."""
    for finding in findings:
        print(f"\nFINDING in {finding.law}: {finding.reason}")
        print(explain(finding, binary_of(finding)), flush=True)


def failing_inputs_below(path):
    """Regular files that fuzzers or people put below a path because they failed."""
    if os.path.isfile(path):
        return [path]
    found = []
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if name not in ("queue", ".synced", ".state")]
        found += [os.path.join(folder, name) for name in files
                  if re.match(r"(crash|leak|timeout|oom)-|id:|[0-9a-f]{16,40}$", name)]
    regular = [path for path in found if os.path.isfile(path)]
    for path in sorted(set(found) - set(regular)):
        print(f"skipped: {tree.shown(path)}: no regular file, or not there", flush=True)
    return sorted(regular)


def law_of(path, laws):
    """The innermost folder of a path that is named after a law."""
    return next((part for part in reversed(os.path.abspath(path).split(os.sep)[:-1]) if part in laws), None)


def with_laws(paths):
    """[(law, path)] of those that have one."""
    laws = set(tree.laws())
    pairs = [(law_of(path, laws), path) for path in paths]
    for law, path in pairs:
        if not law:
            print(f"skipped: {tree.shown(path)}: no folder of it is named after a law", flush=True)
    return [(law, path) for law, path in pairs if law]


def group(pairs, judge_input):
    """{(law, reason): paths, the smallest first} of those of [(law, path)] that fail, and the number of those that hold."""
    groups, held = collections.defaultdict(list), 0
    for law, path in pairs:
        reason = judge_input(law, path)
        if reason:
            groups[law, reason].append(path)
        else:
            held += 1
    for alike in groups.values():
        alike.sort(key=lambda path: (os.path.getsize(path), path))
    return groups, held


def leftovers():
    """[(law, path)] of what fuzzers saved, judged already or not; the canary is no law."""
    laws = set(tree.laws())
    pairs = [(law_of(path, laws), path) for place in LEFTOVERS for path in failing_inputs_below(place)]
    return [(law, path) for law, path in pairs if law]


def salvage(binary_of):
    """Keeps what a fuzzer saved in a run that was killed before anybody judged it; the findings. `binary_of(law)` judges, and
    inputs of laws that it has none for stay where they are."""
    pairs = [(law, path) for law, path in leftovers() if os.path.exists(binary_of(law))]
    groups, _ = group(pairs, lambda law, path: judge(binary_of(law), path))
    findings = [Finding(law, reason, keep(law, paths[0])) for (law, reason), paths in groups.items()]
    for finding in findings:
        print(f"kept from an earlier run: {tree.relative(finding.path)}, {finding.law}: {finding.reason}", flush=True)
    return findings


def judge_by_all(law, path):
    """By every build that judges; the first reason."""
    return next(filter(None, (judge(tree.fuzz_target(preset, law), path) for preset in JUDGES)), None)


def asked_for(places):
    """[(law, path)] of the inputs at or below each of them."""
    pairs = []
    for place in places:
        if not (os.path.isfile(place) or os.path.isdir(place)):
            raise tree.WrongUse(f"{place} is {'no regular file and no folder' if os.path.exists(place) else 'not there'}")
        paths = failing_inputs_below(place)
        found = with_laws(paths)
        if paths and not found:
            raise tree.WrongUse(f"{place}: no folder of it is named after a law")
        pairs += found
    return pairs


def run():
    places = sys.argv[1:]
    pairs = asked_for(places) if places else with_laws(failing_inputs_below(tree.FINDINGS)) + leftovers()
    if not pairs:
        print("no input to judge")
        return tree.EXIT_CLEAN
    tree.alone("fuzzing")
    laws = {law for law, _ in pairs}
    for preset in JUDGES:
        tree.build(preset, *[f"fuzz_{law}" for law in sorted(laws)])
    groups, held = group(pairs, judge_by_all)
    for (law, reason), alike in sorted(groups.items()):
        print(f"{len(alike):>5} of {law}: {reason}", flush=True)
    print(f"{held:>5} hold now", flush=True)
    report([Finding(law, reason, keep(law, alike[0])) for (law, reason), alike in sorted(groups.items())],
           lambda finding: tree.fuzz_target(JUDGES[0], finding.law))
    return tree.EXIT_FINDINGS if groups else tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
