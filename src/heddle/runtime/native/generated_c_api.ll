; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.


@heddle_program = external global [40 x i8], align 8
@heddle_library_pool = global [4176 x i8] zeroinitializer, align 8
@set_up_state = internal global i32 0, align 4
@no_function = internal constant [33 x i8] c"the library has no such function\00"
@wrong_count = internal constant [44 x i8] c"the function takes %e arguments, and got %g\00"
@not_compact = internal constant [51 x i8] c"argument %g has strides: pass tensors without gaps\00"
@needs_host = internal constant [72 x i8] c"the program calls a function of the host language, which is not in here\00"
@threads_variable = internal constant [19 x i8] c"HEDDLE_NUM_THREADS\00"
@number_format = internal constant [5 x i8] c"%lld\00"
@int_text = internal constant [4 x i8] c"int\00"
@uint_text = internal constant [5 x i8] c"uint\00"
@float_text = internal constant [6 x i8] c"float\00"
@bfloat_text = internal constant [7 x i8] c"bfloat\00"
@bool_text = internal constant [5 x i8] c"bool\00"
@float8_e4m3fn_text = internal constant [14 x i8] c"float8_e4m3fn\00"
@float8_e4m3fnuz_text = internal constant [16 x i8] c"float8_e4m3fnuz\00"
@float8_e5m2_text = internal constant [12 x i8] c"float8_e5m2\00"
@float8_e5m2fnuz_text = internal constant [16 x i8] c"float8_e5m2fnuz\00"
@float8_e8m0fnu_text = internal constant [15 x i8] c"float8_e8m0fnu\00"
@float4_text = internal constant [14 x i8] c"float4_e2m1fn\00"
@code_text = internal constant [6 x i8] c"code \00"
@nothing_text = internal constant [8 x i8] c"nothing\00"
@an_int_text = internal constant [7 x i8] c"an int\00"
@a_bool_text = internal constant [7 x i8] c"a bool\00"
@a_float_text = internal constant [8 x i8] c"a float\00"
@a_pointer_text = internal constant [10 x i8] c"a pointer\00"
@a_tensor_text = internal constant [9 x i8] c"a tensor\00"
@a_shape_text = internal constant [8 x i8] c"a shape\00"
@a_tuple_text = internal constant [8 x i8] c"a tuple\00"
@a_closure_text = internal constant [10 x i8] c"a closure\00"
@a_storage_text = internal constant [10 x i8] c"a storage\00"
@data_text = internal constant [23 x i8] c"a value of a data type\00"
@a_reference_text = internal constant [12 x i8] c"a reference\00"
@a_value_text = internal constant [8 x i8] c"a value\00"

declare i32 @snprintf(ptr, i64, ptr, ...)
declare i32 @atoi(ptr)
declare ptr @getenv(ptr)
declare i64 @sysconf(i32)
declare i32 @strcmp(ptr, ptr)
declare i32 @llvm.smin.i32(i32, i32)
declare i32 @llvm.smax.i32(i32, i32)

; Copy a text without its end; where the next one goes.
define internal ptr @put_text(ptr %to, ptr %text) {
entry:
  br label %loop.1
loop.1:
  %to.4 = phi ptr [ %to, %entry ], [ %at.9, %body.2 ]
  %text.5 = phi ptr [ %text, %entry ], [ %at.10, %body.2 ]
  %v.6 = load i8, ptr %text.5
  %v.7 = icmp ne i8 %v.6, 0
  br i1 %v.7, label %body.2, label %after.3
body.2:
  %v.8 = load i8, ptr %text.5
  store i8 %v.8, ptr %to.4
  %at.9 = getelementptr [1 x i8], ptr %to.4, i64 1
  %at.10 = getelementptr [1 x i8], ptr %text.5, i64 1
  br label %loop.1
after.3:
  ret ptr %to.4
}

; The name of a dtype's code, which the number of bits follows; null for one that names a whole dtype.
define internal ptr @name_of_code(i64 %code) {
entry:
  %v.4 = icmp eq i64 %code, 0
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret ptr @int_text
after.3:
  %v.8 = icmp eq i64 %code, 1
  br i1 %v.8, label %then.5, label %after.7
then.5:
  ret ptr @uint_text
after.7:
  %v.12 = icmp eq i64 %code, 2
  br i1 %v.12, label %then.9, label %after.11
then.9:
  ret ptr @float_text
after.11:
  %v.13 = icmp eq i64 %code, 4
  %v.14 = select i1 %v.13, ptr @bfloat_text, ptr null
  ret ptr %v.14
}

; The name of a dtype that its code says alone; null for others.
define internal ptr @name_of_dtype(i64 %code) {
entry:
  %v.4 = icmp eq i64 %code, 6
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret ptr @bool_text
after.3:
  %v.8 = icmp eq i64 %code, 10
  br i1 %v.8, label %then.5, label %after.7
then.5:
  ret ptr @float8_e4m3fn_text
after.7:
  %v.12 = icmp eq i64 %code, 11
  br i1 %v.12, label %then.9, label %after.11
then.9:
  ret ptr @float8_e4m3fnuz_text
after.11:
  %v.16 = icmp eq i64 %code, 12
  br i1 %v.16, label %then.13, label %after.15
then.13:
  ret ptr @float8_e5m2_text
after.15:
  %v.20 = icmp eq i64 %code, 13
  br i1 %v.20, label %then.17, label %after.19
then.17:
  ret ptr @float8_e5m2fnuz_text
after.19:
  %v.24 = icmp eq i64 %code, 14
  br i1 %v.24, label %then.21, label %after.23
then.21:
  ret ptr @float8_e8m0fnu_text
after.23:
  %v.25 = icmp eq i64 %code, 17
  %v.26 = select i1 %v.25, ptr @float4_text, ptr null
  ret ptr %v.26
}

; Write the spelling of a dtype in less than DIGITS_BYTES; where the next text goes.
define internal ptr @write_dtype(ptr %to, i64 %word) {
entry:
  %code.1 = and i64 %word, 255
  %whole.2 = call ptr @name_of_dtype(i64 %code.1)
  %v.6 = icmp ne ptr %whole.2, null
  br i1 %v.6, label %then.3, label %after.5
then.3:
  %v.7 = call ptr @put_text(ptr %to, ptr %whole.2)
  ret ptr %v.7
after.5:
  %name.8 = call ptr @name_of_code(i64 %code.1)
  %v.12 = icmp eq ptr %name.8, null
  br i1 %v.12, label %then.9, label %after.11
then.9:
  %to.13 = call ptr @put_text(ptr %to, ptr @code_text)
  %v.14 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to.13, i64 24, ptr @number_format, i64 %code.1)
  %v.15 = sext i32 %v.14 to i64
  %at.16 = getelementptr [1 x i8], ptr %to.13, i64 %v.15
  ret ptr %at.16
after.11:
  %to.17 = call ptr @put_text(ptr %to, ptr %name.8)
  %v.18 = ashr i64 %word, 8
  %v.19 = and i64 %v.18, 255
  %v.20 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to.17, i64 24, ptr @number_format, i64 %v.19)
  %v.21 = sext i32 %v.20 to i64
  %at.22 = getelementptr [1 x i8], ptr %to.17, i64 %v.21
  ret ptr %at.22
}

; What a message calls a value of a kind.
define internal ptr @name_of_kind(i64 %kind) {
entry:
  %v.4 = icmp eq i64 %kind, 7
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret ptr @a_tensor_text
after.3:
  %v.8 = icmp eq i64 %kind, 8
  br i1 %v.8, label %then.5, label %after.7
then.5:
  ret ptr @a_shape_text
after.7:
  %v.12 = icmp eq i64 %kind, 9
  br i1 %v.12, label %then.9, label %after.11
then.9:
  ret ptr @a_tuple_text
after.11:
  %v.16 = icmp eq i64 %kind, 10
  br i1 %v.16, label %then.13, label %after.15
then.13:
  ret ptr @a_closure_text
after.15:
  %v.20 = icmp eq i64 %kind, 11
  br i1 %v.20, label %then.17, label %after.19
then.17:
  ret ptr @a_storage_text
after.19:
  %v.24 = icmp eq i64 %kind, 13
  br i1 %v.24, label %then.21, label %after.23
then.21:
  ret ptr @data_text
after.23:
  %v.28 = icmp eq i64 %kind, 14
  br i1 %v.28, label %then.25, label %after.27
then.25:
  ret ptr @a_reference_text
after.27:
  %v.29 = call ptr @name_of_plain_kind(i64 %kind)
  ret ptr %v.29
}

; The same for kinds that are no objects.
define internal ptr @name_of_plain_kind(i64 %kind) {
entry:
  %v.4 = icmp eq i64 %kind, 0
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret ptr @nothing_text
after.3:
  %v.8 = icmp eq i64 %kind, 1
  br i1 %v.8, label %then.5, label %after.7
then.5:
  ret ptr @an_int_text
after.7:
  %v.12 = icmp eq i64 %kind, 2
  br i1 %v.12, label %then.9, label %after.11
then.9:
  ret ptr @a_bool_text
after.11:
  %v.16 = icmp eq i64 %kind, 3
  br i1 %v.16, label %then.13, label %after.15
then.13:
  ret ptr @a_float_text
after.15:
  %v.17 = icmp eq i64 %kind, 4
  %v.18 = select i1 %v.17, ptr @a_pointer_text, ptr @a_value_text
  ret ptr %v.18
}

; Make the library's pools, once. A second thread waits for the first.
define internal void @set_up() {
entry:
  %pair.4 = cmpxchg ptr @set_up_state, i32 0, i32 1 acq_rel acquire
  %v.5 = extractvalue { i32, i1 } %pair.4, 1
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = call i32 @heddle_thread_setup()
  call void @heddle_pool_reset()
  %limit_bytes_at.7 = getelementptr i8, ptr @heddle_library_pool, i64 24
  store i64 -1, ptr %limit_bytes_at.7
  %failing_allocation_at.8 = getelementptr i8, ptr @heddle_library_pool, i64 40
  store i64 -1, ptr %failing_allocation_at.8
  %keeps_blocks_at.9 = getelementptr i8, ptr @heddle_library_pool, i64 56
  store i32 1, ptr %keeps_blocks_at.9
  %device_type_at.10 = getelementptr i8, ptr @heddle_library_pool, i64 64
  store i32 1, ptr %device_type_at.10
  %given.13 = call ptr @getenv(ptr @threads_variable)
  %v.18 = icmp eq ptr %given.13, null
  br i1 %v.18, label %yes.15, label %no.16
yes.15:
  %v.19 = call i64 @sysconf(i32 $SC_NPROCESSORS)
  %v.20 = trunc i64 %v.19 to i32
  br label %chosen.17
no.16:
  %v.21 = call i32 @atoi(ptr %given.13)
  br label %chosen.17
chosen.17:
  %wish.14.22 = phi i32 [ %v.20, %yes.15 ], [ %v.21, %no.16 ]
  %v.23 = call i32 @llvm.smax.i32(i32 %wish.14.22, i32 1)
  %v.24 = call i32 @llvm.smin.i32(i32 %v.23, i32 $MAX_THREADS)
  call void @heddle_pool_configure(i32 %v.24, i32 $SPINS)
  store atomic i32 2, ptr @set_up_state release, align 4
  ret void
after.3:
  br label %loop.25
loop.25:
  %v.28 = load atomic i32, ptr @set_up_state acquire, align 4
  %v.29 = icmp ne i32 %v.28, 2
  br i1 %v.29, label %body.26, label %after.27
body.26:
  br label %loop.25
after.27:
  ret void
}

; What a C program has in place of the host: an error V0301. Gives `Status.FAILED`.
define internal i32 @refuse_host(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register) {
entry:
  call void @heddle_set_error(i32 77056, ptr @needs_host, i64 0, i64 0)
  ret i32 -1
}

; Null where there is no memory.
define ptr @heddle_open() {
entry:
  call void @set_up()
  %v.1 = call ptr @calloc(i64 1, i64 1200)
  %v.5 = icmp ne ptr %v.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  %pools_at.6 = getelementptr i8, ptr @heddle_program, i64 32
  %v.7 = load ptr, ptr %pools_at.6
  store ptr %v.7, ptr %v.1
  %constants_at.8 = getelementptr i8, ptr %v.1, i64 8
  %constants_at.9 = getelementptr i8, ptr @heddle_program, i64 24
  %v.10 = load ptr, ptr %constants_at.9
  store ptr %v.10, ptr %constants_at.8
  %functions_at.11 = getelementptr i8, ptr %v.1, i64 16
  %functions_at.12 = getelementptr i8, ptr @heddle_program, i64 16
  %v.13 = load ptr, ptr %functions_at.12
  store ptr %v.13, ptr %functions_at.11
  %host_call_at.14 = getelementptr i8, ptr %v.1, i64 24
  store ptr @refuse_host, ptr %host_call_at.14
  br label %after.4
after.4:
  ret ptr %v.1
}

; Free a program and its last results. Null is no program.
define void @heddle_close(ptr %program) {
entry:
  %v.4 = icmp ne ptr %program, null
  br i1 %v.4, label %then.1, label %after.3
then.1:
  %result_at.5 = getelementptr i8, ptr %program, i64 152
  call void @heddle_release_all(ptr null, ptr %result_at.5, i64 1)
  call void @free(ptr %program)
  br label %after.3
after.3:
  ret void
}

; Run a function on tensors and keep its results. 0, or -1 with an error: V0301 for an unknown name.
define i32 @heddle_run(ptr %program, ptr %name, ptr %inputs, i32 %num_inputs) {
entry:
  %result_at.1 = getelementptr i8, ptr %program, i64 152
  call void @heddle_release_all(ptr null, ptr %result_at.1, i64 1)
  %num_outputs_at.2 = getelementptr i8, ptr %program, i64 168
  store i32 0, ptr %num_outputs_at.2
  br label %loop.5
loop.5:
  %number.8 = phi i64 [ 0, %entry ], [ %number.22, %after.17 ]
  %v.9 = load i64, ptr @heddle_program
  %v.10 = icmp slt i64 %number.8, %v.9
  br i1 %v.10, label %body.6, label %after.7
body.6:
  %names_at.11 = getelementptr i8, ptr @heddle_program, i64 8
  %v.12 = load ptr, ptr %names_at.11
  %at.13 = getelementptr [8 x i8], ptr %v.12, i64 %number.8
  %known.14 = load ptr, ptr %at.13
  %v.19 = icmp ne ptr %known.14, null
  br i1 %v.19, label %and.18, label %after.17
and.18:
  %v.20 = call i32 @strcmp(ptr %known.14, ptr %name)
  %v.21 = icmp eq i32 %v.20, 0
  br i1 %v.21, label %then.15, label %after.17
then.15:
  br label %find_function_end.4
after.17:
  %number.22 = add i64 %number.8, 1
  br label %loop.5
after.7:
  br label %find_function_end.4
find_function_end.4:
  %result.0.23 = phi i64 [ %number.8, %then.15 ], [ -1, %after.7 ]
  %v.27 = icmp slt i64 %result.0.23, 0
  br i1 %v.27, label %then.24, label %after.26
then.24:
  call void @heddle_set_error(i32 77056, ptr @no_function, i64 0, i64 0)
  ret i32 -1
after.26:
  %functions_at.28 = getelementptr i8, ptr %program, i64 16
  %v.29 = load ptr, ptr %functions_at.28
  %at.30 = getelementptr [16 x i8], ptr %v.29, i64 %result.0.23
  %count.31 = sext i32 %num_inputs to i64
  %num_args_at.35 = getelementptr i8, ptr %at.30, i64 8
  %v.36 = load i64, ptr %num_args_at.35
  %v.37 = icmp ne i64 %v.36, %count.31
  br i1 %v.37, label %then.32, label %after.34
then.32:
  %num_args_at.38 = getelementptr i8, ptr %at.30, i64 8
  %v.39 = load i64, ptr %num_args_at.38
  call void @heddle_set_error(i32 77312, ptr @wrong_count, i64 %v.39, i64 %count.31)
  ret i32 -1
after.34:
  %room.40 = alloca [16 x i8], i64 %count.31, align 16
  br label %loop.43
loop.43:
  %number.46 = phi i64 [ 0, %after.34 ], [ %number.80, %after.57 ]
  %v.47 = icmp slt i64 %number.46, %count.31
  br i1 %v.47, label %body.44, label %after.45
body.44:
  %at.51 = getelementptr [8 x i8], ptr %inputs, i64 %number.46
  %v.52 = load ptr, ptr %at.51
  %v.53 = call i1 @is_compact(ptr %v.52)
  br i1 %v.53, label %after.50, label %then.48
then.48:
  call void @heddle_set_error(i32 77313, ptr @not_compact, i64 0, i64 %number.46)
  br label %lend_inputs_end.42
after.50:
  %lent.54 = call ptr @heddle_new(i32 7, i64 48, ptr null, i32 0)
  %v.58 = icmp eq ptr %lent.54, null
  br i1 %v.58, label %then.55, label %after.57
then.55:
  br label %lend_inputs_end.42
after.57:
  %at.59 = getelementptr [8 x i8], ptr %inputs, i64 %number.46
  %v.60 = load ptr, ptr %at.59
  call void @llvm.memcpy.p0.p0.i64(ptr %lent.54, ptr %v.60, i64 48, i1 false)
  %strides_at.61 = getelementptr i8, ptr %lent.54, i64 32
  store ptr null, ptr %strides_at.61
  %v.64 = load ptr, ptr %lent.54
  %byte_offset_at.65 = getelementptr i8, ptr %lent.54, i64 40
  %v.66 = load i64, ptr %byte_offset_at.65
  %at.67 = getelementptr [1 x i8], ptr %v.64, i64 %v.66
  store ptr %at.67, ptr %lent.54
  %byte_offset_at.68 = getelementptr i8, ptr %lent.54, i64 40
  store i64 0, ptr %byte_offset_at.68
  %at.69 = getelementptr [16 x i8], ptr %room.40, i64 %number.46
  store i32 0, ptr %at.69
  %zero_at.72 = getelementptr i8, ptr %at.69, i64 4
  store i32 0, ptr %zero_at.72
  %payload_at.73 = getelementptr i8, ptr %at.69, i64 8
  store i64 0, ptr %payload_at.73
  %at.74 = getelementptr [16 x i8], ptr %room.40, i64 %number.46
  store i32 7, ptr %at.74
  %payload_at.79 = getelementptr i8, ptr %at.74, i64 8
  store ptr %lent.54, ptr %payload_at.79
  %number.80 = add i64 %number.46, 1
  br label %loop.43
after.45:
  br label %lend_inputs_end.42
lend_inputs_end.42:
  %result.0.81 = phi i64 [ %number.46, %then.48 ], [ %number.46, %then.55 ], [ %count.31, %after.45 ]
  %v.85 = icmp eq i64 %result.0.81, %count.31
  br i1 %v.85, label %then.82, label %after.84
then.82:
  %error_place_at.86 = getelementptr i8, ptr %program, i64 48
  store i64 -1, ptr %error_place_at.86
  %stack_limit_at.87 = getelementptr i8, ptr %program, i64 56
  %v.88 = call ptr @stack_limit()
  store ptr %v.88, ptr %stack_limit_at.87
  %stack_left_at.89 = getelementptr i8, ptr %program, i64 104
  store i64 1073741824, ptr %stack_left_at.89
  %v.90 = load ptr, ptr %at.30
  %result_at.91 = getelementptr i8, ptr %program, i64 152
  %status.92 = call i32 @run_code(ptr %program, ptr %v.90, ptr %room.40, ptr %result_at.91)
  br label %after.84
after.84:
  %status.93 = phi i32 [ -1, %lend_inputs_end.42 ], [ %status.92, %then.82 ]
  %v.97 = icmp eq i32 %status.93, 0
  br i1 %v.97, label %then.94, label %after.96
then.94:
  %num_outputs_at.98 = getelementptr i8, ptr %program, i64 168
  %result_at.99 = getelementptr i8, ptr %program, i64 152
  %v.105 = load i32, ptr %result_at.99
  %v.106 = icmp ne i32 %v.105, 9
  br i1 %v.106, label %then.102, label %after.104
then.102:
  br label %count_of_end.101
after.104:
  %payload_at.111 = getelementptr i8, ptr %result_at.99, i64 8
  %v.112 = load ptr, ptr %payload_at.111
  %v.113 = load i64, ptr %v.112
  %v.114 = trunc i64 %v.113 to i32
  br label %count_of_end.101
count_of_end.101:
  %result.0.115 = phi i32 [ 1, %then.102 ], [ %v.114, %after.104 ]
  store i32 %result.0.115, ptr %num_outputs_at.98
  br label %after.96
after.96:
  call void @heddle_release_all(ptr null, ptr %room.40, i64 %result.0.81)
  ret i32 %status.93
}

; How many values the last run gave; 0 after one that failed.
define i32 @heddle_num_outputs(ptr %program) {
entry:
  %num_outputs_at.1 = getelementptr i8, ptr %program, i64 168
  %v.2 = load i32, ptr %num_outputs_at.1
  ret i32 %v.2
}

; Null where there is no such output, or it is no tensor.
define ptr @heddle_output(ptr %program, i32 %index) {
entry:
  %v.4 = call i32 @heddle_num_outputs(ptr %program)
  %v.5 = icmp uge i32 %index, %v.4
  br i1 %v.5, label %then.1, label %after.3
then.1:
  ret ptr null
after.3:
  %result_at.6 = getelementptr i8, ptr %program, i64 152
  %v.10 = load i32, ptr %result_at.6
  %v.11 = icmp eq i32 %v.10, 9
  br i1 %v.11, label %then.7, label %after.9
then.7:
  %payload_at.16 = getelementptr i8, ptr %result_at.6, i64 8
  %v.17 = load ptr, ptr %payload_at.16
  %at.20 = getelementptr [8 x i8], ptr %v.17, i64 1
  %v.21 = sext i32 %index to i64
  %at.22 = getelementptr [16 x i8], ptr %at.20, i64 %v.21
  br label %after.9
after.9:
  %found.23 = phi ptr [ %result_at.6, %after.3 ], [ %at.22, %then.7 ]
  %v.28 = load i32, ptr %found.23
  %v.29 = icmp eq i32 %v.28, 7
  br i1 %v.29, label %yes.25, label %no.26
yes.25:
  %payload_at.34 = getelementptr i8, ptr %found.23, i64 8
  %v.35 = load ptr, ptr %payload_at.34
  br label %chosen.27
no.26:
  br label %chosen.27
chosen.27:
  %v.24.36 = phi ptr [ %v.35, %yes.25 ], [ null, %no.26 ]
  ret ptr %v.24.36
}

; Write what a letter behind a percent sign stands for; where the next text goes, null for no mark.
define internal ptr @put_mark(ptr %to, ptr %error, i8 %letter) {
entry:
  %v.4 = icmp eq i8 %letter, 101
  br i1 %v.4, label %then.1, label %after.3
then.1:
  %expected_at.5 = getelementptr i8, ptr %error, i64 8
  %v.6 = load i64, ptr %expected_at.5
  %v.7 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 24, ptr @number_format, i64 %v.6)
  %v.8 = sext i32 %v.7 to i64
  %at.9 = getelementptr [1 x i8], ptr %to, i64 %v.8
  ret ptr %at.9
after.3:
  %v.13 = icmp eq i8 %letter, 103
  br i1 %v.13, label %then.10, label %after.12
then.10:
  %got_at.14 = getelementptr i8, ptr %error, i64 16
  %v.15 = load i64, ptr %got_at.14
  %v.16 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 24, ptr @number_format, i64 %v.15)
  %v.17 = sext i32 %v.16 to i64
  %at.18 = getelementptr [1 x i8], ptr %to, i64 %v.17
  ret ptr %at.18
after.12:
  %v.22 = icmp eq i8 %letter, 116
  br i1 %v.22, label %then.19, label %after.21
then.19:
  %got_at.23 = getelementptr i8, ptr %error, i64 16
  %v.24 = load i64, ptr %got_at.23
  %v.25 = call ptr @write_dtype(ptr %to, i64 %v.24)
  ret ptr %v.25
after.21:
  %v.29 = icmp eq i8 %letter, 118
  br i1 %v.29, label %then.26, label %after.28
then.26:
  %got_at.30 = getelementptr i8, ptr %error, i64 16
  %v.31 = load i64, ptr %got_at.30
  %v.32 = call ptr @name_of_kind(i64 %v.31)
  %v.33 = call ptr @put_text(ptr %to, ptr %v.32)
  ret ptr %v.33
after.28:
  %v.38 = icmp eq i8 %letter, 107
  br i1 %v.38, label %yes.35, label %no.36
yes.35:
  %got_at.39 = getelementptr i8, ptr %error, i64 16
  %v.40 = load i64, ptr %got_at.39
  %v.41 = call ptr @name_of_kind(i64 %v.40)
  %v.42 = call ptr @put_text(ptr %to, ptr %v.41)
  br label %chosen.37
no.36:
  br label %chosen.37
chosen.37:
  %v.34.43 = phi ptr [ %v.42, %yes.35 ], [ null, %no.36 ]
  ret ptr %v.34.43
}

; The text of this thread's last error, its numbers put in; empty where there is none. The program's. A
; text that is too long is cut.
define ptr @heddle_error(ptr %program) {
entry:
  %error_at.1 = getelementptr i8, ptr %program, i64 172
  %at.2 = getelementptr [1 x i8], ptr %error_at.1, i64 0
  %v.3 = call ptr @heddle_thread()
  %v.7 = load i32, ptr %v.3
  %v.8 = icmp eq i32 %v.7, 0
  br i1 %v.8, label %then.4, label %after.6
then.4:
  store i8 0, ptr %at.2
  ret ptr %at.2
after.6:
  store i32 0, ptr %v.3
  %message_at.9 = getelementptr i8, ptr %v.3, i64 24
  %at.10 = getelementptr [1 x i8], ptr %message_at.9, i64 0
  %at.11 = getelementptr [1 x i8], ptr %at.2, i64 1000
  br label %loop.12
loop.12:
  %source.15 = phi ptr [ %at.10, %after.6 ], [ %source.40, %after.34 ]
  %to.16 = phi ptr [ %at.2, %after.6 ], [ %to.41, %after.34 ]
  %v.18 = load i8, ptr %source.15
  %v.19 = icmp ne i8 %v.18, 0
  br i1 %v.19, label %and.17, label %after.14
and.17:
  %v.20 = icmp ult ptr %to.16, %at.11
  br i1 %v.20, label %body.13, label %after.14
body.13:
  %v.25 = load i8, ptr %source.15
  %v.26 = icmp eq i8 %v.25, 37
  br i1 %v.26, label %yes.22, label %no.23
yes.22:
  %v.27 = call ptr @heddle_thread()
  %at.28 = getelementptr [1 x i8], ptr %source.15, i64 1
  %v.29 = load i8, ptr %at.28
  %v.30 = call ptr @put_mark(ptr %to.16, ptr %v.27, i8 %v.29)
  br label %chosen.24
no.23:
  br label %chosen.24
chosen.24:
  %after.21.31 = phi ptr [ %v.30, %yes.22 ], [ null, %no.23 ]
  %v.35 = icmp eq ptr %after.21.31, null
  br i1 %v.35, label %then.32, label %else.33
then.32:
  %v.36 = load i8, ptr %source.15
  store i8 %v.36, ptr %to.16
  %at.37 = getelementptr [1 x i8], ptr %to.16, i64 1
  %at.38 = getelementptr [1 x i8], ptr %source.15, i64 1
  br label %after.34
else.33:
  %at.39 = getelementptr [1 x i8], ptr %source.15, i64 2
  br label %after.34
after.34:
  %source.40 = phi ptr [ %at.38, %then.32 ], [ %at.39, %else.33 ]
  %to.41 = phi ptr [ %at.37, %then.32 ], [ %after.21.31, %else.33 ]
  br label %loop.12
after.14:
  store i8 0, ptr %to.16
  ret ptr %at.2
}
