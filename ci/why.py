#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/why.md and fills in what is measured: trains the tiny model with each bug of planted/delta in it and
lets the laws look for the bug. What `make why` runs; three minutes on two cores.

    ci/why.py    no arguments; JOBS=n processes at once, all processors if not given

The words of docs/why.md are written by hand; between its two marks this script writes.
"""

import datetime
import os
import re
import statistics
import subprocess
import sys

import planted
import suite
import svg
import tree

sys.path.insert(0, tree.path("tools", "adapters"))
from example import tokens_of  # noqa: E402: the definition, which `make check` holds to the engine

PAGE = tree.path("docs", "why.md")
PICTURES = tree.path("docs", "why")
STEPS, END = 600, 200
SEEDS = (1, 2, 3, 4, 5)
MARKS = "<!-- measured: ci/why.py writes from here -->", "<!-- to here -->"
COLOURS = ("#8ecae6", "#ffb703", "#a7c957", "#e5989b")
INK = "#c1121f"


# --------------------------------------------------------------------------------------------------------------
# Layouts
# --------------------------------------------------------------------------------------------------------------

def sequence_of(cu, token):
    return next(i for i, end in enumerate(cu[1:]) if token < end)


def cells(sheet, cu, tokens, x, y, size=24):
    for i, token in enumerate(tokens):
        sheet.rect(x + i * size, y, size, size, COLOURS[sequence_of(cu, token) % len(COLOURS)], "white")
        sheet.text(x + (i + 0.5) * size, y + 0.68 * size, str(token), 0.45 * size, anchor="middle")


def draw_layouts():
    cu, ranks, size = [0, 4, 16, 24], 2, 24
    sheet = svg.Sheet(660, 330)
    sheet.text(16, 26, "A pack of three sequences: cu_seqlens = [0, 4, 16, 24]", 14, bold=True)
    cells(sheet, cu, range(cu[-1]), 70, 40, size)
    for row, layout in enumerate(("zigzag", "contiguous")):
        top = 104 + row * 116
        sheet.text(16, top, f"{layout}, two ranks", 14, bold=True)
        for rank in range(ranks):
            own = set(tokens_of(cu, ranks, rank, layout))
            y = top + 12 + rank * 38
            sheet.text(16, y + 17, f"rank {rank}")
            for token in range(cu[-1]):
                if token in own:
                    cells(sheet, cu, [token], 70 + token * size, y, size)
                else:
                    sheet.rect(70 + token * size, y, size, size, "#f4f4f4", "white")
    sheet.save(os.path.join(PICTURES, "layouts.svg"))


def draw_exchange():
    cu, ranks, size = [0, 4, 16], 2, 26
    sheet = svg.Sheet(640, 210)
    sheet.text(16, 24, "zigzag rows of each rank, as attention has them", 14, bold=True)
    sheet.text(16, 200, "contiguous rows, as a recurrence wants them", 14, bold=True)
    places = {}
    for rank in range(ranks):
        for row, token in enumerate(tokens_of(cu, ranks, rank, "contiguous")):
            places[token] = 60 + rank * 300 + row * size
    for rank in range(ranks):
        x, tokens = 60 + rank * 300, tokens_of(cu, ranks, rank, "zigzag")
        sheet.text(x - 44, 53, f"rank {rank}")
        sheet.text(x - 44, 169, f"rank {rank}")
        for row, token in enumerate(tokens):
            moves = places[token] // 300 != x // 300
            sheet.line(x + (row + 0.5) * size, 63, places[token] + 0.5 * size, 149, INK if moves else "#bbb", 1.2 if moves else 1,
                       arrow=True)
        cells(sheet, cu, tokens, x, 36, size)
        cells(sheet, cu, tokens_of(cu, ranks, rank, "contiguous"), x, 151, size)
    sheet.save(os.path.join(PICTURES, "exchange.svg"))


def draw_chunkwise():
    sheet = svg.Sheet(700, 236)
    sheet.text(16, 24, "Chunkwise on three ranks", 14, bold=True)
    cuts, left, unit = [0, 6, 18, 24], 20, 27.5
    for rank in range(3):
        x, width = left + rank * 8 * unit, 8 * unit
        for token in range(rank * 8, rank * 8 + 8):
            sheet.rect(left + token * unit, 58, unit, 26, COLOURS[sequence_of(cuts, token)], "white")
        sheet.rect(x + 1, 52, width - 3, 38, "none", "#555")
        sheet.text(x + width / 2, 46, f"rank {rank}", anchor="middle")
        if rank:
            sheet.rect(x - 3 * unit, 58, 3 * unit, 26, "none", INK, dash="4 2")
            sheet.text(x - 1.5 * unit, 106, "halo", 11, INK, "middle")
            sheet.line(x - 10, 112, x + 14, 112, INK, 1.5, arrow=True)
        sheet.rect(x + 0.2 * width, 128, 0.6 * width, 28, "#eee", "#555")
        sheet.text(x + width / 2, 146, f"S → S M{rank} + B{rank}", 13, anchor="middle")
        sheet.text(x + width / 2, 222, ("starts from 0", "starts from B0", "starts from B0 M1 + B1")[rank], 12, anchor="middle")
        sheet.line(x + width / 2, 186, x + width / 2, 206, "#888", 1, arrow=True)
    sheet.text(left, 176, "all maps gathered on every rank; each folds those of the ranks before it, in order", 11, "#666")
    for token in cuts[1:-1]:
        sheet.line(left + token * unit, 54, left + token * unit, 90, "#222", 2)
    sheet.save(os.path.join(PICTURES, "chunkwise.svg"))


# --------------------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------------------

class Training:
    def __init__(self, seed=SEEDS[0]):
        program = os.path.join(planted.COPY, "build", "release", "consumer", "delta_train")
        done = subprocess.run([program, str(STEPS), str(seed)], stdout=subprocess.PIPE, text=True, errors="replace", timeout=300)
        lines = done.stdout.splitlines()
        self.losses = [float(line.split()[1]) for line in lines if not line.startswith("#")]
        served = re.search(r"^# served (\S+)", done.stdout, re.MULTILINE)
        if done.returncode or not served:
            raise suite.Failed(f"the training ended badly: {lines[-1] if lines else 'no output'}")
        self.served = float(served.group(1))

    def end(self):
        return statistics.mean(self.losses[-END:])

    def smooth(self, window=25):
        return [statistics.mean(self.losses[max(0, i - window):i]) for i in range(window, STEPS + 1, 5)]


def plot(sheet, x, y, width, height, curves, low=0.7, high=2.15):
    def place(values):
        return [(x + i * width / (len(values) - 1), y + height * (1 - (value - low) / (high - low))) for i, value in enumerate(values)]

    right = [run.smooth() for run in curves["right"]]
    sheet.area(place([max(at) for at in zip(*right)]) + place([min(at) for at in zip(*right)])[::-1], "#dbe7f0")
    sheet.line(x, y + height, x + width, y + height)
    sheet.line(x, y, x, y + height)
    sheet.curve(place(right[0]), "#5b8fb9", 1.2)
    sheet.curve(place(curves["bug"].smooth()), INK, 1.4)


def draw_curves(right, runs):
    columns, width, height = 4, 168, 92
    rows = (len(runs) + columns - 1) // columns
    sheet = svg.Sheet(16 + columns * (width + 20), 52 + rows * (height + 44))
    sheet.text(16, 24, f"Training loss over {STEPS} steps: blue without a fault (band: {len(SEEDS)} seeds), red with it", 14, bold=True)
    for i, (bug, run) in enumerate(runs):
        x, y = 20 + i % columns * (width + 20), 62 + i // columns * (height + 44)
        sheet.text(x, y - 6, short(bug), 11)
        plot(sheet, x, y, width, height, {"right": right, "bug": run})
        sheet.text(x + width, y + (height - 8 if run.end() > 1.2 else 14), f"{run.end():.2f}", 11, INK, "end")
    sheet.save(os.path.join(PICTURES, "curves.svg"))


# --------------------------------------------------------------------------------------------------------------
# The page
# --------------------------------------------------------------------------------------------------------------

def short(bug):
    return os.path.basename(bug.name).replace("-", " ")


def source_of(bug):
    """The addresses as links, and what is said beside them."""
    return re.sub(r"https://github\.com/([^/\s]+)/([^/\s]+)/(?:pull|issues)/(\d+)", r"[\2 \3](\g<0>)", bug.source)


def rows_of_table(right, runs, sightings):
    ends = [run.end() for run in right]
    served = [run.served for run in right]
    yield f"| none, {len(SEEDS)} seeds | {min(ends):.2f} to {max(ends):.2f} | {min(served):.2f} to {max(served):.2f} | | | |"
    for bug, run in runs:
        cases, smallest = sightings[bug.name].by_layer() or (None, None)
        seen = len(sightings[bug.name].routes)
        pack = planted.packs_of(smallest) if smallest else "**not found**"
        yield (f"| **{short(bug)}**: {bug.fault}. Source: {source_of(bug)} | {run.end():.2f} | {run.served:.2f} | {pack} | {cases} | "
               f"{seen if seen else '**none**'} |")


def measured(right, runs, sightings):
    blind = [short(bug) for bug, _ in runs if not sightings[bug.name].routes]
    routes = len(planted.laws_of("route"))
    high = round(max(run.end() for run in right), 2) + 0.01
    fine = [short(bug) for bug, run in runs if round(run.end(), 2) <= high]
    return "\n".join([
        f"Measured by `make why` on {datetime.date.today().isoformat()}, {tree.machine()}, commit {tree.commit()}.",
        "",
        f"| fault | loss in training, last {END} of {STEPS} steps | loss of what was trained, on one rank | the smallest pack | "
        f"cases until `delta_exact` sees it | laws about routes that see it, of {routes} |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows_of_table(right, runs, sightings),
        "",
        f"With {len(fine)} of the {len(runs)} faults training ends within 0.01 of a run without one: {', '.join(fine)}.",
        "",
        f"{len(blind)} are seen by no law about routes: {', '.join(blind)}."])


def fill_in(words):
    with open(PAGE) as file:
        text = file.read()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    with open(PAGE, "w") as file:
        file.write(f"{before}{MARKS[0]}\n\n{words}\n\n{MARKS[1]}{after}")


def run():
    if len(sys.argv) > 1:
        raise tree.WrongUse("no arguments")
    tree.alone("planted")
    os.makedirs(PICTURES, exist_ok=True)
    draw_layouts()
    draw_exchange()
    draw_chunkwise()
    with planted.Planted(None, "delta_train"):
        right = [Training(seed) for seed in SEEDS]
    runs, sightings = [], {}
    for bug in planted.bugs(["delta/"]):
        print(f"{bug.name} ...", flush=True)
        with planted.Planted(bug, "cproute", "delta_train"):
            runs.append((bug, Training()))
            sightings[bug.name] = planted.Sighting()
    draw_curves(right, runs)
    fill_in(measured(right, runs, sightings))
    print(f"written: {tree.relative(PAGE)} and its pictures")
    return tree.EXIT_FINDINGS if any(not sighting.layer for sighting in sightings.values()) else tree.EXIT_CLEAN


if __name__ == "__main__":
    suite.main(run)
