#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what fuzzing did, as one static page: cases a second, edges, inputs kept and findings over time, and a table of the laws.

    ci/report.py [--history FILE] [--out FILE]    build/fuzz-history.jsonl, build/fuzz-report.html

Every campaign of `make fuzz`, `make fuzz-afl` and `make soak` adds to the history. Exit code 0: written, 2: wrong use, or no history.
"""

import argparse
import collections
import datetime
import html
import os

import history
import tree

OUT = os.path.join(tree.BUILD, "fuzz-report.html")
# A longer silence is no fuzzing, and left out of the time axis.
LONGEST_SILENCE_SECONDS = 60
BINS = 60
# Of a slice of the time that has a rate; records have a digit less.
SHORTEST_SECONDS = 0.01
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 220, 70, 16, 12, 34
COLOURS = ("#2a78d6", "#c2571a", "#1c8a4e", "#8a4fc4", "#b0307a", "#6b6b6b")

# `lines` are lists of (seconds of fuzzing, value).
Series = collections.namedtuple("Series", "name lines")


def fuzzing_time(records):
    """Adds "t" to every record: seconds of fuzzing before it."""
    t, last = 0.0, None
    for record in records:
        if last is not None:
            t += min(record["at"] - last, LONGEST_SILENCE_SECONDS)
        last = record["at"]
        record["t"] = t
    return t


def engines_of(progress):
    return list(dict.fromkeys(record["engine"] for record in progress))


def rates(progress, total):
    """Cases a second of one process, by engine and slice of the time."""
    width = max(total / BINS, 1.0)
    sums = collections.defaultdict(lambda: [0, 0.0])
    before = {}
    for record in progress:
        key = record["session"], record["engine"], record["law"]
        cases, seconds = before.get(key, (0, 0.0))
        bin_sums = sums[record["engine"], int(record["t"] / width)]
        # AFL++ rounds what it shows while it runs, so a count may seem to fall.
        bin_sums[0] += max(record["cases"] - cases, 0)
        bin_sums[1] += max(record["seconds"] - seconds, 0.0)
        before[key] = record["cases"], record["seconds"]
    lines = collections.defaultdict(list)
    last = {}
    for (engine, slot), (cases, seconds) in sorted(sums.items()):
        if seconds < SHORTEST_SECONDS:
            continue
        # Nothing is drawn for the time that an engine did not run.
        if slot - last.get(engine, slot) > 2 or not lines[engine]:
            lines[engine].append([])
        last[engine] = slot
        lines[engine][-1].append(((slot + 0.5) * width, cases / seconds))
    return [Series(engine, lines[engine]) for engine in engines_of(progress)]


def steps(points, total):
    """A value holds until the next one, and the last one to the end."""
    line = []
    for t, value in thinned([*points, (total, points[-1][1])] if points else []):
        if line:
            line.append((t, line[-1][1]))
        line.append((t, value))
    return [line] if line else []


def thinned(points, most=400):
    """The last of the points that would fall on the same spot."""
    if len(points) <= most:
        return points
    width = (points[-1][0] - points[0][0]) / most or 1.0
    return list({int(t / width): (t, value) for t, value in points}.values())


def summed_over_laws(progress, name, best):
    """A number of every law, summed: the highest so far, or the latest."""
    latest, points = {}, []
    for record in progress:
        value = record[name]
        latest[record["law"]] = max(latest.get(record["law"], 0), value) if best else value
        points.append((record["t"], sum(latest.values())))
    return points


def edges(progress, total):
    return [Series(engine, steps(summed_over_laws([record for record in progress if record["engine"] == engine], "edges", True),
                                 total))
            for engine in engines_of(progress)]


def inputs(progress, total):
    return [Series("inputs", steps(summed_over_laws(progress, "corpus", False), total))]


def findings(records, total):
    seen, points = set(), [(0.0, 0)]
    for record in records:
        if "finding" in record:
            seen.add((record["law"], record["finding"]))
            points.append((record["t"], len(seen)))
    return [Series("findings", steps(points, total))]


def round_up(value):
    """The next 1, 2 or 5 times a power of ten."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if factor * step >= value:
                return factor * step
        step *= 10


def short(value):
    for unit, size in (("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def time_label(seconds, total):
    return f"{seconds / 3600:.1f} h" if total >= 2 * 3600 else f"{seconds / 60:.1f} min" if total >= 120 else f"{seconds:.0f} s"


def chart(title, series, total, unit):
    top = round_up(max([value for one in series for line in one.lines for _, value in line] + [1]))
    total = max(total, 1.0)

    def x(t):
        return LEFT + (WIDTH - LEFT - RIGHT) * t / total

    def y(value):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    parts = [f'<figure><figcaption>{html.escape(title)}</figcaption>',
             f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(title)}">']
    for quarter in range(5):
        value, t = top * quarter / 4, total * quarter / 4
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
                     f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{short(value)}</text>'
                     f'<text x="{x(t):.1f}" y="{HEIGHT - 10}" text-anchor="{"end" if quarter == 4 else "middle"}">'
                     f'{time_label(t, total)}</text>')
    for colour, one in zip(COLOURS, series):
        for line in one.lines:
            path = " ".join(f"{x(t):.1f},{y(value):.1f}" for t, value in line)
            # The round cap shows a line of one point.
            parts.append(f'<polyline points="{path} {path.split()[-1]}" fill="none" stroke="{colour}" stroke-width="2"'
                         ' stroke-linecap="round"/>')
            parts += [f'<circle cx="{x(t):.1f}" cy="{y(value):.1f}" r="5" fill="{colour}" opacity="0">'
                      f'<title>{html.escape(one.name)}, {time_label(t, total)}: {value:,.0f} {unit}</title></circle>'
                      for t, value in line]
    parts.append("</svg>")
    if len(series) > 1:
        parts += ["<p class=legend>", *(f'<span><i style="background:{colour}"></i>{html.escape(one.name)}</span>'
                                        for colour, one in zip(COLOURS, series)), "</p>"]
    return "\n".join([*parts, "</figure>"])


def table(progress, found):
    """One row a law: cases and edges by engine, inputs kept, findings."""
    cases, most, corpus = {}, collections.defaultdict(int), {}
    for record in progress:
        law, engine = record["law"], record["engine"]
        cases[record["session"], law, engine] = record["cases"]
        most[law, engine] = max(most[law, engine], record["edges"])
        corpus[law] = record["corpus"]
    engines = engines_of(progress)
    per_engine = collections.Counter()
    for (_, law, engine), count in cases.items():
        per_engine[law, engine] += count
    rows = [f"<tr><th rowspan=2>law<th colspan={len(engines)}>cases<th colspan={len(engines)}>edges"
            "<th rowspan=2>inputs kept<th rowspan=2>findings",
            "<tr>" + 2 * "".join(f"<th>{html.escape(engine)}" for engine in engines)]
    reasons = collections.Counter(law for law, _ in found)
    for law in corpus:
        numbers = [per_engine[law, engine] for engine in engines] + [most[law, engine] for engine in engines]
        rows.append(f"<tr><td>{html.escape(law)}" + "".join(f"<td>{number:,}" for number in numbers)
                    + f"<td>{corpus[law]:,}<td>{reasons[law]}")
    return "<table>" + "\n".join(rows) + "</table>"


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>cproute: fuzzing</title>
<style>
:root {{ color-scheme: light dark; --ink: #1f2328; --faint: #d0d7de; --paper: #ffffff; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6edf3; --faint: #3d444d; --paper: #0d1117; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 760px; margin: 2em auto; padding: 0 1em; }}
figure {{ margin: 2em 0; }} figcaption {{ font-weight: 600; }} svg {{ width: 100%; }}
svg text {{ fill: var(--ink); font-size: 12px; }} .grid {{ stroke: var(--faint); }} circle:hover {{ opacity: 1; }}
.legend span {{ margin-right: 1.2em; }} .legend i {{ display: inline-block; width: 1em; height: 3px; margin-right: .4em; vertical-align: middle; }}
.wide {{ overflow-x: auto; }} table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }}
th, td {{ padding: .2em .6em; text-align: right; border-bottom: 1px solid var(--faint); }} td:first-child {{ text-align: left; }}
</style>
<h1>Fuzzing</h1>
<p>{summary}</p>
<p>{machine}; commit {commit}; written {date} by <code>ci/report.py</code>. Time is that of fuzzing: what lies between campaigns is left out.</p>
{charts}
<h2>Findings</h2>
{found}
<h2>Laws</h2>
<div class=wide>{table}</div>
</html>
"""


def page(records):
    total = fuzzing_time(records)
    progress = [record for record in records if "cases" in record]
    found = list(dict.fromkeys((record["law"], record["finding"]) for record in records if "finding" in record))
    last = {(record["session"], record["engine"], record["law"]): record["cases"] for record in progress}
    charts = [chart("Cases a second, one process", rates(progress, total), total, "cases/s"),
              chart("Edges reached, all laws", edges(progress, total), total, "edges"),
              chart("Inputs in the common corpus, all laws", inputs(progress, total), total, "inputs"),
              chart("Findings: law and reason, each once", findings(records, total), total, "findings")]
    listed = "".join(f"<li>{html.escape(law)}: {html.escape(reason)}" for law, reason in found)
    summary = (f"{sum(last.values()):,} cases of {len({record['law'] for record in progress})} laws in {total / 60:.0f} minutes;"
               f" findings: {len(found)}.")
    return PAGE.format(summary=summary, machine=html.escape(tree.machine()), commit=html.escape(tree.commit()),
                       date=datetime.date.today().isoformat(), charts="\n".join(charts),
                       found=f"<ul>{listed}</ul>" if found else "<p>None.</p>", table=table(progress, found))


def write(records=None, out=OUT):
    """Returns the path of the page."""
    text = page(history.read() if records is None else records)
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w") as file:
        file.write(text)
    return out


def run():
    parser = argparse.ArgumentParser(description="Draws what fuzzing did, as one static page.")
    parser.add_argument("--history", default=history.FILE, help="lines of JSON that campaigns wrote")
    parser.add_argument("--out", default=OUT, help="the page")
    options = parser.parse_args()
    records = history.read(options.history)
    if not records:
        raise tree.WrongUse(f"{tree.relative(options.history)} has no line yet: make fuzz, make fuzz-afl and make soak write it")
    print(f"written: {tree.relative(write(records, options.out))}")
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
