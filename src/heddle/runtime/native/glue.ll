; ptr @heddle_call_kernel(self, args, nargs): the METH_FASTCALL body of every kernel's Python function.
;
; self is the tuple (record, keepalive); record is a bytes object whose contents start with the kernel's address.
; Arguments become 16-byte values {i32 kind, i32 0, i64 payload}: 0 none, 1 int, 2 bool, 3 float, 7 DLTensor*.
; Anything else goes to the Python function @slow_call(self, args), which converts and calls again.
; A kernel that returns nonzero has called heddle_set_error; @raise_hook turns that into the exception.
; Kernels run without the interpreter lock where their tensors have 4096 elements or more in all. Giving the lock up
; and taking it again costs 55 ns, or 5 ms where another thread grabs it: more than a small kernel runs.

@tensor_type = internal global ptr null
@slow_call = internal global ptr null
@raise_hook = internal global ptr null
@header_slot = internal global i64 0
@owner_slot = internal global i64 0

@PyLong_Type = external global i8
@PyBool_Type = external global i8
@PyFloat_Type = external global i8
@_Py_NoneStruct = external global i64
@_Py_TrueStruct = external global i64

declare i64 @PyLong_AsLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define void @heddle_glue_configure(ptr %tensor, i64 %header, i64 %owner, ptr %slow, ptr %raise) {
  store ptr %tensor, ptr @tensor_type
  store i64 %header, ptr @header_slot
  store i64 %owner, ptr @owner_slot
  store ptr %slow, ptr @slow_call
  store ptr %raise, ptr @raise_hook
  ret void
}

define internal ptr @call_slowly(ptr %self, ptr %args, i64 %nargs) cold noinline {
  %slow = load ptr, ptr @slow_call
  %result = call ptr @call_with_tuple(ptr %slow, ptr %self, ptr %args, i64 %nargs)
  ret ptr %result
}

; %function(self, arguments as a tuple)
define internal ptr @call_with_tuple(ptr %function, ptr %self, ptr %args, i64 %nargs) cold noinline {
entry:
  %tuple = call ptr @PyTuple_New(i64 %nargs)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %out, label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %put ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %put, label %go
put:
  %at = getelementptr ptr, ptr %args, i64 %i
  %item = load ptr, ptr %at
  call void @Py_IncRef(ptr %item)
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %item)
  %next = add i64 %i, 1
  br label %check
go:
  %result = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %self, ptr %tuple, ptr null)
  call void @Py_DecRef(ptr %tuple)
  ret ptr %result
out:
  ret ptr null
}

define internal i64 @num_elements(ptr %dl) {
entry:
  %ndim_at = getelementptr i8, ptr %dl, i64 16
  %ndim = load i32, ptr %ndim_at
  %shape_at = getelementptr i8, ptr %dl, i64 24
  %shape = load ptr, ptr %shape_at
  br label %check
check:
  %axis = phi i32 [ 0, %entry ], [ %next, %grow ]
  %product = phi i64 [ 1, %entry ], [ %grown, %grow ]
  %more = icmp slt i32 %axis, %ndim
  br i1 %more, label %grow, label %out
grow:
  %size_at = getelementptr i64, ptr %shape, i32 %axis
  %size = load i64, ptr %size_at
  %grown = mul i64 %product, %size
  %next = add i32 %axis, 1
  br label %check
out:
  ret i64 %product
}

define ptr @heddle_call_kernel(ptr %self, ptr %args, i64 %nargs) {
entry:
  %tensor_type = load ptr, ptr @tensor_type
  %header_slot = load i64, ptr @header_slot
  %many = icmp sgt i64 %nargs, 4096
  br i1 %many, label %slow, label %room
room:
  %values = alloca %Value, i64 %nargs, align 16
  br label %check
check:
  %i = phi i64 [ 0, %room ], [ %i_next, %store ]
  %work = phi i64 [ 0, %room ], [ %work_next, %store ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %convert, label %invoke
convert:
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg_at
  %type_at = getelementptr i8, ptr %arg, i64 8
  %type = load ptr, ptr %type_at
  %is_tensor = icmp eq ptr %type, %tensor_type
  br i1 %is_tensor, label %as_tensor, label %not_tensor
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
  br i1 %is_none, label %store, label %slow
as_tensor:
  %header_at = getelementptr i8, ptr %arg, i64 %header_slot
  %header = load ptr, ptr %header_at
  %dl = getelementptr i8, ptr %header, i64 $BYTES_CONTENT
  %dl_bits = ptrtoint ptr %dl to i64
  %elements = call i64 @num_elements(ptr %dl)
  br label %store
as_int:
  %int = call i64 @PyLong_AsLongLong(ptr %arg)
  %suspect = icmp eq i64 %int, -1
  br i1 %suspect, label %int_check, label %store
int_check:
  %raised = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %raised, null
  br i1 %bad, label %error, label %store
as_float:
  %double = call double @PyFloat_AsDouble(ptr %arg)
  %float_bits = bitcast double %double to i64
  br label %store
as_bool:
  %is_true = icmp eq ptr %arg, @_Py_TrueStruct
  %bool = zext i1 %is_true to i64
  br label %store
store:
  %kind = phi i32 [ 7, %as_tensor ], [ 1, %as_int ], [ 1, %int_check ], [ 3, %as_float ], [ 2, %as_bool ], [ 0, %not_bool ]
  %payload = phi i64 [ %dl_bits, %as_tensor ], [ %int, %as_int ], [ %int, %int_check ], [ %float_bits, %as_float ], [ %bool, %as_bool ], [ 0, %not_bool ]
  %added = phi i64 [ %elements, %as_tensor ], [ 0, %as_int ], [ 0, %int_check ], [ 0, %as_float ], [ 0, %as_bool ], [ 0, %not_bool ]
  %work_next = add i64 %work, %added
  %value_at = getelementptr %Value, ptr %values, i64 %i
  store i32 %kind, ptr %value_at
  %pad_at = getelementptr %Value, ptr %value_at, i64 0, i32 1
  store i32 0, ptr %pad_at
  %payload_at = getelementptr %Value, ptr %value_at, i64 0, i32 2
  store i64 %payload, ptr %payload_at
  %i_next = add i64 %i, 1
  br label %check
invoke:
  %record_at = getelementptr i8, ptr %self, i64 $TUPLE_ITEMS
  %record = load ptr, ptr %record_at
  %kernel_at = getelementptr i8, ptr %record, i64 $BYTES_CONTENT
  %kernel = load ptr, ptr %kernel_at
  %count = trunc i64 %nargs to i32
  %large = icmp uge i64 %work, 4096
  br i1 %large, label %unlocked, label %locked
unlocked:
  %thread = call ptr @PyEval_SaveThread()
  %unlocked_status = call i32 %kernel(ptr %values, i32 %count)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %judge
locked:
  %locked_status = call i32 %kernel(ptr %values, i32 %count)
  br label %judge
judge:
  %status = phi i32 [ %unlocked_status, %unlocked ], [ %locked_status, %locked ]
  %good = icmp eq i32 %status, 0
  br i1 %good, label %none, label %trap
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
trap:
  %hook = load ptr, ptr @raise_hook
  %never = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %hook, ptr %self, ptr null)
  ret ptr %never
slow:
  %result = call ptr @call_slowly(ptr %self, ptr %args, i64 %nargs)
  ret ptr %result
error:
  ret ptr null
}
