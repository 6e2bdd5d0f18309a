"""Counts of objects: who holds one, and what dies with its last holder.

A value is a kind and a payload; from `Kind.TENSOR` on the payload points behind an object's head:

    kind           behind the head
     7 tensor      DLTensor, sizes
     8 shape       Counted, sizes
     9 tuple       Counted, values
    10 closure     Closure, bound values
    11 storage     Storage, memory
    12 foreign     nothing: the owner is an object of the host's
    13 data        Data, fields
    14 reference   Reference

One program runs on one thread, so counts are plain, but for those of storages: tensors that went out to the
host are dropped on any thread. Objects of the host are dropped through the list `deferred` of the context
while the program runs without the interpreter's lock.
"""

from heddle.runtime.native.abi import (
    Closure,
    Context,
    Counted,
    Data,
    Flag,
    Head,
    HostObject,
    Kind,
    Storage,
    Value,
)
from heddle.runtime.native.source.memory import pool_give
from heddle.runtime.native.source.system import free, simplified
from heddle.runtime.native.source.values import (
    bound_values,
    fields_of,
    head_of,
    held_by,
    is_on_storage,
    items_of,
    kind_at,
    payload_behind,
    payload_of,
    set_value,
    shared_count,
)
from heddle.systems.types import Address, Function, Pointer, i32, i64
from heddle.systems.words import (
    ACQ_REL,
    ACQUIRE,
    RELAXED,
    Global,
    address,
    cast,
    export,
    inline,
    native,
    null,
)

HostDrop = Function[[Pointer[HostObject]], None]
host_drop = Global(HostDrop)  # drops an object of the host; its lock is held


# ---- one holder more


@inline
def hold_storage(storage: Address) -> None:
    """Count one reference more of a storage, which threads share."""
    shared_count(storage).add(1, RELAXED)


@inline
def hold(payload: Address) -> None:
    """Of an object that is no storage."""
    head_of(payload).count += 1


@inline
def retain(kind: i32, payload: Address) -> None:
    """Count one reference more of a value; numbers have none."""
    if kind >= Kind.TENSOR:
        if kind == Kind.STORAGE:
            hold_storage(payload)
        else:
            hold(payload)


@export
def heddle_retain(kind: i32, payload: Address) -> None:
    """`retain`, for compiled programs."""
    retain(kind, payload)


@inline
def retain_storage(storage: Address) -> None:
    """Whoever calls is a holder: where it is the only one, nobody else can reach the count."""
    count = shared_count(storage)
    if count.load(RELAXED) == 1:
        count.store(2, RELAXED)
    else:
        count.add(1, RELAXED)


# ---- one holder less


@inline
def release_storage(storage: Address) -> None:
    """Where the count is one, nobody else can reach the storage, so that counting needs no lock."""
    count = shared_count(storage)
    if count.load(ACQUIRE) == 1 or count.sub(1, ACQ_REL) == 1:
        pool_give(cast(Pointer[Storage], storage))


@simplified
@export
def heddle_release(context: Pointer[Context], kind: i32, payload: Address) -> None:
    """The context is null where the interpreter's lock is held."""
    if kind < Kind.TENSOR:
        return
    if kind == Kind.STORAGE:
        release_storage(payload)
        return
    head = head_of(payload)
    left = head.count - 1
    head.count = left
    if left != 0:
        return
    # A tensor of its own on a storage of the pool's, the usual case, needs no list.
    if kind == Kind.TENSOR and head.flags == 0 and is_on_storage(head):
        release_storage(head.owner)
        free(head)
        return
    destroy(context, head)


@simplified
@native
def destroy(context: Pointer[Context], first: Pointer[Head]) -> None:
    """Free an object that nothing holds any more, and all that die with it. They wait in a list (`link`), not
    on the stack: programs build tuples of tuples without end."""
    first.link = 0
    dead = first
    while dead != null:
        head = dead
        dead = let_parts_go(head, cast(Pointer[Head], head.link))
        if head.flags & Flag.FOREIGN_OWNER != 0:
            drop_foreign(context, head)
        elif head.flags & Flag.IN_FRAME == 0:
            free(head)


@inline
def let_parts_go(head: Pointer[Head], dead: Pointer[Head]) -> Pointer[Head]:
    """What an object holds has one holder less; gives the list of what is dead by now."""
    kind = head.kind
    payload = payload_behind(head)
    if kind == Kind.TENSOR:
        owner = head.owner
        if head.flags & Flag.FOREIGN_OWNER == 0 and owner != null:
            dead = let_go(dead, kind_at(owner), owner)
    elif kind == Kind.TUPLE:
        counted = cast(Pointer[Counted], payload)
        dead = let_all_go(dead, items_of(counted), counted.count)
    elif kind == Kind.CLOSURE:
        closure = cast(Pointer[Closure], payload)
        dead = let_all_go(dead, bound_values(closure), closure.num_bound)
    elif kind == Kind.DATA:
        data = cast(Pointer[Data], payload)
        dead = let_all_go(dead, fields_of(data), data.count)
    elif kind == Kind.REFERENCE:
        dead = let_all_go(dead, held_by(payload), 1)
    return dead


@inline
def let_go(dead: Pointer[Head], kind: i32, payload: Address) -> Pointer[Head]:
    """One holder less; an object that dies joins the list."""
    if kind == Kind.STORAGE:
        release_storage(payload)
        return dead
    head = head_of(payload)
    left = head.count - 1
    head.count = left
    if left != 0:
        return dead
    head.link = address(dead)
    return head


@simplified
@native
def let_all_go(dead: Pointer[Head], values: Pointer[Value], count: i64) -> Pointer[Head]:
    """Count one reference less of each value. Gives the list of dead objects, longer by those that died."""
    number: i64 = 0
    while number < count:
        kind = values[number].kind
        if kind >= Kind.TENSOR:
            dead = let_go(dead, kind, payload_of(values[number]))
        number += 1
    return dead


@simplified
@export
def heddle_release_all(context: Pointer[Context], values: Pointer[Value], count: i64) -> None:
    """Clear registers."""
    number: i64 = 0
    while number < count:
        register = values[number]
        kind = register.kind
        if kind >= Kind.TENSOR:
            payload = payload_of(register)
            register.kind = Kind.NONE
            heddle_release(context, kind, payload)
        number += 1


# ---- objects of the host's


@native
def drop_foreign(context: Pointer[Context], head: Pointer[Head]) -> None:
    """Free an object that holds one of the host's; while the program runs unlocked it waits in the list."""
    if context != null and context.state != null:
        head.link = address(context.deferred)
        context.deferred = cast(Address, head)
        return
    drop = host_drop.value
    if drop != null:
        drop(cast(Pointer[HostObject], head.owner))
    free(head)


@native
def drop_deferred(context: Pointer[Context]) -> None:
    """Drop what waits. The interpreter's lock is held."""
    while context.deferred != null:
        head = cast(Pointer[Head], context.deferred)
        context.deferred = cast(Address, head.link)
        drop_foreign(null, head)


# ---- registers


@inline
def put(context: Pointer[Context], register: Pointer[Value], kind: i32, payload: Address) -> None:
    """Put a value into a register; the count of the new one is the register's."""
    old_kind = register.kind
    old = payload_of(register)
    set_value(register, kind, payload)
    if old_kind >= Kind.TENSOR:
        heddle_release(context, old_kind, old)


@simplified
@export
def heddle_put(context: Pointer[Context], register: Pointer[Value], kind: i32, payload: Address) -> None:
    """`put`, for compiled programs."""
    put(context, register, kind, payload)


@simplified
@export
def heddle_copy(context: Pointer[Context], register: Pointer[Value], value: Pointer[Value]) -> None:
    """Put a value into a register, which lets go of what it held."""
    kind = value.kind
    payload = payload_of(value)
    retain(kind, payload)
    put(context, register, kind, payload)


@inline
def copy_values(to: Pointer[Value], source: Pointer[Value], count: i64) -> None:
    """Copies of values to registers that hold nothing. Part by part: so they were written just before, and a
    load of both would wait for that."""
    number: i64 = 0
    while number < count:
        value = source[number]
        register = to[number]
        kind = value.kind
        payload = payload_of(value)
        register.zero = value.zero
        set_value(register, kind, payload)
        retain(kind, payload)
        number += 1
