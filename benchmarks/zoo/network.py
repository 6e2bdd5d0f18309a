"""What a network of the zoo is, and how it becomes an ONNX file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from heddle.support.settings import settings

Sizes = Mapping[str, int]
SEED = 20


@dataclass(frozen=True, slots=True)
class Input:
    """An input: a dimension is a number, or the name of a free size. Integers are drawn below `high`."""

    shape: tuple[int | str, ...]
    dtype: str = "float32"
    high: int = 2

    def array(self, sizes: Sizes, rng: np.random.Generator) -> np.ndarray:
        shape = [dim if isinstance(dim, int) else sizes[dim] for dim in self.shape]
        if np.dtype(self.dtype).kind == "f":
            return rng.standard_normal(shape).astype(self.dtype)
        return rng.integers(0, self.high, shape).astype(self.dtype)

    @property
    def free(self) -> dict[int, str]:
        return {axis: dim for axis, dim in enumerate(self.shape) if isinstance(dim, str)}


@dataclass(frozen=True, slots=True)
class Network:
    """`sizes` are those at which it is measured: the values of all free dimensions.

    `module` makes a PyTorch module, or `model` an ONNX model where PyTorch has no exporter for it.
    """

    name: str
    kind: str
    inputs: dict[str, Input]
    sizes: tuple[Sizes, ...] = ({},)
    module: Callable[[], Any] | None = None
    model: Callable[[], onnx.ModelProto] | None = None
    outputs: tuple[str, ...] = ("y",)
    tolerance: float = 1e-3
    dynamo: bool = False

    @property
    def half(self) -> str:
        """`tuned` or `validation`, by the name alone."""
        return ("tuned", "validation")[hashlib.sha256(self.name.encode()).digest()[0] % 2]

    def arrays(self, sizes: Sizes) -> list[np.ndarray]:
        rng = np.random.default_rng(SEED)
        return [given.array(sizes, rng) for given in self.inputs.values()]

    def path(self) -> Path:
        """The file with every free dimension free, made once."""
        folder = settings().cache_dir / "zoo"
        folder.mkdir(parents=True, exist_ok=True)
        found = folder / f"{self.name}.onnx"
        if not found.exists():
            part = found.with_suffix(".part")
            if self.model is not None:
                onnx.save(self.model(), str(part))
            else:
                self._export(part)
            part.rename(found)
        return found

    def fixed_path(self, sizes: Sizes) -> Path:
        """The file with its free dimensions set."""
        text = "-".join(f"{name}{value}" for name, value in sizes.items())
        found = self.path().with_name(f"{self.name}-{text}.onnx")
        if not found.exists():
            model = onnx.load(str(self.path()))
            for value in model.graph.input:
                given = self.inputs.get(value.name)
                for axis, name in given.free.items() if given else ():
                    value.type.tensor_type.shape.dim[axis].dim_value = sizes[name]
            del model.graph.value_info[:]
            for value in model.graph.output:
                value.type.tensor_type.ClearField("shape")
            onnx.save(model, str(found))
        return found

    def _export(self, path: Path) -> None:
        import torch

        assert self.module is not None
        torch.manual_seed(SEED)
        torch.backends.mha.set_fastpath_enabled(False)  # exporters do not know those operators
        module = self.module().eval()
        sizes = self.sizes[1] if self.dynamo else self.sizes[0]  # that exporter takes a size of 1 for fixed
        given = tuple(torch.from_numpy(array) for array in self.arrays(sizes))
        if self.dynamo:
            dims = [
                {axis: torch.export.Dim(name) for axis, name in item.free.items()} or None
                for item in self.inputs.values()
            ]
            options: dict[str, Any] = {
                "dynamic_shapes": tuple(dims),
                "external_data": False,
                "verbose": False,
            }
        else:
            axes = {name: item.free for name, item in self.inputs.items() if item.free}
            options = {"dynamic_axes": axes, "opset_version": 17}
        with torch.no_grad():
            torch.onnx.export(
                module,
                given,
                str(path),
                input_names=list(self.inputs),
                output_names=list(self.outputs),
                dynamo=self.dynamo,
                **options,
            )
