"""Inside a block there are its axes, and not the loops around it."""

import pytest

from heddle.script import from_source
from heddle.support.diagnostics import VerifyError
from heddle.tir.analysis.well_formedness import verify_well_formed
from tests.unit.schedule.programs import chain, matmul

BLOCK = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                {body}
"""


@pytest.mark.parametrize(
    ("body", "loop"),
    [
        ("C[vi, vj] = A[i, vj]", "i"),
        ("C[i, vj] = A[vi, vj]", "i"),
        ("C[vi, vj] = A[vi, vj] + T.Cast('float32', j)", "j"),
        ("for k in range(j):\n                    C[vi, vj] = A[vi, k]", "j"),
        ("if i < 3:\n                    C[vi, vj] = A[vi, vj]", "i"),
        (
            "with T.sblock('inner'):\n                    wi = T.axis.spatial(8, i)\n"
            "                    C[wi, vj] = A[wi, vj]",
            "i",
        ),
    ],
)
def test_a_block_that_uses_a_loop_around_it(body, loop):
    source = BLOCK.format(body=body)
    with pytest.raises(VerifyError, match=f"T0207.*'{loop}'"):
        verify_well_formed(from_source(source)["main"])
    assert verify_well_formed(from_source(source)["main"], assert_mode=False) is False


@pytest.mark.parametrize(
    "body",
    [
        "C[vi, vj] = A[vi, vj]",
        "for k in range(8):\n                    C[vi, k] = A[vi, k]",
        "for k in range(4):\n                    with T.sblock('inner'):\n"
        "                        wi = T.axis.spatial(8, vi)\n"
        "                        wk = T.axis.spatial(4, k)\n"
        "                        C[wi, wk] = A[wi, vj]",
    ],
)
def test_blocks_that_use_their_axes(body):
    assert verify_well_formed(from_source(BLOCK.format(body=body))["main"])


def test_programs_of_te():
    assert verify_well_formed(matmul())
    assert verify_well_formed(chain())


REDUCTION = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 8):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    {init}
                C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(
    "init", ["C[vi] = A[vi, vk]", "C[vk] = T.float32(0)", "C[vi] = T.Cast('float32', vi + vk)"]
)
def test_an_init_that_uses_a_reduction_axis(init):
    with pytest.raises(VerifyError, match=r"T0208.*'vk'"):
        verify_well_formed(from_source(REDUCTION.format(init=init))["main"])


@pytest.mark.parametrize("init", ["C[vi] = A[vi, 0]", "C[vi] = T.Cast('float32', vi)"])
def test_an_init_that_uses_a_spatial_axis(init):
    assert verify_well_formed(from_source(REDUCTION.format(init=init))["main"])
