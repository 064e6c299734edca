#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small implementation to hold to `cproute conform -- python3 tools/adapters/example.py`, and a pattern for real ones."""
import json
import sys

LAYOUTS = ["zigzag", "contiguous"]
HELLO = {"hello": "example.py", "ops": ["route", "layout"], "layouts": LAYOUTS, "errors": "kind"}


def refusal(cu, cp_size, rank, layouts):
    """The kind of the first rule that is broken, or None."""
    pairs = list(zip(cu, cu[1:]))
    rules = [
        ("bad_cp_size", lambda: cp_size < 1),
        ("bad_rank", lambda: not 0 <= rank < cp_size),
        ("bad_layout", lambda: not set(layouts) <= set(LAYOUTS)),
        ("empty_cu_seqlens", lambda: not cu),
        ("nonzero_start", lambda: cu[0] != 0),
        ("decreasing", lambda: any(end < begin for begin, end in pairs)),
        ("not_divisible_2cp", lambda: cp_size > 1 and "zigzag" in layouts and any((end - begin) % (2 * cp_size) for begin, end in pairs)),
        ("not_divisible_cp", lambda: cu[-1] % cp_size),
    ]
    return next((kind for kind, broken in rules if broken()), None)


def tokens_of(cu, cp_size, rank, layout):
    """The tokens that a rank holds, in the order of its rows."""
    if layout == "contiguous" or cp_size == 1:
        share = cu[-1] // cp_size
        return list(range(rank * share, (rank + 1) * share))
    tokens = []
    for begin, end in zip(cu, cu[1:]):
        chunk = (end - begin) // (2 * cp_size)
        for number in (rank, 2 * cp_size - 1 - rank):
            tokens += range(begin + number * chunk, begin + (number + 1) * chunk)
    return tokens


def route(cu, cp_size, rank, source, target):
    held = {token: row for row, token in enumerate(tokens_of(cu, cp_size, rank, source))}
    wanted = {token: row for row, token in enumerate(tokens_of(cu, cp_size, rank, target))}
    sends = [[held[t] for t in tokens_of(cu, cp_size, peer, target) if t in held] for peer in range(cp_size)]
    receives = [sorted(wanted[t] for t in tokens_of(cu, cp_size, peer, source) if t in wanted) for peer in range(cp_size)]
    return {"rank": rank, "status": "ok", "source_rows": len(held), "target_rows": len(wanted),
            "send_rows": sum(sends, []), "recv_rows": sum(receives, []),
            "input_splits": [len(rows) for rows in sends], "output_splits": [len(rows) for rows in receives]}


def answer(request):
    cu, cp_size, rank = request["cu_seqlens"], request["cp_size"], request["rank"]
    layouts = [request[field] for field in ("layout", "from", "to") if field in request]
    kind = refusal(cu, cp_size, rank, layouts)
    if kind:
        return {"rank": rank, "status": "error", "error": kind}
    if request["op"] == "layout":
        return {"rank": rank, "tokens": tokens_of(cu, cp_size, rank, layouts[0])}
    return route(cu, cp_size, rank, *layouts)


if __name__ == "__main__":
    print(json.dumps(HELLO), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
