# SPDX-License-Identifier: Apache-2.0
"""docs/METRICS.md: what `make metrics` writes, from measurements that were made and from nothing else.

    ci/metrics.py         measures what was not yet measured of this commit, which takes a night, then writes the page
    ci/metrics.py page    writes the page from what there is; what is missing is named with the command that measures it

Every measurement is kept in docs/metrics/ with the command that made it, machine, date and commit, and shown with them: one that takes
a night need not be made where the others are. The measuring scripts go on where they were interrupted, and so does this one.
"""

import datetime
import json
import math
import os
import subprocess
import sys

import tree

KEPT = tree.path("docs", "metrics")
PAGE = tree.path("docs", "METRICS.md")
PLOT = tree.path("docs", "detection.svg")
# To be reached: percent of the mutants, seconds, and chance that an engine is sooner than a baseline.
KILLED_BEFORE_FUZZING_WANTED, KILLED_WANTED, MEDIAN_WANTED, A12_WANTED = 97.0, 99.0, 5.0, 0.9
# What the environment may say about a measurement, told with its command.
SETTINGS = ("MUTANTS", "SEED", "FILES", "STAGES", "RULES", "FUZZ_SECONDS", "SEEDS", "DETECTION_SECONDS", "SHRINK", "BUGS", "SOAK_MINUTES")


def keep(name, numbers):
    """A measurement, from the script that made it, for the page."""
    words = [f"{setting}={os.environ[setting]}" for setting in SETTINGS if os.environ.get(setting)]
    made = {"command": " ".join([*words, "ci/" + os.path.basename(sys.argv[0])]), "machine": tree.machine(),
            "date": datetime.date.today().isoformat(), "commit": tree.commit(), "load": round(os.getloadavg()[2], 1)}
    os.makedirs(KEPT, exist_ok=True)
    with open(os.path.join(KEPT, name + ".json"), "w") as file:
        json.dump({**made, "numbers": numbers}, file, indent=1)


def kept(name):
    path = os.path.join(KEPT, name + ".json")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)


# ---------------------------------------------------------------------------- sections

def shown(seconds):
    if seconds is None:
        return "never"
    return f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.2f}"


def source_of(measured):
    return (f"`{measured['command']}`, {measured['machine']}, {measured['date']}, commit {measured['commit']}, 15-minute load "
            f"{measured['load']}.\n\n")


def mutants_section(measured):
    numbers = measured["numbers"]
    stages = "".join(f"| killed by {stage} | {count} |\n" for stage, count in numbers["stages"].items())
    dropped = ", ".join(f"{count} {name}" for name, count in sorted(numbers["dropped"].items())) or "none"
    return source_of(measured) + f"""| | |
| --- | --- |
| files | {len(numbers['files'])} of the engine |
| mutants judged | {numbers['mutants']} |
| dropped before | {dropped} |
{stages}| survived | {numbers['survived']} |
| equivalent, each with its reason in `ci/mutants/equivalent.jsonl` | {numbers['equivalent']} |
| **killed before fuzzing**, wanted {KILLED_BEFORE_FUZZING_WANTED:g} % | **{numbers['killed_before_fuzzing']:.2f} %** |
| **killed in all**, {numbers['fuzz_seconds']} s of fuzzing for each that was left, wanted {KILLED_WANTED:g} % | **{numbers['killed']:.2f} %** |

"""


def detection_section(measured):
    numbers = measured["numbers"]
    told = numbers["summary"]
    page = source_of(measured)
    page += (f"{told['bugs']} faults, {numbers['seeds']} seeds, a run ends after {numbers['limit']} s, {numbers['jobs']} runs at once. "
             f"Found by every engine in every run: {'yes' if told['all_found'] else 'no'}. Slowest median: "
             f"{shown(told['slowest_median'])} s, wanted below {MEDIAN_WANTED:g} s. Median A12: {told['a12_median']['raw']:.2f} against raw bytes, "
             f"{told['a12_median']['unit']:.2f} against unit tests, wanted {A12_WANTED:g}.\n\n![Seconds until found](detection.svg)\n\n")
    engines = list(numbers["rows"][0]["engines"])
    page += ("Median seconds until found, in brackets in how many runs where not in all; A12 of the engine that does worst: the chance "
             "that a run of it is sooner than one of the baseline.\n\n")
    page += "| fault | " + " | ".join(engines) + " | A12, raw | A12, unit |\n| --- |" + " --- |" * (len(engines) + 2) + "\n"
    for row in numbers["rows"]:
        cells = [shown(found["median"]) + (f" ({found['found']}/{found['of']})" if 0 < found["found"] < found["of"] else "")
                 for found in row["engines"].values()]
        cells += [f"{min(row['a12'][baseline].values()):.2f}" for baseline in ("raw", "unit")]
        page += f"| [{row['name']}](../planted/engine/{row['name']}.patch) | " + " | ".join(cells) + " |\n"
    for baseline, names in told["a12_below"].items():
        page += f"\nBelow {A12_WANTED:g} against {baseline}: {', '.join(names) or 'none'}.\n"
    return page + "\n" + reach_table(numbers["rows"]) + "\n"


def reach_table(rows):
    page = ("A fault is reached if its code runs, triggered if what is at hand makes it matter, detected if a law fails. By random cases:\n\n"
            "| fault | reached | triggered | detected by, runs of all engines | source |\n| --- | --- | --- | --- | --- |\n")
    for row in rows:
        found, laws = row["engines"]["props"], {}
        for engine in row["engines"].values():
            for law, count in engine["laws"].items():
                laws[law] = laws.get(law, 0) + count
        by = ", ".join(f"{law} {count}" for law, count in sorted(laws.items(), key=lambda item: -item[1]))
        page += (f"| {row['name']} | {'yes' if found['reached'] else 'no'} | {'yes' if found['triggered'] else 'no'} | {by or 'nothing'} "
                 f"| {row['source']} |\n")
    return page


def shrinking_section(measured):
    rows = [row for row in measured["numbers"]["rows"] if row.get("shrinking")]
    if not rows:
        return "not measured: SHRINK=0 was given\n\n"
    page = source_of(measured)
    tools = ("ours", "libFuzzer", "AFL++")
    page += ("Median size, in bytes that the case is drawn from, of failing random cases after shrinking; in brackets how many ended at the "
             "smallest known. That is the smallest that any tool or a search of its own found: of all inputs with few bytes that are not 0.\n\n"
             "| fault | law | unshrunk | ours | libFuzzer -minimize_crash | afl-tmin | smallest known | seconds, ours / libFuzzer / afl-tmin |\n"
             "| --- | --- | --- | --- | --- | --- | --- | --- |\n")
    for row in rows:
        shrunk = row["shrinking"]
        cells = [f"{shrunk['median'][tool]:g} ({shrunk['at_optimum'][tool]}/{shrunk['cases']})" for tool in tools]
        seconds = " / ".join(f"{shrunk['seconds'][tool]:.2f}" for tool in tools)
        page += (f"| {row['name']} | {shrunk['law']} | {shrunk['median']['start']:g} | {' | '.join(cells)} | {shrunk['optimum']:g}"
                 f"{'' if shrunk['by_search'] else ' *'} | {seconds} |\n")
    total = {tool: sum(row["shrinking"]["at_optimum"][tool] for row in rows) for tool in tools}
    cases = sum(row["shrinking"]["cases"] for row in rows)
    page += f"\n* not found by the search.\n\nAt the smallest known: ours {total['ours']}, libFuzzer {total['libFuzzer']}, afl-tmin "
    return page + f"{total['AFL++']}, of {cases}.\n\n"


def soak_section(measured):
    numbers = measured["numbers"]
    page = source_of(measured)
    page += "| engine | cases | laws | minutes of a process |\n| --- | --- | --- | --- |\n"
    for name, engine in numbers["engines"].items():
        page += f"| {name} | {engine['cases']:,} | {engine['laws']} of {numbers['laws']} | {engine['process_minutes']:g} |\n"
    page += (f"\n{numbers['minutes']:g} minutes{', ended early' if numbers['early'] else ''}; {numbers['kept']:,} inputs kept; a canary that fails by "
             f"intent {'was' if all(numbers['canaries']) else 'was NOT'} found by both fuzzers first. Findings: {len(numbers['findings'])}.\n")
    return page + "".join(f"- {finding}\n" for finding in numbers["findings"]) + "\n"


# (title, kept as, section, the command that measures it and its settings)
SECTIONS = (
    ("Mutants, all of them", "mutants", mutants_section, "ci/mutants.py", {}),
    ("Mutants, a sample", "mutants-sample", mutants_section, "ci/mutants.py", {"MUTANTS": "400", "FUZZ_SECONDS": "10"}),
    ("Planted faults", "detection", detection_section, "ci/detection.py", {}),
    ("Shrinking", "detection", shrinking_section, "ci/detection.py", {}),
    ("Soak", "soak", soak_section, "ci/soak.py", {"SOAK_MINUTES": "60"}),
)

HEAD = """# Metrics

Written by `make metrics`; do not edit. How much of what can go wrong the suite finds, and how soon. Each part says by which
command, on which machine, when, and of which commit it was measured. Times of a machine that does other things too are worth
little: a load above the number of its cores says so.

"""


# ---------------------------------------------------------------------------- plot

LANE, LEFT, WIDTH, TOP, RIGHT = 16, 190, 560, 40, 20
COLOURS = {"props": "#1b7837", "libFuzzer": "#2166ac", "AFL++": "#b35806", "raw libFuzzer": "#92c5de", "raw AFL++": "#fdb863",
           "unit": "#bbbbbb"}
LEAST = 1e-3


def plot(numbers):
    """Median and range of every engine for every fault, by seconds, as SVG. What was never found lies at the right edge."""
    limit = numbers["limit"]
    decades = range(math.floor(math.log10(LEAST)), math.ceil(math.log10(limit)) + 1)
    height = TOP + LANE * len(numbers["rows"]) + 30

    def x(seconds):
        share = math.log10(max(seconds, LEAST) / LEAST) / math.log10(limit / LEAST)
        return LEFT + WIDTH * min(share, 1.0)

    never = LEFT + WIDTH + RIGHT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{never + 40}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{never + 40}" height="{height}" fill="white"/>']
    for i, (engine, colour) in enumerate(COLOURS.items()):
        parts.append(f'<circle cx="{LEFT + 100 * i}" cy="12" r="4" fill="{colour}"/><text x="{LEFT + 100 * i + 8}" y="16">{engine}</text>')
    for decade in decades:
        at = x(10.0 ** decade)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP - 12}" x2="{at:.1f}" y2="{height - 26}" stroke="#eeeeee"/>'
                     f'<text x="{at:.1f}" y="{height - 10}" text-anchor="middle">{10.0 ** decade:g} s</text>')
    parts.append(f'<text x="{never}" y="{height - 10}" text-anchor="middle">never</text>')
    for number, row in enumerate(numbers["rows"]):
        y = TOP + LANE * number
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{row["name"]}</text>')
        for i, engine in enumerate(COLOURS):
            parts.append(mark(row["engines"][engine], y - 5 + 2.2 * i, COLOURS[engine], x, never))
    return "\n".join(parts + ["</svg>", ""])


def mark(found, y, colour, x, never):
    ends = [never if seconds is None else x(seconds) for seconds in found["times"]]
    middle = never if found["median"] is None else x(found["median"])
    return (f'<line x1="{min(ends):.1f}" y1="{y:g}" x2="{max(ends):.1f}" y2="{y:g}" stroke="{colour}"/>'
            f'<circle cx="{middle:.1f}" cy="{y:g}" r="2.5" fill="{colour}"/>')


# ---------------------------------------------------------------------------- page

def write_page():
    page = HEAD
    for title, name, section, script, settings in SECTIONS:
        measured = kept(name)
        command = " ".join([f"{key}={value}" for key, value in settings.items()] + [script])
        page += f"## {title}\n\n" + (section(measured) if measured else f"not measured here: `{command}`\n\n")
    with open(PAGE, "w") as file:
        file.write(page.rstrip() + "\n")
    detection = kept("detection")
    if detection:
        with open(PLOT, "w") as file:
            file.write(plot(detection["numbers"]))
    print(f"written: {tree.relative(PAGE)}")


def measure_what_is_missing():
    for _, name, _, script, settings in SECTIONS:
        measured = kept(name)
        if measured and measured["commit"] == tree.commit():
            continue
        print(f"measuring: {name}", flush=True)
        done = subprocess.run([sys.executable, tree.path(script)], cwd=tree.ROOT, env={**os.environ, **settings})
        if done.returncode == tree.EXIT_USAGE or not kept(name):
            raise tree.WrongUse(f"{script} did not measure; what it has is kept, and the same command goes on")


def run():
    if sys.argv[1:] not in ([], ["page"]):
        raise tree.WrongUse("no arguments but `page`")
    if not sys.argv[1:]:
        measure_what_is_missing()
    write_page()
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
