"""ai.onnx.ml against ONNX Runtime: trees of random shapes, linear models, features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import heddle
from heddle import relax
from heddle.frontend.onnx import from_onnx
from heddle.support.diagnostics import HeddleError, ImportModelError
from tests.unit.frontend.onnx.contrib.builders import generator, normal
from tests.unit.frontend.onnx.contrib.case import MODES, Case, check, expected, machines

ML = "ai.onnx.ml"
FEATURES = 5


def ml(op: str, feed: dict[str, Any], outputs: int = 1, **attrs: Any) -> Case:
    names = tuple(f"y{k}" for k in range(outputs))
    return Case(op, feed, attrs, names, domain=ML, opsets={"": 18, ML: 3})


def rows(*seed: int, count: int = 41) -> np.ndarray:
    """With numbers that nodes compare with, and NaN."""
    made = np.round(normal(generator(*seed), count, FEATURES), 1)
    made[generator(*seed, 1).random(made.shape) < 0.05] = np.nan
    return made


class Forest:
    """Random trees as the attributes of operator sets 1 and 3."""

    def __init__(self, seed: int, trees: int, depth: int, modes: tuple[str, ...], lost: bool) -> None:
        self.rng, self.modes, self.lost = generator(seed), modes, lost
        names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
        self.nodes: dict[str, list[Any]] = {name: [] for name in (*names, "missing_value_tracks_true")}
        self.leaves: list[tuple[int, int]] = []
        for tree in range(trees):
            self.count = 0
            self.grow(tree, depth if tree else 0)

    def grow(self, tree: int, depth: int) -> int:
        """The first tree is one leaf; others have branches of different depths."""
        number, self.count = self.count, self.count + 1
        is_leaf = depth == 0 or self.rng.random() < 0.2
        row = {
            "treeids": tree,
            "nodeids": number,
            "featureids": int(self.rng.integers(FEATURES)),
            "modes": "LEAF" if is_leaf else str(self.rng.choice(self.modes)),
            "values": float(np.round(self.rng.standard_normal(), 1)),
            "truenodeids": 0,
            "falsenodeids": 0,
            "missing_value_tracks_true": int(self.lost and self.rng.random() < 0.5),
        }
        place = len(self.nodes["treeids"])
        for name, value in row.items():
            self.nodes[name].append(value)
        if is_leaf:
            self.leaves.append((tree, number))
        else:
            self.nodes["truenodeids"][place] = self.grow(tree, depth - 1)
            self.nodes["falsenodeids"][place] = self.grow(tree, depth - 1)
        return number

    def attrs(self, kind: str, targets: list[int], low: float = -1.0, every: bool = True) -> dict[str, Any]:
        """Each leaf has a weight for every one of the targets, or for one of them."""
        made = {f"nodes_{name}": values for name, values in self.nodes.items()}
        owned = [
            (*leaf, target)
            for leaf in self.leaves
            for target in (targets if every else [int(self.rng.choice(targets))])
        ]
        for name, column in zip(("treeids", "nodeids", "ids"), zip(*owned, strict=True), strict=True):
            made[f"{kind}_{name}"] = list(column)
        made[f"{kind}_weights"] = self.rng.uniform(low, 1, len(owned)).astype(np.float32).tolist()
        return made


ALL_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressor(aggregate: str, transform: str) -> None:
    forest = Forest(len(aggregate), 7, 5, ALL_MODES, lost=True)
    attrs = forest.attrs("target", [0, 1, 2])
    named = {"n_targets": 3, "aggregate_function": aggregate, "post_transform": transform}
    case = ml("TreeEnsembleRegressor", {"x": rows(1)}, **attrs, **named, base_values=[0.5, 0.0, -0.25])
    check(replace(case, free={"x": ("n", FEATURES)}), others=[replace(case, feed={"x": rows(2, count=1)})])


@pytest.mark.parametrize("mode", ALL_MODES)
def test_modes_of_nodes(mode: str) -> None:
    forest = Forest(3, 5, 4, (mode,), lost=False)
    check(ml("TreeEnsembleRegressor", {"x": rows(3)}, **forest.attrs("target", [0]), n_targets=1))


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
def test_regressor_of_other_types(dtype: str) -> None:
    forest = Forest(4, 5, 4, ("BRANCH_LEQ",), lost=False)
    x = np.nan_to_num(rows(4) * 3).astype(dtype)
    case = ml("TreeEnsembleRegressor", {"x": x}, **forest.attrs("target", [0]), n_targets=1)
    wide = x.astype(
        np.float64 if dtype == "float64" else np.float32
    )  # ONNX Runtime has no kernel for integers
    check(case, expected(replace(case, feed={"x": wide})))


def test_regressor_of_double_precision() -> None:
    forest = Forest(4, 5, 4, ("BRANCH_LEQ",), lost=False)
    attrs = forest.attrs("target", [0])
    for name in ("nodes_values", "target_weights"):
        attrs[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attrs.pop(name), np.float64), name)
    check(ml("TreeEnsembleRegressor", {"x": rows(4).astype(np.float64)}, **attrs, n_targets=1))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("every", [True, False])
def test_classifier(every: bool, transform: str) -> None:
    forest = Forest(5, 9, 4, ("BRANCH_LEQ", "BRANCH_LT"), lost=True)
    attrs = forest.attrs("class", [0, 1, 2], low=0.0 if not every else -1.0, every=every)
    named = {"classlabels_int64s": [7, 3, 11], "post_transform": transform}
    check(ml("TreeEnsembleClassifier", {"x": rows(5)}, 2, **attrs, **named))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [0.0, -1.0])
@pytest.mark.parametrize("base", [[], [0.25]])
def test_classifier_of_two(base: list[float], low: float, transform: str) -> None:
    """Weights for one class: shares of one where all are positive, differences otherwise."""
    forest = Forest(6, 3, 4, ("BRANCH_LEQ",), lost=False)
    attrs = forest.attrs("class", [0], low=low)
    named = {"classlabels_int64s": [7, 3], "post_transform": transform}
    if base:
        named["base_values"] = base
    check(ml("TreeEnsembleClassifier", {"x": rows(6)}, 2, **attrs, **named))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [1, 2, 4])
def test_linear_classifier(classes: int, transform: str) -> None:
    rng = generator(classes)
    labels = list(range(5, 5 + max(2, classes)))
    x = normal(rng, 23, FEATURES)
    case = ml(
        "LinearClassifier",
        {"x": x},
        2,
        coefficients=normal(rng, classes * FEATURES).tolist(),
        intercepts=normal(rng, classes).tolist(),
        classlabels_ints=labels,
        post_transform=transform,
    )
    check(replace(case, free={"x": ("n", FEATURES)}), others=[replace(case, feed={"x": x[:1]})])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_regressor(transform: str) -> None:
    rng = generator(8)
    coefficients = rng.uniform(0.01, 0.09, 3 * FEATURES).tolist()
    x = rng.uniform(0.1, 1, (7, FEATURES)).astype(np.float32)
    attrs = {"coefficients": coefficients, "intercepts": [0.1, 0.2, 0.3], "targets": 3}
    check(ml("LinearRegressor", {"x": x}, **attrs, post_transform=transform))


@pytest.mark.parametrize("shape", [(6, FEATURES), (FEATURES,)])
@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm: str, shape: tuple[int, ...]) -> None:
    x = normal(generator(len(shape)), *shape)
    if len(shape) == 2:
        x[2] = 0
    check(ml("Normalizer", {"x": x}, norm=norm))


@pytest.mark.parametrize("replaced", [float("nan"), 0.5])
@pytest.mark.parametrize("values", [[1.5], [1.0, 2.0, 3.0, 4.0, 5.0]])
def test_imputer(values: list[float], replaced: float) -> None:
    x = rows(9)
    x[::3, 2] = 0.5
    check(ml("Imputer", {"x": x}, imputed_value_floats=values, replaced_value_float=replaced))


def test_imputer_of_integers() -> None:
    x = generator(1).integers(-2, 3, (7, FEATURES))
    check(ml("Imputer", {"x": x}, imputed_value_int64s=[9, 8, 7, 6, 5], replaced_value_int64=-1))


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_one_hot_encoder(dtype: str) -> None:
    x = generator(2).integers(0, 6, (4, 3)).astype(dtype)
    check(ml("OneHotEncoder", {"x": x}, cats_int64s=[0, 2, 5], zeros=1))


def test_unknown_category() -> None:
    """Where `zeros` is 0, a category that is not on the list is refused, as ONNX Runtime does."""
    case = ml("OneHotEncoder", {"x": np.array([2, 0, 5])}, cats_int64s=[0, 2, 5], zeros=0)
    built = machines(case)
    wrong = replace(case, feed={"x": np.array([2, 0, 4])})
    for machine in built:
        assert np.array_equal(machine["main"](case.feed["x"]).numpy(), expected(case)[0])
        with pytest.raises(HeddleError):
            machine["main"](wrong.feed["x"])
    with pytest.raises(Exception, match="Unknown"):
        expected(wrong)


def test_feature_vectorizer() -> None:
    rng = generator(10)
    feed = {"a": normal(rng, 4, 3), "b": normal(rng, 4, 2), "c": normal(rng, 4, 5)}
    check(ml("FeatureVectorizer", feed, inputdimensions=[3, 2, 5]))


def text_model(op: str, inputs: dict[str, Any], outputs: int, **attrs: Any) -> onnx.ModelProto:
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, list(inputs), names, domain=ML, **attrs)
    infos = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run_texts(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> None:
    """By `heddle.backend`, which gives and takes strings as numpy's objects."""
    import heddle.backend
    import onnxruntime

    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    got = heddle.backend.prepare(model).run(list(feed.values()))
    for mine, theirs in zip(got, wanted, strict=True):
        if theirs.dtype == object:
            assert np.asarray(mine).tolist() == theirs.tolist()
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_weights_of_both_classes(low: float) -> None:
    """As forests have them whose leaves hold shares. The label is that of the larger score; ONNX Runtime
    gives 1 or 0 here, which are no labels of the model."""
    forest = Forest(6, 3, 4, ("BRANCH_LEQ",), lost=False)
    attrs = forest.attrs("class", [0, 1], low=low)
    case = ml("TreeEnsembleClassifier", {"x": rows(6)}, 2, **attrs, classlabels_int64s=[7, 3])
    scores = expected(case)[1]
    check(case, [np.array([7, 3])[scores.argmax(axis=1)], scores])


WORDS = np.array(["b", "a", "none", "c", "b"], object)
TEXT, INT64, FLOAT = onnx.TensorProto.STRING, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT


def test_categories_of_words() -> None:
    names = {"cats_strings": ["a", "b", "c"], "cats_int64s": [4, 5, 6]}
    run_texts(text_model("CategoryMapper", {"x": (TEXT, [5])}, 1, **names, default_int64=9), {"x": WORDS})
    numbers = np.array([[4, 6], [7, 5]])
    model = text_model("CategoryMapper", {"x": (INT64, [2, 2])}, 1, **names, default_string="rest")
    run_texts(model, {"x": numbers})


def test_one_hot_of_words() -> None:
    model = text_model("OneHotEncoder", {"x": (TEXT, [5])}, 1, cats_strings=["a", "b", "c"], zeros=1)
    run_texts(model, {"x": WORDS})


def test_labels_of_words() -> None:
    forest = Forest(5, 9, 4, ("BRANCH_LEQ",), lost=False)
    attrs = {**forest.attrs("class", [0, 1, 2]), "classlabels_strings": ["red", "green", "blue"]}
    x = np.nan_to_num(rows(5))
    run_texts(text_model("TreeEnsembleClassifier", {"x": (FLOAT, x.shape)}, 2, **attrs), {"x": x})


BAD = {
    "mode": ({"nodes_modes": ["BRANCH_LIKE"]}, "unknown"),
    "child": ({"nodes_truenodeids": [77]}, "do not exist"),
    "target": ({"target_ids": [5]}, "target 5"),
    "lengths": ({"target_weights": [1.0]}, "differ in length"),
    "transform": ({"post_transform": "CUBE"}, "post_transform"),
    "aggregate": ({"aggregate_function": "MOST"}, "aggregate_function"),
}


@pytest.mark.parametrize("name", BAD)
def test_damaged_trees(name: str) -> None:
    change, text = BAD[name]
    forest = Forest(7, 3, 3, ("BRANCH_LEQ",), lost=False)
    attrs: dict[str, Any] = {**forest.attrs("target", [0]), "n_targets": 1}
    for key, value in change.items():
        if isinstance(value, str) or key == "target_weights":
            attrs[key] = value
        else:
            places = [k for k, mode in enumerate(attrs["nodes_modes"]) if mode != "LEAF"]
            place = places[0] if key.startswith("nodes") else 0
            attrs[key] = [*attrs[key][:place], value[0], *attrs[key][place + 1 :]]
    with pytest.raises(ImportModelError, match=text) as caught:
        from_onnx(ml("TreeEnsembleRegressor", {"x": rows(1)}, **attrs).model())
    assert caught.value.code == "N0106"


def test_trees_in_a_circle() -> None:
    forest = Forest(7, 3, 3, ("BRANCH_LEQ",), lost=False)
    attrs = forest.attrs("target", [0])
    place = next(k for k, mode in enumerate(attrs["nodes_modes"]) if mode != "LEAF")
    attrs["nodes_truenodeids"][place] = attrs["nodes_nodeids"][place]
    with pytest.raises(ImportModelError, match="cycle"):
        from_onnx(ml("TreeEnsembleRegressor", {"x": rows(1)}, **attrs, n_targets=1).model())


@pytest.mark.parametrize("mode", MODES)
def test_empty_batch(mode: str) -> None:
    forest = Forest(5, 9, 4, ("BRANCH_LEQ",), lost=False)
    case = ml("TreeEnsembleRegressor", {"x": rows(5)}, **forest.attrs("target", [0]), n_targets=1)
    module = from_onnx(replace(case, free={"x": ("n", FEATURES)}).model())
    machine = relax.VirtualMachine(heddle.compile(module, target="llvm", exec_mode=mode), heddle.cpu())
    assert machine["main"](rows(5)[:0]).numpy().shape == (0, 1)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_weights_of_the_second_class(low: float, transform: str) -> None:
    forest = Forest(6, 3, 4, ("BRANCH_LEQ",), lost=False)
    attrs = forest.attrs("class", [1], low=low)
    named = {"classlabels_int64s": [7, 3], "post_transform": transform}
    check(ml("TreeEnsembleClassifier", {"x": rows(6)}, 2, **attrs, **named))


KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def machine_attrs(
    rng: np.random.Generator, kernel: str, vectors: int, rows_of_weights: int = 1
) -> dict[str, Any]:
    return {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.2, 2.0],
        "support_vectors": normal(rng, vectors * FEATURES).tolist(),
        "coefficients": normal(rng, rows_of_weights * vectors).tolist(),
    }


@pytest.mark.parametrize("one_class", [0, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_regressor(kernel: str, one_class: int) -> None:
    rng = generator(len(kernel))
    attrs = {**machine_attrs(rng, kernel, 7), "rho": [0.1], "n_supports": 7, "one_class": one_class}
    case = ml("SVMRegressor", {"x": normal(rng, 9, FEATURES)}, **attrs)
    check(
        replace(case, free={"x": ("n", FEATURES)}),
        others=[replace(case, feed={"x": normal(rng, 1, FEATURES)})],
    )


def test_regressor_without_vectors() -> None:
    rng = generator(1)
    attrs = {
        "kernel_type": "LINEAR",
        "coefficients": normal(rng, FEATURES).tolist(),
        "rho": [0.1],
        "n_supports": 0,
        "kernel_params": [0.0, 0.0, 0.0],  # ONNX Runtime wants them
    }
    check(ml("SVMRegressor", {"x": normal(rng, 9, FEATURES)}, **attrs))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("counts", [[2, 3], [2, 3, 2], [2, 1, 3, 2]])
@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_support_vector_classifier(kernel: str, counts: list[int], transform: str) -> None:
    rng = generator(len(counts))
    attrs = machine_attrs(rng, kernel, sum(counts), len(counts) - 1)
    attrs |= {"rho": normal(rng, len(counts) * (len(counts) - 1) // 2).tolist(), "vectors_per_class": counts}
    attrs |= {"classlabels_ints": [7, 3, 11, 5][: len(counts)], "post_transform": transform}
    check(ml("SVMClassifier", {"x": normal(rng, 9, FEATURES)}, 2, **attrs))


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
def test_probabilities_of_two_classes(transform: str) -> None:
    """ONNX Runtime comes to the probability in steps, and stops within 0.0025 of it."""
    rng = generator(2)
    attrs = {
        **machine_attrs(rng, "RBF", 5),
        "rho": [0.1],
        "vectors_per_class": [2, 3],
        "post_transform": transform,
    }
    attrs |= {"classlabels_ints": [7, 3], "prob_a": [-1.1], "prob_b": [0.1]}
    case = ml("SVMClassifier", {"x": normal(rng, 9, FEATURES)}, 2, **attrs)
    check(replace(case, rtol=0, atol=5e-3))


def test_probabilities_of_more_classes_are_refused() -> None:
    rng = generator(2)
    attrs = {**machine_attrs(rng, "RBF", 5, 2), "rho": [0.1] * 3, "vectors_per_class": [2, 1, 2]}
    attrs |= {"classlabels_ints": [7, 3, 4], "prob_a": [-1.1] * 3, "prob_b": [0.1] * 3}
    with pytest.raises(ImportModelError, match="step by step"):
        from_onnx(ml("SVMClassifier", {"x": normal(rng, 9, FEATURES)}, 2, **attrs).model())


def test_classifier_of_lines() -> None:
    rng = generator(3)
    attrs = {"kernel_type": "LINEAR", "coefficients": normal(rng, 3 * FEATURES).tolist(), "rho": [0.1]}
    attrs["kernel_params"] = [0.0, 0.0, 0.0]
    check(ml("SVMClassifier", {"x": normal(rng, 9, FEATURES)}, 2, **attrs, classlabels_ints=[7, 3, 4]))
