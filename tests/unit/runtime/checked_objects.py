"""Objects of programs in the checking interpreter: a context, its pools, and registers."""

from heddle.runtime.native import abi
from heddle.runtime.native.abi import Kind, Status
from heddle.systems.types import Address, ArrayType, i64, sized
from tests.unit.runtime.native_machine import books, new_pool

VALUE, TENSOR, HEAD = abi.Value.layout, abi.DLTensor.layout, abi.Head.layout
FLOAT32, INT64, BOOL, FLOAT16X8 = 0x12002, 0x14000, 0x10806, 0x81002


class Objects:
    """A context with pools and registers, for one machine."""

    def __init__(self, machine, num_registers=8, num_pools=1):
        self.machine = machine
        self.pools = [new_pool(machine, device_type=1, device_id=n) for n in range(num_pools)]
        self.context = machine.new(abi.Context.layout, "the context")
        table = machine.new(ArrayType(i64, 1 + num_pools), "the pools")
        for number, word in enumerate([num_pools, *self.pools]):
            machine.store(table + 8 * number, i64, word)
        self.set_context("pools", table)
        self.set_context("error_place", -1)
        machine.store(machine.global_at("host_drop"), Address, machine.function(self.drop))
        self.registers = machine.new(ArrayType(VALUE, num_registers), "the registers")
        self.count = num_registers
        self.dropped = []

    def drop(self, owner):
        self.dropped.append(owner)
        return 0

    def set_context(self, name, value):
        item = abi.Context.layout.fields[name]
        self.machine.store(self.context + item.offset_bytes, sized(item.type), value)

    def get_context(self, name):
        return self.machine.field(self.context, abi.Context.layout, name)

    def register(self, number):
        return self.registers + 16 * number

    def kind(self, number):
        return self.machine.field(self.register(number), VALUE, "kind")

    def payload(self, number):
        return self.machine.field(self.register(number), VALUE, "payload")

    def write(self, at, kind, payload):
        for name, value in (("kind", kind), ("zero", 0), ("payload", payload)):
            item = VALUE.fields[name]
            self.machine.store(at + item.offset_bytes, item.type, value)

    def set(self, number, kind, payload):
        self.write(self.register(number), kind, payload)

    def holders(self, payload):
        return self.machine.field(payload - abi.HEAD_BYTES, HEAD, "count")

    def words(self, *words):
        at = self.machine.new(ArrayType(i64, max(len(words), 1)), "words")
        for number, word in enumerate(words):
            self.machine.store(at + 8 * number, i64, word)
        return at

    def values(self, *numbers):
        """Copies of registers side by side, not counted."""
        at = self.machine.new(ArrayType(VALUE, max(len(numbers), 1)), "arguments")
        for place, number in enumerate(numbers):
            self.write(at + 16 * place, self.kind(number), self.payload(number))
        return at

    def call(self, name, *args):
        return self.machine.call(name, self.context, *args)

    # ---- what programs do

    def storage(self, to, *sizes, element=4, device=0):
        return self.call(
            "heddle_alloc_storage", self.register(to), len(sizes), self.words(*sizes), element, device
        )

    def tensor(self, to, storage, *sizes, start=0, dtype=FLOAT32):
        payload = self.payload(storage)
        given = self.words(*sizes)
        return self.call("heddle_alloc_tensor", self.register(to), payload, start, len(sizes), given, dtype)

    def new_tensor(self, to, *sizes, dtype=FLOAT32):
        """A tensor that is the only holder of its storage."""
        assert self.storage(to, 4096, element=1) == Status.DONE
        assert self.tensor(to, to, *sizes, dtype=dtype) == Status.DONE

    def reshape(self, to, tensor, *sizes):
        given = self.words(*sizes)
        return self.call("heddle_reshape", self.register(to), self.payload(tensor), len(sizes), given)

    def tuple(self, to, *items):
        return self.call("heddle_make_tuple", self.register(to), len(items), self.values(*items))

    def closure(self, to, function, *items):
        given = self.values(*items)
        return self.call("heddle_make_closure", self.register(to), function, len(items), given)

    def data(self, to, tag, *items):
        given = self.values(*items)
        return self.call("heddle_make_data", self.register(to), tag, len(items), given)

    def field_of(self, to, source, index):
        return self.call("heddle_get_field", self.register(to), self.register(source), index)

    def has_tag(self, number, tag):
        return self.machine.call("heddle_has_tag", self.register(number), tag)

    def reference(self, to, value):
        return self.call("heddle_make_ref", self.register(to), self.register(value))

    def read(self, to, ref):
        return self.call("heddle_read_ref", self.register(to), self.register(ref))

    def write_ref(self, ref, value):
        return self.call("heddle_write_ref", self.register(ref), self.register(value))

    def shape(self, to, *sizes):
        return self.call("heddle_make_shape", self.register(to), len(sizes), self.words(*sizes))

    def item(self, to, source, index):
        return self.call("heddle_tuple_getitem", self.register(to), self.payload(source), index)

    def copy(self, to, source):
        self.call("heddle_copy", self.register(to), self.register(source))

    def clear(self, number):
        self.call("heddle_put", self.register(number), Kind.NONE, 0)

    def foreign(self, to, owner, kind=Kind.FOREIGN, size_bytes=0, flags=abi.Flag.FOREIGN_OWNER):
        made = self.machine.call("heddle_new", kind, size_bytes, owner, flags)
        self.call("heddle_put", self.register(to), kind, made)
        return made

    def lent(self, to, owner, size):
        """A tensor of the host's."""
        made = self.foreign(to, owner, Kind.TENSOR, TENSOR.size_bytes)
        words = {"data": 0, "device_type": 1, "device_id": 0, "rank": 1, "dtype": FLOAT32}
        for name, value in (words | {"sizes": self.words(size)}).items():
            item = TENSOR.fields[name]
            self.machine.store(made + item.offset_bytes, sized(item.type), value)

    def field(self, number, name):
        return self.machine.field(self.payload(number), TENSOR, name)

    def sizes(self, number):
        at = self.field(number, "sizes")
        return [self.machine.load(at + 8 * axis, i64) for axis in range(self.field(number, "rank"))]

    def end(self):
        self.call("heddle_release_all", self.registers, self.count)
        for pool in self.pools:
            assert books(self.machine, pool, "bytes_in_use", "lock") == (0, 0)
            self.machine.call("heddle_pool_trim", pool)
