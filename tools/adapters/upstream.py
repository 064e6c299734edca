#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the published generations of Megatron-LM to `cproute conform`: what `make upstream SOURCE=...` runs.

    tools/adapters/upstream.py --source CLONE [--also NAME=FOLDER]

CLONE is a git clone, bare or not, with the commits below; FOLDER a checkout of whatever else, such as a fork. Writes docs/upstream.md, the known differences of every generation
to tools/adapters/known/, and the minimal cases to corpus/cases/upstream.jsonl. Needs torch in the Python that runs it.
Exit code 0: written, 1: an adapter or the command failed, 2: wrong use.
"""
import argparse
import concurrent.futures
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import digests
import megatron

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CASES = os.path.join(ROOT, "corpus", "cases")
UPSTREAM_CASES = os.path.join(CASES, "upstream.jsonl")
KNOWN = os.path.join(HERE, "known")
REPORT = os.path.join(ROOT, "docs", "upstream.md")
ADAPTER = os.path.join(HERE, "megatron.py")
RANDOM, SEEDS = 2000, range(1, 11)  # of so many random cases each; the first is what the report is about

# In the order of their publication: short name, commit or ref, what it is.
GENERATIONS = [
    ("3282-first", "0565caabea", "#3282, first version: contiguous means chunks 2r and 2r+1 of every sequence"),
    ("3282-review", "df90299fa6", "#3282 after its first review: empty sequences are taken"),
    ("3282-merged", "5139086e7f", "#3282 as it was merged: contiguous means a span of the stream"),
    ("5664", "refs/pull/5664/head", "#5664: intervals, one flat tensor for each direction"),
    ("6387", "3f49de20de", "#6387, merged into dev: one two-view route for both directions"),
    ("6515", "refs/pull/6515/head", "#6515: the same for main"),
    ("6764", "refs/pull/6764/head", "#6764: a padded plan; what is not aligned gets padding rows instead of a refusal, so both sides may differ in rows"),
    ("6912", "refs/pull/6912/head", "#6912: a padded plan, too"),
    ("7545", "refs/pull/7545/head", "#7545: routes over tensor and context parallelism"),
]

LEGAL, NO_ANSWER = ": what is legal is refused", ": it has no answer"

# How bad a difference is, by what its kind says; the first that fits.
GRADES = [
    ("changes", "the same wrong request is accepted, refused or dies, as chance has it: memory that nobody set", lambda d: d.endswith(" is *")),
    ("wrong rows", "rows go to another place, and nothing says so", lambda d: ": other " in d),
    ("accepts", "a request that is wrong gets a route", lambda d: d.endswith("is accepted")),
    ("breaks", "a wrong request ends in an exception that was not meant for it", lambda d: "exception:" in d and LEGAL not in d),
    ("refuses", "a request that is legal is refused", lambda d: LEGAL in d),
    ("no answer", "nothing to judge: it has no such thing, or the adapter cannot ask for it", lambda d: d.endswith(NO_ANSWER)),
    ("other rule", "a wrong request is refused for another reason than the first", lambda d: True),
]


def grade_of(difference):
    return next(name for name, _, fits in GRADES if fits(difference))


class Clone:
    def __init__(self, path):
        inside = os.path.join(path, ".git")
        self.folder = inside if os.path.exists(inside) else path

    def git(self, *arguments):
        done = subprocess.run(["git", "--git-dir", self.folder, *arguments], capture_output=True, text=True, errors="surrogateescape")
        return done.stdout if done.returncode == 0 else None

    def commit(self, name):
        found = self.git("rev-parse", "--verify", "--quiet", name + "^{commit}")
        return found.strip() if found else None

    def extract(self, commit, folder):
        """The files of context parallelism, and no others: the adapter needs no more."""
        for name in self.git("ls-tree", "-r", "--name-only", commit, "megatron/core").splitlines():
            if "context_parallel" in name and name.endswith(".py"):
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", errors="surrogateescape") as file:
                    file.write(self.git("show", f"{commit}:{name}"))


def conform(command, source, cases, seed, *options):
    """([differences], counts, seconds)"""
    begun = time.monotonic()
    done = subprocess.run([command, "conform", "--json", "--cases", cases, "--random", str(RANDOM), "--seed", str(seed), *options, "--",
                           sys.executable, ADAPTER, "--source", source], capture_output=True, text=True, errors="replace")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    refused = "--update-known" in options and done.returncode != 0
    if refused or done.returncode not in (0, 1) or not lines or lines[-1]["incomplete"]:
        sys.exit(f"upstream.py: conform failed\n{done.stdout}{done.stderr}")
    return lines[:-1], lines[-1], time.monotonic() - begun


def accumulate(command, source, cases, known):
    """Accepts what any of the seeds shows: each run keeps what the runs before it found, as known cases are asked first."""
    for seed in SEEDS:
        conform(command, source, cases, seed, "--known", known, "--update-known")
        print(f"{os.path.basename(known)}: seed {seed}: {len(entries_of(known))} kinds of differences", flush=True)


# --------------------------------------------------------------------------------------------------------------
# Text cases
# --------------------------------------------------------------------------------------------------------------

def text_case(difference, name, commit):
    """A minimal case under a name that its contents make, so that it stays the same from run to run."""
    case = {key: value for key, value in difference["case"].items() if key not in ("id", "law", "tag", "note")}
    digest = hashlib.sha256(json.dumps(case, sort_keys=True).encode()).hexdigest()[:8]
    return {"id": f"upstream-{digest}", "source": f"Megatron-LM {commit[:10]} ({name})", "tag": "upstream", **case,
            "note": difference["difference"]}


def entries_of(known):
    """The differences of a file, without what the command offers."""
    with open(known) as file:
        return [entry for entry in map(json.loads, file) if "difference" in entry]


def known_of(name):
    return os.path.join(KNOWN, name + ".jsonl")


def changing(name):
    """Beginnings of the differences of a generation that come and go: their cases would not be the same from run to run."""
    path = known_of(name)
    if not os.path.exists(path):
        return ()
    return tuple(entry["difference"].rstrip("*") for entry in entries_of(path) if entry.get("unstable"))


def each(work, generations):
    """In their order, two at a time: most of it is one process for each."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(work, generations))


def discover(command, sources):
    """The minimal cases of every generation, as the rest of the corpus and random cases show them, beside those that were found before.
    What was accepted about the cases that are left out stays as it is."""
    cases = {}
    if os.path.exists(UPSTREAM_CASES):
        with open(UPSTREAM_CASES) as file:
            cases = {case["id"]: case for case in map(json.loads, file)}
    with tempfile.TemporaryDirectory() as folder:
        rest = os.path.join(folder, "cases")
        os.mkdir(rest)
        for name in os.listdir(CASES):
            if not name.startswith("upstream."):
                shutil.copy(os.path.join(CASES, name), rest)
        each(lambda one: accumulate(command, one[2], rest, known_of(one[0])), sources)
        for name, commit, _ in sources:
            for difference in entries_of(known_of(name)):
                is_one = "case" in difference and not difference["difference"].endswith(NO_ANSWER)
                comes_and_goes = difference.get("unstable") or difference["difference"].startswith(changing(name))
                if is_one and not comes_and_goes:
                    case = text_case(difference, name, commit)
                    cases.setdefault(case["id"], case)
    with open(UPSTREAM_CASES, "w") as file:
        file.writelines(json.dumps(case, separators=(",", ":")) + "\n" for case in cases.values())
    return len(cases)


# --------------------------------------------------------------------------------------------------------------
# The report
# --------------------------------------------------------------------------------------------------------------

def list_of(name, numbers):
    return f", {name} `{json.dumps(numbers, separators=(',', ':'))}`"


def shown(case):
    text = f"`{json.dumps(case['cu_seqlens'], separators=(',', ':'))}`, P = {case['cp_size']}, rank {case['rank']}"
    for op in case.get("ops", []):
        if op["op"] == "dtype":
            text += f", {op['v']}"
        if op["op"] == "layouts":
            text += f", {op['src']} to {op['dst']}"
        if op["op"] == "fused":
            text += f", tp {op['tp']}" + list_of("order", op["order"])
        if op["op"] == "flat_form":
            text += list_of("tensor", op["t"])
    return text


def answer_in_short(answer):
    if not isinstance(answer, dict):
        return str(answer)
    if answer.get("status") == "error":
        return answer.get("message") or answer["error"]
    for field in ("tokens", "recv_rows", "send_rows", "fused_recv_rows", "pad_contiguous_gather", "chunk_recv"):
        if answer.get(field) is not None:
            return f"{field} {answer[field]}"
    return "a route"


def cell(text):
    text = " ".join(str(text).split()).replace("|", "\\|")
    return text if len(text) <= 110 else text[:107] + "..."


def differences_by_case(differences):
    """What is said about routes, which all generations answer for, by case of the corpus."""
    by_case = {}
    for difference in differences:
        if difference["difference"].startswith("route: ") and not difference["difference"].endswith(NO_ANSWER):
            for case in difference.get("cases", []):
                by_case.setdefault(case, set()).add(difference["difference"])
    return by_case


def stable(differences, entries):
    """The differences of a run with their minimal cases; those that change are one each, whichever way they came out."""
    changing = [entry for entry in entries if entry.get("unstable")]
    known = {entry["difference"]: entry for entry in entries}
    return changing + [{**one, **known[one["difference"]]} for one in differences if one["difference"] in known and not known[one["difference"]].get("unstable")]


def same_files(before, after):
    """Are the files that make routes the same in both?"""
    names = [{os.path.relpath(file, source): file for file in megatron.landmarks(source)} for source in (before, after)]
    made = [{name: open(file).read() for name, file in files.items() if "\ndef build_thd" in open(file).read()} for files in names]
    return bool(made[0]) and made[0] == made[1]


def told_apart(before, after):
    a, b = differences_by_case(before), differences_by_case(after)
    return sorted(case for case in {*a, *b} if a.get(case) != b.get(case))


def section(name, commit, what, differences, counts):
    lines = [f"## {name}", "", f"{what}. Commit `{commit}`, as {counts['implementation']}.", "",
             f"{counts['questions']} questions, {sum(d.get('answers') or 0 for d in differences if grade_of(d['difference']) != 'no answer')} answers differ"
             + (", in these ways:" if differences else ": it agrees in everything that it was asked."), ""]
    if differences:
        lines += ["| how bad | difference | answers | smallest input | it says |", "| --- | --- | --- | --- | --- |"]
    order = [grade for grade, _, _ in GRADES]
    for one in sorted(differences, key=lambda d: (order.index(grade_of(d["difference"])), d["difference"])):
        lines.append(f"| {grade_of(one['difference'])} | {cell(one['difference'])} | {one.get('answers') or 'some'} | {shown(one['case'])} | "
                     f"{cell(answer_in_short(one.get('got', 'one thing or another')))} |")
    return lines + ([""] if differences else [])


def summary(results):
    lines = ["| generation | commit | " + " | ".join(grade for grade, _, _ in GRADES) + " |",
             "| --- | --- |" + " --- |" * len(GRADES)]
    for name, commit, _, differences, _ in results:
        counts = [sum(grade_of(d["difference"]) == grade for d in differences) for grade, _, _ in GRADES]
        lines.append(f"| {name} | `{commit[:10]}` | " + " | ".join(map(str, counts)) + " |")
    return lines


def adjacent(results, sources):
    lines = ["| from | to | cases of the corpus that tell them apart | for example |", "| --- | --- | --- | --- |"]
    for i, (before, after) in enumerate(zip(results, results[1:])):
        cases = told_apart(before[3], after[3])
        none = "none: the file that makes routes is the same" if same_files(sources[i][2], sources[i + 1][2]) else "none"
        lines.append(f"| {before[0]} | {after[0]} | {len(cases)} | {', '.join(f'`{case}`' for case in cases[:3]) or none} |")
    return lines


def write_report(results, sources, missing, torch_version):
    lines = ["# What the published generations of Megatron-LM do", "",
             "Written by `make upstream SOURCE=CLONE`, which runs each of them on the CPU against the corpus and "
             f"{RANDOM:,} random cases of seed {SEEDS[0]}",
             f"(torch {torch_version}). `tools/adapters/known/` holds the differences that seeds {SEEDS[0]} to {SEEDS[-1]} show, `corpus/cases/upstream.jsonl` the smallest",
             "cases. What is right is what this project's specification says; where public code has another opinion, that is a difference all",
             "the same: see `accepts`, `refuses` and `other rule`.", "", digests.sentence(ROOT), "",
             "Kinds of differences, the worst first:", ""]
    lines += [f"- **{name}**: {meaning}" for name, meaning, _ in GRADES]
    lines += ["", "How many kinds of each:", "", *summary(results), "", "What tells a generation from the one before it:", "", *adjacent(results, sources), ""]
    if missing:
        lines += ["Not in the clone, and so not run: " + ", ".join(f"{name} (`{ref}`)" for name, ref, _ in missing)
                  + ". A checkout of it, or of a fork such as Relax, is run by `make upstream SOURCE=CLONE ALSO=NAME=FOLDER`.", ""]
    for result in results:
        lines += section(*result)
    with open(REPORT, "w") as file:
        file.write("\n".join(lines).rstrip() + "\n")


def checkout(text):
    """(name, folder) of NAME=FOLDER"""
    name, _, folder = text.partition("=")
    if not name or not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=FOLDER with a folder that is there")
    return name, folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True, help="a git clone of Megatron-LM, bare or not")
    parser.add_argument("--also", action="append", default=[], type=checkout, metavar="NAME=FOLDER", help="a checkout that is not in the clone")
    parser.add_argument("--cproute", default=os.path.join(ROOT, "build", "release", "cproute"), help="the command")
    options = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        parser.error(f"{sys.executable} has no torch: name a Python that has, as in `make upstream PYTHON=python3.11 SOURCE=...`")
    import torch
    clone = Clone(options.source)
    found = [(name, clone.commit(ref), what) for name, ref, what in GENERATIONS if clone.commit(ref)]
    named = {name for name, _ in options.also}
    missing = [one for one in GENERATIONS if not clone.commit(one[1]) and one[0] not in named]
    if not found and not options.also:
        parser.error(f"{options.source} has none of the generations: it takes a clone of Megatron-LM with its pull requests")
    os.makedirs(KNOWN, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for name, commit, _ in found:
            sources.append((name, commit, os.path.join(folder, name)))
            clone.extract(commit, sources[-1][2])
        sources += [(name, "a checkout", path) for name, path in options.also]
        found += [(name, "a checkout", next((what for other, _, what in GENERATIONS if other == name), name)) for name, _ in options.also]
        print(f"{discover(options.cproute, sources)} minimal cases", flush=True)

        def hold(one):
            (name, commit, what), (_, _, source) = one
            known = ("--known", known_of(name), "--update-known")
            conform(options.cproute, source, CASES, SEEDS[0], *known)
            # Once more, now that all are known and asked: so the report is the same from run to run.
            differences, counts, seconds = conform(options.cproute, source, CASES, SEEDS[0], *known)
            differences = stable(differences, entries_of(known_of(name)))
            print(f"{name}: {counts['questions']} questions, {len(differences)} kinds of differences, {seconds:.1f} s", flush=True)
            return name, commit, what, differences, counts
        results = each(hold, zip(found, sources))
        write_report(results, sources, missing, torch.__version__)


if __name__ == "__main__":
    main()
