; Programs in a library of their own, without Python: the functions of heddle.h.
;
; The library's tables are made when it is exported: `heddle_program` is {number of functions, their names, their
; entries, the constants' address, the pool table}. A program object is a context, the last result, and the text of the
; last error.

%Tables = type { i64, ptr, ptr, ptr, ptr }
%Program = type { %Context, %Value, [1024 x i8] }

@heddle_program = external global %Tables
@heddle_library_pool = global %Pool { i64 0, i64 0, i64 0, i64 -1, i64 0, i64 -1, i64 0, i32 1, i32 0, i32 1, i32 0,
    [512 x ptr] zeroinitializer, i32 0 }
@is_set_up = internal global i32 0
@no_function = internal constant [33 x i8] c"the library has no such function\00"
@wrong_count = internal constant [44 x i8] c"the function takes %e arguments, and got %g\00"
@not_compact = internal constant [51 x i8] c"argument %g has strides: pass tensors without gaps\00"
@needs_host = internal constant [72 x i8] c"the program calls a function of the host language, which is not in here\00"
@threads_variable = internal constant [19 x i8] c"HEDDLE_NUM_THREADS\00"
@number_format = internal constant [5 x i8] c"%lld\00"

declare i32 @strcmp(ptr, ptr)
declare ptr @getenv(ptr)
declare i32 @atoi(ptr)
declare i64 @sysconf(i32)
declare i32 @snprintf(ptr, i64, ptr, ...)

define internal void @set_up() {
entry:
  %first = cmpxchg ptr @is_set_up, i32 0, i32 1 acq_rel acquire
  %mine = extractvalue { i32, i1 } %first, 1
  br i1 %mine, label %do, label %wait
do:
  call i32 @heddle_thread_setup()
  call void @heddle_pool_reset()
  %given = call ptr @getenv(ptr @threads_variable)
  %absent = icmp eq ptr %given, null
  br i1 %absent, label %count, label %read
read:
  %wish = call i32 @atoi(ptr %given)
  br label %configure
count:
  %cores = call i64 @sysconf(i32 $SC_NPROCESSORS)
  %narrow = trunc i64 %cores to i32
  br label %configure
configure:
  %asked = phi i32 [ %wish, %read ], [ %narrow, %count ]
  %some = call i32 @llvm.smax.i32(i32 %asked, i32 1)
  %threads = call i32 @llvm.smin.i32(i32 %some, i32 $MAX_THREADS)
  call void @heddle_pool_configure(i32 %threads, i32 $SPINS)
  store atomic i32 2, ptr @is_set_up release, align 4
  ret void
wait:
  %state = load atomic i32, ptr @is_set_up acquire, align 4
  %done = icmp eq i32 %state, 2
  br i1 %done, label %out, label %wait
out:
  ret void
}

declare i32 @llvm.smax.i32(i32, i32)
declare i32 @llvm.smin.i32(i32, i32)

define internal i32 @refuse_host(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register) {
  call void @heddle_set_error(i32 77056, ptr @needs_host, i64 0, i64 0)
  ret i32 -1
}

define ptr @heddle_open() {
entry:
  call void @set_up()
  %program = call ptr @calloc(i64 1, i64 $PROGRAM_BYTES)
  %none = icmp eq ptr %program, null
  br i1 %none, label %out, label %fill
fill:
  %pools_at = getelementptr %Tables, ptr @heddle_program, i32 0, i32 4
  %pools = load ptr, ptr %pools_at
  store ptr %pools, ptr %program
  %constants_from = getelementptr %Tables, ptr @heddle_program, i32 0, i32 3
  %constants = load ptr, ptr %constants_from
  %constants_at = getelementptr %Context, ptr %program, i32 0, i32 1
  store ptr %constants, ptr %constants_at
  %entries_from = getelementptr %Tables, ptr @heddle_program, i32 0, i32 2
  %entries = load ptr, ptr %entries_from
  %entries_at = getelementptr %Context, ptr %program, i32 0, i32 2
  store ptr %entries, ptr %entries_at
  %host_at = getelementptr %Context, ptr %program, i32 0, i32 3
  store ptr @refuse_host, ptr %host_at
  br label %out
out:
  ret ptr %program
}

define void @heddle_close(ptr %program) {
entry:
  %none = icmp eq ptr %program, null
  br i1 %none, label %out, label %drop
drop:
  %result = getelementptr %Program, ptr %program, i32 0, i32 1
  call void @heddle_release_all(ptr null, ptr %result, i64 1)
  call void @free(ptr %program)
  br label %out
out:
  ret void
}

; The number of a function, or -1.
define internal i64 @find_function(ptr %name) {
entry:
  %count = load i64, ptr @heddle_program
  %names_at = getelementptr %Tables, ptr @heddle_program, i32 0, i32 1
  %names = load ptr, ptr %names_at
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %skip ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %missing
look:
  %at = getelementptr ptr, ptr %names, i64 %i
  %known = load ptr, ptr %at
  %nameless = icmp eq ptr %known, null
  br i1 %nameless, label %skip, label %compare
compare:
  %order = call i32 @strcmp(ptr %known, ptr %name)
  %same = icmp eq i32 %order, 0
  br i1 %same, label %found, label %skip
skip:
  %next = add i64 %i, 1
  br label %check
found:
  ret i64 %i
missing:
  ret i64 -1
}

define i32 @heddle_run(ptr %program, ptr %name, ptr %inputs, i32 %num_inputs) {
entry:
  %result = getelementptr %Program, ptr %program, i32 0, i32 1
  call void @heddle_release_all(ptr null, ptr %result, i64 1)
  %number = call i64 @find_function(ptr %name)
  %missing = icmp slt i64 %number, 0
  br i1 %missing, label %no_such, label %count
no_such:
  call void @heddle_set_error(i32 77056, ptr @no_function, i64 0, i64 0)
  ret i32 -1
count:
  %entries_at = getelementptr %Context, ptr %program, i32 0, i32 2
  %entries = load ptr, ptr %entries_at
  %arity_at = getelementptr %Entry, ptr %entries, i64 %number, i32 1
  %arity = load i64, ptr %arity_at
  %given = sext i32 %num_inputs to i64
  %fits = icmp eq i64 %arity, %given
  br i1 %fits, label %room, label %miscounted
miscounted:
  call void @heddle_set_error(i32 77312, ptr @wrong_count, i64 %arity, i64 %given)
  ret i32 -1
room:
  %values = alloca %Value, i64 %given, align 16
  br label %next
next:
  %i = phi i64 [ 0, %room ], [ %following, %lent ]
  %more = icmp slt i64 %i, %given
  br i1 %more, label %take, label %go
take:
  %input_at = getelementptr ptr, ptr %inputs, i64 %i
  %input = load ptr, ptr %input_at
  %compact = call i1 @is_compact(ptr %input)
  br i1 %compact, label %lend, label %strided
strided:
  call void @heddle_set_error(i32 77313, ptr @not_compact, i64 0, i64 %i)
  br label %undo
lend:
  %dl = call ptr @heddle_new(i32 7, i64 48, ptr null, i32 0)
  %none = icmp eq ptr %dl, null
  br i1 %none, label %undo, label %lent
undo:
  call void @heddle_release_all(ptr null, ptr %values, i64 %i)
  ret i32 -1
lent:
  call void @llvm.memcpy.p0.p0.i64(ptr %dl, ptr %input, i64 48, i1 false)
  %no_strides = getelementptr %DLTensor, ptr %dl, i32 0, i32 6
  store ptr null, ptr %no_strides
  %value = getelementptr %Value, ptr %values, i64 %i
  store i32 7, ptr %value
  %payload_at = getelementptr %Value, ptr %value, i64 0, i32 2
  store ptr %dl, ptr %payload_at
  %following = add i64 %i, 1
  br label %next
go:
  %place_at = getelementptr %Context, ptr %program, i32 0, i32 6
  store i64 -1, ptr %place_at
  %limit = call ptr @stack_limit()
  %limit_at = getelementptr %Context, ptr %program, i32 0, i32 7
  store ptr %limit, ptr %limit_at
  %code_at = getelementptr %Entry, ptr %entries, i64 %number, i32 0
  %code = load ptr, ptr %code_at
  %status = call i32 @heddle_run_code(ptr %program, ptr %code, ptr %values, ptr %result)
  call void @heddle_release_all(ptr null, ptr %values, i64 %given)
  ret i32 %status
}

define i32 @heddle_num_outputs(ptr %program) {
entry:
  %result = getelementptr %Program, ptr %program, i32 0, i32 1
  %kind = load i32, ptr %result
  switch i32 %kind, label %none [
    i32 7, label %one
    i32 9, label %tuple
  ]
one:
  ret i32 1
tuple:
  %payload_at = getelementptr %Value, ptr %result, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  %count = load i64, ptr %payload
  %narrow = trunc i64 %count to i32
  ret i32 %narrow
none:
  ret i32 0
}

define ptr @heddle_output(ptr %program, i32 %index) {
entry:
  %count = call i32 @heddle_num_outputs(ptr %program)
  %inside = icmp ult i32 %index, %count
  br i1 %inside, label %get, label %none
get:
  %result = getelementptr %Program, ptr %program, i32 0, i32 1
  %kind = load i32, ptr %result
  %payload_at = getelementptr %Value, ptr %result, i64 0, i32 2
  %payload = load ptr, ptr %payload_at
  %single = icmp eq i32 %kind, 7
  br i1 %single, label %give, label %item
give:
  ret ptr %payload
item:
  %items = getelementptr i64, ptr %payload, i64 1
  %at = getelementptr %Value, ptr %items, i32 %index
  %item_kind = load i32, ptr %at
  %is_tensor = icmp eq i32 %item_kind, 7
  br i1 %is_tensor, label %give_item, label %none
give_item:
  %item_at = getelementptr %Value, ptr %at, i64 0, i32 2
  %tensor = load ptr, ptr %item_at
  ret ptr %tensor
none:
  ret ptr null
}

; The text of this thread's last error, its numbers put in; empty where there is none. Owned by the program.
define ptr @heddle_error(ptr %program) {
entry:
  %text = getelementptr %Program, ptr %program, i32 0, i32 2
  %self = call ptr @heddle_thread()
  %set = load i32, ptr %self
  %is_set = icmp ne i32 %set, 0
  br i1 %is_set, label %begin, label %empty
empty:
  store i8 0, ptr %text
  ret ptr %text
begin:
  store i32 0, ptr %self
  %expected_at = getelementptr %Error, ptr %self, i32 0, i32 2
  %expected = load i64, ptr %expected_at
  %got_at = getelementptr %Error, ptr %self, i32 0, i32 3
  %got = load i64, ptr %got_at
  %message = getelementptr %Error, ptr %self, i32 0, i32 4
  br label %copy
copy:
  %from = phi ptr [ %message, %begin ], [ %from_next, %plain ], [ %after, %number ]
  %to = phi ptr [ %text, %begin ], [ %to_next, %plain ], [ %to_after, %number ]
  %char = load i8, ptr %from
  %end = icmp eq i8 %char, 0
  br i1 %end, label %finish, label %look
look:
  %letter_at = getelementptr i8, ptr %from, i64 1
  %letter = load i8, ptr %letter_at
  %is_percent = icmp eq i8 %char, 37
  %more = icmp ne i8 %letter, 0
  %is_number = and i1 %is_percent, %more
  br i1 %is_number, label %number, label %plain
plain:
  store i8 %char, ptr %to
  %from_next = getelementptr i8, ptr %from, i64 1
  %to_next = getelementptr i8, ptr %to, i64 1
  br label %copy
number:
  %wants_expected = icmp eq i8 %letter, 101
  %which = select i1 %wants_expected, i64 %expected, i64 %got
  %written = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %to, i64 24, ptr @number_format, i64 %which)
  %to_after = getelementptr i8, ptr %to, i32 %written
  %after = getelementptr i8, ptr %from, i64 2
  br label %copy
finish:
  store i8 0, ptr %to
  ret ptr %text
}
