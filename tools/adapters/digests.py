# SPDX-License-Identifier: Apache-2.0
"""What docs/upstream.md was written for: upstream.py records it there, ci/lint.py compares it with the tree."""
import glob
import hashlib
import json
import os
import re

CORPUS, KNOWN, ADAPTER = "corpus", "known differences", "adapter"
REMAKE = "run `make upstream SOURCE=path/to/Megatron-LM` and commit what it writes"


def digest_of(lines):
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def lines_of(folder):
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.jsonl"))):  # an editor's locks begin with a dot
        yield os.path.basename(path)
        with open(path) as file:
            yield from (line.strip() for line in file if line.strip())


def without_note(line):
    """People may add notes to what is known at any time."""
    if not line.startswith("{"):
        return line
    return json.dumps({key: value for key, value in json.loads(line).items() if key != "note"}, sort_keys=True)


def sources(folder):
    """What decides what is asked and how answers are read."""
    for name in ("megatron.py", "upstream.py"):
        with open(os.path.join(folder, name)) as file:
            yield name
            yield file.read()


def digests(root):
    return {CORPUS: digest_of(lines_of(os.path.join(root, "corpus", "cases"))),
            KNOWN: digest_of(map(without_note, lines_of(os.path.join(root, "tools", "adapters", "known")))),
            ADAPTER: digest_of(sources(os.path.join(root, "tools", "adapters")))}


def sentence(root):
    now = digests(root)
    return f"For the {CORPUS} of digest `{now[CORPUS]}`, the {KNOWN} of digest `{now[KNOWN]}` and the {ADAPTER} of digest `{now[ADAPTER]}`."


def stale(root):
    """Why docs/upstream.md says nothing about the tree as it is, or None."""
    with open(os.path.join(root, "docs", "upstream.md")) as file:
        report = file.read()
    for name, digest in digests(root).items():
        recorded = re.search(rf"{name} of digest `([0-9a-f]+)`", report)
        if not recorded:
            return f"docs/upstream.md does not say which {name} it was written for: {REMAKE}"
        if recorded.group(1) != digest:
            return f"docs/upstream.md was written for other {name} (digest {recorded.group(1)}, now {digest}): {REMAKE}"
    return None
