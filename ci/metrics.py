#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/METRICS.md: what `make metrics` writes, from measurements that were made and from nothing else.

    ci/metrics.py         measures what was not yet measured of these sources, which takes a night, then writes the page
    ci/metrics.py page    writes the page from what there is; what is missing is named with the command that measures it

Every measurement is kept in docs/metrics/ with the command that made it, machine, date and commit, and shown with them: one that takes
a night need not be made where the others are. It is good as long as what it stands on is as it was, whatever was committed since; one
that does not say what it stood on is shown and made again. The measuring scripts go on where they were interrupted, and so does this
one. Exit code 0: measured, and all goals reached, 1: a goal was missed, or something was not measured, 2: wrong use, 130: interrupted.
"""

import collections
import datetime
import json
import math
import os
import signal
import statistics
import subprocess
import sys

import tree

KEPT = tree.path("docs", "metrics")
PAGE = tree.path("docs", "METRICS.md")
PLOT = tree.path("docs", "detection.svg")
WRITTEN = (KEPT, PAGE, PLOT)
# To be reached: percent of the mutants, seconds, and chance that an engine is sooner than a baseline.
KILLED_BEFORE_FUZZING_WANTED, KILLED_WANTED, MEDIAN_WANTED, A12_WANTED = 97.0, 99.0, 5.0, 0.9
# What makes each measurement, and with which settings: with less it is a look, and not kept.
MEASURED = {"mutants": ("ci/mutants.py", {"FUZZ_SECONDS": 60}),
            "mutants-sample": ("ci/mutants.py", {"MUTANTS": 400, "FUZZ_SECONDS": 10}),
            "detection": ("ci/detection.py", {"SEEDS": 10, "DETECTION_SECONDS": 5, "SHRINK": 1}),
            "soak": ("ci/soak.py", {"SOAK_MINUTES": 60})}
# What the environment may say about a measurement, told with its command.
SETTINGS = ("MUTANTS", "SEED", "FILES", "STAGES", "RULES", "FUZZ_SECONDS", "SEEDS", "DETECTION_SECONDS", "SHRINK", "BUGS", "SOAK_MINUTES", "LAW")
TOLD = ("command", "machine", "date", "commit", "load")
# Folders that a measurement stands on, and whether the tests in them count. What is not listed stands on all of it.
ALL_OF_IT = ("engine", "props", "proof", "corpus", "ci/mutants"), True
GROUNDS = {"detection": (("engine", "props", "proof", "planted/engine", "planted/planted.h"), False), "soak": (("engine", "props", "fuzz", "corpus"), False)}


def grounds(name):
    """A fingerprint of what a measurement stands on, as it is now."""
    import mutants  # here, because it takes its goals from this file
    mutants.fingerprint.cache_clear()
    return mutants.fingerprint(*GROUNDS.get(name, ALL_OF_IT))


def commit():
    """As tree.commit(), but what measurements are written to makes no commit dirty."""
    told = tree.commit()
    if os.environ.get("CPROUTE_COMMIT") or not told.endswith("-dirty"):
        return told
    but = [f":(exclude){tree.relative(path)}" for path in WRITTEN]
    same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", *but], cwd=tree.ROOT, stderr=subprocess.DEVNULL).returncode == 0
    return told[:-len("-dirty")] if same else told


def place_of(name):
    return os.path.join(KEPT, name + ".json")


def settings_of(name):
    return " ".join(f"{setting}={least}" for setting, least in MEASURED[name][1].items())


class Measurement:
    """One that begins, of the sources as they are now; `settings` are the numbers that it is made with."""

    def __init__(self, name, **settings):
        self.name, self.settings = name, settings
        self.of, self.commit = grounds(name), commit()

    def is_whole(self):
        return all(self.settings[setting] >= least for setting, least in MEASURED[self.name][1].items())

    def keep(self, numbers, reached):
        """For the page, with whether all was reached that was asked. Returns the exit code of who measured."""
        code = tree.EXIT_CLEAN if reached else tree.EXIT_FINDINGS
        if not self.is_whole():
            print(f"a look, and no measurement: METRICS.md takes {settings_of(self.name)} or more")
            return code
        if grounds(self.name) != self.of:
            print("what is measured was changed meanwhile, and nothing was kept: the same command measures it as it is now", file=sys.stderr)
            return code or tree.EXIT_USAGE
        words = [f"{setting}={os.environ[setting]}" for setting in SETTINGS if os.environ.get(setting)]
        made = {"command": " ".join([*words, "ci/" + os.path.basename(sys.argv[0])]), "machine": tree.machine(),
                "date": datetime.date.today().isoformat(), "commit": self.commit, "of": self.of, "load": round(os.getloadavg()[2], 1),
                "reached": reached}
        os.makedirs(KEPT, exist_ok=True)
        tree.write_json(place_of(self.name), {**made, "numbers": numbers})
        return code


def kept(name):
    """None if there is none, or none that can be read."""
    try:
        with open(place_of(name), "rb") as file:
            measured = json.load(file)
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(measured, dict) and measured.keys() >= set(TOLD) and isinstance(measured.get("numbers"), dict)
    return measured if whole and can_be_told(name, measured) else None


def can_be_told(name, measured):
    """False if numbers are missing, or none."""
    try:
        for _, of, section in SECTIONS:
            if of == name:
                section(measured)
        if name == "detection":
            plot(measured["numbers"])
        return True
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return False


def is_of_these_sources(measured, name):
    return measured is not None and measured.get("of") == grounds(name)


# ---------------------------------------------------------------------------- sections

def shown(seconds):
    if seconds is None:
        return "never"
    return f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.2f}"


def source_of(measured):
    seconds = measured["numbers"].get("seconds")
    took = "" if seconds is None else f", took {seconds:,} s"
    return (f"`{measured['command']}`, {measured['machine']}, {measured['date']}, commit {measured['commit']}, 15-minute load "
            f"{measured['load']}{took}.\n\n")


def survivors_of(numbers):
    if not numbers["survivors"]:
        return ""
    lines = "".join(f"- {mutant['file']}:{mutant['line']}, {mutant['operator']}: `{mutant['before']}` became `{mutant['after']}`\n"
                    for mutant in numbers["survivors"])
    return f"Survivors, which no test has killed and no reason explains:\n\n{lines}\n"


def mutants_section(measured):
    numbers = measured["numbers"]
    stages = "".join(f"| killed by {stage} | {count} |\n" for stage, count in numbers["stages"].items())
    dropped = ", ".join(f"{count} {name}" for name, count in sorted(numbers["dropped"].items())) or "none"
    return source_of(measured) + f"""| | |
| --- | --- |
| files | {len(numbers['files'])} of the engine |
| mutants judged | {numbers['mutants']} |
| dropped before | {dropped} |
{stages}| survived | {len(numbers['survivors'])} |
| equivalent, each with its reason in `ci/mutants/equivalent.jsonl` | {numbers['equivalent']} |
| **killed before fuzzing**, wanted {KILLED_BEFORE_FUZZING_WANTED:g} % | **{numbers['killed_before_fuzzing']:.2f} %** |
| **killed in all**, {numbers['fuzz_seconds']} s of fuzzing for each that was left, wanted {KILLED_WANTED:g} % | **{numbers['killed']:.2f} %** |

""" + survivors_of(numbers)


# `asked`: the measurement ends with 1 where it is missed.
Goal = collections.namedtuple("Goal", "what got reached asked")


def by_fault(pairs):
    """Of (fault, engine): each fault once, with its engines."""
    engines = collections.defaultdict(list)
    for fault, engine in pairs:
        engines[fault].append(engine)
    return ", ".join(f"{fault} ({', '.join(names)})" for fault, names in engines.items())


def found_goals(found):
    never = [where for where, engine in found.items() if not engine["found"]]
    missed = [where for where, engine in found.items() if not engine["found"] == engine["of"] > 0]
    runs, of = sum(engine["found"] for engine in found.values()), sum(engine["of"] for engine in found.values())
    return [Goal("every fault found by every engine", f"{len(found) - len(never)} of {len(found)}{': never: ' * bool(never)}{by_fault(never)}",
                 not never, True),
            Goal("found by every engine in every run", f"{runs} of {of} runs{'; not always: ' * bool(missed)}{by_fault(missed)}", not missed, False)]


def median_goal(found):
    medians = {where: math.inf if engine["median"] is None else engine["median"] for where, engine in found.items()}
    worst = max(medians, key=medians.get)
    return Goal(f"median seconds below {MEDIAN_WANTED:g}, of every fault and engine",
                f"slowest: {shown(found[worst]['median'])}, {by_fault([worst])}", medians[worst] < MEDIAN_WANTED, True)


def a12_goals(rows, baseline, name):
    values = {(row["name"], engine): value for row in rows for engine, value in row["a12"][baseline].items()}
    below = [where for where, value in values.items() if value < A12_WANTED]
    median = statistics.median(values.values())
    return [Goal(f"A12 of {A12_WANTED:g} against {name}, in the median over faults and engines", f"{median:.2f}", median >= A12_WANTED, True),
            Goal(f"A12 of {A12_WANTED:g} against {name}, for every fault and engine",
                 f"below for {len(below)} of {len(values)}{': ' * bool(below)}{by_fault(below)}", not below, False)]


def alarm_goal(alarms):
    told = ", ".join(f"{engine} {alarm['found']} of {alarm['of']}" + "".join(f" ({count} by {law})" for law, count in alarm["by"].items())
                     for engine, alarm in alarms.items())
    return Goal("no false alarm: nothing is found in the engine as it is", f"runs that found something: {told}",
                not any(alarm["found"] for alarm in alarms.values()), True)


def untriggered(rows):
    return by_fault((row["name"], engine) for row in rows for engine, found in row["engines"].items() if found.get("untriggered")) or "none"


def detection_goals(numbers):
    rows = numbers["rows"]
    found = {(row["name"], engine): row["engines"][engine] for row in rows for engine in row["a12"]["raw"]}
    goals = [*found_goals(found), median_goal(found), *a12_goals(rows, "raw", "raw bytes"), *a12_goals(rows, "unit", "unit tests")]
    return goals + ([alarm_goal(numbers["alarms"])] if "alarms" in numbers else [])


def detection_reached(numbers):
    return all(goal.reached for goal in detection_goals(numbers) if goal.asked)


def detection_section(measured):
    numbers = measured["numbers"]
    page = source_of(measured)
    page += (f"{len(numbers['rows'])} faults, {numbers['seeds']} seeds, a run ends after {numbers['limit']} s, {numbers['jobs']} runs at once. "
             "What crashes or hangs counts as found too. Seconds are counted from when the process of an engine is started, so what it does "
             "before its first input is in them.\n\n| goal | measured | |\n| --- | --- | --- |\n")
    page += "".join(f"| {goal.what} | {goal.got} | {'reached' if goal.reached else '**missed**'} |\n" for goal in detection_goals(numbers))
    page += ("\nThe measurement itself asks for every fault to be found by every engine, and for A12 in the median; what is said of every run, and of A12 for "
             "every fault and engine, decides nothing.\n\n"
             "![Seconds until found](detection.svg)\n\n")
    engines = list(numbers["rows"][0]["engines"])
    page += ("Median seconds until found, in brackets in how many runs where not in all; A12 of the engine that does worst: the chance "
             "that a run of it is sooner than one of the baseline.\n\n")
    page += "| fault | " + " | ".join(engines) + " | A12, raw | A12, unit |\n| --- |" + " --- |" * (len(engines) + 2) + "\n"
    for row in numbers["rows"]:
        cells = [shown(found["median"]) + (f" ({found['found']}/{found['of']})" if 0 < found["found"] < found["of"] else "")
                 for found in row["engines"].values()]
        cells += [f"{min(row['a12'][baseline].values()):.2f}" for baseline in ("raw", "unit")]
        page += f"| [{row['name']}](../planted/engine/{row['name']}.patch) | " + " | ".join(cells) + " |\n"
    page += f"\nFound without being triggered, because the patch calls too little a trigger or something else was found: {untriggered(numbers['rows'])}.\n"
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
    page += (f"\n{numbers['minutes']:g} minutes; {numbers['kept']:,} inputs kept; a canary that fails by "
             f"intent {'was' if all(numbers['canaries']) else 'was NOT'} found by both fuzzers first. Findings: {len(numbers['findings'])}.\n")
    return page + "".join(f"- {finding}\n" for finding in numbers["findings"]) + "\n"


# (title, kept as, section)
SECTIONS = (
    ("Mutants, all of them", "mutants", mutants_section),
    ("Mutants, a sample", "mutants-sample", mutants_section),
    ("Planted faults", "detection", detection_section),
    ("Shrinking", "detection", shrinking_section),
    ("Soak", "soak", soak_section),
)

HEAD = """# Metrics

Written by `make metrics`; do not edit. How much of what can go wrong the suite finds, and how soon. Each part says by which
command, on which machine, when, of which commit, and in what time it was measured; if it went on from an earlier run, only the rest
is in that time. Times of a machine that does other things too are worth little: a load above the number of its cores says so.

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
    for title, name, section in SECTIONS:
        measured = kept(name)
        page += f"## {title}\n\n"
        if measured and not is_of_these_sources(measured, name):
            page += "Sources that this stands on have changed since.\n\n"
        if measured and not measured.get("reached", True):
            page += "**A goal was missed.**\n\n"
        page += section(measured) if measured else f"not measured here: `{settings_of(name)} {MEASURED[name][0]}`\n\n"
    with open(PAGE, "w") as file:
        file.write(page.rstrip() + "\n")
    detection = kept("detection")
    if detection:
        with open(PLOT, "w") as file:
            file.write(plot(detection["numbers"]))
    print(f"written: {tree.relative(PAGE)}")


def when_kept(name):
    return os.stat(place_of(name)).st_mtime_ns if os.path.exists(place_of(name)) else None


class Child:
    """A script that is told of a wish to end, and has its time to."""

    def __init__(self):
        self.process, self.told = None, False

    def tell(self):
        self.told = True
        if self.process:
            self.process.send_signal(signal.SIGINT)

    def exit_code_of(self, command, environment):
        self.process = tree.start(command, signal.SIGINT, cwd=tree.ROOT, env=environment)
        if self.told:  # meanwhile
            self.tell()
        return self.process.wait()


def measure(name, child):
    """The exit code; not 0 where no measurement was kept."""
    script, settings = MEASURED[name]
    print(f"measuring: {name}", flush=True)
    before = when_kept(name)
    code = child.exit_code_of([sys.executable, tree.path(script)],
                              {**os.environ, **{setting: str(least) for setting, least in settings.items()}})
    if when_kept(name) != before:
        return code
    print(f"{script} kept no measurement {name}; what it has so far is kept, and the same command goes on", file=sys.stderr)
    return code or tree.EXIT_FINDINGS


def measure_what_is_missing():
    """The worst exit code. A measurement that was good already, and missed its goals, counts as it did then."""
    codes, child = [], Child()
    with tree.Stop(child.tell) as stop:
        for name in MEASURED:
            measured = kept(name)
            if not is_of_these_sources(measured, name):
                codes.append(measure(name, child))
            elif not measured.get("reached"):
                codes.append(tree.EXIT_FINDINGS)
            if stop.asked:
                codes.append(tree.EXIT_INTERRUPTED)
            if codes and codes[-1] in (tree.EXIT_USAGE, tree.EXIT_INTERRUPTED):
                break
    # By a signal they end below 0.
    return max((code if code >= 0 else tree.EXIT_FINDINGS for code in codes), default=tree.EXIT_CLEAN)


def refuse_what_would_end_a_night():
    given = [f"{setting}={os.environ[setting]}" for setting in SETTINGS if os.environ.get(setting)]
    if given:
        raise tree.WrongUse(f"{' '.join(given)}: measurements have settings of their own, and only JOBS= is taken; make mutants, make detection and"
                            " make soak take all of them")
    tree.jobs()
    tree.require("afl-fuzz")


def run():
    if sys.argv[1:] not in ([], ["page"]):
        raise tree.WrongUse("no arguments but `page`")
    worst = tree.EXIT_CLEAN
    if not sys.argv[1:]:
        refuse_what_would_end_a_night()
        worst = measure_what_is_missing()
    write_page()
    return worst


if __name__ == "__main__":
    tree.main(run)
