#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Megatron-LM, of whatever generation, for `cproute conform`.

    cproute conform -- python3 tools/adapters/megatron.py --source CHECKOUT

The code that makes routes is looked for in the checkout and imported without the rest of the package: whatever else it
imports is replaced by something that does nothing. Needs torch, on the CPU; no process group.
"""
import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import re
import sys
import types

# What one of the generations names its route code.
LANDMARK = re.compile(r"^def (build_thd_cp_partition_route|get_thd_context_parallel_rank_indices|build_thd_cp_layout_plan|"
                      r"_build_sbhd_layout_redistribution_plan)\(", re.MULTILINE)


def kind_of_total(message):
    """Two rules in one message: the tokens of all ranks, and those of a CP rank over its TP ranks."""
    found = re.search(r"got (-?\d+), CP size (-?\d+), and TP size", message)
    tokens, cp_size = map(int, found.groups()) if found else (1, 0)
    return "not_divisible_cp" if tokens <= 0 or cp_size < 1 or tokens % cp_size else "not_divisible_cp_tp"


def kind_of_header(message):
    made_for, asked_for = re.search(r"route cp_size=(-?\d+), .* requested cp_size=(-?\d+),", message).groups()
    return "bad_rank" if made_for == asked_for else "bad_cp_size"


# Messages of exceptions, of every generation, and our kinds.
KINDS = [
    (ValueError, r"cp_size must be", "bad_cp_size"),
    (ValueError, r"cp_rank must be in", "bad_rank"),
    (ValueError, r"Unsupported (context-parallel|CP)|only needed when", "bad_layout"),
    (ValueError, r"must start at 0, got tensor\(\[\]", "empty_cu_seqlens"),
    (ValueError, r"must start at 0", "nonzero_start"),
    (ValueError, r"at least two entries", "empty_cu_seqlens"),
    (ValueError, r"nondecreasing|lengths must be positive", "decreasing"),
    (ValueError, r"divisible by 2 \* cp_size", "not_divisible_2cp"),
    (ValueError, r"tp_rank must be in|must be a permutation", "bad_rank"),
    (ValueError, r"requires an even tensor-parallel size|to be divisible by tp_size", "not_divisible_cp_tp"),
    (ValueError, r"Contiguous CP partitioning requires", "not_divisible_cp"),
    (ValueError, r"token count must be .*divisible by CP \* TP", kind_of_total),
    (ValueError, r"route tensor is too short|route tensor has inconsistent length", "total_mismatch"),
    (ValueError, r"does not match the requested CP rank/size", kind_of_header),
    (ValueError, r"must use torch\.int32", "dtype"),
]


class Unavailable(Exception):
    """There is nothing to adapt; the message says why."""


# --------------------------------------------------------------------------------------------------------------
# Importing some modules of a package without the rest of it
# --------------------------------------------------------------------------------------------------------------

class Nothing:
    """Stands for whatever an import brings that the routes do not need."""

    def __call__(self, *arguments, **_):
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __or__(self, _):
        return self

    __ror__ = __getitem__ = __or__

    def __mro_entries__(self, _):
        return ()


class EmptyModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules under `package`: those of `real` from their files, all others empty."""

    def __init__(self, package, real):
        self.package, self.real = package, real

    def find_spec(self, name, path=None, target=None):
        if name in self.real:
            file = self.real[name]
            folder = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=folder)
        if name.split(".")[0] == self.package:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return EmptyModule(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def source_files(source):
    """The Python files that may hold the code, those of tests left out."""
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(name for name in folders if name not in ("tests", "examples", "docs") and not name.startswith("."))
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("test_"):
                yield os.path.join(folder, name)


def landmarks(source):
    found = []
    for file in source_files(source):
        with open(file, encoding="utf-8", errors="replace") as text:
            if LANDMARK.search(text.read()):
                found.append(file)
    return found


def module_name(source, file):
    """As the package itself would import it."""
    parts = os.path.relpath(file, source).removesuffix(".py").split(os.sep)
    start = parts.index("megatron") if "megatron" in parts else 0
    parts = parts[start:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_routes(source):
    """[module] with the code for routes; a package comes with all of its files."""
    files = landmarks(source)
    if not files:
        raise Unavailable(f"{source}: no file defines {LANDMARK.pattern[6:-3]}")
    real = {}
    for file in files:
        folder = os.path.dirname(file)
        is_package = os.path.basename(folder).startswith("context_parallel")
        beside = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py")] if is_package else [file]
        real.update((module_name(source, one), one) for one in beside)
    sys.meta_path.insert(0, Finder(next(iter(real)).split(".")[0], real))
    try:
        return [importlib.import_module(module_name(source, file)) for file in files]
    except ImportError as failure:
        raise Unavailable(f"{source}: {failure}") from failure


# --------------------------------------------------------------------------------------------------------------
# Generations: each class answers for one form of the code
# --------------------------------------------------------------------------------------------------------------

PAIRS = [["zigzag", "contiguous"], ["contiguous", "zigzag"]]


def rows(index):
    return None if index is None else [int(row) for row in index]


def answer_of(rank, source_rows, target_rows, send, recv, inputs, outputs):
    return {"rank": rank, "status": "ok", "source_rows": int(source_rows), "target_rows": int(target_rows), "send_rows": rows(send),
            "recv_rows": rows(recv), "input_splits": rows(inputs), "output_splits": rows(outputs)}


class Group:
    """What a process group says about itself."""

    def __init__(self, size, rank):
        self._size, self._rank = size, rank

    def size(self):
        return self._size

    def rank(self):
        return self._rank


def numbers(index):
    return [int(number) for number in index]


class Unsupported(Exception):
    """There is no such thing to ask it for."""


class Swap:
    """#3282: no routes, one function that moves rows. What it gives to the collective is the route."""
    generation = "swap of index tensors (#3282)"
    needs = "zigzag_to_contiguous_chunks"

    def __init__(self, torch, module):
        self.torch, self.module = torch, module
        self.swaps = {"zigzag": module.zigzag_to_contiguous_chunks, "contiguous": module.contiguous_to_zigzag_chunks}

    def route(self, cu, cp_size, rank, source, target):
        torch = self.torch
        local = self.module.get_thd_context_parallel_rank_indices(cu, cp_size, rank, source).numel()
        if cp_size == 1:
            return answer_of(rank, local, local, None, None, [local], [local])
        seen = {}

        def all_to_all(_group, send, outputs, inputs):
            seen.update(send=send.tolist(), outputs=list(outputs), inputs=list(inputs))
            return torch.arange(sum(outputs))

        self.module.all_to_all = all_to_all
        arrived = self.swaps[source](torch.arange(local), Group(cp_size, rank), cu_seqlens=cu)
        order = torch.argsort(arrived)
        return answer_of(rank, local, arrived.numel(), seen["send"], order, seen["inputs"], seen["outputs"])


class Directed:
    """A route for each direction."""

    def __init__(self, torch, module):
        self.torch, self.module = torch, module

    def route(self, cu, cp_size, rank, source, target):
        made = self.module.build_thd_cp_partition_route(cu, cp_size, rank, source, target)
        return answer_of(rank, *self.fields(made, cp_size, rank))


class FlatRoute(Directed):
    """#5664: as one tensor, which its own decoder reads."""
    generation = "flat route tensor (#5664)"
    needs = "decode_thd_cp_partition_route"
    operations = ["flat_form"]

    def fields(self, made, cp_size, rank):
        return self.module.decode_thd_cp_partition_route(made, cp_size, rank)

    def flat(self, asked):
        source, target = asked.layouts
        return {"flat": numbers(self.module.build_thd_cp_partition_route(asked.cu, asked.cp_size, asked.rank, source, target))}

    def outcome(self, asked):
        for op in asked.operations("flat_form"):
            self.module.decode_thd_cp_partition_route(self.torch.tensor(op["t"], dtype=self.torch.int64), asked.cp_size, op["rank"])
        return {}


class RouteRecord(Directed):
    """#5664's first cuts and forks: as a record."""
    generation = "route record"

    def fields(self, made, cp_size, rank):
        if not hasattr(made, "send_rows"):
            return made[:6]
        names = [next(n for n in dir(made) if re.fullmatch(pattern, n)) for pattern in (
            "(local_)?source_(local_)?length", "(local_)?target_(local_)?length", "send_rows", "recv_rows", "input_split_sizes", "output_split_sizes")]
        return [getattr(made, name) for name in names]


class TwoSided:
    """One object for both directions: `sides` says of each layout (rows, those to send, where those that arrive go, split sizes)."""

    def __init__(self, torch, module):
        self.torch, self.module = torch, module

    def route_of(self, made, rank, source, target):
        sides = self.sides(made)
        (source_rows, send, _, inputs), (target_rows, _, recv, outputs) = sides[source], sides[target]
        return answer_of(rank, source_rows, target_rows, send, recv, inputs, outputs)

    def fused_of(self, made, asked):
        there = self.route_of(made, asked.rank, *asked.layouts)
        return {"fused_" + name: there[name] for name in ("send_rows", "recv_rows", "input_splits", "output_splits")}


class TwoViews(TwoSided):
    """#6387: one route for both directions."""
    generation = "two-view route (#6387)"
    needs = "build_thd_cp_partition_route"

    def sides(self, made):
        return {"zigzag": (sum(made.zigzag_split_sizes), made.zigzag_index, made.zigzag_index, made.zigzag_split_sizes),
                "contiguous": (sum(made.contiguous_split_sizes), made.contiguous_index, made.contiguous_index, made.contiguous_split_sizes)}

    def route(self, cu, cp_size, rank, source, target):
        return self.route_of(self.module.build_thd_cp_partition_route(cu, cp_size, rank), rank, source, target)

    def two_view(self, asked):
        made = self.module.build_thd_cp_partition_route(asked.cu, asked.cp_size, asked.rank)
        return {name: rows(getattr(made, name)) for name in ("zigzag_index", "zigzag_split_sizes", "contiguous_index", "contiguous_split_sizes")}


class FusedViews(TwoViews):
    """#7545: the same, over tensor and context parallelism too."""
    generation = "two-view route over TP x CP (#7545)"
    needs = "build_thd_tp_cp_partition_route"

    def fused(self, asked):
        cp_rank, tp_rank = divmod(asked.rank, asked.tp_size)
        made = self.module.build_thd_tp_cp_partition_route(asked.cu, asked.cp_size, cp_rank, asked.tp_size, tp_rank, asked.order)
        return self.fused_of(made, asked)


class PaddedPlan(TwoSided):
    """#6764: one plan for both directions that pads sequences; what arrives is gathered on the way to contiguous."""
    generation = "padded plan (#6764)"
    needs = "build_thd_cp_layout_plan"

    def plan(self, cu, cp_size, rank, **groups):
        return self.module.build_thd_cp_layout_plan(cu, int(cu[-1]) if cu.numel() else 0, Group(cp_size, rank), **groups)

    def sides(self, plan):
        return {"contiguous": (plan.contiguous_local_token_count, plan.forward_send_indices, self.torch.argsort(plan.reverse_receive_indices),
                               plan.forward_input_split_sizes),
                "zigzag": (plan.zigzag_local_token_count, plan.reverse_send_indices, plan.forward_receive_positions,
                           plan.forward_output_split_sizes)}

    def route(self, cu, cp_size, rank, source, target):
        return self.route_of(self.plan(cu, cp_size, rank), rank, source, target)

    def pad(self, asked):
        plan = self.plan(asked.cu, asked.cp_size, asked.rank)
        gather = [-1] * plan.zigzag_local_token_count
        for arrived, row in enumerate(plan.forward_receive_positions):
            gather[int(row)] = arrived
        return {"padded_cu": numbers(plan.cu_seqlens_padded), "pad_zigzag_gather": gather,
                "pad_contiguous_splits": numbers(plan.forward_input_split_sizes), "pad_zigzag_splits": numbers(plan.forward_output_split_sizes),
                "pad_contiguous_rows": numbers(plan.forward_send_indices), "pad_zigzag_rows": numbers(plan.reverse_send_indices),
                "pad_contiguous_gather": numbers(plan.reverse_receive_indices)}

    def fused(self, asked):
        cp_rank, tp_rank = divmod(asked.rank, asked.tp_size)
        if asked.tp_size == 1 and list(asked.order) != list(range(asked.cp_size)):
            raise Unsupported("an order of CP ranks alone")
        self.module._get_group_rank_by_logical_rank = lambda *_: tuple(asked.order)
        plan = self.plan(asked.cu, asked.cp_size, cp_rank, sequence_parallel=asked.tp_size > 1, tp_group=Group(asked.tp_size, tp_rank),
                         tp_cp_group=Group(asked.cp_size * asked.tp_size, asked.order[asked.rank]))
        return self.fused_of(plan, asked)


def chunk_plan_maker(modules):
    """The function that plans the exchange of a batch that is not packed."""
    for module in modules:
        for name in ("_build_sbhd_layout_redistribution_plan", "_build_layout_redistribution_plan"):
            if hasattr(module, name):
                return getattr(module, name)
    return None


def chunks(make, asked):
    """The plan knows chunks; how many rows they have is the tensor's, which must be whole chunks."""
    cp_rank, tp_rank = divmod(asked.rank, asked.tp_size)
    plan = make(*asked.layouts, asked.cp_size, cp_rank, asked.tp_size, tp_rank, tuple(asked.order))
    if asked.cp_size == 1 or int(asked.cu[-1]) % (len(plan.send_slots) * asked.cp_size * asked.tp_size):
        raise Unsupported("nothing is exchanged, or not in whole chunks")
    peers = {name: [peer for peer, count in enumerate(counts) for _ in range(count)]
             for name, counts in (("send", plan.input_segment_counts), ("recv", plan.output_segment_counts))}
    places = sorted(range(len(plan.receive_permutation)), key=plan.receive_permutation.__getitem__)
    return {"chunk_send": [number for move in zip(peers["send"], plan.send_slots) for number in move],
            "chunk_recv": [number for move in zip(peers["recv"], places) for number in move]}


def views_or_record(build):
    directed = len([p for p in inspect.signature(build).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]) >= 5
    return RouteRecord if directed else TwoViews


def form_of(torch, modules):
    """The module that makes routes, in the form that it has: the first that fits."""
    for needs, choose in ((FlatRoute.needs, lambda _: FlatRoute), (FusedViews.needs, lambda _: FusedViews), (TwoViews.needs, views_or_record),
                          (PaddedPlan.needs, lambda _: PaddedPlan), (Swap.needs, lambda _: Swap)):
        for module in modules:
            if hasattr(module, needs):
                return choose(getattr(module, needs))(torch, module)
    raise Unavailable("the code has a form that is not known here: " + ", ".join(module.__name__ for module in modules))


# --------------------------------------------------------------------------------------------------------------
# Questions and answers
# --------------------------------------------------------------------------------------------------------------

def kind_of(error):
    for category, pattern, kind in KINDS:
        if isinstance(error, category) and re.search(pattern, str(error), re.DOTALL):
            return kind if isinstance(kind, str) else kind(str(error))
    return f"exception:{type(error).__name__}"


class Asked:
    """A question about a shape, which comes as a case of the corpus."""

    def __init__(self, request, cu):
        self.cu, self.cp_size, self.rank = cu, request["cp_size"], request.get("rank", 0)
        self.ops = request["ops"]
        self.layouts = next(([op.get("src", "zigzag"), op.get("dst", "contiguous")] for op in self.operations("layouts")), PAIRS[0])
        group = next(iter(self.operations("fused")), {})
        self.tp_size = group.get("tp", 1)
        self.order = group.get("order", range(self.cp_size * self.tp_size))

    def operations(self, name):
        return [op for op in self.ops if op["op"] == name]


class Adapter:
    SHAPES = ("flat", "two_view", "fused", "pad", "outcome")

    def __init__(self, torch, modules):
        self.torch = torch
        self.form = form_of(torch, modules)
        self.indices = next((module.get_thd_context_parallel_rank_indices for module in modules
                             if hasattr(module, "get_thd_context_parallel_rank_indices")), None)
        self.shapes = {op: getattr(self.form, op) for op in self.SHAPES if hasattr(self.form, op)}
        make = chunk_plan_maker(modules)
        if make:
            self.shapes["chunks"] = lambda asked: chunks(make, asked)

    def hello(self):
        return {"hello": f"Megatron-LM, {self.form.generation}", "ops": ["route", *(["layout"] if self.indices else []), *self.shapes],
                "routes": PAIRS, "options": ["dtype"], "operations": getattr(self.form, "operations", []), "errors": "kind"}

    def boundaries(self, request):
        said = [op["v"] for op in request.get("ops", []) if op["op"] == "dtype"]
        narrow = all(abs(number) < 2**31 for number in request["cu_seqlens"])
        name = request.get("dtype") or (said or ["int32" if narrow else "int64"])[0]
        return self.torch.tensor(request["cu_seqlens"], dtype=getattr(self.torch, name, None))

    def answer(self, request):
        rank = request.get("rank", 0)
        try:
            cu = self.boundaries(request)
            if request["op"] in self.shapes:
                return {"rank": rank, "status": "ok", **self.shapes[request["op"]](Asked(request, cu))}
            if request["op"] == "layout":
                return {"rank": rank, "tokens": self.indices(cu, request["cp_size"], rank, request["layout"]).tolist()}
            return self.form.route(cu, request["cp_size"], rank, request["from"], request["to"])
        except Unsupported as reason:
            return {"status": "unsupported", "reason": str(reason)}
        except Exception as error:  # whatever the code under test raises is its answer
            return {"rank": rank, "status": "error", "error": kind_of(error), "message": str(error)[:200]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--source", required=True, help="a checkout, or the folder of its package")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("megatron.py: torch is not installed")
    torch.set_num_threads(1)
    try:
        adapter = Adapter(torch, import_routes(os.path.abspath(options.source)))
    except Unavailable as reason:
        sys.exit(f"megatron.py: {reason}")
    print(json.dumps(adapter.hello()), flush=True)
    for line in sys.stdin:
        print(json.dumps(adapter.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
