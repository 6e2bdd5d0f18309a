; Native programs and Python: the METH_FASTCALL body of a program's functions, and calls back into Python.
;
; self is the tuple (record, keepalive); record is a bytes object {context, code, arity}. A call holds the context; a
; second thread that wants it is refused. The interpreter's lock is given up while the program runs.

@to_native = internal global ptr null           ; (keepalive, object, address of a value): writes the value
@from_native = internal global ptr null         ; (keepalive, address of a value): the object
@host_call_hook = internal global ptr null      ; (context, function, arguments, count, address of the result)
@refuse_hook = internal global ptr null         ; (keepalive, number of arguments): raises
@error_hook = internal global ptr null          ; (keepalive): raises this thread's error
@watch_hook = internal global ptr null          ; (self, arguments): the result
@nested_too_deep = internal constant [57 x i8] c"the stack has no room for the tuples in a result's tuple\00"
@native_format = internal constant [5 x i8] c"OOLL\00"
@python_format = internal constant [3 x i8] c"OL\00"
@host_format = internal constant [6 x i8] c"LLLLL\00"

declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare void @PyErr_Clear()
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
@_Py_FalseStruct = external global i64

define void @heddle_program_configure(
    ptr %to, ptr %from, ptr %host, ptr %refuse, ptr %error, ptr %watch, ptr %array) {
  store ptr %watch, ptr @watch_hook
  store ptr %array, ptr @array_type
  store ptr %to, ptr @to_native
  store ptr %from, ptr @from_native
  store ptr %host, ptr @host_call_hook
  store ptr %refuse, ptr @refuse_hook
  store ptr %error, ptr @error_hook
  store ptr @Py_DecRef, ptr @heddle_host_drop
  ret void
}

define i32 @heddle_python_call(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register) {
entry:
  %state_at = getelementptr %Context, ptr %context, i32 0, i32 5
  %state = load ptr, ptr %state_at
  store ptr null, ptr %state_at
  call void @PyEval_RestoreThread(ptr %state)
  call void @heddle_drop_deferred(ptr %context)
  %hook = load ptr, ptr @host_call_hook
  %context_bits = ptrtoint ptr %context to i64
  %args_bits = ptrtoint ptr %args to i64
  %register_bits = ptrtoint ptr %register to i64
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %hook, ptr @host_format, i64 %context_bits,
      i64 %function, i64 %args_bits, i64 %count, i64 %register_bits)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %leave, label %good
good:
  call void @Py_DecRef(ptr %result)
  br label %leave
leave:
  %status = phi i32 [ -1, %entry ], [ 0, %good ]
  %again = call ptr @PyEval_SaveThread()
  store ptr %again, ptr %state_at
  ret i32 %status
}

; A tensor object over a Python tensor's header.
define internal ptr @lend_tensor(ptr %arg, ptr %header) {
entry:
  %dl = call ptr @heddle_new(i32 7, i64 48, ptr %arg, i32 3)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %out, label %fill
fill:
  call void @llvm.memcpy.p0.p0.i64(ptr %dl, ptr %header, i64 48, i1 false)
  call void @Py_IncRef(ptr %arg)
  br label %out
out:
  ret ptr %dl
}

; A Python tensor over a native one, whose count it takes over; null with the exception set.
define internal ptr @wrap_tensor(ptr %payload) {
entry:
  %capsule = call ptr @PyCapsule_New(ptr %payload, ptr null, ptr @drop_capsule)
  %no_capsule = icmp eq ptr %capsule, null
  br i1 %no_capsule, label %fail, label %wrap_header
wrap_header:
  %header = call ptr @PyBytes_FromStringAndSize(ptr %payload, i64 48)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %drop_capsule_again, label %wrap
wrap:
  %made = call ptr @new_tensor_object(ptr %header, ptr %capsule)
  ret ptr %made
drop_capsule_again:
  call void @Py_DecRef(ptr %capsule)
  ret ptr null
fail:
  call void @heddle_release(ptr null, i32 7, ptr %payload)
  ret ptr null
}

; Raise this thread's error without a place in the program.
define internal void @raise_own_error(ptr %keep) {
  %hook = load ptr, ptr @refuse_hook
  %nothing = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %hook, ptr @python_format, ptr %keep, i64 -2)
  ret void
}

; The Python object of a value. Tensors that nothing else holds (%alone: neither does what holds the value) take
; their native object along.
define internal ptr @to_object(ptr %keep, ptr %value, i1 %alone) {
entry:
  %kind = load i32, ptr %value
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  %bits = load i64, ptr %payload_at
  %payload = inttoptr i64 %bits to ptr
  switch i32 %kind, label %ask [
    i32 0, label %none
    i32 1, label %int
    i32 2, label %bool
    i32 3, label %float
    i32 7, label %tensor
    i32 9, label %tuple
  ]
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
int:
  %int_object = call ptr @PyLong_FromLongLong(i64 %bits)
  ret ptr %int_object
bool:
  %set = icmp ne i64 %bits, 0
  %bool_object = select i1 %set, ptr @_Py_TrueStruct, ptr @_Py_FalseStruct
  call void @Py_IncRef(ptr %bool_object)
  ret ptr %bool_object
float:
  %as_double = bitcast i64 %bits to double
  %float_object = call ptr @PyFloat_FromDouble(double %as_double)
  ret ptr %float_object
tensor:
  %head = getelementptr i8, ptr %payload, i64 -32
  %flags_at = getelementptr %Head, ptr %head, i32 0, i32 2
  %flags = load i32, ptr %flags_at
  %owner_at = getelementptr %Head, ptr %head, i32 0, i32 3
  %owner = load ptr, ptr %owner_at
  %same_bits = and i32 %flags, 2
  %is_same = icmp ne i32 %same_bits, 0
  br i1 %is_same, label %same, label %own
same:
  call void @Py_IncRef(ptr %owner)
  ret ptr %owner
own:
  %count = load i64, ptr %head
  %single = icmp eq i64 %count, 1
  %owned = icmp ne ptr %owner, null
  %free_ = and i1 %single, %alone
  %free = and i1 %free_, %owned
  br i1 %free, label %judge_owner, label %ask
judge_owner:
  ; Only storages are counted for all threads: what views a tensor of the host's keeps that tensor instead.
  %owner_kind_at = getelementptr i8, ptr %owner, i64 -24
  %owner_kind = load i32, ptr %owner_kind_at
  %on_storage = icmp eq i32 %owner_kind, 11
  br i1 %on_storage, label %wrap, label %ask
wrap:
  store i64 2, ptr %head
  %made = call ptr @wrap_tensor(ptr %payload)
  ret ptr %made
tuple:
  %tuple_flags_at = getelementptr i8, ptr %payload, i64 -20
  %tuple_flags = load i32, ptr %tuple_flags_at
  %tuple_same_bits = and i32 %tuple_flags, 2
  %is_same_tuple = icmp ne i32 %tuple_same_bits, 0
  br i1 %is_same_tuple, label %same_tuple, label %other_tuple
same_tuple:
  %tuple_owner_at = getelementptr i8, ptr %payload, i64 -16
  %tuple_owner = load ptr, ptr %tuple_owner_at
  call void @Py_IncRef(ptr %tuple_owner)
  ret ptr %tuple_owner
other_tuple:
  %deep = call i1 @stack_is_short()
  br i1 %deep, label %too_deep_tuple, label %tuple_fits
too_deep_tuple:
  call void @heddle_set_error(i32 78080, ptr @nested_too_deep, i64 0, i64 0)
  call void @raise_own_error(ptr %keep)
  ret ptr null
tuple_fits:
  %length = load i64, ptr %payload
  %items = getelementptr i64, ptr %payload, i64 1
  %tuple_count_at = getelementptr i8, ptr %payload, i64 -32
  %tuple_count = load i64, ptr %tuple_count_at
  %tuple_single = icmp eq i64 %tuple_count, 1
  %items_alone = and i1 %alone, %tuple_single
  %made_tuple = call ptr @PyTuple_New(i64 %length)
  %no_tuple = icmp eq ptr %made_tuple, null
  br i1 %no_tuple, label %fail, label %check
check:
  %i = phi i64 [ 0, %tuple_fits ], [ %next, %put ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %convert, label %wrap_array
convert:
  %item = getelementptr %Value, ptr %items, i64 %i
  %object = call ptr @to_object(ptr %keep, ptr %item, i1 %items_alone)
  %no_object = icmp eq ptr %object, null
  br i1 %no_object, label %drop_tuple, label %put
put:
  call i32 @PyTuple_SetItem(ptr %made_tuple, i64 %i, ptr %object)
  %next = add i64 %i, 1
  br label %check
wrap_array:
  %array_type_now = load ptr, ptr @array_type
  %array = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %array_type_now, ptr %made_tuple, ptr null)
  call void @Py_DecRef(ptr %made_tuple)
  ret ptr %array
drop_tuple:
  call void @Py_DecRef(ptr %made_tuple)
  br label %fail
ask:
  %from = load ptr, ptr @from_native
  %value_bits = ptrtoint ptr %value to i64
  %asked = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %from, ptr @python_format, ptr %keep, i64 %value_bits)
  ret ptr %asked
fail:
  ret ptr null
}

define internal void @drop_capsule(ptr %capsule) {
  %payload = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @heddle_release(ptr null, i32 7, ptr %payload)
  ret void
}

declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyType_GenericAlloc(ptr, i64)

@array_type = internal global ptr null

define ptr @heddle_call_program(ptr %self, ptr %args, i64 %nargs) {
entry:
  %record_at = getelementptr i8, ptr %self, i64 $TUPLE_ITEMS
  %record_object = load ptr, ptr %record_at
  %record = getelementptr i8, ptr %record_object, i64 $BYTES_CONTENT
  %keep_at = getelementptr i8, ptr %record_at, i64 8
  %keep = load ptr, ptr %keep_at
  %context = load ptr, ptr %record
  %code_at = getelementptr i8, ptr %record, i64 8
  %code = load ptr, ptr %code_at
  %arity_at = getelementptr i8, ptr %record, i64 16
  %arity = load i64, ptr %arity_at
  %tensor_type = load ptr, ptr @tensor_type
  %header_slot = load i64, ptr @header_slot
  %me = call i64 @pthread_self()
  %thread_at = getelementptr %Context, ptr %context, i32 0, i32 8
  %calls_at = getelementptr %Context, ptr %context, i32 0, i32 9
  %calls = load i64, ptr %calls_at
  %holder = load i64, ptr %thread_at
  %idle = icmp eq i64 %calls, 0
  %mine = icmp eq i64 %holder, %me
  %allowed = or i1 %idle, %mine
  %fits = icmp eq i64 %nargs, %arity
  %watched_at = getelementptr %Context, ptr %context, i32 0, i32 11
  %watched = load i64, ptr %watched_at
  %is_watched = icmp ne i64 %watched, 0
  br i1 %is_watched, label %watch, label %judge_call
watch:
  ; Something looks at each instruction: the bytecode runs instead.
  %watch_with = load ptr, ptr @watch_hook
  %seen = call ptr @call_with_tuple(ptr %watch_with, ptr %self, ptr %args, i64 %nargs)
  ret ptr %seen
judge_call:
  %good_call = and i1 %allowed, %fits
  br i1 %good_call, label %room, label %refuse
refuse:
  %counted = select i1 %allowed, i64 %nargs, i64 -1
  %refuse_with = load ptr, ptr @refuse_hook
  %refused = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %refuse_with, ptr @python_format, ptr %keep, i64 %counted)
  ret ptr null
room:
  ; The call holds the context until its result is converted: whatever runs Python on the way may change threads.
  store i64 %me, ptr %thread_at
  %more_calls = add i64 %calls, 1
  store i64 %more_calls, ptr %calls_at
  %slots = add i64 %nargs, 1
  %values = alloca %Value, i64 %slots, align 16
  %result = getelementptr %Value, ptr %values, i64 %nargs
  store %Value zeroinitializer, ptr %result
  br label %check
check:
  %i = phi i64 [ 0, %room ], [ %i_next, %next ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %convert, label %invoke
convert:
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at
  %value_at = getelementptr %Value, ptr %values, i64 %i
  store %Value zeroinitializer, ptr %value_at
  %type_at = getelementptr i8, ptr %arg, i64 8
  %type = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %type, %tensor_type
  br i1 %is_tensor, label %as_tensor, label %not_tensor
as_tensor:
  %header_at = getelementptr i8, ptr %arg, i64 %header_slot
  %header_object = load ptr, ptr %header_at
  %header = getelementptr i8, ptr %header_object, i64 $BYTES_CONTENT
  %strides_at = getelementptr %DLTensor, ptr %header, i32 0, i32 6
  %strides = load ptr, ptr %strides_at
  %strided = icmp ne ptr %strides, null
  br i1 %strided, label %slow, label %lend
lend:
  %dl = call ptr @lend_tensor(ptr %arg, ptr %header)
  %no_memory = icmp eq ptr %dl, null
  br i1 %no_memory, label %native_failure, label %lent
lent:
  %dl_bits = ptrtoint ptr %dl to i64
  br label %store
not_tensor:
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %as_int, label %not_int
not_int:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %as_float, label %not_float
not_float:
  %is_bool = icmp eq ptr %type, @PyBool_Type
  br i1 %is_bool, label %as_bool, label %not_bool
not_bool:
  %is_none = icmp eq ptr %arg, @_Py_NoneStruct
  br i1 %is_none, label %next, label %not_none
not_none:
  %ndarray_type = load ptr, ptr @ndarray_type
  %is_array = icmp eq ptr %type, %ndarray_type
  br i1 %is_array, label %as_array, label %slow
as_array:
  %over = call ptr @tensor_over_array(ptr %arg)
  %no_view = icmp eq ptr %over, null
  br i1 %no_view, label %slow, label %lend_array
lend_array:
  %array_header_at = getelementptr i8, ptr %over, i64 %header_slot
  %array_header_object = load ptr, ptr %array_header_at
  %array_header = getelementptr i8, ptr %array_header_object, i64 $BYTES_CONTENT
  %array_dl = call ptr @lend_tensor(ptr %over, ptr %array_header)
  call void @Py_DecRef(ptr %over)
  %no_array_memory = icmp eq ptr %array_dl, null
  br i1 %no_array_memory, label %native_failure, label %lent_array
lent_array:
  %array_dl_bits = ptrtoint ptr %array_dl to i64
  br label %store
as_int:
  %int = call i64 @PyLong_AsLongLong(ptr %arg)
  %suspect = icmp eq i64 %int, -1
  br i1 %suspect, label %int_check, label %store
int_check:
  %raised = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %raised, null
  br i1 %bad, label %large_int, label %store
large_int:
  call void @PyErr_Clear()
  br label %slow
as_float:
  %double = call double @PyFloat_AsDouble(ptr %arg)
  %float_bits = bitcast double %double to i64
  br label %store
as_bool:
  %is_true = icmp eq ptr %arg, @_Py_TrueStruct
  %bool = zext i1 %is_true to i64
  br label %store
slow:
  %to = load ptr, ptr @to_native
  %value_bits = ptrtoint ptr %value_at to i64
  %context_bits = ptrtoint ptr %context to i64
  %made = call ptr (ptr, ptr, ...) @PyObject_CallFunction(
      ptr %to, ptr @native_format, ptr %keep, ptr %arg, i64 %context_bits, i64 %value_bits)
  %unmade = icmp eq ptr %made, null
  br i1 %unmade, label %failure, label %slow_done
slow_done:
  call void @Py_DecRef(ptr %made)
  br label %next
store:
  %kind = phi i32 [ 7, %lent ], [ 7, %lent_array ], [ 1, %as_int ], [ 1, %int_check ], [ 3, %as_float ], [ 2, %as_bool ]
  %payload = phi i64 [ %dl_bits, %lent ], [ %array_dl_bits, %lent_array ], [ %int, %as_int ], [ %int, %int_check ], [ %float_bits, %as_float ], [ %bool, %as_bool ]
  store i32 %kind, ptr %value_at
  %payload_at = getelementptr %Value, ptr %value_at, i64 0, i32 2
  store i64 %payload, ptr %payload_at
  br label %next
next:
  %i_next = add i64 %i, 1
  br label %check
invoke:
  %limit_at = getelementptr %Context, ptr %context, i32 0, i32 7
  %old_limit = load ptr, ptr %limit_at
  %new_limit = call ptr @stack_limit()
  %limit = select i1 %idle, ptr %new_limit, ptr %old_limit
  store ptr %limit, ptr %limit_at
  %state_at = getelementptr %Context, ptr %context, i32 0, i32 5
  %outer_state = load ptr, ptr %state_at
  %place_at = getelementptr %Context, ptr %context, i32 0, i32 6
  %outer_place = load i64, ptr %place_at
  store i64 -1, ptr %place_at
  %state = call ptr @PyEval_SaveThread()
  store ptr %state, ptr %state_at
  %status = call i32 @heddle_run_code(ptr %context, ptr %code, ptr %values, ptr %result)
  %state_again = load ptr, ptr %state_at
  call void @PyEval_RestoreThread(ptr %state_again)
  store ptr %outer_state, ptr %state_at
  call void @heddle_release_all(ptr null, ptr %values, i64 %nargs)
  call void @heddle_drop_deferred(ptr %context)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %give, label %error
give:
  %object = call ptr @to_object(ptr %keep, ptr %result, i1 true)
  call void @heddle_release_all(ptr null, ptr %result, i64 1)
  br label %left
error:
  %pending = call ptr @PyErr_Occurred()
  %python_error = icmp ne ptr %pending, null
  br i1 %python_error, label %left, label %raise
raise:
  %error_with = load ptr, ptr @error_hook
  %never = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %error_with, ptr %keep, ptr null)
  br label %left
left:
  %answer = phi ptr [ %object, %give ], [ null, %error ], [ null, %raise ]
  store i64 %outer_place, ptr %place_at
  br label %out
native_failure:
  call void @heddle_release_all(ptr null, ptr %values, i64 %i)
  call void @raise_own_error(ptr %keep)
  br label %out
failure:
  call void @heddle_release_all(ptr null, ptr %values, i64 %i)
  br label %out
out:
  %returned = phi ptr [ %answer, %left ], [ null, %native_failure ], [ null, %failure ]
  store i64 %calls, ptr %calls_at
  ret ptr %returned
}

; ---- storage and tensors for Python: METH_FASTCALL bodies

@storage_type = internal global ptr null
@lease_slot = internal global i64 0
@allocator_slot = internal global i64 0

define void @heddle_storage_configure(ptr %type, i64 %lease, i64 %allocator) {
  store ptr %type, ptr @storage_type
  store i64 %lease, ptr @lease_slot
  store i64 %allocator, ptr @allocator_slot
  ret void
}

define internal void @drop_lease(ptr %capsule) {
  %payload = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @heddle_release(ptr null, i32 11, ptr %payload)
  ret void
}

; A Python storage over a native one, whose count it takes over.
define internal ptr @wrap_storage(ptr %payload, ptr %allocator) {
entry:
  %capsule = call ptr @PyCapsule_New(ptr %payload, ptr null, ptr @drop_lease)
  %no_capsule = icmp eq ptr %capsule, null
  br i1 %no_capsule, label %fail, label %wrap
wrap:
  %type = load ptr, ptr @storage_type
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %no_object = icmp eq ptr %made, null
  br i1 %no_object, label %drop, label %fill
fill:
  %lease_slot = load i64, ptr @lease_slot
  %lease_at = getelementptr i8, ptr %made, i64 %lease_slot
  store ptr %capsule, ptr %lease_at
  %allocator_slot = load i64, ptr @allocator_slot
  %allocator_at = getelementptr i8, ptr %made, i64 %allocator_slot
  call void @Py_IncRef(ptr %allocator)
  store ptr %allocator, ptr %allocator_at
  ret ptr %made
drop:
  call void @Py_DecRef(ptr %capsule)
  ret ptr null
fail:
  call void @heddle_release(ptr null, i32 11, ptr %payload)
  ret ptr null
}

; self is (record {pool, bytes}, allocator): a storage of args[0] bytes, or of the record's where nothing is given; None
; with the thread's error set where there is no memory.
define ptr @heddle_take_storage(ptr %self, ptr %args, i64 %nargs) {
entry:
  %record_at = getelementptr i8, ptr %self, i64 $TUPLE_ITEMS
  %record_object = load ptr, ptr %record_at
  %record = getelementptr i8, ptr %record_object, i64 $BYTES_CONTENT
  %allocator_at = getelementptr i8, ptr %record_at, i64 8
  %allocator = load ptr, ptr %allocator_at
  %pool = load ptr, ptr %record
  %fixed_at = getelementptr i64, ptr %record, i64 1
  %fixed = load i64, ptr %fixed_at
  %given = icmp ne i64 %nargs, 0
  br i1 %given, label %read, label %take
read:
  %arg = load ptr, ptr %args
  %wish = call i64 @PyLong_AsLongLong(ptr %arg)
  br label %take
take:
  %bytes = phi i64 [ %fixed, %entry ], [ %wish, %read ]
  %payload = call ptr @pool_take(ptr %pool, i64 %bytes)
  %none = icmp eq ptr %payload, null
  br i1 %none, label %refuse, label %wrap
refuse:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
wrap:
  %made = call ptr @wrap_storage(ptr %payload, ptr %allocator)
  ret ptr %made
}

; The payload of the storage in args[0], as an int.
define ptr @heddle_storage_payload(ptr %self, ptr %args, i64 %nargs) {
  %storage = load ptr, ptr %args
  %lease_slot = load i64, ptr @lease_slot
  %lease_at = getelementptr i8, ptr %storage, i64 %lease_slot
  %lease = load ptr, ptr %lease_at
  %payload = call ptr @PyCapsule_GetPointer(ptr %lease, ptr null)
  %number = ptrtoint ptr %payload to i64
  %result = call ptr @PyLong_FromLongLong(i64 %number)
  ret ptr %result
}

; A Python storage for the native one whose payload is args[0] (counted once more); args[1] is its allocator.
define ptr @heddle_share_storage(ptr %self, ptr %args, i64 %nargs) {
  %number_object = load ptr, ptr %args
  %number = call i64 @PyLong_AsLongLong(ptr %number_object)
  %payload = inttoptr i64 %number to ptr
  %allocator_at = getelementptr ptr, ptr %args, i64 1
  %allocator = load ptr, ptr %allocator_at
  call void @heddle_retain(i32 11, ptr %payload)
  %made = call ptr @wrap_storage(ptr %payload, ptr %allocator)
  ret ptr %made
}

; self is (record {offset, end, dtype, ndim, sizes...}, fallback): the tensor of that form in the storage args[0]. What
; is no storage, or is too small, goes to the fallback, which says what is wrong.
define ptr @heddle_place_tensor(ptr %self, ptr %args, i64 %nargs) {
entry:
  %record_at = getelementptr i8, ptr %self, i64 $TUPLE_ITEMS
  %record_object = load ptr, ptr %record_at
  %record = getelementptr i8, ptr %record_object, i64 $BYTES_CONTENT
  %one = icmp eq i64 %nargs, 1
  br i1 %one, label %look, label %refuse
look:
  %storage = load ptr, ptr %args
  %type_at = getelementptr i8, ptr %storage, i64 8
  %type = load ptr, ptr %type_at
  %wanted = load ptr, ptr @storage_type
  %is_storage = icmp eq ptr %type, %wanted
  br i1 %is_storage, label %open, label %refuse
open:
  %lease_slot = load i64, ptr @lease_slot
  %lease_at = getelementptr i8, ptr %storage, i64 %lease_slot
  %lease = load ptr, ptr %lease_at
  %payload = call ptr @PyCapsule_GetPointer(ptr %lease, ptr null)
  %has = load i64, ptr %payload
  %end_at = getelementptr i64, ptr %record, i64 1
  %end = load i64, ptr %end_at
  %fits = icmp sle i64 %end, %has
  br i1 %fits, label %make, label %refuse
make:
  %offset = load i64, ptr %record
  %memory = getelementptr i8, ptr %payload, i64 32
  %data = getelementptr i8, ptr %memory, i64 %offset
  %pool_at = getelementptr i8, ptr %payload, i64 -16
  %pool = load ptr, ptr %pool_at
  %device_at = getelementptr %Pool, ptr %pool, i32 0, i32 9
  %device = load i64, ptr %device_at, align 4
  %dtype_at = getelementptr i64, ptr %record, i64 2
  %dtype_wide = load i64, ptr %dtype_at
  %dtype = trunc i64 %dtype_wide to i32
  %ndim_at = getelementptr i64, ptr %record, i64 3
  %ndim = load i64, ptr %ndim_at
  %sizes = getelementptr i64, ptr %record, i64 4
  %dl = call ptr @heddle_new_tensor(
      ptr %data, i64 %ndim, ptr %sizes, i32 %dtype, i64 %device, ptr %payload, i32 0)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %refuse, label %wrap
wrap:
  call void @heddle_retain(i32 11, ptr %payload)
  %made = call ptr @wrap_tensor(ptr %dl)
  ret ptr %made
refuse:
  %fallback_at = getelementptr i8, ptr %record_at, i64 8
  %fallback = load ptr, ptr %fallback_at
  %result = call ptr @call_with_tuple(ptr %fallback, ptr %self, ptr %args, i64 %nargs)
  ret ptr %result
}
