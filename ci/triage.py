#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What to do with inputs that failed: judge them again, put equal ones together, shrink, write the text case.

    ci/triage.py [PATH...]    files or folders; without any, findings/ and what an earlier run that was killed left behind
    JOBS=n                    processes at once while it builds; all processors if not given

The law of an input is the name of a folder that it lies in; what is of no law, or no regular file, or below a folder has a name that no
fuzzer gives to what fails, is skipped and told. Inputs with the same law and the same reason are one finding. Ctrl-C, and a build that
cannot be made, end it early: what is known by then is kept and told. Exit code 0: none fails now, 1: some do, or a build cannot be made,
2: wrong use, such as a PATH of no law, 130: ended before all were judged, and none failed.
"""

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import corpora
import tree

JUDGE_SECONDS = 30
# So many inputs are given to one process, for so long; if one of them fails they are divided into so many parts.
MOST_TOGETHER, TOGETHER_SECONDS, PARTS = 512, 10, 8
LOOK_SECONDS = 0.1
SHRINK_SECONDS = 60
# Exit code of `cproute shrink` for an input that breaks its law.
SHRINK_FOUND = 1
# Builds that judge, the quickest first; the last sees what only a read of what was never written shows. What holds in both may have failed
# in another one, where optimizers and memory are different.
JUDGES = ("fuzz", "fuzz-msan")
OTHER_BUILDS = ("fuzz-fast", "afl")
ENDED = "it was ended before"
UNREPRODUCED = "it crashed in the fuzzer, which did not reproduce"
LEFTOVERS = (os.path.join(tree.BUILD, "fuzz-artifacts"), corpora.AFL_OUT)


class Unjudged(Exception):
    """Somebody wished for an end before an input was judged."""


class Finding:
    def __init__(self, law, reason, path, target):
        """`target` is the fuzz target that fails."""
        self.law = law
        self.reason = reason
        self.path = path
        self.target = target


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


def says_little(reason):
    """True if inputs that fail so may be of different faults: no law and no sanitizer said what failed."""
    return reason == UNREPRODUCED or re.match(r"killed by signal|exit code|libFuzzer: deadly signal|crash$", reason) is not None


def never():
    return False


def output_of(command, seconds, over=never, **more):
    """(exit code, what it printed); the code is None if it took longer. Raises Unjudged when it is over(). `more` is for tree.start()."""
    if over():
        raise Unjudged
    process = tree.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                         **{"env": tree.environment(), **more})
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            if over():
                raise Unjudged
            try:
                printed, _ = process.communicate(timeout=LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            if over():  # that may be what ended it
                raise Unjudged
            return process.returncode, printed
        return None, ""
    finally:
        tree.end(process)
        process.stdout.close()


def judge_together(binary, paths, seconds, over=never):
    """Runs a fuzz target on some files; the reason if it fails on one of them, None if all pass."""
    code, printed = output_of([binary, *map(os.path.abspath, paths)], seconds, over)  # or a name is taken for an option
    if code is None:
        return f"hang: over {seconds} s"
    if code == 0:
        return None
    return reason_of(printed) or (f"killed by signal {-code}" if code < 0 else f"exit code {code}")


def judge(binary, path, over=never):
    return judge_together(binary, [path], JUDGE_SECONDS, over)


def failing(binary, paths, over=never, together=MOST_TOGETHER):
    """(path, reason) of those on which a fuzz target fails. Those that pass do so many in a process."""
    for at in range(0, len(paths), together):
        some = paths[at:at + together]
        alone = len(some) == 1
        reason = judge_together(binary, some, JUDGE_SECONDS if alone else TOGETHER_SECONDS, over)
        if reason and alone:
            yield some[0], reason
        elif reason:
            found = False
            for pair in failing(binary, some, over, math.ceil(len(some) / PARTS)):
                found = True
                yield pair
            if not found and not reason.startswith("hang"):
                yield some[-1], f"{reason}, after other inputs only"


def unjudged():
    """Where inputs wait that failed in a run that was killed, until every build has judged them."""
    return os.path.join(tree.FINDINGS, "unjudged")


def store(path, folder):
    """Copies an input into a folder, named by its content; where a fuzzer had left it, it is no more."""
    stored = os.path.join(folder, corpora.named_by_content(path)[:16])
    path = os.path.abspath(path)
    if path != stored:
        os.makedirs(folder, exist_ok=True)
        corpora.copy_whole(path, stored, f"{stored}.{os.getpid()}")
        remove_leftover(path)
    return stored


def lies_in(path, places):
    return os.path.abspath(path).startswith(tuple(place + os.sep for place in places))


def is_leftover(path):
    """Nobody has judged it, or not with every build."""
    return lies_in(path, (*LEFTOVERS, unjudged()))


def remove_leftover(path):
    """One of whose like somebody takes care: the next run would take it for what nobody has judged."""
    if is_leftover(path):
        os.remove(path)


def keep_beside(law, path, reason):
    """An input that fails as one does that is kept."""
    if says_little(reason):  # alike only in what is not known
        keep(law, path)
    else:
        corpora.evict(law, path)
        remove_leftover(path)


def keep(law, path):
    """Takes a failing input into findings/<law>/, and out of the corpus."""
    kept = store(path, os.path.join(tree.FINDINGS, law))
    corpora.evict(law, kept)
    return kept


def explain(finding, over=never):
    """The shrunk case, drawn, with the line that replays it. What only a sanitizer sees is shrunk under it."""
    why = "it holds when it is run again"
    for preset in ("release", "asan") if finding.reason != UNREPRODUCED else ():
        try:
            if over():
                raise Unjudged
            tree.build(preset, "cproute")
            code, printed = output_of([f"build/{preset}/cproute", "shrink", "--law", finding.law, "--out", tree.relative(tree.FINDINGS),
                                       tree.relative(finding.path)], SHRINK_SECONDS, over, cwd=tree.ROOT)
            if code == SHRINK_FOUND:
                return printed.rstrip()
            why = f"shrinking took over {SHRINK_SECONDS} s" if code is None else "only the fuzz target fails on it"
        except Unjudged:
            why = ENDED
            break
        except (tree.BuildFailed, tree.WrongUse, OSError) as failed:
            why = ENDED if over() else str(failed)
    words = [tree.relative(finding.target), tree.relative(finding.path)]
    return f"  not shrunk: {why}\n  replay: {shlex.join(words)}"


def report(findings, stop):
    """Each finding with what explains it. Who wishes for an end is told the same, without shrunk cases."""
    with stop:
        for finding in findings:
            print(f"\nFINDING in {finding.law}: {finding.reason}")
            print(explain(finding, lambda: stop.asked), flush=True)


def files_below(path):
    """Also behind links; not those that a fuzzer keeps for what they reach."""
    found, entered = [], set()
    for folder, folders, files in os.walk(path, followlinks=True):
        real = os.path.realpath(folder)
        if real in entered:  # links may lead back
            folders.clear()
            continue
        entered.add(real)
        folders[:] = [name for name in folders if name not in ("queue", ".synced", ".state")]
        found += [os.path.join(folder, name) for name in files]
    return found


# Of fuzzers, of their services, and of store().
FAILED = re.compile(r"(crash|leak|timeout|oom|clusterfuzz-testcase)-|id:|[0-9a-f]{16,40}$")


def failing_inputs_below(path):
    """Regular files that fuzzers or people put below a path because they failed."""
    if os.path.isfile(path):
        return [path]
    found = [path for path in files_below(path) if FAILED.match(os.path.basename(path))]
    regular = [path for path in found if os.path.isfile(path)]
    for path in sorted(set(found) - set(regular)):
        print(f"skipped: {tree.shown(path)}: no regular file, or not there", flush=True)
    return sorted(regular)


def is_called_a_hang_by_afl(path):
    return os.path.basename(os.path.dirname(path)) == "hangs"


def is_called_a_hang(path):
    """By the fuzzer that saved it. On a busy machine it mostly is none."""
    return os.path.basename(path).startswith("timeout-") or is_called_a_hang_by_afl(path)


def law_of(path, laws, top):
    """The innermost folder of a path, below `top`, that is named after a law."""
    folders = os.path.relpath(os.path.abspath(path), top).split(os.sep)[:-1]
    return next((name for name in reversed(folders) if name in laws), None)


def with_laws(paths, top=os.sep):
    """[(law, path)] of those that have one."""
    laws = set(tree.laws())
    pairs = [(law_of(path, laws, top), path) for path in paths]
    for law, path in pairs:
        if not law:
            print(f"skipped: {tree.shown(path)}: no folder of it is named after a law", flush=True)
    return [(law, path) for law, path in pairs if law]


def without_copies(pairs):
    """[(law, path)] in which equal inputs of a law are one, which a fuzzer called a crash if it called any so. Copies of it are no
    leftovers."""
    different = {}
    # First what is here to stay, so that whatever ends this loses none.
    for law, path in sorted(dict.fromkeys(pairs), key=lambda pair: (not lies_in(pair[1], (tree.FINDINGS, *LEFTOVERS)), is_called_a_hang(pair[1]))):
        try:
            first = different.setdefault((law, corpora.named_by_content(path)), path)
        except OSError as error:
            print(f"skipped: {tree.shown(path)}: {error.strerror}", flush=True)
            continue
        if not os.path.samefile(first, path) and lies_in(first, (tree.FINDINGS, *LEFTOVERS)):
            remove_leftover(path)
    return [(law, path) for (law, _), path in different.items()]


def judge_all(presets, pairs, groups, over=never):
    """By these builds. Those of [(law, path)] that fail go to `groups`, which is {(law, reason): findings}; [(law, path)] of those that
    hold."""
    held, told = [], time.monotonic()
    for done, (law, path) in enumerate(pairs):
        reason, target = judge_by(presets, law, path, over)
        if reason:
            groups.setdefault((law, reason), []).append(Finding(law, reason, path, target))
        else:
            held.append((law, path))
        if time.monotonic() - told >= tree.PROGRESS_EVERY_SECONDS:
            told = time.monotonic()
            print(f"{', '.join(presets)}: {done + 1} of {len(pairs)} inputs judged", flush=True)
    return held


def keep_findings(groups):
    """One of each group, the smallest, and all that may be of different faults."""
    findings = []
    for (law, reason), alike in sorted(groups.items()):
        alike.sort(key=lambda finding: (os.path.getsize(finding.path), finding.path))
        first, *others = alike
        for other in others:
            keep_beside(law, other.path, reason)
        first.path = keep(law, first.path)
        findings.append(first)
    return findings


def leftovers():
    """[(law, path)] of what fuzzers saved, judged already or not; the canary is no law."""
    laws = set(tree.laws())
    pairs = [(law_of(path, laws, place), path) for place in LEFTOVERS for path in failing_inputs_below(place)]
    return [(law, path) for law, path in pairs if law]


def judge_by(presets, law, path, over=never):
    """(reason, fuzz target) of the first of these builds in which it fails; None twice if it holds in all."""
    for target in [tree.fuzz_target(preset, law) for preset in presets]:
        reason = judge(target, path, over)
        if reason:
            return reason, target
    return None, None


def crashed(presets, law, paths, over=never):
    """(path, reason) of inputs on which a fuzzer saw a crash. It did happen, whatever comes of it now."""
    for path in paths:
        yield path, judge_by(presets, law, path, over)[0] or UNREPRODUCED


def salvage(laws, presets, over=never):
    """Keeps what a fuzzer saved in a run that was killed before anybody judged it; the findings. These builds of these laws judge, which
    were just made; what they pass, or did not judge before it was over(), is set aside, since others may see more. Inputs of other laws
    stay where they are."""
    refuse_where_nothing_can_be_kept()
    pairs = leftovers()
    others = [law for law, _ in pairs if law not in laws]
    if others:
        print(f"not judged, {len(others)} inputs that an earlier run left of {' '.join(sorted(set(others)))}: make triage does", flush=True)
    groups, left = {}, without_copies([(law, path) for law, path in pairs if law in laws])
    try:
        # A hang of AFL++'s that holds is none, machines are busy; a timeout was the end of a run.
        aside = [(law, path) for law, path in judge_all(presets, left, groups, over) if not is_called_a_hang_by_afl(path)]
        why = f"hold in {', '.join(presets)}"
    except Unjudged:
        failed = {finding.path for alike in groups.values() for finding in alike}
        aside, why = [(law, path) for law, path in left if path not in failed], "were not all judged since"
    findings = keep_findings(groups)
    for finding in findings:
        print(f"kept from an earlier run: {tree.relative(finding.path)}, {finding.law}: {finding.reason}", flush=True)
    for law, path in aside:
        store(path, os.path.join(unjudged(), law))
    if aside:
        print(f"set aside in {tree.relative(unjudged())}, {len(aside)} inputs that failed in an earlier run and {why}: make triage judges"
              " them in all builds", flush=True)
    return findings


def refuse_where_nothing_can_be_kept():
    os.makedirs(tree.FINDINGS, exist_ok=True)
    if not os.access(tree.FINDINGS, os.W_OK):
        raise tree.WrongUse(f"{tree.relative(tree.FINDINGS)} cannot be written to, and what is found could not be kept")


def tell_others_below(place):
    """What is skipped there though somebody may take it for a finding. Text cases need no judging."""
    others = [path for path in files_below(place) if not (FAILED.match(os.path.basename(path)) or path.endswith(".jsonl"))]
    if others:
        print(f"skipped: {len(others)} files below {tree.shown(place)}, such as {tree.shown(os.path.relpath(others[0], place))}: no fuzzer names"
              " so what fails; a file that is named itself is judged", flush=True)


def asked_for(places):
    """[(law, path)] of the inputs at or below each of them."""
    pairs = []
    for place in places:
        if not (os.path.isfile(place) or os.path.isdir(place)):
            raise tree.WrongUse(f"{place} is {'no regular file and no folder' if os.path.exists(place) else 'not there'}")
        paths = failing_inputs_below(place)
        tell_others_below(place)
        found = with_laws(paths)
        if paths and not found:
            raise tree.WrongUse(f"{place}: no folder of it is named after a law")
        pairs += found
    return pairs


def all_that_wait():
    """[(law, path)] of what was kept, and of what fuzzers left."""
    tell_others_below(tree.FINDINGS)
    return with_laws(failing_inputs_below(tree.FINDINGS), tree.FINDINGS) + leftovers()


def judge_with(presets, pairs, groups, over):
    """As judge_all() does it, once these builds are made."""
    for preset in presets if pairs else ():
        try:
            tree.build(preset, *sorted({f"fuzz_{law}" for law, _ in pairs}))
        except tree.BuildFailed:
            if over():  # Ctrl-C ends compilers too
                raise Unjudged from None
            raise
    return judge_all(presets, pairs, groups, over)


def other_builds():
    """Those that can be made here."""
    if shutil.which("afl-fuzz"):
        return OTHER_BUILDS
    print("not asked, the build for AFL++, which is missing: run ci/install-deps.sh", flush=True)
    return [preset for preset in OTHER_BUILDS if preset != "afl"]


def judge_in_all_builds(pairs, groups, over):
    """As judge_all() does it. Most inputs that fail do so in the first builds."""
    held = judge_with(JUDGES, pairs, groups, over)
    others = other_builds() if held else ()
    held = judge_with(others, held, groups, over)
    if others == OTHER_BUILDS:  # fuzzers go on from what is no finding of anybody's
        for law, path in held:
            if is_leftover(path):
                corpora.admit(law, path)
    return held


def run():
    places = sys.argv[1:]
    pairs = asked_for(places) if places else all_that_wait()
    if not pairs:
        print("no input to judge")
        return tree.EXIT_CLEAN
    tree.alone("fuzzing")
    refuse_where_nothing_can_be_kept()
    # Whatever keeps it from judging all of them, what is known by then is kept and told.
    groups, ended, failed = {}, False, None
    with tree.Stop(tree.kill_below) as stop:
        try:
            rest = f"{len(judge_in_all_builds(without_copies(pairs), groups, lambda: stop.asked)):>5} hold now"
        except Unjudged:
            ended, rest = True, f"not all were judged by all builds, {ENDED}: the same command does"
        except tree.BuildFailed as error:
            failed, rest = error, "not all were judged by all builds, of which one cannot be made"
        for (law, reason), alike in sorted(groups.items()):
            print(f"{len(alike):>5} of {law}: {reason}", flush=True)
        print(rest, flush=True)
        report(keep_findings(groups), stop)
    if failed:
        raise failed
    return tree.EXIT_FINDINGS if groups else tree.EXIT_INTERRUPTED if ended else tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
