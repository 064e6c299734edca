#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What adapters do around the code that they adapt, on small packages made here. Needs no torch.

Usage: test_adapters.py
"""
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import digests  # noqa: E402
import megatron  # noqa: E402
import upstream  # noqa: E402

TORCH = types.SimpleNamespace(argsort=lambda numbers: sorted(range(len(numbers)), key=numbers.__getitem__))


class Checkout:
    """Files under a folder, importable while it is open."""

    def __init__(self, files):
        self.files = files

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.finders = list(sys.meta_path)
        # The adapter's own module has the name of the package that it adapts.
        self.modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "megatron"}
        for name in self.modules:
            del sys.modules[name]
        for name, text in self.files.items():
            path = os.path.join(self.folder.name, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        return self.folder.name

    def __exit__(self, *_):
        sys.meta_path[:] = self.finders
        for name in [name for name in sys.modules if name.split(".")[0] == "megatron"]:
            del sys.modules[name]
        sys.modules.update(self.modules)
        self.folder.cleanup()


TWO_VIEWS = """
from megatron.core.context_parallel_layout.kinds import Route
from megatron.core.utils import nvtx_range, decorate
from megatron.core.elsewhere import Base

class Unneeded(Base):
    pass

@decorate
def build_thd_cp_partition_route(cu, cp_size, cp_rank, *, device=None):
    with nvtx_range("building"):
        return Route(None, [4, 4], [0, 1, 6, 7, 2, 3, 4, 5], [4, 4])
"""
KINDS = """
from typing import NamedTuple
class Route(NamedTuple):
    zigzag_index: object
    zigzag_split_sizes: list
    contiguous_index: object
    contiguous_split_sizes: list
"""
RECORD = """
class Route:
    source_length = target_length = 2
    send_rows, recv_rows = [0, 1], [1, 0]
    input_split_sizes, output_split_sizes = [1, 1], [1, 1]

def build_thd_cp_partition_route(cu, cp_size, cp_rank, source, target, device=None):
    return Route() if cp_size == 2 else (2, 2, None, [1, 0], [1, 1], [1, 1], cu, 0)
"""


SBHD = """
from collections import namedtuple
from megatron.core.context_parallel_layout.routes import build_thd_cp_partition_route
Plan = namedtuple("Plan", "send_slots input_segment_counts output_segment_counts receive_permutation")

def _build_sbhd_layout_redistribution_plan(source, target, cp_size, cp_rank, tp_size, tp_rank, order):
    return Plan((1, 0), (0, 2), (1, 1), (1, 0))
"""
FUSED = """

def build_thd_tp_cp_partition_route(cu, cp_size, cp_rank, tp_size, tp_rank, order):
    return build_thd_cp_partition_route(cu, cp_size, cp_rank)
"""


def asked(op, rank, *ops, **fields):
    return {"op": op, "cu_seqlens": [0, 8, 12, 16], "cp_size": 2, "rank": rank, "ops": list(ops), **fields}


class Shapes(unittest.TestCase):
    def setUp(self):
        self.torch = types.SimpleNamespace(int32="int32", int64="int64", argsort=TORCH.argsort,
                                           tensor=lambda numbers, dtype=None: [number if dtype in ("int32", "int64") else None for number in numbers])

    def adapter(self, files):
        with Checkout({"megatron/core/context_parallel_layout/" + name: text for name, text in files.items()}) as source:
            return megatron.Adapter(self.torch, megatron.import_routes(source))

    def test_views_over_both_groups_and_chunks(self):
        adapter = self.adapter({"conversion.py": SBHD, "routes.py": TWO_VIEWS + FUSED, "kinds.py": KINDS})
        self.assertIsInstance(adapter.form, megatron.FusedViews)
        self.assertEqual(adapter.hello()["ops"], ["route", "two_view", "fused", "chunks"])
        answer = adapter.answer(asked("fused", 3, {"op": "fused", "tp": 2, "order": [3, 1, 0, 2]}))
        self.assertEqual((answer["rank"], answer["fused_send_rows"], answer["fused_recv_rows"]), (3, None, [0, 1, 6, 7, 2, 3, 4, 5]))
        back = adapter.answer(asked("fused", 3, {"op": "layouts", "src": "contiguous", "dst": "zigzag"}))
        self.assertEqual((back["fused_send_rows"], back["fused_recv_rows"]), ([0, 1, 6, 7, 2, 3, 4, 5], None))
        self.assertEqual(adapter.answer(asked("two_view", 0))["contiguous_split_sizes"], [4, 4])
        moves = adapter.answer(asked("chunks", 0))
        self.assertEqual((moves["chunk_send"], moves["chunk_recv"]), ([1, 1, 1, 0], [0, 1, 1, 0]))
        self.assertEqual(adapter.answer(asked("chunks", 0, cu_seqlens=[0, 6]))["status"], "unsupported")

    def test_a_tensor_is_decoded(self):
        text = ("def decode_thd_cp_partition_route(made, cp_size, rank):\n    if len(made) < 6:\n"
                "        raise ValueError('THD CP partition route tensor is too short: 5 values.')\n"
                "def build_thd_cp_partition_route(cu, cp_size, rank, source, target):\n    return [cp_size, rank, 8, 8, 0, 0]\n")
        adapter = self.adapter({"routes.py": text})
        self.assertEqual((adapter.hello()["ops"], adapter.hello()["operations"]), (["route", "flat", "outcome"], ["flat_form"]))
        self.assertEqual(adapter.answer(asked("flat", 1))["flat"], [2, 1, 8, 8, 0, 0])
        for tensor, answer in ((6 * [0], "ok"), (5 * [0], "error")):
            got = adapter.answer(asked("outcome", 0, {"op": "flat_form", "rank": 1, "t": tensor}))
            self.assertEqual((got["status"], got.get("error")), (answer, "total_mismatch" if answer == "error" else None))


class Imports(unittest.TestCase):
    def test_a_package_without_the_rest(self):
        with Checkout({"megatron/core/context_parallel_layout/routes.py": TWO_VIEWS,
                       "megatron/core/context_parallel_layout/kinds.py": KINDS,
                       "megatron/core/context_parallel_layout/__init__.py": "from .routes import build_thd_cp_partition_route\n",
                       "megatron/__init__.py": "raise SystemExit('the package was imported')\n"}) as source:
            form = megatron.form_of(TORCH, megatron.import_routes(source))
            self.assertIsInstance(form, megatron.TwoViews)
            there = form.route([0, 8, 12, 16], 2, 0, "zigzag", "contiguous")
            self.assertEqual((there["send_rows"], there["recv_rows"]), (None, [0, 1, 6, 7, 2, 3, 4, 5]))
            back = form.route([0, 8, 12, 16], 2, 0, "contiguous", "zigzag")
            self.assertEqual((back["send_rows"], back["recv_rows"], back["source_rows"]), ([0, 1, 6, 7, 2, 3, 4, 5], None, 8))

    def test_one_file_wherever_it_is(self):
        with Checkout({"deep/below/megatron/core/layout.py": RECORD, "tests/megatron/core/layout.py": RECORD}) as source:
            form = megatron.form_of(TORCH, megatron.import_routes(source))
            self.assertIsInstance(form, megatron.RouteRecord)
            for cp_size, send in ((2, [0, 1]), (3, None)):
                answer = form.route([0, 4], cp_size, 0, "zigzag", "contiguous")
                self.assertEqual((answer["send_rows"], answer["recv_rows"], answer["input_splits"]), (send, [1, 0], [1, 1]))

    def test_nothing_to_adapt(self):
        with Checkout({"megatron/core/other.py": "x = 1\n"}) as source:
            self.assertRaises(megatron.Unavailable, megatron.import_routes, source)
        with Checkout({"megatron/core/layout.py": "import no_such_thing\n" + RECORD}) as source:
            self.assertRaisesRegex(megatron.Unavailable, "no_such_thing", megatron.import_routes, source)
        with Checkout({"megatron/core/layout.py": "def get_thd_context_parallel_rank_indices(cu):\n    pass\n"}) as source:
            self.assertRaises(megatron.Unavailable, megatron.form_of, TORCH, megatron.import_routes(source))


class Kinds(unittest.TestCase):
    def test_by_class_and_message(self):
        for error, kind in ((ValueError("cp_size must be >= 1, got 0."), "bad_cp_size"),
                            (ValueError("cp_rank must be in [0, 2), got -1."), "bad_rank"),
                            (ValueError("cu_seqlens must start at 0, got tensor([4])."), "nonzero_start"),
                            (ValueError("cu_seqlens must start at 0, got tensor([], dtype=torch.int32)."), "empty_cu_seqlens"),
                            (ValueError("cu_seqlens must be nondecreasing, got tensor([0, -1])."), "decreasing"),
                            (ValueError("The packed token count must be divisible by CP * TP, got 3, CP size 2, and TP size 2"), "not_divisible_cp"),
                            (ValueError("The packed token count must be divisible by CP * TP, got 6, CP size 2, and TP size 2"), "not_divisible_cp_tp"),
                            (ValueError("tensor does not match the requested CP rank/size: route cp_size=4, cp_rank=2; requested cp_size=4, cp_rank=1."), "bad_rank"),
                            (ValueError("tensor does not match the requested CP rank/size: route cp_size=3, cp_rank=2; requested cp_size=4, cp_rank=1."), "bad_cp_size"),
                            (RuntimeError("cp_size must be >= 1, got 0."), "exception:RuntimeError"),
                            (IndexError("list index out of range"), "exception:IndexError")):
            self.assertEqual(megatron.kind_of(error), kind)

    def test_grades(self):
        for difference, grade in (("route: zigzag->contiguous: other recv_rows", "wrong rows"), ("route: bad_rank is accepted", "accepts"),
                                  ("route: bad_rank is refused as exception:IndexError", "breaks"),
                                  ("route: what is legal is refused as dtype", "refuses"),
                                  ("route: dtype is refused as decreasing", "other rule"), ("pad: decreasing is *", "changes"),
                                  ("chunks: it has no answer", "no answer")):
            self.assertEqual(upstream.grade_of(difference), grade)

    def test_told_apart(self):
        before = [{"difference": "route: a", "cases": ["x", "y"]}, {"difference": "layout: b", "cases": ["z"]}]
        after = [{"difference": "route: a", "cases": ["y"]}]
        self.assertEqual(upstream.told_apart(before, after), ["x"])


class Digests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for name in ("corpus/cases", "tools/adapters/known", "docs"):
            os.makedirs(os.path.join(self.root, name))
        self.write("corpus/cases/a.jsonl", '{"id":"a"}\n')
        self.write("tools/adapters/known/x.jsonl", '{"difference":"d"}\n')
        for name in ("megatron.py", "upstream.py"):
            self.write("tools/adapters/" + name, "x = 1\n")
        self.write("docs/upstream.md", digests.sentence(self.root))

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w") as file:
            file.write(text)

    def test_what_it_was_written_for(self):
        self.assertIsNone(digests.stale(self.root))
        self.write("tools/adapters/known/x.jsonl", '{"difference":"d","note":"a person\'s"}\n')
        self.assertIsNone(digests.stale(self.root))
        os.symlink("somebody@somewhere.1", os.path.join(self.root, "corpus/cases/.#a.jsonl"))  # an editor's lock
        self.assertIsNone(digests.stale(self.root))

    def test_another_tree(self):
        for name, text, what in (("corpus/cases/a.jsonl", '{"id":"b"}\n', "corpus"), ("corpus/cases/b.jsonl", '{"id":"b"}\n', "corpus"),
                                 ("tools/adapters/known/x.jsonl", '{"difference":"e"}\n', "known differences"), ("tools/adapters/megatron.py", "x = 2\n", "adapter"), ("docs/upstream.md", "", "corpus")):
            self.setUp()
            self.write(name, text)
            reason = digests.stale(self.root)
            self.assertIn(what, reason)
            self.assertIn("make upstream SOURCE=", reason)


class Reasons(unittest.TestCase):
    def test_a_checkout_that_is_not_there_is_wrong_use(self):
        for also in ("Relax", "=.", "Relax=/does/not/exist", ""):
            with self.subTest(also):
                done = subprocess.run([sys.executable, os.path.join(HERE, "upstream.py"), "--source", ".", "--also", also], capture_output=True,
                                      text=True)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(f"'{also}' is not NAME=FOLDER", done.stderr)

    def test_what_cannot_be_adapted_says_why(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "megatron.py"), "--source", "/does/not/exist"], capture_output=True,
                              text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("megatron.py: ", done.stderr)
        done = subprocess.run([sys.executable, os.path.join(HERE, "transformer_engine.py")], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0)
        self.assertTrue(json.loads(done.stdout)["hello"].startswith("TransformerEngine"))


if __name__ == "__main__":
    unittest.main()
