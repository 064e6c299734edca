#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coverage of engine/ by the tests and the corpus: an HTML report, a summary and the gate. What `make cover` runs.

    ci/cover.py    no arguments; JOBS=n processes at once, all processors if not given

The gate: every line, and 98 % of all branches. Lines that no test can reach are listed with the reason in
ci/coverage-exceptions.txt. A crash leaves no profile, so nothing that crashes is measured.
Exit code 0: measured, 1: a build or a test failed, 2: wrong use.
"""

import os
import shutil
import sys

import suite
import tree

BRANCHES_WANTED = 98.0
EXCEPTIONS = tree.path("ci", "coverage-exceptions.txt")
PROFILES = os.path.join(tree.BUILD, "cover", "profiles")
PROFILE = os.path.join(tree.BUILD, "cover", "all.profdata")
HTML = os.path.join(tree.BUILD, "cover", "html")


def instrumented_programs():
    """Executables and shared libraries of the build."""
    programs = []
    for folder, folders, files in os.walk(os.path.join(tree.BUILD, "cover")):
        folders[:] = [name for name in folders if name not in ("CMakeFiles", "html", "profiles")]
        for name in files:
            full = os.path.join(folder, name)
            if os.access(full, os.X_OK) and not os.path.islink(full):
                with open(full, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        programs.append(full)
    return sorted(programs)


def measure():
    """Runs tests and corpus, and merges what they covered."""
    shutil.rmtree(PROFILES, ignore_errors=True)
    pattern = os.path.join(PROFILES, "%p-%m.profraw")
    suite.command(["ctest", "--preset", "cover", "-j", str(tree.jobs())], LLVM_PROFILE_FILE=pattern, timeout=300)
    suite.command([os.path.join(tree.BUILD, "cover", "cproute"), "replay", "corpus"], LLVM_PROFILE_FILE=pattern)
    raw = [os.path.join(PROFILES, name) for name in os.listdir(PROFILES)]
    raw = [name for name in raw if os.path.getsize(name)]
    suite.command([suite.need(tree.toolchain()["LLVM_PROFDATA"], "llvm-profdata"), "merge", "-sparse", "-o", PROFILE, *raw])


def llvm_cov(verb, *options):
    programs = instrumented_programs()
    objects = [programs[0]]
    for program in programs[1:]:
        objects += ["-object", program]
    return suite.command([suite.need(tree.toolchain()["LLVM_COV"], "llvm-cov"), verb, *objects,
                          f"-instr-profile={PROFILE}", *options, tree.path("engine")])


def exceptions():
    """{(file, text of the line): reason}"""
    listed = {}
    with open(EXCEPTIONS) as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) != 3 or not parts[2]:
                raise suite.Failed(f"{tree.relative(EXCEPTIONS)}:{number}: not `file | line | reason`")
            listed[parts[0], parts[1]] = parts[2]
    return listed


class FileCoverage:
    def __init__(self, name):
        self.name = name
        self.lines = {}
        self.branches = {}


def read_lcov(text):
    """Per source file, how often each line ran and each way of each branch was taken."""
    files = {}
    current = None
    for line in text.splitlines():
        field, _, value = line.partition(":")
        if field == "SF":
            current = files.setdefault(tree.relative(value), FileCoverage(tree.relative(value)))
        elif field == "DA":
            number, count = value.split(",")[:2]
            current.lines[int(number)] = current.lines.get(int(number), 0) + int(count)
        elif field == "BRDA":
            number, block, way, count = value.split(",")
            key = int(number), block, way
            current.branches[key] = current.branches.get(key, 0) + (0 if count == "-" else int(count))
    return files


def gate(files):
    """Returns the summary; raises Failed with it and everything that is missing."""
    excused = exceptions()
    used = set()
    rows, missing = [], []
    totals = [0, 0, 0, 0]
    for name, coverage in sorted(files.items()):
        with open(tree.path(name)) as file:
            text = [""] + file.read().splitlines()

        def counts(number, name=name, text=text):
            key = name, text[number].strip()
            if key in excused:
                used.add(key)
                return False
            return True

        lines = {number: count for number, count in coverage.lines.items() if counts(number)}
        branches = {key: count for key, count in coverage.branches.items() if counts(key[0])}
        missing += [f"{name}:{number}: never run: {text[number].strip()}" for number, count in sorted(lines.items()) if not count]
        missing += [f"{name}:{key[0]}: branch {key[1]}/{key[2]} never taken: {text[key[0]].strip()}"
                    for key, count in sorted(branches.items()) if not count]
        row = [sum(count > 0 for count in lines.values()), len(lines), sum(count > 0 for count in branches.values()), len(branches)]
        totals = [total + part for total, part in zip(totals, row)]
        rows.append((name, row))
    percent = 100.0 * totals[2] / totals[3] if totals[3] else 0.0
    rows.append(("all", totals))
    summary = [f"{name:<32} lines {row[0]:>5}/{row[1]:<5} branches {row[2]:>5}/{row[3]:<5}" for name, row in rows]
    summary.append(f"branches: {percent:.2f} % (wanted {BRANCHES_WANTED:g} %), exceptions listed: {len(excused)}")
    unused = [f"{tree.relative(EXCEPTIONS)}: no such line: {name} | {line}" for name, line in excused if (name, line) not in used]
    if not totals[1] or totals[0] < totals[1] or percent < BRANCHES_WANTED or unused:
        raise suite.Failed("\n".join(summary + missing + unused))
    return "\n".join(summary[-2:]), missing


def gate_of_build():
    """The gate as one test of `make check`."""
    measure()
    summary, _ = gate(read_lcov(llvm_cov("export", "-format=lcov")))
    return summary


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments")
    tree.alone("cover")
    tree.build("cover")
    measure()
    shutil.rmtree(HTML, ignore_errors=True)
    llvm_cov("show", "-format=html", f"-output-dir={HTML}", "-show-branches=count", "-show-line-counts-or-regions")
    print(llvm_cov("report", "-show-branch-summary", "-show-region-summary=0"))
    print(f"report: {tree.relative(HTML)}/index.html", flush=True)
    summary, missing = gate(read_lcov(llvm_cov("export", "-format=lcov")))
    print("\n".join(missing + [summary]))
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    suite.main(run)
