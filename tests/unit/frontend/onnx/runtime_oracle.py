"""One model in both modes against ONNX Runtime: equal results, or a coded error where it gives an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError, InternalError

MODES = ("compiled", "bytecode")


class Compared:
    """A compiled model and ONNX Runtime's session of it; `check` runs both on one set of inputs."""

    def __init__(self, model: onnx.ModelProto, shape_dict: dict[str, Any] | None = None) -> None:
        self.names = [item.name for item in model.graph.input]
        self.model = model
        self._session: Any = None
        module = from_onnx(model, shape_dict)
        self.machines = [
            relax.VirtualMachine(heddle.compile(module, target="llvm", exec_mode=mode), heddle.cpu())
            for mode in MODES
        ]

    @staticmethod
    def session_of(model: onnx.ModelProto) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(model.SerializeToString(), options)

    def expected(self, feed: dict[str, Any]) -> list[Any] | None:
        """ONNX Runtime's results; None where it gives an error."""
        try:
            self._session = self._session or self.session_of(self.model)
            return self._session.run(None, feed)  # type: ignore[no-any-return]
        except Exception:  # ONNX Runtime has no common class of its errors
            return None

    def check(
        self,
        feed: dict[str, Any],
        expected: Sequence[Any] | None = None,
        rtol: float = 1e-5,
        refuses: bool = False,
        atol: float = 0,
    ) -> str:
        """ "equal", or the code of the error that both modes give where ONNX Runtime gives one. `expected`
        stands in for its results, `refuses` for its error.
        """
        wanted = None if refuses else self.expected(feed) if expected is None else expected
        said = {self._check(machine, feed, wanted, (rtol, atol)) for machine in self.machines}
        assert len(said) == 1, (feed, said)
        return said.pop()

    def _check(
        self, machine: Any, feed: dict[str, Any], wanted: Sequence[Any] | None, limits: tuple[float, float]
    ) -> str:
        got, error = self._run(machine, feed)
        if error is not None:
            assert not isinstance(error, InternalError)
            assert wanted is None, (feed, str(error))
            return error.code
        assert wanted is not None, (feed, got)
        for mine, theirs in zip(got if len(wanted) > 1 else [got], wanted, strict=True):
            array = mine.numpy()
            assert array.dtype == theirs.dtype
            assert array.shape == theirs.shape, (feed, array, theirs)
            np.testing.assert_allclose(array, theirs, *limits, err_msg=str(feed))
        return "equal"

    def _run(self, machine: Any, feed: dict[str, Any]) -> tuple[Any, HeddleError | None]:
        try:
            return machine["main"](*(np.asarray(feed[name]) for name in self.names)), None
        except HeddleError as error:
            return None, error
