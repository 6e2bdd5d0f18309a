import ctypes

import pytest

from heddle.systems.types import (
    Address,
    Array,
    Atomic,
    Function,
    Pointer,
    Struct,
    ctype_of,
    i8,
    i16,
    i32,
    i64,
    scalars_of,
    u8,
    u16,
    u64,
)


class Inner(Struct):
    small: i8
    wide: u64


class Outer(Struct):
    first: u8
    inner: Inner
    short: i16
    shared: Atomic[i32]
    many: Array[Inner, 3]
    link: Pointer["Outer"]
    call: Function[[Address], None]
    last: u8


class Nothing(Struct):
    pass


@pytest.mark.parametrize("struct", [Inner, Outer, Nothing])
def test_layout_is_that_of_c(struct):
    made = ctype_of(struct)
    assert struct.layout.size_bytes == ctypes.sizeof(made)
    for name, field in struct.layout.fields.items():
        assert field.offset_bytes == getattr(made, name).offset
        assert field.type.size_bytes == getattr(made, name).size


def test_a_structure_may_point_to_itself():
    assert Outer.layout.fields["link"].type.target is Outer.layout


def test_scalars_lie_where_the_fields_do():
    found = [at for at, _ in scalars_of(Outer.layout)]
    assert found == sorted(set(found))
    assert len(found) == 1 + 2 + 1 + 1 + 3 * 2 + 3


@pytest.mark.parametrize("kind", [i8, i16, i32, i64, u8, u16, u64])
@pytest.mark.parametrize("value", [0, 1, -1, 127, 128, 255, 256, 1 << 63, (1 << 64) - 1, -(1 << 63)])
def test_integers_wrap_like_c(kind, value):
    assert kind.wrap(value) == ctype_of(kind)(value).value
    assert kind.least <= kind.wrap(value) <= kind.most
