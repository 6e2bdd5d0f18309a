; Tensors over numpy's arrays, without a step of Python: what `tensor_from_numpy` makes of compact, writable, aligned
; arrays of plain numbers.

; count, type, data, dimensions, sizes, strides, base, element type, flags: numpy's PyArrayObject
%Array = type { i64, ptr, ptr, i32, ptr, ptr, ptr, ptr, i32 }
%ElementType = type { ptr, i64 }                ; numpy's object for it, its DLDataType

@ndarray_type = internal global ptr null        ; null: its objects do not look as expected
@element_types = internal global ptr null
@num_element_types = internal global i64 0

define void @heddle_arrays_configure(ptr %type, ptr %elements, i64 %count) {
  store ptr %type, ptr @ndarray_type
  store ptr %elements, ptr @element_types
  store i64 %count, ptr @num_element_types
  ret void
}

; A new Tensor over an array, or null (without an exception) where Python has to look at it. The sizes lie behind the
; header, because an array's own may move.
define internal ptr @tensor_over_array(ptr %array) {
entry:
  %flags_at = getelementptr %Array, ptr %array, i32 0, i32 8
  %flags = load i32, ptr %flags_at
  %wanted = and i32 %flags, 1281                ; C order, aligned, writable
  %plain = icmp eq i32 %wanted, 1281
  %data_at = getelementptr %Array, ptr %array, i32 0, i32 2
  %data = load ptr, ptr %data_at
  %data_bits = ptrtoint ptr %data to i64
  %past = and i64 %data_bits, 15
  %is_aligned = icmp eq i64 %past, 0
  %good = and i1 %plain, %is_aligned
  br i1 %good, label %judge_element, label %none
judge_element:
  %element_at = getelementptr %Array, ptr %array, i32 0, i32 7
  %element = load ptr, ptr %element_at
  %elements = load ptr, ptr @element_types
  %count = load i64, ptr @num_element_types
  br label %search
search:
  %i = phi i64 [ 0, %judge_element ], [ %next, %other ]
  %known = icmp slt i64 %i, %count
  br i1 %known, label %compare, label %none
compare:
  %entry_at = getelementptr %ElementType, ptr %elements, i64 %i
  %candidate = load ptr, ptr %entry_at
  %same = icmp eq ptr %candidate, %element
  br i1 %same, label %make, label %other
other:
  %next = add i64 %i, 1
  br label %search
make:
  %word_at = getelementptr %ElementType, ptr %entry_at, i32 0, i32 1
  %word_wide = load i64, ptr %word_at
  %word = trunc i64 %word_wide to i32
  %ndim_at = getelementptr %Array, ptr %array, i32 0, i32 3
  %ndim = load i32, ptr %ndim_at
  %ndim_wide = zext i32 %ndim to i64
  %sizes_bytes = shl i64 %ndim_wide, 3
  %bytes = add i64 %sizes_bytes, 48
  %header = call ptr @PyBytes_FromStringAndSize(ptr null, i64 %bytes)
  %no_header = icmp eq ptr %header, null
  br i1 %no_header, label %failed, label %fill_header
fill_header:
  %dl = getelementptr i8, ptr %header, i64 $BYTES_CONTENT
  %sizes = getelementptr i8, ptr %dl, i64 48
  store ptr %data, ptr %dl
  %device_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 1
  store i64 1, ptr %device_at                   ; type 1, number 0
  %dl_ndim_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 3
  store i32 %ndim, ptr %dl_ndim_at
  %dl_word_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 4
  store i32 %word, ptr %dl_word_at
  %dl_sizes_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 5
  store ptr %sizes, ptr %dl_sizes_at
  %dl_strides_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 6
  store ptr null, ptr %dl_strides_at
  %dl_offset_at = getelementptr %DLTensor, ptr %dl, i32 0, i32 7
  store i64 0, ptr %dl_offset_at
  %own_sizes_at = getelementptr %Array, ptr %array, i32 0, i32 4
  %own_sizes = load ptr, ptr %own_sizes_at
  call void @llvm.memcpy.p0.p0.i64(ptr %sizes, ptr %own_sizes, i64 %sizes_bytes, i1 false)
  call void @Py_IncRef(ptr %array)
  %made = call ptr @new_tensor_object(ptr %header, ptr %array)
  %unmade = icmp eq ptr %made, null
  br i1 %unmade, label %failed, label %done
done:
  ret ptr %made
failed:
  call void @PyErr_Clear()
  br label %none
none:
  ret ptr null
}

; A Python tensor of a header and an owner, whose counts it takes over; null with the exception set. It reads the rest
; from the header.
define internal ptr @new_tensor_object(ptr %header, ptr %owner) {
entry:
  %type = load ptr, ptr @tensor_type
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %no_tensor = icmp eq ptr %made, null
  br i1 %no_tensor, label %drop, label %fill
fill:
  %header_slot = load i64, ptr @header_slot
  %header_at = getelementptr i8, ptr %made, i64 %header_slot
  store ptr %header, ptr %header_at
  %owner_slot = load i64, ptr @owner_slot
  %owner_at = getelementptr i8, ptr %made, i64 %owner_slot
  store ptr %owner, ptr %owner_at
  ret ptr %made
drop:
  call void @Py_DecRef(ptr %header)
  call void @Py_DecRef(ptr %owner)
  ret ptr null
}
