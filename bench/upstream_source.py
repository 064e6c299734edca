#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the comparisons find Megatron-LM: the adapters of tools/adapters, and one generation out of a clone.

    bench/upstream_source.py CLONE COMMIT FOLDER    writes to FOLDER what SOURCE=FOLDER needs, for a machine that has no clone
"""
import contextlib
import importlib.util
import os
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ADAPTERS = os.path.join(ROOT, "tools", "adapters")
# What moves the rows of a conversion: the one file beside those of context parallelism that a conversion runs.
EXCHANGE = "megatron/core/tensor_parallel/mappings.py"


class Missing(Exception):
    """What a comparison lacks, and how to go on."""


def load(name):
    """An adapter. They may import each other, and one has the name of the package that it imports: that stays free."""
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", os.path.join(ADAPTERS, f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, ADAPTERS)
    spec.loader.exec_module(module)
    sys.path.remove(ADAPTERS)
    sys.modules.pop("megatron", None)
    return module


def extract(clone, commit, folder):
    """The files of a commit that routes and conversions need, and which commit that is."""
    source = load("upstream").Clone(os.path.abspath(clone))
    found = source.commit(commit)
    if not found:
        raise Missing(f"{clone} has no commit {commit}")
    exchange = source.git("show", f"{found}:{EXCHANGE}")
    if not exchange:
        raise Missing(f"{clone} lacks {EXCHANGE} in commit {commit}")
    source.extract(found, folder)
    for name, text in ((EXCHANGE, exchange), ("COMMIT", found + "\n")):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)


def commit_of(folder):
    """None: nobody knows."""
    with contextlib.suppress(OSError), open(os.path.join(folder, "COMMIT")) as file:
        return file.read().strip()
    return load("upstream").Clone(folder).commit("HEAD") if os.path.exists(os.path.join(folder, ".git")) else None


@contextlib.contextmanager
def checkout(source, commit=None):
    """A checkout as it is; or, for as long as it is needed, what extract() writes of a commit of a clone."""
    source = os.path.abspath(source)
    wanted = "SOURCE= names a checkout of Megatron-LM, or a clone and COMMIT= its commit"
    if not os.path.isdir(source):
        raise Missing(f"{source} is no folder: {wanted}")
    if not commit:
        if not os.path.isdir(os.path.join(source, "megatron")):
            raise Missing(f"{source} has no folder megatron: {wanted}")
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        extract(source, commit, folder)
        yield folder


def main(arguments):
    if len(arguments) != 3:
        asked = arguments in (["-h"], ["--help"])
        print(__doc__, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        extract(*arguments)
    except Missing as what:
        print(f"upstream_source.py: {what}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
