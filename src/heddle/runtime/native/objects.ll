; Values of native programs: what compiled functions of the machine hold in their registers.
;
; A value is {i32 kind, i32 0, i64 payload}: 0 none, 1 int, 2 bool, 3 float; from 7 on the payload points into an
; object behind its head of 32 bytes. A tensor's payload is its DLTensor, so that kernels take values as they are.
;
;     kind           behind the head
;      7 tensor      DLTensor (48 bytes), sizes
;      8 shape       i64 count, sizes
;      9 tuple       i64 count, values
;     10 closure     i64 function, i64 count, bound values
;     11 storage     i64 bytes asked for, i64 bytes of the block, device, 8 unused, then the memory, aligned to 64
;     12 foreign     an object of the host language
;
; Objects are counted. One program runs on one thread, so counts are plain, but for those of storages: tensors that
; went out to the host language are dropped on any thread. Objects of the host language are dropped through the list
; `deferred` of the context while the program runs without the interpreter's lock.

@outside_storage = internal constant [63 x i8] c"tensor ends at byte %g of its storage, which has only %e bytes\00"
@too_large_view = internal constant [58 x i8] c"cannot view a tensor of %e elements as one of %g elements\00"
@no_chain = internal constant [68 x i8] c"expected a chain of rows, (((tensor, tensor), tensor), ...), got %v\00"
@ragged_chain = internal constant [78 x i8] c"rows of a chain differ: expected a dense one of %e bytes, got one of %g bytes\00"
@no_such_item = internal constant [58 x i8] c"tuple index %g is out of range: the tuple has %e elements\00"
@too_deep = internal constant [61 x i8] c"call depth exceeded: the stack has no room for another frame\00"
@bad_device = internal constant [54 x i8] c"device index %g is out of range: there are %e devices\00"

declare ptr @malloc(i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

; Small functions are inlined, and what has them is simplified (`heddle-fold`): see optimise.py.

; ---- counting

define void @heddle_retain(i32 %kind, ptr %payload) alwaysinline {
entry:
  %counted = icmp uge i32 %kind, 7
  br i1 %counted, label %count, label %out
count:
  %head = getelementptr i8, ptr %payload, i64 -32
  %shared = icmp eq i32 %kind, 11
  br i1 %shared, label %atomic, label %plain
atomic:
  %old = atomicrmw add ptr %head, i64 1 monotonic
  ret void
plain:
  %n = load i64, ptr %head
  %more = add i64 %n, 1
  store i64 %more, ptr %head
  ret void
out:
  ret void
}

; Where the count is one, nobody else can reach the storage, so that counting needs no lock.
define internal void @release_storage(ptr %payload) alwaysinline {
entry:
  %head = getelementptr i8, ptr %payload, i64 -32
  %now = load atomic i64, ptr %head acquire, align 8
  %alone = icmp eq i64 %now, 1
  br i1 %alone, label %give, label %count
count:
  %old = atomicrmw sub ptr %head, i64 1 acq_rel
  %last = icmp eq i64 %old, 1
  br i1 %last, label %give, label %out
give:
  call void @pool_give(ptr %payload)
  br label %out
out:
  ret void
}

; One holder more; whoever calls is one.
define internal void @retain_storage(ptr %payload) alwaysinline {
entry:
  %head = getelementptr i8, ptr %payload, i64 -32
  %now = load atomic i64, ptr %head monotonic, align 8
  %alone = icmp eq i64 %now, 1
  br i1 %alone, label %plain, label %locked
plain:
  store atomic i64 2, ptr %head monotonic, align 8
  ret void
locked:
  %old = atomicrmw add ptr %head, i64 1 monotonic
  ret void
}

; %context is null where the interpreter's lock is held.
define void @heddle_release(ptr %context, i32 %kind, ptr %payload) "heddle-fold" {
entry:
  %counted = icmp uge i32 %kind, 7
  br i1 %counted, label %count, label %out
count:
  %head = getelementptr i8, ptr %payload, i64 -32
  %shared = icmp eq i32 %kind, 11
  br i1 %shared, label %atomic, label %plain
atomic:
  call void @release_storage(ptr %payload)
  ret void
plain:
  %n = load i64, ptr %head
  %fewer = sub i64 %n, 1
  store i64 %fewer, ptr %head
  %dead = icmp eq i64 %fewer, 0
  br i1 %dead, label %end, label %out
end:
  ; A tensor of its own on a storage of the pool's, the usual case, needs no list.
  %is_tensor = icmp eq i32 %kind, 7
  br i1 %is_tensor, label %judge_flags, label %general
judge_flags:
  %flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %flags = load i32, ptr %flags_at
  %is_plain = icmp eq i32 %flags, 0
  %owner_at = getelementptr %Head, ptr %head, i32 0, i32 3
  %owner = load ptr, ptr %owner_at
  %is_owned = icmp ne ptr %owner, null
  %may_be_quick = and i1 %is_plain, %is_owned
  br i1 %may_be_quick, label %judge_owner, label %general
judge_owner:
  %owner_head = getelementptr i8, ptr %owner, i64 -32
  %owner_kind_at = getelementptr %Head, ptr %owner_head, i32 0, i32 1
  %owner_kind = load i32, ptr %owner_kind_at
  %on_storage = icmp eq i32 %owner_kind, 11
  br i1 %on_storage, label %quick, label %general
quick:
  call void @release_storage(ptr %owner)
  call void @free(ptr %head)
  ret void
general:
  call void @destroy(ptr %context, ptr %head)
  ret void
out:
  ret void
}

; Free an object that nothing counts any more, and all that die with it. They wait in a list (field `class`), not on the
; stack: programs build tuples of tuples without end.
define internal void @destroy(ptr %context, ptr %first) "heddle-fold" {
entry:
  %list = alloca ptr
  store ptr %first, ptr %list
  %end_at = getelementptr %Head, ptr %first, i32 0, i32 4
  store ptr null, ptr %end_at
  br label %next
next:
  %head = load ptr, ptr %list
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %out, label %work
work:
  %next_at = getelementptr %Head, ptr %head, i32 0, i32 4
  %following = load ptr, ptr %next_at
  store ptr %following, ptr %list
  %payload = getelementptr i8, ptr %head, i64 32
  %kind_at = getelementptr %Head, ptr %head, i32 0, i32 1
  %kind = load i32, ptr %kind_at
  switch i32 %kind, label %judge_owner [
    i32 7, label %tensor
    i32 9, label %tuple
    i32 10, label %closure
  ]
tensor:
  %tensor_flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %tensor_flags = load i32, ptr %tensor_flags_at
  %is_host = and i32 %tensor_flags, 1
  %host_owner = icmp ne i32 %is_host, 0
  br i1 %host_owner, label %foreign, label %own
own:
  %own_at = getelementptr %Head, ptr %head, i32 0, i32 3
  %own_owner = load ptr, ptr %own_at
  %unowned = icmp eq ptr %own_owner, null
  br i1 %unowned, label %plain_memory, label %release_owner
release_owner:
  %owner_kind_at = getelementptr i8, ptr %own_owner, i64 -24
  %owner_kind = load i32, ptr %owner_kind_at
  call void @let_go(ptr %list, i32 %owner_kind, ptr %own_owner)
  br label %plain_memory
tuple:
  %items = load i64, ptr %payload
  %first_item = getelementptr i64, ptr %payload, i64 1
  call void @let_all_go(ptr %list, ptr %first_item, i64 %items)
  br label %judge_owner
closure:
  %bound_at = getelementptr i64, ptr %payload, i64 1
  %bound = load i64, ptr %bound_at
  %first_bound = getelementptr i64, ptr %payload, i64 2
  call void @let_all_go(ptr %list, ptr %first_bound, i64 %bound)
  br label %judge_owner
judge_owner:
  %flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %flags = load i32, ptr %flags_at
  %foreign_bit = and i32 %flags, 1
  %foreign_owner = icmp ne i32 %foreign_bit, 0
  br i1 %foreign_owner, label %foreign, label %plain_memory
foreign:
  call void @drop_foreign(ptr %context, ptr %head)
  br label %next
plain_memory:
  %own_flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %own_flags = load i32, ptr %own_flags_at
  %frame_bit = and i32 %own_flags, 4
  %in_frame = icmp ne i32 %frame_bit, 0
  br i1 %in_frame, label %next, label %give_memory
give_memory:
  call void @free(ptr %head)
  br label %next
out:
  ret void
}

; One count less; an object that dies joins the list.
define internal void @let_go(ptr %list, i32 %kind, ptr %payload) alwaysinline {
entry:
  %head = getelementptr i8, ptr %payload, i64 -32
  %shared = icmp eq i32 %kind, 11
  br i1 %shared, label %atomic, label %plain
atomic:
  %old = atomicrmw sub ptr %head, i64 1 acq_rel
  %last = icmp eq i64 %old, 1
  br i1 %last, label %storage, label %out
storage:
  call void @pool_give(ptr %payload)
  ret void
plain:
  %n = load i64, ptr %head
  %fewer = sub i64 %n, 1
  store i64 %fewer, ptr %head
  %dead = icmp eq i64 %fewer, 0
  br i1 %dead, label %join, label %out
join:
  %others = load ptr, ptr %list
  %next_at = getelementptr %Head, ptr %head, i32 0, i32 4
  store ptr %others, ptr %next_at
  store ptr %head, ptr %list
  ret void
out:
  ret void
}

define internal void @let_all_go(ptr %list, ptr %values, i64 %count) "heddle-fold" {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %skip ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %out
look:
  %at = getelementptr %Value, ptr %values, i64 %i
  %kind = load i32, ptr %at
  %counted = icmp uge i32 %kind, 7
  br i1 %counted, label %drop, label %skip
drop:
  %payload_at = getelementptr %Value, ptr %at, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  call void @let_go(ptr %list, i32 %kind, ptr %payload)
  br label %skip
skip:
  %next = add i64 %i, 1
  br label %check
out:
  ret void
}

define void @heddle_release_all(ptr %context, ptr %values, i64 %count) "heddle-fold" {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %skip ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %out
look:
  %at = getelementptr %Value, ptr %values, i64 %i
  %kind = load i32, ptr %at
  %counted = icmp uge i32 %kind, 7
  br i1 %counted, label %drop, label %skip
drop:
  %payload_at = getelementptr %Value, ptr %at, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  store i32 0, ptr %at
  call void @heddle_release(ptr %context, i32 %kind, ptr %payload)
  br label %skip
skip:
  %next = add i64 %i, 1
  br label %check
out:
  ret void
}

; An object that holds one of the host language's. `owner` is it; while the program runs unlocked it waits in the list.
define internal void @drop_foreign(ptr %context, ptr %head) {
entry:
  %nowhere = icmp eq ptr %context, null
  br i1 %nowhere, label %now, label %look
look:
  %state_at = getelementptr %Context, ptr %context, i32 0, i32 5
  %state = load ptr, ptr %state_at
  %locked = icmp eq ptr %state, null
  br i1 %locked, label %now, label %later
later:
  %list_at = getelementptr %Context, ptr %context, i32 0, i32 4
  %list = load ptr, ptr %list_at
  %class_at = getelementptr %Head, ptr %head, i32 0, i32 4
  store ptr %list, ptr %class_at
  store ptr %head, ptr %list_at
  ret void
now:
  %owner_at = getelementptr %Head, ptr %head, i32 0, i32 3
  %owner = load ptr, ptr %owner_at
  %drop = load ptr, ptr @heddle_host_drop
  call void %drop(ptr %owner)
  call void @free(ptr %head)
  ret void
}

@heddle_host_drop = global ptr @no_host

define internal void @no_host(ptr %object) {
  ret void
}

; Drop what waits. The interpreter's lock is held.
define void @heddle_drop_deferred(ptr %context) {
entry:
  %list_at = getelementptr %Context, ptr %context, i32 0, i32 4
  br label %next
next:
  %head = load ptr, ptr %list_at
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %out, label %drop
drop:
  %class_at = getelementptr %Head, ptr %head, i32 0, i32 4
  %following = load ptr, ptr %class_at
  store ptr %following, ptr %list_at
  call void @drop_foreign(ptr null, ptr %head)
  br label %next
out:
  ret void
}

; Put a value into a register; the count of the new one is the register's.
define internal void @put(ptr %context, ptr %register, i32 %kind, ptr %payload) alwaysinline {
entry:
  %old_kind = load i32, ptr %register
  %payload_at = getelementptr %Value, ptr %register, i64 0, i32 2
  %old = load ptr, ptr %payload_at
  store i32 %kind, ptr %register
  store ptr %payload, ptr %payload_at
  %counted = icmp uge i32 %old_kind, 7
  br i1 %counted, label %drop, label %out
drop:
  call void @heddle_release(ptr %context, i32 %old_kind, ptr %old)
  ret void
out:
  ret void
}

define void @heddle_put(ptr %context, ptr %register, i32 %kind, ptr %payload) "heddle-fold" {
  call void @put(ptr %context, ptr %register, i32 %kind, ptr %payload)
  ret void
}

define void @heddle_copy(ptr %context, ptr %register, ptr %value) "heddle-fold" {
  %kind = load i32, ptr %value
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  call void @heddle_retain(i32 %kind, ptr %payload)
  call void @put(ptr %context, ptr %register, i32 %kind, ptr %payload)
  ret void
}

; ---- making objects

; An object of %bytes behind its head, or null after heddle_set_error.
define ptr @heddle_new(i32 %kind, i64 %bytes, ptr %owner, i32 %flags) alwaysinline {
entry:
  %whole = add i64 %bytes, 32
  %head = call ptr @malloc(i64 %whole)
  %none = icmp eq ptr %head, null
  br i1 %none, label %fail, label %fill
fail:
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 %whole)
  ret ptr null
fill:
  store i64 1, ptr %head
  %kind_at = getelementptr %Head, ptr %head, i32 0, i32 1
  store i32 %kind, ptr %kind_at
  %flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  store i32 %flags, ptr %flags_at
  %owner_at = getelementptr %Head, ptr %head, i32 0, i32 3
  store ptr %owner, ptr %owner_at
  %payload = getelementptr i8, ptr %head, i64 32
  ret ptr %payload
}

; Storage for as many elements of %element bytes as the sizes say. One size, and a block that waits in the pool: the
; usual case leaves out what the others need.
define i32 @heddle_alloc_storage(
    ptr %context, ptr %register, i64 %ndim, ptr %sizes, i64 %element, i32 %device) "heddle-fold" {
entry:
  %single = icmp eq i64 %ndim, 1
  br i1 %single, label %judge, label %general
judge:
  %n = load i64, ptr %sizes
  %few = icmp ult i64 %n, 1099511627776
  %narrow = icmp ult i64 %element, 4096
  %pools = load ptr, ptr %context
  %count = load i64, ptr %pools
  %host = icmp eq i32 %device, -1
  %wide = sext i32 %device to i64
  %last = sub i64 %count, 1
  %index = select i1 %host, i64 %last, i64 %wide
  %known = icmp ult i64 %index, %count
  %small = and i1 %few, %narrow
  %plain = and i1 %small, %known
  br i1 %plain, label %look, label %general
look:
  %bytes = mul i64 %n, %element
  %slot = add i64 %index, 1
  %pool_at = getelementptr ptr, ptr %pools, i64 %slot
  %pool = load ptr, ptr %pool_at
  %payload = call ptr @pool_take_waiting(ptr %pool, i64 %bytes)
  %none = icmp eq ptr %payload, null
  br i1 %none, label %general, label %had
had:
  call void @put(ptr %context, ptr %register, i32 11, ptr %payload)
  ret i32 0
general:
  %status = call i32 @alloc_any_storage(
      ptr %context, ptr %register, i64 %ndim, ptr %sizes, i64 %element, i32 %device)
  ret i32 %status
}

define internal i32 @alloc_any_storage(
    ptr %context, ptr %register, i64 %ndim, ptr %sizes, i64 %element, i32 %device) noinline {
entry:
  %elements = call i64 @product(i64 %ndim, ptr %sizes)
  %bytes = call i64 @bytes_of(i64 %elements, i64 %element)
  %pools = load ptr, ptr %context
  %count = load i64, ptr %pools
  %host = icmp eq i32 %device, -1
  %wide = sext i32 %device to i64
  %last = sub i64 %count, 1
  %index = select i1 %host, i64 %last, i64 %wide
  %known = icmp ult i64 %index, %count
  br i1 %known, label %take, label %refuse
refuse:
  call void @heddle_set_error(i32 103937, ptr @bad_device, i64 %count, i64 %wide)
  ret i32 -1
take:
  %slot = add i64 %index, 1
  %pool_at = getelementptr ptr, ptr %pools, i64 %slot
  %pool = load ptr, ptr %pool_at
  %payload = call ptr @pool_take(ptr %pool, i64 %bytes)
  %none = icmp eq ptr %payload, null
  br i1 %none, label %fail, label %done
fail:
  ret i32 -1
done:
  call void @put(ptr %context, ptr %register, i32 11, ptr %payload)
  ret i32 0
}

; The product of sizes: -1 where one is negative, the largest number where it is too large.
define internal i64 @product(i64 %ndim, ptr %sizes) alwaysinline {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %n = phi i64 [ 1, %entry ], [ %bounded, %look ]
  %any_negative = phi i1 [ false, %entry ], [ %negative_now, %look ]
  %any_zero = phi i1 [ false, %entry ], [ %zero_now, %look ]
  %more = icmp slt i64 %i, %ndim
  br i1 %more, label %look, label %out
look:
  %at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %at
  %negative = icmp slt i64 %size, 0
  %negative_now = or i1 %any_negative, %negative
  %zero = icmp eq i64 %size, 0
  %zero_now = or i1 %any_zero, %zero
  %pair = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %n, i64 %size)
  %grown = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  %bounded = select i1 %over, i64 9223372036854775807, i64 %grown
  %next = add i64 %i, 1
  br label %check
out:
  %known = select i1 %any_zero, i64 0, i64 %n
  %result = select i1 %any_negative, i64 -1, i64 %known
  ret i64 %result
}

; The bytes of so many elements: -1 where the number is negative, the largest number where they are too many.
define internal i64 @bytes_of(i64 %count, i64 %element) alwaysinline {
  %pair = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %count, i64 %element)
  %product = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  %bounded = select i1 %over, i64 9223372036854775807, i64 %product
  %negative = icmp slt i64 %count, 0
  %bytes = select i1 %negative, i64 -1, i64 %bounded
  ret i64 %bytes
}

; A tensor's payload with sizes of its own. The owner's count is the new tensor's.
define ptr @heddle_new_tensor(ptr %data, i64 %ndim, ptr %sizes, i32 %dtype, i64 %device, ptr %owner, i32 %flags) alwaysinline {
entry:
  %sizes_bytes = shl i64 %ndim, 3
  %bytes = add i64 %sizes_bytes, 48
  %dl = call ptr @heddle_new(i32 7, i64 %bytes, ptr %owner, i32 %flags)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %out, label %fill
fill:
  store ptr %data, ptr %dl
  %device_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 1
  store i64 %device, ptr %device_at, align 4
  %ndim_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 3
  %narrow = trunc i64 %ndim to i32
  store i32 %narrow, ptr %ndim_at
  %dtype_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 4
  store i32 %dtype, ptr %dtype_at
  %own_sizes = getelementptr i8, ptr %dl, i64 48
  %shape_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 5
  store ptr %own_sizes, ptr %shape_at
  %strides_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 6
  store ptr null, ptr %strides_at
  %offset_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 7
  store i64 0, ptr %offset_at
  br label %copy
copy:
  %axis = phi i64 [ 0, %fill ], [ %axis_next, %copy_size ]
  %more = icmp slt i64 %axis, %ndim
  br i1 %more, label %copy_size, label %made
copy_size:
  %size_at = getelementptr i64, ptr %sizes, i64 %axis
  %size = load i64, ptr %size_at
  %own_size_at = getelementptr i64, ptr %own_sizes, i64 %axis
  store i64 %size, ptr %own_size_at
  %axis_next = add i64 %axis, 1
  br label %copy
made:
  ret ptr %dl
out:
  ret ptr null
}

define internal i64 @element_bytes(i32 %dtype) alwaysinline {
  %shifted = lshr i32 %dtype, 8
  %bits = and i32 %shifted, 255
  %lanes = lshr i32 %dtype, 16
  %all = mul i32 %bits, %lanes
  %up = add i32 %all, 7
  %bytes = lshr i32 %up, 3
  %wide = zext i32 %bytes to i64
  ret i64 %wide
}

define i32 @heddle_alloc_tensor(
    ptr %context, ptr %register, ptr %storage, i64 %offset, i64 %ndim, ptr %sizes, i32 %dtype) "heddle-fold" {
entry:
  %count = call i64 @product(i64 %ndim, ptr %sizes)
  %element = call i64 @element_bytes(i32 %dtype)
  %bytes = call i64 @bytes_of(i64 %count, i64 %element)
  %end = add i64 %bytes, %offset
  %has = load i64, ptr %storage
  %over = icmp ugt i64 %end, %has
  %negative = or i64 %count, %offset
  %invalid = icmp slt i64 %negative, 0
  %bad = or i1 %over, %invalid
  br i1 %bad, label %refuse, label %make
refuse:
  call void @heddle_set_error(i32 154113, ptr @outside_storage, i64 %has, i64 %end)
  ret i32 -1
make:
  %memory = getelementptr i8, ptr %storage, i64 32
  %data = getelementptr i8, ptr %memory, i64 %offset
  %pool_at = getelementptr i8, ptr %storage, i64 -16
  %pool = load ptr, ptr %pool_at
  %device_at = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %device = load i64, ptr %device_at, align 4
  %dl = call ptr @heddle_new_tensor(
      ptr %data, i64 %ndim, ptr %sizes, i32 %dtype, i64 %device, ptr %storage, i32 0)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %fail, label %done
fail:
  ret i32 -1
done:
  call void @retain_storage(ptr %storage)
  call void @put(ptr %context, ptr %register, i32 7, ptr %dl)
  ret i32 0
}

; A view of the same memory with other sizes. Its owner is the tensor's, or the tensor where the host owns the memory.
define i32 @heddle_reshape(ptr %context, ptr %register, ptr %tensor, i64 %ndim, ptr %sizes) "heddle-fold" {
entry:
  %ndim_at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 3
  %old_ndim = load i32, ptr %ndim_at
  %old_wide = sext i32 %old_ndim to i64
  %shape_at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 5
  %old_sizes = load ptr, ptr %shape_at
  %have = call i64 @product(i64 %old_wide, ptr %old_sizes)
  %want = call i64 @product(i64 %ndim, ptr %sizes)
  %over = icmp ugt i64 %want, %have
  br i1 %over, label %refuse, label %make
refuse:
  call void @heddle_set_error(i32 103169, ptr @too_large_view, i64 %have, i64 %want)
  ret i32 -1
make:
  %head = getelementptr i8, ptr %tensor, i64 -32
  %flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %flags = load i32, ptr %flags_at
  %foreign = and i32 %flags, 1
  %is_foreign = icmp ne i32 %foreign, 0
  %owner_at = getelementptr %Head, ptr %head, i32 0, i32 3
  %its_owner = load ptr, ptr %owner_at
  %owner = select i1 %is_foreign, ptr %tensor, ptr %its_owner
  %unowned = icmp eq ptr %owner, null
  br i1 %unowned, label %view, label %count
count:
  %owner_kind_at = getelementptr i8, ptr %owner, i64 -24
  %owner_kind = load i32, ptr %owner_kind_at
  call void @heddle_retain(i32 %owner_kind, ptr %owner)
  br label %view
view:
  %data = load ptr, ptr %tensor
  %device_at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 1
  %device = load i64, ptr %device_at, align 4
  %dtype_at = getelementptr %DLTensor, ptr %tensor, i32 0, i32 4
  %dtype = load i32, ptr %dtype_at
  %dl = call ptr @heddle_new_tensor(
      ptr %data, i64 %ndim, ptr %sizes, i32 %dtype, i64 %device, ptr %owner, i32 0)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %fail, label %done
fail:
  ret i32 -1
done:
  call void @put(ptr %context, ptr %register, i32 7, ptr %dl)
  ret i32 0
}

define i32 @heddle_make_shape(ptr %context, ptr %register, i64 %count, ptr %sizes) "heddle-fold" {
entry:
  %sizes_bytes = shl i64 %count, 3
  %bytes = add i64 %sizes_bytes, 8
  %shape = call ptr @heddle_new(i32 8, i64 %bytes, ptr null, i32 0)
  %none = icmp eq ptr %shape, null
  br i1 %none, label %fail, label %fill
fail:
  ret i32 -1
fill:
  store i64 %count, ptr %shape
  %own = getelementptr i64, ptr %shape, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %sizes, i64 %sizes_bytes, i1 false)
  call void @put(ptr %context, ptr %register, i32 8, ptr %shape)
  ret i32 0
}

; Copies of values, counted.
define internal void @copy_values(ptr %to, ptr %from, i64 %count) alwaysinline {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %copy ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %copy, label %out
copy:
  %from_at = getelementptr %Value, ptr %from, i64 %i
  %to_at = getelementptr %Value, ptr %to, i64 %i
  %value = load %Value, ptr %from_at
  store %Value %value, ptr %to_at
  %kind = extractvalue %Value %value, 0
  %bits = extractvalue %Value %value, 2
  %payload = inttoptr i64 %bits to ptr
  call void @heddle_retain(i32 %kind, ptr %payload)
  %next = add i64 %i, 1
  br label %check
out:
  ret void
}

define i32 @heddle_make_tuple(ptr %context, ptr %register, i64 %count, ptr %items) "heddle-fold" {
entry:
  %items_bytes = shl i64 %count, 4
  %bytes = add i64 %items_bytes, 8
  %tuple = call ptr @heddle_new(i32 9, i64 %bytes, ptr null, i32 0)
  %none = icmp eq ptr %tuple, null
  br i1 %none, label %fail, label %fill
fail:
  ret i32 -1
fill:
  store i64 %count, ptr %tuple
  %own = getelementptr i64, ptr %tuple, i64 1
  call void @copy_values(ptr %own, ptr %items, i64 %count)
  call void @put(ptr %context, ptr %register, i32 9, ptr %tuple)
  ret i32 0
}

; Whether a DLTensor's strides, where it has some, are those of a tensor without gaps.
define internal i1 @is_compact(ptr %dl) {
entry:
  %strides_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 6
  %strides = load ptr, ptr %strides_at
  %none = icmp eq ptr %strides, null
  br i1 %none, label %good, label %begin
begin:
  %ndim_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 3
  %ndim = load i32, ptr %ndim_at
  %shape_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 5
  %shape = load ptr, ptr %shape_at
  br label %check
check:
  %axis = phi i32 [ %ndim, %begin ], [ %inner, %fits ]
  %step = phi i64 [ 1, %begin ], [ %wider, %fits ]
  %more = icmp sgt i32 %axis, 0
  br i1 %more, label %look, label %good
look:
  %inner = sub i32 %axis, 1
  %size_at = getelementptr i64, ptr %shape, i32 %inner
  %size = load i64, ptr %size_at
  %stride_at = getelementptr i64, ptr %strides, i32 %inner
  %stride = load i64, ptr %stride_at
  %wider = mul i64 %step, %size
  %right = icmp eq i64 %stride, %step
  %single = icmp eq i64 %size, 1
  %ok = or i1 %right, %single
  br i1 %ok, label %fits, label %bad
fits:
  br label %check
good:
  ret i1 true
bad:
  ret i1 false
}

; The bytes of a tensor's elements.
define internal i64 @tensor_bytes(ptr %dl) {
  %ndim_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 3
  %ndim = load i32, ptr %ndim_at
  %ndim_wide = sext i32 %ndim to i64
  %sizes_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 5
  %sizes = load ptr, ptr %sizes_at
  %count = call i64 @product(i64 %ndim_wide, ptr %sizes)
  %dtype_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 4
  %dtype = load i32, ptr %dtype_at
  %element = call i64 @element_bytes(i32 %dtype)
  %bytes = mul i64 %count, %element
  ret i64 %bytes
}

; The rows of a chain (((first, row), row), row) below those of the tensor `first`, as one new tensor.
define i32 @heddle_stack_chain(ptr %context, ptr %register, ptr %chain) {
entry:
  %temporary = alloca %Value, align 16
  store %Value zeroinitializer, ptr %temporary
  %temporary_payload_at = getelementptr %Value, ptr %temporary, i64 0, i32 2
  br label %walk
walk:
  %at = phi ptr [ %chain, %entry ], [ %older, %step ]
  %rows = phi i64 [ 0, %entry ], [ %rows_next, %step ]
  %kind = load i32, ptr %at
  %payload_at = getelementptr %Value, ptr %at, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  switch i32 %kind, label %refuse [
    i32 7, label %first
    i32 9, label %pair
  ]
pair:
  %length = load i64, ptr %payload
  %is_pair = icmp eq i64 %length, 2
  br i1 %is_pair, label %judge_row, label %refuse
judge_row:
  %older = getelementptr i64, ptr %payload, i64 1
  %row_at = getelementptr %Value, ptr %older, i64 1
  %row_kind = load i32, ptr %row_at
  %is_row = icmp eq i32 %row_kind, 7
  br i1 %is_row, label %step, label %refuse
step:
  %rows_next = add i64 %rows, 1
  br label %walk
refuse:
  %kind_wide = zext i32 %kind to i64
  call void @heddle_set_error(i32 102914, ptr @no_chain, i64 0, i64 %kind_wide)
  ret i32 -1
first:
  %ndim_at = getelementptr %DLTensor, ptr %payload, i32 0, i32 3
  %ndim_narrow = load i32, ptr %ndim_at
  %has_rows = icmp sgt i32 %ndim_narrow, 0
  %first_dense = call i1 @is_compact(ptr %payload)
  %is_first = and i1 %has_rows, %first_dense
  br i1 %is_first, label %allocate, label %refuse
allocate:
  %ndim = sext i32 %ndim_narrow to i64
  %dtype_at = getelementptr %DLTensor, ptr %payload, i32 0, i32 4
  %dtype = load i32, ptr %dtype_at
  %first_sizes_at = getelementptr %DLTensor, ptr %payload, i32 0, i32 5
  %first_sizes = load ptr, ptr %first_sizes_at
  %first_rows = load i64, ptr %first_sizes
  %row_sizes = getelementptr i64, ptr %first_sizes, i64 1
  %row_ndim = sub i64 %ndim, 1
  %row_elements = call i64 @product(i64 %row_ndim, ptr %row_sizes)
  %element = call i64 @element_bytes(i32 %dtype)
  %row_bytes = mul i64 %row_elements, %element
  %count = add i64 %first_rows, %rows
  %sizes = alloca i64, i64 %ndim
  %sizes_bytes = shl i64 %ndim, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %sizes, ptr %first_sizes, i64 %sizes_bytes, i1 false)
  store i64 %count, ptr %sizes
  %storage_status = call i32 @heddle_alloc_storage(
      ptr %context, ptr %temporary, i64 %ndim, ptr %sizes, i64 %element, i32 0)
  %no_storage = icmp ne i32 %storage_status, 0
  br i1 %no_storage, label %fail, label %make
make:
  %storage = load ptr, ptr %temporary_payload_at
  %tensor_status = call i32 @heddle_alloc_tensor(
      ptr %context, ptr %temporary, ptr %storage, i64 0, i64 %ndim, ptr %sizes, i32 %dtype)
  %no_tensor = icmp ne i32 %tensor_status, 0
  br i1 %no_tensor, label %drop, label %copy_first
copy_first:
  %made = load ptr, ptr %temporary_payload_at
  %data = load ptr, ptr %made
  %first_data = load ptr, ptr %payload
  %first_bytes = mul i64 %first_rows, %row_bytes
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %first_data, i64 %first_bytes, i1 false)
  br label %copy
copy:
  %copy_at = phi ptr [ %chain, %copy_first ], [ %copy_older, %copy_row ]
  %left = phi i64 [ %count, %copy_first ], [ %place, %copy_row ]
  %more = icmp sgt i64 %left, %first_rows
  br i1 %more, label %look, label %done
look:
  %copy_payload_at = getelementptr %Value, ptr %copy_at, i64 0, i32 2
  %copy_pair = load ptr, ptr %copy_payload_at
  %copy_older = getelementptr i64, ptr %copy_pair, i64 1
  %copy_row_at = getelementptr %Value, ptr %copy_older, i64 1, i32 2
  %row = load ptr, ptr %copy_row_at
  %its_bytes = call i64 @tensor_bytes(ptr %row)
  %its_dtype_at = getelementptr %DLTensor, ptr %row, i32 0, i32 4
  %its_dtype = load i32, ptr %its_dtype_at
  %same_bytes = icmp eq i64 %its_bytes, %row_bytes
  %same_dtype = icmp eq i32 %its_dtype, %dtype
  %row_dense = call i1 @is_compact(ptr %row)
  %fits_ = and i1 %same_bytes, %same_dtype
  %fits = and i1 %fits_, %row_dense
  br i1 %fits, label %copy_row, label %ragged
copy_row:
  %place = sub i64 %left, 1
  %offset = mul i64 %place, %row_bytes
  %to = getelementptr i8, ptr %data, i64 %offset
  %row_data = load ptr, ptr %row
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %row_data, i64 %row_bytes, i1 false)
  br label %copy
done:
  call void @put(ptr %context, ptr %register, i32 7, ptr %made)
  ret i32 0
ragged:
  call void @heddle_set_error(i32 103169, ptr @ragged_chain, i64 %row_bytes, i64 %its_bytes)
  br label %drop
drop:
  call void @put(ptr %context, ptr %temporary, i32 0, ptr null)
  br label %fail
fail:
  ret i32 -1
}

define i32 @heddle_tuple_getitem(ptr %context, ptr %register, ptr %tuple, i64 %index) "heddle-fold" {
entry:
  %count = load i64, ptr %tuple
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %get, label %refuse
refuse:
  call void @heddle_set_error(i32 103427, ptr @no_such_item, i64 %count, i64 %index)
  ret i32 -1
get:
  %items = getelementptr i64, ptr %tuple, i64 1
  %item = getelementptr %Value, ptr %items, i64 %index
  call void @heddle_copy(ptr %context, ptr %register, ptr %item)
  ret i32 0
}

; Take an item out of a tuple, for all its holders.
define i32 @heddle_tuple_reset(ptr %context, ptr %tuple, i64 %index) {
entry:
  %count = load i64, ptr %tuple
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %reset, label %refuse
refuse:
  call void @heddle_set_error(i32 103427, ptr @no_such_item, i64 %count, i64 %index)
  ret i32 -1
reset:
  %items = getelementptr i64, ptr %tuple, i64 1
  %item = getelementptr %Value, ptr %items, i64 %index
  call void @put(ptr %context, ptr %item, i32 0, ptr null)
  ret i32 0
}

define i32 @heddle_make_closure(ptr %context, ptr %register, i64 %function, i64 %count, ptr %items) "heddle-fold" {
entry:
  %items_bytes = shl i64 %count, 4
  %bytes = add i64 %items_bytes, 16
  %closure = call ptr @heddle_new(i32 10, i64 %bytes, ptr null, i32 0)
  %none = icmp eq ptr %closure, null
  br i1 %none, label %fail, label %fill
fail:
  ret i32 -1
fill:
  store i64 %function, ptr %closure
  %count_at = getelementptr i64, ptr %closure, i64 1
  store i64 %count, ptr %count_at
  %own = getelementptr i64, ptr %closure, i64 2
  call void @copy_values(ptr %own, ptr %items, i64 %count)
  call void @put(ptr %context, ptr %register, i32 10, ptr %closure)
  ret i32 0
}

; ---- calls

; Run the code of a function. One that ends with a call of another function, which may come back to it (status 1),
; leaves that call as a closure in the register, and its frame is gone. The call is made here, and the next one: a cycle
; of calls in tail position takes the space of one frame.
define internal i32 @heddle_run_code(ptr %context, ptr %code, ptr %args, ptr %register) {
entry:
  %first = call i32 %code(ptr %context, ptr %args, ptr %register)
  %goes_on = icmp eq i32 %first, 1
  br i1 %goes_on, label %next, label %out
next:
  %payload_at = getelementptr %Value, ptr %register, i64 0, i32 2
  %closure = load ptr, ptr %payload_at
  store i32 0, ptr %register
  %function = load i64, ptr %closure
  %values = getelementptr i64, ptr %closure, i64 2
  %table_at = getelementptr %Context, ptr %context, i32 0, i32 2
  %table = load ptr, ptr %table_at
  %its_code_at = getelementptr %Entry, ptr %table, i64 %function, i32 0
  %its_code = load ptr, ptr %its_code_at
  %status = call i32 %its_code(ptr %context, ptr %values, ptr %register)
  call void @heddle_release(ptr %context, i32 10, ptr %closure)
  %again = icmp eq i32 %status, 1
  br i1 %again, label %next, label %out
out:
  %result = phi i32 [ %first, %entry ], [ %status, %next ]
  ret i32 %result
}

; Call function number %function of the program, or of the host. Arguments are lent.
define i32 @heddle_call(ptr %context, ptr %register, i64 %function, ptr %args, i64 %count) {
entry:
  %table_at = getelementptr %Context, ptr %context, i32 0, i32 2
  %table = load ptr, ptr %table_at
  %code_at = getelementptr %Entry, ptr %table, i64 %function, i32 0
  %code = load ptr, ptr %code_at
  %foreign = icmp eq ptr %code, null
  br i1 %foreign, label %host, label %count_args
count_args:
  %arity_at = getelementptr %Entry, ptr %table, i64 %function, i32 1
  %arity = load i64, ptr %arity_at
  %fits = icmp eq i64 %arity, %count
  br i1 %fits, label %native, label %host
native:
  %status = call i32 @heddle_run_code(ptr %context, ptr %code, ptr %args, ptr %register)
  ret i32 %status
host:
  ; Also where the count is wrong: the host says so in its words.
  %call_at = getelementptr %Context, ptr %context, i32 0, i32 3
  %call = load ptr, ptr %call_at
  %host_status = call i32 %call(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register)
  ret i32 %host_status
}

; Call a closure with more arguments before its bound ones. Number -1 asks the host to call a foreign function, which
; is then the first argument.
define i32 @heddle_invoke(ptr %context, ptr %register, ptr %callee, ptr %args, i64 %count) {
entry:
  %kind = load i32, ptr %callee
  %payload_at = getelementptr %Value, ptr %callee, i64 0, i32 2
  %closure = load ptr, ptr %payload_at
  %own = icmp eq i32 %kind, 10
  br i1 %own, label %native, label %host
native:
  %function = load i64, ptr %closure
  %bound_at = getelementptr i64, ptr %closure, i64 1
  %bound = load i64, ptr %bound_at
  %values = getelementptr i64, ptr %closure, i64 2
  %all = add i64 %count, %bound
  %room = alloca %Value, i64 %all, align 16
  %args_bytes = shl i64 %count, 4
  %bound_bytes = shl i64 %bound, 4
  call void @llvm.memcpy.p0.p0.i64(ptr %room, ptr %args, i64 %args_bytes, i1 false)
  %rest = getelementptr %Value, ptr %room, i64 %count
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %values, i64 %bound_bytes, i1 false)
  call void @heddle_retain(i32 10, ptr %closure)
  %status = call i32 @heddle_call(ptr %context, ptr %register, i64 %function, ptr %room, i64 %all)
  call void @heddle_release(ptr %context, i32 10, ptr %closure)
  ret i32 %status
host:
  %more = add i64 %count, 1
  %host_room = alloca %Value, i64 %more, align 16
  %callee_value = load %Value, ptr %callee
  store %Value %callee_value, ptr %host_room
  %host_rest = getelementptr %Value, ptr %host_room, i64 1
  %host_bytes = shl i64 %count, 4
  call void @llvm.memcpy.p0.p0.i64(ptr %host_rest, ptr %args, i64 %host_bytes, i1 false)
  %call_at = getelementptr %Context, ptr %context, i32 0, i32 3
  %call = load ptr, ptr %call_at
  %host_status = call i32 %call(ptr %context, i64 -1, ptr %host_room, i64 %more, ptr %register)
  ret i32 %host_status
}

; Whether the stack has room for a frame of so many bytes: 0, or -1 with the error set.
define i32 @heddle_room(ptr %context, i64 %bytes) {
entry:
  %limit_at = getelementptr %Context, ptr %context, i32 0, i32 7
  %limit = load ptr, ptr %limit_at
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %less = sub i64 0, %bytes
  %lowest = getelementptr i8, ptr %here, i64 %less
  %deep = icmp ult ptr %lowest, %limit
  br i1 %deep, label %refuse, label %go
refuse:
  call void @heddle_set_error(i32 78080, ptr @too_deep, i64 0, i64 0)
  ret i32 -1
go:
  ret i32 0
}

; Enter a function: arguments become its first registers.
define void @heddle_enter(ptr %context, ptr %registers, ptr %args, i64 %count) "heddle-fold" {
  call void @copy_values(ptr %registers, ptr %args, i64 %count)
  ret void
}

; The function ends: its result moves to the caller's register, what is left in its own is dropped.
define void @heddle_leave(ptr %context, ptr %registers, i64 %count, ptr %value, ptr %result) "heddle-fold" {
entry:
  call void @heddle_copy(ptr %context, ptr %result, ptr %value)
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %count)
  ret void
}

; The function fails at instruction %place: the innermost place is kept.
define void @heddle_fail(ptr %context, ptr %registers, i64 %count, i64 %place) {
entry:
  %at = getelementptr %Context, ptr %context, i32 0, i32 6
  %known = load i64, ptr %at
  %first = icmp eq i64 %known, -1
  br i1 %first, label %mark, label %drop
mark:
  store i64 %place, ptr %at
  br label %drop
drop:
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %count)
  ret void
}

; ---- looking at values

; The number of sizes of a tensor or shape, their address to %sizes; -1 for something else.
define i64 @heddle_sizes(ptr %value, ptr %sizes) {
entry:
  %kind = load i32, ptr %value
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  switch i32 %kind, label %other [
    i32 7, label %tensor
    i32 8, label %shape
  ]
tensor:
  %shape_at = getelementptr %DLTensor, ptr %payload, i32 0, i32 5
  %dims = load ptr, ptr %shape_at
  store ptr %dims, ptr %sizes
  %ndim_at = getelementptr %DLTensor, ptr %payload, i32 0, i32 3
  %ndim = load i32, ptr %ndim_at
  %wide = sext i32 %ndim to i64
  ret i64 %wide
shape:
  %own = getelementptr i64, ptr %payload, i64 1
  store ptr %own, ptr %sizes
  %count = load i64, ptr %payload
  ret i64 %count
other:
  ret i64 -1
}

; The truth of an int, bool, or first element of an int or bool tensor: 0 or 1; -1 where the host has to say.
define i32 @heddle_condition(ptr %value) {
entry:
  %kind = load i32, ptr %value
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  switch i32 %kind, label %other [
    i32 1, label %scalar
    i32 2, label %scalar
    i32 7, label %tensor
  ]
scalar:
  %bits = load i64, ptr %payload_at
  br label %test
tensor:
  %dl = load ptr, ptr %payload_at
  %ndim_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 3
  %ndim = load i32, ptr %ndim_at
  %is_scalar = icmp eq i32 %ndim, 0
  br i1 %is_scalar, label %look, label %other
look:
  %data = load ptr, ptr %dl
  %dtype_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 4
  %dtype = load i32, ptr %dtype_at
  %code = and i32 %dtype, 255
  %is_int = icmp ule i32 %code, 1
  %is_bool = icmp eq i32 %code, 6
  %known = or i1 %is_int, %is_bool
  %bytes = call i64 @element_bytes(i32 %dtype)
  %width = select i1 %known, i64 %bytes, i64 0
  switch i64 %width, label %other [
    i64 1, label %load8
    i64 2, label %load16
    i64 4, label %load32
    i64 8, label %load64
  ]
load8:
  %v8 = load i8, ptr %data
  %w8 = zext i8 %v8 to i64
  br label %test
load16:
  %v16 = load i16, ptr %data
  %w16 = zext i16 %v16 to i64
  br label %test
load32:
  %v32 = load i32, ptr %data
  %w32 = zext i32 %v32 to i64
  br label %test
load64:
  %w64 = load i64, ptr %data
  br label %test
test:
  %n = phi i64 [ %bits, %scalar ], [ %w8, %load8 ], [ %w16, %load16 ], [ %w32, %load32 ], [ %w64, %load64 ]
  %set = icmp ne i64 %n, 0
  %result = zext i1 %set to i32
  ret i32 %result
other:
  ret i32 -1
}

; What an error message names as got: a value's kind, or the type of a foreign object.
define i64 @heddle_kind_of(ptr %value) {
entry:
  %kind = load i32, ptr %value
  %foreign = icmp eq i32 %kind, 12
  br i1 %foreign, label %look, label %own
look:
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  %owner_at = getelementptr i8, ptr %payload, i64 -16
  %object = load ptr, ptr %owner_at
  %type_at = getelementptr i8, ptr %object, i64 8
  %type = load i64, ptr %type_at
  ret i64 %type
own:
  %wide = zext i32 %kind to i64
  ret i64 %wide
}

; ---- self calls in tail position

; The arguments become the first registers of the same frame, all others are dropped.
define void @heddle_again(ptr %context, ptr %registers, i64 %registers_count, ptr %args, i64 %count) "heddle-fold" {
entry:
  %room = alloca %Value, i64 %count, align 16
  call void @copy_values(ptr %room, ptr %args, i64 %count)
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %registers_count)
  %bytes = shl i64 %count, 4
  call void @llvm.memcpy.p0.p0.i64(ptr %registers, ptr %room, i64 %bytes, i1 false)
  ret void
}
