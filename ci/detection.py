#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How soon the planted faults of the engine are found: what `make detection` runs.

    BUGS=a,b              only these of planted/engine/*.patch; all if not given
    SEEDS=10              runs of every engine for every fault
    DETECTION_SECONDS=30  after which a run has not found it
    SHRINK=5              failing cases of every fault that are shrunk; 0: none
    JOBS=n                runs at once; times want half of the processors left alone

Each patch is an engine with one fault that a public project had. Engines that look for it, from nothing, with all laws and no word
of which one it is: random cases (props), libFuzzer and AFL++, both in their fast builds and both from a few inputs of random bytes.
Beside them, in the same run, two baselines: raw, a harness that takes its bytes as they come (proof/fuzz_raw.c), under both
fuzzers, and unit, three packs there and back as the tests of implementations do (proof/unit_style.c). AFL++ is held to raw under
AFL++, the others to raw under libFuzzer. A run that finds nothing counts as slower than every other one. The engine as it is goes
first, with all seeds: what is found there, such as a hang that is none, are false alarms, and are counted.

Every run is written to build/detection/runs.jsonl at once; the same command goes on where it was interrupted. Exit code 0: everything
wanted was reached, 1: it was not, 2: wrong use, 130: interrupted.

    ci/detection.py check   does every patch apply and compile? Seconds; a part of make lint
"""

import collections
import concurrent.futures
import functools
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

import campaign
import fuzz
import fuzz_afl
import json_lines
import metrics
import mutants
import planted
import suite
import swap
import tree
import triage

FOLDER = os.path.join(tree.BUILD, "detection")
RUNS = os.path.join(FOLDER, "runs.jsonl")
FIELDS = ("source", "fault", "reached by", "triggered by")
ENGINES, BASELINES = ("props", "libFuzzer", "AFL++"), ("raw libFuzzer", "raw AFL++", "unit")
# Which baseline an engine is held to.
RAW_OF = {"props": "raw libFuzzer", "libFuzzer": "raw libFuzzer", "AFL++": "raw AFL++"}
HELD_TO = ("raw", "unit")
FROM_INPUTS = ("libFuzzer", "AFL++", "raw libFuzzer", "raw AFL++")
# To start from: room for a long script of operations each.
RANDOM_INPUTS, INPUT_BYTES = 160, fuzz_afl.LONGEST_INPUT
HANG_SECONDS = 2
# Parts of the key of a run, of which the third is the engine; and what shrinks.
KEY_PARTS, TOOLS = 5, ("ours", "libFuzzer", "AFL++")
# What ends a process for no fault of what it runs: the system where memory is short, a supervisor, a terminal.
SENT_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
# After which AFL++ leaves an input and looks at it again, with all of HANG_SECONDS, if it ran through something new. It would make
# it 20 by itself, which a busy machine may take for any input.
AFL_MILLISECONDS = 500
LEAST_PATCHES = 20
NEVER = math.inf
HEADER = "planted/planted.h"
PLANTED_FLAGS = ("-w", "-DPLANTED_BOARD", f"-include{tree.path(HEADER)}")
GRACE_SECONDS = 15
# Fuzzers look at the clock of the day.
CLOCKS_DIFFER = 0.1
POLL_SECONDS = 0.02
FIND_SECONDS, MINIMIZE_SECONDS = 60, 10
SMALLEST_SECONDS = 20
PROGRESS_EVERY = 10


# ---------------------------------------------------------------------------- patches

class Patch(planted.Bug):
    """A bug of planted/engine/."""

    def __init__(self, path):
        super().__init__(path)
        self.name = os.path.basename(self.name)

    def fields(self):
        return {field: self.header(field) for field in FIELDS}

    def check_header(self):
        if not re.match(r"https://\S+$", self.fields()["source"]):
            raise suite.Failed(f"{self.name}: its source is no address")

    def apply(self, folder):
        """To copies of the files that it changes, in a folder where they lie as in the tree."""
        # Without a repository around, git takes paths from where it stands.
        done = subprocess.run(["git", "apply", "-p1", "-C1", self.path], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", env={**os.environ, "GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(folder))})
        if done.returncode:
            raise suite.Failed(f"{self.name} does not apply any more:\n{done.stdout.strip()}")


class Control:
    """The engine as it is. What is found in it is a false alarm, and says that nothing else found is worth anything."""

    name, text = "none", ""

    def files(self):
        return ()

    def apply(self, folder):
        pass


CONTROL = Control()


def all_patches(choice=None):
    patches = [Patch(path) for path in sorted(tree.matching(planted.FOLDER, "engine", "*.patch"))]
    known = {patch.name: patch for patch in patches}
    return [known[name] for name in tree.chosen("BUGS", choice, known, lambda name: f"there is no planted/engine/{name}.patch")]


def copy_of(patch, folder):
    """The folders that a patch changes, copied and changed."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for top in sorted({os.path.dirname(name) for name in patch.files()}):
        if not os.path.isdir(tree.path(top)):
            raise suite.Failed(f"{patch.name}: there is no {top}")
        shutil.copytree(tree.path(top), os.path.join(folder, top), dirs_exist_ok=True)
    patch.apply(folder)


def changed_sources(patch):
    """Paths of the sources that are compiled with a changed file in them."""
    return sorted({os.path.join("engine", user) for name in patch.files() for user in swap.included_by(os.path.basename(name))})


def check_patch(patch, folder):
    patch.check_header()
    copy_of(patch, folder)
    for source in changed_sources(patch):
        suite.command(["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-include{tree.path(HEADER)}",
                       "-I", tree.path("engine", "include"), os.path.join(folder, source)])


def check():
    """Every patch applies and compiles. Returns how many there are; raises suite.Failed."""
    patches = all_patches()
    with concurrent.futures.ThreadPoolExecutor(max_workers=tree.jobs()) as pool:
        done = [pool.submit(check_patch, patch, os.path.join(FOLDER, "check", patch.name)) for patch in patches]
        for future in done:
            future.result()
    if len(patches) < LEAST_PATCHES:
        raise suite.Failed(f"{len(patches)} faults are planted in the engine; {LEAST_PATCHES} are wanted")
    return f"{len(patches)} patches"


# ---------------------------------------------------------------------------- programs

class Programs:
    """The builds that faults are put into."""

    WHAT = {"judge": ("release", "judge"), "fuzz_suite": ("fuzz-fast", "fuzz_suite"), "fuzz_raw": ("fuzz-fast", "fuzz_raw"),
            "afl_suite": ("afl", "fuzz_suite"), "afl_raw": ("afl", "fuzz_raw")}

    def __init__(self):
        targets = collections.defaultdict(list)
        for preset, target in self.WHAT.values():
            targets[preset].append(target)
        self.builds = {preset: swap.Build(preset, *names) for preset, names in targets.items()}

    def make(self, patch):
        """The folder with the programs of a fault; made once for the same patch and tree."""
        folder = os.path.join(FOLDER, "programs", patch.name)
        stamp = os.path.join(folder, "made-of")
        made_of = fingerprint(patch)
        if os.path.exists(stamp) and open(stamp).read() == made_of:
            return folder
        copy_of(patch, folder)
        for preset, build in self.builds.items():
            objects = []
            for source in changed_sources(patch):
                objects.append(os.path.join(folder, f"{os.path.basename(source)}.{preset}.o"))
                build.compile(os.path.join(folder, source), objects[-1], *PLANTED_FLAGS)
            for name, (of_preset, target) in self.WHAT.items():
                if of_preset == preset:
                    build.link(target, objects, os.path.join(folder, name))
        with open(stamp, "w") as file:
            file.write(made_of)
        return folder


def fingerprint(patch):
    """Of what a fault is found in, and by."""
    return f"{mutants.fingerprint((*mutants.LAWS, HEADER))} {mutants.built_with()} {hashlib.sha1(patch.text.encode()).hexdigest()[:16]}"


# ---------------------------------------------------------------------------- runs

class Board:
    """What proof/board.c writes: reached, triggered, when it was detected, by which law."""

    FORMAT = "=QQQQ"

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as file:
            file.write(bytes(struct.calcsize(self.FORMAT)))

    def read(self):
        with open(self.path, "rb") as file:
            return struct.unpack(self.FORMAT, file.read(struct.calcsize(self.FORMAT)))


def environment_of(engine, board):
    if engine.endswith("AFL++"):
        return fuzz_afl.afl_environment(AFL_BENCH_UNTIL_CRASH="1", AFL_HANG_TMOUT=str(1000 * HANG_SECONDS),
                                        PLANTED_BOARD=board.path)
    result = tree.environment(**suite.SANITIZER_ENVIRONMENT)
    return {**result, **fuzz.fuzz_environment(), "PLANTED_BOARD": board.path}


def random_inputs(folder, seed):
    """What both fuzzers start from, the suite and the baseline alike."""
    os.makedirs(folder)
    for number in range(RANDOM_INPUTS):
        with open(os.path.join(folder, f"{number:03}"), "wb") as file:
            file.write(random.Random(f"{seed}/{number}").randbytes(INPUT_BYTES))
    return folder


def command_of(engine, programs, folder, seed, seconds):
    if engine == "props":
        return [os.path.join(programs, "judge"), "props", str(seed), "0"]
    if engine == "unit":
        return [os.path.join(programs, "judge"), "unit"]
    target = "raw" if engine.startswith("raw") else "suite"
    inputs = random_inputs(os.path.join(folder, "in"), seed)
    if engine.endswith("AFL++"):
        return ["afl-fuzz", "-i", inputs, "-o", os.path.join(folder, "out"), "-s", str(seed), "-V", str(seconds), "-t",
                str(AFL_MILLISECONDS), "-m", "none", "-G", str(fuzz_afl.LONGEST_INPUT), "--", os.path.join(programs, f"afl_{target}")]
    # There is no corpus whose sizes inputs could grow with.
    return [os.path.join(programs, f"fuzz_{target}"), *fuzz.LIBFUZZER_OPTIONS, "-len_control=0", f"-timeout={HANG_SECONDS}", f"-seed={seed}",
            f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", inputs]


# What fuzzers save, and what it says.
SAVED = {"AFL++": {"out/*/crashes/id:*": "a crash", "out/*/hangs/id:*": "a hang"},
         "libFuzzer": {"crash-*": "a crash", "leak-*": "a crash", "oom-*": "a crash", "timeout-*": "a hang"}}

# What AFL++ says before it gives up because every input that it starts from does so; it saves none of them.
SAID_OF_ALL_INPUTS = {"We need at least one valid input seed that does not crash": "a crash", "All test cases time out or crash": "a hang"}


def last_signal_of(engine):
    return fuzz_afl.LAST_SIGNAL if engine.endswith("AFL++") else signal.SIGKILL


def log_of(folder):
    with open(os.path.join(folder, "log"), errors="replace") as file:
        return file.read()


def what_was_found(engine, folder, status):
    """In words, where no law said so; None: nothing."""
    for fuzzer, saved in SAVED.items():
        found = engine.endswith(fuzzer) and next((what for files, what in saved.items() if tree.matching(folder, files)), None)
        if found:
            return found
    if engine == "unit" and status == tree.EXIT_FINDINGS:
        return "a test"
    if engine.endswith("AFL++") or status is None or status in SENT_FROM_OUTSIDE:
        return None
    return "a hang" if status == -signal.SIGPROF else "a crash" if status < 0 else None


def refuse(what, status, printed):
    """To call it never found, or not shrunk, would flatter who is compared with what did not do its work."""
    raise suite.Failed(f"{what} did not run to its end, {tree.how_it_ended(status)}, and found nothing:\n{campaign.last_lines(printed)}")


def ran_to_its_end(engine, status, took, seconds):
    """One that found nothing. Unit tests are done when they are; all others end well before their time only if somebody ends them."""
    return status == 0 and (engine == "unit" or took + CLOCKS_DIFFER >= seconds)


def crash_that_was_told(folder, begun):
    """Seconds until libFuzzer said so, None if it did not. After one within malloc it saves no input: it waits for ever, or crashes again."""
    return os.stat(os.path.join(folder, "log")).st_mtime - begun if triage.reason_of(log_of(folder)) else None


def wait_until_found(process, board, seconds, hung):
    """False if neither the process ended nor a law failed nor hung() in that time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            process.wait(POLL_SECONDS)
            return True
        except subprocess.TimeoutExpired:
            if board.read()[2] or hung():
                return True
    return False


def run_once(patch, programs, engine, seed, seconds):
    """How long it took until a law failed or something crashed; None: neither did."""
    folder = os.path.join(FOLDER, "running", f"{patch.name}-{engine}-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    board = Board(os.path.join(folder, "board"))
    begun, begun_by_clock = time.monotonic_ns(), time.time()
    with open(os.path.join(folder, "log"), "wb") as log:
        process = tree.start(command_of(engine, programs, folder, seed, seconds), last_signal_of(engine), cwd=folder, stdout=log,
                             stderr=subprocess.STDOUT, env=environment_of(engine, board))
        try:
            # AFL++ ends by itself after a crash, and goes on after a hang.
            ended = wait_until_found(process, board, seconds if engine == "props" else seconds + GRACE_SECONDS,
                                     lambda: engine.endswith("AFL++") and what_was_found(engine, folder, None))
            took = (time.monotonic_ns() - begun) / 1e9
        finally:
            tree.end(process)
        if engine.endswith("AFL++"):
            # A target that hangs would go on without its fuzzer.
            fuzz_afl.end_orphans(os.path.join(programs, "afl_"))
    reached, triggered, detected_ns, law = board.read()
    by = what_was_found(engine, folder, process.returncode) if ended else None
    if detected_ns > 0:
        by, took = tree.laws()[law], (detected_ns - begun) / 1e9
    elif by is None and engine.endswith("libFuzzer"):
        told = crash_that_was_told(folder, begun_by_clock)
        by, took = ("a crash", told) if told is not None else (None, took)
    elif by is None and engine.endswith("AFL++"):
        by = next((what for said, what in SAID_OF_ALL_INPUTS.items() if said in log_of(folder)), None)
    if ended and by is None and not ran_to_its_end(engine, process.returncode, took, seconds):
        refuse(engine, process.returncode, log_of(folder))
    shutil.rmtree(folder, ignore_errors=True)
    return {"seconds": round(took, 4) if by and took <= seconds + HANG_SECONDS else None, "reached": reached, "triggered": triggered, "by": by}


NUMBER, OR_NONE = (int, float), (int, float, type(None))
RUN = {"seconds": OR_NONE, "reached": int, "triggered": int, "by": (str, type(None))}
# What has one of these in the place of the engine in its key.
SHRINKINGS = {"shrink": {"law_of": str, "start": OR_NONE, **{tool: OR_NONE for tool in TOOLS}, **{tool + " seconds": NUMBER for tool in TOOLS}},
              "smallest": {"law_of": str, "smallest": OR_NONE}}


def is_entry(entry):
    """Is it a line as State.add writes it?"""
    key = entry.get("key")
    if not isinstance(key, list) or len(key) != KEY_PARTS or not all(isinstance(part, (str, int)) for part in key):
        return False
    return all(name in entry and isinstance(entry[name], kind) for name, kind in SHRINKINGS.get(key[2], RUN).items())


def runs_of(path):
    """{key: what was found} of a file with a run a line; lines that are damaged are left out, and run again."""
    return {tuple(entry["key"]): entry for entry in json_lines.read(path) if is_entry(entry)}


class State:
    def __init__(self):
        os.makedirs(FOLDER, exist_ok=True)
        self.runs = runs_of(RUNS)
        self.lock = threading.Lock()
        self.file = json_lines.open_to_append(RUNS)

    def add(self, key, found):
        with self.lock:
            self.runs[key] = {"key": list(key), **found}
            self.file.write(json.dumps(self.runs[key]) + "\n")
            self.file.flush()


def key_of(patch, engine, seed, seconds):
    """What the outcome of a run depends on."""
    start = f" {RANDOM_INPUTS}x{INPUT_BYTES}" if engine in FROM_INPUTS else ""
    return (circumstances(patch) + start, patch.name, engine, seed, seconds)


def shrinking_key(patch, law, what, seed):
    return (f"{circumstances(patch)} {law}", patch.name, what, seed, SMALLEST_SECONDS)


@functools.lru_cache(maxsize=None)
def circumstances(patch):
    """Times of other machines, or beside more or fewer other runs, are no times of this one."""
    return f"{fingerprint(patch)} {tree.machine()}, JOBS={tree.jobs()}"


# ---------------------------------------------------------------------------- shrinking

# What a tool says that sees no failure, or none that it shrinks: it is no worse than that, and leaves nothing.
SAW_NONE = ("did not crash", "Target binary times out")


def judged(programs, seconds, good, verb, *arguments):
    """What proof/judge.c prints; nothing if it took longer."""
    status, printed = triage.output_of([os.path.join(programs, "judge"), verb, *arguments], seconds)
    if status not in (None, *good):
        refuse(f"judge {verb}", status, printed)
    return printed


def shrink_by(tool, command, result, environment):
    status, printed = triage.output_of(command, 3 * MINIMIZE_SECONDS, last_signal=last_signal_of(tool), env=environment)
    if status not in (None, 0) and not os.path.exists(result) and not any(said in printed for said in SAW_NONE):
        refuse(f"{tool}, which shrinks,", status, printed)


def size_of(programs, law, path):
    """Bytes that are drawn from: what a case is made of, whatever else the file holds."""
    printed = judged(programs, GRACE_SECONDS, (0,), "size", law, path)
    return int(printed.split()[0]) if printed else None


def still_fails(programs, law, path):
    """False too if there is no such file: what shrinks by something else than the failure, as afl-tmin does where it sees none, shrank nothing."""
    if not os.path.exists(path):
        return False
    code, _ = triage.output_of([os.path.join(programs, "fuzz_suite"), f"-timeout={HANG_SECONDS}", path], GRACE_SECONDS, cwd=os.path.dirname(path),
                               env={**fuzz.fuzz_environment(), "PROOF_LAW": law})
    return code != 0  # a hang has none


def shrink_once(patch, programs, law, seed):
    """{"start", "ours", "libFuzzer", "AFL++"}: sizes, and the seconds that each took."""
    folder = os.path.join(FOLDER, "shrinking", f"{patch.name}-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    start = os.path.join(folder, "start")
    judge = os.path.join(programs, "judge")
    judged(programs, FIND_SECONDS, (1,), "find", law, str(seed), start)
    if not os.path.exists(start):
        return None
    sizes = {"start": size_of(programs, law, start)}
    commands = {
        "ours": ([judge, "shrink", law, start, os.path.join(folder, "ours")], None),
        "libFuzzer": ([os.path.join(programs, "fuzz_suite"), "-minimize_crash=1", "-timeout=10", f"-max_total_time={MINIMIZE_SECONDS}",
                       f"-exact_artifact_path={os.path.join(folder, 'libFuzzer')}", start], {**fuzz.fuzz_environment(), "PROOF_LAW": law}),
        "AFL++": (["afl-tmin", "-i", start, "-o", os.path.join(folder, "AFL++"), "-m", "none", "-t", "2000", "--",
                   os.path.join(programs, "afl_suite")], fuzz_afl.afl_environment(PROOF_LAW=law)),
    }
    for tool, (command, environment) in commands.items():
        result = os.path.join(folder, tool)
        begun = time.monotonic()
        shrink_by(tool, command, result, environment)
        sizes[tool + " seconds"] = round(time.monotonic() - begun, 2)
        sizes[tool] = size_of(programs, law, result) if still_fails(programs, law, result) else sizes["start"]
    # The fork server of afl-tmin is in a session of its own, and a target that hangs would go on without both.
    fuzz_afl.end_orphans(os.path.join(programs, "afl_"))
    shutil.rmtree(folder, ignore_errors=True)
    return sizes


def smallest(programs, law):
    """The smallest bytes that a search of its own finds, None if it finds none, and how far it went."""
    lines = judged(programs, 3 * SMALLEST_SECONDS, (0, 1), "smallest", law, str(SMALLEST_SECONDS)).strip().splitlines()
    found = re.match(r"(\d+) [0-9a-f]*$", lines[-1]) if lines else None
    return {"smallest": int(found.group(1)) if found else None, "searched": lines[0] if lines else ""}


# ---------------------------------------------------------------------------- figures

def a12(ours, theirs):
    """Vargha and Delaney: how likely a time of ours is shorter than one of theirs; what never ended is longest, and ties with the like."""
    wins = sum(1.0 if x < y else 0.5 if x == y else 0.0 for x in ours for y in theirs)
    return wins / (len(ours) * len(theirs))


def times(state, patch, engine, seeds, seconds):
    """Of every seed; the unit tests have no seed."""
    entries = [state.runs.get(key_of(patch, engine, 1 if engine == "unit" else seed, seconds)) for seed in range(1, seeds + 1)]
    return [NEVER if entry["seconds"] is None else entry["seconds"] for entry in entries if entry]


def found_by(entries):
    """{law, or what else saw it: in how many runs}"""
    return dict(collections.Counter(entry["by"] for entry in entries if entry["seconds"] is not None))


def figures(state, patches, seeds, seconds):
    """What is told of every fault."""
    rows = []
    for patch in patches:
        row = {"name": patch.name, **patch.fields(), "engines": {}, "a12": {}}
        by_engine = {engine: times(state, patch, engine, seeds, seconds) for engine in ENGINES + BASELINES}
        for engine, taken in by_engine.items():
            entries = [state.runs.get(key_of(patch, engine, seed, seconds)) for seed in range(1, seeds + 1)]
            entries = [entry for entry in entries if entry]
            row["engines"][engine] = {
                "times": [None if time == NEVER else time for time in taken],
                "median": None if statistics.median(taken) == NEVER else statistics.median(taken),
                "found": sum(time != NEVER for time in taken), "of": len(taken),
                "reached": all(entry["reached"] for entry in entries), "triggered": all(entry["triggered"] for entry in entries),
                "untriggered": sum(entry["seconds"] is not None and not entry["triggered"] for entry in entries), "laws": found_by(entries)}
        for baseline in HELD_TO:
            row["a12"][baseline] = {engine: round(a12(by_engine[engine], by_engine[RAW_OF[engine] if baseline == "raw" else baseline]), 3)
                                    for engine in ENGINES}
        law = law_of(state, patch, seeds, seconds)
        shrunk = [entry for key, entry in state.runs.items() if key[:3] == shrinking_key(patch, law, "shrink", 0)[:3]]
        if shrunk:
            row["shrinking"] = shrink_figures(shrunk, state.runs.get(shrinking_key(patch, law, "smallest", 0)))
        rows.append(row)
    return rows


def shrink_figures(shrunk, searched):
    known = [entry[tool] for entry in shrunk for tool in TOOLS if entry.get(tool)]
    known += [searched["smallest"]] if searched and searched.get("smallest") else []
    optimum = min(known)
    median = {tool: statistics.median([entry[tool] for entry in shrunk if entry.get(tool)] or [0]) for tool in ("start", *TOOLS)}
    return {"law": shrunk[0]["law_of"], "optimum": optimum, "by_search": bool(searched and searched.get("smallest") == optimum),
            "median": median, "cases": len(shrunk),
            "at_optimum": {tool: sum(entry.get(tool) == optimum for entry in shrunk) for tool in TOOLS},
            "seconds": {tool: statistics.median([entry[tool + " seconds"] for entry in shrunk]) for tool in TOOLS}}


def report(numbers):
    rows = numbers["rows"]
    print(f"\n{'fault':<26}" + "".join(f"{engine:>14}" for engine in ENGINES + BASELINES) + f"{'A12 raw':>10}{'A12 unit':>10}"
          f"{'shrunk to':>11}{'libF.':>7}{'tmin':>6}{'best':>6}")
    for row in rows:
        shrinking = row.get("shrinking")
        sizes = "".join(f"{value:>{width}g}" for value, width in zip(
            [shrinking["median"]["ours"], shrinking["median"]["libFuzzer"], shrinking["median"]["AFL++"], shrinking["optimum"]],
            (11, 7, 6, 6))) if shrinking else ""
        print(f"{row['name']:<26}" + "".join(f"{metrics.shown(row['engines'][engine]['median']):>14}" for engine in ENGINES + BASELINES) +
              "".join(f"{min(row['a12'][baseline].values()):>10.2f}" for baseline in HELD_TO) + sizes)
    print()
    for goal in metrics.detection_goals(numbers):
        print(f"{'reached' if goal.reached else 'MISSED' if goal.asked else 'missed, and not asked for'}: {goal.what}. {goal.got}")
    print(f"found without being triggered: {metrics.untriggered(rows)}")


# ---------------------------------------------------------------------------- all of it

def jobs_of(patches, seeds, once=("unit",)):
    """(patch, engine, seed), a seed of everything first, so that an interrupted run knows a little of all. Some run once only."""
    for seed in range(1, seeds + 1):
        for patch in patches:
            for engine in ENGINES + BASELINES:
                if engine not in once or seed == 1:
                    yield patch, engine, seed


def control_jobs(seeds):
    return jobs_of([CONTROL], seeds)


def in_parallel(tasks, work, what, keep=None):
    """Calls work(*task) for all tasks on JOBS threads, and keep(*result) with what comes of each; false if it was interrupted."""
    stop = tree.Stop(tree.kill_below)
    begun = told = time.monotonic()

    def one(task):
        if stop.asked:
            return
        try:
            result = work(*task)
            # What was under way when the end was wished for may have been cut short.
            if result and not stop.asked:
                keep(*result)
        except Exception:
            # Whatever is killed because the end is wished for fails; what fails by itself is the end.
            if not stop.asked:
                stop.ask()
                raise

    with stop, concurrent.futures.ThreadPoolExecutor(max_workers=tree.jobs()) as pool:
        futures = [pool.submit(one, task) for task in tasks]
        left = set(futures)
        while left:
            _, left = concurrent.futures.wait(left, timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
            if stop.asked:
                tree.kill_below()
            if time.monotonic() - told >= PROGRESS_EVERY:
                told = time.monotonic()
                print(f"{told - begun:6.0f} s  {what}: {len(futures) - len(left)} of {len(futures)}", flush=True)
    for future in futures:
        future.result()
    return not stop.asked


def measure(patches, seeds, seconds, state):
    programs = Programs()
    folders = {}

    def make(patch):
        folders[patch.name] = programs.make(patch)

    def one(patch, engine, seed):
        return key_of(patch, engine, seed, seconds), run_once(patch, folders[patch.name], engine, seed, seconds)

    if not in_parallel([(patch,) for patch in [CONTROL, *patches]], make, "programs"):
        return False, folders
    for what, tasks in (("control runs", control_jobs(seeds)), ("runs", jobs_of(patches, seeds))):
        left = [task for task in tasks if key_of(*task, seconds) not in state.runs]
        if not in_parallel(left, one, what, state.add):
            return False, folders
    return True, folders


def false_alarms(state, seeds, seconds):
    """{engine: how many of its runs find something in the engine as it is, and what}"""
    entries = collections.defaultdict(list)
    for task in control_jobs(seeds):
        entries[task[1]].append(state.runs[key_of(*task, seconds)])
    return {engine: {"found": sum(found_by(runs).values()), "of": len(runs), "by": found_by(runs)} for engine, runs in entries.items()}


def law_of(state, patch, seeds, seconds):
    """The law that random cases break first, most often."""
    laws = collections.Counter()
    for seed in range(1, seeds + 1):
        for engine in ENGINES:
            entry = state.runs.get(key_of(patch, engine, seed, seconds))
            if entry and entry["by"] in tree.laws():
                laws[entry["by"]] += 1
    return laws.most_common(1)[0][0] if laws else None


def measure_shrinking(patches, folders, count, seeds, seconds, state):
    tasks = []
    for patch in patches:
        law = law_of(state, patch, seeds, seconds)
        if law:
            tasks += [(patch, law, "smallest", 0)] + [(patch, law, "shrink", seed) for seed in range(1, count + 1)]

    def one(patch, law, what, seed):
        folder = folders[patch.name]
        found = smallest(folder, law) if what == "smallest" else shrink_once(patch, folder, law, seed)
        return found and (shrinking_key(patch, law, what, seed), {**found, "law_of": law})

    return in_parallel([task for task in tasks if shrinking_key(*task) not in state.runs], one, "shrinking", state.add)


def run():
    if sys.argv[1:] == ["check"]:
        tree.alone("lint")
        print(check())
        return tree.EXIT_CLEAN
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments but `check`: BUGS=, SEEDS=, DETECTION_SECONDS=, SHRINK= and JOBS= are read from the environment")
    tree.require("afl-fuzz")
    patches = all_patches(os.environ.get("BUGS"))
    seeds, seconds = mutants.whole_number("SEEDS", 10), mutants.whole_number("DETECTION_SECONDS", 30)
    shrinks, jobs = mutants.whole_number("SHRINK", 5, least=0), tree.jobs()
    measurement = metrics.Measurement("detection", SEEDS=seeds, DETECTION_SECONDS=seconds, SHRINK=shrinks)
    tree.alone("detection")
    fuzz_afl.adopt_orphans()
    state = State()
    begun = time.monotonic()
    print(f"{len(patches)} planted faults, {seeds} seeds, {seconds} s, {tree.commit()}", flush=True)
    finished, folders = measure(patches, seeds, seconds, state)
    finished = finished and (not shrinks or measure_shrinking(patches, folders, shrinks, seeds, seconds, state))
    if not finished:
        print("interrupted: the same command goes on from here")
        return tree.EXIT_INTERRUPTED
    numbers = {"rows": figures(state, patches, seeds, seconds), "alarms": false_alarms(state, seeds, seconds), "seeds": seeds, "limit": seconds,
               "shrinks": shrinks, "jobs": jobs, "seconds": round(time.monotonic() - begun)}
    report(numbers)
    reached = metrics.detection_reached(numbers)
    code = tree.EXIT_CLEAN if reached else tree.EXIT_FINDINGS
    if not os.environ.get("BUGS"):
        code = measurement.keep(numbers, reached)
    if any(alarm["found"] for alarm in numbers["alarms"].values()):
        print(f"a false alarm makes what else was found doubtful. On a busy machine it may be a hang that is none: remove {tree.relative(RUNS)}"
              " and measure again when it is quiet")
    return code


if __name__ == "__main__":
    suite.main(run)
