# SPDX-License-Identifier: Apache-2.0
"""JSON objects, one a line, in files that grow: what a full disk, a kill or anybody else left between them costs only itself."""

import contextlib
import json
import os


def parsed(line):
    """The object that a line is; None for any other line, such as one that was cut off."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(line.decode())
        return value if isinstance(value, dict) else None


def read(path):
    """Objects of a file, none if it is not there; other lines are left out."""
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        yield from (value for value in map(parsed, file) if value is not None)


def open_to_append(path):
    """Whatever cut off the last line of it: what is written now begins a line."""
    file = open(path, "ab+")
    if file.tell() > 0:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
    file.close()
    return open(path, "a")
