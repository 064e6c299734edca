#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing of the engine: what `make mutants` runs. Changed are the C sources and private headers of the library, engine/*.c and
engine/*.h, and not those of its GPU part, engine/cuda/.

    MUTANTS=400           so many, drawn by SEED=1; without it all of them, which takes a night
    FILES=route.c,bits.h  only those sources
    JOBS=n                mutants at once; all processors if not given
    FUZZ_SECONDS=60       how long a survivor of the other stages is fuzzed; 0: not at all
    STAGES=replay,props   only these stages, for a first look; all if not given
    RULES=own             own, universal (universalmutator's rules, from PyPI: pip install universalmutator), or own,universal

A mutant goes through the stages until one of them kills it: the replay of the corpus, all laws on random cases of one seed, the cmocka
tests, the first two again under ASan and UBSan and all laws in several threads under TSan, all small cases, fuzzing with all laws.
Ahead of the replay go a few rounds of random cases, which kill most in a hundredth of its time and count as random cases. What hangs is killed, by processor
time, so that a busy machine makes no hangs. Mutants that are compiled to the same object code as the original, or as another mutant, are
dropped; so are those that are no C.

Every verdict is written to build/mutants/state.jsonl at once, so an interrupted run goes on where it was; verdicts are good as
long as engine, laws, corpus, compilers and presets are as they were, and those of tests as long as the tests are.
ci/mutants/equivalent.jsonl lists mutants that change nothing, with the reason. They go through the stages like all others, but are
not fuzzed and not counted.
Exit code 0: enough were killed, 1: too few, or a listed one was killed or is no mutant any more, or a compiler failed, 2: wrong use,
130: interrupted.
"""

import collections
import concurrent.futures
import contextlib
import functools
import glob
import hashlib
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

import corpora
import fuzz
import json_lines
import metrics
import mutate
import suite
import swap
import tree

FOLDER = os.path.join(tree.BUILD, "mutants")
STATE = os.path.join(FOLDER, "state.jsonl")
EQUIVALENT = tree.path("ci", "mutants", "equivalent.jsonl")
SEED, ROUNDS, ROUNDS_UNDER_ASAN, ROUNDS_AT_FIRST = 1, 2000, 600, 24
# A hang takes so many times the processor time that the engine itself takes, and so many seconds at least.
TIMES_THE_ENGINE, LEAST_CPU_SECONDS, MOST_CPU_SECONDS = 8, 4, 600
# All threads asleep for so long: a lock that nobody gives back. The limit for everything else is for what nobody thought of.
ASLEEP_SECONDS, WALL_SECONDS = 10, 1800
MEMORY = 2 << 30
PROGRESS_EVERY = 10
# What warnings are for decides what is C here: a mutant with two arguments swapped that only a warning stops is none.
MUTANT_FLAGS = ("-O2", "-g0", "-Wno-error", "-Werror=incompatible-pointer-types", "-Werror=int-conversion",
                "-Werror=implicit-function-declaration", "-Werror=return-type", "-Werror=uninitialized")
# Programs that say nothing about the engine, or what other stages say.
NO_TEST_OF_ENGINE = ("test_kit", "test_shrink", "test_laws", "test_cache_guards", "test_case_text", "test_corpus", "test_cache_case",
                     "test_tensor_case", "test_law_tools", "test_law_alarms", "test_cache_alarms", "test_tensor_alarms",
                     "test_delta_alarms")
EXHAUSTIVE = "test_laws_exhaustive"
STAGES = ("replay", "props", "cmocka", "sanitizers", "exhaustive", "fuzzing")
STAGES_OF_LAWS = ("replay", "props", "fuzzing")
KILLED, SURVIVED, TWIN = "killed", "survived", "same as another"
DROPPED = "not C", "same code", TWIN


def tests_of_engine():
    names = (os.path.splitext(name)[0] for name in tree.sources(tree.path("props")) if name.startswith("test_") and name.endswith(".c"))
    chosen = [name for name in names if name not in (*NO_TEST_OF_ENGINE, EXHAUSTIVE)]
    return sorted(chosen)


LAWS, CORPUS = ("engine", "props", "proof"), "corpus"


def sources_of(tops):
    """Paths of the sources in these folders, or that these are."""
    for top in map(tree.path, tops):
        if os.path.isfile(top):
            yield top
        for folder, folders, _ in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (os.path.join(folder, name) for name in tree.sources(folder))


@functools.lru_cache(maxsize=None)
def fingerprint(tops=LAWS, tests=False):
    """Of what lies there, without the tests if they do not count."""
    digest = hashlib.sha1()
    for path in sources_of(tops):
        name = os.path.basename(path)
        if tests or not name.startswith("test_"):
            with open(path, "rb") as file:
                digest.update(os.fsencode(name) + b"\0" + file.read() + b"\0")
    return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=None)
def compilers():
    """A line of each: of the system's, and of the one that the sanitizers come with."""
    told = [subprocess.run([compiler, "--version"], stdout=subprocess.PIPE, text=True, errors="replace", check=True).stdout.splitlines()[0]
            for compiler in ("gcc", tree.toolchain().get("FUZZ_CC")) if compiler and shutil.which(compiler)]
    return "\n".join(told)


@functools.lru_cache(maxsize=None)
def built_with():
    """A fingerprint of the compilers and of the presets."""
    with open(tree.path("CMakePresets.json"), "rb") as file:
        return hashlib.sha1(compilers().encode() + b"\0" + file.read()).hexdigest()[:16]


def grounds(verdict, stage):
    """What a verdict stands on: a mutant that a law has killed is dead, whatever is tested beside."""
    if verdict in DROPPED:
        return f"{fingerprint(('engine',))} {built_with()}"
    return f"{fingerprint((*LAWS, CORPUS), tests=not (verdict == KILLED and stage in STAGES_OF_LAWS))} {built_with()}"


class Equivalents:
    """What ci/mutants/equivalent.jsonl says: {"file", "before", "after", "nth", "why"}, both lines with single blanks. Without "after" it
    goes for whatever the line becomes; "nth" tells equal lines of a file apart, and without it an entry goes for all of them."""

    def __init__(self, path=EQUIVALENT):
        self.reasons = {}
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                entry = json_lines.parsed(line)
                wrong = self.wrong_with(entry)
                if wrong:
                    raise tree.WrongUse(f"{tree.relative(path)}:{number}: {wrong}: {line.decode(errors='replace').strip()}")
                self.reasons[tuple(entry.get(member) for member in ("file", "before", "after", "nth"))] = entry["why"]

    @staticmethod
    def wrong_with(entry):
        if entry is None:
            return "no object"
        texts = {name: text for name, text in entry.items() if name != "nth"}
        if not {"file", "before"} <= set(texts) <= {"file", "before", "after", "why"}:
            return "its members are file, before, after, nth and why"
        if not all(isinstance(text, str) for text in texts.values()) or type(entry.get("nth", 1)) is not int:
            return "members are texts, and nth is a number"
        return None if entry.get("why") else "no reason"

    def of(self, mutant, afters):
        keys = [(mutant["file"], mutant["before"], after, nth) for after in afters for nth in (mutant["nth"], None)]
        return next((self.reasons[key] for key in keys if key in self.reasons), None)

    def listed(self, mutant):
        """The reason of exactly this one. What a reason without "after" is for changes something as often as not."""
        return self.of(mutant, (mutant["after"],))

    def reason(self, mutant):
        return self.of(mutant, (mutant["after"], None))

    def gone(self, mutants):
        """Entries that no mutant of these files is any more."""
        files = {mutant["file"] for mutant in mutants}
        known = {(mutant["file"], mutant["before"], after, nth) for mutant in mutants
                 for after in (mutant["after"], None) for nth in (mutant["nth"], None)}
        return [key for key in self.reasons if key not in known and (key[0] in files or not os.path.exists(tree.path(key[0])))]


def is_verdict(entry):
    texts = all(isinstance(entry.get(name), str) for name in ("id", "verdict", "stage", "of")) and isinstance(entry.get("code", ""), str)
    return texts and (entry["verdict"] != SURVIVED or (isinstance(entry.get("stages"), list) and isinstance(entry.get("fuzzed"), int)))


def last_written():
    """{path: when} of what verdicts stand on."""
    written = {}
    for path in sources_of((*LAWS, CORPUS)):
        with contextlib.suppress(FileNotFoundError):
            written[path] = os.stat(path).st_mtime_ns
    return written


def stages_before(stage, asked):
    return asked[:asked.index(stage)] if stage in asked else []


class State:
    """Verdicts, by the ids of mutants, in a file that grows by a line each. `chosen` are the ids that are asked for, `written` is
    last_written() from before the first look at the sources."""

    def __init__(self, stages, fuzz_seconds, equivalents, chosen, written, path=STATE):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.stages, self.fuzz_seconds, self.equivalents, self.chosen, self.written = stages, fuzz_seconds, equivalents, chosen, written
        self.verdicts = {}
        for entry in json_lines.read(path):
            if is_verdict(entry) and entry["of"] == grounds(entry["verdict"], entry["stage"]):
                self.verdicts[entry["id"]] = entry
        self.lock = threading.Lock()
        self.file = json_lines.open_to_append(path)

    def stages_of(self, mutant):
        """That a mutant is to go through. One that has a reason to survive is not fuzzed."""
        return [stage for stage in self.stages if stage != "fuzzing" or not self.equivalents.reason(mutant)]

    def tried(self, mutant):
        stages = self.stages_of(mutant)
        return {"stages": stages, "fuzzed": self.fuzz_seconds if "fuzzing" in stages else 0}

    def verdict_of(self, mutant):
        """None of one that is to be tried, also if it survived fewer stages, or less of them, than are asked for now, or is like one that is
        not asked for."""
        entry, asked = self.verdicts.get(mutant["id"]), self.tried(mutant)
        if entry and entry["verdict"] == KILLED and not set(stages_before(entry["stage"], asked["stages"])) <= set(entry.get("stages") or ()):
            return None  # one of those might have killed it, and it is counted by the first that does
        if entry and entry["verdict"] == TWIN and entry.get("details") and entry["details"] not in self.chosen:
            return None
        if entry and entry["verdict"] == SURVIVED and not (
                all(stage in entry["stages"] for stage in asked["stages"]) and asked["fuzzed"] <= entry["fuzzed"]):
            return None
        return entry

    def add(self, mutant, verdict):
        changed = sorted({tree.relative(path) for path, _ in last_written().items() ^ self.written.items()})
        if changed:
            raise tree.WrongUse(f"changed while mutants are judged: {' '.join(changed)}; verdicts until then are kept, and the same command judges"
                                " the rest as it is now")
        entry = {**{name: mutant[name] for name in ("id", "file", "line", "operator", "before", "after")}, **verdict,
                 **self.tried(mutant), "of": grounds(verdict["verdict"], verdict["stage"])}
        with self.lock:
            self.verdicts[mutant["id"]] = entry
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()


class Outcome(Exception):
    """Ends the way of a mutant through the stages."""

    def __init__(self, verdict, stage="", details=""):
        super().__init__(verdict)
        self.verdict = {"verdict": verdict, "stage": stage, "details": details[-200:]}


def children_took():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Laboratory:
    """Builds, and what is shared by the workers."""

    def __init__(self, stages, fuzz_seconds, state):
        self.stages, self.state = stages, state
        self.fuzz_seconds = fuzz_seconds if "fuzzing" in stages else 0
        self.tests = tests_of_engine() if "cmocka" in stages else []
        self.fast = swap.Build("release", "judge", *self.tests, *[EXHAUSTIVE] * ("exhaustive" in stages))
        under_asan = ["judge"] * ("sanitizers" in stages) + ["fuzz_suite"] * bool(self.fuzz_seconds)
        self.asan = swap.Build("fuzz", *under_asan) if under_asan else None
        self.tsan = swap.Build("tsan", "test_threads") if "sanitizers" in stages else None
        self.originals = {}
        self.objects = {entry["code"]: number for number, entry in state.verdicts.items() if "code" in entry and number in state.chosen}
        self.took, self.learning = {}, None
        self.lock = threading.Lock()
        self.seeds = self.make_seeds() if self.fuzz_seconds else None
        self.compile_originals()
        self.check_originals()

    def compile_originals(self):
        engine = swap.overlay(os.path.join(FOLDER, "original"))
        for name in swap.files():
            if name.endswith(".c"):
                self.originals[name] = self.object_of(engine, name, os.path.join(FOLDER, "original.o"))

    def object_of(self, engine, name, out):
        self.fast.compile(os.path.join(engine, name), out, *MUTANT_FLAGS)
        with open(out, "rb") as file:
            return file.read()

    def check_originals(self):
        """The engine itself must pass what mutants are killed by; how long it takes is what they are held to."""
        worker = Worker(self, "original")
        self.learning = children_took()
        try:
            worker.judge([], self.stages)
        except swap.NotCompiled as failed:
            raise tree.BuildFailed(str(failed))
        except Outcome as outcome:
            raise tree.BuildFailed(f"the engine itself fails in the stage {outcome.verdict['stage']}: {outcome.verdict['details']}")
        self.learning = None
        self.tests.sort(key=lambda test: self.took[f"{test}-{self.fast.preset}",])

    def learn(self, command):
        """Nothing else runs while the engine itself is judged."""
        if self.learning is not None:
            now = children_took()
            self.took[command] = now - self.learning
            self.learning = now

    def cpu_limit(self, command):
        return max(LEAST_CPU_SECONDS, math.ceil(TIMES_THE_ENGINE * self.took.get(command, MOST_CPU_SECONDS)))

    def make_seeds(self):
        """The byte seeds of all laws as inputs of the target of all laws."""
        corpora.make_seeds()
        folder = os.path.join(FOLDER, "seeds")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for law in tree.laws():
            for source in corpora.seeds_of(law):
                for path in corpora.files_in(source):
                    with open(path, "rb") as file, open(os.path.join(folder, f"{law}-{os.path.basename(path)}"), "wb") as seed:
                        seed.write(b"\0" + file.read())
        return folder

    def twin(self, mutant, code):
        """The id of another mutant that was compiled to the same objects, in this run or in one that it goes on from. One that is listed is
        no other one: what it is like is judged all the same."""
        if self.state.equivalents.listed(mutant):
            return None
        with self.lock:
            first = self.objects.setdefault(code, mutant["id"])
        return None if first == mutant["id"] else first


def stat_of(process):
    """Fields of /proc/*/stat from the state on, which is the third."""
    with open(process) as file:
        return file.read().rpartition(")")[2].split()


def used_and_awake(session):
    """(ticks of processor time, does any thread run or wait for a processor) of the processes of a session."""
    used, awake = 0, False
    for folder in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            fields = stat_of(folder + "/stat")
            if int(fields[3]) == session:
                used += int(fields[11]) + int(fields[12])
                awake = awake or any(stat_of(thread)[0] == "R" for thread in glob.glob(folder + "/task/*/stat"))
    return used, awake


def output_of(process):
    """What a process wrote until its end; None for one that will never end. Nothing of it is left in any case."""
    asleep, used_before = 0, None
    try:
        for _ in range(WALL_SECONDS):
            try:
                return process.communicate(timeout=1)[0]
            except subprocess.TimeoutExpired:
                used, awake = used_and_awake(process.pid)
                asleep = 0 if awake or used != used_before else asleep + 1
                used_before = used
                if asleep == ASLEEP_SECONDS:
                    break
        return None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def key_of(command):
    """What it takes is the same for every worker."""
    return tuple(os.path.basename(word) for word in command)


class Worker:
    def __init__(self, laboratory, name):
        self.lab = laboratory
        self.folder = os.path.join(FOLDER, f"worker-{name}")
        self.engine = swap.overlay(self.folder)
        self.made = set()

    def path(self, name):
        return os.path.join(self.folder, name)

    def try_mutant(self, mutant):
        """The verdict."""
        name = os.path.basename(mutant["file"])
        with open(tree.path(mutant["file"])) as file:
            text = file.read()
        begin, end, changed = mutant["span"]
        self.made = set()
        swap.replace(self.engine, name, text[:begin] + changed + text[end:])
        try:
            self.judge(self.compile(mutant, swap.included_by(name)), self.lab.state.stages_of(mutant))
            verdict = {"verdict": SURVIVED, "stage": "", "details": ""}
        except swap.NotCompiled as failed:
            verdict = Outcome("not C", details=str(failed).splitlines()[0]).verdict
        except Outcome as outcome:
            verdict = outcome.verdict
        finally:
            swap.restore(self.engine, name)
        unlike_others = verdict["verdict"] in DROPPED or self.lab.state.equivalents.listed(mutant)
        return verdict if unlike_others else {**verdict, "code": self.code}

    def compile(self, mutant, sources):
        """Names of the sources whose objects differ."""
        objects = {}
        for source in sources:
            compiled = self.lab.object_of(self.engine, source, self.path(source + ".fast.o"))
            if compiled != self.lab.originals[source]:
                objects[source] = compiled
        if not objects:
            raise Outcome("same code")
        self.code = hashlib.sha1(b"\0".join(name.encode() + content for name, content in sorted(objects.items()))).hexdigest()
        twin = self.lab.twin(mutant, self.code)
        if twin:
            raise Outcome(TWIN, details=twin)
        return sorted(objects)

    def judge(self, sources, stages):
        """Raises what kills it."""
        if "props" in stages:
            self.random_cases(sources, ROUNDS_AT_FIRST)
        for stage in stages:
            getattr(self, "stage_" + stage)(sources)

    def fast_objects(self, sources):
        return [self.path(source + ".fast.o") for source in sources]

    def random_cases(self, sources, rounds):
        program = self.link(self.lab.fast, "judge", self.fast_objects(sources))
        self.run("props", [program, "props", str(SEED), str(rounds)])

    def stage_replay(self, sources):
        program = self.link(self.lab.fast, "judge", self.fast_objects(sources))
        self.run("replay", [program, "replay", tree.CORPUS_CASES])

    def stage_props(self, sources):
        self.random_cases(sources, ROUNDS)

    def stage_cmocka(self, sources):
        for test in self.lab.tests:
            self.cmocka(test, sources)

    def stage_exhaustive(self, sources):
        self.cmocka(EXHAUSTIVE, sources)

    def cmocka(self, test, sources):
        program = self.link(self.lab.fast, test, self.fast_objects(sources))
        self.run("exhaustive" if test == EXHAUSTIVE else "cmocka", [program], memory=0)
        os.remove(program)

    def stage_sanitizers(self, sources):
        program = self.link(self.lab.asan, "judge", self.compile_all(self.lab.asan, sources, ".asan.o", "-w"))
        self.run("sanitizers", [program, "replay", tree.CORPUS_CASES], memory=0)
        self.run("sanitizers", [program, "props", str(SEED), str(ROUNDS_UNDER_ASAN)], memory=0)
        program = self.link(self.lab.tsan, "test_threads", self.compile_all(self.lab.tsan, sources, ".tsan.o", "-w"))
        self.run("sanitizers", [program], memory=0)

    def stage_fuzzing(self, sources):
        """The engine itself only passes what mutants start from: a fuzzer that cannot start would kill them all."""
        if self.lab.fuzz_seconds:
            program = self.link(self.lab.asan, "fuzz_suite", self.compile_all(self.lab.asan, sources, ".asan.o", "-w"))
            self.fuzz(self.lab.fuzz_seconds if sources else 0, program)

    def compile_all(self, build, sources, suffix, *flags):
        objects = [self.path(source + suffix) for source in sources]
        for source, out in zip(sources, objects):
            if out not in self.made:
                build.compile(os.path.join(self.engine, source), out, *flags)
                self.made.add(out)
        return objects

    def link(self, build, target, objects):
        """Once for a mutant."""
        program = self.path(f"{target}-{build.preset}")
        if program not in self.made:
            build.link(target, objects, program)
            self.made.add(program)
        return program

    def run(self, stage, command, memory=MEMORY, cpu_seconds=None):
        key = key_of(command)
        limit = cpu_seconds or self.lab.cpu_limit(key)
        process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=swap.limits(limit, memory),
                                   env=tree.environment(**suite.SANITIZER_ENVIRONMENT))
        output = output_of(process)
        if output is None:
            raise Outcome(KILLED, stage, "hang")
        self.lab.learn(key)
        if process.returncode:
            last = (output.decode(errors="replace").strip().splitlines() or [""])[-1]
            raise Outcome(KILLED, stage, last if process.returncode > 0 else f"signal {-process.returncode}")

    def fuzz(self, seconds, program):
        """0 seconds: it only runs what it starts from."""
        found = self.path("found")
        shutil.rmtree(found, ignore_errors=True)
        os.makedirs(found)
        # libFuzzer tells hangs by the clock, here processor time does.
        command = [program, *fuzz.LIBFUZZER_OPTIONS, "-timeout=0", "-artifact_prefix=found/", found, self.lab.seeds]
        only_seeds = [*command, "-runs=0"]
        # It looks at its time after each input, but not before it ran all that it starts from.
        limit = max(self.lab.cpu_limit(key_of(only_seeds)), 2 * seconds)
        self.run("fuzzing", [*command, f"-max_total_time={seconds}"] if seconds else only_seeds, memory=0, cpu_seconds=limit)


class Tally:
    def __init__(self, mutants, state, equivalents):
        self.by_stage = collections.Counter()
        self.dropped = collections.Counter()
        self.equivalent = 0
        self.survivors = []
        self.wrongly_listed = []
        self.by_file = collections.defaultdict(lambda: [0, 0])
        for mutant in mutants:
            entry = state.verdict_of(mutant)
            if equivalents.listed(mutant):
                self.add_listed(mutant, entry)
            elif entry:
                self.add(mutant, entry, equivalents)

    def add_listed(self, mutant, entry):
        """It counts for no percentage, whatever came of it."""
        if entry and entry["verdict"] == KILLED:
            self.wrongly_listed.append((mutant, entry["stage"]))
        else:
            self.equivalent += 1

    def add(self, mutant, entry, equivalents):
        if entry["verdict"] in DROPPED:
            self.dropped[entry["verdict"]] += 1
        elif entry["verdict"] == KILLED:
            self.by_stage[entry["stage"]] += 1
            self.by_file[mutant["file"]][0] += 1
        elif equivalents.reason(mutant):
            self.equivalent += 1
        else:
            self.survivors.append(mutant)
            self.by_file[mutant["file"]][1] += 1

    def told_survivors(self):
        """By place, with what tells of each."""
        told = [{name: mutant[name] for name in ("file", "line", "operator", "before", "after")} for mutant in self.survivors]
        return sorted(told, key=lambda mutant: (mutant["file"], mutant["line"]))

    def killed(self):
        return sum(self.by_stage.values())

    def judged(self):
        return self.killed() + len(self.survivors)

    def percent(self, killed):
        return 100.0 * killed / self.judged() if self.judged() else 0.0

    def percent_before_fuzzing(self):
        return self.percent(self.killed() - self.by_stage["fuzzing"])

    def table(self):
        stages = "  ".join(f"{stage} {self.by_stage[stage]}" for stage in STAGES)
        dropped = "  ".join(f"{name} {self.dropped[name]}" for name in DROPPED)
        return (f"{self.judged()} mutants: killed by {stages}; survived {len(self.survivors)}\n"
                f"dropped: {dropped}  equivalent, listed {self.equivalent}\n"
                f"killed before fuzzing: {self.percent_before_fuzzing():.2f} % (wanted {metrics.KILLED_BEFORE_FUZZING_WANTED:g} %), in all: "
                f"{self.percent(self.killed()):.2f} % (wanted {metrics.KILLED_WANTED:g} %)")

    def good(self):
        return (self.judged() > 0 and self.percent_before_fuzzing() >= metrics.KILLED_BEFORE_FUZZING_WANTED
                and self.percent(self.killed()) >= metrics.KILLED_WANTED)


def chosen_files(choice):
    return tree.chosen("FILES", choice, swap.files(), lambda name: f"there is no engine/{name}")


def chosen_rules(choice):
    return tree.chosen("RULES", choice or "own", mutate.RULES, lambda _: f"the rules are {' '.join(mutate.RULES)}")


def chosen_stages(choice):
    stages = tree.chosen("STAGES", choice, STAGES, lambda _: f"the stages are {' '.join(STAGES)}")
    return [stage for stage in STAGES if stage in stages]


def all_mutants(files, rules):
    mutants = []
    for name in files:
        with open(os.path.join(swap.ENGINE, name)) as file:
            try:
                mutants += mutate.mutants_of(f"engine/{name}", file.read(), rules)
            except ModuleNotFoundError as missing:
                raise tree.WrongUse(f"{missing}: python3 -m venv build/venv && build/venv/bin/pip install universalmutator,"
                                    " then make mutants PYTHON=build/venv/bin/python")
    return mutants


def drawn(mutants, count, seed):
    """So many of them, the same for the same seed, whichever others there are."""
    if not count:
        return mutants
    rank = {mutant["id"]: random.Random(f"{seed}/{mutant['id']}").random() for mutant in mutants}
    return sorted(mutants, key=lambda mutant: rank[mutant["id"]])[:count]


def try_all(mutants, state, laboratory, jobs):
    """False if it was interrupted."""
    left = [mutant for mutant in mutants if not state.verdict_of(mutant) and state.stages_of(mutant)]
    workers = [Worker(laboratory, str(number)) for number in range(jobs)]
    stop = tree.Stop(tree.kill_below)
    done = collections.Counter()
    begun = time.monotonic()

    def work(worker):
        while not stop.asked:
            with laboratory.lock:
                mutant = left.pop(0) if left else None
            if not mutant:
                return
            try:
                verdict = worker.try_mutant(mutant)
                if not stop.asked:
                    state.add(mutant, verdict)
                    done[verdict["verdict"]] += 1
            except Exception:
                # Whatever is killed because the end is wished for fails; what fails by itself is the end.
                if not stop.asked:
                    stop.ask()
                    raise

    total, told = len(left), begun
    with stop, concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        running = [pool.submit(work, worker) for worker in workers]
        while any(not future.done() for future in running):
            concurrent.futures.wait(running, timeout=0.5)
            if stop.asked:
                tree.kill_below()
            if time.monotonic() - told >= PROGRESS_EVERY:
                told = time.monotonic()
                rate = sum(done.values()) / (told - begun)
                eta = (total - sum(done.values())) / rate if rate else 0
                print(f"{told - begun:6.0f} s  {sum(done.values()):>6} of {total}  {done[KILLED]} killed  {done[SURVIVED]} survived"
                      f"  {sum(done[name] for name in DROPPED)} dropped  about {eta / 60:.0f} min left", flush=True)
    for future in running:
        future.result()
    return not stop.asked


def end_at_once():
    """Before mutants are tried, all happens in the main thread, where signals arrive."""
    tree.kill_below()
    raise KeyboardInterrupt


def whole_number(name, otherwise, least=1):
    text = os.environ.get(name)
    return tree.number(name, text, least=least) if text else otherwise


def numbers_of(tally, every, chosen, fuzz_seconds, begun):
    """For docs/METRICS.md."""
    return {"mutants": tally.judged(), "of": len(every), "killed_before_fuzzing": tally.percent_before_fuzzing(),
            "killed": tally.percent(tally.killed()), "survivors": tally.told_survivors(), "equivalent": tally.equivalent,
            "stages": {stage: tally.by_stage[stage] for stage in STAGES}, "dropped": dict(tally.dropped),
            "fuzz_seconds": fuzz_seconds, "seconds": round(time.monotonic() - begun),
            "files": sorted({mutant["file"] for mutant in chosen})}


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments: MUTANTS=, SEED=, FILES=, JOBS=, FUZZ_SECONDS=, STAGES= and RULES= are read from the environment")
    count, seed, fuzz_seconds = whole_number("MUTANTS", None), whole_number("SEED", 1, least=0), whole_number("FUZZ_SECONDS", 60, least=0)
    stages, rules = chosen_stages(os.environ.get("STAGES")), chosen_rules(os.environ.get("RULES"))
    if stages == ["fuzzing"] and not fuzz_seconds:
        raise tree.WrongUse("STAGES=fuzzing FUZZ_SECONDS=0 leaves nothing to do")
    equivalents, jobs = Equivalents(), tree.jobs()
    tree.alone("mutants")
    written = last_written()
    measurement = metrics.Measurement("mutants-sample" if count else "mutants", MUTANTS=count, FUZZ_SECONDS=fuzz_seconds)
    every = all_mutants(chosen_files(os.environ.get("FILES")), rules)
    chosen = drawn(every, count, seed)
    state = State(stages, fuzz_seconds, equivalents, {mutant["id"] for mutant in chosen}, written)
    print(f"{len(chosen)} of {len(every)} mutants, {tree.commit()}", flush=True)
    begun = time.monotonic()
    with tree.Stop(end_at_once):
        laboratory = Laboratory(stages, fuzz_seconds, state)
    finished = try_all(chosen, state, laboratory, jobs)
    tally = Tally(chosen, state, equivalents)
    for mutant in tally.told_survivors():
        print(f"survived  {mutant['file']}:{mutant['line']}  {mutant['operator']}\n    - {mutant['before']}\n    + {mutant['after']}")
    gone = equivalents.gone(every) if "universal" not in rules else []
    for file, before, after, _ in gone:
        print(f"{tree.relative(EQUIVALENT)}: no mutant any more: {file}: {before} -> {after}")
    for mutant, stage in tally.wrongly_listed:
        print(f"{tree.relative(EQUIVALENT)}: listed as changing nothing, killed by {stage}: {mutant['file']}: {mutant['before']}"
              f" -> {mutant['after']}")
    wrong = bool(gone or tally.wrongly_listed)
    print(tally.table())
    if not finished:
        print("interrupted: the same command goes on from here")
        return tree.EXIT_INTERRUPTED
    if len(stages) < len(STAGES) or os.environ.get("FILES"):  # a look, and no measurement
        return tree.EXIT_CLEAN if tally.judged() and not tally.survivors and not wrong else tree.EXIT_FINDINGS
    good = tally.good() and not wrong
    if rules == ["own"]:
        return measurement.keep(numbers_of(tally, every, chosen, fuzz_seconds, begun), good)
    return tree.EXIT_CLEAN if good else tree.EXIT_FINDINGS


if __name__ == "__main__":
    tree.main(run)
