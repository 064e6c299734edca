#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that a fixed set of builds takes in the library, and holds them to a record.

    ci/instructions.py [PROGRAM]             counts, and compares with bench/instructions.json
    ci/instructions.py --record [PROGRAM]    counts, and writes the counts there, for this toolchain

PROGRAM is counted_builds of a release build; if it is not named, that of build/release.

Unlike times, counts do not depend on what else the machine does. They are of the library's own code: the C library is left out, which
picks its memcpy by the processor. They do depend on compiler, flags and processor family; so there is a record for every
toolchain that was recorded. With one of those, counts must be within 3 % of the record, in both directions: a build that has become
cheaper is recorded. With any other toolchain they must not be above twice the dearest record: compilers differ by less, and a
build that grows with P * S does not keep it. Exit codes: 0 good, 1 some are not, 2 wrong usage or no valgrind.
"""

import json
import os
import re
import shutil
import sys
import tempfile

import suite
import tree

RECORD = tree.path("bench", "instructions.json")
PROGRAM = os.path.join(tree.BUILD, "release", "counted_builds")
SAME, OTHER = 0.03, 2


class NoProgram(suite.Failed):
    """There is nothing to count: a failed test, and a wrong use of the command."""


class Names:
    """Callgrind's: (number) stands for a name that was given with it once."""

    def __init__(self):
        self.known = {}

    def read(self, text):
        number, name = re.fullmatch(r"\((\d+)\)(?: (.*))?", text).groups()
        if name is not None:
            self.known[number] = name
        return self.known[number]


def own_cost(lines, program):
    """Instructions of a callgrind dump that were executed in the program's own code, not counting what it calls elsewhere."""
    objects, inside, of_call, cost = Names(), False, False, 0
    for line in lines:
        kind, _, value = line.rstrip("\n").partition("=")
        if kind == "ob":
            inside = os.path.basename(objects.read(value)) == program
        elif kind == "cob":
            objects.read(value)
        elif kind == "calls":
            of_call = True
        elif re.match(r"[-+*0-9]", line):
            if inside and not of_call:
                cost += int(line.split()[1])
            of_call = False
    return cost


def count(program=PROGRAM):
    """(toolchain, {build: (instructions, units of work)})"""
    if not os.path.exists(program):
        raise NoProgram(f"{os.path.relpath(program)} is missing: make instructions builds it")
    if os.path.isdir(program) or not os.access(program, os.X_OK):
        raise NoProgram(f"{os.path.relpath(program)} is no program")
    suite.need(shutil.which("valgrind"), "valgrind")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "counts")
        output = suite.command(["valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=counted",
                                "--dump-after=counted", f"--callgrind-out-file={out}", os.path.abspath(program)])
        toolchain, *builds = output.splitlines() or [""]
        counts = {}
        for number, line in enumerate(builds, 1):
            found = re.fullmatch(r"([\w-]+) (\d+)", line)
            if not found or not os.path.exists(f"{out}.{number}"):
                break
            with open(f"{out}.{number}") as dump:
                counts[found.group(1)] = (own_cost(dump, os.path.basename(program)), int(found.group(2)))
    if not counts or len(counts) < len(builds):
        raise NoProgram(f"{os.path.relpath(program)} is not what make instructions builds as counted_builds")
    return toolchain, counts


def recorded():
    with open(RECORD) as file:
        return json.load(file)


def findings(counts, record, dearest):
    """One line for every build that is not as it should be; with no record of this toolchain, the dearest ones are the measure."""
    found = []
    for name, (instructions, _) in counts.items():
        wanted = (record if record is not None else dearest).get(name)
        if wanted is None:
            found.append(f"{name}: {instructions:,}, not recorded")
        elif record is None and instructions > OTHER * wanted:
            found.append(f"{name}: {instructions:,}, more than {OTHER} times the {wanted:,} of the dearest toolchain on record")
        elif record is not None and abs(instructions - wanted) > SAME * wanted:
            found.append(f"{name}: {instructions:,} instead of {wanted:,}, {instructions / wanted - 1:+.1%}")
    missing = [] if record is None else [f"{name}: recorded, but not counted" for name in record if name not in counts]
    return found + missing


def dearest_of(records):
    dearest = {}
    for record in records.values():
        for name, instructions in record.items():
            dearest[name] = max(instructions, dearest.get(name, 0))
    return dearest


def judge(toolchain, counts, records):
    record = records.get(toolchain)
    found = findings(counts, record, dearest_of(records))
    if found:
        raise suite.Failed("\n".join([f"{toolchain}:", *found, "If that is meant: ci/instructions.py --record"]))
    measure = f"within {SAME:.0%} of the record" if record is not None else f"not on record, and within {OTHER} times the dearest that is"
    return f"{len(counts)} builds, {toolchain}: {measure}"


def gate():
    """For make check."""
    toolchain, counts = count()
    return judge(toolchain, counts, recorded())


def write_record(toolchain, counts):
    records = recorded() if os.path.exists(RECORD) else {}
    records[toolchain] = {name: instructions for name, (instructions, _) in counts.items()}
    with open(RECORD, "w") as file:
        json.dump(dict(sorted(records.items())), file, indent=1)
        file.write("\n")


def run():
    recording = sys.argv[1:2] == ["--record"]
    programs = sys.argv[2 if recording else 1:]
    if len(programs) > 1 or any(name.startswith("-") for name in programs):
        raise tree.WrongUse("arguments are [--record] [PROGRAM]")
    try:
        toolchain, counts = count(*programs)
        print(f"# {toolchain}\n# {'build':<26} {'instructions':>12} {'units':>8} {'each':>8}")
        for name, (instructions, units) in counts.items():
            print(f"  {name:<26} {instructions:>12,} {units:>8,} {instructions / units:>8.2f}")
        if recording:
            write_record(toolchain, counts)
            print(f"# written to {tree.relative(RECORD)}")
        else:
            print("# " + judge(toolchain, counts, recorded()))
    except NoProgram as nothing:
        raise tree.WrongUse(nothing)
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    suite.main(run)
