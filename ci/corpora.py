#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The byte inputs of every law: where they lie, how they pass from one fuzzer to the other, how they are kept small.

    ci/corpora.py list             files and bytes that every law has
    ci/corpora.py gather [DIR...]  copies what AFL++ found (in build/afl-out, or in the output folders DIR) to the common corpus
    ci/corpora.py prune            keeps of the common corpus the smallest inputs that reach all of its edges

    LAW=a,b                        only these laws
    JOBS=n                         processes at once

Both fuzzers start from all of it: corpus/seeds/<law>, build/seeds/<law> (made of the text cases) and build/fuzz-corpus/<law>, the
common corpus, into which libFuzzer writes and which files of AFL++'s queues are copied to. Exit code 0: done, 1: an
input fails that pruning met, 2: wrong use, 130: pruning was ended before every law had its turn.
"""

import concurrent.futures
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import tree

AFL_OUT = os.path.join(tree.BUILD, "afl-out")
MERGE_SECONDS = 600
LOOK_SECONDS = 0.1


def files_in(folder):
    return [name for name in tree.matching(folder, "*") if os.path.isfile(name)]


def named_by_content(path):
    """libFuzzer's own way of naming what it keeps."""
    with open(path, "rb") as file:
        return hashlib.sha1(file.read()).hexdigest()


def common(law):
    """The folder of inputs that were found, by whichever fuzzer."""
    return os.path.join(tree.BUILD, "fuzz-corpus", law)


def seeds_of(law):
    """Folders with byte seeds of a law that are not empty, most permanent first."""
    folders = [os.path.join(tree.CORPUS_SEEDS, law), os.path.join(tree.BUILD, "seeds", law)]
    return [folder for folder in folders if os.path.isdir(folder) and os.listdir(folder)]


def inputs_of(law):
    """Folders with every input known for a law."""
    return [folder for folder in [common(law)] if os.path.isdir(folder)] + seeds_of(law)


def make_seeds():
    """Byte inputs for every law from the text cases, by the encoder that inverts the decoder."""
    os.makedirs(tree.BUILD, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="seeds.", dir=tree.BUILD) as made:
        done = subprocess.run([tree.COMMAND, "seeds", "--out", made, tree.CORPUS_CASES], cwd=tree.ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if done.returncode:
            raise tree.BuildFailed(f"byte seeds: {done.stdout.strip()}")
        tree.take_over(made, os.path.join(tree.BUILD, "seeds"))  # fuzzers may be starting from those that are there
    return done.stdout.strip()


def copy_whole(source, target, copy):
    """By way of `copy`: a file that is there is whole, or its name would keep the whole one out."""
    try:
        shutil.copyfile(source, copy)
        os.replace(copy, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(copy)


def queued(law, out=None):
    """What AFL++ instances kept in their queues below an output folder."""
    return [path for queue in tree.matching(os.path.join(out or AFL_OUT, law), "*", "queue") for path in files_in(queue)]


def gather(law, outs=None):
    """Copies what AFL++ found to the common corpus; how many files were new there."""
    folder = common(law)
    os.makedirs(folder, exist_ok=True)
    before = len(os.listdir(folder))
    known = {os.path.basename(path) for path in files_in(folder)}
    copy = f"{folder}.{os.getpid()}"
    for out in outs or [AFL_OUT]:
        for path in queued(law, out):
            name = named_by_content(path)
            if name not in known:
                known.add(name)
                copy_whole(path, os.path.join(folder, name), copy)
    return len(os.listdir(folder)) - before


def evict(law, path):
    """An input that fails has no place among those that fuzzing starts from."""
    name = os.path.join(common(law), named_by_content(path))
    if os.path.exists(name):
        os.remove(name)


def admit(law, path):
    """An input that a fuzzer took for one that fails comes to those that fuzzing starts from."""
    folder = common(law)
    os.makedirs(folder, exist_ok=True)
    copy_whole(path, os.path.join(folder, named_by_content(path)), f"{folder}.{os.getpid()}")
    os.remove(path)


def ends_well(command, seconds, stop):
    """Does it, within that time? A merge is processes that follow each other: a first wish to end lets it come to its end."""
    process = tree.start(command, cwd=tree.ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=tree.environment())
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline and not stop.again:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_SECONDS) == 0
        return False
    finally:
        tree.end(process)


def move_all(source, target):
    """The files of one folder, if it is there, to another one of the same disk."""
    for path in files_in(source):
        os.replace(path, os.path.join(target, os.path.basename(path)))
    shutil.rmtree(source, ignore_errors=True)


def prune(law, binary, options, artifacts, stop):
    """(files before, files after), None if nobody waited for it; a merge that does not end well leaves all as it was. After a wish to end,
    none begins."""
    folder = os.path.realpath(common(law))  # which may be on another disk
    os.makedirs(folder, exist_ok=True)
    move_all(folder + ".discarded", folder)  # where earlier versions had all of it for a moment, and left it when they were killed
    known = files_in(folder)
    before = len(known)
    fewer = folder + ".pruned"
    shutil.rmtree(fewer, ignore_errors=True)
    os.makedirs(fewer)
    os.makedirs(artifacts, exist_ok=True)
    merged = not stop.asked and ends_well([binary, *options, "-merge=1", f"-artifact_prefix={artifacts}/", fewer, folder], MERGE_SECONDS, stop)
    after = len(files_in(fewer))
    if not merged or not after:
        shutil.rmtree(fewer)
        return None if stop.asked else (before, before)
    # What is kept comes first: whenever this is killed, none of it is missing.
    kept = {os.path.basename(path) for path in files_in(fewer)}
    move_all(fewer, folder)
    for path in known:
        if os.path.basename(path) not in kept:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return before, after


def side_by_side(act, laws):
    """[(law, act(law))], JOBS at a time, in the order of the laws."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=tree.jobs()) as pool:
        return list(zip(laws, pool.map(act, laws)))


def list_laws(laws):
    print(f"{'law':<24}{'found':>8}{'bytes':>10}{'seeds':>8}{'AFL++ queues':>14}")
    for law in laws:
        found = files_in(common(law))
        seeds = sum(len(files_in(folder)) for folder in seeds_of(law))
        print(f"{law:<24}{len(found):>8,}{sum(map(os.path.getsize, found)):>10,}{seeds:>8,}{len(queued(law)):>14,}")


def gather_laws(laws, outs):
    for out in outs:
        if not os.path.isdir(out):
            raise tree.WrongUse(f"{out} is no folder")
    tree.alone("fuzzing")
    for law, new in side_by_side(lambda law: gather(law, outs), laws):
        print(f"{law:<24}{new:>8,} new of AFL++'s {sum(len(queued(law, out)) for out in outs or [AFL_OUT]):,}")


def prune_laws(laws):
    import fuzz
    import triage
    tree.alone("fuzzing")
    engine = fuzz.LibFuzzer("fuzz-fast")
    tree.build(engine.preset, *[f"fuzz_{law}" for law in laws])
    with tree.Stop() as stop:
        pruned = side_by_side(lambda law: engine.prune(law, stop), laws)
    for law, sizes in pruned:
        print(f"{law:<24}{sizes[0]:>8,} files, {sizes[1]:,} of them kept" if sizes else f"{law:<24} not pruned, it was ended before")
    failed = [(law, path, reason) for law in laws for path, reason in engine.failing_in_merge(law)]
    for law, path, reason in failed:
        print(f"failed: {tree.relative(triage.keep(law, path))}, {law}: {reason}")
    return tree.EXIT_FINDINGS if failed else tree.EXIT_CLEAN if all(sizes for _, sizes in pruned) else tree.EXIT_INTERRUPTED


def run():
    verb, rest = sys.argv[1] if len(sys.argv) > 1 else None, sys.argv[2:]
    laws = tree.chosen_laws(os.environ.get("LAW"))
    if verb == "gather":
        gather_laws(laws, rest)
    elif verb == "list" and not rest:
        list_laws(laws)
    elif verb == "prune" and not rest:
        return prune_laws(laws)
    else:
        raise tree.WrongUse("list, gather [DIR...] or prune")
    return tree.EXIT_CLEAN


if __name__ == "__main__":
    tree.main(run)
