# SPDX-License-Identifier: Apache-2.0
"""What fuzzing did and when: one JSON object a line, from which ci/report.py draws."""

import json
import os
import re
import time

import tree

LARGEST = 10**15
FILE = os.path.join(tree.BUILD, "fuzz-history.jsonl")


def append(session, engine, law, **numbers):
    """`session` tells apart campaigns; `numbers` are sums since its start."""
    os.makedirs(tree.BUILD, exist_ok=True)
    with open(FILE, "a") as file:
        file.write(json.dumps({"at": round(time.time(), 1), "session": session, "engine": engine, "law": law, **numbers}) + "\n")


def is_record(entry):
    """As append writes them: of a campaign's progress, or of a finding."""
    def text(name):
        return isinstance(entry[name], str) and not re.search("[\ud800-\udfff]", entry[name])

    def number(name):
        return type(entry[name]) in (int, float) and 0 <= entry[name] < LARGEST

    if not isinstance(entry, dict):
        return False
    kinds = [(("at",), number), (("session", "engine", "law"), text)]
    kinds += [(("cases", "seconds", "edges", "corpus"), number)] if "cases" in entry else []
    kinds += [(("finding",), text)] if "finding" in entry else []
    return len(kinds) > 2 and all(name in entry and right(name) for names, right in kinds for name in names)


def read(path=None):
    """All records, oldest first; what a full disk, a kill or anybody else left between them is left out."""
    records = []
    try:
        with open(path or FILE, "rb") as file:
            for line in file:
                try:
                    entry = json.loads(line.decode())
                except (ValueError, RecursionError):
                    continue
                if is_record(entry):
                    records.append(entry)
    except FileNotFoundError:
        pass
    return sorted(records, key=lambda record: record["at"])
