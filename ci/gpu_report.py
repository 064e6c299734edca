# SPDX-License-Identifier: Apache-2.0
"""docs/gpu.md, out of the results that ci/gpu.py keeps in docs/gpu/: one file for each kind of machine, the latest run."""

import contextlib
import json
import os
import re

import tree

FOLDER = tree.path("docs", "gpu")
PAGE = tree.path("docs", "gpu.md")

INTRODUCTION = """# On GPUs

Written by `make gpu`, which builds `engine/cuda` and `gpu_tests`, runs every test, measures, and keeps the results of each kind of machine in
`docs/gpu/`. Nothing here is typed by hand.

Rows are painted by token, place and salt; after every conversion each byte is compared on the device with what the definition of
the layout has there, and bytes around the rows are looked after too. *Simulated* runs play all ranks on one device with the kernels
of the exchange; *NCCL* runs have a process for each rank. Where ranks share a GPU they talk by sockets as if far apart, or, from NCCL 2.30 on, write to
each other's memory as on one host: that is a test of what is right, and of what happens to lost ranks, and says nothing about speed.
"""


# The results of bench/compare_torch.py where it had none.
NO_PYTORCH = {"date": None, "command": "bench/compare_torch.py", "commit": None, "ranks": 0, "device": "cuda", "shares_gpus": False,
              "lines": [], "wrong": 0, "failed": []}


def results_in(path):
    """What cproute_gpu_tests or bench/compare_torch.py wrote, or None. Of tests that were cut, the jobs that had ended: each is a line."""
    try:
        with open(path, errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    with contextlib.suppress(ValueError):
        return json.loads(text)
    lines = text.split("\n")
    while lines:
        with contextlib.suppress(ValueError):
            return counted(json.loads("\n".join(lines).rstrip(",\n") + "]}"))
        lines.pop()
    return None


def counted(results):
    jobs = results["jobs"]
    counts = {outcome: sum(job["outcome"] == outcome for job in jobs) for outcome in ("passed", "failed", "skipped")}
    return {**results, **counts, "wrong": sum(job["wrong"] for job in jobs), "cut": True}


def not_run(runs, sanitized, torch):
    """[(what, why)]"""
    steps = [(run["name"], run.get("not_run")) for run in runs] + [("PyTorch's conversion", (torch or {}).get("not_run"))]
    return [(what, why) for what, why in steps if why]


def keep(runs, sanitized, seconds, torch=None):
    """False: no run has got as far as to tell what machine this is."""
    first = next((run for run in runs if run.get("devices")), None)
    if not first:
        return False
    gpus = first["devices"]
    name = re.sub(r"[^a-z0-9]+", "-", f"{len(gpus)}x {gpus[0]}".lower()).strip("-")
    os.makedirs(FOLDER, exist_ok=True)
    results = {"date": first["date"], "commit": tree.commit(), "devices": gpus, "driver": first["driver"], "nccl": first["nccl"],
               "cuda_runtime": first["cuda_runtime"], "seconds": round(seconds), "sanitized": sanitized, "torch": torch,
               "runs": [{key: run.get(key) for key in ("name", "options", "ranks", "shares_gpus", "one_host", "jobs", "passed", "failed",
                                                        "skipped", "wrong", "broken", "not_run")} for run in runs]}
    tree.write_json(os.path.join(FOLDER, name + ".json"), results)
    return True


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def jobs_of(results, name):
    """(run, job) of all runs in which a test took part."""
    return [(run, job) for run in results["runs"] for job in run["jobs"] if job["name"].endswith("/" + name)
            and job["outcome"] != "skipped"]


def columns(results):
    """{what ranks they have: the runs that have them, of those that came to a test}"""
    found = {}
    for run in results["runs"]:
        if run["jobs"]:
            found.setdefault(described(run), []).append(run)
    return found


def described(run):
    sharing = "" if not run["shares_gpus"] else ", sharing memory" if run.get("one_host") else ", sharing"
    return f"P = {run['ranks']}{sharing}"


def outcome(job):
    if job["outcome"] == "skipped":
        return "-"
    return f"{job['cases']:,}" if job["outcome"] == "passed" else "**failed**"


def tests(results):
    """A row a test: cases judged by each number of ranks."""
    runs, by_ranks = results["runs"], columns(results)
    meanings = {job["name"].split("/")[1]: job["meaning"] for run in runs for job in run["jobs"]}

    def cell(chosen, name):
        return next((outcome(job) for run in chosen for job in run["jobs"] if job["name"] == name), "")

    rows = [[name, cell(runs, f"simulated/{name}"), *(cell(chosen, f"nccl/{name}") for chosen in by_ranks.values()), meaning]
            for name, meaning in meanings.items()]
    text = "Cases judged; a bar where a test does not apply. P ranks over NCCL, on GPUs of their own, or sharing one by sockets or memory.\n\n"
    text += table(["test", "simulated", *by_ranks, "what holds"], rows)
    wrong = sum(run["wrong"] for run in runs)
    broken = "".join(f"- Broken: {run['name']}: {run['broken']}.\n" for run in runs if run.get("broken"))
    broken += "".join(f"- Not run: {what}: {why}.\n" for what, why in not_run(runs, results["sanitized"], results.get("torch")))
    failed = "".join(f"- {run['name']}, {job['name']}: {job['details']}\n" for run in runs for job in run["jobs"]
                     if job["outcome"] == "failed")
    sanitized = ", ".join(f"{tool} {how}" for tool, how in results["sanitized"].items()) or "not run"
    return text + f"\nWrong bytes: {wrong}. compute-sanitizer: {sanitized}.\n" + ("\n" if broken or failed else "") + broken + failed


def synchronisations(results):
    rows = []
    for run, job in jobs_of(results, "syncs"):
        f = job["figures"]
        if "conversions" not in f:
            continue
        ranks = int(f["per-token ranks counted"])
        where = described(run) if job["name"].startswith("nccl/") else "P = 4, simulated: all four ranks together"
        rows.append([where, f"{f['conversions']:,.0f}", f"{f['waits in them']:.0f}", f"{f['reads in them']:.0f}",
                     f"{f['allocations in them']:.0f}", f"{f['per-token conversions']:,.0f}", f"{f['per-token waits']:,.0f}",
                     f"{f['per-token waits'] / f['per-token conversions'] / ranks:.0f}"])
    if not rows:
        return "Not counted on this machine.\n"
    return ("24 layers, 10 micro-batches of 8,192 tokens with boundaries of their own; a conversion before and one after each layer, forward and, for "
            "ours, backward. Counted in the calling thread by CUPTI, inside NCCL too.\n\n"
            + table(["", "our conversions", "waits", "reads", "allocations", "per-token conversions (3282)", "waits",
                     "waits of one rank in one"], rows))


def shapes_of(jobs):
    """{(P, tokens, sequences): {(what, from): line}} of measured lines."""
    shapes = {}
    for job in jobs:
        for line in job["lines"]:
            if line["time"] > 0:
                shape = (line["cp"], line["rows"] * line["cp"], line["sequences"])
                shapes.setdefault(shape, {})[line["what"], line["from"]] = line
    return shapes


def lines_by_shape(results, test, whole=()):
    """Of one test: what it measured has taken turns. Without shapes that lack a line of `whole`, where it was cut."""
    return {shape: lines for shape, lines in shapes_of(job for _, job in jobs_of(results, test)).items() if lines.keys() >= set(whole)}


def takes_two_gpus(results):
    why = "is one" if len(results["devices"]) == 1 else "it was not asked for"
    return f"Not measured on this machine: it takes two GPUs or more, and here {why}.\n"


def conversions(results):
    keys = (("conversion", "zigzag"), ("conversion", "contiguous"), ("all-to-all", "zigzag"))
    shapes = lines_by_shape(results, "measure_conversion", keys)
    if not shapes:
        return takes_two_gpus(results)
    rows = []
    for (ranks, tokens, sequences), lines in sorted(shapes.items()):
        there, back, bare = (lines[key]["time"] for key in keys)
        rows.append([ranks, f"{tokens:,}", sequences, f"{there:.0f}", f"{back:.0f}", f"{bare:.0f}", f"{there / bare:.2f}",
                     f"{back / bare:.2f}", f"{lines['conversion', 'zigzag']['algbw']:.0f}"])
    return ("Microseconds of pack, exchange and scatter, of the slowest rank, median of 9 batches of 20; rows of 4,096 bf16; beside NCCL's bare all-to-all of "
            "the same bytes, own share included, in turns within the same run.\n\n"
            + table(["P", "tokens", "S", "zigzag → contiguous", "contiguous → zigzag", "bare all-to-all", "ratio", "ratio back",
                     "GB/s of a rank"], rows))


def kernels(results):
    keys = (("pack", "contiguous"), ("scatter", "zigzag"), ("copy", "zigzag"))
    shapes = lines_by_shape(results, "measure_kernels", keys)
    if not shapes:
        return "Not measured on this machine.\n"
    rows = []
    for (ranks, tokens, sequences), lines in sorted(shapes.items()):
        pack, scatter, copy = (lines[key] for key in keys)
        rows.append([ranks, f"{tokens // ranks:,}", sequences, f"{pack['busbw']:.0f}", f"{scatter['busbw']:.0f}", f"{copy['busbw']:.0f}",
                     f"{100 * pack['busbw'] / copy['busbw']:.0f} %", f"{100 * scatter['busbw'] / copy['busbw']:.0f} %"])
    return ("GB/s, read and written together; rows of 4,096 bf16 of one rank; the other ranks wait meanwhile. Four sets of buffers in turn.\n\n"
            + table(["P", "rows", "S", "pack", "scatter", "device-to-device copy", "pack of it", "scatter of it"], rows))


def layer_waits(results):
    """Counted also where steps are not timed."""
    rows = [[described(run), *name.removeprefix("waits, ").rsplit(", ", 1), f"{waits:.0f}"]
            for run, job in jobs_of(results, "measure_delta") for name, waits in job["figures"].items() if name.startswith("waits, ")]
    if not rows:
        return ""
    return ("\nHow often the host waits for the device in a training step of the layer, forward and backward:\n\n"
            + table(["", "", "tokens of a rank", "waits"], rows))


def layer(results):
    """Steps of the layer: a row a variant and size, with what conversions take, and how often the host waits."""
    rows = []
    for _, job in jobs_of(results, "measure_delta"):
        steps = {}
        for line in job["lines"]:
            steps.setdefault((line["rows"], line["what"]), {})[line["from"]] = line
        for (tokens, variant), found in steps.items():
            if len(found) < 2:
                continue
            step, moves = found["step"]["time"], found["moves"]["time"]
            waits = job["figures"].get(f"waits, {variant}, {tokens}")
            rows.append([found["step"]["cp"], f"{tokens:,}", variant, f"{step / 1e3:.2f}", f"{moves / 1e3:.3f}",
                         f"{100 * moves / step:.1f} %", "not counted" if waits is None else f"{waits:.0f}"])
    if not rows:
        return takes_two_gpus(results) + layer_waits(results)
    return ("A training step of the gated delta rule (`consumer/`), forward and backward, heads of 64 × 64, bf16, 8 sequences; milliseconds, of the "
            "slowest rank, median of 7. *Moving* is the time in which rows are on their way between layouts, waiting for other ranks "
            "included; *waits* are those of the host for the device in one step. The kernels are plain: look at what moving takes, "
            "not at its share. In chunkwise states and halos are exchanged too, which is not moving.\n\n"
            + table(["P", "tokens of a rank", "", "step", "moving", "of the step", "waits"], rows)
            + ("" if any("one kernel" in row[2] for row in rows) else
               "\nConversions by one kernel were not measured: these GPUs cannot write to each other's memory.\n"))


FROM_TOKENS, FROM_BYTES, SMALL_BYTES = 16384, 32 << 20, 1 << 20


def values_of(shapes, wanted, value):
    """[(value, shape)] of all lines that are wanted; shapes without them have none."""
    return [(value(lines, key), shape) for shape, lines in shapes.items() for key in lines if key[0] in wanted
            and value(lines, key) is not None]


def against_bare(lines, key):
    bare = lines.get(("all-to-all", "zigzag"))
    return lines[key]["time"] / bare["time"] if bare else None


def against_copy(lines, key):
    copy = lines.get(("copy", "zigzag"))
    return lines[key]["busbw"] / copy["busbw"] if copy else None


def host_times(runs):
    """Of a conversion without a route, where ranks are real and reach each other."""
    figure = "us of host time for one"
    return [(job["figures"][figure], (run["ranks"], None, None)) for run, job in jobs_of({"runs": runs}, "direct_syncs")
            if job["name"].startswith("nccl/") and figure in job["figures"] and (run.get("one_host") or not run["shares_gpus"])]


def goals(runs, torch=None, gpus=1):
    """Sentences: what was to be reached, whether it was, and the worst figure. One GPU has nothing to say of what it cannot measure."""
    def measured(test):
        return lines_by_shape({"runs": runs}, test)

    conversions, direct = measured("measure_conversion"), measured("measure_without_route")
    large = {shape: lines for shape, lines in direct.items() if all(line["bytes"] >= FROM_BYTES for line in lines.values())}
    small = {shape: lines for shape, lines in direct.items() if all(line["bytes"] <= SMALL_BYTES for line in lines.values())}
    beside = shapes_of([torch] if torch and is_timed(torch) else [])
    told = []
    for what, worst_of, wanted, unit, values in (
            (f"conversion against the bare all-to-all from {FROM_TOKENS:,} tokens on", max, 1.25, "x",
             values_of({shape: lines for shape, lines in conversions.items() if shape[1] >= FROM_TOKENS}, ("conversion",), against_bare)),
            ("pack and scatter against the device-to-device copy", min, 0.85, "x",
             values_of(measured("measure_kernels"), ("pack", "scatter"), against_copy)),
            ("without a route against the bare all-to-all from 32 MB of a rank on", max, 0.80, "x", values_of(large, ("direct",), against_bare)),
            ("without a route across the link, from 32 MB of a rank on", min, 340, "GB/s",
             values_of(large, ("direct",), lambda lines, key: lines[key]["busbw"])),
            ("without a route at 1 MB of a rank", max, 25, "us", values_of(small, ("direct",), lambda lines, key: lines[key]["time"])),
            ("without a route, host time of a call", max, 10, "us", host_times(runs)),
            ("without a route, times as fast as PyTorch with upstream's cached route,", min, 2, "x",
             [(theirs / ours, shape) for shape, lines in beside.items()
              for theirs, ours in zip(times_of(lines, "torch"), times_of(lines, "direct"))])):
        if not values:
            told += [f"not measured: {what.rstrip(',')}"] if gpus > 1 else []
        else:
            value, (ranks, tokens, sequences) = worst_of(values)
            reached = value <= wanted if worst_of is max else value >= wanted
            where = f"P = {ranks}" + (f", {tokens:,} tokens, S = {sequences}" if tokens else "")
            told.append(f"{'reached' if reached else 'not reached'}: {what} at {'most' if worst_of is max else 'least'} {wanted:g} {unit}: "
                        f"{value:.{2 if unit == 'x' else 0}f} {unit} at worst ({where})")
    return told


def without_a_route(results):
    keys = (("direct", "zigzag"), ("direct", "contiguous"), ("all-to-all", "zigzag"))
    rows = []
    for (ranks, tokens, sequences), lines in sorted(lines_by_shape(results, "measure_without_route", keys).items()):
        there, back, bare = (lines[key]["time"] for key in keys)
        rows.append([ranks, f"{tokens:,}", sequences, f"{there:.0f}", f"{back:.0f}", f"{bare:.0f}", f"{there / bare:.2f}",
                     f"{back / bare:.2f}", f"{lines['direct', 'zigzag']['busbw']:.0f}", f"{lines['direct', 'contiguous']['busbw']:.0f}"])
    text = "Between GPUs: not measured on this machine: it takes two GPUs that can write to each other's memory.\n"
    if rows:
        text = ("Microseconds, as above, of the one kernel that is all of it; GB/s across the link in each direction.\n\n"
                + table(["P", "tokens", "S", "zigzag → contiguous", "contiguous → zigzag", "bare all-to-all", "ratio", "ratio back",
                         "GB/s", "GB/s back"], rows))
    keys = (("direct, one device", "zigzag"), ("direct, one device", "contiguous"), ("copy, one device", "zigzag"))
    rows = []
    for (ranks, tokens, sequences), lines in sorted(lines_by_shape(results, "direct_measure", keys).items()):
        there, back, copy = (lines[key] for key in keys)
        rows.append([ranks, f"{tokens:,}", sequences, f"{there['time']:.0f}", f"{back['time']:.0f}", f"{copy['time']:.0f}",
                     f"{there['busbw']:.0f}", f"{back['busbw']:.0f}", f"{copy['busbw']:.0f}"])
    if rows:
        text += ("\nThe kernel alone, all ranks simulated on one device in one launch, both barriers included; copies of the same bytes, one for each "
                 "rank. Microseconds, and GB/s read and written together.\n\n"
                 + table(["P", "tokens", "S", "zigzag → contiguous", "contiguous → zigzag", "copies", "GB/s", "GB/s back", "GB/s of copies"], rows))
    rows = [[described(run) if job["name"].startswith("nccl/") else "P = 2, simulated", f"{f['conversions']:,.0f}", f"{f['waits in them']:.0f}",
             f"{f['reads in them']:.0f}", f"{f['allocations in them']:.0f}", f"{f['us of host time for one']:.1f}"]
            for run, job in jobs_of(results, "direct_syncs") for f in [job["figures"]] if "conversions" in f]
    if rows:
        text += ("\nCalls are counted by CUPTI; the host's time is taken without it.\n\n"
                 + table(["", "conversions", "waits", "reads", "allocations", "us of the host for one"], rows))
    return text


def times_of(lines, what):
    """There and back, where it was measured."""
    return [lines[what, source]["time"] for source in ("zigzag", "contiguous") if (what, source) in lines]


def beside_pytorch(torch):
    """What bench/compare_torch.py found: its results, or None."""
    if not torch:
        return "Not measured on this machine: `make gpu SOURCE=path/to/Megatron-LM` does, with torch in its Python.\n"
    bad = [f"- **wrong**: {line['wrong']:,} bytes of {line['what']}, {line['from']} → {line['to']}, P = {line['cp']}, "
           f"{line['rows'] * line['cp']:,} tokens, S = {line['sequences']}\n" for line in torch["lines"] if line["wrong"]]
    bad += [f"- **failed**: {sentence}\n" for sentence in torch["failed"]]
    if torch.get("not_run"):
        return f"Not run: {torch['not_run']}.\n"
    text = beside_pytorch_judged(torch) if not is_timed(torch) else beside_pytorch_timed(torch)
    return text + ("\n" if bad else "") + "".join(bad)


def is_timed(torch):
    return torch["device"] == "cuda" and not torch["shares_gpus"]


def what_ran(torch):
    return (f"{torch['date']}, `{torch['command']}`: Megatron-LM {(torch['commit'] or 'of a folder')[:11]}, {torch.get('generation')}, with the route "
            f"that it built ahead; torch {torch.get('torch')}, its NCCL {torch.get('torch_nccl')}, "
            f"ours {torch.get('nccl') or 'not run'}.")


def beside_pytorch_judged(torch):
    judged = [line for line in torch["lines"] if line["what"] == "torch"]
    right = sum(not line["wrong"] for line in judged)
    where = "share a GPU" if torch["device"] == "cuda" else "have none"
    return (f"Not measured: it takes two GPUs. Judged on {torch['ranks']} ranks that {where}: {right} of {len(judged)} conversions of PyTorch's are "
            f"right, byte for byte. {what_ran(torch)}\n")


def beside_pytorch_timed(torch):
    rows = []
    for (ranks, tokens, sequences), lines in sorted(shapes_of([torch]).items()):
        theirs = times_of(lines, "torch")
        cells = [f"{time:.0f}" for time in theirs] or ["-"] * 2
        for what in ("direct", "conversion"):
            ours = times_of(lines, what)
            faster = [f"{slow / fast:.2f}" for slow, fast in zip(theirs, ours)]
            cells += ([f"{time:.0f}" for time in ours] or ["-"] * 2) + (faster or ["-"] * 2)
        rows.append([ranks, f"{tokens:,}", sequences, *cells])
    if not rows:
        return f"Nothing was timed. {what_ran(torch)}\n" if torch["date"] else "Nothing was timed.\n"
    return (f"Zigzag → contiguous, and back: microseconds of the slowest rank, median of {torch['batches']} batches of {torch['runs']}; rows of 4,096 "
            "bf16; and how many times as fast as PyTorch. All are judged before they are timed. Upstream runs without gradients and without ranges of NVTX. "
            + what_ran(torch) + "\n\n" + table(["P", "tokens", "S", "PyTorch", "back", "without a route", "back", "times as fast", "back", "with a route", "back", "times as fast",
                     "back"], rows))


def lost_ranks(results):
    rows = [[job["name"].split("/")[1], described(run), f"{job['figures']['seconds until the error']:.2f} s"]
            for lost in ("killed_before", "killed_during", "stuck", "stuck_flood", "killed_graph")
            for name in (lost, lost + "_blocking") for run, job in jobs_of(results, name)
            if "seconds until the error" in job["figures"]]
    if not rows:
        return "Not run on this machine: it takes two ranks.\n"
    return "From the exchange to the error on rank 0, with a timeout of 4 s.\n\n" + table(["", "", "error after"], rows)


def to_be_reached(results):
    found = goals(results["runs"], results.get("torch"), len(results["devices"]))
    if not found:
        return "Not measured on this machine.\n"
    sizes = ("\nSizes are those of a rank's whole shard, rows that stay included: 32 MB are 8,192 tokens on two ranks, of which about 16 MB cross the "
             "link. GB/s count only what crosses.\n")
    return "".join(f"- {goal}\n" for goal in found) + (sizes if any("MB of a rank" in goal for goal in found) else "")


def section(results):
    gpus = results["devices"]
    runtime = results["cuda_runtime"]
    text = f"## {len(gpus)} × {gpus[0]}\n\n"
    text += (f"{results['date']}, commit {results['commit']}, driver {results['driver']}, CUDA {runtime // 1000}.{runtime % 1000 // 10}, "
             f"NCCL {results['nccl']}. `make gpu` took {results['seconds']} s, and ran:\n\n```\n")
    text += "".join(f"cproute_gpu_tests {' '.join(run['options'])}\n" for run in results["runs"] if not run.get("not_run"))
    text += "```\n\n### Tests\n\n" + tests(results)
    text += "\n### Synchronisations\n\n" + synchronisations(results)
    text += "\n### To be reached\n\n" + to_be_reached(results)
    text += "\n### Conversions\n\n" + conversions(results)
    text += "\n### Without a route\n\n" + without_a_route(results)
    text += "\n### Beside PyTorch\n\n" + beside_pytorch(results.get("torch"))
    text += "\n### Kernels alone\n\n" + kernels(results)
    text += "\n### A layer between conversions\n\n" + layer(results)
    return text + "\n### Lost ranks\n\n" + lost_ranks(results)


def write():
    found = []
    for name in tree.matching(FOLDER, "*.json"):
        with open(name) as file:
            found.append(json.load(file))
    found.sort(key=lambda results: (len(results["devices"]), results["devices"][0]))
    text = INTRODUCTION + ("" if found else "\nNo machine with a GPU has run it yet.\n")
    with open(PAGE, "w") as file:
        file.write(text + "".join("\n" + section(results) for results in found))
