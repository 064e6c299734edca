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
LANDMARK = re.compile(r"^def (build_thd_cp_partition_route|get_thd_context_parallel_rank_indices|build_thd_cp_layout_plan)\(",
                      re.MULTILINE)

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
    (ValueError, r"Contiguous CP partitioning requires|token count must be .*divisible by CP \* TP", "not_divisible_cp"),
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
        raise Unavailable(f"{source}: no file defines {LANDMARK.pattern[6:-2]}")
    real = {}
    for file in files:
        folder = os.path.dirname(file)
        is_package = os.path.basename(folder).startswith("context_parallel")
        beside = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py")] if is_package else [file]
        real.update((module_name(source, one), one) for one in beside)
    sys.meta_path.insert(0, Finder(next(iter(real)).split(".")[0], real))
    return [importlib.import_module(module_name(source, file)) for file in files]


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


class FlatRoute:
    """#5664: a route for each direction, as one tensor that its own decoder reads."""
    generation = "flat route tensor (#5664)"
    needs = "decode_thd_cp_partition_route"

    def __init__(self, torch, module):
        self.module = module

    def route(self, cu, cp_size, rank, source, target):
        made = self.module.build_thd_cp_partition_route(cu, cp_size, rank, source, target)
        return answer_of(rank, *self.module.decode_thd_cp_partition_route(made, cp_size, rank))


class RouteRecord:
    """#5664's first cuts and forks: a route for each direction, as a record."""
    generation = "route record"
    needs = "build_thd_cp_partition_route"

    def __init__(self, torch, module):
        self.module = module

    def route(self, cu, cp_size, rank, source, target):
        made = self.module.build_thd_cp_partition_route(cu, cp_size, rank, source, target)
        if hasattr(made, "send_rows"):
            names = [next(n for n in dir(made) if re.fullmatch(pattern, n)) for pattern in (
                "(local_)?source_(local_)?length", "(local_)?target_(local_)?length", "send_rows", "recv_rows", "input_split_sizes", "output_split_sizes")]
            return answer_of(rank, *(getattr(made, name) for name in names))
        return answer_of(rank, *made[:6])


class TwoViews:
    """#6387: one route for both directions."""
    generation = "two-view route (#6387)"
    needs = "build_thd_cp_partition_route"

    def __init__(self, torch, module):
        self.module = module

    def route(self, cu, cp_size, rank, source, target):
        made = self.module.build_thd_cp_partition_route(cu, cp_size, rank)
        views = {"zigzag": (made.zigzag_index, made.zigzag_split_sizes), "contiguous": (made.contiguous_index, made.contiguous_split_sizes)}
        (send, inputs), (recv, outputs) = views[source], views[target]
        return answer_of(rank, sum(inputs), sum(outputs), send, recv, inputs, outputs)


class PaddedPlan:
    """#6764: one plan for both directions that pads sequences; the way back gathers."""
    generation = "padded plan (#6764)"
    needs = "build_thd_cp_layout_plan"

    def __init__(self, torch, module):
        self.torch, self.module = torch, module

    def route(self, cu, cp_size, rank, source, target):
        total = int(cu[-1]) if cu.numel() else 0
        plan = self.module.build_thd_cp_layout_plan(cu, total, Group(cp_size, rank))
        contiguous, zigzag = plan.contiguous_local_token_count, plan.zigzag_local_token_count
        if source == "contiguous":
            return answer_of(rank, contiguous, zigzag, plan.forward_send_indices, plan.forward_receive_positions,
                             plan.forward_input_split_sizes, plan.forward_output_split_sizes)
        scatter = self.torch.argsort(plan.reverse_receive_indices)
        return answer_of(rank, zigzag, contiguous, plan.reverse_send_indices, scatter, plan.forward_output_split_sizes,
                         plan.forward_input_split_sizes)


def form_of(torch, modules):
    """The module that makes routes, in the form that it has."""
    for module in modules:
        build = getattr(module, "build_thd_cp_partition_route", None)
        if hasattr(module, "decode_thd_cp_partition_route"):
            return FlatRoute(torch, module)
        if build:
            directed = len([p for p in inspect.signature(build).parameters.values() if p.kind == p.POSITIONAL_OR_KEYWORD]) >= 5
            return (RouteRecord if directed else TwoViews)(torch, module)
        for form in (PaddedPlan, Swap):
            if hasattr(module, form.needs):
                return form(torch, module)
    raise Unavailable("the code has a form that is not known here: " + ", ".join(module.__name__ for module in modules))


# --------------------------------------------------------------------------------------------------------------
# Questions and answers
# --------------------------------------------------------------------------------------------------------------

def kind_of(error):
    for category, pattern, kind in KINDS:
        if isinstance(error, category) and re.search(pattern, str(error), re.DOTALL):
            return kind
    return f"exception:{type(error).__name__}"


class Adapter:
    def __init__(self, torch, modules):
        self.torch = torch
        self.form = form_of(torch, modules)
        self.indices = next((module.get_thd_context_parallel_rank_indices for module in modules
                             if hasattr(module, "get_thd_context_parallel_rank_indices")), None)

    def hello(self):
        return {"hello": f"Megatron-LM, {self.form.generation}", "ops": ["route", "layout"] if self.indices else ["route"],
                "routes": PAIRS, "options": ["dtype"], "errors": "kind"}

    def boundaries(self, request):
        dtype = getattr(self.torch, request.get("dtype", "int32"), None)
        return self.torch.tensor(request["cu_seqlens"], dtype=dtype)

    def answer(self, request):
        rank = request["rank"]
        try:
            cu = self.boundaries(request)
            if request["op"] == "layout":
                return {"rank": rank, "tokens": self.indices(cu, request["cp_size"], rank, request["layout"]).tolist()}
            return self.form.route(cu, request["cp_size"], rank, request["from"], request["to"])
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
