#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cproute conform from outside: right and wrong implementations, and commands that misbehave.

Usage: test_conform.py CPROUTE EXAMPLE_C
"""
import concurrent.futures
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

COMMAND, EXAMPLE_C = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TOOLS = os.path.dirname(os.path.abspath(__file__))
EXAMPLE_PY = os.path.join(TOOLS, "adapters", "example.py")
CORPUS = os.path.join(TOOLS, "..", "corpus", "cases")
AGREES, DIFFERS, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def conform(*arguments, command, **options):
    done = subprocess.run([COMMAND, "conform", *arguments, "--", *command], capture_output=True, text=True, timeout=100, **options)
    return done


def found(*arguments, command):
    """(exit status, differences by signature, the counts)"""
    done = conform("--json", *arguments, command=command)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines, done.stderr
    return done.returncode, {line["difference"]: line for line in lines[:-1]}, lines[-1]


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def python(folder, text, name="peer.py"):
    return [sys.executable, write(folder, name, text)]


def faulty(folder, *replacements):
    """The toy with a fault planted."""
    with open(EXAMPLE_PY) as file:
        text = file.read()
    for before, after in replacements:
        assert before in text, before
        text = text.replace(before, after)
    return python(folder, text)


def misbehaving(folder, act):
    """Answers rightly, but does `act` when it is asked for 3 ranks and more than one sequence."""
    return faulty(folder, ("        print(json.dumps(answer(json.loads(line))), flush=True)", f"""\
        request = json.loads(line)
        if request["cp_size"] == 3 and len(request["cu_seqlens"]) > 2:
            import os, signal, time
            {act}
        print(json.dumps(answer(request)), flush=True)"""))


SMALL = ("--random", "150", "--seed", "3")
ROUTE_ONLY = ('"ops": ["route", "layout"]', '"ops": ["route"]')


# --------------------------------------------------------------------------------------------------------------
# Who agrees
# --------------------------------------------------------------------------------------------------------------

def test_conforms_to_itself(folder):
    code, differences, counts = found("--cases", CORPUS, "--random", "1000", "--seed", "5", command=[COMMAND, "serve"])
    assert (code, differences) == (AGREES, {}) and counts["random_cases"] == 1000 and counts["questions"] > 12000, counts


def test_toys_are_right(folder):
    for command in ([sys.executable, EXAMPLE_PY], [EXAMPLE_C]):
        code, differences, counts = found("--cases", CORPUS, "--random", "200", "--seed", "5", command=command)
        assert (code, differences) == (AGREES, {}) and counts["questions"] > 500, (command, counts)


def test_serve_answers_as_route_does(folder):
    request = {"op": "route", "cu_seqlens": [0, 4, 14], "cp_size": 2, "rank": 0, "from": "zigzag", "to": "contiguous"}
    lines = [json.dumps(request), json.dumps({**request, "cu_seqlens": [0, 4.0, 16]}), json.dumps({**request, "op": "dance"}),
             json.dumps({**request, "more": 1}), "{", json.dumps({**request, "op": "exchange", "cp_size": 2**40})]
    done = subprocess.run([COMMAND, "serve"], input="\n".join(lines), capture_output=True, text=True, timeout=20)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and answers[0]["hello"].startswith("cproute ")
    route = subprocess.run([COMMAND, "route", "--cu", "0,4,14", "--cp", "2", "--rank", "0", "--json"], capture_output=True, text=True)
    assert answers[1] == json.loads(route.stdout)
    assert [one.get("error", one["status"]) for one in answers[2:]] == ["dtype", "bad_request", "bad_request", "bad_request", "unsupported"]


def test_nobody_to_ask(folder):
    for arguments, why in (((), "a command is missing"), (("--", "/does/not/exist"), "cannot run /does/not/exist"),
                           (("--update-known", "--", "true"), "needs --known"), (("--random", "x", "--", "true"), "'x'"),
                           (("--cases", "/does/not/exist", "--", "true"), "No such file"), (("--timeout", "0", "--", "true"), "'0'"),
                           (("--known", write(folder, "k", "{"), "--", "true"), "k:1")):
        done = subprocess.run([COMMAND, "conform", *arguments], capture_output=True, text=True, timeout=20)
        assert done.returncode == WRONG_USE and why in done.stderr, (arguments, done.stderr)


# --------------------------------------------------------------------------------------------------------------
# Who differs
# --------------------------------------------------------------------------------------------------------------

FAULTS = {
    "order": (("(rank, 2 * cp_size - 1 - rank)", "(2 * cp_size - 1 - rank, rank)"), "layout: zigzag: other tokens"),
    "neighbours": (("(rank, 2 * cp_size - 1 - rank)", "(2 * rank, 2 * rank + 1)"), "layout: zigzag: other tokens"),
    "transposed": (('"output_splits": [len(rows) for rows in receives]', '"output_splits": [len(rows) for rows in sends]'),
                   "route: zigzag->contiguous: other output_splits"),
    "unsorted": (("sorted(wanted[t] for t in tokens_of(cu, cp_size, peer, source) if t in wanted)",
                  "list(reversed([wanted[t] for t in tokens_of(cu, cp_size, peer, source) if t in wanted]))"),
                 "route: zigzag->contiguous: other recv_rows"),
    "negative rank": (("not 0 <= rank < cp_size", "rank >= cp_size"), "route: bad_rank is accepted"),
    "order of rules": (('        ("not_divisible_cp", lambda: cu[-1] % cp_size),\n', ""), "route: not_divisible_cp is accepted"),
    "empty slots": (("any(end < begin", "any(end <= begin"), "route: what is legal is refused as decreasing"),
}


def test_planted_faults_are_found_and_shrunk(folder):
    for name, (fault, signature) in FAULTS.items():
        command = faulty(folder, fault)
        code, differences, _ = found("--cases", CORPUS, *SMALL, command=command)
        if name == "order of rules":
            signature = next((one for one in differences if "not_divisible_cp is accepted" in one), signature)
        assert code == DIFFERS and signature in differences, (name, sorted(differences))
        for difference in differences.values():
            case = difference["case"]
            assert len(case["cu_seqlens"]) <= 4 and case["cp_size"] <= 3, (name, case)
            assert difference["want"] != difference["got"]
        # What is told is so: the case alone shows the fault again.
        again = write(folder, "again.jsonl", json.dumps(differences[signature]["case"]) + "\n")
        assert signature in found("--cases", again, "--random", "0", command=command)[1], name


def test_large_case_is_shrunk_by_structure(folder):
    case = {"id": "large", "cu_seqlens": [0, 80, 80, 400, 480, 1040], "cp_size": 20, "rank": None, "expect": "ok"}
    path = write(folder, "large.jsonl", json.dumps(case) + "\n")
    code, differences, _ = found("--cases", path, "--random", "0", command=faulty(folder, FAULTS["transposed"][0]))
    minimal = differences[FAULTS["transposed"][1]]["case"]
    assert code == DIFFERS and len(minimal["cu_seqlens"]) <= 4 and minimal["cp_size"] <= 3, minimal


SERVED_WRONGLY = """
import json, subprocess, sys
serve = subprocess.Popen([COMMAND, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
hello = json.loads(serve.stdout.readline())
HELLO
print(json.dumps(hello), flush=True)
for line in sys.stdin:
    print(line, end="", file=serve.stdin, flush=True)
    asked, answer = json.loads(line), json.loads(serve.stdout.readline())
    ANSWER
    print(json.dumps(answer), flush=True)
"""


def served(folder, answer, hello="pass"):
    """This library, but for one line."""
    return python(folder, SERVED_WRONGLY.replace("COMMAND", repr(COMMAND)).replace("HELLO", hello).replace("ANSWER", answer))


NOT_ROWS = ("'no idea'", "{'x': 1}", "[]", "list(range(9))", "[0, 1, 2, 3, 4, 5, 7, 6]", "False", "7")


def test_rows_that_need_not_be_written_out_are_judged(folder):
    cases = write(folder, "cases.jsonl", "".join(json.dumps({"id": f"p{ranks}", "cu_seqlens": [0, 8 * ranks], "cp_size": ranks, "rank": 0, "expect": "ok"}) + "\n"
                                                 for ranks in (1, 2)))
    arguments, hello = ("--cases", cases, "--random", "0"), "hello['ops'] = ['two_view']"
    for i, answer in enumerate(NOT_ROWS):
        field = ("zigzag_index", "contiguous_index")[i % 2]
        said = served(folder, f"assert asked['cp_size'] > 1 or answer[{field!r}] is None; answer.update({field}={answer})", hello)
        code, differences, _ = found(*arguments, command=said)
        kinds = {f"two_view: other {field}", f"two_view: an answer without {field}"}
        assert code == DIFFERS and differences and set(differences) <= kinds, (field, answer, differences)
    same = served(folder, "answer.update({k: v or list(range(8)) for k, v in answer.items() if k.endswith('index')})", hello)
    assert found(*arguments, command=same)[:2] == (AGREES, {})


def test_an_outcome_is_said(folder):
    cases = os.path.join(CORPUS, "shapes.jsonl")
    code, differences, _ = found("--cases", cases, "--random", "0",
                                 command=served(folder, "answer = {} if asked['op'] == 'outcome' and answer['status'] == 'ok' else answer", "hello['ops'] = ['outcome']"))
    assert code == DIFFERS and list(differences) == ["outcome: an answer without status"], differences


SHAPE_FAULTS = {
    "answer['pad_zigzag_gather'] = [max(row, 0) for row in answer['pad_zigzag_gather']] if 'padded_cu' in answer else 0":
        "pad: other pad_zigzag_gather",
    "answer.get('fused_recv_rows', []).sort()": "fused: other fused_recv_rows",
    "answer.get('chunk_recv', []).reverse()": "chunks: other chunk_recv",
    "answer.update(contiguous_index=None) if 'contiguous_index' in answer else 0": "two_view: other contiguous_index",
    "answer.get('flat', [0]).__setitem__(0, 1)": "flat: other flat",
    "answer.update(real_rows_per_rank=0) if 'real_rows_per_rank' in answer else 0": "real: other real_rows_per_rank",
    "answer = {'status': 'ok'} if asked['op'] == 'outcome' else answer": "outcome: split_mismatch is accepted",
    "answer.pop('padded_cu', 0)": "pad: an answer without padded_cu",
}


def test_faults_of_shapes_are_found_and_shrunk(folder):
    cases = os.path.join(CORPUS, "shapes.jsonl")
    for fault, signature in SHAPE_FAULTS.items():
        command = served(folder, fault)
        code, differences, _ = found("--cases", cases, "--random", "30", "--seed", "3", command=command)
        assert code == DIFFERS and signature in differences, (fault, sorted(differences))
        difference = differences[signature]
        if difference["op"] != "outcome":  # which people wrote
            assert len(difference["case"]["cu_seqlens"]) <= 4 and difference["case"]["cp_size"] <= 3, difference
        # The line is a case of the corpus, with the outcome that it must have, and it shows the fault.
        again = write(folder, "again.jsonl", json.dumps(difference["case"]) + "\n")
        assert subprocess.run([COMMAND, "replay", again], capture_output=True, text=True).returncode == 0, difference
        assert signature in found("--cases", again, "--random", "0", command=command)[1], fault


def test_shapes_are_asked_of_who_knows_them(folder):
    cases = os.path.join(CORPUS, "shapes.jsonl")
    limits = ("hello.update(ops=['pad', 'fused', 'outcome'], layouts=['zigzag', 'contiguous'], options=[], operations=['flat_form'], "
              "errors='kind')")
    only = ("assert asked['op'] in ('pad', 'fused', 'outcome'); names = [op['op'] for op in asked['ops']]; "
            "assert not {'dtype', 'rows', 'tp', 'salt', 'flat'} & set(names) and (asked['op'] != 'outcome' or names == ['flat_form'])")
    code, differences, counts = found("--cases", cases, "--random", "200", "--seed", "3", command=served(folder, only, limits))
    assert (code, differences) == (AGREES, {}) and counts["questions"] > 300, (differences, counts)


CACHE_BY_NAME = """
import json, sys
print(json.dumps({"hello": "by name", "ops": ["cache"], "operations": ["new", "get", "write", "raw_write"], "errors": "any"}), flush=True)
for line in sys.stdin:
    there, kept, answers = set(), set(), []
    for op in json.loads(line)["ops"]:
        if op["op"] == "new":
            there.add(op["t"])
        if op["op"] == "get":
            key = op["t"], op["cp"], op["rank"]
            answers.append("nothing" if op["t"] not in there else "hit" if key in kept else "miss")
            kept.add(key)
    print(json.dumps({"answers": answers}), flush=True)
"""


def test_stale_hits_of_a_cache(folder):
    cases = os.path.join(CORPUS, "cache.jsonl")
    code, differences, _ = found("--cases", cases, "--random", "800", "--seed", "2", command=python(folder, CACHE_BY_NAME))
    stale = differences["cache: a hit on what has changed"]
    assert code == DIFFERS and stale["got"]["answers"][-1] == "hit" and stale["want"]["answers"][-1] == "miss", stale
    assert len([op for op in stale["case"]["ops"] if op["op"] not in ("guard", "cap")]) <= 4, stale
    replayed = subprocess.run([COMMAND, "replay", write(folder, "stale.jsonl", json.dumps(stale["case"]))], capture_output=True, text=True)
    assert replayed.returncode == 0, replayed.stdout


def test_equal_answers_of_other_form(folder):
    explicit = faulty(folder, ('"status": "ok", ', ""))
    assert found("--cases", CORPUS, *SMALL, command=explicit)[0] == AGREES
    incomplete = faulty(folder, ('"send_rows": sum(sends, []), ', ""))
    assert set(found("--cases", CORPUS, *SMALL, command=incomplete)[1]) == {"route: an answer without send_rows"}


def test_skipped_is_told(folder):
    junit = os.path.join(folder, "report.xml")
    command = python(folder, "print('{\"hello\": \"x\", \"ops\": [\"layout\"], \"skipped\": \"no GPU\"}')")
    done = conform("--cases", CORPUS, "--junit", junit, command=command)
    assert done.returncode == AGREES and "skipped: no GPU" in done.stdout and " 0 questions" in done.stdout, done.stdout
    suite = xml.etree.ElementTree.parse(junit).getroot()
    assert suite.get("skipped") == "1" and suite.find("testcase/skipped") is not None


def test_unsupported_is_no_difference(folder):
    code, _, counts = found("--cases", CORPUS, *SMALL, command=faulty(
        folder, ("    kind = refusal", "    if cp_size == 3:\n        return {\"status\": \"unsupported\"}\n    kind = refusal")))
    assert code == AGREES and counts["unsupported"] > 10


# --------------------------------------------------------------------------------------------------------------
# Who misbehaves: each is a finding, and none makes anybody wait
# --------------------------------------------------------------------------------------------------------------

def test_no_hello(folder):
    cases = {"import time; time.sleep(60)": "no hello: no answer in time", "pass": "no hello: it ended",
             "import sys; sys.exit('sorry')": "no hello: it ended with an error", "print('hello')": "a hello that is not understood",
             "print('{\"hello\": \"x\", \"ops\": [\"route\"], \"layuots\": []}', flush=True); input()": "a hello that is not understood",
             "import sys; sys.stdout.write('{\"hello\"')": "no hello: it ended in the middle of a line",
             "while True: print(end='x' * 65536)": "no hello: a line without an end",
             "import os; os.kill(os.getpid(), 11)": "no hello: crash: signal 11 (segmentation fault)",
             "import os, time; os.close(1); time.sleep(60)": "no hello: it closed its output"}
    for text, signature in cases.items():
        begun = time.monotonic()
        code, differences, _ = found("--timeout", "0.4", command=python(folder, text))
        assert code == DIFFERS and list(differences) == [signature], (text, list(differences))
        assert time.monotonic() - begun < 10, text


def test_misbehaviour_midway(folder):
    cases = {"os.kill(os.getpid(), signal.SIGKILL)": "route: crash: signal 9 (killed)",
             "sys.exit('sorry')": "route: it ended with an error", "sys.exit(0)": "route: it ended",
             "print('oops')": "route: an answer that is not JSON",
             "print('{', end='', flush=True); sys.exit(0)": "route: it ended in the middle of a line",
             "print('[]', flush=True); continue": "route: an answer that is no object",
             "time.sleep(60)": "route: no answer in time", "print(end='x' * 9000000, flush=True); time.sleep(60)": "route: a line without an end"}
    for act, signature in cases.items():
        command = misbehaving(folder, act)
        write(folder, "peer.py", open(command[1]).read().replace(*ROUTE_ONLY))
        code, differences, counts = found("--random", "6" if "time" in act else "30", "--seed", "3", "--timeout", "0.5",
                                          "--cases", os.path.join(CORPUS, "golden.jsonl"), command=command)
        assert code == DIFFERS and signature in differences, (act, sorted(differences))
        assert counts["questions"] > 20, (act, counts)
        if "time" not in act:
            case = differences[signature]["case"]
            assert len(case["cu_seqlens"]) <= 4 and case["cp_size"] == 3, (act, case)


# Refuses everything, which is right as often as something must be refused, but for what is given; starts in no time.
SHELL = """
printf '%s\\n' '{"hello": "a shell", "ops": ["layout"], "errors": "any"}'
while IFS= read -r line; do
    case "$line" in
    CASES
    *) printf '%s\\n' '{"status": "error", "error": "dtype"}' ;;
    esac
done
"""
TOO_OFTEN, REFUSED = "the command was lost too often", "layout: what is legal is refused as dtype"
CRASH, HANG = "layout: crash: signal 11 (segmentation fault)", "layout: no answer in time"


def shell(folder, *cases):
    return ["sh", write(folder, "peer.sh", SHELL.replace("CASES", "\n    ".join(cases)))]


CRASHES_ON_3, HANGS_ON_3 = """*'"cp_size":3,'*) kill -SEGV $$ ;;""", """*'"cp_size":3,'*) sleep 60 ;;"""
WRONG_ONCE = """*'"cu_seqlens":[0],"cp_size":2,"rank":0'*) printf '%s\\n' '{"rank": 0, "tokens": 7}' ;;"""


def entries_of(known):
    """Its lines but for the one about what was offered."""
    with open(known) as file:
        return [entry for entry in map(json.loads, file) if "offers" not in entry]


def signatures(known):
    return [entry["difference"] for entry in entries_of(known)]


def test_crashes_are_shrunk_and_hide_nothing(folder):
    known = os.path.join(folder, "known.jsonl")
    arguments = ("--cases", CORPUS, "--random", "100", "--seed", "1")
    code, differences, counts = found(*arguments, command=shell(folder, CRASHES_ON_3))
    crash = differences[CRASH]
    assert code == DIFFERS and TOO_OFTEN in differences and counts["incomplete"] == "not everything was asked", counts
    assert (crash["case"]["cu_seqlens"], crash["case"]["cp_size"]) == ([0], 3) and "unstable" not in crash, crash
    # Known, they keep nothing from being asked; what is left to ask is not accepted with them.
    assert found(*arguments, "--known", known, "--update-known", command=shell(folder, CRASHES_ON_3))[0] == AGREES
    assert signatures(known) == [CRASH, REFUSED], signatures(known)
    code, differences, counts = found(*arguments, "--known", known, command=shell(folder, CRASHES_ON_3))
    assert (code, counts["new"], counts["random_cases"]) == (AGREES, 0, 100) and differences[CRASH]["answers"] > 40, counts
    code, differences, _ = found(*arguments, "--known", known, command=shell(folder, WRONG_ONCE, CRASHES_ON_3))
    new = [name for name, one in differences.items() if one["is"] == "new"]
    assert code == DIFFERS and new == ["layout: an answer without tokens"], new


def test_lost_too_often_is_never_known(folder):
    known = write(folder, "known.jsonl", json.dumps({"difference": CRASH}) + "\n")
    # Nothing but crashes ends early, known or not.
    for more in ((), ("--known", known), ("--known", known, "--update-known")):
        code, differences, counts = found("--cases", CORPUS, *SMALL, *more, command=shell(folder, "*) kill -SEGV $$ ;;"))
        assert code == DIFFERS and differences[TOO_OFTEN].get("is") == "new" and counts["random_cases"] == 0, (more, counts)
    assert signatures(known) == [CRASH]
    write(folder, "known.jsonl", json.dumps({"difference": TOO_OFTEN}) + "\n")
    done = conform(*SMALL, "--known", known, command=shell(folder))
    assert done.returncode == WRONG_USE and "known.jsonl:1: 'the command was lost too often' cannot be accepted" in done.stderr, done.stderr


def test_hangs_are_given_up_soon(folder):
    begun = time.monotonic()
    code, differences, _ = found("--cases", CORPUS, *SMALL, "--timeout", "0.1", command=shell(folder, "*) sleep 60 ;;"))
    assert time.monotonic() - begun < 20 and code == DIFFERS and set(differences) == {HANG, TOO_OFTEN}, differences
    assert differences[HANG]["case"]["cu_seqlens"] == [0] and "3 of them by hanging" in differences[TOO_OFTEN]["details"], differences
    known = os.path.join(folder, "known.jsonl")
    arguments = ("--cases", os.path.join(CORPUS, "golden.jsonl"), "--random", "10", "--seed", "1", "--timeout", "0.1", "--known", known)
    assert found(*arguments, "--update-known", command=shell(folder, HANGS_ON_3))[0] == AGREES and signatures(known) == [HANG, REFUSED]
    code, differences, counts = found(*arguments, command=shell(folder, HANGS_ON_3))
    assert (code, counts["new"]) == (AGREES, 0) and differences[HANG]["answers"] > 3, differences


def test_a_check_of_nothing_is_not_good(folder):
    for limits in ({"ops": []}, {"max_tokens": -5}, {"max_cp_size": 0}):
        hello = json.dumps({"hello": "x", "ops": ["layout"], **limits})
        code, differences, _ = found("--random", "5", command=["sh", "-c", f"printf '%s\\n' '{hello}'; cat"])
        assert code == DIFFERS and list(differences) == ["a hello that is not understood"], (limits, differences)
    unsupported = faulty(folder, ("    kind = refusal", "    return {\"status\": \"unsupported\"}\n    kind = refusal"))
    junit = os.path.join(folder, "report.xml")
    done = conform("--cases", CORPUS, "--random", "5", "--junit", junit, command=unsupported)
    assert done.returncode == WRONG_USE and "nothing was judged" in done.stderr and "not judged: route, layout" in done.stdout, done
    assert xml.etree.ElementTree.parse(junit).getroot().find("testcase/error") is not None
    empty = os.path.join(folder, "empty")
    os.mkdir(empty)
    for path in ("/dev/null", empty):
        done = conform("--cases", path, command=[COMMAND, "serve"])
        assert done.returncode == WRONG_USE and "there is no case in it" in done.stderr, (path, done)
    for random, code in (("5", AGREES), ("0", WRONG_USE)):
        done = conform("--random", random, command=[COMMAND, "serve"], cwd=folder)
        assert done.returncode == code and "there is no corpus/cases here" in done.stderr, done


def answering(folder, change):
    """The toy, whose answers are changed as text."""
    return faulty(folder, ("        print(json.dumps(answer(json.loads(line))), flush=True)",
                           f"        text = json.dumps(answer(json.loads(line)))\n        print({change}, flush=True)"))


def test_answers_beyond_the_protocol(folder):
    changes = {"text.replace('\"rank\": 0', '\"rank\": 9')": ("route: zigzag->contiguous: other rank", "layout: zigzag: other rank",
                                                            "route: a refusal with another rank", "layout: a refusal with another rank"),
               "'{\"rank\": 0, ' + text[1:]": ("route: an answer with a member that is there twice", "layout: an answer with a member that is there twice"),
               "'{\"rank\": %s}' % ('9' * 30)": ("route: an answer with a number beyond 64 bits", "layout: an answer with a number beyond 64 bits"),
               "'[' * 9999 + ']' * 9999": ("route: an answer that is nested too deep", "layout: an answer that is nested too deep")}
    arguments = ("--cases", os.path.join(CORPUS, "errors.jsonl"), "--random", "10", "--seed", "1")
    for change, wanted in changes.items():
        begun = time.monotonic()
        code, differences, counts = found(*arguments, command=answering(folder, change))
        assert code == DIFFERS and set(wanted) <= set(differences) and TOO_OFTEN not in differences, (change, sorted(differences))
        assert counts["questions"] > 80 and time.monotonic() - begun < 20, (change, counts)
    # Whoever makes up kinds of errors does not get a group for each.
    differences = found(*arguments, command=answering(folder, "text.replace('\"error\": \"', '\"error\": \"k%d' % abs(hash(text)))"))[1]
    assert "route: decreasing is refused as an error of a kind that is none" in differences, sorted(differences)
    assert not any("k1" in name for name in differences), sorted(differences)


def test_standard_streams_that_are_closed(folder):
    done = conform("--cases", os.path.join(CORPUS, "golden.jsonl"), "--random", "5", command=[sys.executable, EXAMPLE_PY], preexec_fn=lambda: os.close(0))
    assert done.returncode == AGREES, done.stdout
    done = subprocess.run([COMMAND, "route", "--cu", "0,4", "--cp", "2"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True)
    assert done.returncode == DIFFERS and "cannot write" in done.stderr


def test_seeds_of_64_bits(folder):
    counts = found("--random", "1", "--seed", str(2**64 - 1), "--cases", os.path.join(CORPUS, "golden.jsonl"), command=[COMMAND, "serve"])[2]
    assert counts["seed"] == 2**64 - 1


def test_bad_ends(folder):
    ends = {"sys.exit(3)": "it ends with an error when its input has ended", "print('{}', flush=True)": "an answer that nobody asked for",
            "import time; time.sleep(60)": "it does not end when its input has ended",
            "import time; time.sleep(1.2)": None}
    for text, signature in ends.items():
        with open(EXAMPLE_PY) as file:
            command = python(folder, file.read() + f"    {text}\n")
        code, differences, _ = found("--timeout", "0.6", "--random", "5", "--seed", "1", "--cases", os.path.join(CORPUS, "golden.jsonl"), command=command)
        assert sorted(differences) == ([signature] if signature else []), (text, sorted(differences))


def test_an_end_is_heard(folder):
    # A parent that ignores the end of its children hands that down.
    with open(EXAMPLE_PY) as file:
        command = python(folder, file.read() + "    sys.exit(3)\n")
    done = conform("--random", "1", "--cases", os.path.join(CORPUS, "golden.jsonl"), command=command,
                   preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == DIFFERS and "it ends with an error when its input has ended" in done.stdout, done.stdout
    # Somebody else may still hold its output open.
    text = "import subprocess, sys\nsubprocess.Popen(['sleep', '5'], start_new_session=True)\nsys.exit(3)\n"
    begun = time.monotonic()
    differences = found("--timeout", "4", command=python(folder, text))[1]
    assert list(differences) == ["no hello: it ended with an error"] and time.monotonic() - begun < 4, differences


def test_what_it_starts_ends_with_it(folder):
    mark = os.path.join(folder, "pid")
    text = f"import subprocess, time\nopen({mark!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))\ntime.sleep(60)\n"
    found("--timeout", "0.2", command=python(folder, text))
    with open(mark) as file:
        pid = int(file.read())
    time.sleep(0.2)
    assert is_gone(pid)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def interrupted(folder, command, number=signal.SIGINT, arguments=("--random", "1000000")):
    """(exit status, output) of a run that is interrupted once the command has said its process number and a little time has passed."""
    mark = os.path.join(folder, "pid")
    if os.path.exists(mark):
        os.remove(mark)
    with subprocess.Popen([COMMAND, "conform", "--seed", "1", *arguments, "--", "sh", "-c", f'echo $$ > {mark}; exec "$@"', "sh", *command],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while not os.path.exists(mark) or not os.path.getsize(mark):
            time.sleep(0.02)
        time.sleep(0.4)
        begun = time.monotonic()
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
        assert time.monotonic() - begun < 2, command  # a second, on a machine that does nothing else
    with open(mark) as file:
        assert is_gone(int(file.read())), command
    return process.returncode, out


def test_interrupted(folder):
    known = write(folder, "known.jsonl", '{"difference": "mine"}\n')
    assert interrupted(folder, [COMMAND, "serve"])[0] == INTERRUPTED
    for number, command in ((signal.SIGINT, shell(folder, "*) sleep 60 ;;")), (signal.SIGTERM, ["sh", "-c", "trap '' INT TERM; sleep 60; sleep 60"]),
                            (signal.SIGHUP, ["sh", "-c", "exec >&-; sleep 60"])):
        code, out = interrupted(folder, command, number, ("--cases", CORPUS, "--known", known, "--update-known"))
        assert code == INTERRUPTED and out.startswith("interrupted: ") and signatures(known) == ["mine"], (code, out)
    # What was found until then is told.
    code, out = interrupted(folder, shell(folder, """*'"cp_size":1,'*) sleep 60 ;;"""), arguments=("--cases", os.path.join(CORPUS, "golden.jsonl"), "--timeout", "60"))
    assert code == DIFFERS and out.startswith("interrupted: ") and REFUSED in out, (code, out)


def test_progress(folder):
    ours, theirs = pty.openpty()
    with subprocess.Popen([COMMAND, "conform", "--random", "1", "--", "sh", "-c", "sleep 60"], stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        while b"s: no hello yet: 0 questions" not in told:
            told += os.read(ours, 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == INTERRUPTED
    os.close(ours)


# --------------------------------------------------------------------------------------------------------------
# What is known, and reports
# --------------------------------------------------------------------------------------------------------------

def test_known_differences_are_a_ratchet(folder):
    known = os.path.join(folder, "known.jsonl")
    one, two = FAULTS["negative rank"][0], FAULTS["empty slots"][0]
    arguments = ("--cases", CORPUS, *SMALL, "--known", known)
    assert found(*arguments, "--update-known", command=faulty(folder, one))[0] == AGREES
    code, differences, counts = found(*arguments, command=faulty(folder, one))
    assert code == AGREES and counts["known"] == len(differences) >= 2 and counts["new"] == 0, counts
    # Known ones are met by their own cases, whatever else is asked.
    assert found("--cases", os.path.join(CORPUS, "golden.jsonl"), "--random", "0", "--known", known, command=faulty(folder, one))[2]["not_met"] == 0
    code, differences, _ = found(*arguments, command=faulty(folder, one, two))
    assert code == DIFFERS and differences["route: bad_rank is accepted"]["is"] == "known"
    assert differences["route: what is legal is refused as decreasing"]["is"] == "new"
    code, _, counts = found(*arguments, command=[sys.executable, EXAMPLE_PY])
    assert code == AGREES and counts["not_met"] == len(entries_of(known)) >= 2
    # One more case of the corpus that differs so is new, too.
    entries = entries_of(known)
    next(entry for entry in entries if entry["cases"])["cases"].pop()
    write(folder, "known.jsonl", "".join(json.dumps(entry) + "\n" for entry in entries))
    assert found(*arguments, command=faulty(folder, one))[0] == DIFFERS
    assert "new at" in conform(*arguments, command=faulty(folder, one)).stdout


def test_unstable_answers_do_not_come_and_go(folder):
    known = os.path.join(folder, "known.jsonl")
    arguments = ("--cases", os.path.join(CORPUS, "errors.jsonl"), "--random", "0", "--known", known)

    def by_chance(seed, fault=()):
        return faulty(folder, ("import json\n", f"import json\nimport random\nrandom.seed({seed})\n"), *fault, (
            '    if kind:\n', '    if kind == "decreasing":\n        kind = random.choice(["decreasing", "dtype", "exception:IndexError"])\n    if kind:\n'))
    code, differences, _ = found(*arguments, "--update-known", command=by_chance(1))
    assert code == AGREES and all(one["difference"].startswith(("route: decreasing is ", "layout: decreasing is ")) for one in differences.values())
    entries = entries_of(known)
    assert [entry["difference"] for entry in entries] == ["layout: decreasing is *", "route: decreasing is *"], entries
    assert all(entry["unstable"] and "got" not in entry for entry in entries), entries
    for seed in (2, 3, 4):
        code, _, counts = found(*arguments, command=by_chance(seed))
        assert (code, counts["new"], counts["not_met"]) == (AGREES, 0, 0), counts
    code, differences, _ = found(*arguments, command=by_chance(5, (FAULTS["negative rank"][0],)))
    new = sorted(name for name, one in differences.items() if one["is"] == "new")
    assert code == DIFFERS and new == ["layout: bad_rank is accepted", "route: bad_rank is accepted"], new
    # Right answers by chance do not take the line out.
    assert found(*arguments, "--update-known", command=[sys.executable, EXAMPLE_PY])[0] == AGREES
    assert len(entries_of(known)) == 2


def test_wrong_rows_by_chance_are_never_known(folder):
    known = write(folder, "known.jsonl", "")
    arguments = ("--cases", os.path.join(CORPUS, "golden.jsonl"), "--random", "0", "--known", known)

    def wrong_rows(when):
        return faulty(folder, ROUTE_ONLY, ("    for line in sys.stdin", "    wrong = []\n    for line in sys.stdin"), ("        print(json.dumps(answer(json.loads(line))), flush=True)", f"""\
        got = answer(json.loads(line))
        if len(got.get("recv_rows") or ()) > 3 and {when}:
            wrong.append(1)
            got["recv_rows"] = got["recv_rows"][::-1]
        print(json.dumps(got), flush=True)"""))
    done = conform(*arguments, "--update-known", command=wrong_rows("not wrong"))
    assert done.returncode == DIFFERS and "stays as it was: wrong rows that come and go" in done.stderr, done
    assert os.path.getsize(known) == 0
    assert found(*arguments, "--update-known", command=wrong_rows("True"))[0] == AGREES
    code, differences, _ = found("--cases", os.path.join(CORPUS, "golden.jsonl"), "--known", write(folder, "empty", ""), "--random", "0", command=wrong_rows("True"))
    assert code == DIFFERS and all(entry["cases"] for entry in entries_of(known)), differences


def test_what_is_not_answered_any_more(folder):
    known = os.path.join(folder, "known.jsonl")
    arguments = ("--cases", os.path.join(CORPUS, "golden.jsonl"), "--random", "20", "--seed", "1", "--known", known)
    silent = ("    kind = refusal", "    if CONDITION:\n        return {\"status\": \"unsupported\"}\n    kind = refusal")

    def lacking(condition):
        return faulty(folder, (silent[0], silent[1].replace("CONDITION", condition)))
    assert found(*arguments, "--update-known", command=lacking("cp_size == 3"))[0] == AGREES
    assert signatures(known) == ["layout: it has no answer", "route: it has no answer"]
    code, _, counts = found(*arguments, command=lacking("cp_size == 3"))
    assert (code, counts["new"], counts["wrong"]) == (AGREES, 0, 0) and counts["unsupported"] > 3, counts
    code, differences, _ = found(*arguments, command=lacking("cp_size >= 2"))
    assert code == DIFFERS and all(one["is"] == "new" for one in differences.values()), differences
    # The hello may say less, too.
    for change in (ROUTE_ONLY, ('"errors": "kind"', '"errors": "any"'), ('"errors": "kind"', '"errors": "kind", "max_cp_size": 4')):
        done = conform(*arguments, command=faulty(folder, change))
        assert done.returncode == DIFFERS and "it offers less than it did" in done.stdout, (change, done.stdout)
    # What has no operations may say so or not.
    routes = ('"ops": ["route", "layout"]', '"ops": ["route"], "operations": []')
    assert found(*arguments, "--update-known", command=faulty(folder, routes))[0] == AGREES
    assert found(*arguments, command=faulty(folder, routes))[0] == AGREES and signatures(known) == []


def test_fewer_cases_take_nothing_from_what_is_known(folder):
    known = os.path.join(folder, "known.jsonl")
    command = faulty(folder, FAULTS["negative rank"][0])
    golden, errors = (os.path.join(CORPUS, name + ".jsonl") for name in ("golden", "errors"))
    assert found("--cases", errors, "--random", "0", "--known", known, "--update-known", command=command)[0] == AGREES
    before = entries_of(known)
    assert before and all(entry["cases"] for entry in before), before
    assert found("--cases", golden, "--random", "0", "--known", known, "--update-known", command=command)[0] == AGREES
    assert entries_of(known) == before
    right = [sys.executable, EXAMPLE_PY]
    assert found("--cases", golden, "--random", "0", "--known", known, "--update-known", command=right)[0] == AGREES and entries_of(known) == before
    done = conform("--cases", errors, "--random", "0", "--known", known, "--update-known", command=right)
    assert done.returncode == AGREES and "2 differences were not met" in done.stderr and entries_of(known) == [], done


def test_groups_of_one_input_have_names_of_their_own(folder):
    differences = found("--cases", os.path.join(CORPUS, "golden.jsonl"), *SMALL, command=shell(folder))[1]
    both = found("--cases", os.path.join(CORPUS, "errors.jsonl"), "--random", "60", "--seed", "1", command=faulty(folder, FAULTS["negative rank"][0]))[1]
    inputs = {json.dumps([one["case"]["cu_seqlens"], one["case"]["rank"]]) for one in both.values()}
    assert len(both) == 2 and len(inputs) == 1, both  # a route and a layout
    ids = {one["case"]["id"] for one in (*both.values(), *differences.values())}
    assert len(ids) == len(both) + len(differences), ids
    cases = write(folder, "found.jsonl", "".join(json.dumps(one["case"]) + "\n" for one in both.values()))
    assert subprocess.run([COMMAND, "replay", cases], capture_output=True).returncode == 0


def test_nothing_that_was_asked_is_nothing_known(folder):
    line = '{"difference": "mine", "note": "keep"}\n'
    known = write(folder, "known.jsonl", line)
    says = "printf '%s\\n' "
    peers = {says + """'{"hello": "x", "ops": [], "skipped": "no GPU"}'""": WRONG_USE, says + "'hello world'": DIFFERS, "exit 3": DIFFERS,
             says + """'{"hello": "x", "ops": ["layout"]}'; while read -r line; do echo '{"status": "unsupported"}'; done""": DIFFERS}
    for text, wanted in peers.items():
        done = conform("--cases", CORPUS, "--random", "5", "--known", known, "--update-known", command=["sh", "-c", text])
        assert done.returncode == wanted and "known.jsonl stays as it was: " in done.stderr, (text, done.returncode, done.stderr)
        with open(known) as file:
            assert file.read() == line, text
    assert os.listdir(folder) == ["known.jsonl"]


def test_known_files_are_written_in_one_piece(folder):
    link, known = os.path.join(folder, "link.jsonl"), write(folder, "known.jsonl", "")
    os.chmod(known, 0o640)
    os.symlink("known.jsonl", link)
    assert found("--cases", CORPUS, *SMALL, "--known", link, "--update-known", command=shell(folder))[0] == AGREES
    assert os.path.islink(link) and signatures(known) == [REFUSED] and os.stat(known).st_mode & 0o777 == 0o640
    assert sorted(os.listdir(folder)) == ["known.jsonl", "link.jsonl", "peer.sh"]


def test_known_files_are_read_strictly(folder):
    good = {"difference": "d", "op": "route", "cases": ["a"], "case": {"id": "a", "cu_seqlens": [0], "cp_size": 1, "rank": 0, "expect": "ok"}, "note": "n"}
    for change, why in (({"case": "no"}, "case: a text case"), ({"case": {"id": "a"}}, "case: "), ({"op": "dance"}, "op: "), ({"cases": "a"}, "cases: "),
                        ({"cases": [1]}, "cases: "), ({"unstable": 1}, "unstable: "), ({"notes": "n"}, "'notes'"), ({"difference": 1}, "no difference"),
                        ({"op": "cache"}, "op: cache"), ({"op": "flat", "case": {**good["case"], "rank": 7}}, "case: there is no rank 7 of 1"),
                        ({"difference": "*", "unstable": True}, "unstable: "), ({"difference": "route: other recv_rows", "unstable": True}, "unstable: "),
                        ({"difference": "route: * is *", "unstable": True}, "unstable: "), ({"difference": "route: decreasing is *"}, "unstable: "),
                        ({"offers": {"ops": ["route"]}}, "offers: ")):
        known = write(folder, "known.jsonl", "\n" + json.dumps({**good, **change}) + "\n")
        done = conform("--random", "1", "--known", known, command=[COMMAND, "serve"])
        assert done.returncode == WRONG_USE and f"known.jsonl:2: {why}" in done.stderr, (change, done.stderr)
    write(folder, "known.jsonl", json.dumps(good))
    assert conform("--cases", CORPUS, "--random", "1", "--known", known, command=[COMMAND, "serve"]).returncode == AGREES


def test_outputs_are_refused_before_the_work(folder):
    mark = os.path.join(folder, "mark")
    missing = os.path.join(folder, "no", "x")
    there = write(folder, "there", "")
    os.symlink("there", os.path.join(folder, "link"))
    for arguments in (("--junit", missing), ("--known", missing, "--update-known"), ("--junit", folder), ("--known", "/dev/full"),
                      ("--junit", os.path.join(folder, "new"), "--known", os.path.join(folder, "new")),
                      ("--junit", there, "--known", os.path.join(folder, "link"))):
        done = conform(*arguments, command=["touch", mark])
        assert done.returncode == WRONG_USE and arguments[1] in done.stderr and not os.path.exists(mark), (arguments, done.stderr)


def test_text_of_any_bytes(folder):
    junit, known = os.path.join(folder, "report.xml"), os.path.join(folder, "known.jsonl")
    case = {"id": "\u00e9" * 60, "cu_seqlens": [0, 4], "cp_size": 2, "rank": 0, "expect": "ok"}
    cases = write(folder, "cases.jsonl", json.dumps(case) + "\n")
    hello = json.dumps({"hello": "n" * 78 + "\u00e9\u0085\uffff", "ops": ["route", "layout"]}, ensure_ascii=False)
    answers = {"cut kind": ("k" * 79 + "\u00e9").encode(), "bytes": None}
    for name, kind in answers.items():
        refusal = b'{"status": "error", "error": "%b"}' % (kind or b"dtype")
        text = f"""
import os, sys
os.write(1, {(hello + chr(10)).encode()!r})
for line in sys.stdin:
    os.write(2, {bytes(range(1, 256))!r} * 3)
    if {not kind} and "layout" in line:
        os.write(1, bytes([255, 254, 27, 91, 50, 74, 0, 60, 38, 0xc2, 0x9b, 10]))
        os._exit(7)
    os.write(1, {refusal!r} + bytes([10]))
"""
        command = python(folder, text)
        arguments = ("--cases", cases, "--random", "0", "--known", known, "--junit", junit)
        code, differences, _ = found(*arguments, command=command)
        assert code == DIFFERS and differences, name
        xml.etree.ElementTree.parse(junit)
        assert not {chr(c) for c in range(0x80, 0xa0)} & set(conform(*arguments, command=command, encoding="utf-8").stdout), name
        assert found(*arguments, "--update-known", command=command)[0] == AGREES, name
        code, differences, counts = found(*arguments, command=command)
        assert (code, counts["new"]) == (AGREES, 0) and all(one["is"] == "known" for one in differences.values()), (name, differences)


def test_reports(folder):
    junit = os.path.join(folder, "report.xml")
    command = faulty(folder, FAULTS["transposed"][0])
    done = conform("--cases", CORPUS, *SMALL, "--junit", junit, command=command)
    assert done.returncode == DIFFERS
    for part in ("NEW ", "asked ", "want ", "got ", "case ", "output_splits[1]", "new differences"):
        assert part in done.stdout, done.stdout
    suite = xml.etree.ElementTree.parse(junit).getroot()
    failures = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert suite.get("failures") == str(len(failures)) and FAULTS["transposed"][1] in failures, failures
    assert conform("--random", "1", "--junit", "/dev/null/x", command=[COMMAND, "serve"]).returncode == WRONG_USE
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "conform", "--random", "1", "--", COMMAND, "serve"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == DIFFERS and "cannot write" in done.stderr


def test_a_seed_draws_the_same(folder):
    command = faulty(folder, FAULTS["order"][0])
    assert found(*SMALL, "--cases", CORPUS, command=command) == found(*SMALL, "--cases", CORPUS, command=command)


def run(name, test):
    """What failed, or None."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
    except (AssertionError, ValueError, KeyError, OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__} {error}"
    return None


def main():
    tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:  # most of them wait
        for (name, _), failure in zip(tests, pool.map(lambda test: run(*test), tests)):
            if failure:
                failed += 1
                print(f"FAILED {name}: {failure}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
