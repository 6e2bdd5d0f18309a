"""CanonicalizeBindings: names for names and parts of known tuples."""

from heddle.ir.instrument import VerifyEach, verify_function
from heddle.ir.structural import assert_structural_equal
from heddle.ir.transform import PassContext
from heddle.relax.transform import CanonicalizeBindings
from heddle.script import from_source
from heddle.script import ir as I
from heddle.script import relax as R


def canonical(mod):
    with PassContext(instruments=[VerifyEach()]):
        return CanonicalizeBindings()(mod)


def test_a_part_of_a_tuple_that_leaves_its_block_keeps_its_name():
    @I.ir_module
    class Parts:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                both = (a, x)
                R.output(both)
            y = both[0]
            z = R.add(y, both[1])
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                both = (a, x)
                R.output(both)
            y = both[0]
            z = R.add(y, x)
            return z

    assert_structural_equal(canonical(Parts), Expected)


def test_parts_are_seen_through_inside_a_block():
    @I.ir_module
    class Parts:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                both = (a, x)
                y = both[0]
                z = R.add(y, both[1])
                R.output(z)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
            with R.dataflow():
                a = R.exp(x)
                z = R.add(a, x)
                R.output(z)
            return z

    assert_structural_equal(canonical(Parts), Expected)


def test_a_promoted_variable_whose_type_changes_is_renamed_everywhere() -> None:
    """`gv` takes the place of `lv`; with the wider type of its value it is a new variable for `other` too."""
    mod = from_source(
        """
from heddle.script import ir as I, relax as R, tir as T
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, "n"), "float32")):
        n = T.int64()
        with R.dataflow():
            pair: R.Tuple(R.Tensor((1, n), "float32"), R.Tensor((1, n), "float32")) = (x, x)
            first: R.Tensor((1, 1), "float32") = pair[0]
            lv: R.Tensor((1, 1), "float32") = R.exp(first)
            other: R.Tensor((1, 1), "float32") = R.tanh(lv)
            gv: R.Tensor((1, 1), "float32") = lv
            R.output(gv, other)
        return (gv, other)
"""
    )
    made = CanonicalizeBindings(True)(mod)
    assert not [finding for func in made.functions.values() for finding in verify_function(func, made)]
