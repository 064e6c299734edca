# SPDX-License-Identifier: Apache-2.0
"""What fuzzing did and when: one JSON object a line, from which ci/report.py draws."""

import json
import os
import re
import time

import json_lines
import tree

LARGEST = 10**15
FILE = os.path.join(tree.BUILD, "fuzz-history.jsonl")


def append(session, engine, law, **numbers):
    """`session` tells apart campaigns; `numbers` are sums since its start."""
    os.makedirs(tree.BUILD, exist_ok=True)
    with json_lines.open_to_append(FILE) as file:
        file.write(json.dumps({"at": round(time.time(), 1), "session": session, "engine": engine, "law": law, **numbers}) + "\n")


def is_record(entry):
    """As append writes them: of a campaign's progress, or of a finding."""
    def text(name):
        return isinstance(entry[name], str) and not re.search("[\ud800-\udfff]", entry[name])

    def number(name):
        return type(entry[name]) in (int, float) and 0 <= entry[name] < LARGEST

    kinds = [(("at",), number), (("session", "engine", "law"), text)]
    kinds += [(("cases", "seconds", "edges", "corpus"), number)] if "cases" in entry else []
    kinds += [(("finding",), text)] if "finding" in entry else []
    return len(kinds) > 2 and all(name in entry and right(name) for names, right in kinds for name in names)


def read(path=None):
    """All records, oldest first; other lines are left out."""
    records = filter(is_record, json_lines.read(path or FILE))
    return sorted(records, key=lambda record: record["at"])
