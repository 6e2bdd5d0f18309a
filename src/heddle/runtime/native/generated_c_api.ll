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
  %v.1 = call ptr @calloc(i64 1, i64 1192)
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
  br label %loop.4
loop.4:
  %number.7 = phi i64 [ 0, %entry ], [ %number.21, %after.16 ]
  %v.8 = load i64, ptr @heddle_program
  %v.9 = icmp slt i64 %number.7, %v.8
  br i1 %v.9, label %body.5, label %after.6
body.5:
  %names_at.10 = getelementptr i8, ptr @heddle_program, i64 8
  %v.11 = load ptr, ptr %names_at.10
  %at.12 = getelementptr [8 x i8], ptr %v.11, i64 %number.7
  %known.13 = load ptr, ptr %at.12
  %v.18 = icmp ne ptr %known.13, null
  br i1 %v.18, label %and.17, label %after.16
and.17:
  %v.19 = call i32 @strcmp(ptr %known.13, ptr %name)
  %v.20 = icmp eq i32 %v.19, 0
  br i1 %v.20, label %then.14, label %after.16
then.14:
  br label %find_function_end.3
after.16:
  %number.21 = add i64 %number.7, 1
  br label %loop.4
after.6:
  br label %find_function_end.3
find_function_end.3:
  %result.0.22 = phi i64 [ %number.7, %then.14 ], [ -1, %after.6 ]
  %v.26 = icmp slt i64 %result.0.22, 0
  br i1 %v.26, label %then.23, label %after.25
then.23:
  call void @heddle_set_error(i32 77056, ptr @no_function, i64 0, i64 0)
  ret i32 -1
after.25:
  %functions_at.27 = getelementptr i8, ptr %program, i64 16
  %v.28 = load ptr, ptr %functions_at.27
  %at.29 = getelementptr [16 x i8], ptr %v.28, i64 %result.0.22
  %count.30 = sext i32 %num_inputs to i64
  %num_args_at.34 = getelementptr i8, ptr %at.29, i64 8
  %v.35 = load i64, ptr %num_args_at.34
  %v.36 = icmp ne i64 %v.35, %count.30
  br i1 %v.36, label %then.31, label %after.33
then.31:
  %num_args_at.37 = getelementptr i8, ptr %at.29, i64 8
  %v.38 = load i64, ptr %num_args_at.37
  call void @heddle_set_error(i32 77312, ptr @wrong_count, i64 %v.38, i64 %count.30)
  ret i32 -1
after.33:
  %room.39 = alloca [16 x i8], i64 %count.30, align 16
  br label %loop.42
loop.42:
  %number.45 = phi i64 [ 0, %after.33 ], [ %number.79, %after.56 ]
  %v.46 = icmp slt i64 %number.45, %count.30
  br i1 %v.46, label %body.43, label %after.44
body.43:
  %at.50 = getelementptr [8 x i8], ptr %inputs, i64 %number.45
  %v.51 = load ptr, ptr %at.50
  %v.52 = call i1 @is_compact(ptr %v.51)
  br i1 %v.52, label %after.49, label %then.47
then.47:
  call void @heddle_set_error(i32 77313, ptr @not_compact, i64 0, i64 %number.45)
  br label %lend_inputs_end.41
after.49:
  %lent.53 = call ptr @heddle_new(i32 7, i64 48, ptr null, i32 0)
  %v.57 = icmp eq ptr %lent.53, null
  br i1 %v.57, label %then.54, label %after.56
then.54:
  br label %lend_inputs_end.41
after.56:
  %at.58 = getelementptr [8 x i8], ptr %inputs, i64 %number.45
  %v.59 = load ptr, ptr %at.58
  call void @llvm.memcpy.p0.p0.i64(ptr %lent.53, ptr %v.59, i64 48, i1 false)
  %strides_at.60 = getelementptr i8, ptr %lent.53, i64 32
  store ptr null, ptr %strides_at.60
  %v.63 = load ptr, ptr %lent.53
  %byte_offset_at.64 = getelementptr i8, ptr %lent.53, i64 40
  %v.65 = load i64, ptr %byte_offset_at.64
  %at.66 = getelementptr [1 x i8], ptr %v.63, i64 %v.65
  store ptr %at.66, ptr %lent.53
  %byte_offset_at.67 = getelementptr i8, ptr %lent.53, i64 40
  store i64 0, ptr %byte_offset_at.67
  %at.68 = getelementptr [16 x i8], ptr %room.39, i64 %number.45
  store i32 0, ptr %at.68
  %zero_at.71 = getelementptr i8, ptr %at.68, i64 4
  store i32 0, ptr %zero_at.71
  %payload_at.72 = getelementptr i8, ptr %at.68, i64 8
  store i64 0, ptr %payload_at.72
  %at.73 = getelementptr [16 x i8], ptr %room.39, i64 %number.45
  store i32 7, ptr %at.73
  %payload_at.78 = getelementptr i8, ptr %at.73, i64 8
  store ptr %lent.53, ptr %payload_at.78
  %number.79 = add i64 %number.45, 1
  br label %loop.42
after.44:
  br label %lend_inputs_end.41
lend_inputs_end.41:
  %result.0.80 = phi i64 [ %number.45, %then.47 ], [ %number.45, %then.54 ], [ %count.30, %after.44 ]
  %v.84 = icmp eq i64 %result.0.80, %count.30
  br i1 %v.84, label %then.81, label %after.83
then.81:
  %error_place_at.85 = getelementptr i8, ptr %program, i64 48
  store i64 -1, ptr %error_place_at.85
  %stack_limit_at.86 = getelementptr i8, ptr %program, i64 56
  %v.87 = call ptr @stack_limit()
  store ptr %v.87, ptr %stack_limit_at.86
  %stack_left_at.88 = getelementptr i8, ptr %program, i64 104
  store i64 1073741824, ptr %stack_left_at.88
  %v.89 = load ptr, ptr %at.29
  %result_at.90 = getelementptr i8, ptr %program, i64 152
  %status.91 = call i32 @run_code(ptr %program, ptr %v.89, ptr %room.39, ptr %result_at.90)
  br label %after.83
after.83:
  %status.92 = phi i32 [ -1, %lend_inputs_end.41 ], [ %status.91, %then.81 ]
  call void @heddle_release_all(ptr null, ptr %room.39, i64 %result.0.80)
  ret i32 %status.92
}

; How many tensors the last run gave; 0 after one that failed.
define i32 @heddle_num_outputs(ptr %program) {
entry:
  %result_at.1 = getelementptr i8, ptr %program, i64 152
  %kind.2 = load i32, ptr %result_at.1
  %v.6 = icmp eq i32 %kind.2, 7
  br i1 %v.6, label %then.3, label %after.5
then.3:
  ret i32 1
after.5:
  %v.11 = icmp eq i32 %kind.2, 9
  br i1 %v.11, label %yes.8, label %no.9
yes.8:
  %result_at.12 = getelementptr i8, ptr %program, i64 152
  %payload_at.17 = getelementptr i8, ptr %result_at.12, i64 8
  %v.18 = load ptr, ptr %payload_at.17
  %v.19 = load i64, ptr %v.18
  %v.20 = trunc i64 %v.19 to i32
  br label %chosen.10
no.9:
  br label %chosen.10
chosen.10:
  %v.7.21 = phi i32 [ %v.20, %yes.8 ], [ 0, %no.9 ]
  ret i32 %v.7.21
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

; The text of this thread's last error, its numbers put in; empty where there is none. The program's. A
; text that is too long is cut.
define ptr @heddle_error(ptr %program) {
entry:
  %error_at.1 = getelementptr i8, ptr %program, i64 168
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
  %source.15 = phi ptr [ %at.10, %after.6 ], [ %source.60, %after.25 ]
  %to.16 = phi ptr [ %at.2, %after.6 ], [ %to.61, %after.25 ]
  %v.18 = load i8, ptr %source.15
  %v.19 = icmp ne i8 %v.18, 0
  br i1 %v.19, label %and.17, label %after.14
and.17:
  %v.20 = icmp ult ptr %to.16, %at.11
  br i1 %v.20, label %body.13, label %after.14
body.13:
  %at.21 = getelementptr [1 x i8], ptr %source.15, i64 1
  %letter.22 = load i8, ptr %at.21
  %v.27 = load i8, ptr %source.15
  %v.28 = icmp eq i8 %v.27, 37
  br i1 %v.28, label %and.26, label %else.24
and.26:
  %v.29 = icmp eq i8 %letter.22, 116
  br i1 %v.29, label %then.23, label %else.24
then.23:
  %got_at.30 = getelementptr i8, ptr %v.3, i64 16
  %v.31 = load i64, ptr %got_at.30
  %to.32 = call ptr @write_dtype(ptr %to.16, i64 %v.31)
  %at.33 = getelementptr [1 x i8], ptr %source.15, i64 2
  br label %after.25
else.24:
  %v.38 = load i8, ptr %source.15
  %v.39 = icmp eq i8 %v.38, 37
  br i1 %v.39, label %and.37, label %else.35
and.37:
  %v.40 = icmp ne i8 %letter.22, 0
  br i1 %v.40, label %then.34, label %else.35
then.34:
  %v.45 = icmp eq i8 %letter.22, 101
  br i1 %v.45, label %yes.42, label %no.43
yes.42:
  %expected_at.46 = getelementptr i8, ptr %v.3, i64 8
  %v.47 = load i64, ptr %expected_at.46
  br label %chosen.44
no.43:
  %got_at.48 = getelementptr i8, ptr %v.3, i64 16
  %v.49 = load i64, ptr %got_at.48
  br label %chosen.44
chosen.44:
  %number.41.50 = phi i64 [ %v.47, %yes.42 ], [ %v.49, %no.43 ]
  %v.51 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to.16, i64 24, ptr @number_format, i64 %number.41.50)
  %v.52 = sext i32 %v.51 to i64
  %at.53 = getelementptr [1 x i8], ptr %to.16, i64 %v.52
  %at.54 = getelementptr [1 x i8], ptr %source.15, i64 2
  br label %after.36
else.35:
  %v.55 = load i8, ptr %source.15
  store i8 %v.55, ptr %to.16
  %at.56 = getelementptr [1 x i8], ptr %to.16, i64 1
  %at.57 = getelementptr [1 x i8], ptr %source.15, i64 1
  br label %after.36
after.36:
  %source.58 = phi ptr [ %at.54, %chosen.44 ], [ %at.57, %else.35 ]
  %to.59 = phi ptr [ %at.53, %chosen.44 ], [ %at.56, %else.35 ]
  br label %after.25
after.25:
  %source.60 = phi ptr [ %at.33, %then.23 ], [ %source.58, %after.36 ]
  %to.61 = phi ptr [ %to.32, %then.23 ], [ %to.59, %after.36 ]
  br label %loop.12
after.14:
  store i8 0, ptr %to.16
  ret ptr %at.2
}
