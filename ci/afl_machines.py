#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""AFL++ on several machines: one main instance and any number of secondaries that share a folder, in AFL++'s own way.

    ci/afl_machines.py main SHARE LAW         on one machine
    ci/afl_machines.py secondary SHARE LAW    on each of the others; they need the same commit and the same share

    JOBS=n           instances on this machine; all processors if not given
    HOST=name        names this machine's instances: up to 18 letters, digits, _ and -; its host name if not given, which is shortened and
                     given a suffix of its own where it does not fit
    SYNC_MINUTES=5   how often an instance looks at what the others found

Every instance writes to SHARE/LAW/<its name>, and AFL++ imports from there what the others found: secondaries from the main, the main
from all. Ctrl-C ends the instances of this machine; the same line goes on where they were. Afterwards, anywhere:

    afl-whatsup -s SHARE/LAW          how it went
    ci/corpora.py gather SHARE        what was found becomes part of the common corpus here
    ci/triage.py SHARE/LAW            what failed

Exit code 0: ended, 1: an instance broke down, or inputs or seeds failed, 2: wrong use.
"""

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import time

import corpora
import fuzz_afl
import tree
import triage

# What AFL++'s guide recommends for instances that share a corpus: no two search alike.
MANNERS = (["-p", "explore"], ["-p", "coe"], ["-p", "fast", "-Z"], ["-p", "rare"], ["-p", "exploit"], ["-p", "lin"], ["-p", "quad"],
           ["-p", "explore", "-L", "0"])
# AFL++ takes 24 characters of these for an instance, and "main-" or "-12345" is one part of them.
LONGEST_HOST = 18
HOST = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_-]{{0,{LONGEST_HOST - 1}}}")
HASH_DIGITS = 8
STATUS_SECONDS = 60
FOREVER = 10**8


def fits(host):
    """As a part of instance names. Instances of a host "main" could be called as another host's main one."""
    return HOST.fullmatch(host) and not re.match("main(-|$)", host)


def host_name():
    """HOST as it is, or the host name as far as it fits, with a hash of the whole where it does not: hosts that differ stay apart."""
    own = socket.gethostname()
    host = os.environ.get("HOST") or own
    if fits(host):
        return host
    if host != own:  # some shells set it, to the host name
        raise tree.WrongUse(f"HOST={host} is not up to {LONGEST_HOST} letters, digits, _ and -, or begins with - or main")
    plain = re.sub("^(main(-|$)|-)+", "", re.sub("[^A-Za-z0-9_-]", "-", host))[:LONGEST_HOST - HASH_DIGITS - 1] or "host"
    return f"{plain}-{hashlib.sha256(os.fsencode(host)).hexdigest()[:HASH_DIGITS]}"


def instances(role, host, count):
    """[(options, environment)] of this machine's instances; one main in all."""
    shared = {"AFL_AUTORESUME": "1", "AFL_IMPORT_FIRST": "1", "AFL_SYNC_TIME": os.environ.get("SYNC_MINUTES") or "5"}
    made = []
    for number in range(count):
        if role == "main" and number == 0:
            made.append((["-M", f"main-{host}"], shared))
        else:
            manner = MANNERS[number % len(MANNERS)]
            trimming = {"AFL_DISABLE_TRIM": "1"} if number % 2 else {}
            made.append(([*manner, "-S", f"{host}-{number}"], {**shared, **trimming}))
    return made


def build(law):
    tree.require("afl-fuzz")
    tree.build("release", "cproute")
    for preset in ("afl", "afl-cmplog"):
        tree.build(preset, f"fuzz_{law}")
    corpora.make_seeds()


def start(law, seeds, out, options, more):
    command = fuzz_afl.afl_command(tree.fuzz_target("afl", law), tree.fuzz_target("afl-cmplog", law), seeds, out, options, FOREVER)
    print(f"  {' '.join(command)}", flush=True)
    with open(os.path.join(out, f"{options[-1]}.log"), "wb") as log:
        return tree.start(command, fuzz_afl.LAST_SIGNAL, cwd=tree.ROOT, stdout=log, stderr=subprocess.STDOUT, env=fuzz_afl.afl_environment(**more))


def tell_status(out):
    subprocess.run(["afl-whatsup", "-s", out], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def watch(processes, out, stop):
    """Until Ctrl-C, or until none is left."""
    told = time.monotonic()
    while not stop.asked and any(process.poll() is None for process in processes):
        time.sleep(0.2)
        if time.monotonic() - told >= STATUS_SECONDS:
            told = time.monotonic()
            tell_status(out)


def end(processes):
    """How many have ended by themselves; the others do now."""
    left = [process for process in processes if process.poll() is None]
    for process in left:
        os.killpg(process.pid, signal.SIGINT)
    for process in processes:
        process.wait()
        fuzz_afl.end_orphans()
    return len(processes) - len(left)


def seeds_that_hold(law):
    """(the folder of the seeds, how many failed), which are kept and told."""
    seeds, failed = fuzz_afl.prepare_seeds(law), 0
    for path, reason in fuzz_afl.failing_seeds(seeds, tree.fuzz_target("afl", law), triage.never):
        failed += 1
        print(f"no seed, it fails: {tree.relative(triage.keep(law, path))}: {reason}", flush=True)
    return seeds, failed


def fuzz_here(role, host, law, seeds, out):
    """Until Ctrl-C, or until no instance is left. Instances do not hear Ctrl-C, so whatever is wrong here ends them."""
    processes = []
    with tree.Stop() as stop:
        try:
            for instance in instances(role, host, tree.jobs()):
                processes.append(start(law, seeds, out, *instance))
            watch(processes, out, stop)
        finally:
            broken = end(processes)
    return broken


def run():
    if len(sys.argv) != 4 or sys.argv[1] not in ("main", "secondary"):
        raise tree.WrongUse("main SHARE LAW, or secondary SHARE LAW")
    role, share, law = sys.argv[1:]
    if law not in tree.laws():
        raise tree.WrongUse(f"'{law}' is no law. The laws: {' '.join(tree.laws())}")
    if not os.path.isdir(share):
        raise tree.WrongUse(f"{share} is no folder: mount the shared one")
    tree.number("SYNC_MINUTES", os.environ.get("SYNC_MINUTES") or "5")
    host = host_name()
    tree.alone("fuzzing")
    build(law)
    out = os.path.join(os.path.abspath(share), law)
    os.makedirs(out, exist_ok=True)
    fuzz_afl.adopt_orphans()
    seeds, failing_seeds = seeds_that_hold(law)
    broken = fuzz_here(role, host, law, seeds, out)
    tell_status(out)
    # AFL++ puts a date to the names of those of an earlier run.
    failed = [path for kind in ("crashes*", "hangs*") for folder in tree.matching(out, "*", kind) for path in fuzz_afl.inputs_in(folder)]
    if broken:
        print(f"{broken} instances ended by themselves: see {tree.shown(out)}/*.log")
    if failed:
        print(f"{len(failed)} inputs failed: ci/triage.py {tree.shown(out)}")
    if failing_seeds:
        print(f"{failing_seeds} seeds failed: make triage")
    return tree.EXIT_FINDINGS if broken or failed or failing_seeds else tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
