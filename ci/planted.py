#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each bug of planted/ into a copy of the tree and lets the laws look for it. What `make planted` runs; ten minutes.

    ci/planted.py [NAME...]    all of planted/, or those whose names contain one of the words
    JOBS=n                     processes at once; all processors if not given

A bug is a unified diff against the sources, with two lines before it: `# source:` where it comes from, `# fault:` what it does.
For each it prints which laws see it, the smallest case that shows it, and how many cases of the corpus do. Exit code 0: laws and
corpus found all of them, 1: not all, or some do not apply, 2: wrong use, or something is missing.
"""

import json
import os
import re
import shutil
import sys
import tempfile

import lint
import suite
import tree

FOLDER = tree.path("planted")
COPY = os.path.join(tree.BUILD, "planted", "tree")
COMMAND = os.path.join(COPY, "build", "release", "cproute")
SEED = 1
CASES_OF_LAYER, CASES_OF_ROUTES = 2000, 300
# A law that shrinks what it found may take its time.
CHECK_TIMEOUT = 300


class Bug:
    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.relpath(path, FOLDER))[0]
        with open(path) as file:
            self.text = file.read()
        self.source, self.fault = self.header("source"), self.header("fault")

    def header(self, key):
        found = re.search(rf"^# {key}: (.+)$", self.text, re.MULTILINE)
        if not found:
            raise suite.Failed(f"{tree.relative(self.path)}: no line '# {key}: ...'")
        return found.group(1)

    def files(self):
        return re.findall(r"^\+\+\+ b/(\S+)", self.text, re.MULTILINE)


def bugs(words=()):
    found = [Bug(path) for path in sorted(tree.matching(FOLDER, "**", "*.patch"))]
    return [bug for bug in found if not words or any(word in bug.name for word in words)]


def applies(bug):
    suite.need(shutil.which("git"), "git")
    suite.command(["git", "apply", "--check", bug.path])


def place(names):
    """Brings files of the tree into the copy, where they differ: what is the same is not built again."""
    for name in names:
        to, source = os.path.join(COPY, name), tree.path(name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(to):
            with open(to, "rb") as file:
                if file.read() == content:
                    continue
        shutil.copyfile(source, to)
        shutil.copymode(source, to)


def build(*targets):
    if not os.path.exists(os.path.join(COPY, "build", "release", "build.ninja")):
        # Patches of the engine use its macro.
        suite.command(["cmake", "--preset", "release", f"-DCMAKE_C_FLAGS=-include {os.path.join(FOLDER, 'planted.h')}"], cwd=COPY)
    suite.command(["cmake", "--build", "--preset", "release", "--parallel", str(tree.jobs()), "--target", *targets],
                  cwd=COPY, timeout=1200)


class Planted:
    """The copy with a bug in it, or without one for None, built; `with` takes it out again."""

    def __init__(self, bug, *targets):
        self.bug = bug
        self.targets = targets

    def __enter__(self):
        place(lint.files_of_tree())
        try:
            if self.bug:
                suite.need(shutil.which("patch"), "patch")
                suite.command(["patch", "--quiet", "-p1", "-i", self.bug.path], cwd=COPY)
            build(*self.targets)
        except suite.Failed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.bug:
            place(self.bug.files())


def laws_of(family):
    with open(tree.path("props", "laws", "laws.def")) as file:
        return re.findall(rf"^LAW\((\w+), {family},", file.read(), re.MULTILINE)


def look(laws, cases):
    """{law: (cases until it failed, the smallest case as an object)} of the laws that see something in the copy."""
    with tempfile.TemporaryDirectory() as folder:
        output = suite.command([COMMAND, "check", "--law", ",".join(laws), "--cases", str(cases), "--seed", str(SEED),
                                "--out", folder], timeout=CHECK_TIMEOUT, good=(0, 1))
        seen = {}
        for law, number in re.findall(r"^(\w+) failed at case (\d+) ", output, re.MULTILINE):
            smallest = None
            for path in tree.matching(folder, f"{law}-*.jsonl"):
                with open(path) as file:
                    smallest = json.loads(file.readline())
            seen[law] = (int(number) + 1, smallest)
        return seen


def packs_of(case):
    """The micro-batches of a case about the layer, in words."""
    packs = [op for op in case["ops"] if op["op"] == "micro_batch"]
    return ", then ".join(f"{pack['mode']}, P = {pack['cp']}, {json.dumps(pack['cu'])}" for pack in packs)


class Sighting:
    """Who sees the bug that is in the copy."""

    def __init__(self):
        self.layer = look(laws_of("delta"), CASES_OF_LAYER)
        self.routes = look(laws_of("route"), CASES_OF_ROUTES)
        replayed = suite.command([COMMAND, "replay", tree.CORPUS_CASES], timeout=CHECK_TIMEOUT, good=(0, 1))
        self.corpus = int(re.search(r"(\d+) failed", replayed).group(1))

    def by_layer(self):
        return self.layer.get("delta_exact")


def tell(bug, sighting):
    print(f"\n{bug.name}: {bug.fault}\n  from {bug.source}")
    for law, (cases, smallest) in sighting.layer.items():
        print(f"  {law} after {cases} cases: {packs_of(smallest) if smallest else 'not shrunk'}")
    print(f"  laws about routes that see it: {', '.join(sighting.routes) or 'none'}")
    print(f"  cases of the corpus that see it: {sighting.corpus}", flush=True)


def run():
    words = sys.argv[1:]
    chosen = bugs(words)
    if not chosen or any(word.startswith("-") for word in words):
        raise tree.WrongUse(f"no bug of planted/ has such a name; they are: {' '.join(bug.name for bug in bugs())}")
    tree.alone("planted")
    missed = []
    for bug in chosen:
        try:
            with Planted(bug, "cproute"):
                sighting = Sighting()
            tell(bug, sighting)
            if not (sighting.layer or sighting.routes) or not sighting.corpus:
                missed.append(bug.name)
        except suite.Failed as failure:
            print(f"\n{bug.name}: {failure}")
            missed.append(bug.name)
    print(f"\n{len(chosen) - len(missed)} of {len(chosen)} found" + (f"; not: {' '.join(missed)}" if missed else ""))
    return tree.EXIT_FINDINGS if missed else tree.EXIT_CLEAN


if __name__ == "__main__":
    suite.main(run)
