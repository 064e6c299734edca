#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cproute command from outside: command lines, what they print and how they end.

Usage: test_command.py CPROUTE
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

COMMAND = os.path.abspath(sys.argv[1])
GOOD, REFUSED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
SUBCOMMANDS = ("route", "layout", "replay", "check", "explain", "shrink", "seeds", "conform", "serve")


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def cproute(*arguments, stdin="", **options):
    done = subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, text=True, timeout=60, **options)
    return Result(done.returncode, done.stdout, done.stderr)


# --------------------------------------------------------------------------------------------------------------
# Command lines as a table: arguments, exit status, standard output (None: any; a list: its lines as JSON objects;
# a pattern: must occur), what standard error must contain ("" : it must be empty), standard input.
# --------------------------------------------------------------------------------------------------------------

def ok(rank, send, recv, inputs, outputs, rows):
    return {"rank": rank, "status": "ok", "source_rows": rows, "target_rows": rows, "send_rows": send,
            "recv_rows": recv, "input_splits": inputs, "output_splits": outputs}


def shape(rank, **answers):
    return {"rank": rank, "status": "ok", **answers}


def refusal(rank, kind, index, got, want):
    return {"rank": rank, "status": "error", "error": kind, "index": index, "got": got, "want": want}


def both(kind, index, got, want):
    return [refusal(0, kind, index, got, want), refusal(1, kind, index, got, want)]


GOLDEN = [ok(0, None, [0, 3, 4, 5, 6, 1, 2, 7], [5, 3], [5, 3], 8),
          ok(1, None, [5, 6, 7, 0, 1, 2, 3, 4], [3, 5], [3, 5], 8)]
BACK = [ok(0, [0, 3, 4, 5, 6, 1, 2, 7], None, [5, 3], [5, 3], 8),
        ok(1, [5, 6, 7, 0, 1, 2, 3, 4], None, [3, 5], [3, 5], 8)]
FLAT_TENSOR = [ok(1, None, [0, 7, 1, 2, 3, 4, 5, 6], [3, 0, 3, 2], [0, 0, 2, 6], 8)]
INT64_MAX = 2**63 - 1
PACK = ("--cu", "0,4,16", "--cp", "2")
LAYOUTS = "zigzag, contiguous, per_sequence_contiguous, flat_zigzag, heads_then_tails"
EIGHT = ("--cu", "0,8", "--cp", "2")

TABLE = [
    # route
    (("route", *PACK, "--json"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--rank", "all"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--rank", "1"), GOOD, GOLDEN[1:], "", ""),
    (("route", *PACK, "--json", "--builder", "per-token"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--builder", "definition"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--builder", "interval"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--dtype", "int32"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--rows", "16", "--tp", "4"), GOOD, GOLDEN, "", ""),
    (("route", *PACK, "--json", "--from", "contiguous", "--to", "zigzag"), GOOD, BACK, "", ""),
    (("route", "--cu", "0,24,32", "--cp", "4", "--rank", "1", "--json"), GOOD, FLAT_TENSOR, "", ""),
    (("route", "--cu=0,4,16", "--cp=2", "--json"), GOOD, GOLDEN, "", ""),
    (("route", "--cu", " [0, 4,\n16] ", "--cp", "2", "--json"), GOOD, GOLDEN, "", ""),
    (("route", "--cu", "0 4\t16", "--cp", "2", "--json"), GOOD, GOLDEN, "", ""),
    (("route", "--cu", "-", "--cp", "2", "--json"), GOOD, GOLDEN, "", "0\n4\n16\n"),
    (("route", "--cu", "9,9", "--cu", "0,4,16", "--cp", "2", "--json"), GOOD, GOLDEN, "", ""),
    (("route", "--cu", "0", "--cp", "1", "--json"), GOOD, [ok(0, None, None, [0], [0], 0)], "", ""),
    (("route", *PACK, "--json", "--runs", "--rank", "0"), GOOD, re.compile(r'"recv_runs":\[\[0,0,0,1\],\[0,1,3,4\]'),
     "", ""),
    (("route", *PACK), GOOD, re.compile("rank 1 of 2"), "", ""),
    (("route", "--cu", f"0,{2**62}", "--cp", str(2**30), "--rank", "5"), GOOD, re.compile("rank 5 of 1073741824"), "",
     ""),
    # route: other shapes, under the names that corpus/cases/shapes.jsonl has for them
    (("route", "--cu", "0,24,32", "--cp", "4", "--rank", "1", "--shape", "flat"), GOOD,
     [shape(1, flat=[4, 1, 8, 8, 0, 8, 3, 0, 3, 2, 0, 0, 2, 6, 0, 7, 1, 2, 3, 4, 5, 6])], "", ""),
    (("route", "--cu", "0,8,12,16", "--cp", "2", "--rank", "0", "--shape", "two_view"), GOOD,
     [shape(0, zigzag_index=None, zigzag_split_sizes=[4, 4], contiguous_index=[0, 1, 6, 7, 2, 3, 4, 5], contiguous_split_sizes=[4, 4])], "", ""),
    (("route", *PACK, "--shape", "fused", "--tp", "2", "--order", "3,1,0,2", "--rank", "0"), GOOD,
     [shape(0, fused_send_rows=[2, 3, 0, 1], fused_recv_rows=[1, 2, 0, 3], fused_input_splits=[0, 2, 0, 2],
            fused_output_splits=[2, 0, 0, 2])], "", ""),
    (("route", "--cu", "0,16", "--cp", "2", "--shape", "chunks", "--tp", "2", "--json"), GOOD,
     [shape(0, chunk_send=[0, 0], chunk_recv=[0, 0]), shape(1, chunk_send=[3, 0], chunk_recv=[2, 0]),
      shape(2, chunk_send=[1, 0], chunk_recv=[3, 0]), shape(3, chunk_send=[2, 0], chunk_recv=[1, 0])], "", ""),
    (("route", "--cu", "0,2,8", "--cp", "2", "--rank", "0", "--shape", "pad"), GOOD,
     [shape(0, padded_cu=[0, 4, 12], pad_contiguous_splits=[3, 1], pad_zigzag_splits=[3, 0], pad_contiguous_rows=[0, 2, 3, 1],
            pad_zigzag_rows=[0, 2, 3], pad_contiguous_gather=[0, 3, 1, 2], pad_zigzag_gather=[0, -1, 1, 2, -1, -1])], "", ""),
    (("route", "--cu", "0,4,12", "--cp", "2", "--rank", "0", "--shape", "real", "--real", "0,3,8"), GOOD,
     [shape(0, real_rows_per_rank=3, real_tokens=[0, -1, 3, 4, -1, -1], successor=[1, -1, 5, 6, -1, -1], local_offsets=[0, 2, 6])], "", ""),
    (("route", *PACK, "--shape", "digest"), GOOD, re.compile(r'"rank":1,"status":"ok","digest":"[0-9a-f]{16}"'), "", ""),
    (("route", *PACK, "--shape", "pad", "--dtype", "int64"), REFUSED, both("dtype", -1, 1, 0), "", ""),
    (("route", *PACK, "--shape", "real", "--real", "0,9"), REFUSED, both("total_mismatch", 0, 9, 4), "", ""),
    (("route", "--cu", "0,8", "--cp", "0", "--shape", "real"), REFUSED, [refusal(0, "bad_cp_size", -1, 0, 1)], "", ""),
    (("route", *PACK, "--shape", "fused", "--order", "1,0,2"), REFUSED, both("total_mismatch", -1, 3, 2), "", ""),
    (("route", "--cu", f"0,{2**62}", "--cp", "2", "--shape", "real", "--rank", "0"), REFUSED,
     [refusal(0, "overflow", -1, 2**61, 2**24)], "", ""),
    (("route", *PACK, "--shape", "round"), WRONG_USE, "", "flat, two_view, fused, chunks, pad, real, digest", ""),
    (("route", *PACK, "--shape", "flat", "--order", "0,1"), WRONG_USE, "", "--order goes with", ""),
    (("route", *PACK, "--shape", "flat", "--real", "0,1"), WRONG_USE, "", "--real goes with", ""),
    (("route", *PACK, "--real", "0,1"), WRONG_USE, "", "go with --shape", ""),
    (("route", *PACK, "--shape", "real", "--real", "0,1.5"), WRONG_USE, "", "whole numbers", ""),
    (("route", *PACK, "--shape", "flat", "--runs"), WRONG_USE, "", "do not go with --shape", ""),
    # route: refused, with the first rule that fails
    (("route", "--cu", "0,4,14", "--cp", "2", "--json"), REFUSED, both("not_divisible_2cp", 1, 10, 4), "", ""),
    (("route", "--cu", "0,4,14", "--cp", "2"), REFUSED, "", "not_divisible_2cp", ""),
    (("route", "--cu", "", "--cp", "2", "--json"), REFUSED, both("empty_cu_seqlens", -1, 0, 1), "", ""),
    (("route", "--cu", "[]", "--cp", "2", "--json"), REFUSED, both("empty_cu_seqlens", -1, 0, 1), "", ""),
    (("route", "--cu", "4,8", "--cp", "2", "--json"), REFUSED, both("nonzero_start", 0, 4, 0), "", ""),
    (("route", "--cu", "0,8,4", "--cp", "2", "--json"), REFUSED, both("decreasing", 2, 4, 8), "", ""),
    (("route", "--cu", "0,-4", "--cp", "2", "--json"), REFUSED, both("decreasing", 1, -4, 0), "", ""),
    (("route", *EIGHT, "--rows", "9", "--json"), REFUSED, both("total_mismatch", -1, 9, 8), "", ""),
    (("route", *EIGHT, "--rows", "-1", "--json"), REFUSED, both("total_mismatch", -1, -1, 8), "", ""),
    (("route", *EIGHT, "--tp", "3", "--json"), REFUSED, both("not_divisible_cp_tp", -1, 4, 3), "", ""),
    (("route", "--cu", "0,5", "--cp", "2", "--from", "contiguous", "--json"), REFUSED,
     both("not_divisible_cp", -1, 5, 2), "", ""),
    (("route", "--cu", "0,8", "--cp", "0", "--json"), REFUSED, [refusal(0, "bad_cp_size", -1, 0, 1)], "", ""),
    (("route", "--cu", "0,8", "--cp", "-3", "--rank", "7", "--json"), REFUSED,
     [refusal(7, "bad_cp_size", -1, -3, 1)], "", ""),
    (("route", "--cu", "0,8", "--cp", str(2**30 + 1), "--json"), REFUSED,
     [refusal(0, "bad_cp_size", -1, 2**30 + 1, 2**30)], "", ""),
    (("route", *EIGHT, "--rank", "2", "--json"), REFUSED, [refusal(2, "bad_rank", -1, 2, 2)], "", ""),
    (("route", *EIGHT, "--rank", "-1", "--json"), REFUSED, [refusal(-1, "bad_rank", -1, -1, 2)], "", ""),
    (("route", *EIGHT, "--from", "zagzig", "--json"), REFUSED, both("bad_layout", 0, 5, 5), "", ""),
    (("route", *EIGHT, "--to", "#7", "--json"), REFUSED, both("bad_layout", 1, 7, 5), "", ""),
    (("route", *EIGHT, "--dtype", "float32", "--json"), REFUSED, both("dtype", -1, 4, 1), "", ""),
    (("route", *EIGHT, "--dtype", "uint8", "--json"), REFUSED, both("dtype", -1, 6, 1), "", ""),
    (("route", "--cu", "0,4.0,8.5", "--cp", "2", "--json"), REFUSED, both("dtype", -1, 5, 1), "", ""),
    (("route", "--cu", "0,8e0", "--cp", "2", "--json"), REFUSED, both("dtype", -1, 5, 1), "", ""),
    (("route", "--cu", f"0,{2**63}", "--cp", "2", "--json"), REFUSED, both("overflow", 1, INT64_MAX, INT64_MAX), "", ""),
    (("route", "--cu", f"0,4,{2**31}", "--cp", "2", "--dtype", "int32", "--json"), REFUSED,
     both("overflow", 2, 2**31, 2**31 - 1), "", ""),
    # a word that nobody knows is told with those that are known
    *((command, REFUSED, "", f"bad_layout: 'zigzagg' is no layout; there are {LAYOUTS}\n", "")
      for command in (("route", *EIGHT, "--from", "zigzagg"), ("route", *EIGHT, "--to", "zigzagg"),
                      ("route", *EIGHT, "--from", "zigzagg", "--to", "gizgaz"), ("layout", *EIGHT, "--layout", "zigzagg"))),
    (("route", *EIGHT, "--to", "#7"), REFUSED, "", "'#7' is no layout", ""),
    (("explain", *EIGHT, "--to", "zigzagg"), GOOD, re.compile("(bad_layout +){2}"), f"'zigzagg' is no layout; there are {LAYOUTS}\n", ""),
    (("route", *EIGHT, "--dtype", "int46"), REFUSED, "", "dtype: 'int46' is no type of boundaries; there are int32, int64\n", ""),
    (("layout", *EIGHT, "--dtype", "float32"), REFUSED, "", "'float32' is no type of boundaries", ""),
    (("route", "--cu", "0,8.5", "--cp", "2", "--dtype", "int32"), REFUSED, "", "dtype: the type of the numbers", ""),
    # route: numbers that do not fit come last
    *(((*command, "--dtype", "int32", "--json"), REFUSED, both(kind, index, got, want), "", "")
      for command, kind, index, got, want in (
          (("route", "--cu", f"4,{2**31}", "--cp", "2"), "nonzero_start", 0, 4, 0),
          (("route", "--cu", f"0,{2**31},8", "--cp", "2"), "decreasing", 2, 8, 2**31),
          (("route", "--cu", f"0,{2**31}", "--cp", "2", "--rows", "8"), "total_mismatch", -1, 8, 2**31),
          (("route", "--cu", f"0,{2**31 + 2}", "--cp", "2"), "not_divisible_2cp", 0, 2**31 + 2, 4),
          (("route", "--cu", f"0,{2**31}", "--cp", "2", "--tp", "3"), "not_divisible_cp_tp", -1, 2**30, 3),
          (("layout", "--cu", f"0,{2**31 + 2}", "--cp", "2"), "not_divisible_2cp", 0, 2**31 + 2, 4),
          (("route", "--cu", f"4,{2**64}", "--cp", "2"), "nonzero_start", 0, 4, 0))),
    (("route", "--cu", f"0,8,4,{2**64}", "--cp", "2", "--json"), REFUSED, both("decreasing", 2, 4, 8), "", ""),
    (("route", "--cu", f"0,{2**63}", "--cp", "2", "--rank", "5", "--json"), REFUSED,
     [refusal(5, "bad_rank", -1, 5, 2)], "", ""),
    (("route", "--cu", f"0,{2**63}", "--cp", "2"), REFUSED, "", "overflow", ""),
    (("route", "--cu", f"0,{2**40}", "--cp", "2", "--builder", "definition", "--json"), REFUSED,
     both("overflow", -1, 2**40, 2**24), "", ""),
    # route: wrong use
    (("route",), WRONG_USE, "", "--cu is missing", ""),
    (("route", "--cu", "0,8"), WRONG_USE, "", "--cp is missing", ""),
    (("route", "--cu", "0,x", "--cp", "2"), WRONG_USE, "", "entry 1, at character 3", ""),
    (("route", "--cu", "0,,8", "--cp", "2"), WRONG_USE, "", "entry 1, at character 3", ""),
    (("route", "--cu", "0,8,", "--cp", "2"), WRONG_USE, "", "must follow a comma", ""),
    (("route", "--cu", "[0,8", "--cp", "2"), WRONG_USE, "", "']' is missing", ""),
    (("route", "--cu", "0,8]", "--cp", "2"), WRONG_USE, "", "no '[' opened", ""),
    (("route", "--cu", "[0,8] 9", "--cp", "2"), WRONG_USE, "", "nothing may follow", ""),
    (("route", "--cu", "0,8-", "--cp", "2"), WRONG_USE, "", "not a number", ""),
    (("route", "--cu", "0,8.", "--cp", "2"), WRONG_USE, "", "not a number", ""),
    (("route", "--cu", "0,nan", "--cp", "2"), WRONG_USE, "", "not a number", ""),
    (("route", "--cu", "-", "--cp", "2"), WRONG_USE, "", "entry 2, at character 5", "0 8 what"),
    (("route", "--cu", "@/does/not/exist", "--cp", "2"), WRONG_USE, "", "cannot open /does/not/exist", ""),
    (("route", "--cu", "@/", "--cp", "2"), WRONG_USE, "", "cannot read /", ""),
    (("route", "--cu", "0,8", "--cp", "two"), WRONG_USE, "", "'two' is not a whole number", ""),
    (("route", "--cu", "0,8", "--cp", "2.0"), WRONG_USE, "", "not a whole number", ""),
    (("route", "--cu", "0,8", "--cp", str(2**63)), WRONG_USE, "", "not a whole number", ""),
    (("route", *EIGHT, "--rank", "first"), WRONG_USE, "", "'first'", ""),
    (("route", *EIGHT, "--tp", "0"), WRONG_USE, "", "at least 1", ""),
    (("route", *EIGHT, "--rows", "x"), WRONG_USE, "", "--rows", ""),
    (("route", *EIGHT, "--builder", "quick"), WRONG_USE, "", "no builder 'quick'", ""),
    (("route", *EIGHT, "--to", "#x"), WRONG_USE, "", "not the number of a layout", ""),
    (("route", *EIGHT, "--runs"), WRONG_USE, "", "--runs goes with --json", ""),
    (("route", *EIGHT, "--what"), WRONG_USE, "", "unknown option '--what'", ""),
    (("route", *EIGHT, "stray"), WRONG_USE, "", "unexpected 'stray'", ""),
    (("route", "--cp"), WRONG_USE, "", "--cp needs a value", ""),
    # layout
    (("layout", *PACK, "--json"), GOOD, [{"rank": 0, "tokens": [0, 3, 4, 5, 6, 13, 14, 15]},
                                         {"rank": 1, "tokens": [1, 2, 7, 8, 9, 10, 11, 12]}], "", ""),
    (("layout", *PACK, "--layout", "contiguous", "--rank", "1", "--json"), GOOD,
     [{"rank": 1, "tokens": list(range(8, 16))}], "", ""),
    (("layout", *PACK, "--layout", "per_sequence_contiguous", "--rank", "0", "--json"), GOOD,
     [{"rank": 0, "tokens": [0, 1, 4, 5, 6, 7, 8, 9]}], "", ""),
    (("layout", *PACK, "--layout", "flat_zigzag", "--rank", "0", "--json"), GOOD,
     [{"rank": 0, "tokens": [0, 1, 2, 3, 12, 13, 14, 15]}], "", ""),
    (("layout", *PACK, "--layout", "heads_then_tails", "--rank", "0", "--json"), GOOD,
     [{"rank": 0, "tokens": [0, 4, 5, 6, 3, 13, 14, 15]}], "", ""),
    (("layout", "--cu", "0", "--cp", "2", "--json"), GOOD, [{"rank": 0, "tokens": []}, {"rank": 1, "tokens": []}], "",
     ""),
    (("layout", *PACK), GOOD, re.compile("."), "", ""),
    (("layout", "--cu", "0", "--cp", "3"), GOOD, re.compile("."), "", ""),
    (("layout", "--cu", "0,6", "--cp", "2", "--json"), REFUSED, both("not_divisible_2cp", 0, 6, 4), "", ""),
    (("layout", "--cu", "0,6", "--cp", "2"), REFUSED, "", "not_divisible_2cp", ""),
    (("layout", *EIGHT, "--layout", "zagzig", "--json"), REFUSED, both("bad_layout", 0, 5, 5), "", ""),
    (("layout", *EIGHT, "--rank", "9", "--json"), REFUSED, [refusal(9, "bad_rank", -1, 9, 2)], "", ""),
    (("layout", *EIGHT, "--rank", "9"), REFUSED, "", "bad_rank", ""),
    (("layout", "--cu", f"0,{2**63}", "--cp", "2", "--json"), REFUSED, both("overflow", 1, INT64_MAX, INT64_MAX), "",
     ""),
    (("layout", "--cp", "2"), WRONG_USE, "", "--cu is missing", ""),
    (("layout", *EIGHT, "--from", "zigzag"), WRONG_USE, "", "unknown option '--from'", ""),
    # explain
    (("explain", *PACK, "--rank", "0"), GOOD, re.compile("interval +per-token +definition"), "", ""),
    (("explain", "--cu", "0,6", "--cp", "2", "--rank", "0"), GOOD, re.compile("(not_divisible_2cp +){2}"), "", ""),
    (("explain", "--cu", f"0,{2**40}", "--cp", "2", "--rank", "0"), GOOD, re.compile("too many tokens to list"), "", ""),
    (("explain",), WRONG_USE, "", "a case is missing: FILE, or --cu and --cp", ""),
    (("explain", "--cp", "2"), WRONG_USE, "", "--cu is missing", ""),
    (("explain", "a.jsonl", "--cu", "0"), WRONG_USE, "", "not both", ""),
    (("explain", "/does/not/exist.jsonl"), WRONG_USE, "", "No such file", ""),
    (("explain", "--law", "no_such_law", "x"), WRONG_USE, "", "no law 'no_such_law'", ""),
    (("explain", "a", "b"), WRONG_USE, "", "one case", ""),
    # check
    (("check", "--list"), GOOD, re.compile(r"(?m)^equivalence +the three builders"), "", ""),
    (("check", "--law", "equivalence", "--cases", "50", "--seed", "7"), GOOD, re.compile("1 laws, 50 cases, 0 laws broken, seed 7"),
     "seed 7", ""),
    (("check", "--law", "splits,mirror,splits", "--cases", "50", "--seed", "7"), GOOD,
     re.compile("2 laws, 100 cases, 0 laws broken, seed 7"), "mirror", ""),
    (("check", "--law", "splits,no_such_law"), WRONG_USE, "", "no law 'no_such_law'", ""),
    (("check", "--law", "splits,"), WRONG_USE, "", "no law ''", ""),
    *(((name, "--help"), GOOD, re.compile(r"--out DIR .*\(findings\)"), "", "") for name in ("check", "shrink")),
    (("check", "--law", "no_such_law"), WRONG_USE, "", "no law 'no_such_law'", ""),
    (("check", "--cases", "0"), WRONG_USE, "", "above 0", ""),
    (("check", "--seconds", "soon"), WRONG_USE, "", "'soon'", ""),
    (("check", "--seconds", "nan"), WRONG_USE, "", "'nan'", ""),
    (("check", "--seed", "-1"), WRONG_USE, "", "'-1'", ""),
    (("check", "--cases", "1", "--seconds", "1"), WRONG_USE, "", "not both", ""),
    (("check", "--exhaustive", "--seed", "1"), WRONG_USE, "", "--exhaustive draws nothing", ""),
    (("check", "stray"), WRONG_USE, "", "unexpected 'stray'", ""),
    # replay, shrink, seeds: wrong use
    (("replay",), WRONG_USE, "", "is missing", ""),
    (("replay", "/does/not/exist"), WRONG_USE, "0 passed, 0 failed, 0 skipped\n", "No such file", ""),
    (("replay", "--law", "no_such_law", "/"), WRONG_USE, "", "no law", ""),
    (("shrink", "x"), WRONG_USE, "", "--law is missing", ""),
    (("shrink", "--law", "equivalence"), WRONG_USE, "", "one file", ""),
    (("shrink", "--law", "no_such_law", "x"), WRONG_USE, "", "no law", ""),
    (("shrink", "--law", "equivalence", "/does/not/exist"), WRONG_USE, "", "cannot open", ""),
    (("seeds", "x"), WRONG_USE, "", "--out is missing", ""),
    (("seeds", "--out", "x"), WRONG_USE, "", "is missing", ""),
    # the command itself
    ((), WRONG_USE, "", "Usage: cproute", ""),
    (("what",), WRONG_USE, "", "no subcommand 'what'", ""),
    (("--help",), GOOD, re.compile("Usage: cproute SUBCOMMAND"), "", ""),
    (("--version",), GOOD, re.compile(r"^cproute \d+\.\d+\.\d+\n$"), "", ""),
    *(((name, "--help"), GOOD, re.compile(f"Usage: cproute {name} "), "", "") for name in SUBCOMMANDS),
]


def check_table_row(row):
    arguments, code, out, err, stdin = row
    result = cproute(*arguments, stdin=stdin)
    assert result.code == code, f"ended with {result.code}, not {code}\n{result.out}{result.err}"
    if isinstance(out, list):
        lines = [json.loads(line) for line in result.out.splitlines()]
        assert lines == out, f"printed {result.out}"
    elif isinstance(out, re.Pattern):
        assert out.search(result.out), f"printed {result.out}"
    elif out is not None:
        assert result.out == out, f"printed {result.out}"
    assert err in result.err if err else not result.err, f"told {result.err}"


# --------------------------------------------------------------------------------------------------------------
# What needs files, pipes or signals
# --------------------------------------------------------------------------------------------------------------

def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb" if isinstance(text, bytes) else "w") as file:
        file.write(text)
    return path


def case(**fields):
    return json.dumps({"id": "x", "cu_seqlens": [0, 4, 16], "cp_size": 2, "expect": "ok", **fields}) + "\n"


def test_boundaries_from_a_file(folder):
    path = write(folder, "cu", "[0,\n 4,\n 16]\n")
    assert [json.loads(line) for line in cproute("route", "--cu", "@" + path, "--cp", "2", "--json").out.splitlines()] == GOLDEN


def test_many_boundaries(folder):
    path = write(folder, "cu", ",".join(str(4 * i) for i in range(200001)))
    result = cproute("route", "--cu", "@" + path, "--cp", "2", "--rank", "1", "--json")
    assert result.code == GOOD and json.loads(result.out)["input_splits"] == [200000, 200000]


def test_full_disk(folder):
    for arguments in (("route", *PACK), ("route", *PACK, "--json"), ("layout", *PACK, "--json"), ("layout", *PACK),
                      ("--help",), ("route", "--help"), ("--version",), ("check", "--list"), ("explain", *PACK)):
        with open("/dev/full", "w") as full:
            done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode not in (0, -signal.SIGPIPE) and "cannot write" in done.stderr, arguments


def test_closed_pipe(folder):
    with subprocess.Popen([COMMAND, "layout", "--cu", f"0,{2**62}", "--cp", "2", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=20) == 1
        assert b"cannot write" in process.stderr.read()


def test_large_groups_are_not_listed(folder):
    start = time.monotonic()
    for arguments in (("route", "--cu", f"0,{2**62}", "--cp", str(2**30), "--rank", "5"),
                      ("layout", "--cu", f"0,{2**62}", "--cp", "4"), ("layout", "--cu", f"0,{2**62}", "--cp", str(2**30))):
        assert cproute(*arguments).code == GOOD, arguments
    many = write(folder, "cu", ",".join(str(2**31 * i) for i in range(4200)))
    for arguments in (("route", "--cu", f"0,{2**62}"), ("route", "--cu", "0"), ("explain", "--cu", f"0,{2**62}"),
                      ("explain", "--cu", "0"), ("layout", "--cu", "@" + many)):
        result = cproute(*arguments, "--cp", str(2**30))
        assert result.code == GOOD and "cproute: ranks 0 to 255 of 1073741824; --rank R shows any other\n" == result.err, arguments
    result = cproute("route", "--cu", "0", "--cp", "257", "--json")
    assert len(result.out.splitlines()) == 257 and not result.err
    assert not cproute("route", "--cu", "0", "--cp", "256").err
    assert cproute("explain", "--cu", "0,3", "--cp", str(2**30)).out.count("rank ") == 256
    assert time.monotonic() - start < 10


def replay_of(folder, name, text, *options):
    return cproute("replay", *options, write(folder, name, text))


def test_replay_counts(folder):
    result = replay_of(folder, "a.jsonl", case(id="good") + "\n" + case(id="bad", expect="error:decreasing") +
                       case(id="cached", ops=[{"op": "cap", "n": 1}, {"op": "new", "t": "A", "data": [0, 8]},
                                               {"op": "get", "t": "A", "cp": 2, "rank": 0, "want": "miss"}]))
    assert result.code == REFUSED
    assert result.out.splitlines()[-1] == "2 passed, 1 failed, 0 skipped"
    assert re.search(r"(?m)a\.jsonl:3 bad: ", result.out)
    assert len(result.out.splitlines()) == 2
    verbose = cproute("replay", "--verbose", os.path.join(folder, "a.jsonl")).out
    assert "good: passed" in verbose and "cached: passed" in verbose


CACHED = [{"op": "new", "t": "A", "data": [0, 8]}, {"op": "get", "t": "A", "cp": 2, "rank": 0, "want": "miss"}]


def test_replay_by_one_law(folder):
    text = case(id="route") + case(id="cached", ops=CACHED)
    for law, verdicts in (("splits", ("route: passed", "cached: skipped: the law is not about caches")),
                          ("cache_bounded", ("route: skipped: the law is about caches", "cached: passed"))):
        out = replay_of(folder, "a.jsonl", text, "--law", law, "--verbose").out
        assert out.endswith("1 passed, 0 failed, 1 skipped\n") and all(verdict in out for verdict in verdicts), out
    result = replay_of(folder, "a.jsonl", case(expect="error:decreasing"), "--law", "splits")
    assert result.code == REFUSED and "not the outcome that is expected" in result.out, result.out


def test_replay_of_chosen_cases(folder):
    path = write(folder, "a b.jsonl", case(id="one") + case(id="two:2", expect="error:decreasing") + "nonsense\n")
    for chosen, counts in ((path + ":one", "1 passed, 0 failed"), (path + ":1", "1 passed, 0 failed"),
                           (path + ":two:2", "0 passed, 1 failed"), (path + ":2", "0 passed, 1 failed"),
                           (path + ":3", "0 passed, 1 failed"), (path, "1 passed, 2 failed")):
        result = cproute("replay", chosen)
        assert result.out.endswith(counts + ", 0 skipped\n"), (chosen, result.out)
    for chosen in (path + ":4", path + ":three", path + ":"):
        result = cproute("replay", path + ":one", chosen)
        assert result.code == WRONG_USE and "has no case" in result.err, (chosen, result.err)
    assert cproute("explain", path + ":two:2").code == GOOD
    assert "No such file" in cproute("replay", path + "x:1").err


def test_replay_mistakes(folder):
    mistakes = {
        "nonsense": "not JSON", '{"id": "x", "id": "x"}': "duplicate", "[]": "without an id",
        case(whatever=1): "whatever", case(ops=[{"op": "dance"}]): "no operation 'dance'",
        case(ops=[{"op": "rows"}]): "not found: n", case(ops=[{"op": "rows", "n": "4"}]): "integer",
        case(ops=[{"op": "rows", "n": 4, "m": 4}]): "m", case(ops={}): "a list is wanted",
        case(ops=[{"op": "real", "cu": "0"}]): "list of numbers", case(cu_seqlens=[0, None]): "entry 1 is not a number",
        case(cu_seqlens=[0, 2**63]): "too big integer", case(cp_size="2"): "integer", case(cp_size=2.5): "integer",
        case(rank="0"): "rank", case(expect="good"): "neither ok nor error:KIND",
        case(expect="error:ok"): "neither ok nor error:KIND", case(expected=[]): "object is wanted",
        case(ops=[{"op": "shard", "layout": "zigzag"}]): "go together",
        case(ops=[{"op": "splits", "rank": 2, "send": []}]): "no rank 2",
        case(ops=[{"op": "count_bits", "n": 7}]): "8 to 64",
        case(ops=[{"op": "stride", "n": 65}]): "-64 to 64",
        case(id=""): "a line of text", case(id="a\nb"): "a line of text", case(id="\x1b[2J"): "a line of text",
        case(ops=[{"op": "rows", "n": 16}, {"op": "rows", "n": 8}]): "rows twice",
        case(ops=[{"op": "splits", "rank": 0, "send": [5, 3]}] * 2): "splits of rank 0 twice",
    }
    for line, reason in mistakes.items():
        result = replay_of(folder, "mistake.jsonl", line)
        assert result.code == REFUSED and result.out.endswith("0 passed, 1 failed, 0 skipped\n"), (line, result.out)
        assert "mistake.jsonl:1 " in result.out and reason in result.out, (line, result.out)


def test_replay_answers(folder):
    wrong = {
        "zigzag": [[0, 3, 4, 5, 6, 13, 14, 15], [1, 2, 7, 8, 9, 10, 12, 11]],
        "contiguous": [[0, 1, 2, 3, 4, 5, 6, 7]], "z2c_send_splits": [[5, 3], [5, 3]],
        "c2z_send_order": [[0, 3, 4, 5, 6, 1, 2, 7], [5, 6, 7, 0, 1, 2, 3]], "input_splits": {"1": [5, 3]},
        "send_rows": {"one": []}, "recv_rows": [[0, "1"], []], "identity": [[1, 0], [1, 1]],
        "send_runs": {"0": [[0, 0, 0, 8]]}, "real_rows_per_rank": [8, 7], "successor": {"0": [1]},
        "local_offsets": [[0, 2, 8], [0, 2, 7]], "fortune": [], "flat_zigzag": 1, "output_splits": None,
        "error": {"index": 0, "got": 0, "want": 0},
    }
    for name, answer in wrong.items():
        result = replay_of(folder, "answers.jsonl", case(expected={name: answer}))
        assert result.code == REFUSED and name in result.out, (name, result.out)
    result = replay_of(folder, "answers.jsonl", case(expect="error:not_divisible_2cp", cu_seqlens=[0, 6], expected={
        "error": {"index": 0, "got": 6, "want": 2}}))
    assert result.code == REFUSED and "other details" in result.out, result.out
    for details in (5, {}, {"index": 0, "got": 6}, {"index": 0, "got": 6, "want": 4, "wants": 4}, {"index": 0, "got": "6", "want": 4}):
        result = replay_of(folder, "answers.jsonl", case(expect="error:not_divisible_2cp", cu_seqlens=[0, 6],
                                                         expected={"error": details}))
        assert result.code == REFUSED and "an answer about the error" in result.out, (details, result.out)


def test_replay_does_not_list_what_is_huge(folder):
    for answer in ({"zigzag": {"0": [0]}}, {"successor": [[], []]}, {"send_rows": {"1": []}}, {"local_offsets": {"0": []}}):
        result = replay_of(folder, "huge.jsonl", case(cu_seqlens=[0, 2**40], expected=answer))
        assert result.code == REFUSED and "too large for this answer" in result.out, (answer, result.out)
    result = replay_of(folder, "huge.jsonl", case(cu_seqlens=[0, 2**40], cp_size=2**30, rank=0, expected={
        "input_splits": {"0": []}}))
    assert result.code == REFUSED and "too large for this answer" in result.out, result.out
    runs = {"send_runs": {"0": [[0, 0, 0, 2**38], [1, 2**38, 2**38, 2**38]]}}
    assert replay_of(folder, "huge.jsonl", case(cu_seqlens=[0, 2**40], expected=runs)).code == GOOD


def child_of(process):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == process.pid:
                    return int(pid)
        except OSError:
            pass
    return None


def test_replay_goes_on_behind_what_kills_it(folder):
    slow = case(id="slow", cu_seqlens=[0, 2**62], cp_size=2**30, rank=0, ops=[{"op": "row_width", "n": 1}, {"op": "big"}])
    path = write(folder, "kills.jsonl", case(id="before") + slow + case(id="after", expect="error:decreasing"))
    with subprocess.Popen([COMMAND, "replay", "--verbose", path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().endswith("before: passed\n")
        time.sleep(0.5)
        os.kill(child_of(process), signal.SIGKILL)
        rest = process.stdout.read().splitlines()
        assert process.wait(timeout=20) == REFUSED
    assert rest[0].endswith("kills.jsonl:2 slow: crash: signal 9 (killed)"), rest
    assert "kills.jsonl:3 after: " in rest[1] and rest[2:] == ["1 passed, 2 failed, 0 skipped"], rest


def test_replay_ends_though_a_file_before_what_kills_it_cannot_be_read(folder):
    write(folder, "a.jsonl", case())
    write(folder, "a.expected.jsonl", "no json\n")
    write(folder, "kills.jsonl", case(id="slow", cu_seqlens=[0, 2**62], cp_size=2**30, rank=0, ops=[{"op": "row_width", "n": 1}, {"op": "big"}]))
    with subprocess.Popen([COMMAND, "replay", folder], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(0.5)
        os.kill(child_of(process), signal.SIGKILL)
        try:
            out, _ = process.communicate(timeout=20)
        finally:
            process.kill()
        assert process.returncode == REFUSED
    assert out.splitlines()[1:] == ["0 passed, 2 failed, 0 skipped"], out


def test_replay_of_one_id_twice(folder):
    result = replay_of(folder, "twice.jsonl", case() + case())
    assert result.out.endswith("1 passed, 1 failed, 0 skipped\n") and "same id" in result.out, result.out


def test_replay_of_a_folder_that_cannot_all_be_read(folder):
    write(folder, "good.jsonl", case())
    os.symlink("nowhere", os.path.join(folder, "dangling.jsonl"))
    os.symlink(".", os.path.join(folder, "circle"))
    os.mkfifo(os.path.join(folder, "pipe"))
    result = cproute("replay", folder)
    assert result.code == REFUSED and "dangling.jsonl: No such file" in result.out, result.out
    assert result.out.endswith("1 passed, 1 failed, 0 skipped\n"), result.out


def test_replay_answers_beside(folder):
    write(folder, "b.expected.jsonl", '{"id": "x", "z2c_send_splits": [[5, 3], [3, 5]]}\n')
    assert replay_of(folder, "b.jsonl", case()).out == "1 passed, 0 failed, 0 skipped\n"
    assert cproute("replay", folder).out == "1 passed, 0 failed, 0 skipped\n"
    write(folder, "b.expected.jsonl", '{"id": "x", "z2c_send_splits": [[3, 5], [5, 3]]}\n')
    assert replay_of(folder, "b.jsonl", case()).code == REFUSED
    for broken in ("{", "{}", '{"id": "x"}\n{"id": "x"}'):
        write(folder, "b.expected.jsonl", broken)
        assert replay_of(folder, "b.jsonl", case()).code == REFUSED, broken


def test_replay_operations(folder):
    shard = [{"op": "shard", "layout": "zigzag"}, {"op": "unshard", "layout": "zigzag"}]
    wrongs = [
        dict(ops=[{"op": "kv", "cu": [0, 12, 16]}]), dict(ops=[{"op": "splits", "rank": 0, "send": [3, 5]}]),
        dict(ops=[{"op": "rank_cu", "rank": 1, "cu": [0, 12, 16]}, {"op": "a2av"}]),
        dict(ops=[shard[0], {"op": "unshard", "layout": "contiguous"}]), dict(ops=[{"op": "rows", "n": 20}]),
        dict(ops=[{"op": "row_width", "n": 2**40}, {"op": "count_bits", "n": 32}]), dict(ops=[{"op": "tp", "n": 3}]),
        dict(ops=[{"op": "real", "cu": [0, 5, 8]}]), dict(ops=[{"op": "real", "cu": [1, 5]}]),
        dict(ops=[{"op": "dtype", "v": "float32"}]), dict(ops=[{"op": "device", "v": "cuda:0"}]),
        dict(cu_seqlens=[0, 4.0, 16]), dict(ops=shard, expect="error:layout_mismatch"), dict(rank=2),
    ]
    for fields in wrongs:
        result = replay_of(folder, "wrong.jsonl", case(**fields))
        assert result.out.endswith("0 passed, 1 failed, 0 skipped\n"), (fields, result.out)
    rights = [
        dict(ops=[{"op": "kv", "cu": [0, 4, 16]}]), dict(ops=[{"op": "splits", "rank": 0, "send": [5, 3]}]),
        dict(ops=shard), dict(ops=[{"op": "rows", "n": 20}, {"op": "slack", "fill": -1}]), dict(law="equivalence"),
        dict(ops=[{"op": "real", "cu": [0, 3, 9]}, {"op": "successor"}]), dict(ops=[{"op": "a2av"}]), dict(rank=1),
        dict(ops=[{"op": "stride", "n": -3}, {"op": "salt", "n": 9}]), dict(cp_size=2**30, rank=5, cu_seqlens=[0, 2**31], ops=[{"op": "big"}]),
        dict(ops=[{"op": "layouts", "src": "zigzag", "dst": "#7"}], expect="error:bad_layout"),
    ]
    for fields in rights:
        result = replay_of(folder, "right.jsonl", case(**fields))
        assert result.out == "1 passed, 0 failed, 0 skipped\n", (fields, result.out)


def test_replay_finds_nothing(folder):
    write(folder, "README.md", "nothing")
    write(folder, ".hidden", "nothing")
    result = cproute("replay", folder)
    assert result.code == WRONG_USE and result.out == "0 passed, 0 failed, 0 skipped\n" and "nothing" in result.err


def test_replay_of_bytes(folder):
    write(folder, "equivalence/a", b"\x05\x01\x02\x03")
    write(folder, "elsewhere/b", b"")
    assert cproute("replay", folder).out == "2 passed, 0 failed, 0 skipped\n"
    result = cproute("replay", "--verbose", "--law", "splits", os.path.join(folder, "elsewhere"))
    assert result.code == GOOD and "passed" in result.out


def test_seeds(folder):
    cases = write(folder, "cases/a.jsonl", case() + case(id="big", cu_seqlens=[0, 2**40], ops=[{"op": "big"}]))
    out = os.path.join(folder, "out")
    dictionaries = os.path.join(folder, "dictionaries")
    result = cproute("seeds", "--out", out, "--dictionaries", dictionaries, cases)
    with open(os.path.join(dictionaries, "equivalence.dict")) as file:
        words = [line for line in file if not line.startswith("#")]
    assert words and all(re.fullmatch(r'"(\\x[0-9a-f]{2}){2,16}"\n', word) for word in words), words
    assert len(set(words)) == len(words)
    assert result.code == GOOD and "1 cases encoded" in result.out and "1 could not be encoded" in result.out, result.out
    assert "equivalence" in os.listdir(out)
    seed = os.listdir(os.path.join(out, "equivalence"))
    assert len(seed) == 1 and re.fullmatch("[0-9a-f]{16}", seed[0])
    assert cproute("replay", out).code == GOOD
    path = os.path.join(out, "equivalence", seed[0])
    assert cproute("shrink", "--law", "equivalence", path).code == GOOD
    assert "definition" in cproute("explain", "--law", "equivalence", path).out
    assert cproute("seeds", "--out", out, write(folder, "cases/a.jsonl", "{")).code == REFUSED
    good = write(folder, "cases/a.jsonl", case())
    assert cproute("seeds", "--out", "/dev/null/x", good).code == REFUSED
    assert cproute("seeds", "--out", out, "--dictionaries", "/dev/null/x", good).code == REFUSED


def test_flat_tensors(folder):
    tensor = [1, 0, 2, 2, 2, 0, 2, 2, 0, 1]
    path = write(folder, "a.jsonl", case(id="written", cu_seqlens=[0], cp_size=1, expect="error:total_mismatch",
                                         ops=[{"op": "flat_form", "rank": 0, "t": tensor}]))
    assert cproute("replay", path).code == GOOD
    out = os.path.join(folder, "out")
    assert cproute("seeds", "--out", out, "--law", "flat_decode", path).code == GOOD
    seed = os.path.join(out, "flat_decode", os.listdir(os.path.join(out, "flat_decode"))[0])
    assert "total_mismatch" in cproute("explain", "--law", "flat_decode", seed).out
    assert cproute("replay", "--law", "flat_decode", seed).code == GOOD


def test_explain_cache_script(folder):
    path = write(folder, "a.jsonl", case(id="stale", ops=[
        {"op": "new", "t": "A", "data": [0, 4, 12]}, {"op": "get", "t": "A", "cp": 2, "rank": 0, "want": "miss"},
        {"op": "raw_write", "t": "A", "i": 1, "v": 8}, {"op": "get", "t": "A", "cp": 2, "rank": 0, "want": "hit"}]))
    out = cproute("explain", path + ":stale").out
    assert "STALE" in out and "cproute content" in out and out.splitlines()[-1].split()[-1] == "miss"


def test_explain_file(folder):
    path = write(folder, "a.jsonl", case(id="one") + case(id="two", note="the second"))
    assert "one" in cproute("explain", path).out and "two" in cproute("explain", path).out
    for selected in (path + ":two", path + ":2"):
        result = cproute("explain", selected)
        assert result.code == GOOD and "the second" in result.out and "one" not in result.out
    assert cproute("explain", path + ":three").code == WRONG_USE
    assert max(len(line) for line in cproute("explain", path + ":two").out.splitlines()[2:]) <= 100


def test_explain_shapes(folder):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", "cases", "shapes.jsonl")
    result = cproute("explain", path + ":pad-two-eight")
    assert result.code == GOOD and "per-token" not in result.out and 'pad {"rank":1,"status":"ok","padded_cu":[0,4,12]' in result.out, result.out
    result = cproute("explain", path + ":pad-decreasing")
    assert result.code == GOOD and '"error":"decreasing","index":2' in result.out, result.out
    result = cproute("explain", path + ":fused-tp-3-permuted")
    assert result.code == GOOD and "per-token" in result.out and 'fused {"rank":5,' in result.out, result.out
    assert 'real {"rank":1,"status":"ok","real_rows_per_rank":5' in cproute("explain", path + ":real-map").out


def test_check_repeats(folder):
    def run():
        return cproute("check", "--law", "splits", "--cases", "200", "--seed", "0x10").out
    assert run() == run()


def test_check_interrupted(folder):
    with subprocess.Popen([COMMAND, "check", "--law", "equivalence", "--seconds", "50"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.stderr.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
        assert process.returncode == INTERRUPTED and out.startswith("interrupted: "), out


def main():
    failed = 0
    tests = [test for name, test in sorted(globals().items()) if name.startswith("test_")]
    jobs = [(" ".join(("cproute", *row[0])), lambda row=row: check_table_row(row)) for row in TABLE]
    for test in tests:
        def run(test=test):
            with tempfile.TemporaryDirectory() as folder:
                test(folder)
        jobs.append((test.__name__, run))
    for name, job in jobs:
        try:
            job()
        except (AssertionError, ValueError, OSError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"FAILED {name}: {error}")
    print(f"{len(jobs) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
