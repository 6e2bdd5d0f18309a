; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.


@known_pools = internal global ptr null, align 8
@held_pools = internal global ptr null, align 8
@PyLong_Type = external global [16 x i8], align 8
@PyBool_Type = external global [16 x i8], align 8
@PyFloat_Type = external global [16 x i8], align 8
@_Py_NoneStruct = external global [16 x i8], align 8
@_Py_TrueStruct = external global [16 x i8], align 8
@_Py_FalseStruct = external global [16 x i8], align 8
@tensor_type = internal global ptr null, align 8
@header_slot = internal global i64 0, align 8
@owner_slot = internal global i64 0, align 8
@array_type = internal global ptr null, align 8
@element_types = internal global ptr null, align 8
@num_element_types = internal global i64 0, align 8
@slow_call = internal global ptr null, align 8
@raise_hook = internal global ptr null, align 8
@data_type = internal global ptr null, align 8
@tuple_type = internal global ptr null, align 8
@tag_slot = internal global i64 0, align 8
@fields_slot = internal global i64 0, align 8
@to_native = internal global ptr null, align 8
@from_native = internal global ptr null, align 8
@refuse_hook = internal global ptr null, align 8
@text_type = internal global ptr null, align 8
@shape_type = internal global ptr null, align 8
@sequence_type = internal global ptr null, align 8
@call_hook = internal global ptr null, align 8
@error_hook = internal global ptr null, align 8
@watch_hook = internal global ptr null, align 8
@storage_type = internal global ptr null, align 8
@lease_slot = internal global i64 0, align 8
@allocator_slot = internal global i64 0, align 8
@object_and_word = internal constant [3 x i8] c"OL\00"
@two_objects_and_words = internal constant [5 x i8] c"OOLL\00"
@five_words = internal constant [6 x i8] c"LLLLL\00"
@nested_too_deep = internal constant [57 x i8] c"the stack has no room for the tuples in a result's tuple\00"

declare void @Py_IncRef(ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare void @PyErr_Clear()
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyErr_Occurred()
declare i64 @PyLong_AsLongLong(ptr)
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PyTuple_Size(ptr)
declare i32 @PyErr_CheckSignals()
declare i64 @time(ptr)

; Pools are never unregistered. 0, or -1 after heddle_set_error.
define i32 @heddle_pool_register(ptr %pool) {
entry:
  %v.1 = call ptr @calloc(i64 1, i64 16)
  %v.5 = icmp eq ptr %v.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  call void @refuse_memory(i64 16)
  ret i32 -1
after.4:
  store ptr %pool, ptr %v.1
  %before.6 = load atomic ptr, ptr @known_pools acquire, align 8
  %before_at.7 = getelementptr i8, ptr %v.1, i64 8
  store ptr %before.6, ptr %before_at.7
  br label %loop.8
loop.8:
  %before.11 = phi ptr [ %before.6, %after.4 ], [ %before.14, %body.9 ]
  %pair.12 = cmpxchg ptr @known_pools, ptr %before.11, ptr %v.1 acq_rel acquire
  %v.13 = extractvalue { ptr, i1 } %pair.12, 1
  br i1 %v.13, label %after.10, label %body.9
body.9:
  %before.14 = load atomic ptr, ptr @known_pools acquire, align 8
  %before_at.15 = getelementptr i8, ptr %v.1, i64 8
  store ptr %before.14, ptr %before_at.15
  br label %loop.8
after.10:
  ret i32 0
}

; Lock every pool, so that no thread is inside one while the process forks.
define void @heddle_fork_before() {
entry:
  %known.1 = load atomic ptr, ptr @known_pools acquire, align 8
  store ptr %known.1, ptr @held_pools
  br label %loop.2
loop.2:
  %known.5 = phi ptr [ %known.1, %entry ], [ %known.9, %body.3 ]
  %v.6 = icmp ne ptr %known.5, null
  br i1 %v.6, label %body.3, label %after.4
body.3:
  %v.7 = load ptr, ptr %known.5
  call void @pool_lock(ptr %v.7)
  %before_at.8 = getelementptr i8, ptr %known.5, i64 8
  %known.9 = load ptr, ptr %before_at.8
  br label %loop.2
after.4:
  ret void
}

; Unlock what `heddle_fork_before` locked.
define void @heddle_fork_parent() {
entry:
  %held.1 = load ptr, ptr @held_pools
  br label %loop.2
loop.2:
  %held.5 = phi ptr [ %held.1, %entry ], [ %held.9, %body.3 ]
  %v.6 = icmp ne ptr %held.5, null
  br i1 %v.6, label %body.3, label %after.4
body.3:
  %v.7 = load ptr, ptr %held.5
  call void @pool_unlock(ptr %v.7)
  %before_at.8 = getelementptr i8, ptr %held.5, i64 8
  %held.9 = load ptr, ptr %before_at.8
  br label %loop.2
after.4:
  ret void
}

; Unlock the pools in the new process, which has no workers yet.
define void @heddle_fork_child() {
entry:
  call void @heddle_fork_parent()
  call void @heddle_pool_reset()
  ret void
}

; -1, or the number of the call that failed after heddle_set_error.
define i64 @heddle_run_graph(ptr %calls, i64 %count) {
entry:
  br label %loop.1
loop.1:
  %number.4 = phi i64 [ 0, %entry ], [ %number.18, %after.9 ]
  %v.5 = icmp slt i64 %number.4, %count
  br i1 %v.5, label %body.2, label %after.3
body.2:
  %at.6 = getelementptr [24 x i8], ptr %calls, i64 %number.4
  %v.10 = load ptr, ptr %at.6
  %values_at.11 = getelementptr i8, ptr %at.6, i64 8
  %v.12 = load ptr, ptr %values_at.11
  %count_at.13 = getelementptr i8, ptr %at.6, i64 16
  %v.14 = load i64, ptr %count_at.13
  %v.15 = trunc i64 %v.14 to i32
  %v.16 = call i32 %v.10(ptr %v.12, i32 %v.15)
  %v.17 = icmp ne i32 %v.16, 0
  br i1 %v.17, label %then.7, label %after.9
then.7:
  ret i64 %number.4
after.9:
  %number.18 = add i64 %number.4, 1
  br label %loop.1
after.3:
  ret i64 -1
}

; function(self, arguments as a tuple)
define internal ptr @call_with_tuple(ptr %function, ptr %self, ptr %args, i64 %count) {
entry:
  %items.1 = call ptr @PyTuple_New(i64 %count)
  %v.5 = icmp eq ptr %items.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  ret ptr null
after.4:
  br label %loop.6
loop.6:
  %number.9 = phi i64 [ 0, %after.4 ], [ %number.16, %body.7 ]
  %v.10 = icmp slt i64 %number.9, %count
  br i1 %v.10, label %body.7, label %after.8
body.7:
  %at.11 = getelementptr [8 x i8], ptr %args, i64 %number.9
  %v.12 = load ptr, ptr %at.11
  call void @Py_IncRef(ptr %v.12)
  %v.15 = call i32 @PyTuple_SetItem(ptr %items.1, i64 %number.9, ptr %v.12)
  %number.16 = add i64 %number.9, 1
  br label %loop.6
after.8:
  %result.17 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, ptr %self, ptr %items.1, ptr null)
  call void @Py_DecRef(ptr %items.1)
  ret ptr %result.17
}

; Tell numpy's type of arrays, and its element types with their words.
define void @heddle_arrays_configure(ptr %type, ptr %elements, i64 %count) {
entry:
  store ptr %type, ptr @array_type
  store ptr %elements, ptr @element_types
  store i64 %count, ptr @num_element_types
  ret void
}

; A Python tensor of a header and an owner, whose counts it takes over; null with the exception set. It
; reads the rest from the header.
define internal ptr @new_tensor_object(ptr %header, ptr %owner) {
entry:
  %v.1 = load ptr, ptr @tensor_type
  %made.2 = call ptr @PyType_GenericAlloc(ptr %v.1, i64 0)
  %v.6 = icmp eq ptr %made.2, null
  br i1 %v.6, label %then.3, label %after.5
then.3:
  call void @Py_DecRef(ptr %header)
  call void @Py_DecRef(ptr %owner)
  ret ptr null
after.5:
  %v.7 = load i64, ptr @header_slot
  %at.10 = getelementptr [1 x i8], ptr %made.2, i64 %v.7
  store ptr %header, ptr %at.10
  %v.11 = load i64, ptr @owner_slot
  %at.14 = getelementptr [1 x i8], ptr %made.2, i64 %v.11
  store ptr %owner, ptr %at.14
  ret ptr %made.2
}

; A tensor object over a Python tensor's header; null after heddle_set_error.
define internal ptr @lend_tensor(ptr %tensor, ptr %header) {
entry:
  %v.3 = add i64 48, 32
  %v.4 = call ptr @malloc(i64 %v.3)
  %v.8 = icmp eq ptr %v.4, null
  br i1 %v.8, label %then.5, label %after.7
then.5:
  call void @refuse_memory(i64 %v.3)
  br label %new_object_end.2
after.7:
  store i64 1, ptr %v.4
  %kind_at.9 = getelementptr i8, ptr %v.4, i64 8
  store i32 7, ptr %kind_at.9
  %flags_at.10 = getelementptr i8, ptr %v.4, i64 12
  store i32 3, ptr %flags_at.10
  %owner_at.11 = getelementptr i8, ptr %v.4, i64 16
  store ptr %tensor, ptr %owner_at.11
  %at.14 = getelementptr [32 x i8], ptr %v.4, i64 1
  br label %new_object_end.2
new_object_end.2:
  %result.0.15 = phi ptr [ null, %then.5 ], [ %at.14, %after.7 ]
  %v.19 = icmp ne ptr %result.0.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  call void @llvm.memcpy.p0.p0.i64(ptr %result.0.15, ptr %header, i64 48, i1 false)
  call void @Py_IncRef(ptr %tensor)
  br label %after.18
after.18:
  ret ptr %result.0.15
}

; Let go of the tensor that a capsule holds.
define internal void @end_tensor(ptr %capsule) {
entry:
  %v.1 = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @heddle_release(ptr null, i32 7, ptr %v.1)
  ret void
}

; A Python tensor over a native one, whose count it takes over; null with the exception set.
define internal ptr @wrap_tensor(ptr %tensor) {
entry:
  %capsule.1 = call ptr @PyCapsule_New(ptr %tensor, ptr null, ptr @end_tensor)
  %v.5 = icmp eq ptr %capsule.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  call void @heddle_release(ptr null, i32 7, ptr %tensor)
  ret ptr null
after.4:
  %header.6 = call ptr @PyBytes_FromStringAndSize(ptr %tensor, i64 48)
  %v.10 = icmp eq ptr %header.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @Py_DecRef(ptr %capsule.1)
  ret ptr null
after.9:
  %v.11 = call ptr @new_tensor_object(ptr %header.6, ptr %capsule.1)
  ret ptr %v.11
}

; A Python tensor with the header of a native one, over the memory of a tensor of Python's; null with the
; exception set.
define internal ptr @view_of(ptr %tensor, ptr %view) {
entry:
  %rank_at.1 = getelementptr i8, ptr %view, i64 16
  %v.2 = load i32, ptr %rank_at.1
  %v.3 = sext i32 %v.2 to i64
  %v.4 = mul i64 8, %v.3
  %v.5 = add i64 48, %v.4
  %header.6 = call ptr @PyBytes_FromStringAndSize(ptr null, i64 %v.5)
  %v.10 = icmp eq ptr %header.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  ret ptr null
after.9:
  %at.13 = getelementptr [1 x i8], ptr %header.6, i64 $BYTES_CONTENT
  %at.14 = getelementptr [48 x i8], ptr %at.13, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %at.13, ptr %view, i64 48, i1 false)
  %sizes_at.15 = getelementptr i8, ptr %at.13, i64 24
  store ptr %at.14, ptr %sizes_at.15
  %sizes_at.16 = getelementptr i8, ptr %view, i64 24
  %v.17 = load ptr, ptr %sizes_at.16
  %rank_at.18 = getelementptr i8, ptr %view, i64 16
  %v.19 = load i32, ptr %rank_at.18
  %v.20 = sext i32 %v.19 to i64
  %size.21 = mul i64 %v.20, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %at.14, ptr %v.17, i64 %size.21, i1 false)
  call void @Py_IncRef(ptr %tensor)
  %v.24 = call ptr @new_tensor_object(ptr %header.6, ptr %tensor)
  ret ptr %v.24
}

; A new Python tensor over an array that is compact, writable, aligned and of plain numbers; null,
; without an exception, where Python has to look at it.
define internal ptr @tensor_over_array(ptr %found) {
entry:
  %flags_at.5 = getelementptr i8, ptr %found, i64 64
  %v.6 = load i32, ptr %flags_at.5
  %v.7 = and i32 %v.6, 1281
  %v.8 = icmp ne i32 %v.7, 1281
  br i1 %v.8, label %then.1, label %or.4
or.4:
  %data_at.9 = getelementptr i8, ptr %found, i64 16
  %v.10 = load ptr, ptr %data_at.9
  %v.11 = ptrtoint ptr %v.10 to i64
  %v.12 = and i64 %v.11, 15
  %v.13 = icmp ne i64 %v.12, 0
  br i1 %v.13, label %then.1, label %after.3
then.1:
  ret ptr null
after.3:
  br label %loop.16
loop.16:
  %number.19 = phi i64 [ 0, %after.3 ], [ %number.34, %after.26 ]
  %v.20 = load i64, ptr @num_element_types
  %v.21 = icmp slt i64 %number.19, %v.20
  br i1 %v.21, label %body.17, label %after.18
body.17:
  %v.22 = load ptr, ptr @element_types
  %at.23 = getelementptr [16 x i8], ptr %v.22, i64 %number.19
  %v.27 = load ptr, ptr %at.23
  %element_type_at.28 = getelementptr i8, ptr %found, i64 56
  %v.29 = load ptr, ptr %element_type_at.28
  %v.30 = icmp eq ptr %v.27, %v.29
  br i1 %v.30, label %then.24, label %after.26
then.24:
  %dtype_at.31 = getelementptr i8, ptr %at.23, i64 8
  %v.32 = load i64, ptr %dtype_at.31
  %v.33 = trunc i64 %v.32 to i32
  br label %dtype_of_end.15
after.26:
  %number.34 = add i64 %number.19, 1
  br label %loop.16
after.18:
  br label %dtype_of_end.15
dtype_of_end.15:
  %result.0.35 = phi i32 [ %v.33, %then.24 ], [ 0, %after.18 ]
  %v.39 = icmp eq i32 %result.0.35, 0
  br i1 %v.39, label %then.36, label %after.38
then.36:
  ret ptr null
after.38:
  %rank_at.40 = getelementptr i8, ptr %found, i64 24
  %v.41 = load i32, ptr %rank_at.40
  %v.42 = sext i32 %v.41 to i64
  %v.43 = mul i64 8, %v.42
  %v.44 = add i64 48, %v.43
  %header.45 = call ptr @PyBytes_FromStringAndSize(ptr null, i64 %v.44)
  %v.49 = icmp eq ptr %header.45, null
  br i1 %v.49, label %then.46, label %after.48
then.46:
  call void @PyErr_Clear()
  ret ptr null
after.48:
  %at.54 = getelementptr [1 x i8], ptr %header.45, i64 $BYTES_CONTENT
  %at.55 = getelementptr [48 x i8], ptr %at.54, i64 1
  %data_at.56 = getelementptr i8, ptr %found, i64 16
  %v.57 = load ptr, ptr %data_at.56
  store ptr %v.57, ptr %at.54
  %device_type_at.58 = getelementptr i8, ptr %at.54, i64 8
  store i32 1, ptr %device_type_at.58
  %device_id_at.59 = getelementptr i8, ptr %at.54, i64 12
  store i32 0, ptr %device_id_at.59
  %rank_at.60 = getelementptr i8, ptr %at.54, i64 16
  %rank_at.61 = getelementptr i8, ptr %found, i64 24
  %v.62 = load i32, ptr %rank_at.61
  store i32 %v.62, ptr %rank_at.60
  %dtype_at.63 = getelementptr i8, ptr %at.54, i64 20
  store i32 %result.0.35, ptr %dtype_at.63
  %sizes_at.64 = getelementptr i8, ptr %at.54, i64 24
  store ptr %at.55, ptr %sizes_at.64
  %strides_at.65 = getelementptr i8, ptr %at.54, i64 32
  store ptr null, ptr %strides_at.65
  %byte_offset_at.66 = getelementptr i8, ptr %at.54, i64 40
  store i64 0, ptr %byte_offset_at.66
  %sizes_at.67 = getelementptr i8, ptr %found, i64 32
  %v.68 = load ptr, ptr %sizes_at.67
  %rank_at.69 = getelementptr i8, ptr %found, i64 24
  %v.70 = load i32, ptr %rank_at.69
  %v.71 = sext i32 %v.70 to i64
  %size.72 = mul i64 %v.71, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %at.55, ptr %v.68, i64 %size.72, i1 false)
  call void @Py_IncRef(ptr %found)
  %made.75 = call ptr @new_tensor_object(ptr %header.45, ptr %found)
  %v.79 = icmp eq ptr %made.75, null
  br i1 %v.79, label %then.76, label %after.78
then.76:
  call void @PyErr_Clear()
  br label %after.78
after.78:
  ret ptr %made.75
}

; Tell where tensors keep their header and owner, and the host's functions for rare calls.
define void @heddle_glue_configure(ptr %type, i64 %header, i64 %owner, ptr %slow, ptr %raises) {
entry:
  store ptr %type, ptr @tensor_type
  store i64 %header, ptr @header_slot
  store i64 %owner, ptr @owner_slot
  store ptr %slow, ptr @slow_call
  store ptr %raises, ptr @raise_hook
  ret void
}

; Let Python make the call, for arguments that this code does not read.
define internal ptr @call_slowly(ptr %self, ptr %args, i64 %count) cold noinline {
entry:
  %v.1 = load ptr, ptr @slow_call
  %v.2 = call ptr @call_with_tuple(ptr %v.1, ptr %self, ptr %args, i64 %count)
  ret ptr %v.2
}

; The product of a tensor's sizes.
define internal i64 @num_elements(ptr %tensor) {
entry:
  %rank_at.1 = getelementptr i8, ptr %tensor, i64 16
  %rank.2 = load i32, ptr %rank_at.1
  %sizes_at.3 = getelementptr i8, ptr %tensor, i64 24
  %sizes.4 = load ptr, ptr %sizes_at.3
  br label %loop.5
loop.5:
  %result.8 = phi i64 [ 1, %entry ], [ %result.14, %body.6 ]
  %axis.9 = phi i32 [ 0, %entry ], [ %axis.15, %body.6 ]
  %v.10 = icmp slt i32 %axis.9, %rank.2
  br i1 %v.10, label %body.6, label %after.7
body.6:
  %v.11 = sext i32 %axis.9 to i64
  %at.12 = getelementptr [8 x i8], ptr %sizes.4, i64 %v.11
  %v.13 = load i64, ptr %at.12
  %result.14 = mul i64 %result.8, %v.13
  %axis.15 = add i32 %axis.9, 1
  br label %loop.5
after.7:
  ret i64 %result.8
}

; Call a kernel from Python: `self` is bound to it. Gives None, or null with an exception.
define ptr @heddle_call_kernel(ptr %self, ptr %args, i64 %count) {
entry:
  %v.4 = icmp sgt i64 %count, 4096
  br i1 %v.4, label %then.1, label %after.3
then.1:
  %v.5 = call ptr @call_slowly(ptr %self, ptr %args, i64 %count)
  ret ptr %v.5
after.3:
  %tensors.6 = load ptr, ptr @tensor_type
  %header_at.7 = load i64, ptr @header_slot
  %room.8 = alloca [16 x i8], i64 %count, align 16
  br label %loop.9
loop.9:
  %work.12 = phi i64 [ 0, %after.3 ], [ %work.80, %after.23 ]
  %number.13 = phi i64 [ 0, %after.3 ], [ %number.81, %after.23 ]
  %v.14 = icmp slt i64 %number.13, %count
  br i1 %v.14, label %body.10, label %after.11
body.10:
  %at.15 = getelementptr [8 x i8], ptr %args, i64 %number.13
  %arg.16 = load ptr, ptr %at.15
  %at.17 = getelementptr [16 x i8], ptr %room.8, i64 %number.13
  %type_at.18 = getelementptr i8, ptr %arg.16, i64 8
  %type.19 = load ptr, ptr %type_at.18
  %zero_at.20 = getelementptr i8, ptr %at.17, i64 4
  store i32 0, ptr %zero_at.20
  %v.24 = icmp eq ptr %type.19, %tensors.6
  br i1 %v.24, label %then.21, label %else.22
then.21:
  %at.27 = getelementptr [1 x i8], ptr %arg.16, i64 %header_at.7
  %v.28 = load ptr, ptr %at.27
  %at.31 = getelementptr [1 x i8], ptr %v.28, i64 $BYTES_CONTENT
  store i32 7, ptr %at.17
  %payload_at.34 = getelementptr i8, ptr %at.17, i64 8
  store ptr %at.31, ptr %payload_at.34
  %v.35 = call i64 @num_elements(ptr %at.31)
  %work.36 = add i64 %work.12, %v.35
  br label %after.23
else.22:
  %v.40 = icmp eq ptr %type.19, @PyLong_Type
  br i1 %v.40, label %then.37, label %else.38
then.37:
  %number.46 = call i64 @PyLong_AsLongLong(ptr %arg.16)
  store i32 1, ptr %at.17
  %payload_at.47 = getelementptr i8, ptr %at.17, i64 8
  store i64 %number.46, ptr %payload_at.47
  %v.53 = icmp ne i64 %number.46, -1
  br i1 %v.53, label %yes.49, label %or.52
or.52:
  %v.54 = call ptr @PyErr_Occurred()
  %v.55 = icmp eq ptr %v.54, null
  br i1 %v.55, label %yes.49, label %no.50
yes.49:
  br label %chosen.51
no.50:
  br label %chosen.51
chosen.51:
  %v.48.56 = phi i1 [ true, %yes.49 ], [ false, %no.50 ]
  br i1 %v.48.56, label %after.43, label %then.41
then.41:
  ret ptr null
after.43:
  br label %after.39
else.38:
  %v.60 = icmp eq ptr %type.19, @PyFloat_Type
  br i1 %v.60, label %then.57, label %else.58
then.57:
  store i32 3, ptr %at.17
  %payload_at.63 = getelementptr i8, ptr %at.17, i64 8
  %v.64 = call double @PyFloat_AsDouble(ptr %arg.16)
  store double %v.64, ptr %payload_at.63
  br label %after.59
else.58:
  %v.68 = icmp eq ptr %type.19, @PyBool_Type
  br i1 %v.68, label %then.65, label %else.66
then.65:
  store i32 2, ptr %at.17
  %payload_at.71 = getelementptr i8, ptr %at.17, i64 8
  %v.72 = icmp eq ptr %arg.16, @_Py_TrueStruct
  %v.73 = zext i1 %v.72 to i64
  store i64 %v.73, ptr %payload_at.71
  br label %after.67
else.66:
  %v.77 = icmp eq ptr %arg.16, @_Py_NoneStruct
  br i1 %v.77, label %then.74, label %else.75
then.74:
  store i32 0, ptr %at.17
  %payload_at.78 = getelementptr i8, ptr %at.17, i64 8
  store i64 0, ptr %payload_at.78
  br label %after.67
else.75:
  %v.79 = call ptr @call_slowly(ptr %self, ptr %args, i64 %count)
  ret ptr %v.79
after.67:
  br label %after.59
after.59:
  br label %after.39
after.39:
  br label %after.23
after.23:
  %work.80 = phi i64 [ %work.36, %then.21 ], [ %work.12, %after.39 ]
  %number.81 = add i64 %number.13, 1
  br label %loop.9
after.11:
  %v.82 = trunc i64 %count to i32
  %at.87 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %v.88 = load ptr, ptr %at.87
  %at.91 = getelementptr [1 x i8], ptr %v.88, i64 $BYTES_CONTENT
  %v.92 = load ptr, ptr %at.91
  %v.96 = icmp uge i64 %work.12, 4096
  br i1 %v.96, label %then.93, label %else.94
then.93:
  %thread.97 = call ptr @PyEval_SaveThread()
  %status.98 = call i32 %v.92(ptr %room.8, i32 %v.82)
  call void @PyEval_RestoreThread(ptr %thread.97)
  br label %after.95
else.94:
  %status.99 = call i32 %v.92(ptr %room.8, i32 %v.82)
  br label %after.95
after.95:
  %status.100 = phi i32 [ %status.98, %then.93 ], [ %status.99, %else.94 ]
  %v.105 = icmp eq i32 %status.100, 0
  br i1 %v.105, label %yes.102, label %no.103
yes.102:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %chosen.104
no.103:
  %v.110 = load ptr, ptr @raise_hook
  %v.111 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %v.110, ptr %self, ptr null)
  br label %chosen.104
chosen.104:
  %v.101.112 = phi ptr [ @_Py_NoneStruct, %yes.102 ], [ %v.111, %no.103 ]
  ret ptr %v.101.112
}

; Raise this thread's error without a place in the program.
define internal void @raise_own_error(ptr %keep) cold noinline {
entry:
  %v.1 = load ptr, ptr @refuse_hook
  %v.2 = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %v.1, ptr @object_and_word, ptr %keep, i64 -2)
  ret void
}

; The Python object of a value. Tensors that nothing else holds (`is_alone`: neither does what holds the
; value) take their native object along.
define internal ptr @to_object(ptr %keep, ptr %value, i1 %is_alone) {
entry:
  %kind.1 = load i32, ptr %value
  %v.5 = icmp eq i32 %kind.1, 7
  br i1 %v.5, label %then.2, label %after.4
then.2:
  %payload_at.12 = getelementptr i8, ptr %value, i64 8
  %v.13 = load ptr, ptr %payload_at.12
  %at.16 = getelementptr [1 x i8], ptr %v.13, i64 -32
  %flags_at.20 = getelementptr i8, ptr %at.16, i64 12
  %v.21 = load i32, ptr %flags_at.20
  %v.22 = and i32 %v.21, 2
  %v.23 = icmp ne i32 %v.22, 0
  br i1 %v.23, label %then.17, label %after.19
then.17:
  %owner_at.24 = getelementptr i8, ptr %at.16, i64 16
  %v.25 = load ptr, ptr %owner_at.24
  call void @Py_IncRef(ptr %v.25)
  br label %tensor_object_end.7
after.19:
  br i1 %is_alone, label %and.31, label %after.30
and.31:
  %v.33 = load i64, ptr %at.16
  %v.34 = icmp eq i64 %v.33, 1
  br i1 %v.34, label %and.32, label %after.30
and.32:
  %owner_at.37 = getelementptr i8, ptr %at.16, i64 16
  %owner.38 = load ptr, ptr %owner_at.37
  %v.44 = icmp ne ptr %owner.38, null
  br i1 %v.44, label %and.43, label %no.41
and.43:
  %at.49 = getelementptr [1 x i8], ptr %owner.38, i64 -32
  %kind_at.50 = getelementptr i8, ptr %at.49, i64 8
  %v.51 = load i32, ptr %kind_at.50
  %v.52 = icmp eq i32 %v.51, 11
  br i1 %v.52, label %yes.40, label %no.41
yes.40:
  br label %chosen.42
no.41:
  br label %chosen.42
chosen.42:
  %v.39.53 = phi i1 [ true, %yes.40 ], [ false, %no.41 ]
  br i1 %v.39.53, label %then.28, label %after.30
then.28:
  store i64 2, ptr %at.16
  %v.54 = call ptr @wrap_tensor(ptr %v.13)
  br label %tensor_object_end.7
after.30:
  %flags_at.64 = getelementptr i8, ptr %at.16, i64 12
  %v.65 = load i32, ptr %flags_at.64
  %v.66 = icmp ne i32 %v.65, 0
  br i1 %v.66, label %then.60, label %or.63
or.63:
  %owner_at.67 = getelementptr i8, ptr %at.16, i64 16
  %v.68 = load ptr, ptr %owner_at.67
  %v.69 = icmp eq ptr %v.68, null
  br i1 %v.69, label %then.60, label %after.62
then.60:
  br label %is_view_of_lent_end.59
after.62:
  %owner_at.75 = getelementptr i8, ptr %at.16, i64 16
  %v.76 = load ptr, ptr %owner_at.75
  %at.81 = getelementptr [1 x i8], ptr %v.76, i64 -32
  %kind_at.82 = getelementptr i8, ptr %at.81, i64 8
  %v.83 = load i32, ptr %kind_at.82
  %v.84 = icmp eq i32 %v.83, 7
  br i1 %v.84, label %and.74, label %no.72
and.74:
  %owner_at.85 = getelementptr i8, ptr %at.16, i64 16
  %v.86 = load ptr, ptr %owner_at.85
  %at.89 = getelementptr [1 x i8], ptr %v.86, i64 -32
  %flags_at.90 = getelementptr i8, ptr %at.89, i64 12
  %v.91 = load i32, ptr %flags_at.90
  %v.92 = and i32 %v.91, 2
  %v.93 = icmp ne i32 %v.92, 0
  br i1 %v.93, label %yes.71, label %no.72
yes.71:
  br label %chosen.73
no.72:
  br label %chosen.73
chosen.73:
  %v.70.94 = phi i1 [ true, %yes.71 ], [ false, %no.72 ]
  br label %is_view_of_lent_end.59
is_view_of_lent_end.59:
  %result.0.95 = phi i1 [ false, %then.60 ], [ %v.70.94, %chosen.73 ]
  br i1 %result.0.95, label %then.55, label %after.57
then.55:
  %owner_at.96 = getelementptr i8, ptr %at.16, i64 16
  %v.97 = load ptr, ptr %owner_at.96
  %at.100 = getelementptr [1 x i8], ptr %v.97, i64 -32
  %owner_at.101 = getelementptr i8, ptr %at.100, i64 16
  %v.102 = load ptr, ptr %owner_at.101
  %v.103 = call ptr @view_of(ptr %v.102, ptr %v.13)
  br label %tensor_object_end.7
after.57:
  %v.104 = call ptr @ask_from_native(ptr %keep, ptr %value)
  br label %tensor_object_end.7
tensor_object_end.7:
  %result.0.105 = phi ptr [ %v.25, %then.17 ], [ %v.54, %then.28 ], [ %v.103, %then.55 ], [ %v.104, %after.57 ]
  ret ptr %result.0.105
after.4:
  %v.109 = icmp eq i32 %kind.1, 9
  br i1 %v.109, label %then.106, label %after.108
then.106:
  %v.110 = call ptr @sequence_object(ptr %keep, ptr %value, i1 %is_alone)
  ret ptr %v.110
after.108:
  %v.114 = icmp eq i32 %kind.1, 0
  br i1 %v.114, label %then.111, label %after.113
then.111:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
after.113:
  %v.122 = icmp eq i32 %kind.1, 1
  br i1 %v.122, label %then.119, label %after.121
then.119:
  %payload_at.123 = getelementptr i8, ptr %value, i64 8
  %v.124 = load i64, ptr %payload_at.123
  %v.125 = call ptr @PyLong_FromLongLong(i64 %v.124)
  ret ptr %v.125
after.121:
  %v.129 = icmp eq i32 %kind.1, 2
  br i1 %v.129, label %then.126, label %after.128
then.126:
  %payload_at.130 = getelementptr i8, ptr %value, i64 8
  %v.131 = load i64, ptr %payload_at.130
  %v.132 = icmp ne i64 %v.131, 0
  %v.133 = select i1 %v.132, ptr @_Py_TrueStruct, ptr @_Py_FalseStruct
  call void @Py_IncRef(ptr %v.133)
  ret ptr %v.133
after.128:
  %v.139 = icmp eq i32 %kind.1, 3
  br i1 %v.139, label %then.136, label %after.138
then.136:
  %payload_at.140 = getelementptr i8, ptr %value, i64 8
  %v.141 = load double, ptr %payload_at.140
  %v.142 = call ptr @PyFloat_FromDouble(double %v.141)
  ret ptr %v.142
after.138:
  %v.146 = icmp eq i32 %kind.1, 12
  br i1 %v.146, label %then.143, label %after.145
then.143:
  %payload_at.151 = getelementptr i8, ptr %value, i64 8
  %v.152 = load ptr, ptr %payload_at.151
  %at.155 = getelementptr [1 x i8], ptr %v.152, i64 -32
  %owner_at.156 = getelementptr i8, ptr %at.155, i64 16
  %v.157 = load ptr, ptr %owner_at.156
  call void @Py_IncRef(ptr %v.157)
  ret ptr %v.157
after.145:
  %v.163 = icmp eq i32 %kind.1, 8
  br i1 %v.163, label %then.160, label %after.162
then.160:
  %payload_at.168 = getelementptr i8, ptr %value, i64 8
  %v.169 = load ptr, ptr %payload_at.168
  %v.170 = call ptr @shape_object(ptr %v.169)
  ret ptr %v.170
after.162:
  %v.171 = call ptr @ask_from_native(ptr %keep, ptr %value)
  ret ptr %v.171
}

; Let Python make an object of a value; null with an exception.
define internal ptr @ask_from_native(ptr %keep, ptr %value) {
entry:
  %v.1 = load ptr, ptr @from_native
  %v.2 = ptrtoint ptr %value to i64
  %v.3 = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %v.1, ptr @object_and_word, ptr %keep, i64 %v.2)
  ret ptr %v.3
}

; The tuple or value of a data type that a value is, with its parts; null with an exception.
define internal ptr @sequence_object(ptr %keep, ptr %value, i1 %is_alone) {
entry:
  %payload_at.5 = getelementptr i8, ptr %value, i64 8
  %v.6 = load ptr, ptr %payload_at.5
  %at.9 = getelementptr [1 x i8], ptr %v.6, i64 -32
  %flags_at.13 = getelementptr i8, ptr %at.9, i64 12
  %v.14 = load i32, ptr %flags_at.13
  %v.15 = and i32 %v.14, 2
  %v.16 = icmp ne i32 %v.15, 0
  br i1 %v.16, label %then.10, label %after.12
then.10:
  %owner_at.17 = getelementptr i8, ptr %at.9, i64 16
  %v.18 = load ptr, ptr %owner_at.17
  call void @Py_IncRef(ptr %v.18)
  ret ptr %v.18
after.12:
  %v.24 = call i1 @stack_is_short()
  br i1 %v.24, label %then.21, label %after.23
then.21:
  call void @heddle_set_error(i32 78080, ptr @nested_too_deep, i64 0, i64 0)
  call void @raise_own_error(ptr %keep)
  ret ptr null
after.23:
  br i1 %is_alone, label %and.29, label %no.27
and.29:
  %v.30 = load i64, ptr %at.9
  %v.31 = icmp eq i64 %v.30, 1
  br i1 %v.31, label %yes.26, label %no.27
yes.26:
  br label %chosen.28
no.27:
  br label %chosen.28
chosen.28:
  %v.25.32 = phi i1 [ true, %yes.26 ], [ false, %no.27 ]
  %count.35 = load i64, ptr %v.6
  %made.36 = call ptr @PyTuple_New(i64 %count.35)
  br label %loop.37
loop.37:
  %number.40 = phi i64 [ 0, %chosen.28 ], [ %number.54, %after.51 ]
  %v.42 = icmp ne ptr %made.36, null
  br i1 %v.42, label %and.41, label %after.39
and.41:
  %v.43 = icmp slt i64 %number.40, %count.35
  br i1 %v.43, label %body.38, label %after.39
body.38:
  %at.46 = getelementptr [8 x i8], ptr %v.6, i64 1
  %at.47 = getelementptr [16 x i8], ptr %at.46, i64 %number.40
  %item.48 = call ptr @to_object(ptr %keep, ptr %at.47, i1 %v.25.32)
  %v.52 = icmp eq ptr %item.48, null
  br i1 %v.52, label %then.49, label %after.51
then.49:
  call void @Py_DecRef(ptr %made.36)
  br label %tuple_of_end.34
after.51:
  %v.53 = call i32 @PyTuple_SetItem(ptr %made.36, i64 %number.40, ptr %item.48)
  %number.54 = add i64 %number.40, 1
  br label %loop.37
after.39:
  br label %tuple_of_end.34
tuple_of_end.34:
  %result.0.55 = phi ptr [ null, %then.49 ], [ %made.36, %after.39 ]
  %v.59 = icmp eq ptr %result.0.55, null
  br i1 %v.59, label %then.56, label %after.58
then.56:
  ret ptr null
after.58:
  %v.60 = load ptr, ptr @sequence_type
  %found.61 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %v.60, ptr %result.0.55, ptr null)
  call void @Py_DecRef(ptr %result.0.55)
  ret ptr %found.61
}

; The Shape of a program's shape; null with an exception.
define internal ptr @shape_object(ptr %shape) {
entry:
  %v.1 = load i64, ptr %shape
  %made.2 = call ptr @PyTuple_New(i64 %v.1)
  br label %loop.3
loop.3:
  %number.6 = phi i64 [ 0, %entry ], [ %number.22, %after.19 ]
  %v.8 = icmp ne ptr %made.2, null
  br i1 %v.8, label %and.7, label %after.5
and.7:
  %v.9 = load i64, ptr %shape
  %v.10 = icmp slt i64 %number.6, %v.9
  br i1 %v.10, label %body.4, label %after.5
body.4:
  %at.13 = getelementptr [8 x i8], ptr %shape, i64 1
  %at.14 = getelementptr [8 x i8], ptr %at.13, i64 %number.6
  %v.15 = load i64, ptr %at.14
  %size.16 = call ptr @PyLong_FromLongLong(i64 %v.15)
  %v.20 = icmp eq ptr %size.16, null
  br i1 %v.20, label %then.17, label %after.19
then.17:
  call void @Py_DecRef(ptr %made.2)
  ret ptr null
after.19:
  %v.21 = call i32 @PyTuple_SetItem(ptr %made.2, i64 %number.6, ptr %size.16)
  %number.22 = add i64 %number.6, 1
  br label %loop.3
after.5:
  %v.26 = icmp eq ptr %made.2, null
  br i1 %v.26, label %then.23, label %after.25
then.23:
  ret ptr null
after.25:
  %v.27 = load ptr, ptr @shape_type
  %found.28 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %v.27, ptr %made.2, ptr null)
  call void @Py_DecRef(ptr %made.2)
  ret ptr %found.28
}

; Write the value of an object; False with the exception set.
define internal i1 @from_object(ptr %context, ptr %keep, ptr %arg, ptr %value) {
entry:
  %room.160 = alloca [8 x i8], align 16
  store i32 0, ptr %value
  %zero_at.3 = getelementptr i8, ptr %value, i64 4
  store i32 0, ptr %zero_at.3
  %payload_at.4 = getelementptr i8, ptr %value, i64 8
  store i64 0, ptr %payload_at.4
  %type_at.5 = getelementptr i8, ptr %arg, i64 8
  %type.6 = load ptr, ptr %type_at.5
  %v.10 = load ptr, ptr @tensor_type
  %v.11 = icmp eq ptr %type.6, %v.10
  br i1 %v.11, label %then.7, label %else.8
then.7:
  %v.17 = load i64, ptr @header_slot
  %at.20 = getelementptr [1 x i8], ptr %arg, i64 %v.17
  %v.21 = load ptr, ptr %at.20
  %at.24 = getelementptr [1 x i8], ptr %v.21, i64 $BYTES_CONTENT
  %strides_at.25 = getelementptr i8, ptr %at.24, i64 32
  %v.26 = load ptr, ptr %strides_at.25
  %v.27 = icmp eq ptr %v.26, null
  br i1 %v.27, label %then.12, label %after.14
then.12:
  %v.32 = load i64, ptr @header_slot
  %at.35 = getelementptr [1 x i8], ptr %arg, i64 %v.32
  %v.36 = load ptr, ptr %at.35
  %at.39 = getelementptr [1 x i8], ptr %v.36, i64 $BYTES_CONTENT
  %lent.40 = call ptr @lend_tensor(ptr %arg, ptr %at.39)
  %v.44 = icmp eq ptr %lent.40, null
  br i1 %v.44, label %then.41, label %after.43
then.41:
  call void @raise_own_error(ptr %keep)
  br label %lend_end.29
after.43:
  store i32 7, ptr %value
  %payload_at.49 = getelementptr i8, ptr %value, i64 8
  store ptr %lent.40, ptr %payload_at.49
  br label %lend_end.29
lend_end.29:
  %result.0.50 = phi i1 [ false, %then.41 ], [ true, %after.43 ]
  ret i1 %result.0.50
after.14:
  br label %after.9
else.8:
  %v.54 = icmp eq ptr %type.6, @PyLong_Type
  br i1 %v.54, label %then.51, label %else.52
then.51:
  %number.60 = call i64 @PyLong_AsLongLong(ptr %arg)
  store i32 1, ptr %value
  %payload_at.61 = getelementptr i8, ptr %value, i64 8
  store i64 %number.60, ptr %payload_at.61
  %v.67 = icmp ne i64 %number.60, -1
  br i1 %v.67, label %yes.63, label %or.66
or.66:
  %v.68 = call ptr @PyErr_Occurred()
  %v.69 = icmp eq ptr %v.68, null
  br i1 %v.69, label %yes.63, label %no.64
yes.63:
  br label %chosen.65
no.64:
  br label %chosen.65
chosen.65:
  %v.62.70 = phi i1 [ true, %yes.63 ], [ false, %no.64 ]
  br i1 %v.62.70, label %then.55, label %after.57
then.55:
  ret i1 true
after.57:
  store i32 0, ptr %value
  %zero_at.73 = getelementptr i8, ptr %value, i64 4
  store i32 0, ptr %zero_at.73
  %payload_at.74 = getelementptr i8, ptr %value, i64 8
  store i64 0, ptr %payload_at.74
  call void @PyErr_Clear()
  br label %after.53
else.52:
  %v.78 = icmp eq ptr %type.6, @PyFloat_Type
  br i1 %v.78, label %then.75, label %else.76
then.75:
  store i32 3, ptr %value
  %payload_at.81 = getelementptr i8, ptr %value, i64 8
  %v.82 = call double @PyFloat_AsDouble(ptr %arg)
  store double %v.82, ptr %payload_at.81
  ret i1 true
else.76:
  %v.86 = icmp eq ptr %type.6, @PyBool_Type
  br i1 %v.86, label %then.83, label %else.84
then.83:
  store i32 2, ptr %value
  %payload_at.89 = getelementptr i8, ptr %value, i64 8
  %v.90 = icmp eq ptr %arg, @_Py_TrueStruct
  %v.91 = zext i1 %v.90 to i64
  store i64 %v.91, ptr %payload_at.89
  ret i1 true
else.84:
  %v.95 = icmp eq ptr %arg, @_Py_NoneStruct
  br i1 %v.95, label %then.92, label %else.93
then.92:
  ret i1 true
else.93:
  %v.99 = load ptr, ptr @array_type
  %v.100 = icmp eq ptr %type.6, %v.99
  br i1 %v.100, label %then.96, label %else.97
then.96:
  %over.101 = call ptr @tensor_over_array(ptr %arg)
  %v.105 = icmp ne ptr %over.101, null
  br i1 %v.105, label %then.102, label %after.104
then.102:
  %v.110 = load i64, ptr @header_slot
  %at.113 = getelementptr [1 x i8], ptr %over.101, i64 %v.110
  %v.114 = load ptr, ptr %at.113
  %at.117 = getelementptr [1 x i8], ptr %v.114, i64 $BYTES_CONTENT
  %lent.118 = call ptr @lend_tensor(ptr %over.101, ptr %at.117)
  %v.122 = icmp eq ptr %lent.118, null
  br i1 %v.122, label %then.119, label %after.121
then.119:
  call void @raise_own_error(ptr %keep)
  br label %lend_end.107
after.121:
  store i32 7, ptr %value
  %payload_at.127 = getelementptr i8, ptr %value, i64 8
  store ptr %lent.118, ptr %payload_at.127
  br label %lend_end.107
lend_end.107:
  %result.0.128 = phi i1 [ false, %then.119 ], [ true, %after.121 ]
  call void @Py_DecRef(ptr %over.101)
  ret i1 %result.0.128
after.104:
  br label %after.98
else.97:
  %v.132 = load ptr, ptr @text_type
  %v.133 = icmp eq ptr %type.6, %v.132
  br i1 %v.133, label %then.129, label %else.130
then.129:
  %v.134 = call i1 @hold_object(ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.134
else.130:
  %v.138 = load ptr, ptr @shape_type
  %v.139 = icmp eq ptr %type.6, %v.138
  br i1 %v.139, label %then.135, label %else.136
then.135:
  %v.140 = call i1 @shape_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.140
else.136:
  %type_at.151 = getelementptr i8, ptr %arg, i64 8
  %v.152 = load ptr, ptr %type_at.151
  %v.153 = load ptr, ptr @sequence_type
  %v.154 = icmp eq ptr %v.152, %v.153
  br i1 %v.154, label %yes.147, label %or.150
or.150:
  %type_at.155 = getelementptr i8, ptr %arg, i64 8
  %v.156 = load ptr, ptr %type_at.155
  %v.157 = load ptr, ptr @data_type
  %v.158 = icmp eq ptr %v.156, %v.157
  br i1 %v.158, label %yes.147, label %no.148
yes.147:
  br label %chosen.149
no.148:
  br label %chosen.149
chosen.149:
  %v.146.159 = phi i1 [ true, %yes.147 ], [ false, %no.148 ]
  br i1 %v.146.159, label %then.141, label %after.143
then.141:
  store i64 10000, ptr %room.160
  %v.161 = call i1 @from_nested(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %room.160)
  ret i1 %v.161
after.143:
  br label %after.98
after.98:
  br label %after.53
after.53:
  br label %after.9
after.9:
  %v.162 = call i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.162
}

; Let Python make a value of an object. False with an exception.
define internal i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value) {
entry:
  %v.1 = load ptr, ptr @to_native
  %made.2 = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %v.1, ptr @two_objects_and_words, ptr %keep, ptr %arg, ptr %context, ptr %value)
  %v.6 = icmp eq ptr %made.2, null
  br i1 %v.6, label %then.3, label %after.5
then.3:
  ret i1 false
after.5:
  call void @Py_DecRef(ptr %made.2)
  ret i1 true
}

; Write the value of a sequence or of an object of a data type; False with the exception set. Beyond so
; many of them (`left`) and near the end of the stack Python converts it: it keeps shared what is shared,
; and needs no stack.
define internal i1 @from_nested(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %left) {
entry:
  %v.1 = load i64, ptr %left
  %v.2 = sub i64 %v.1, 1
  store i64 %v.2, ptr %left
  %v.7 = load i64, ptr %left
  %v.8 = icmp sle i64 %v.7, 0
  br i1 %v.8, label %then.3, label %or.6
or.6:
  %v.9 = call i1 @stack_is_short()
  br i1 %v.9, label %then.3, label %after.5
then.3:
  %v.10 = call i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.10
after.5:
  %type_at.14 = getelementptr i8, ptr %arg, i64 8
  %v.15 = load ptr, ptr %type_at.14
  %v.16 = load ptr, ptr @data_type
  %v.17 = icmp eq ptr %v.15, %v.16
  br i1 %v.17, label %then.11, label %after.13
then.11:
  %v.18 = call i1 @data_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %left)
  ret i1 %v.18
after.13:
  %v.19 = call i1 @sequence_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %left)
  ret i1 %v.19
}

; Write the value of an object of a data type; False with the exception set. Where its parts are of other
; kinds, Python converts it.
define internal i1 @data_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %left) {
entry:
  %room.27 = alloca [16 x i8], align 16
  %v.1 = load i64, ptr @tag_slot
  %at.4 = getelementptr [1 x i8], ptr %arg, i64 %v.1
  %tag.5 = load ptr, ptr %at.4
  %v.6 = load i64, ptr @fields_slot
  %at.9 = getelementptr [1 x i8], ptr %arg, i64 %v.6
  %fields.10 = load ptr, ptr %at.9
  %v.11 = icmp ne ptr %tag.5, null
  %v.12 = icmp ne ptr %fields.10, null
  %is_usual.13 = and i1 %v.11, %v.12
  br i1 %is_usual.13, label %or.17, label %then.14
or.17:
  %type_at.19 = getelementptr i8, ptr %tag.5, i64 8
  %v.20 = load ptr, ptr %type_at.19
  %v.21 = icmp ne ptr %v.20, @PyLong_Type
  br i1 %v.21, label %then.14, label %or.18
or.18:
  %type_at.22 = getelementptr i8, ptr %fields.10, i64 8
  %v.23 = load ptr, ptr %type_at.22
  %v.24 = load ptr, ptr @tuple_type
  %v.25 = icmp ne ptr %v.23, %v.24
  br i1 %v.25, label %then.14, label %after.16
then.14:
  %v.26 = call i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.26
after.16:
  store i32 0, ptr %room.27
  %zero_at.30 = getelementptr i8, ptr %room.27, i64 4
  store i32 0, ptr %zero_at.30
  %payload_at.31 = getelementptr i8, ptr %room.27, i64 8
  store i64 0, ptr %payload_at.31
  %number.37 = call i64 @PyLong_AsLongLong(ptr %tag.5)
  store i32 1, ptr %room.27
  %payload_at.38 = getelementptr i8, ptr %room.27, i64 8
  store i64 %number.37, ptr %payload_at.38
  %v.44 = icmp ne i64 %number.37, -1
  br i1 %v.44, label %yes.40, label %or.43
or.43:
  %v.45 = call ptr @PyErr_Occurred()
  %v.46 = icmp eq ptr %v.45, null
  br i1 %v.46, label %yes.40, label %no.41
yes.40:
  br label %chosen.42
no.41:
  br label %chosen.42
chosen.42:
  %v.39.47 = phi i1 [ true, %yes.40 ], [ false, %no.41 ]
  br i1 %v.39.47, label %after.34, label %then.32
then.32:
  call void @PyErr_Clear()
  %v.48 = call i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.48
after.34:
  %at.51 = getelementptr [1 x i8], ptr %fields.10, i64 $TUPLE_ITEMS
  %at.52 = getelementptr [8 x i8], ptr %at.51, i64 -1
  %v.53 = load i64, ptr %at.52
  %v.54 = mul i64 16, %v.53
  %size_bytes.55 = add i64 16, %v.54
  %v.58 = add i64 %size_bytes.55, 32
  %v.59 = call ptr @malloc(i64 %v.58)
  %v.63 = icmp eq ptr %v.59, null
  br i1 %v.63, label %then.60, label %after.62
then.60:
  call void @refuse_memory(i64 %v.58)
  br label %new_object_end.57
after.62:
  store i64 1, ptr %v.59
  %kind_at.64 = getelementptr i8, ptr %v.59, i64 8
  store i32 13, ptr %kind_at.64
  %flags_at.65 = getelementptr i8, ptr %v.59, i64 12
  store i32 0, ptr %flags_at.65
  %owner_at.66 = getelementptr i8, ptr %v.59, i64 16
  store ptr null, ptr %owner_at.66
  %at.69 = getelementptr [32 x i8], ptr %v.59, i64 1
  br label %new_object_end.57
new_object_end.57:
  %result.0.70 = phi ptr [ null, %then.60 ], [ %at.69, %after.62 ]
  %v.74 = icmp eq ptr %result.0.70, null
  br i1 %v.74, label %then.71, label %after.73
then.71:
  call void @raise_own_error(ptr %keep)
  ret i1 false
after.73:
  %tag_at.75 = getelementptr i8, ptr %result.0.70, i64 8
  %payload_at.76 = getelementptr i8, ptr %room.27, i64 8
  %v.77 = load i64, ptr %payload_at.76
  store i64 %v.77, ptr %tag_at.75
  store i64 0, ptr %result.0.70
  br label %loop.78
loop.78:
  %v.81 = load i64, ptr %result.0.70
  %v.82 = icmp slt i64 %v.81, %v.53
  br i1 %v.82, label %body.79, label %after.80
body.79:
  %v.86 = load i64, ptr %result.0.70
  %at.89 = getelementptr [1 x i8], ptr %fields.10, i64 $TUPLE_ITEMS
  %at.90 = getelementptr [8 x i8], ptr %at.89, i64 %v.86
  %v.91 = load ptr, ptr %at.90
  %at.94 = getelementptr [16 x i8], ptr %result.0.70, i64 1
  %v.95 = load i64, ptr %result.0.70
  %at.96 = getelementptr [16 x i8], ptr %at.94, i64 %v.95
  %type_at.109 = getelementptr i8, ptr %v.91, i64 8
  %v.110 = load ptr, ptr %type_at.109
  %v.111 = load ptr, ptr @sequence_type
  %v.112 = icmp eq ptr %v.110, %v.111
  br i1 %v.112, label %yes.105, label %or.108
or.108:
  %type_at.113 = getelementptr i8, ptr %v.91, i64 8
  %v.114 = load ptr, ptr %type_at.113
  %v.115 = load ptr, ptr @data_type
  %v.116 = icmp eq ptr %v.114, %v.115
  br i1 %v.116, label %yes.105, label %no.106
yes.105:
  br label %chosen.107
no.106:
  br label %chosen.107
chosen.107:
  %v.104.117 = phi i1 [ true, %yes.105 ], [ false, %no.106 ]
  br i1 %v.104.117, label %then.99, label %after.101
then.99:
  store i32 0, ptr %at.96
  %zero_at.120 = getelementptr i8, ptr %at.96, i64 4
  store i32 0, ptr %zero_at.120
  %payload_at.121 = getelementptr i8, ptr %at.96, i64 8
  store i64 0, ptr %payload_at.121
  %v.122 = call i1 @from_nested(ptr %context, ptr %keep, ptr %v.91, ptr %at.96, ptr %left)
  br label %part_from_object_end.98
after.101:
  %v.123 = call i1 @from_object(ptr %context, ptr %keep, ptr %v.91, ptr %at.96)
  br label %part_from_object_end.98
part_from_object_end.98:
  %result.0.124 = phi i1 [ %v.122, %then.99 ], [ %v.123, %after.101 ]
  br i1 %result.0.124, label %after.85, label %then.83
then.83:
  call void @heddle_release(ptr null, i32 13, ptr %result.0.70)
  ret i1 false
after.85:
  %v.125 = load i64, ptr %result.0.70
  %v.126 = add i64 %v.125, 1
  store i64 %v.126, ptr %result.0.70
  br label %loop.78
after.80:
  store i32 13, ptr %value
  %payload_at.131 = getelementptr i8, ptr %value, i64 8
  store ptr %result.0.70, ptr %payload_at.131
  ret i1 true
}

; A tuple with the items of a sequence, which it keeps. What it has when an item raises an exception dies
; with it.
define internal i1 @sequence_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value, ptr %left) {
entry:
  %count.1 = call i64 @PyTuple_Size(ptr %arg)
  %v.2 = mul i64 16, %count.1
  %size_bytes.3 = add i64 8, %v.2
  %v.6 = add i64 %size_bytes.3, 32
  %v.7 = call ptr @malloc(i64 %v.6)
  %v.11 = icmp eq ptr %v.7, null
  br i1 %v.11, label %then.8, label %after.10
then.8:
  call void @refuse_memory(i64 %v.6)
  br label %new_object_end.5
after.10:
  store i64 1, ptr %v.7
  %kind_at.12 = getelementptr i8, ptr %v.7, i64 8
  store i32 9, ptr %kind_at.12
  %flags_at.13 = getelementptr i8, ptr %v.7, i64 12
  store i32 3, ptr %flags_at.13
  %owner_at.14 = getelementptr i8, ptr %v.7, i64 16
  store ptr %arg, ptr %owner_at.14
  %at.17 = getelementptr [32 x i8], ptr %v.7, i64 1
  br label %new_object_end.5
new_object_end.5:
  %result.0.18 = phi ptr [ null, %then.8 ], [ %at.17, %after.10 ]
  %v.22 = icmp eq ptr %result.0.18, null
  br i1 %v.22, label %then.19, label %after.21
then.19:
  call void @raise_own_error(ptr %keep)
  ret i1 false
after.21:
  call void @Py_IncRef(ptr %arg)
  store i64 0, ptr %result.0.18
  br label %loop.23
loop.23:
  %v.26 = load i64, ptr %result.0.18
  %v.27 = icmp slt i64 %v.26, %count.1
  br i1 %v.27, label %body.24, label %after.25
body.24:
  %number.28 = load i64, ptr %result.0.18
  %v.32 = call ptr @PyTuple_GetItem(ptr %arg, i64 %number.28)
  %at.35 = getelementptr [8 x i8], ptr %result.0.18, i64 1
  %at.36 = getelementptr [16 x i8], ptr %at.35, i64 %number.28
  %type_at.49 = getelementptr i8, ptr %v.32, i64 8
  %v.50 = load ptr, ptr %type_at.49
  %v.51 = load ptr, ptr @sequence_type
  %v.52 = icmp eq ptr %v.50, %v.51
  br i1 %v.52, label %yes.45, label %or.48
or.48:
  %type_at.53 = getelementptr i8, ptr %v.32, i64 8
  %v.54 = load ptr, ptr %type_at.53
  %v.55 = load ptr, ptr @data_type
  %v.56 = icmp eq ptr %v.54, %v.55
  br i1 %v.56, label %yes.45, label %no.46
yes.45:
  br label %chosen.47
no.46:
  br label %chosen.47
chosen.47:
  %v.44.57 = phi i1 [ true, %yes.45 ], [ false, %no.46 ]
  br i1 %v.44.57, label %then.39, label %after.41
then.39:
  store i32 0, ptr %at.36
  %zero_at.60 = getelementptr i8, ptr %at.36, i64 4
  store i32 0, ptr %zero_at.60
  %payload_at.61 = getelementptr i8, ptr %at.36, i64 8
  store i64 0, ptr %payload_at.61
  %v.62 = call i1 @from_nested(ptr %context, ptr %keep, ptr %v.32, ptr %at.36, ptr %left)
  br label %part_from_object_end.38
after.41:
  %v.63 = call i1 @from_object(ptr %context, ptr %keep, ptr %v.32, ptr %at.36)
  br label %part_from_object_end.38
part_from_object_end.38:
  %result.0.64 = phi i1 [ %v.62, %then.39 ], [ %v.63, %after.41 ]
  br i1 %result.0.64, label %after.31, label %then.29
then.29:
  call void @heddle_release(ptr null, i32 9, ptr %result.0.18)
  ret i1 false
after.31:
  %v.65 = add i64 %number.28, 1
  store i64 %v.65, ptr %result.0.18
  br label %loop.23
after.25:
  store i32 9, ptr %value
  %payload_at.70 = getelementptr i8, ptr %value, i64 8
  store ptr %result.0.18, ptr %payload_at.70
  ret i1 true
}

; An object that stays one of Python's.
define internal i1 @hold_object(ptr %keep, ptr %arg, ptr %value) {
entry:
  %v.3 = add i64 0, 32
  %v.4 = call ptr @malloc(i64 %v.3)
  %v.8 = icmp eq ptr %v.4, null
  br i1 %v.8, label %then.5, label %after.7
then.5:
  call void @refuse_memory(i64 %v.3)
  br label %new_object_end.2
after.7:
  store i64 1, ptr %v.4
  %kind_at.9 = getelementptr i8, ptr %v.4, i64 8
  store i32 12, ptr %kind_at.9
  %flags_at.10 = getelementptr i8, ptr %v.4, i64 12
  store i32 1, ptr %flags_at.10
  %owner_at.11 = getelementptr i8, ptr %v.4, i64 16
  store ptr %arg, ptr %owner_at.11
  %at.14 = getelementptr [32 x i8], ptr %v.4, i64 1
  br label %new_object_end.2
new_object_end.2:
  %result.0.15 = phi ptr [ null, %then.5 ], [ %at.14, %after.7 ]
  %v.19 = icmp eq ptr %result.0.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  call void @raise_own_error(ptr %keep)
  ret i1 false
after.18:
  call void @Py_IncRef(ptr %arg)
  store i32 12, ptr %value
  %payload_at.24 = getelementptr i8, ptr %value, i64 8
  store ptr %result.0.15, ptr %payload_at.24
  ret i1 true
}

; Write the value of a Shape; False with the exception set. Python looks at one with larger sizes than
; fit 64 bits.
define internal i1 @shape_from_object(ptr %context, ptr %keep, ptr %arg, ptr %value) {
entry:
  %room.27 = alloca [16 x i8], align 16
  %at.3 = getelementptr [1 x i8], ptr %arg, i64 $TUPLE_ITEMS
  %at.4 = getelementptr [8 x i8], ptr %at.3, i64 -1
  %v.5 = load i64, ptr %at.4
  %v.6 = mul i64 8, %v.5
  %v.7 = add i64 8, %v.6
  %v.10 = add i64 %v.7, 32
  %v.11 = call ptr @malloc(i64 %v.10)
  %v.15 = icmp eq ptr %v.11, null
  br i1 %v.15, label %then.12, label %after.14
then.12:
  call void @refuse_memory(i64 %v.10)
  br label %new_object_end.9
after.14:
  store i64 1, ptr %v.11
  %kind_at.16 = getelementptr i8, ptr %v.11, i64 8
  store i32 8, ptr %kind_at.16
  %flags_at.17 = getelementptr i8, ptr %v.11, i64 12
  store i32 0, ptr %flags_at.17
  %owner_at.18 = getelementptr i8, ptr %v.11, i64 16
  store ptr null, ptr %owner_at.18
  %at.21 = getelementptr [32 x i8], ptr %v.11, i64 1
  br label %new_object_end.9
new_object_end.9:
  %result.0.22 = phi ptr [ null, %then.12 ], [ %at.21, %after.14 ]
  %v.26 = icmp eq ptr %result.0.22, null
  br i1 %v.26, label %then.23, label %after.25
then.23:
  call void @raise_own_error(ptr %keep)
  ret i1 false
after.25:
  store i64 %v.5, ptr %result.0.22
  br label %loop.28
loop.28:
  %number.31 = phi i64 [ 0, %after.25 ], [ %number.61, %after.35 ]
  %v.32 = icmp slt i64 %number.31, %v.5
  br i1 %v.32, label %body.29, label %after.30
body.29:
  %at.38 = getelementptr [1 x i8], ptr %arg, i64 $TUPLE_ITEMS
  %at.39 = getelementptr [8 x i8], ptr %at.38, i64 %number.31
  %v.40 = load ptr, ptr %at.39
  %number.43 = call i64 @PyLong_AsLongLong(ptr %v.40)
  store i32 1, ptr %room.27
  %payload_at.44 = getelementptr i8, ptr %room.27, i64 8
  store i64 %number.43, ptr %payload_at.44
  %v.50 = icmp ne i64 %number.43, -1
  br i1 %v.50, label %yes.46, label %or.49
or.49:
  %v.51 = call ptr @PyErr_Occurred()
  %v.52 = icmp eq ptr %v.51, null
  br i1 %v.52, label %yes.46, label %no.47
yes.46:
  br label %chosen.48
no.47:
  br label %chosen.48
chosen.48:
  %v.45.53 = phi i1 [ true, %yes.46 ], [ false, %no.47 ]
  br i1 %v.45.53, label %after.35, label %then.33
then.33:
  call void @PyErr_Clear()
  call void @heddle_release(ptr null, i32 8, ptr %result.0.22)
  %v.54 = call i1 @ask_to_native(ptr %context, ptr %keep, ptr %arg, ptr %value)
  ret i1 %v.54
after.35:
  %at.57 = getelementptr [8 x i8], ptr %result.0.22, i64 1
  %at.58 = getelementptr [8 x i8], ptr %at.57, i64 %number.31
  %payload_at.59 = getelementptr i8, ptr %room.27, i64 8
  %v.60 = load i64, ptr %payload_at.59
  store i64 %v.60, ptr %at.58
  %number.61 = add i64 %number.31, 1
  br label %loop.28
after.30:
  store i32 8, ptr %value
  %payload_at.66 = getelementptr i8, ptr %value, i64 8
  store ptr %result.0.22, ptr %payload_at.66
  ret i1 true
}

; What Python has: its functions, the classes of sequences, values of data types, tuples, tensors of
; strings and shapes, and where tag and fields lie.
define void @heddle_program_configure(ptr %to, ptr %source, ptr %host, ptr %refuse, ptr %error, ptr %watch, ptr %sequence, ptr %data, ptr %items, ptr %texts, ptr %shapes, i64 %tag, i64 %fields) {
entry:
  store ptr %texts, ptr @text_type
  store ptr %shapes, ptr @shape_type
  store ptr %data, ptr @data_type
  store ptr %items, ptr @tuple_type
  store i64 %tag, ptr @tag_slot
  store i64 %fields, ptr @fields_slot
  store ptr %to, ptr @to_native
  store ptr %source, ptr @from_native
  store ptr %host, ptr @call_hook
  store ptr %refuse, ptr @refuse_hook
  store ptr %error, ptr @error_hook
  store ptr %watch, ptr @watch_hook
  store ptr %sequence, ptr @sequence_type
  store ptr @Py_DecRef, ptr @host_drop
  ret void
}

; What a context's `host_call` is: the interpreter's lock is taken for the call.
define i32 @heddle_python_call(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register) {
entry:
  %v.4 = icmp eq i64 %function, -2
  br i1 %v.4, label %then.1, label %after.3
then.1:
  %v.5 = call i32 @obey_signals(ptr %context)
  ret i32 %v.5
after.3:
  %state_at.6 = getelementptr i8, ptr %context, i64 40
  %state.7 = load ptr, ptr %state_at.6
  %state_at.8 = getelementptr i8, ptr %context, i64 40
  store ptr null, ptr %state_at.8
  call void @PyEval_RestoreThread(ptr %state.7)
  call void @drop_deferred(ptr %context)
  %v.9 = load ptr, ptr @call_hook
  %result.10 = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %v.9, ptr @five_words, ptr %context, i64 %function, ptr %args, i64 %count, ptr %register)
  %v.14 = icmp ne ptr %result.10, null
  br i1 %v.14, label %then.11, label %after.13
then.11:
  call void @Py_DecRef(ptr %result.10)
  br label %after.13
after.13:
  %state_at.15 = getelementptr i8, ptr %context, i64 40
  %v.16 = call ptr @PyEval_SaveThread()
  store ptr %v.16, ptr %state_at.15
  %v.17 = icmp eq ptr %result.10, null
  %v.18 = select i1 %v.17, i32 -1, i32 0
  ret i32 %v.18
}

; Run the handlers of signals that have come; one that raises ends the program. Once a second, for the
; interpreter's lock may be another thread's for a while.
define internal i32 @obey_signals(ptr %context) {
entry:
  %now.1 = call i64 @time(ptr null)
  %asked_at_at.5 = getelementptr i8, ptr %context, i64 144
  %v.6 = load i64, ptr %asked_at_at.5
  %v.7 = icmp eq i64 %v.6, %now.1
  br i1 %v.7, label %then.2, label %after.4
then.2:
  ret i32 0
after.4:
  %asked_at_at.8 = getelementptr i8, ptr %context, i64 144
  store i64 %now.1, ptr %asked_at_at.8
  %state_at.9 = getelementptr i8, ptr %context, i64 40
  %state.10 = load ptr, ptr %state_at.9
  %state_at.11 = getelementptr i8, ptr %context, i64 40
  store ptr null, ptr %state_at.11
  call void @PyEval_RestoreThread(ptr %state.10)
  %status.12 = call i32 @PyErr_CheckSignals()
  %state_at.13 = getelementptr i8, ptr %context, i64 40
  %v.14 = call ptr @PyEval_SaveThread()
  store ptr %v.14, ptr %state_at.13
  %v.15 = icmp eq i32 %status.12, 0
  %v.16 = select i1 %v.15, i32 0, i32 -1
  ret i32 %v.16
}

; The METH_FASTCALL body of every Python function of a program.
define ptr @heddle_call_program(ptr %self, ptr %args, i64 %count) "heddle-simplified" {
entry:
  %at.3 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %keep_at.4 = getelementptr i8, ptr %at.3, i64 8
  %keep.5 = load ptr, ptr %keep_at.4
  %at.8 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %v.9 = load ptr, ptr %at.8
  %at.12 = getelementptr [1 x i8], ptr %v.9, i64 $BYTES_CONTENT
  %context.13 = load ptr, ptr %at.12
  %watched_at.17 = getelementptr i8, ptr %context.13, i64 88
  %v.18 = load i64, ptr %watched_at.17
  %v.19 = icmp ne i64 %v.18, 0
  br i1 %v.19, label %then.14, label %after.16
then.14:
  %v.20 = load ptr, ptr @watch_hook
  %v.21 = call ptr @call_with_tuple(ptr %v.20, ptr %self, ptr %args, i64 %count)
  ret ptr %v.21
after.16:
  %v.22 = call i64 @pthread_self()
  %calls_at.23 = getelementptr i8, ptr %context.13, i64 72
  %calls.24 = load i64, ptr %calls_at.23
  %v.25 = icmp eq i64 %calls.24, 0
  %thread_at.26 = getelementptr i8, ptr %context.13, i64 64
  %v.27 = load i64, ptr %thread_at.26
  %v.28 = icmp eq i64 %v.27, %v.22
  %is_allowed.29 = or i1 %v.25, %v.28
  br i1 %is_allowed.29, label %or.33, label %then.30
or.33:
  %num_args_at.34 = getelementptr i8, ptr %at.12, i64 16
  %v.35 = load i64, ptr %num_args_at.34
  %v.36 = icmp ne i64 %count, %v.35
  br i1 %v.36, label %then.30, label %after.32
then.30:
  %v.37 = select i1 %is_allowed.29, i64 %count, i64 -1
  %v.38 = call ptr @refuse_call(ptr %keep.5, i64 %v.37)
  ret ptr %v.38
after.32:
  %thread_at.39 = getelementptr i8, ptr %context.13, i64 64
  store i64 %v.22, ptr %thread_at.39
  %calls_at.40 = getelementptr i8, ptr %context.13, i64 72
  %v.41 = add i64 %calls.24, 1
  store i64 %v.41, ptr %calls_at.40
  %v.42 = add i64 %count, 1
  %room.43 = alloca [16 x i8], i64 %v.42, align 16
  br label %loop.46
loop.46:
  %number.49 = phi i64 [ 0, %after.32 ], [ %number.58, %after.53 ]
  %v.50 = icmp slt i64 %number.49, %count
  br i1 %v.50, label %body.47, label %after.48
body.47:
  %at.54 = getelementptr [8 x i8], ptr %args, i64 %number.49
  %v.55 = load ptr, ptr %at.54
  %at.56 = getelementptr [16 x i8], ptr %room.43, i64 %number.49
  %v.57 = call i1 @from_object(ptr %context.13, ptr %keep.5, ptr %v.55, ptr %at.56)
  br i1 %v.57, label %after.53, label %then.51
then.51:
  br label %from_objects_end.45
after.53:
  %number.58 = add i64 %number.49, 1
  br label %loop.46
after.48:
  br label %from_objects_end.45
from_objects_end.45:
  %result.0.59 = phi i64 [ %number.49, %then.51 ], [ %count, %after.48 ]
  %v.63 = icmp eq i64 %result.0.59, %count
  br i1 %v.63, label %then.60, label %else.61
then.60:
  %v.67 = icmp eq i64 %calls.24, 0
  br i1 %v.67, label %then.64, label %after.66
then.64:
  %stack_limit_at.68 = getelementptr i8, ptr %context.13, i64 56
  %v.69 = call ptr @stack_limit()
  store ptr %v.69, ptr %stack_limit_at.68
  br label %after.66
after.66:
  %code_at.70 = getelementptr i8, ptr %at.12, i64 8
  %v.71 = load ptr, ptr %code_at.70
  %at.74 = getelementptr [16 x i8], ptr %room.43, i64 %count
  store i32 0, ptr %at.74
  %zero_at.77 = getelementptr i8, ptr %at.74, i64 4
  store i32 0, ptr %zero_at.77
  %payload_at.78 = getelementptr i8, ptr %at.74, i64 8
  store i64 0, ptr %payload_at.78
  %state_at.79 = getelementptr i8, ptr %context.13, i64 40
  %outer_state.80 = load ptr, ptr %state_at.79
  %error_place_at.81 = getelementptr i8, ptr %context.13, i64 48
  %outer_place.82 = load i64, ptr %error_place_at.81
  %error_place_at.83 = getelementptr i8, ptr %context.13, i64 48
  store i64 -1, ptr %error_place_at.83
  %state_at.84 = getelementptr i8, ptr %context.13, i64 40
  %v.85 = call ptr @PyEval_SaveThread()
  store ptr %v.85, ptr %state_at.84
  %status.86 = call i32 @run_code(ptr %context.13, ptr %v.71, ptr %room.43, ptr %at.74)
  %state_at.87 = getelementptr i8, ptr %context.13, i64 40
  %v.88 = load ptr, ptr %state_at.87
  call void @PyEval_RestoreThread(ptr %v.88)
  %state_at.89 = getelementptr i8, ptr %context.13, i64 40
  store ptr %outer_state.80, ptr %state_at.89
  call void @heddle_release_all(ptr null, ptr %room.43, i64 %count)
  call void @drop_deferred(ptr %context.13)
  %v.93 = icmp eq i32 %status.86, 0
  br i1 %v.93, label %then.90, label %else.91
then.90:
  %answer.94 = call ptr @to_object(ptr %keep.5, ptr %at.74, i1 true)
  call void @heddle_release_all(ptr null, ptr %at.74, i64 1)
  br label %after.92
else.91:
  %v.98 = call ptr @PyErr_Occurred()
  %v.99 = icmp eq ptr %v.98, null
  br i1 %v.99, label %then.95, label %after.97
then.95:
  %v.100 = load ptr, ptr @error_hook
  %v.101 = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %v.100, ptr %keep.5, ptr null)
  br label %after.97
after.97:
  br label %after.92
after.92:
  %answer.102 = phi ptr [ %answer.94, %then.90 ], [ null, %after.97 ]
  %error_place_at.103 = getelementptr i8, ptr %context.13, i64 48
  store i64 %outer_place.82, ptr %error_place_at.103
  br label %after.62
else.61:
  call void @heddle_release_all(ptr null, ptr %room.43, i64 %result.0.59)
  br label %after.62
after.62:
  %answer.104 = phi ptr [ %answer.102, %after.92 ], [ null, %else.61 ]
  %calls_at.105 = getelementptr i8, ptr %context.13, i64 72
  store i64 %calls.24, ptr %calls_at.105
  ret ptr %answer.104
}

; Say what is wrong with a call.
define internal ptr @refuse_call(ptr %keep, i64 %count) {
entry:
  %v.1 = load ptr, ptr @refuse_hook
  %v.2 = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %v.1, ptr @object_and_word, ptr %keep, i64 %count)
  ret ptr null
}

; (address of values, how many): a tuple of their objects; null with an exception.
define ptr @heddle_objects_at(ptr %self, ptr %args, i64 %count) {
entry:
  %at.3 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %keep_at.4 = getelementptr i8, ptr %at.3, i64 8
  %keep.5 = load ptr, ptr %keep_at.4
  %at.6 = getelementptr [8 x i8], ptr %args, i64 0
  %v.7 = load ptr, ptr %at.6
  %v.10 = call i64 @PyLong_AsLongLong(ptr %v.7)
  %v.11 = inttoptr i64 %v.10 to ptr
  %at.12 = getelementptr [8 x i8], ptr %args, i64 1
  %v.13 = load ptr, ptr %at.12
  %wanted.14 = call i64 @PyLong_AsLongLong(ptr %v.13)
  %made.15 = call ptr @PyTuple_New(i64 %wanted.14)
  br label %loop.16
loop.16:
  %number.19 = phi i64 [ 0, %entry ], [ %number.30, %after.27 ]
  %v.21 = icmp ne ptr %made.15, null
  br i1 %v.21, label %and.20, label %after.18
and.20:
  %v.22 = icmp slt i64 %number.19, %wanted.14
  br i1 %v.22, label %body.17, label %after.18
body.17:
  %at.23 = getelementptr [16 x i8], ptr %v.11, i64 %number.19
  %item.24 = call ptr @held_object(ptr %keep.5, ptr %at.23)
  %v.28 = icmp eq ptr %item.24, null
  br i1 %v.28, label %then.25, label %after.27
then.25:
  call void @Py_DecRef(ptr %made.15)
  ret ptr null
after.27:
  %v.29 = call i32 @PyTuple_SetItem(ptr %made.15, i64 %number.19, ptr %item.24)
  %number.30 = add i64 %number.19, 1
  br label %loop.16
after.18:
  ret ptr %made.15
}

; The object of a value that a register goes on holding; null with an exception. Tuples of the program's
; own are left to Python: it keeps shared what is shared, and needs no stack.
define internal ptr @held_object(ptr %keep, ptr %value) {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp eq i32 %v.4, 7
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %payload_at.10 = getelementptr i8, ptr %value, i64 8
  %v.11 = load ptr, ptr %payload_at.10
  %at.14 = getelementptr [1 x i8], ptr %v.11, i64 -32
  %flags_at.19 = getelementptr i8, ptr %at.14, i64 12
  %v.20 = load i32, ptr %flags_at.19
  %v.21 = icmp eq i32 %v.20, 0
  br i1 %v.21, label %and.18, label %after.17
and.18:
  %owner_at.24 = getelementptr i8, ptr %at.14, i64 16
  %owner.25 = load ptr, ptr %owner_at.24
  %v.31 = icmp ne ptr %owner.25, null
  br i1 %v.31, label %and.30, label %no.28
and.30:
  %at.36 = getelementptr [1 x i8], ptr %owner.25, i64 -32
  %kind_at.37 = getelementptr i8, ptr %at.36, i64 8
  %v.38 = load i32, ptr %kind_at.37
  %v.39 = icmp eq i32 %v.38, 11
  br i1 %v.39, label %yes.27, label %no.28
yes.27:
  br label %chosen.29
no.28:
  br label %chosen.29
chosen.29:
  %v.26.40 = phi i1 [ true, %yes.27 ], [ false, %no.28 ]
  br i1 %v.26.40, label %then.15, label %after.17
then.15:
  %payload_at.45 = getelementptr i8, ptr %value, i64 8
  %v.46 = load ptr, ptr %payload_at.45
  %owner_at.49 = getelementptr i8, ptr %at.14, i64 16
  %v.50 = load ptr, ptr %owner_at.49
  %at.57 = getelementptr [1 x i8], ptr %v.50, i64 -32
  %v.61 = load atomic i64, ptr %at.57 monotonic, align 8
  %v.62 = icmp eq i64 %v.61, 1
  br i1 %v.62, label %then.58, label %else.59
then.58:
  store atomic i64 2, ptr %at.57 monotonic, align 8
  br label %after.60
else.59:
  %v.63 = atomicrmw add ptr %at.57, i64 1 monotonic
  br label %after.60
after.60:
  %v.64 = load ptr, ptr %v.46
  %rank_at.65 = getelementptr i8, ptr %v.46, i64 16
  %v.66 = load i32, ptr %rank_at.65
  %v.67 = sext i32 %v.66 to i64
  %sizes_at.68 = getelementptr i8, ptr %v.46, i64 24
  %v.69 = load ptr, ptr %sizes_at.68
  %dtype_at.70 = getelementptr i8, ptr %v.46, i64 20
  %v.71 = load i32, ptr %dtype_at.70
  %device_type_at.72 = getelementptr i8, ptr %v.46, i64 8
  %v.73 = load i32, ptr %device_type_at.72
  %device_id_at.74 = getelementptr i8, ptr %v.46, i64 12
  %v.75 = load i32, ptr %device_id_at.74
  %owner_at.76 = getelementptr i8, ptr %at.14, i64 16
  %v.77 = load ptr, ptr %owner_at.76
  %v.80 = mul i64 8, %v.67
  %v.81 = add i64 48, %v.80
  %v.84 = add i64 %v.81, 32
  %v.85 = call ptr @malloc(i64 %v.84)
  %v.89 = icmp eq ptr %v.85, null
  br i1 %v.89, label %then.86, label %after.88
then.86:
  call void @refuse_memory(i64 %v.84)
  br label %new_object_end.83
after.88:
  store i64 1, ptr %v.85
  %kind_at.90 = getelementptr i8, ptr %v.85, i64 8
  store i32 7, ptr %kind_at.90
  %flags_at.91 = getelementptr i8, ptr %v.85, i64 12
  store i32 0, ptr %flags_at.91
  %owner_at.92 = getelementptr i8, ptr %v.85, i64 16
  store ptr %v.77, ptr %owner_at.92
  %at.95 = getelementptr [32 x i8], ptr %v.85, i64 1
  br label %new_object_end.83
new_object_end.83:
  %result.0.96 = phi ptr [ null, %then.86 ], [ %at.95, %after.88 ]
  %v.100 = icmp eq ptr %result.0.96, null
  br i1 %v.100, label %then.97, label %after.99
then.97:
  br label %new_tensor_end.79
after.99:
  store ptr %v.64, ptr %result.0.96
  %device_type_at.101 = getelementptr i8, ptr %result.0.96, i64 8
  store i32 %v.73, ptr %device_type_at.101
  %device_id_at.102 = getelementptr i8, ptr %result.0.96, i64 12
  store i32 %v.75, ptr %device_id_at.102
  %rank_at.103 = getelementptr i8, ptr %result.0.96, i64 16
  %v.104 = trunc i64 %v.67 to i32
  store i32 %v.104, ptr %rank_at.103
  %dtype_at.105 = getelementptr i8, ptr %result.0.96, i64 20
  store i32 %v.71, ptr %dtype_at.105
  %at.106 = getelementptr [48 x i8], ptr %result.0.96, i64 1
  %sizes_at.107 = getelementptr i8, ptr %result.0.96, i64 24
  store ptr %at.106, ptr %sizes_at.107
  %strides_at.108 = getelementptr i8, ptr %result.0.96, i64 32
  store ptr null, ptr %strides_at.108
  %byte_offset_at.109 = getelementptr i8, ptr %result.0.96, i64 40
  store i64 0, ptr %byte_offset_at.109
  br label %loop.110
loop.110:
  %axis.113 = phi i64 [ 0, %after.99 ], [ %axis.118, %body.111 ]
  %v.114 = icmp slt i64 %axis.113, %v.67
  br i1 %v.114, label %body.111, label %after.112
body.111:
  %at.115 = getelementptr [8 x i8], ptr %at.106, i64 %axis.113
  %at.116 = getelementptr [8 x i8], ptr %v.69, i64 %axis.113
  %v.117 = load i64, ptr %at.116
  store i64 %v.117, ptr %at.115
  %axis.118 = add i64 %axis.113, 1
  br label %loop.110
after.112:
  br label %new_tensor_end.79
new_tensor_end.79:
  %result.0.119 = phi ptr [ null, %then.97 ], [ %result.0.96, %after.112 ]
  %v.123 = icmp eq ptr %result.0.119, null
  br i1 %v.123, label %then.120, label %after.122
then.120:
  %owner_at.124 = getelementptr i8, ptr %at.14, i64 16
  %v.125 = load ptr, ptr %owner_at.124
  %at.132 = getelementptr [1 x i8], ptr %v.125, i64 -32
  %v.137 = load atomic i64, ptr %at.132 acquire, align 8
  %v.138 = icmp eq i64 %v.137, 1
  br i1 %v.138, label %then.133, label %or.136
or.136:
  %v.139 = atomicrmw sub ptr %at.132, i64 1 acq_rel
  %v.140 = icmp eq i64 %v.139, 1
  br i1 %v.140, label %then.133, label %after.135
then.133:
  call void @pool_give(ptr %v.125)
  br label %after.135
after.135:
  call void @raise_own_error(ptr %keep)
  br label %tensor_beside_end.48
after.122:
  %v.141 = call ptr @wrap_tensor(ptr %result.0.119)
  br label %tensor_beside_end.48
tensor_beside_end.48:
  %result.0.142 = phi ptr [ null, %after.135 ], [ %v.141, %after.122 ]
  ret ptr %result.0.142
after.17:
  br label %after.3
after.3:
  %v.147 = load i32, ptr %value
  %v.148 = icmp eq i32 %v.147, 9
  br i1 %v.148, label %and.146, label %after.145
and.146:
  %payload_at.153 = getelementptr i8, ptr %value, i64 8
  %v.154 = load ptr, ptr %payload_at.153
  %at.157 = getelementptr [1 x i8], ptr %v.154, i64 -32
  %flags_at.158 = getelementptr i8, ptr %at.157, i64 12
  %v.159 = load i32, ptr %flags_at.158
  %v.160 = and i32 %v.159, 2
  %v.161 = icmp eq i32 %v.160, 0
  br i1 %v.161, label %then.143, label %after.145
then.143:
  %v.162 = call ptr @ask_from_native(ptr %keep, ptr %value)
  ret ptr %v.162
after.145:
  %v.163 = call ptr @to_object(ptr %keep, ptr %value, i1 false)
  ret ptr %v.163
}

; (address of a register, object): the register holds the object's value; null with an exception.
define ptr @heddle_store_object(ptr %self, ptr %args, i64 %count) {
entry:
  %room.1 = alloca [16 x i8], align 16
  %at.7 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %keep_at.8 = getelementptr i8, ptr %at.7, i64 8
  %v.9 = load ptr, ptr %keep_at.8
  %at.10 = getelementptr [8 x i8], ptr %args, i64 1
  %v.11 = load ptr, ptr %at.10
  %v.12 = call i1 @from_object(ptr null, ptr %v.9, ptr %v.11, ptr %room.1)
  br i1 %v.12, label %after.4, label %then.2
then.2:
  ret ptr null
after.4:
  %at.13 = getelementptr [8 x i8], ptr %args, i64 0
  %v.14 = load ptr, ptr %at.13
  %v.17 = call i64 @PyLong_AsLongLong(ptr %v.14)
  %v.18 = inttoptr i64 %v.17 to ptr
  %v.19 = load i32, ptr %room.1
  %payload_at.24 = getelementptr i8, ptr %room.1, i64 8
  %v.25 = load ptr, ptr %payload_at.24
  %old_kind.28 = load i32, ptr %v.18
  %payload_at.33 = getelementptr i8, ptr %v.18, i64 8
  %v.34 = load ptr, ptr %payload_at.33
  store i32 %v.19, ptr %v.18
  %payload_at.39 = getelementptr i8, ptr %v.18, i64 8
  store ptr %v.25, ptr %payload_at.39
  %v.43 = icmp sge i32 %old_kind.28, 7
  br i1 %v.43, label %then.40, label %after.42
then.40:
  call void @heddle_release(ptr null, i32 %old_kind.28, ptr %v.34)
  br label %after.42
after.42:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

; Tell where storages of Python keep their lease and their allocator.
define void @heddle_storage_configure(ptr %type, i64 %lease, i64 %allocator) {
entry:
  store ptr %type, ptr @storage_type
  store i64 %lease, ptr @lease_slot
  store i64 %allocator, ptr @allocator_slot
  ret void
}

; Let go of the storage that a capsule holds.
define internal void @end_lease(ptr %capsule) {
entry:
  %v.1 = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @heddle_release(ptr null, i32 11, ptr %v.1)
  ret void
}

; A Python storage over a native one, whose count it takes over; null with the exception set.
define internal ptr @wrap_storage(ptr %storage, ptr %allocator) {
entry:
  %capsule.1 = call ptr @PyCapsule_New(ptr %storage, ptr null, ptr @end_lease)
  %v.5 = icmp eq ptr %capsule.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  call void @heddle_release(ptr null, i32 11, ptr %storage)
  ret ptr null
after.4:
  %v.6 = load ptr, ptr @storage_type
  %made.7 = call ptr @PyType_GenericAlloc(ptr %v.6, i64 0)
  %v.11 = icmp eq ptr %made.7, null
  br i1 %v.11, label %then.8, label %after.10
then.8:
  call void @Py_DecRef(ptr %capsule.1)
  ret ptr null
after.10:
  %v.12 = load i64, ptr @lease_slot
  %at.15 = getelementptr [1 x i8], ptr %made.7, i64 %v.12
  store ptr %capsule.1, ptr %at.15
  %v.16 = load i64, ptr @allocator_slot
  %at.19 = getelementptr [1 x i8], ptr %made.7, i64 %v.16
  call void @Py_IncRef(ptr %allocator)
  store ptr %allocator, ptr %at.19
  ret ptr %made.7
}

; A storage of args[0] bytes, or of the record's where nothing is given; None with the thread's error set
; where there is no memory. What `self` keeps is the allocator.
define ptr @heddle_take_storage(ptr %self, ptr %args, i64 %count) {
entry:
  %at.3 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %v.4 = load ptr, ptr %at.3
  %at.7 = getelementptr [1 x i8], ptr %v.4, i64 $BYTES_CONTENT
  %size_bytes_at.8 = getelementptr i8, ptr %at.7, i64 8
  %size_bytes.9 = load i64, ptr %size_bytes_at.8
  %v.13 = icmp ne i64 %count, 0
  br i1 %v.13, label %then.10, label %after.12
then.10:
  %at.14 = getelementptr [8 x i8], ptr %args, i64 0
  %v.15 = load ptr, ptr %at.14
  %size_bytes.16 = call i64 @PyLong_AsLongLong(ptr %v.15)
  br label %after.12
after.12:
  %size_bytes.17 = phi i64 [ %size_bytes.9, %entry ], [ %size_bytes.16, %then.10 ]
  %v.18 = load ptr, ptr %at.7
  %storage.19 = call ptr @pool_take(ptr %v.18, i64 %size_bytes.17)
  %v.24 = icmp eq ptr %storage.19, null
  br i1 %v.24, label %yes.21, label %no.22
yes.21:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  br label %chosen.23
no.22:
  %at.31 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %keep_at.32 = getelementptr i8, ptr %at.31, i64 8
  %v.33 = load ptr, ptr %keep_at.32
  %v.34 = call ptr @wrap_storage(ptr %storage.19, ptr %v.33)
  br label %chosen.23
chosen.23:
  %v.20.35 = phi ptr [ @_Py_NoneStruct, %yes.21 ], [ %v.34, %no.22 ]
  ret ptr %v.20.35
}

; The payload of the storage in args[0], as an int.
define ptr @heddle_storage_payload(ptr %self, ptr %args, i64 %count) {
entry:
  %at.1 = getelementptr [8 x i8], ptr %args, i64 0
  %v.2 = load ptr, ptr %at.1
  %v.5 = load i64, ptr @lease_slot
  %at.8 = getelementptr [1 x i8], ptr %v.2, i64 %v.5
  %v.9 = load ptr, ptr %at.8
  %v.10 = call ptr @PyCapsule_GetPointer(ptr %v.9, ptr null)
  %v.11 = ptrtoint ptr %v.10 to i64
  %v.12 = call ptr @PyLong_FromLongLong(i64 %v.11)
  ret ptr %v.12
}

; A Python storage for the native one whose payload is args[0] (counted once more); args[1] is its
; allocator.
define ptr @heddle_share_storage(ptr %self, ptr %args, i64 %count) {
entry:
  %at.1 = getelementptr [8 x i8], ptr %args, i64 0
  %v.2 = load ptr, ptr %at.1
  %v.3 = call i64 @PyLong_AsLongLong(ptr %v.2)
  %storage.4 = inttoptr i64 %v.3 to ptr
  %at.11 = getelementptr [1 x i8], ptr %storage.4, i64 -32
  %v.12 = atomicrmw add ptr %at.11, i64 1 monotonic
  %at.13 = getelementptr [8 x i8], ptr %args, i64 1
  %v.14 = load ptr, ptr %at.13
  %v.15 = call ptr @wrap_storage(ptr %storage.4, ptr %v.14)
  ret ptr %v.15
}

; The tensor of the record's form in the storage args[0]. What is no storage, or is too small, goes to
; what `self` keeps, which says what is wrong.
define ptr @heddle_place_tensor(ptr %self, ptr %args, i64 %count) {
entry:
  %at.3 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %v.4 = load ptr, ptr %at.3
  %at.7 = getelementptr [1 x i8], ptr %v.4, i64 $BYTES_CONTENT
  %v.12 = icmp eq i64 %count, 1
  br i1 %v.12, label %and.11, label %after.10
and.11:
  %at.13 = getelementptr [8 x i8], ptr %args, i64 0
  %v.14 = load ptr, ptr %at.13
  %type_at.15 = getelementptr i8, ptr %v.14, i64 8
  %v.16 = load ptr, ptr %type_at.15
  %v.17 = load ptr, ptr @storage_type
  %v.18 = icmp eq ptr %v.16, %v.17
  br i1 %v.18, label %then.8, label %after.10
then.8:
  %at.19 = getelementptr [8 x i8], ptr %args, i64 0
  %v.20 = load ptr, ptr %at.19
  %v.23 = load i64, ptr @lease_slot
  %at.26 = getelementptr [1 x i8], ptr %v.20, i64 %v.23
  %v.27 = load ptr, ptr %at.26
  %v.28 = call ptr @PyCapsule_GetPointer(ptr %v.27, ptr null)
  %end_at.32 = getelementptr i8, ptr %at.7, i64 8
  %v.33 = load i64, ptr %end_at.32
  %v.34 = load i64, ptr %v.28
  %v.35 = icmp sle i64 %v.33, %v.34
  br i1 %v.35, label %then.29, label %after.31
then.29:
  %at.38 = getelementptr [32 x i8], ptr %at.7, i64 1
  %v.39 = load i64, ptr %at.7
  %rank_at.40 = getelementptr i8, ptr %at.7, i64 24
  %v.41 = load i64, ptr %rank_at.40
  %dtype_at.42 = getelementptr i8, ptr %at.7, i64 16
  %v.43 = load i64, ptr %dtype_at.42
  %v.44 = trunc i64 %v.43 to i32
  %at.49 = getelementptr [32 x i8], ptr %v.28, i64 1
  %at.50 = getelementptr [1 x i8], ptr %at.49, i64 %v.39
  %device_type_at.51 = getelementptr i8, ptr %v.28, i64 16
  %v.52 = load i32, ptr %device_type_at.51
  %device_id_at.53 = getelementptr i8, ptr %v.28, i64 20
  %v.54 = load i32, ptr %device_id_at.53
  %v.57 = mul i64 8, %v.41
  %v.58 = add i64 48, %v.57
  %v.61 = add i64 %v.58, 32
  %v.62 = call ptr @malloc(i64 %v.61)
  %v.66 = icmp eq ptr %v.62, null
  br i1 %v.66, label %then.63, label %after.65
then.63:
  call void @refuse_memory(i64 %v.61)
  br label %new_object_end.60
after.65:
  store i64 1, ptr %v.62
  %kind_at.67 = getelementptr i8, ptr %v.62, i64 8
  store i32 7, ptr %kind_at.67
  %flags_at.68 = getelementptr i8, ptr %v.62, i64 12
  store i32 0, ptr %flags_at.68
  %owner_at.69 = getelementptr i8, ptr %v.62, i64 16
  store ptr %v.28, ptr %owner_at.69
  %at.72 = getelementptr [32 x i8], ptr %v.62, i64 1
  br label %new_object_end.60
new_object_end.60:
  %result.0.73 = phi ptr [ null, %then.63 ], [ %at.72, %after.65 ]
  %v.77 = icmp eq ptr %result.0.73, null
  br i1 %v.77, label %then.74, label %after.76
then.74:
  br label %new_tensor_end.56
after.76:
  store ptr %at.50, ptr %result.0.73
  %device_type_at.78 = getelementptr i8, ptr %result.0.73, i64 8
  store i32 %v.52, ptr %device_type_at.78
  %device_id_at.79 = getelementptr i8, ptr %result.0.73, i64 12
  store i32 %v.54, ptr %device_id_at.79
  %rank_at.80 = getelementptr i8, ptr %result.0.73, i64 16
  %v.81 = trunc i64 %v.41 to i32
  store i32 %v.81, ptr %rank_at.80
  %dtype_at.82 = getelementptr i8, ptr %result.0.73, i64 20
  store i32 %v.44, ptr %dtype_at.82
  %at.83 = getelementptr [48 x i8], ptr %result.0.73, i64 1
  %sizes_at.84 = getelementptr i8, ptr %result.0.73, i64 24
  store ptr %at.83, ptr %sizes_at.84
  %strides_at.85 = getelementptr i8, ptr %result.0.73, i64 32
  store ptr null, ptr %strides_at.85
  %byte_offset_at.86 = getelementptr i8, ptr %result.0.73, i64 40
  store i64 0, ptr %byte_offset_at.86
  br label %loop.87
loop.87:
  %axis.90 = phi i64 [ 0, %after.76 ], [ %axis.95, %body.88 ]
  %v.91 = icmp slt i64 %axis.90, %v.41
  br i1 %v.91, label %body.88, label %after.89
body.88:
  %at.92 = getelementptr [8 x i8], ptr %at.83, i64 %axis.90
  %at.93 = getelementptr [8 x i8], ptr %at.38, i64 %axis.90
  %v.94 = load i64, ptr %at.93
  store i64 %v.94, ptr %at.92
  %axis.95 = add i64 %axis.90, 1
  br label %loop.87
after.89:
  br label %new_tensor_end.56
new_tensor_end.56:
  %result.0.96 = phi ptr [ null, %then.74 ], [ %result.0.73, %after.89 ]
  %v.100 = icmp ne ptr %result.0.96, null
  br i1 %v.100, label %then.97, label %after.99
then.97:
  %at.107 = getelementptr [1 x i8], ptr %v.28, i64 -32
  %v.108 = atomicrmw add ptr %at.107, i64 1 monotonic
  %v.109 = call ptr @wrap_tensor(ptr %result.0.96)
  ret ptr %v.109
after.99:
  br label %after.31
after.31:
  br label %after.10
after.10:
  %at.112 = getelementptr [1 x i8], ptr %self, i64 $TUPLE_ITEMS
  %keep_at.113 = getelementptr i8, ptr %at.112, i64 8
  %v.114 = load ptr, ptr %keep_at.113
  %v.115 = call ptr @call_with_tuple(ptr %v.114, ptr %self, ptr %args, i64 %count)
  ret ptr %v.115
}
