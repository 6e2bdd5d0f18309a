import traceback
from functools import partial

import numpy as np
import pytest

from heddle.runtime import (
    Array,
    DataType,
    Function,
    Map,
    Shape,
    Tensor,
    convert,
    cpu,
    get_global_func,
    list_global_func_names,
    register_global_func,
    remove_global_func,
    tensor,
)
from heddle.support.diagnostics import HeddleError, UsageError


@pytest.fixture
def name():
    yield "test.function"
    if get_global_func("test.function", allow_missing=True) is not None:
        remove_global_func("test.function")


def test_register_get_call_remove(name):
    @register_global_func(name)
    def add(a, b):
        return a + b

    assert add(1, 2) == 3
    assert get_global_func(name)(1, 2) == 3
    assert name in list_global_func_names()
    with pytest.raises(UsageError, match=r"S0201.*test_function\.py.*test_function\.py"):
        register_global_func(name, lambda: 0)
    register_global_func(name, lambda a, b: a - b, override=True)
    assert get_global_func(name)(1, 2) == -1
    remove_global_func(name)
    assert get_global_func(name, allow_missing=True) is None
    with pytest.raises(ValueError, match="U0401"):
        get_global_func(name)
    with pytest.raises(AttributeError):
        remove_global_func(name)


def test_bare_decorator_uses_the_function_name():
    @register_global_func
    def test_bare_name():
        return 1

    assert get_global_func("test_bare_name")() == 1
    remove_global_func("test_bare_name")


def test_misspelt_name_is_suggested(name):
    register_global_func(name, lambda: 0)
    with pytest.raises(HeddleError, match=r"did you mean 'test\.function'"):
        get_global_func("test.functoin")


@pytest.mark.fact("6.2")
def test_arguments_are_converted():
    seen = Function(lambda *args: seen_args.extend(args))
    seen_args = []
    seen(
        np.ones(3),
        [1, (2, np.zeros(2))],
        np.float32(2.5),
        np.int64(3),
        {"a": [1]},
        np.dtype("int8"),
        np.float32,
        len,
    )
    array, nested, real, integer, mapping, dtype, scalar_type, function = seen_args
    assert isinstance(array, Tensor)
    assert isinstance(nested, Array)
    assert isinstance(nested[1], Array)
    assert isinstance(nested[1][1], Tensor)
    assert (type(real), real) == (float, 2.5)
    assert (type(integer), integer) == (int, 3)
    assert isinstance(mapping, Map)
    assert isinstance(mapping["a"], Array)
    assert dtype == DataType("int8")
    assert scalar_type == "float32"
    assert isinstance(function, Function)


def test_values_that_stay():
    thing = object()
    for value in (1, 2.0, True, "s", None, Shape([1]), cpu(0), DataType("int8"), tensor([1]), thing):
        assert convert(value) is value
    assert isinstance(convert(partial(max, 1)), Function)
    assert isinstance(convert((1, 2)), Array)
    assert isinstance(convert(Shape([1])), Shape)


def test_results_are_converted():
    result = Function(lambda: (np.ones(2), [1]))()
    assert isinstance(result, Array)
    assert isinstance(result[0], Tensor)


def test_exceptions_keep_type_and_innermost_frame():
    def callback():
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        Function(callback)()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_not_callable():
    with pytest.raises(UsageError, match="U0402"):
        Function(3)


def test_array_release_item_frees_for_every_holder():
    value = tensor([1.0])
    array = Array([value, 2])
    other = array
    array.release_item(0)
    assert other == (None, 2)
    with pytest.raises(IndexError):
        array.release_item(5)
