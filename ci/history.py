# SPDX-License-Identifier: Apache-2.0
"""What fuzzing did and when: one JSON object a line, from which ci/report.py draws."""

import json
import os
import time

import tree

FILE = os.path.join(tree.BUILD, "fuzz-history.jsonl")


def append(session, engine, law, **numbers):
    """`session` tells apart campaigns; `numbers` are sums since its start."""
    os.makedirs(tree.BUILD, exist_ok=True)
    with open(FILE, "a") as file:
        file.write(json.dumps({"at": round(time.time(), 1), "session": session, "engine": engine, "law": law, **numbers}) + "\n")


def read(path=None):
    """All records, oldest first; a line that was cut off by a full disk or a kill is left out."""
    records = []
    try:
        with open(path or FILE) as file:
            for line in file:
                try:
                    records.append(json.loads(line))
                except ValueError:
                    continue
    except FileNotFoundError:
        pass
    return sorted(records, key=lambda record: record["at"])
