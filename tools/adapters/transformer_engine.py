#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TransformerEngine's zigzag layout, as it is installed, for `cproute conform`.

    cproute conform -- python3 tools/adapters/transformer_engine.py

Asks thd_get_partitioned_indices, which is a CUDA kernel: where there is no package, or no GPU, the hello says so and nothing
is asked.
"""
import json
import os
import sys

# This file has the name of the package, which would be found first.
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != os.path.dirname(os.path.abspath(__file__))]

NAME = "TransformerEngine"


def load():
    """(torch, thd_get_partitioned_indices, what it is), or a reason in an ImportError."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("torch is not installed") from error
    try:
        import transformer_engine
        import transformer_engine_torch
    except (ImportError, OSError) as error:
        raise ImportError(f"transformer_engine is not to be imported: {error}") from error
    if not torch.cuda.is_available():
        raise ImportError("thd_get_partitioned_indices needs a GPU")
    version = getattr(transformer_engine, "__version__", "of unknown version")
    return torch, transformer_engine_torch.thd_get_partitioned_indices, f"{NAME} {version}"


def answer(torch, indices, request):
    cu, rank = request["cu_seqlens"], request["rank"]
    try:
        boundaries = torch.tensor(cu, dtype=getattr(torch, request["dtype"]), device="cuda")
        tokens = indices(boundaries, cu[-1] if cu else 0, request["cp_size"], rank)
        return {"rank": rank, "tokens": tokens.tolist()}
    except Exception as error:  # whatever the code under test raises is its answer
        return {"rank": rank, "status": "error", "error": f"exception:{type(error).__name__}", "message": str(error)[:200]}


def main():
    hello = {"hello": NAME, "ops": ["layout"], "layouts": ["zigzag"], "routes": [], "options": ["dtype"], "errors": "any"}
    try:
        torch, indices, hello["hello"] = load()
    except ImportError as reason:
        print(json.dumps({**hello, "skipped": str(reason)[:200]}), flush=True)
        return
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(torch, indices, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
