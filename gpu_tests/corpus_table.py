# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of corpus/cases that move rows as a table in C.

    corpus_table.py FOLDER OUTPUT.c
"""

import glob
import json
import os
import sys

# As CASE_ENUMERABLE of props/kit, and more ranks than a simulation on one device is asked to play.
MOST_TOKENS, MOST_RANKS = 1 << 16, 64


def layouts(case):
    for op in case.get("ops", []):
        if op["op"] == "layouts":
            return op.get("src", "zigzag"), op.get("dst", "contiguous")
    return "zigzag", "contiguous"


def moves_rows(case):
    """Legal as a plain route, and small."""
    ops = {op["op"] for op in case.get("ops", [])}
    cu = case["cu_seqlens"]
    return (case["expect"] == "ok" and not ops & {"big", "plan", "pad", "padded"} and all(isinstance(entry, int) for entry in cu)
            and 1 <= case["cp_size"] <= MOST_RANKS and cu and cu[-1] <= MOST_TOKENS and legal(cu, case["cp_size"], layouts(case)))


def legal(cu, ranks, pair):
    if cu[0] != 0 or any(after < before for before, after in zip(cu, cu[1:])):
        return False
    if ranks == 1:
        return True
    chunked = any(name != "contiguous" for name in pair)
    lengths = [after - before for before, after in zip(cu, cu[1:])] + [cu[-1]]
    return cu[-1] % ranks == 0 and not (chunked and any(length % (2 * ranks) for length in lengths))


def main():
    folder, output = sys.argv[1:]
    names = sorted(glob.glob(os.path.join(folder, "*.jsonl")))
    cases = []
    for name in names:
        if name.endswith(".expected.jsonl"):
            continue
        with open(name) as file:
            cases += [case for case in map(json.loads, filter(str.strip, file)) if moves_rows(case)]
    lines = ['#include "corpus_table.h"', ""]
    for number, case in enumerate(cases):
        lines.append(f"static const int64_t cu_{number}[] = {{{', '.join(map(str, case['cu_seqlens']))}}};")
    lines += ["", "const corpus_row corpus_rows[] = {"]
    for number, case in enumerate(cases):
        source, target = layouts(case)
        lines.append(f"    {{{json.dumps(case['id'])}, cu_{number}, {len(case['cu_seqlens'])}, {case['cp_size']}, "
                     f"{json.dumps(source)}, {json.dumps(target)}}},")
    lines += ["};", f"const int64_t corpus_row_count = {len(cases)};", ""]
    with open(output, "w") as file:
        file.write("\n".join(lines))


if __name__ == "__main__":
    main()
