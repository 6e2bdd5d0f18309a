"""PyTorch's form of a workload's model, by its key: `net:KIND` or `op:NAME`."""

from __future__ import annotations

from typing import Any


def torch_form(key: str) -> Any:
    """A callable from tensors to a tensor or a tuple of tensors, with the weights of the ONNX file."""
    where, _, name = key.partition(":")
    if where == "op":
        from benchmarks.workloads.operators import BY_NAME

        return BY_NAME[name].torch_form()
    if name.startswith("lstm"):
        from benchmarks.workloads.networks import lstm_module

        return lstm_module(int(name.removeprefix("lstm-")))
    from tests.e2e.torch_modules import BASE, GPT2, torch_module

    return torch_module(name, GPT2 if name == "gpt2" else BASE, "sdpa")
