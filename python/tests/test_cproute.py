#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package: the corpus, random packs, real tensors. Ends with 77, as skipped, where there is no NumPy."""
import copy
import gc
import json
import os
import pickle
import random
import re
import sys
import unittest
from unittest import mock

try:
    import numpy as np
except ImportError:
    print("skipped: no numpy")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None
try:
    import hypothesis
    from hypothesis import strategies as st
except ImportError:
    hypothesis = None

import cproute
from cproute import _library as c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CASES = os.path.join(ROOT, "corpus", "cases")
HEADER = os.path.join(ROOT, "engine", "include", "cproute", "cproute.h")
FORMS = [lambda cu: cu, lambda cu: np.array(cu, dtype=np.int64), lambda cu: np.array(cu, dtype=np.int32)]
if torch:
    FORMS += [lambda cu: torch.tensor(cu, dtype=torch.int32), lambda cu: torch.tensor([cu, cu], dtype=torch.int64).t()[:, 1]]


def listed(rows, count):
    return list(range(count)) if rows is None else [int(row) for row in rows]


def corpus():
    """Cases about one route of boundaries that fit everywhere."""
    for name in sorted(os.listdir(CASES)):
        if not name.endswith(".jsonl") or name.endswith(".expected.jsonl"):
            continue
        with open(os.path.join(CASES, name)) as file:
            for case in map(json.loads, filter(str.strip, file)):
                ops = {op["op"]: op for op in case.get("ops", [])}
                small = all(isinstance(entry, int) and abs(entry) < 2**20 for entry in case["cu_seqlens"]) and case["cp_size"] <= 64
                if small and set(ops) <= {"layouts", "rows", "tp"}:
                    yield f"{name}:{case['id']}", case, ops


def moved(cu, cp_size, routes):
    """The tokens of every rank after the exchange, zigzag before."""
    messages = [[] for _ in range(cp_size)]
    for rank, route in enumerate(routes):
        tokens = [begin + number * chunk + i for begin, end in zip(cu, cu[1:]) for chunk in [(end - begin) // (2 * cp_size)]
                  for number in (rank, 2 * cp_size - 1 - rank) for i in range(chunk)]
        rows, at = listed(route.zigzag_index, len(tokens)), 0
        for peer, count in enumerate(route.zigzag_split_sizes):
            messages[peer] += [tokens[row] for row in rows[at:at + count]]
            at += count
    results = []
    for message, route in zip(messages, routes):
        result = [None] * len(message)
        for row, token in zip(listed(route.contiguous_index, len(message)), message):
            result[row] = token
        results.append(result)
    return results


class Corpus(unittest.TestCase):
    def test_every_case_in_every_form(self):
        seen = 0
        for name, case, ops in corpus():
            layouts = ops.get("layouts", {})
            ranks = [case["rank"]] if case.get("rank") is not None else range(max(case["cp_size"], 1))
            for form in FORMS:
                for rank in ranks:
                    with self.subTest(name, rank=rank):
                        self.judge(case, form(case["cu_seqlens"]), rank, layouts, ops)
                        seen += 1
        self.assertGreater(seen, 500)

    def judge(self, case, cu, rank, layouts, ops):
        def ask():
            return cproute.build_route(cu, case["cp_size"], rank, layouts.get("src", "zigzag"), layouts.get("dst", "contiguous"),
                                       rows=ops.get("rows", {}).get("n"), tp_size=ops.get("tp", {}).get("n", 0))
        expected = case.get("expected", {})
        if case["expect"] != "ok":
            with self.assertRaises(cproute.RouteError) as raised:
                ask()
            self.assertEqual("error:" + raised.exception.kind, case["expect"])
            for field, value in expected.get("error", {}).items():
                if not layouts:  # numbers of layouts have no names here
                    self.assertEqual(getattr(raised.exception, field), value)
            return
        route = ask()
        for field in ("send_rows", "recv_rows", "input_splits", "output_splits"):
            if isinstance(expected.get(field), list):
                count = route.source_rows if field == "send_rows" else route.target_rows
                self.assertEqual(listed(getattr(route, field), count), expected[field][rank])


class Numbers(unittest.TestCase):
    def test_they_are_those_of_the_header(self):
        with open(HEADER) as file:
            numbers = {name: int(number) for name, number in re.findall(r"\bCPR_(\w+) = (-?\d+)", file.read())}
        for prefix, known in (("", c.DTYPES), ("", c.LAYOUTS), ("GUARD_", c.GUARDS)):
            self.assertEqual(known, {name: numbers[prefix + name.upper()] for name in known})
        self.assertEqual((len(c.DTYPES), len(c.LAYOUTS), len(c.GUARDS)),
                         (numbers["OTHER_DTYPE"], numbers["LAYOUT_COUNT"], sum(name.startswith("GUARD_") for name in numbers)))
        self.assertEqual((c.OTHER_DTYPE, c.NO_LAYOUT, c.CPU, c.CUDA, c.OTHER_DEVICE, c.SEND, c.RECV, c.DEVICE_ERROR),
                         tuple(numbers[name] for name in ("OTHER_DTYPE", "LAYOUT_COUNT", "CPU", "CUDA", "OTHER_DEVICE", "SEND", "RECV", "DEVICE")))


class Packs(unittest.TestCase):
    def judge(self, cp_size, multiples):
        cu = [0]
        for multiple in multiples:
            cu.append(cu[-1] + 2 * cp_size * multiple)
        routes = [cproute.build_thd_cp_partition_route(np.array(cu), cp_size, rank) for rank in range(cp_size)]
        share = cu[-1] // cp_size
        self.assertEqual(moved(cu, cp_size, routes), [list(range(rank * share, (rank + 1) * share)) for rank in range(cp_size)])

    def test_random_packs_arrive_in_order(self):
        draw = random.Random(7)
        for _ in range(200):
            self.judge(draw.randint(1, 8), [draw.choice((0, 1, 1, 2, 5)) for _ in range(draw.randint(0, 8))])

    @unittest.skipUnless(hypothesis, "no hypothesis")
    def test_hypothesis(self):
        @hypothesis.settings(max_examples=200, deadline=None, database=None)
        @hypothesis.given(st.integers(1, 9), st.lists(st.integers(0, 6), max_size=10))
        def judge(cp_size, multiples):
            self.judge(cp_size, multiples)
        judge()

    def test_golden(self):
        route = cproute.build_thd_cp_partition_route([0, 8, 12, 16], 2, 0)
        self.assertEqual((route.zigzag_index, route.zigzag_split_sizes, route.contiguous_split_sizes), (None, [4, 4], [4, 4]))
        self.assertEqual(list(route.contiguous_index), [0, 1, 6, 7, 2, 3, 4, 5])

    def test_what_is_refused(self):
        for cu, kind in (([0, 6], "not_divisible_2cp"), ([], "empty_cu_seqlens"), ([4, 8], "nonzero_start"), ([0, 4.5], "dtype"),
                         (np.zeros((2, 2), dtype=np.int64), "shape"), (np.array([0, 8], dtype=np.uint8), "dtype")):
            with self.assertRaises(ValueError) as raised:
                cproute.build_thd_cp_partition_route(cu, 2, 0)
            self.assertEqual(raised.exception.kind, kind)
        self.assertRaisesRegex(ValueError, "rank", cproute.build_thd_cp_partition_route, [0, 8], 2, -1)

    def refused(self, kind, cu, cp_size=2, cp_rank=0, *layouts, **others):
        for build in (cproute.build_route, cproute.RouteCache().get):
            with self.assertRaises(cproute.RouteError, msg=(build, cu)) as raised:
                build(cu, cp_size, cp_rank, *layouts, **others)
            self.assertEqual(raised.exception.kind, kind)

    def test_numbers_are_never_cut_to_size(self):
        for beyond in (2**63, 2**64 + 2, -2**63, -2**64 + 2):
            self.refused("bad_cp_size", [0, 16], beyond)
            self.refused("bad_rank", [0, 16], 2, beyond)
            self.refused("total_mismatch", [0, 16], rows=beyond)
        self.refused("not_divisible_cp_tp", [0, 16], tp_size=2**64 + 3)
        self.refused("dtype", [0, 2**64 + 16])
        for build in (cproute.build_route, cproute.RouteCache().get):
            for wrong in (2.0, "2", None):
                self.assertRaises(TypeError, build, [0, 16], wrong, 0)
                self.assertRaises(TypeError, build, [0, 16], 2, wrong)
                if wrong is not None:
                    self.assertRaises(TypeError, build, [0, 16], 2, 0, rows=wrong)
        self.assertEqual(cproute.build_route([0, 16], np.int32(2), np.int64(1)).cp_rank, 1)

    def test_boundaries_that_are_none(self):
        for cu, kind in ((None, "shape"), (7, "shape"), ([0, [8]], "shape"), ("0, 8", "shape"), (["0", "8"], "dtype"),
                         (np.ma.masked_array([0, 4, 8], [False, True, False]), "dtype"), (np.array([0, 8], dtype=">i8"), "dtype")):
            self.refused(kind, cu)
        for layout in ("spiral", ["zigzag"], None):
            self.refused("bad_layout", [0, 8], 2, 0, layout)
        with self.assertRaises(cproute.RouteError) as raised:
            cproute.RouteCache().get([0, 8], 2, 0, guard="nope")
        self.assertEqual(raised.exception.kind, "guard")

    def test_a_cache_is_not_copied(self):
        for take in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "a RouteCache cannot be"):
                take(cproute.RouteCache())

    @unittest.skipUnless(torch, "no torch")
    def test_rows_on_a_device(self):
        for form in FORMS:
            index = cproute.build_thd_cp_partition_route(form([0, 4, 16]), 2, 0, device="cpu").contiguous_index
            self.assertTrue(isinstance(index, torch.Tensor) and index.device.type == "cpu", type(index))
            self.assertEqual(cproute.build_route(form([0, 4, 16]), 2, 0, device="meta").recv_rows.device.type, "meta")
            for device in ("nonsense", 3.5, "cuda:99"):
                with self.assertRaises(cproute.RouteError) as raised:
                    cproute.build_route(form([0, 4, 16]), 2, 0, device=device)
                self.assertEqual(raised.exception.kind, "device")

    @unittest.skipIf(torch, "torch is there")
    def test_a_device_without_torch(self):
        with self.assertRaises(cproute.RouteError) as raised:
            cproute.build_route([0, 4, 16], 2, 0, device="cpu")
        self.assertEqual(raised.exception.kind, "device")

    @unittest.skipUnless(torch, "no torch")
    def test_tensors_that_cannot_be_read(self):
        self.refused("device", torch.zeros(3, dtype=torch.int64, device="meta"))
        self.refused("shape", torch.tensor([0, 8]).to_sparse())
        self.refused("shape", torch.tensor(8))
        negated = torch._neg_view(torch.tensor([0, -4, -16]))
        self.assertEqual(listed(cproute.build_route(negated, 2, 0).recv_rows, 8), listed(cproute.build_route([0, 4, 16], 2, 0).recv_rows, 8))
        self.assertEqual(cproute.RouteCache().get(negated, 2, 0).input_splits, cproute.build_route([0, 4, 16], 2, 0).input_splits)
        self.assertEqual(cproute.build_route(torch.Size([0, 8]), 2, 0).source_rows, 4)

    def test_what_is_copied(self):
        try:
            cproute.build_route([0, 6], 2, 0)
        except cproute.RouteError as error:
            again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.kind, again.index, again.got, again.want), ("not_divisible_2cp", 0, 6, 4))
        route = cproute.build_route([0, 8], 2, 0)
        self.assertIs(copy.deepcopy(route), route)


class Cache(unittest.TestCase):
    def test_arrays_by_content(self):
        cache = cproute.RouteCache()
        first = cache.lookup(np.array([0, 8]), 2, 0)
        self.assertEqual((first[1], cache.lookup(np.array([0, 8], dtype=np.int32), 2, 0)), (False, (first[0], True)))
        array = np.array([0, 8, 16])
        cache.get(array, 2, 0)
        array[1] = 4
        self.assertFalse(cache.lookup(array, 2, 0)[1])
        self.assertIsNone(cache.get(array, 1, 0))
        with self.assertRaises(cproute.RouteError) as raised:
            cache.get(array, 2, 0, rows=20)
        self.assertEqual(raised.exception.kind, "total_mismatch")
        cache.clear()
        self.assertEqual(cache.stats["entries"], 0)

    def test_nobody_writes_to_what_is_kept(self):
        cache, right = cproute.RouteCache(), cproute.build_route([0, 4, 16], 2, 0)
        route = cache.get(np.array([0, 4, 16]), 2, 0)
        with self.assertRaises(ValueError):
            route.recv_rows[0] = 99
        route.input_splits[0] = 99
        self.assertEqual(cache.get([0, 4, 16], 2, 0).input_splits, right.input_splits)
        if torch:
            route = cache.get(torch.tensor([0, 4, 16]), 2, 0)
            self.assertIs(route.recv_rows, route.recv_rows)
            route.recv_rows.fill_(99)
            self.assertEqual(cache.get(torch.tensor([0, 4, 16]), 2, 0).recv_rows.tolist(), listed(right.recv_rows, 8))

    def test_bounds_are_those_of_the_library(self):
        cache = cproute.RouteCache(max_entries=1000, max_bytes=2000)
        for i in range(1, 100):
            cache.get(np.array([0, 8 * i]), 2, 0)
        self.assertLessEqual(len(cache._routes), cache.stats["entries"])
        self.assertGreater(cache.stats["evictions"], 0)

    def test_routes_outlive_the_cache(self):
        cache = cproute.RouteCache(max_entries=1)
        routes = [cache.get(np.array([0, 8 * i, 24 * i]), 2, 0) for i in range(1, 6)]
        del cache
        gc.collect()
        self.assertEqual([sum(route.input_splits) for route in routes], [12 * i for i in range(1, 6)])

    @unittest.skipUnless(torch, "no torch")
    def test_tensors_by_version(self):
        cache = cproute.RouteCache()
        cu = torch.tensor([0, 8, 16], dtype=torch.int32)

        def hit(tensor):
            return cache.lookup(tensor, 2, 0, guard="version")[1]
        self.assertEqual([hit(cu), hit(cu), hit(cu.clone()), hit(cu)], [False, True, False, True])
        cu[1] = 4
        self.assertEqual([hit(cu), hit(cu)], [False, True])
        view = torch.tensor([0, 99, 8, 99, 16])[0:5:2]
        self.assertEqual([hit(view), hit(view)], [False, True])
        view.set_(torch.tensor([0, 4, 8]))
        self.assertFalse(hit(view))
        with torch.inference_mode():
            plain = torch.tensor([0, 8, 16])
        self.assertEqual([hit(plain), hit(plain)], [False, False])
        self.assertEqual(cache.stats["bypasses"], 2)

    @unittest.skipUnless(torch, "no torch")
    def test_what_lies_on_a_device_is_copied_on_a_miss_alone(self):
        copies = []

        def copied(cu):
            copies.append(cu)
            return cu.detach().clone()
        with mock.patch.object(cproute, "device_of", lambda cu: (cproute.c.CUDA, 0)), mock.patch.object(cproute, "in_memory", copied):
            for guard, wanted in (("default", 2), ("version", 2), ("content", 5)):
                cache, cu = cproute.RouteCache(), torch.tensor([0, 8, 16])
                del copies[:]
                hits = [cache.lookup(cu, 2, 0, guard=guard)[1] for _ in range(3)]
                cu[1] = 4
                hits += [cache.lookup(cu, 2, 0, guard=guard)[1] for _ in range(2)]
                self.assertEqual((hits, len(copies)), ([False, True, True, False, True], wanted), guard)

    @unittest.skipUnless(torch, "no torch")
    def test_writes_that_no_version_counts(self):
        cache = cproute.RouteCache()
        cu = torch.tensor([0, 8, 16])
        before = cache.get(cu, 2, 0, guard="version")
        cu.data[1] = 4
        self.assertIs(cache.get(cu, 2, 0, guard="version"), before)  # its documented hole
        self.assertIsNot(cache.get(cu, 2, 0), before)
        cache.invalidate(cu)
        self.assertIsNot(cache.get(cu, 2, 0, guard="version"), before)

    @unittest.skipUnless(torch, "no torch")
    def test_addresses_that_come_again(self):
        cache = cproute.RouteCache()
        for i in range(200):
            cu = torch.tensor([0, 8 + 4 * (i % 2), 24])
            route = cache.get(cu, 2, 0, guard="version")
            fresh = cproute.build_route(cu, 2, 0)
            self.assertEqual(listed(route.recv_rows, 12), listed(fresh.recv_rows, 12))
            del cu
        self.assertLessEqual(len(cache._handles), 1)

    @unittest.skipUnless(torch, "no torch")
    def test_torch_in_torch_out(self):
        route = cproute.build_thd_cp_partition_route(torch.tensor([0, 8, 12, 16]), 2, 0)
        self.assertEqual((route.contiguous_index.dtype, route.contiguous_index.tolist()), (torch.int64, [0, 1, 6, 7, 2, 3, 4, 5]))


if __name__ == "__main__":
    unittest.main()
