; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.


@thread_key = internal global i32 0, align 4
@spare_thread = internal global [672 x i8] zeroinitializer, align 64
@costs = internal global [1536 x i8] zeroinitializer, align 64
@wake_cycles = internal global i64 0, align 8
@inline_cycles = internal global i64 0, align 8
@part_log = internal global ptr null, align 8
@num_threads = internal global i32 1, align 4
@num_workers = internal global i32 0, align 4
@spin_limit = internal global i32 4000, align 4
@busy = internal global i32 0, align 64
@ticket = internal global i64 0, align 64
@done = internal global i64 0, align 64
@sleepers = internal global i32 0, align 64
@caller_waits = internal global i32 0, align 64
@job = internal global [584 x i8] zeroinitializer, align 64
@owner_cpu = internal global i32 -1, align 64
@helper_cpu = internal global i32 -2, align 64
@lock = internal global [128 x i8] zeroinitializer, align 64
@work_ready = internal global [128 x i8] zeroinitializer, align 64
@work_done = internal global [128 x i8] zeroinitializer, align 64
@host_drop = internal global ptr null, align 8
@no_memory = internal constant [45 x i8] c"no memory for a kernel's %e bytes of scratch\00"
@no_storage = internal constant [67 x i8] c"memory limit of %e bytes reached: %g more bytes do not fit into it\00"
@no_system_memory = internal constant [42 x i8] c"the system has no %g bytes of memory left\00"
@negative_storage = internal constant [48 x i8] c"storage size must not be negative, got %g bytes\00"
@outside_storage = internal constant [63 x i8] c"tensor ends at byte %g of its storage, which has only %e bytes\00"
@too_large_view = internal constant [58 x i8] c"cannot view a tensor of %e elements as one of %g elements\00"
@no_such_item = internal constant [58 x i8] c"tuple index %g is out of range: the tuple has %e elements\00"
@bad_device = internal constant [54 x i8] c"device index %g is out of range: there are %e devices\00"
@no_chain = internal constant [68 x i8] c"expected a chain of rows, (((tensor, tensor), tensor), ...), got %v\00"
@ragged_chain = internal constant [78 x i8] c"rows of a chain differ: expected a dense one of %e bytes, got one of %g bytes\00"
@other_count = internal constant [32 x i8] c": expected %e arguments, got %g\00"
@argument = internal constant [12 x i8] c": argument \00"
@name_begins = internal constant [4 x i8] c" ('\00"
@name_ends = internal constant [5 x i8] c"'): \00"
@no_tensor = internal constant [26 x i8] c"expected a tensor, got %k\00"
@other_rank = internal constant [31 x i8] c"expected %e dimensions, got %g\00"
@other_dtype = internal constant [16 x i8] c"expected dtype \00"
@got_dtype = internal constant [9 x i8] c", got %t\00"
@other_device = internal constant [44 x i8] c"expected a tensor on device type %e, got %g\00"
@no_integer = internal constant [25 x i8] c"expected an integer for \00"
@no_number = internal constant [23 x i8] c"expected a number for \00"
@got_kind = internal constant [9 x i8] c", got %k\00"
@too_wide = internal constant [17 x i8] c"%g does not fit \00"
@no_pointer = internal constant [27 x i8] c"expected a pointer, got %k\00"
@other_size = internal constant [20 x i8] c"expected dimension \00"
@size_begins = internal constant [3 x i8] c" (\00"
@size_ends = internal constant [2 x i8] c")\00"
@to_be = internal constant [18 x i8] c" to be %e, got %g\00"
@other_stride = internal constant [17 x i8] c"expected stride \00"
@takes_dense = internal constant [34 x i8] c" (the kernel takes dense tensors)\00"
@without_data = internal constant [23 x i8] c"the tensor has no data\00"
@not_aligned = internal constant [69 x i8] c"expected data aligned to %e bytes, got an address %g bytes past that\00"
@no_data = internal constant [40 x i8] c"expected a value of a data type, got %v\00"
@no_reference = internal constant [29 x i8] c"expected a reference, got %v\00"
@no_such_field = internal constant [65 x i8] c"field %g is out of range: the value of a data type has %e fields\00"
@too_deep = internal constant [61 x i8] c"call depth exceeded: the stack has no room for another frame\00"
@expected_storage = internal constant [77 x i8] c"vm.builtin.alloc_tensor cannot take its operands: expected a storage, got %v\00"
@expected_tensor = internal constant [71 x i8] c"vm.builtin.reshape cannot take its operands: expected a tensor, got %v\00"

declare i32 @pthread_key_create(ptr, ptr)
declare void @free(ptr)
declare ptr @calloc(i64, i64)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @strncpy(ptr, ptr, i64)
declare ptr @llvm.frameaddress.p0(i32)
declare i64 @pthread_self()
$STACK_END
declare ptr @aligned_alloc(i64, i64)
$PAUSE_DECLARATION
$ON_LINUX declare i32 @madvise(ptr, i64, i32)
$ON_LINUX declare i32 @sched_setaffinity(i32, i64, ptr)
$ON_LINUX declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
$CPU_DECLARATION
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_cond_broadcast(ptr)
declare ptr @malloc(i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
$RUN_ON
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.readcyclecounter()

; Prepare the records of threads. Gives 0, or the system's error.
define i32 @heddle_thread_setup() {
entry:
  %v.1 = call i32 @pthread_key_create(ptr @thread_key, ptr @thread_exit)
  ret i32 %v.1
}

; Free the record and the scratch memory of a thread that ends.
define internal void @thread_exit(ptr %record) {
entry:
  br label %loop.1
loop.1:
  %number.4 = phi i32 [ 0, %entry ], [ %number.12, %body.2 ]
  %num_blocks_at.5 = getelementptr i8, ptr %record, i64 516
  %v.6 = load i32, ptr %num_blocks_at.5
  %v.7 = icmp slt i32 %number.4, %v.6
  br i1 %v.7, label %body.2, label %after.3
body.2:
  %blocks_at.8 = getelementptr i8, ptr %record, i64 520
  %v.9 = sext i32 %number.4 to i64
  %at.10 = getelementptr [16 x i8], ptr %blocks_at.8, i64 %v.9
  %v.11 = load ptr, ptr %at.10
  call void @free(ptr %v.11)
  %number.12 = add i32 %number.4, 1
  br label %loop.1
after.3:
  call void @free(ptr %record)
  ret void
}

; The record of this thread, made when it is first asked for; a shared spare one without memory.
define ptr @heddle_thread() {
entry:
  %v.1 = load i32, ptr @thread_key
  %known.2 = call ptr @pthread_getspecific(i32 %v.1)
  %v.6 = icmp ne ptr %known.2, null
  br i1 %v.6, label %then.3, label %after.5
then.3:
  ret ptr %known.2
after.5:
  %made.7 = call ptr @calloc(i64 1, i64 1024)
  %v.11 = icmp eq ptr %made.7, null
  br i1 %v.11, label %then.8, label %after.10
then.8:
  ret ptr @spare_thread
after.10:
  %v.15 = load i32, ptr @thread_key
  %v.16 = call i32 @pthread_setspecific(i32 %v.15, ptr %made.7)
  %v.17 = icmp ne i32 %v.16, 0
  br i1 %v.17, label %then.12, label %after.14
then.12:
  call void @free(ptr %made.7)
  ret ptr @spare_thread
after.14:
  ret ptr %made.7
}

; Set this thread's error: its word, its message, and the numbers that were expected and found.
define void @heddle_set_error(i32 %word, ptr %message, i64 %expected, i64 %got) {
entry:
  %v.1 = call ptr @heddle_thread()
  store i32 1, ptr %v.1
  %word_at.2 = getelementptr i8, ptr %v.1, i64 4
  store i32 %word, ptr %word_at.2
  %expected_at.3 = getelementptr i8, ptr %v.1, i64 8
  store i64 %expected, ptr %expected_at.3
  %got_at.4 = getelementptr i8, ptr %v.1, i64 16
  store i64 %got, ptr %got_at.4
  %message_at.5 = getelementptr i8, ptr %v.1, i64 24
  %at.6 = getelementptr [1 x i8], ptr %message_at.5, i64 0
  %v.7 = call ptr @strncpy(ptr %at.6, ptr %message, i64 487)
  ret void
}

; How far down the stack of this thread a program may go that begins here: some way, and not near the
; end.
define internal ptr @stack_limit() {
entry:
  %here.1 = call ptr @llvm.frameaddress.p0(i32 0)
  %me.2 = call ptr @heddle_thread()
  %stack_end_at.3 = getelementptr i8, ptr %me.2, i64 664
  %end.4 = load ptr, ptr %stack_end_at.3
  %v.8 = icmp eq ptr %end.4, null
  br i1 %v.8, label %then.5, label %after.7
then.5:
  %v.9 = call i64 @pthread_self()
  %end.10 = call ptr @stack_end(i64 %v.9)
  %v.14 = icmp ne ptr %me.2, @spare_thread
  br i1 %v.14, label %then.11, label %after.13
then.11:
  %stack_end_at.15 = getelementptr i8, ptr %me.2, i64 664
  store ptr %end.10, ptr %stack_end_at.15
  br label %after.13
after.13:
  br label %after.7
after.7:
  %end.16 = phi ptr [ %end.4, %entry ], [ %end.10, %after.13 ]
  %at.17 = getelementptr [1 x i8], ptr %end.16, i64 $STACK_RESERVE_BYTES
  %v.18 = sub i64 0, $STACK_BYTES
  %at.19 = getelementptr [1 x i8], ptr %here.1, i64 %v.18
  %v.20 = icmp ugt ptr %at.17, %at.19
  %v.21 = select i1 %v.20, ptr %at.17, ptr %at.19
  ret ptr %v.21
}

; Whether this thread is so near the end of its stack that nothing more should begin.
define internal i1 @stack_is_short() {
entry:
  %limit.1 = call ptr @stack_limit()
  %v.2 = call ptr @llvm.frameaddress.p0(i32 0)
  %v.3 = icmp ult ptr %v.2, %limit.1
  ret i1 %v.3
}

; Scratch of at least so many bytes, aligned to 64; null after heddle_set_error. The largest of the freed
; blocks are kept per thread, and lent again where they are large enough: fresh pages cost more than the
; kernel.
define ptr @heddle_workspace_alloc(i64 %size_bytes) {
entry:
  %me.1 = call ptr @heddle_thread()
  %v.2 = call i64 @llvm.smax.i64(i64 %size_bytes, i64 64)
  %v.5 = sub i64 4096, 1
  %v.6 = add i64 %v.2, %v.5
  %v.7 = udiv i64 %v.6, 4096
  %v.8 = mul i64 %v.7, 4096
  %num_blocks_at.9 = getelementptr i8, ptr %me.1, i64 516
  %count.10 = load i32, ptr %num_blocks_at.9
  br label %loop.11
loop.11:
  %number.14 = phi i32 [ 0, %entry ], [ %number.36, %after.21 ]
  %v.15 = icmp slt i32 %number.14, %count.10
  br i1 %v.15, label %body.12, label %after.13
body.12:
  %blocks_at.16 = getelementptr i8, ptr %me.1, i64 520
  %v.17 = sext i32 %number.14 to i64
  %at.18 = getelementptr [16 x i8], ptr %blocks_at.16, i64 %v.17
  %size_bytes_at.22 = getelementptr i8, ptr %at.18, i64 8
  %v.23 = load i64, ptr %size_bytes_at.22
  %v.24 = icmp uge i64 %v.23, %v.8
  br i1 %v.24, label %then.19, label %after.21
then.19:
  %block.27 = load ptr, ptr %at.18
  %num_blocks_at.28 = getelementptr i8, ptr %me.1, i64 516
  %v.29 = load i32, ptr %num_blocks_at.28
  %last.30 = sub i32 %v.29, 1
  %blocks_at.31 = getelementptr i8, ptr %me.1, i64 520
  %v.32 = sext i32 %last.30 to i64
  %at.33 = getelementptr [16 x i8], ptr %blocks_at.31, i64 %v.32
  call void @llvm.memcpy.p0.p0.i64(ptr %at.18, ptr %at.33, i64 16, i1 false)
  %num_blocks_at.34 = getelementptr i8, ptr %me.1, i64 516
  store i32 %last.30, ptr %num_blocks_at.34
  %at.35 = getelementptr [64 x i8], ptr %block.27, i64 1
  ret ptr %at.35
after.21:
  %number.36 = add i32 %number.14, 1
  br label %loop.11
after.13:
  %v.37 = add i64 %v.8, 64
  %v.38 = call ptr @aligned_alloc(i64 64, i64 %v.37)
  %v.42 = icmp eq ptr %v.38, null
  br i1 %v.42, label %then.39, label %after.41
then.39:
  call void @heddle_set_error(i32 153856, ptr @no_memory, i64 %size_bytes, i64 0)
  ret ptr null
after.41:
  store i64 %v.8, ptr %v.38
  %at.43 = getelementptr [64 x i8], ptr %v.38, i64 1
  ret ptr %at.43
}

; Give scratch memory back to this thread, which keeps some of it. Null is none.
define void @heddle_workspace_free(ptr %usable) {
entry:
  %v.4 = icmp eq ptr %usable, null
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret void
after.3:
  %me.5 = call ptr @heddle_thread()
  %at.6 = getelementptr [64 x i8], ptr %usable, i64 -1
  %v.10 = icmp eq ptr %me.5, @spare_thread
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @free(ptr %at.6)
  ret void
after.9:
  %num_blocks_at.11 = getelementptr i8, ptr %me.5, i64 516
  %count.12 = load i32, ptr %num_blocks_at.11
  %v.16 = icmp slt i32 %count.12, 8
  br i1 %v.16, label %then.13, label %after.15
then.13:
  %blocks_at.17 = getelementptr i8, ptr %me.5, i64 520
  %v.18 = sext i32 %count.12 to i64
  %at.19 = getelementptr [16 x i8], ptr %blocks_at.17, i64 %v.18
  store ptr %at.6, ptr %at.19
  %size_bytes_at.22 = getelementptr i8, ptr %at.19, i64 8
  %v.23 = load i64, ptr %at.6
  store i64 %v.23, ptr %size_bytes_at.22
  %num_blocks_at.24 = getelementptr i8, ptr %me.5, i64 516
  %v.25 = add i32 %count.12, 1
  store i32 %v.25, ptr %num_blocks_at.24
  ret void
after.15:
  %blocks_at.28 = getelementptr i8, ptr %me.5, i64 520
  %at.29 = getelementptr [16 x i8], ptr %blocks_at.28, i64 0
  br label %loop.30
loop.30:
  %least.33 = phi ptr [ %at.29, %after.15 ], [ %least.47, %after.41 ]
  %number.34 = phi i32 [ 1, %after.15 ], [ %number.48, %after.41 ]
  %v.35 = icmp slt i32 %number.34, 8
  br i1 %v.35, label %body.31, label %after.32
body.31:
  %blocks_at.36 = getelementptr i8, ptr %me.5, i64 520
  %v.37 = sext i32 %number.34 to i64
  %at.38 = getelementptr [16 x i8], ptr %blocks_at.36, i64 %v.37
  %size_bytes_at.42 = getelementptr i8, ptr %at.38, i64 8
  %v.43 = load i64, ptr %size_bytes_at.42
  %size_bytes_at.44 = getelementptr i8, ptr %least.33, i64 8
  %v.45 = load i64, ptr %size_bytes_at.44
  %v.46 = icmp ult i64 %v.43, %v.45
  br i1 %v.46, label %then.39, label %after.41
then.39:
  br label %after.41
after.41:
  %least.47 = phi ptr [ %least.33, %body.31 ], [ %at.38, %then.39 ]
  %number.48 = add i32 %number.34, 1
  br label %loop.30
after.32:
  %v.52 = load i64, ptr %at.6
  %size_bytes_at.53 = getelementptr i8, ptr %least.33, i64 8
  %v.54 = load i64, ptr %size_bytes_at.53
  %v.55 = icmp ugt i64 %v.52, %v.54
  br i1 %v.55, label %then.49, label %after.51
then.49:
  %smaller.56 = load ptr, ptr %least.33
  store ptr %at.6, ptr %least.33
  %size_bytes_at.59 = getelementptr i8, ptr %least.33, i64 8
  %v.60 = load i64, ptr %at.6
  store i64 %v.60, ptr %size_bytes_at.59
  br label %after.51
after.51:
  %block.61 = phi ptr [ %at.6, %after.32 ], [ %smaller.56, %then.49 ]
  call void @free(ptr %block.61)
  ret void
}

; Take a pool's lock; spins while another thread has it.
define internal void @pool_lock(ptr %pool) {
entry:
  br label %loop.1
loop.1:
  %lock_at.4 = getelementptr i8, ptr %pool, i64 60
  %v.5 = atomicrmw xchg ptr %lock_at.4, i32 1 acquire
  %v.6 = icmp ne i32 %v.5, 0
  br i1 %v.6, label %body.2, label %after.3
body.2:
  $PAUSE
  br label %loop.1
after.3:
  ret void
}

; Give a pool's lock back.
define internal void @pool_unlock(ptr %pool) {
entry:
  %lock_at.1 = getelementptr i8, ptr %pool, i64 60
  store atomic i32 0, ptr %lock_at.1 release, align 4
  ret void
}

; Give the free blocks back to the system. The lock is held.
define internal void @pool_trim_locked(ptr %pool) {
entry:
  br label %loop.1
loop.1:
  %number.4 = phi i64 [ 0, %entry ], [ %number.20, %after.13 ]
  %v.5 = icmp ult i64 %number.4, 512
  br i1 %v.5, label %body.2, label %after.3
body.2:
  %free_blocks_at.6 = getelementptr i8, ptr %pool, i64 72
  %at.7 = getelementptr [8 x i8], ptr %free_blocks_at.6, i64 %number.4
  %block.8 = load ptr, ptr %at.7
  %free_blocks_at.9 = getelementptr i8, ptr %pool, i64 72
  %at.10 = getelementptr [8 x i8], ptr %free_blocks_at.9, i64 %number.4
  store ptr null, ptr %at.10
  br label %loop.11
loop.11:
  %block.14 = phi ptr [ %block.8, %body.2 ], [ %v.19, %body.12 ]
  %v.15 = icmp ne ptr %block.14, null
  br i1 %v.15, label %body.12, label %after.13
body.12:
  %owner_at.18 = getelementptr i8, ptr %block.14, i64 16
  %v.19 = load ptr, ptr %owner_at.18
  call void @free(ptr %block.14)
  br label %loop.11
after.13:
  %number.20 = add i64 %number.4, 1
  br label %loop.1
after.3:
  %cached_bytes_at.21 = getelementptr i8, ptr %pool, i64 16
  store i64 0, ptr %cached_bytes_at.21
  ret void
}

; Give the free blocks of a pool back to the system.
define void @heddle_pool_trim(ptr %pool) {
entry:
  call void @pool_lock(ptr %pool)
  call void @pool_trim_locked(ptr %pool)
  call void @pool_unlock(ptr %pool)
  ret void
}

; Of a pool that says so, blocks hold nothing but ones when they are lent and given back: floats that are
; NaN, integers -1.
define internal void @pool_poison(ptr %pool, ptr %block) {
entry:
  %poisons_at.4 = getelementptr i8, ptr %pool, i64 4168
  %v.5 = load i32, ptr %poisons_at.4
  %v.6 = icmp ne i32 %v.5, 0
  br i1 %v.6, label %then.1, label %after.3
then.1:
  %at.7 = getelementptr [64 x i8], ptr %block, i64 1
  %storage_at.8 = getelementptr i8, ptr %block, i64 32
  %block_bytes_at.9 = getelementptr i8, ptr %storage_at.8, i64 8
  %v.10 = load i64, ptr %block_bytes_at.9
  call void @llvm.memset.p0.i64(ptr %at.7, i8 255, i64 %v.10, i1 false)
  br label %after.3
after.3:
  ret void
}

; Say that the system has no memory. The lock is held; free blocks are given back.
define internal void @refuse(ptr %pool, i64 %size_bytes) cold noinline {
entry:
  call void @pool_trim_locked(ptr %pool)
  call void @pool_unlock(ptr %pool)
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 %size_bytes)
  ret void
}

; As `pool_take` where a block of the class waits, the usual case; null where it takes more than that.
; Kind, class, size of the block and device are the block's from before.
define internal ptr @pool_take_waiting(ptr %pool, i64 %size_bytes) {
entry:
  %poisons_at.4 = getelementptr i8, ptr %pool, i64 4168
  %v.5 = load i32, ptr %poisons_at.4
  %v.6 = icmp ne i32 %v.5, 0
  br i1 %v.6, label %then.1, label %after.3
then.1:
  ret ptr null
after.3:
  %v.9 = call i64 @llvm.smax.i64(i64 %size_bytes, i64 64)
  %v.10 = sub i64 %v.9, 1
  %v.11 = call i64 @llvm.ctlz.i64(i64 %v.10, i1 false)
  %log.12 = sub i64 63, %v.11
  %step_log.13 = sub i64 %log.12, 3
  %quotient.14 = lshr i64 %v.10, %step_log.13
  %v.15 = shl i64 %log.12, 3
  %v.16 = and i64 %quotient.14, 7
  %v.17 = or i64 %v.15, %v.16
  %v.18 = add i64 %quotient.14, 1
  %v.19 = shl i64 %v.18, %step_log.13
  call void @pool_lock(ptr %pool)
  %free_blocks_at.20 = getelementptr i8, ptr %pool, i64 72
  %at.21 = getelementptr [8 x i8], ptr %free_blocks_at.20, i64 %v.17
  %block.22 = load ptr, ptr %at.21
  %num_allocations_at.23 = getelementptr i8, ptr %pool, i64 32
  %ordinal.24 = load i64, ptr %num_allocations_at.23
  %v.29 = icmp eq ptr %block.22, null
  br i1 %v.29, label %then.25, label %or.28
or.28:
  %failing_allocation_at.30 = getelementptr i8, ptr %pool, i64 40
  %v.31 = load i64, ptr %failing_allocation_at.30
  %v.32 = icmp eq i64 %ordinal.24, %v.31
  br i1 %v.32, label %then.25, label %after.27
then.25:
  call void @pool_unlock(ptr %pool)
  ret ptr null
after.27:
  %num_allocations_at.33 = getelementptr i8, ptr %pool, i64 32
  %v.34 = add i64 %ordinal.24, 1
  store i64 %v.34, ptr %num_allocations_at.33
  %free_blocks_at.37 = getelementptr i8, ptr %pool, i64 72
  %at.38 = getelementptr [8 x i8], ptr %free_blocks_at.37, i64 %v.17
  %owner_at.41 = getelementptr i8, ptr %block.22, i64 16
  %v.42 = load ptr, ptr %owner_at.41
  store ptr %v.42, ptr %at.38
  %cached_bytes_at.43 = getelementptr i8, ptr %pool, i64 16
  %v.44 = load i64, ptr %cached_bytes_at.43
  %v.45 = sub i64 %v.44, %v.19
  store i64 %v.45, ptr %cached_bytes_at.43
  %v.48 = load i64, ptr %pool
  %in_use.49 = add i64 %v.48, %v.19
  store i64 %in_use.49, ptr %pool
  %peak_bytes_at.50 = getelementptr i8, ptr %pool, i64 8
  %peak_bytes_at.51 = getelementptr i8, ptr %pool, i64 8
  %v.52 = load i64, ptr %peak_bytes_at.51
  %v.53 = call i64 @llvm.smax.i64(i64 %v.52, i64 %in_use.49)
  store i64 %v.53, ptr %peak_bytes_at.50
  call void @pool_unlock(ptr %pool)
  store i64 1, ptr %block.22
  %owner_at.54 = getelementptr i8, ptr %block.22, i64 16
  store ptr %pool, ptr %owner_at.54
  %storage_at.55 = getelementptr i8, ptr %block.22, i64 32
  store i64 %size_bytes, ptr %storage_at.55
  %storage_at.56 = getelementptr i8, ptr %block.22, i64 32
  ret ptr %storage_at.56
}

; A storage that counts once, or null after heddle_set_error.
define internal ptr @pool_take(ptr %pool, i64 %size_bytes) {
entry:
  %v.4 = icmp slt i64 %size_bytes, 0
  br i1 %v.4, label %then.1, label %after.3
then.1:
  call void @heddle_set_error(i32 154113, ptr @negative_storage, i64 0, i64 %size_bytes)
  ret ptr null
after.3:
  %v.8 = icmp sgt i64 %size_bytes, 72057594037927936
  br i1 %v.8, label %then.5, label %after.7
then.5:
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 %size_bytes)
  ret ptr null
after.7:
  %v.11 = call i64 @llvm.smax.i64(i64 %size_bytes, i64 64)
  %v.12 = sub i64 %v.11, 1
  %v.13 = call i64 @llvm.ctlz.i64(i64 %v.12, i1 false)
  %log.14 = sub i64 63, %v.13
  %step_log.15 = sub i64 %log.14, 3
  %quotient.16 = lshr i64 %v.12, %step_log.15
  %v.17 = shl i64 %log.14, 3
  %v.18 = and i64 %quotient.16, 7
  %v.19 = or i64 %v.17, %v.18
  %v.20 = add i64 %quotient.16, 1
  %v.21 = shl i64 %v.20, %step_log.15
  call void @pool_lock(ptr %pool)
  %num_allocations_at.22 = getelementptr i8, ptr %pool, i64 32
  %ordinal.23 = load i64, ptr %num_allocations_at.22
  %num_allocations_at.24 = getelementptr i8, ptr %pool, i64 32
  %v.25 = add i64 %ordinal.23, 1
  store i64 %v.25, ptr %num_allocations_at.24
  %failing_allocation_at.29 = getelementptr i8, ptr %pool, i64 40
  %v.30 = load i64, ptr %failing_allocation_at.29
  %v.31 = icmp eq i64 %ordinal.23, %v.30
  br i1 %v.31, label %then.26, label %after.28
then.26:
  call void @refuse(ptr %pool, i64 %size_bytes)
  ret ptr null
after.28:
  %free_blocks_at.32 = getelementptr i8, ptr %pool, i64 72
  %at.33 = getelementptr [8 x i8], ptr %free_blocks_at.32, i64 %v.19
  %block.34 = load ptr, ptr %at.33
  %v.38 = icmp ne ptr %block.34, null
  br i1 %v.38, label %then.35, label %else.36
then.35:
  %free_blocks_at.41 = getelementptr i8, ptr %pool, i64 72
  %at.42 = getelementptr [8 x i8], ptr %free_blocks_at.41, i64 %v.19
  %owner_at.45 = getelementptr i8, ptr %block.34, i64 16
  %v.46 = load ptr, ptr %owner_at.45
  store ptr %v.46, ptr %at.42
  %cached_bytes_at.47 = getelementptr i8, ptr %pool, i64 16
  %v.48 = load i64, ptr %cached_bytes_at.47
  %v.49 = sub i64 %v.48, %v.21
  store i64 %v.49, ptr %cached_bytes_at.47
  br label %after.37
else.36:
  %limit_bytes_at.55 = getelementptr i8, ptr %pool, i64 24
  %v.56 = load i64, ptr %limit_bytes_at.55
  %v.57 = load i64, ptr %pool
  %v.58 = add i64 %v.57, %v.21
  %cached_bytes_at.62 = getelementptr i8, ptr %pool, i64 16
  %v.63 = load i64, ptr %cached_bytes_at.62
  %v.64 = add i64 %v.58, %v.63
  %v.65 = icmp ugt i64 %v.64, %v.56
  br i1 %v.65, label %then.59, label %after.61
then.59:
  call void @pool_trim_locked(ptr %pool)
  %v.66 = icmp ule i64 %v.58, %v.56
  br label %has_room_end.54
after.61:
  br label %has_room_end.54
has_room_end.54:
  %result.0.67 = phi i1 [ %v.66, %then.59 ], [ true, %after.61 ]
  br i1 %result.0.67, label %after.52, label %then.50
then.50:
  %limit_bytes_at.68 = getelementptr i8, ptr %pool, i64 24
  %limit.69 = load i64, ptr %limit_bytes_at.68
  call void @pool_unlock(ptr %pool)
  call void @heddle_set_error(i32 153856, ptr @no_storage, i64 %limit.69, i64 %size_bytes)
  ret ptr null
after.52:
  %v.72 = add i64 %v.21, 64
  %v.75 = sub i64 64, 1
  %v.76 = add i64 %v.72, %v.75
  %v.77 = udiv i64 %v.76, 64
  %v.78 = mul i64 %v.77, 64
  %v.82 = icmp ult i64 %v.78, 4194304
  br i1 %v.82, label %then.79, label %after.81
then.79:
  %v.83 = call ptr @aligned_alloc(i64 64, i64 %v.78)
  br label %fresh_block_end.71
after.81:
  %v.86 = sub i64 2097152, 1
  %v.87 = add i64 %v.78, %v.86
  %v.88 = udiv i64 %v.87, 2097152
  %v.89 = mul i64 %v.88, 2097152
  %block.90 = call ptr @aligned_alloc(i64 2097152, i64 %v.89)
  %v.94 = icmp ne ptr %block.90, null
  br i1 %v.94, label %then.91, label %after.93
then.91:
  $ON_LINUX call i32 @madvise(ptr %block.90, i64 %v.89, i32 14)
  br label %after.93
after.93:
  br label %fresh_block_end.71
fresh_block_end.71:
  %amount.95 = phi i64 [ %v.78, %then.79 ], [ %v.89, %after.93 ]
  %result.0.96 = phi ptr [ %v.83, %then.79 ], [ %block.90, %after.93 ]
  %v.100 = icmp eq ptr %result.0.96, null
  br i1 %v.100, label %then.97, label %after.99
then.97:
  call void @refuse(ptr %pool, i64 %size_bytes)
  ret ptr null
after.99:
  %num_fresh_blocks_at.101 = getelementptr i8, ptr %pool, i64 48
  %v.102 = load i64, ptr %num_fresh_blocks_at.101
  %v.103 = add i64 %v.102, 1
  store i64 %v.103, ptr %num_fresh_blocks_at.101
  br label %after.37
after.37:
  %block.104 = phi ptr [ %block.34, %then.35 ], [ %result.0.96, %after.99 ]
  %v.107 = load i64, ptr %pool
  %in_use.108 = add i64 %v.107, %v.21
  store i64 %in_use.108, ptr %pool
  %peak_bytes_at.109 = getelementptr i8, ptr %pool, i64 8
  %peak_bytes_at.110 = getelementptr i8, ptr %pool, i64 8
  %v.111 = load i64, ptr %peak_bytes_at.110
  %v.112 = call i64 @llvm.smax.i64(i64 %v.111, i64 %in_use.108)
  store i64 %v.112, ptr %peak_bytes_at.109
  call void @pool_unlock(ptr %pool)
  store i64 1, ptr %block.104
  %kind_at.113 = getelementptr i8, ptr %block.104, i64 8
  store i32 11, ptr %kind_at.113
  %flags_at.114 = getelementptr i8, ptr %block.104, i64 12
  store i32 0, ptr %flags_at.114
  %owner_at.115 = getelementptr i8, ptr %block.104, i64 16
  store ptr %pool, ptr %owner_at.115
  %link_at.116 = getelementptr i8, ptr %block.104, i64 24
  store i64 %v.19, ptr %link_at.116
  %storage_at.117 = getelementptr i8, ptr %block.104, i64 32
  store i64 %size_bytes, ptr %storage_at.117
  %storage_at.118 = getelementptr i8, ptr %block.104, i64 32
  %block_bytes_at.119 = getelementptr i8, ptr %storage_at.118, i64 8
  store i64 %v.21, ptr %block_bytes_at.119
  %storage_at.120 = getelementptr i8, ptr %block.104, i64 32
  %device_type_at.121 = getelementptr i8, ptr %storage_at.120, i64 16
  %device_type_at.122 = getelementptr i8, ptr %pool, i64 64
  %v.123 = load i32, ptr %device_type_at.122
  store i32 %v.123, ptr %device_type_at.121
  %storage_at.124 = getelementptr i8, ptr %block.104, i64 32
  %device_id_at.125 = getelementptr i8, ptr %storage_at.124, i64 20
  %device_id_at.126 = getelementptr i8, ptr %pool, i64 68
  %v.127 = load i32, ptr %device_id_at.126
  store i32 %v.127, ptr %device_id_at.125
  call void @pool_poison(ptr %pool, ptr %block.104)
  %storage_at.128 = getelementptr i8, ptr %block.104, i64 32
  ret ptr %storage_at.128
}

; Take back a storage that nothing counts any more.
define internal void @pool_give(ptr %storage) {
entry:
  %at.1 = getelementptr [1 x i8], ptr %storage, i64 -32
  %owner_at.2 = getelementptr i8, ptr %at.1, i64 16
  %v.3 = load ptr, ptr %owner_at.2
  call void @pool_poison(ptr %v.3, ptr %at.1)
  %block_bytes_at.4 = getelementptr i8, ptr %storage, i64 8
  %size_bytes.5 = load i64, ptr %block_bytes_at.4
  call void @pool_lock(ptr %v.3)
  %v.6 = load i64, ptr %v.3
  %v.7 = sub i64 %v.6, %size_bytes.5
  store i64 %v.7, ptr %v.3
  %keeps_blocks_at.11 = getelementptr i8, ptr %v.3, i64 56
  %v.12 = load i32, ptr %keeps_blocks_at.11
  %v.13 = icmp eq i32 %v.12, 0
  br i1 %v.13, label %then.8, label %after.10
then.8:
  call void @pool_unlock(ptr %v.3)
  call void @free(ptr %at.1)
  ret void
after.10:
  %link_at.14 = getelementptr i8, ptr %at.1, i64 24
  %number.15 = load i64, ptr %link_at.14
  %owner_at.16 = getelementptr i8, ptr %at.1, i64 16
  %free_blocks_at.17 = getelementptr i8, ptr %v.3, i64 72
  %at.18 = getelementptr [8 x i8], ptr %free_blocks_at.17, i64 %number.15
  %v.19 = load ptr, ptr %at.18
  store ptr %v.19, ptr %owner_at.16
  %free_blocks_at.20 = getelementptr i8, ptr %v.3, i64 72
  %at.21 = getelementptr [8 x i8], ptr %free_blocks_at.20, i64 %number.15
  store ptr %at.1, ptr %at.21
  %cached_bytes_at.22 = getelementptr i8, ptr %v.3, i64 16
  %v.23 = load i64, ptr %cached_bytes_at.22
  %v.24 = add i64 %v.23, %size_bytes.5
  store i64 %v.24, ptr %cached_bytes_at.22
  call void @pool_unlock(ptr %v.3)
  ret void
}

; Move this thread to another processor that it may run on. Nothing happens where there is none, or where
; the system cannot tell.
;
; Schedulers leave a thread that often sleeps where it is, even on the processor of the one that wakes it,
; while any program runs on the others, however unimportant. What the thread may run on is as before after
; the move.
define internal void @leave_processor(i32 %cpu) {
entry:
  %room.1 = alloca [1024 x i8], align 16
  %room.2 = alloca [1024 x i8], align 16
  br label %loop.3
loop.3:
  %k.6 = phi i64 [ 0, %entry ], [ %k.9, %body.4 ]
  %v.7 = icmp ult i64 %k.6, 128
  br i1 %v.7, label %body.4, label %after.5
body.4:
  %at.8 = getelementptr [8 x i8], ptr %room.1, i64 %k.6
  store i64 0, ptr %at.8
  %k.9 = add i64 %k.6, 1
  br label %loop.3
after.5:
  $ON_LINUX call i32 @sched_getaffinity(i32 0, i64 1024, ptr %room.1)
  br label %loop.10
loop.10:
  %k.13 = phi i64 [ 0, %after.5 ], [ %k.18, %body.11 ]
  %v.14 = icmp ult i64 %k.13, 128
  br i1 %v.14, label %body.11, label %after.12
body.11:
  %at.15 = getelementptr [8 x i8], ptr %room.2, i64 %k.13
  %at.16 = getelementptr [8 x i8], ptr %room.1, i64 %k.13
  %v.17 = load i64, ptr %at.16
  store i64 %v.17, ptr %at.15
  %k.18 = add i64 %k.13, 1
  br label %loop.10
after.12:
  %v.19 = sext i32 %cpu to i64
  %word.20 = lshr i64 %v.19, 6
  %v.24 = icmp uge i64 %word.20, 128
  br i1 %v.24, label %then.21, label %after.23
then.21:
  ret void
after.23:
  %at.25 = getelementptr [8 x i8], ptr %room.2, i64 %word.20
  %at.26 = getelementptr [8 x i8], ptr %room.2, i64 %word.20
  %v.27 = load i64, ptr %at.26
  %v.28 = sext i32 %cpu to i64
  %v.29 = and i64 %v.28, 63
  %v.30 = shl i64 1, %v.29
  %v.31 = xor i64 18446744073709551615, %v.30
  %v.32 = and i64 %v.27, %v.31
  store i64 %v.32, ptr %at.25
  $ON_LINUX call i32 @sched_setaffinity(i32 0, i64 1024, ptr %room.2)
  $ON_LINUX call i32 @sched_setaffinity(i32 0, i64 1024, ptr %room.1)
  ret void
}

; Have the parts of loops written there that begin from now on; null: nowhere. Gives the time, in cycles.
; Loops that run may write into the log before, so its memory stays for ever.
define i64 @heddle_log_parts(ptr %log) {
entry:
  store atomic ptr %log, ptr @part_log release, align 8
  %v.1 = call i64 @llvm.readcyclecounter()
  ret i64 %v.1
}

; Write down a part that has just ended.
define internal void @note_part(ptr %log, ptr %owner, ptr %me, i64 %begin, i64 %size, i64 %start) cold noinline {
entry:
  %end.1 = call i64 @llvm.readcyclecounter()
  %count_at.2 = getelementptr i8, ptr %log, i64 16
  %place.3 = atomicrmw add ptr %count_at.2, i64 1 monotonic
  %capacity_at.7 = getelementptr i8, ptr %log, i64 8
  %v.8 = load i64, ptr %capacity_at.7
  %v.9 = icmp uge i64 %place.3, %v.8
  br i1 %v.9, label %then.4, label %after.6
then.4:
  ret void
after.6:
  %v.10 = load ptr, ptr %log
  %at.11 = getelementptr [48 x i8], ptr %v.10, i64 %place.3
  %v.12 = ptrtoint ptr %owner to i64
  store i64 %v.12, ptr %at.11
  %thread_at.13 = getelementptr i8, ptr %at.11, i64 8
  %v.14 = ptrtoint ptr %me to i64
  store i64 %v.14, ptr %thread_at.13
  %begin_at.15 = getelementptr i8, ptr %at.11, i64 16
  store i64 %begin, ptr %begin_at.15
  %size_at.16 = getelementptr i8, ptr %at.11, i64 24
  store i64 %size, ptr %size_at.16
  %start_at.17 = getelementptr i8, ptr %at.11, i64 32
  store i64 %start, ptr %start_at.17
  %end_at.18 = getelementptr i8, ptr %at.11, i64 40
  store i64 %end.1, ptr %end_at.18
  ret void
}

; Make the pool as new. Also called in the child of a fork, where the workers and whoever held `busy` are
; gone.
define void @heddle_pool_reset() {
entry:
  %v.1 = call i32 @pthread_mutex_init(ptr @lock, ptr null)
  %v.2 = call i32 @pthread_cond_init(ptr @work_ready, ptr null)
  %v.3 = call i32 @pthread_cond_init(ptr @work_done, ptr null)
  store i32 0, ptr @num_workers
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @caller_waits monotonic, align 4
  store atomic i64 0, ptr @ticket monotonic, align 8
  store atomic i64 0, ptr @done monotonic, align 8
  store atomic ptr null, ptr @part_log monotonic, align 8
  %v.4 = call ptr @heddle_thread()
  %is_inside_at.5 = getelementptr i8, ptr %v.4, i64 512
  store i32 0, ptr %is_inside_at.5
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

; Say how many threads take part, and how many pauses an idle one spins.
define void @heddle_pool_configure(i32 %threads, i32 %spins) {
entry:
  store atomic i32 %threads, ptr @num_threads monotonic, align 4
  store atomic i32 %spins, ptr @spin_limit monotonic, align 4
  ret void
}

; Whether this thread runs its loops alone: it asks no workers, and keeps none from others.
define void @heddle_pool_alone(i32 %is_alone) {
entry:
  %v.1 = call ptr @heddle_thread()
  %is_inside_at.2 = getelementptr i8, ptr %v.1, i64 512
  store i32 %is_alone, ptr %is_inside_at.2
  ret void
}

; Decide how the parts of a loop are run: how many indices at a time, and in which order.
define internal void @set_order(ptr %fn, i64 %extent, i64 %parts, i64 %grain, i1 %sweeps) {
entry:
  %chunk_at.1 = getelementptr i8, ptr @job, i64 32
  store i64 %extent, ptr %chunk_at.1
  %is_backwards_at.2 = getelementptr i8, ptr @job, i64 40
  store i64 0, ptr %is_backwards_at.2
  br i1 %sweeps, label %after.5, label %then.3
then.3:
  ret void
after.5:
  %v.8 = ptrtoint ptr %fn to i64
  %v.9 = lshr i64 %v.8, 4
  %v.10 = and i64 %v.9, 63
  %at.11 = getelementptr [24 x i8], ptr @costs, i64 %v.10
  %v.15 = load ptr, ptr %at.11
  %v.16 = icmp ne ptr %v.15, %fn
  br i1 %v.16, label %then.12, label %after.14
then.12:
  store ptr %fn, ptr %at.11
  %rate_at.17 = getelementptr i8, ptr %at.11, i64 8
  store i64 1073741824, ptr %rate_at.17
  %runs_at.18 = getelementptr i8, ptr %at.11, i64 16
  store i64 0, ptr %runs_at.18
  br label %after.14
after.14:
  %runs_at.19 = getelementptr i8, ptr %at.11, i64 16
  %v.20 = load i64, ptr %runs_at.19
  %v.21 = add i64 %v.20, 1
  store i64 %v.21, ptr %runs_at.19
  %is_backwards_at.22 = getelementptr i8, ptr @job, i64 40
  %runs_at.23 = getelementptr i8, ptr %at.11, i64 16
  %v.24 = load i64, ptr %runs_at.23
  %v.25 = and i64 %v.24, 1
  store i64 %v.25, ptr %is_backwards_at.22
  %chunk_at.26 = getelementptr i8, ptr @job, i64 32
  %v.27 = udiv i64 %extent, %parts
  %v.28 = lshr i64 %v.27, 3
  %v.29 = call i64 @llvm.umax.i64(i64 %v.28, i64 %grain)
  store i64 %v.29, ptr %chunk_at.26
  ret void
}

; Run one part of the current job; gives the status of the first chunk that fails.
define internal i32 @run_chunks(ptr %fn, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %chunk_at.1 = getelementptr i8, ptr @job, i64 32
  %chunk.2 = load i64, ptr %chunk_at.1
  %is_backwards_at.3 = getelementptr i8, ptr @job, i64 40
  %v.4 = load i64, ptr %is_backwards_at.3
  %is_backwards.5 = icmp ne i64 %v.4, 0
  %v.6 = sub i64 %end, %begin
  %v.7 = sub i64 %v.6, 1
  %last.8 = udiv i64 %v.7, %chunk.2
  br label %loop.9
loop.9:
  %k.12 = phi i64 [ 0, %entry ], [ %k.26, %after.22 ]
  %v.13 = sub i64 %last.8, %k.12
  %v.14 = select i1 %is_backwards.5, i64 %v.13, i64 %k.12
  %v.15 = mul i64 %v.14, %chunk.2
  %start.16 = add i64 %begin, %v.15
  %v.17 = add i64 %start.16, %chunk.2
  %v.18 = call i64 @llvm.umin.i64(i64 %v.17, i64 %end)
  %status.19 = call i32 %fn(i64 %start.16, i64 %v.18, ptr %ctx)
  %v.24 = icmp ne i32 %status.19, 0
  br i1 %v.24, label %then.20, label %or.23
or.23:
  %v.25 = icmp eq i64 %k.12, %last.8
  br i1 %v.25, label %then.20, label %after.22
then.20:
  ret i32 %status.19
after.22:
  %k.26 = add i64 %k.12, 1
  br label %loop.9
}

; Claim and run parts of the current job until none is left. `cpu` remembers the processor.
define internal void @drain(ptr %me, ptr %cpu, i1 %is_caller) {
entry:
  %step.1 = select i1 %is_caller, i64 1, i64 0
  br label %loop.2
loop.2:
  %seen.5 = load atomic i64, ptr @ticket acquire, align 8
  %first.6 = and i64 %seen.5, 65535
  %v.7 = lshr i64 %seen.5, 16
  %left.8 = and i64 %v.7, 65535
  %v.12 = icmp eq i64 %left.8, 0
  br i1 %v.12, label %then.9, label %after.11
then.9:
  ret void
after.11:
  %v.16 = sub i64 %seen.5, 65536
  %v.17 = add i64 %v.16, %step.1
  %pair.18 = cmpxchg ptr @ticket, i64 %seen.5, i64 %v.17 acq_rel acquire
  %v.19 = extractvalue { i64, i1 } %pair.18, 1
  br i1 %v.19, label %after.15, label %then.13
then.13:
  br label %loop.2
after.15:
  %v.20 = $CURRENT_CPU
  store atomic i32 %v.20, ptr %cpu monotonic, align 4
  %parts_at.21 = getelementptr i8, ptr @job, i64 24
  %parts.22 = load i64, ptr %parts_at.21
  %v.23 = add i64 %first.6, %left.8
  %v.24 = sub i64 %v.23, 1
  %v.25 = select i1 %is_caller, i64 %first.6, i64 %v.24
  %fn.28 = load ptr, ptr @job
  %extent_at.29 = getelementptr i8, ptr @job, i64 16
  %v.30 = load i64, ptr %extent_at.29
  %base.31 = udiv i64 %v.30, %parts.22
  %extent_at.32 = getelementptr i8, ptr @job, i64 16
  %v.33 = load i64, ptr %extent_at.32
  %extra.34 = urem i64 %v.33, %parts.22
  %v.35 = mul i64 %v.25, %base.31
  %v.36 = call i64 @llvm.umin.i64(i64 %v.25, i64 %extra.34)
  %begin.37 = add i64 %v.35, %v.36
  %v.38 = icmp ult i64 %v.25, %extra.34
  %v.39 = zext i1 %v.38 to i64
  %size.40 = add i64 %base.31, %v.39
  %start.41 = call i64 @llvm.readcyclecounter()
  %v.42 = add i64 %begin.37, %size.40
  %ctx_at.43 = getelementptr i8, ptr @job, i64 8
  %v.44 = load ptr, ptr %ctx_at.43
  %status.45 = call i32 @run_chunks(ptr %fn.28, i64 %begin.37, i64 %v.42, ptr %v.44)
  %cycles_at.48 = getelementptr i8, ptr %me, i64 648
  %v.49 = load i64, ptr %cycles_at.48
  %v.50 = call i64 @llvm.readcyclecounter()
  %v.51 = sub i64 %v.50, %start.41
  %v.52 = add i64 %v.49, %v.51
  store i64 %v.52, ptr %cycles_at.48
  %indices_at.53 = getelementptr i8, ptr %me, i64 656
  %v.54 = load i64, ptr %indices_at.53
  %v.55 = add i64 %v.54, %size.40
  store i64 %v.55, ptr %indices_at.53
  %log_at.59 = getelementptr i8, ptr @job, i64 56
  %v.60 = load ptr, ptr %log_at.59
  %v.61 = icmp ne ptr %v.60, null
  br i1 %v.61, label %then.56, label %after.58
then.56:
  %log_at.62 = getelementptr i8, ptr @job, i64 56
  %v.63 = load ptr, ptr %log_at.62
  %owner_at.64 = getelementptr i8, ptr @job, i64 48
  %v.65 = load ptr, ptr %owner_at.64
  call void @note_part(ptr %v.63, ptr %v.65, ptr %me, i64 %begin.37, i64 %size.40, i64 %start.41)
  br label %after.58
after.58:
  %v.70 = icmp ne i32 %status.45, 0
  br i1 %v.70, label %and.69, label %after.68
and.69:
  %status_at.71 = getelementptr i8, ptr @job, i64 64
  %pair.72 = cmpxchg ptr %status_at.71, i32 0, i32 %status.45 acq_rel acquire
  %v.73 = extractvalue { i32, i1 } %pair.72, 1
  br i1 %v.73, label %then.66, label %after.68
then.66:
  %error_at.74 = getelementptr i8, ptr @job, i64 72
  call void @llvm.memcpy.p0.p0.i64(ptr %error_at.74, ptr %me, i64 512, i1 false)
  br label %after.68
after.68:
  %v.79 = atomicrmw add ptr @done, i64 1 seq_cst
  %v.80 = add i64 %v.79, 1
  %v.81 = icmp eq i64 %v.80, %parts.22
  br i1 %v.81, label %and.78, label %after.77
and.78:
  %v.82 = load atomic i32, ptr @caller_waits seq_cst, align 4
  %v.83 = icmp ne i32 %v.82, 0
  br i1 %v.83, label %then.75, label %after.77
then.75:
  %v.84 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.85 = call i32 @pthread_cond_signal(ptr @work_done)
  %v.86 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %after.77
after.77:
  br label %loop.2
}

; A thread of the pool: takes parts of loops for ever.
define internal ptr @worker(ptr %unused) {
entry:
  %room.1 = alloca [128 x i8], align 16
  %v.2 = call i32 @sigfillset(ptr %room.1)
  %v.3 = call i32 @pthread_sigmask(i32 $SIG_BLOCK, ptr %room.1, ptr null)
  %me.4 = call ptr @heddle_thread()
  %is_inside_at.5 = getelementptr i8, ptr %me.4, i64 512
  store i32 1, ptr %is_inside_at.5
  br label %loop.6
loop.6:
  %moved.9 = phi i64 [ 0, %entry ], [ %moved.14, %after.13 ]
  %limit.10 = load atomic i32, ptr @spin_limit monotonic, align 4
  br label %loop.11
loop.11:
  %moved.14 = phi i64 [ %moved.9, %loop.6 ], [ %moved.58, %after.30 ]
  %spins.15 = phi i32 [ 0, %loop.6 ], [ %spins.22, %after.30 ]
  %v.18 = load atomic i64, ptr @ticket seq_cst, align 8
  %v.19 = lshr i64 %v.18, 16
  %v.20 = and i64 %v.19, 65535
  %v.21 = icmp ne i64 %v.20, 0
  br i1 %v.21, label %after.13, label %body.12
body.12:
  $PAUSE
  %spins.22 = add i32 %spins.15, 1
  %v.25 = $CURRENT_CPU
  %v.26 = load atomic i32, ptr @owner_cpu monotonic, align 4
  %v.27 = icmp eq i32 %v.25, %v.26
  br i1 %v.27, label %and.31, label %else.29
and.31:
  %v.32 = call i64 @llvm.readcyclecounter()
  %v.33 = sub i64 %v.32, %moved.14
  %v.34 = icmp ugt i64 %v.33, 16777216
  br i1 %v.34, label %then.28, label %else.29
then.28:
  %v.35 = $CURRENT_CPU
  call void @leave_processor(i32 %v.35)
  %moved.36 = call i64 @llvm.readcyclecounter()
  br label %after.30
else.29:
  %v.40 = icmp sge i32 %spins.22, %limit.10
  %v.41 = or i1 %v.27, %v.40
  br i1 %v.41, label %then.37, label %after.39
then.37:
  %v.44 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.45 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %loop.46
loop.46:
  %v.51 = load atomic i64, ptr @ticket seq_cst, align 8
  %v.52 = lshr i64 %v.51, 16
  %v.53 = and i64 %v.52, 65535
  %v.54 = icmp ne i64 %v.53, 0
  br i1 %v.54, label %after.48, label %body.47
body.47:
  %v.55 = call i32 @pthread_cond_wait(ptr @work_ready, ptr @lock)
  br label %loop.46
after.48:
  %v.56 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %v.57 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %after.13
after.39:
  br label %after.30
after.30:
  %moved.58 = phi i64 [ %moved.36, %then.28 ], [ %moved.14, %after.39 ]
  br label %loop.11
after.13:
  %spins.59 = phi i32 [ %spins.15, %loop.11 ], [ %spins.22, %after.48 ]
  call void @drain(ptr %me.4, ptr @helper_cpu, i1 false)
  br label %loop.6
}

; Start missing workers. A thread that cannot be had is done without: the caller runs what nobody
; claims.
define internal void @start_workers(i32 %wanted) cold noinline {
entry:
  %room.1 = alloca [8 x i8], align 16
  br label %loop.2
loop.2:
  %v.5 = load i32, ptr @num_workers
  %v.6 = icmp ult i32 %v.5, %wanted
  br i1 %v.6, label %body.3, label %after.4
body.3:
  %v.10 = call i32 @pthread_create(ptr %room.1, ptr null, ptr @worker, ptr null)
  %v.11 = icmp ne i32 %v.10, 0
  br i1 %v.11, label %then.7, label %after.9
then.7:
  ret void
after.9:
  %v.12 = load i64, ptr %room.1
  %v.13 = call i32 @pthread_detach(i64 %v.12)
  %v.14 = load i32, ptr @num_workers
  %v.15 = add i32 %v.14, 1
  store i32 %v.15, ptr @num_workers
  br label %loop.2
after.4:
  ret void
}

; Wait until `done` reaches `parts`: spin, then sleep.
define internal void @wait_for_parts(i64 %parts) {
entry:
  %limit.1 = load atomic i32, ptr @spin_limit monotonic, align 4
  br label %loop.2
loop.2:
  %spins.5 = phi i32 [ 0, %entry ], [ %spins.8, %after.11 ]
  %v.6 = load atomic i64, ptr @done acquire, align 8
  %v.7 = icmp ne i64 %v.6, %parts
  br i1 %v.7, label %body.3, label %after.4
body.3:
  $PAUSE
  %spins.8 = add i32 %spins.5, 1
  %v.14 = $CURRENT_CPU
  %v.15 = load atomic i32, ptr @helper_cpu monotonic, align 4
  %v.16 = icmp eq i32 %v.14, %v.15
  %v.17 = icmp sge i32 %spins.8, %limit.1
  %v.18 = or i1 %v.16, %v.17
  br i1 %v.18, label %then.9, label %after.11
then.9:
  %v.21 = call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 1, ptr @caller_waits seq_cst, align 4
  br label %loop.22
loop.22:
  %v.25 = load atomic i64, ptr @done seq_cst, align 8
  %v.26 = icmp ne i64 %v.25, %parts
  br i1 %v.26, label %body.23, label %after.24
body.23:
  %v.27 = call i32 @pthread_cond_wait(ptr @work_done, ptr @lock)
  br label %loop.22
after.24:
  store atomic i32 0, ptr @caller_waits seq_cst, align 4
  %v.28 = call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
after.11:
  br label %loop.2
after.4:
  ret void
}

; Run fn(begin, end, ctx) over all indices below the extent; the first status that is not 0, or 0. The
; grain is the least number of indices that is worth a thread.
define i32 @heddle_parallel_for(ptr %fn, ptr %ctx, i64 %extent_wish, i64 %grain_wish) {
entry:
  %v.4 = icmp sle i64 %extent_wish, 0
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret i32 0
after.3:
  %v.5 = call i64 @llvm.abs.i64(i64 %grain_wish, i1 false)
  %grain.6 = call i64 @llvm.umax.i64(i64 %v.5, i64 1)
  %sweeps.7 = icmp slt i64 %grain_wish, 0
  %v.8 = sub i64 %extent_wish, 1
  %v.9 = udiv i64 %v.8, %grain.6
  %wanted.10 = add i64 %v.9, 1
  %v.11 = load atomic i32, ptr @num_threads monotonic, align 4
  %threads.12 = zext i32 %v.11 to i64
  %v.13 = icmp eq i64 %threads.12, 1
  %is_even.14 = or i1 %sweeps.7, %v.13
  br i1 %is_even.14, label %yes.16, label %no.17
yes.16:
  br label %chosen.18
no.17:
  %v.19 = mul i64 %threads.12, 4
  br label %chosen.18
chosen.18:
  %v.15.20 = phi i64 [ %threads.12, %yes.16 ], [ %v.19, %no.17 ]
  %parts.21 = call i64 @llvm.umin.i64(i64 %wanted.10, i64 %v.15.20)
  %v.22 = icmp uge i64 %wanted.10, 4
  %has_order.23 = and i1 %sweeps.7, %v.22
  %v.27 = icmp ugt i64 %parts.21, 1
  %v.28 = or i1 %v.27, %has_order.23
  br i1 %v.28, label %then.24, label %after.26
then.24:
  %me.29 = call ptr @heddle_thread()
  %is_inside_at.34 = getelementptr i8, ptr %me.29, i64 512
  %v.35 = load i32, ptr %is_inside_at.34
  %v.36 = icmp eq i32 %v.35, 0
  br i1 %v.36, label %and.33, label %after.32
and.33:
  %pair.37 = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %v.38 = extractvalue { i32, i1 } %pair.37, 1
  br i1 %v.38, label %then.30, label %after.32
then.30:
  %v.44 = icmp ule i64 %parts.21, 1
  br i1 %v.44, label %then.41, label %after.43
then.41:
  call void @set_order(ptr %fn, i64 %extent_wish, i64 1, i64 %grain.6, i1 %sweeps.7)
  %v.45 = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent_wish, ptr %ctx)
  br label %run_owned_end.40
after.43:
  %v.54 = load atomic i32, ptr @sleepers monotonic, align 4
  %v.55 = icmp eq i32 %v.54, 0
  br i1 %v.55, label %then.51, label %after.53
then.51:
  br label %is_too_small_end.50
after.53:
  %v.58 = ptrtoint ptr %fn to i64
  %v.59 = lshr i64 %v.58, 4
  %v.60 = and i64 %v.59, 63
  %at.61 = getelementptr [24 x i8], ptr @costs, i64 %v.60
  %v.65 = load ptr, ptr %at.61
  %v.66 = icmp ne ptr %v.65, %fn
  br i1 %v.66, label %then.62, label %after.64
then.62:
  br label %is_too_small_end.50
after.64:
  %v.67 = load i64, ptr @inline_cycles
  %rate_at.68 = getelementptr i8, ptr %at.61, i64 8
  %v.69 = load i64, ptr %rate_at.68
  %v.70 = mul i64 %v.69, %extent_wish
  %v.71 = lshr i64 %v.70, 10
  %total.72 = add i64 %v.67, %v.71
  %v.73 = load i64, ptr @wake_cycles
  %v.74 = shl i64 %v.73, 1
  %is_small.75 = icmp ult i64 %total.72, %v.74
  %v.76 = select i1 %is_small.75, i64 %total.72, i64 0
  store i64 %v.76, ptr @inline_cycles
  br label %is_too_small_end.50
is_too_small_end.50:
  %result.0.77 = phi i1 [ false, %then.51 ], [ false, %then.62 ], [ %is_small.75, %after.64 ]
  br i1 %result.0.77, label %then.46, label %after.48
then.46:
  %start.78 = call i64 @llvm.readcyclecounter()
  call void @set_order(ptr %fn, i64 %extent_wish, i64 1, i64 %grain.6, i1 %sweeps.7)
  %status.79 = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent_wish, ptr %ctx)
  %cycles_at.82 = getelementptr i8, ptr %me.29, i64 648
  %v.83 = load i64, ptr %cycles_at.82
  %v.84 = call i64 @llvm.readcyclecounter()
  %v.85 = sub i64 %v.84, %start.78
  %v.86 = add i64 %v.83, %v.85
  store i64 %v.86, ptr %cycles_at.82
  %indices_at.87 = getelementptr i8, ptr %me.29, i64 656
  %v.88 = load i64, ptr %indices_at.87
  %v.89 = add i64 %v.88, %extent_wish
  store i64 %v.89, ptr %indices_at.87
  %log.90 = load atomic ptr, ptr @part_log acquire, align 8
  %v.94 = icmp ne ptr %log.90, null
  br i1 %v.94, label %then.91, label %after.93
then.91:
  call void @note_part(ptr %log.90, ptr %me.29, ptr %me.29, i64 0, i64 %extent_wish, i64 %start.78)
  br label %after.93
after.93:
  %cycles_at.97 = getelementptr i8, ptr %me.29, i64 648
  %cycles.98 = load i64, ptr %cycles_at.97
  %indices_at.99 = getelementptr i8, ptr %me.29, i64 656
  %indices.100 = load i64, ptr %indices_at.99
  %cycles_at.101 = getelementptr i8, ptr %me.29, i64 648
  store i64 0, ptr %cycles_at.101
  %indices_at.102 = getelementptr i8, ptr %me.29, i64 656
  store i64 0, ptr %indices_at.102
  %v.106 = icmp ne i64 %indices.100, 0
  br i1 %v.106, label %then.103, label %after.105
then.103:
  %v.109 = ptrtoint ptr %fn to i64
  %v.110 = lshr i64 %v.109, 4
  %v.111 = and i64 %v.110, 63
  %at.112 = getelementptr [24 x i8], ptr @costs, i64 %v.111
  store ptr %fn, ptr %at.112
  %rate_at.113 = getelementptr i8, ptr %at.112, i64 8
  %v.114 = shl i64 %cycles.98, 10
  %v.115 = udiv i64 %v.114, %indices.100
  store i64 %v.115, ptr %rate_at.113
  br label %after.105
after.105:
  br label %run_owned_end.40
after.48:
  %v.118 = load atomic i32, ptr @num_threads monotonic, align 4
  %need.119 = sub i32 %v.118, 1
  %v.123 = load i32, ptr @num_workers
  %v.124 = icmp ult i32 %v.123, %need.119
  br i1 %v.124, label %then.120, label %after.122
then.120:
  call void @start_workers(i32 %need.119)
  br label %after.122
after.122:
  %is_inside_at.125 = getelementptr i8, ptr %me.29, i64 512
  store i32 1, ptr %is_inside_at.125
  call void @set_order(ptr %fn, i64 %extent_wish, i64 %parts.21, i64 %grain.6, i1 %sweeps.7)
  store ptr %fn, ptr @job
  %ctx_at.128 = getelementptr i8, ptr @job, i64 8
  store ptr %ctx, ptr %ctx_at.128
  %extent_at.129 = getelementptr i8, ptr @job, i64 16
  store i64 %extent_wish, ptr %extent_at.129
  %parts_at.130 = getelementptr i8, ptr @job, i64 24
  store i64 %parts.21, ptr %parts_at.130
  %owner_at.131 = getelementptr i8, ptr @job, i64 48
  store ptr %me.29, ptr %owner_at.131
  %log_at.132 = getelementptr i8, ptr @job, i64 56
  %v.133 = load atomic ptr, ptr @part_log acquire, align 8
  store ptr %v.133, ptr %log_at.132
  %status_at.134 = getelementptr i8, ptr @job, i64 64
  store atomic i32 0, ptr %status_at.134 monotonic, align 4
  store atomic i64 0, ptr @done monotonic, align 8
  %v.135 = load atomic i64, ptr @ticket monotonic, align 8
  %generation.136 = lshr i64 %v.135, 32
  %v.137 = add i64 %generation.136, 1
  %v.138 = shl i64 %v.137, 32
  %v.139 = shl i64 %parts.21, 16
  %v.140 = or i64 %v.138, %v.139
  store atomic i64 %v.140, ptr @ticket seq_cst, align 8
  %v.144 = load atomic i32, ptr @sleepers seq_cst, align 4
  %v.145 = icmp ne i32 %v.144, 0
  br i1 %v.145, label %then.141, label %after.143
then.141:
  %start.146 = call i64 @llvm.readcyclecounter()
  %v.147 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.148 = call i32 @pthread_cond_broadcast(ptr @work_ready)
  %v.149 = call i32 @pthread_mutex_unlock(ptr @lock)
  %v.150 = call i64 @llvm.readcyclecounter()
  %v.151 = sub i64 %v.150, %start.146
  %before.154 = load i64, ptr @wake_cycles
  %v.155 = shl i64 %before.154, 1
  %v.156 = call i64 @llvm.umin.i64(i64 %v.151, i64 %v.155)
  %v.157 = add i64 %before.154, %v.156
  %mean.158 = lshr i64 %v.157, 1
  %v.159 = icmp eq i64 %before.154, 0
  %v.160 = select i1 %v.159, i64 %v.151, i64 %mean.158
  store i64 %v.160, ptr @wake_cycles
  br label %after.143
after.143:
  call void @drain(ptr %me.29, ptr @owner_cpu, i1 true)
  call void @wait_for_parts(i64 %parts.21)
  %cycles_at.163 = getelementptr i8, ptr %me.29, i64 648
  %cycles.164 = load i64, ptr %cycles_at.163
  %indices_at.165 = getelementptr i8, ptr %me.29, i64 656
  %indices.166 = load i64, ptr %indices_at.165
  %cycles_at.167 = getelementptr i8, ptr %me.29, i64 648
  store i64 0, ptr %cycles_at.167
  %indices_at.168 = getelementptr i8, ptr %me.29, i64 656
  store i64 0, ptr %indices_at.168
  %v.172 = icmp ne i64 %indices.166, 0
  br i1 %v.172, label %then.169, label %after.171
then.169:
  %v.175 = ptrtoint ptr %fn to i64
  %v.176 = lshr i64 %v.175, 4
  %v.177 = and i64 %v.176, 63
  %at.178 = getelementptr [24 x i8], ptr @costs, i64 %v.177
  store ptr %fn, ptr %at.178
  %rate_at.179 = getelementptr i8, ptr %at.178, i64 8
  %v.180 = shl i64 %cycles.164, 10
  %v.181 = udiv i64 %v.180, %indices.166
  store i64 %v.181, ptr %rate_at.179
  br label %after.171
after.171:
  %is_inside_at.182 = getelementptr i8, ptr %me.29, i64 512
  store i32 0, ptr %is_inside_at.182
  %status_at.183 = getelementptr i8, ptr @job, i64 64
  %status.184 = load atomic i32, ptr %status_at.183 monotonic, align 4
  %v.188 = icmp ne i32 %status.184, 0
  br i1 %v.188, label %then.185, label %after.187
then.185:
  %error_at.189 = getelementptr i8, ptr @job, i64 72
  call void @llvm.memcpy.p0.p0.i64(ptr %me.29, ptr %error_at.189, i64 512, i1 false)
  br label %after.187
after.187:
  br label %run_owned_end.40
run_owned_end.40:
  %result.0.190 = phi i32 [ %v.45, %then.41 ], [ %status.79, %after.105 ], [ %status.184, %after.187 ]
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %result.0.190
after.32:
  br label %after.26
after.26:
  %v.191 = call i32 %fn(i64 0, i64 %extent_wish, ptr %ctx)
  ret i32 %v.191
}

; `retain`, for compiled programs.
define void @heddle_retain(i32 %kind, ptr %payload) {
entry:
  %v.6 = icmp sge i32 %kind, 7
  br i1 %v.6, label %then.3, label %after.5
then.3:
  %v.10 = icmp eq i32 %kind, 11
  br i1 %v.10, label %then.7, label %else.8
then.7:
  %at.17 = getelementptr [1 x i8], ptr %payload, i64 -32
  %v.18 = atomicrmw add ptr %at.17, i64 1 monotonic
  br label %after.9
else.8:
  %at.23 = getelementptr [1 x i8], ptr %payload, i64 -32
  %v.24 = load i64, ptr %at.23
  %v.25 = add i64 %v.24, 1
  store i64 %v.25, ptr %at.23
  br label %after.9
after.9:
  br label %after.5
after.5:
  ret void
}

; The context is null where the interpreter's lock is held.
define void @heddle_release(ptr %context, i32 %kind, ptr %payload) "heddle-simplified" {
entry:
  %v.4 = icmp slt i32 %kind, 7
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret void
after.3:
  %v.8 = icmp eq i32 %kind, 11
  br i1 %v.8, label %then.5, label %after.7
then.5:
  %at.15 = getelementptr [1 x i8], ptr %payload, i64 -32
  %v.20 = load atomic i64, ptr %at.15 acquire, align 8
  %v.21 = icmp eq i64 %v.20, 1
  br i1 %v.21, label %then.16, label %or.19
or.19:
  %v.22 = atomicrmw sub ptr %at.15, i64 1 acq_rel
  %v.23 = icmp eq i64 %v.22, 1
  br i1 %v.23, label %then.16, label %after.18
then.16:
  call void @pool_give(ptr %payload)
  br label %after.18
after.18:
  ret void
after.7:
  %at.26 = getelementptr [1 x i8], ptr %payload, i64 -32
  %v.27 = load i64, ptr %at.26
  %left.28 = sub i64 %v.27, 1
  store i64 %left.28, ptr %at.26
  %v.32 = icmp ne i64 %left.28, 0
  br i1 %v.32, label %then.29, label %after.31
then.29:
  ret void
after.31:
  %v.37 = icmp eq i32 %kind, 7
  br i1 %v.37, label %and.36, label %after.35
and.36:
  %flags_at.39 = getelementptr i8, ptr %at.26, i64 12
  %v.40 = load i32, ptr %flags_at.39
  %v.41 = icmp eq i32 %v.40, 0
  br i1 %v.41, label %and.38, label %after.35
and.38:
  %owner_at.44 = getelementptr i8, ptr %at.26, i64 16
  %owner.45 = load ptr, ptr %owner_at.44
  %v.51 = icmp ne ptr %owner.45, null
  br i1 %v.51, label %and.50, label %no.48
and.50:
  %at.56 = getelementptr [1 x i8], ptr %owner.45, i64 -32
  %kind_at.57 = getelementptr i8, ptr %at.56, i64 8
  %v.58 = load i32, ptr %kind_at.57
  %v.59 = icmp eq i32 %v.58, 11
  br i1 %v.59, label %yes.47, label %no.48
yes.47:
  br label %chosen.49
no.48:
  br label %chosen.49
chosen.49:
  %v.46.60 = phi i1 [ true, %yes.47 ], [ false, %no.48 ]
  br i1 %v.46.60, label %then.33, label %after.35
then.33:
  %owner_at.61 = getelementptr i8, ptr %at.26, i64 16
  %v.62 = load ptr, ptr %owner_at.61
  %at.69 = getelementptr [1 x i8], ptr %v.62, i64 -32
  %v.74 = load atomic i64, ptr %at.69 acquire, align 8
  %v.75 = icmp eq i64 %v.74, 1
  br i1 %v.75, label %then.70, label %or.73
or.73:
  %v.76 = atomicrmw sub ptr %at.69, i64 1 acq_rel
  %v.77 = icmp eq i64 %v.76, 1
  br i1 %v.77, label %then.70, label %after.72
then.70:
  call void @pool_give(ptr %v.62)
  br label %after.72
after.72:
  call void @free(ptr %at.26)
  ret void
after.35:
  call void @destroy(ptr %context, ptr %at.26)
  ret void
}

; Free an object that nothing holds any more, and all that die with it. They wait in a list (`link`), not
; on the stack: programs build tuples of tuples without end.
define internal void @destroy(ptr %context, ptr %first) "heddle-simplified" {
entry:
  %link_at.1 = getelementptr i8, ptr %first, i64 24
  store i64 0, ptr %link_at.1
  br label %loop.2
loop.2:
  %dead.5 = phi ptr [ %first, %entry ], [ %dead.112, %after.115 ]
  %v.6 = icmp ne ptr %dead.5, null
  br i1 %v.6, label %body.3, label %after.4
body.3:
  %link_at.7 = getelementptr i8, ptr %dead.5, i64 24
  %v.8 = load i64, ptr %link_at.7
  %v.9 = inttoptr i64 %v.8 to ptr
  %kind_at.12 = getelementptr i8, ptr %dead.5, i64 8
  %kind.13 = load i32, ptr %kind_at.12
  %at.16 = getelementptr [32 x i8], ptr %dead.5, i64 1
  %v.20 = icmp eq i32 %kind.13, 7
  br i1 %v.20, label %then.17, label %else.18
then.17:
  %owner_at.21 = getelementptr i8, ptr %dead.5, i64 16
  %owner.22 = load ptr, ptr %owner_at.21
  %flags_at.27 = getelementptr i8, ptr %dead.5, i64 12
  %v.28 = load i32, ptr %flags_at.27
  %v.29 = and i32 %v.28, 1
  %v.30 = icmp eq i32 %v.29, 0
  br i1 %v.30, label %and.26, label %after.25
and.26:
  %v.31 = icmp ne ptr %owner.22, null
  br i1 %v.31, label %then.23, label %after.25
then.23:
  %at.36 = getelementptr [1 x i8], ptr %owner.22, i64 -32
  %kind_at.37 = getelementptr i8, ptr %at.36, i64 8
  %v.38 = load i32, ptr %kind_at.37
  %v.44 = icmp eq i32 %v.38, 11
  br i1 %v.44, label %then.41, label %after.43
then.41:
  %at.51 = getelementptr [1 x i8], ptr %owner.22, i64 -32
  %v.56 = load atomic i64, ptr %at.51 acquire, align 8
  %v.57 = icmp eq i64 %v.56, 1
  br i1 %v.57, label %then.52, label %or.55
or.55:
  %v.58 = atomicrmw sub ptr %at.51, i64 1 acq_rel
  %v.59 = icmp eq i64 %v.58, 1
  br i1 %v.59, label %then.52, label %after.54
then.52:
  call void @pool_give(ptr %owner.22)
  br label %after.54
after.54:
  br label %let_go_end.40
after.43:
  %at.62 = getelementptr [1 x i8], ptr %owner.22, i64 -32
  %v.63 = load i64, ptr %at.62
  %left.64 = sub i64 %v.63, 1
  store i64 %left.64, ptr %at.62
  %v.68 = icmp ne i64 %left.64, 0
  br i1 %v.68, label %then.65, label %after.67
then.65:
  br label %let_go_end.40
after.67:
  %link_at.69 = getelementptr i8, ptr %at.62, i64 24
  %v.70 = ptrtoint ptr %v.9 to i64
  store i64 %v.70, ptr %link_at.69
  br label %let_go_end.40
let_go_end.40:
  %result.0.71 = phi ptr [ %v.9, %after.54 ], [ %v.9, %then.65 ], [ %at.62, %after.67 ]
  br label %after.25
after.25:
  %dead.72 = phi ptr [ %v.9, %then.17 ], [ %v.9, %and.26 ], [ %result.0.71, %let_go_end.40 ]
  br label %after.19
else.18:
  %v.76 = icmp eq i32 %kind.13, 9
  br i1 %v.76, label %then.73, label %else.74
then.73:
  %at.79 = getelementptr [8 x i8], ptr %at.16, i64 1
  %v.80 = load i64, ptr %at.16
  %dead.81 = call ptr @let_all_go(ptr %v.9, ptr %at.79, i64 %v.80)
  br label %after.75
else.74:
  %v.85 = icmp eq i32 %kind.13, 10
  br i1 %v.85, label %then.82, label %else.83
then.82:
  %at.88 = getelementptr [16 x i8], ptr %at.16, i64 1
  %num_bound_at.89 = getelementptr i8, ptr %at.16, i64 8
  %v.90 = load i64, ptr %num_bound_at.89
  %dead.91 = call ptr @let_all_go(ptr %v.9, ptr %at.88, i64 %v.90)
  br label %after.84
else.83:
  %v.95 = icmp eq i32 %kind.13, 13
  br i1 %v.95, label %then.92, label %else.93
then.92:
  %at.98 = getelementptr [16 x i8], ptr %at.16, i64 1
  %v.99 = load i64, ptr %at.16
  %dead.100 = call ptr @let_all_go(ptr %v.9, ptr %at.98, i64 %v.99)
  br label %after.94
else.93:
  %v.104 = icmp eq i32 %kind.13, 14
  br i1 %v.104, label %then.101, label %after.103
then.101:
  %dead.107 = call ptr @let_all_go(ptr %v.9, ptr %at.16, i64 1)
  br label %after.103
after.103:
  %dead.108 = phi ptr [ %v.9, %else.93 ], [ %dead.107, %then.101 ]
  br label %after.94
after.94:
  %dead.109 = phi ptr [ %dead.100, %then.92 ], [ %dead.108, %after.103 ]
  br label %after.84
after.84:
  %dead.110 = phi ptr [ %dead.91, %then.82 ], [ %dead.109, %after.94 ]
  br label %after.75
after.75:
  %dead.111 = phi ptr [ %dead.81, %then.73 ], [ %dead.110, %after.84 ]
  br label %after.19
after.19:
  %dead.112 = phi ptr [ %dead.72, %after.25 ], [ %dead.111, %after.75 ]
  %flags_at.116 = getelementptr i8, ptr %dead.5, i64 12
  %v.117 = load i32, ptr %flags_at.116
  %v.118 = and i32 %v.117, 1
  %v.119 = icmp ne i32 %v.118, 0
  br i1 %v.119, label %then.113, label %else.114
then.113:
  call void @drop_foreign(ptr %context, ptr %dead.5)
  br label %after.115
else.114:
  %flags_at.123 = getelementptr i8, ptr %dead.5, i64 12
  %v.124 = load i32, ptr %flags_at.123
  %v.125 = and i32 %v.124, 4
  %v.126 = icmp eq i32 %v.125, 0
  br i1 %v.126, label %then.120, label %after.122
then.120:
  call void @free(ptr %dead.5)
  br label %after.122
after.122:
  br label %after.115
after.115:
  br label %loop.2
after.4:
  ret void
}

; Free an object that holds one of the host's; while the program runs unlocked it waits in the list.
define internal void @drop_foreign(ptr %context, ptr %head) {
entry:
  %v.5 = icmp ne ptr %context, null
  br i1 %v.5, label %and.4, label %after.3
and.4:
  %state_at.6 = getelementptr i8, ptr %context, i64 40
  %v.7 = load ptr, ptr %state_at.6
  %v.8 = icmp ne ptr %v.7, null
  br i1 %v.8, label %then.1, label %after.3
then.1:
  %link_at.9 = getelementptr i8, ptr %head, i64 24
  %deferred_at.10 = getelementptr i8, ptr %context, i64 32
  %v.11 = load ptr, ptr %deferred_at.10
  %v.12 = ptrtoint ptr %v.11 to i64
  store i64 %v.12, ptr %link_at.9
  %deferred_at.13 = getelementptr i8, ptr %context, i64 32
  store ptr %head, ptr %deferred_at.13
  ret void
after.3:
  %drop.14 = load ptr, ptr @host_drop
  %v.18 = icmp ne ptr %drop.14, null
  br i1 %v.18, label %then.15, label %after.17
then.15:
  %owner_at.19 = getelementptr i8, ptr %head, i64 16
  %v.20 = load ptr, ptr %owner_at.19
  call void %drop.14(ptr %v.20)
  br label %after.17
after.17:
  call void @free(ptr %head)
  ret void
}

; Count one reference less of each value. Gives the list of dead objects, longer by those that died.
define internal ptr @let_all_go(ptr %dead, ptr %values, i64 %count) "heddle-simplified" {
entry:
  br label %loop.1
loop.1:
  %dead.4 = phi ptr [ %dead, %entry ], [ %dead.53, %after.11 ]
  %number.5 = phi i64 [ 0, %entry ], [ %number.54, %after.11 ]
  %v.6 = icmp slt i64 %number.5, %count
  br i1 %v.6, label %body.2, label %after.3
body.2:
  %at.7 = getelementptr [16 x i8], ptr %values, i64 %number.5
  %kind.8 = load i32, ptr %at.7
  %v.12 = icmp sge i32 %kind.8, 7
  br i1 %v.12, label %then.9, label %after.11
then.9:
  %at.13 = getelementptr [16 x i8], ptr %values, i64 %number.5
  %payload_at.18 = getelementptr i8, ptr %at.13, i64 8
  %v.19 = load ptr, ptr %payload_at.18
  %v.25 = icmp eq i32 %kind.8, 11
  br i1 %v.25, label %then.22, label %after.24
then.22:
  %at.32 = getelementptr [1 x i8], ptr %v.19, i64 -32
  %v.37 = load atomic i64, ptr %at.32 acquire, align 8
  %v.38 = icmp eq i64 %v.37, 1
  br i1 %v.38, label %then.33, label %or.36
or.36:
  %v.39 = atomicrmw sub ptr %at.32, i64 1 acq_rel
  %v.40 = icmp eq i64 %v.39, 1
  br i1 %v.40, label %then.33, label %after.35
then.33:
  call void @pool_give(ptr %v.19)
  br label %after.35
after.35:
  br label %let_go_end.21
after.24:
  %at.43 = getelementptr [1 x i8], ptr %v.19, i64 -32
  %v.44 = load i64, ptr %at.43
  %left.45 = sub i64 %v.44, 1
  store i64 %left.45, ptr %at.43
  %v.49 = icmp ne i64 %left.45, 0
  br i1 %v.49, label %then.46, label %after.48
then.46:
  br label %let_go_end.21
after.48:
  %link_at.50 = getelementptr i8, ptr %at.43, i64 24
  %v.51 = ptrtoint ptr %dead.4 to i64
  store i64 %v.51, ptr %link_at.50
  br label %let_go_end.21
let_go_end.21:
  %result.0.52 = phi ptr [ %dead.4, %after.35 ], [ %dead.4, %then.46 ], [ %at.43, %after.48 ]
  br label %after.11
after.11:
  %dead.53 = phi ptr [ %dead.4, %body.2 ], [ %result.0.52, %let_go_end.21 ]
  %number.54 = add i64 %number.5, 1
  br label %loop.1
after.3:
  ret ptr %dead.4
}

; Clear registers.
define void @heddle_release_all(ptr %context, ptr %values, i64 %count) "heddle-simplified" {
entry:
  br label %loop.1
loop.1:
  %number.4 = phi i64 [ 0, %entry ], [ %number.18, %after.10 ]
  %v.5 = icmp slt i64 %number.4, %count
  br i1 %v.5, label %body.2, label %after.3
body.2:
  %at.6 = getelementptr [16 x i8], ptr %values, i64 %number.4
  %kind.7 = load i32, ptr %at.6
  %v.11 = icmp sge i32 %kind.7, 7
  br i1 %v.11, label %then.8, label %after.10
then.8:
  %payload_at.16 = getelementptr i8, ptr %at.6, i64 8
  %v.17 = load ptr, ptr %payload_at.16
  store i32 0, ptr %at.6
  call void @heddle_release(ptr %context, i32 %kind.7, ptr %v.17)
  br label %after.10
after.10:
  %number.18 = add i64 %number.4, 1
  br label %loop.1
after.3:
  ret void
}

; Drop what waits. The interpreter's lock is held.
define internal void @drop_deferred(ptr %context) {
entry:
  br label %loop.1
loop.1:
  %deferred_at.4 = getelementptr i8, ptr %context, i64 32
  %v.5 = load ptr, ptr %deferred_at.4
  %v.6 = icmp ne ptr %v.5, null
  br i1 %v.6, label %body.2, label %after.3
body.2:
  %deferred_at.7 = getelementptr i8, ptr %context, i64 32
  %v.8 = load ptr, ptr %deferred_at.7
  %deferred_at.9 = getelementptr i8, ptr %context, i64 32
  %link_at.10 = getelementptr i8, ptr %v.8, i64 24
  %v.11 = load i64, ptr %link_at.10
  %v.12 = inttoptr i64 %v.11 to ptr
  store ptr %v.12, ptr %deferred_at.9
  call void @drop_foreign(ptr null, ptr %v.8)
  br label %loop.1
after.3:
  ret void
}

; `put`, for compiled programs.
define void @heddle_put(ptr %context, ptr %register, i32 %kind, ptr %payload) "heddle-simplified" {
entry:
  %old_kind.3 = load i32, ptr %register
  %payload_at.8 = getelementptr i8, ptr %register, i64 8
  %v.9 = load ptr, ptr %payload_at.8
  store i32 %kind, ptr %register
  %payload_at.14 = getelementptr i8, ptr %register, i64 8
  store ptr %payload, ptr %payload_at.14
  %v.18 = icmp sge i32 %old_kind.3, 7
  br i1 %v.18, label %then.15, label %after.17
then.15:
  call void @heddle_release(ptr %context, i32 %old_kind.3, ptr %v.9)
  br label %after.17
after.17:
  ret void
}

; Put a value into a register, which lets go of what it held.
define void @heddle_copy(ptr %context, ptr %register, ptr %value) "heddle-simplified" {
entry:
  %kind.1 = load i32, ptr %value
  %payload_at.6 = getelementptr i8, ptr %value, i64 8
  %v.7 = load ptr, ptr %payload_at.6
  %v.13 = icmp sge i32 %kind.1, 7
  br i1 %v.13, label %then.10, label %after.12
then.10:
  %v.17 = icmp eq i32 %kind.1, 11
  br i1 %v.17, label %then.14, label %else.15
then.14:
  %at.24 = getelementptr [1 x i8], ptr %v.7, i64 -32
  %v.25 = atomicrmw add ptr %at.24, i64 1 monotonic
  br label %after.16
else.15:
  %at.30 = getelementptr [1 x i8], ptr %v.7, i64 -32
  %v.31 = load i64, ptr %at.30
  %v.32 = add i64 %v.31, 1
  store i64 %v.32, ptr %at.30
  br label %after.16
after.16:
  br label %after.12
after.12:
  %old_kind.35 = load i32, ptr %register
  %payload_at.40 = getelementptr i8, ptr %register, i64 8
  %v.41 = load ptr, ptr %payload_at.40
  store i32 %kind.1, ptr %register
  %payload_at.46 = getelementptr i8, ptr %register, i64 8
  store ptr %v.7, ptr %payload_at.46
  %v.50 = icmp sge i32 %old_kind.35, 7
  br i1 %v.50, label %then.47, label %after.49
then.47:
  call void @heddle_release(ptr %context, i32 %old_kind.35, ptr %v.41)
  br label %after.49
after.49:
  ret void
}

; Set the error U0601 with the bytes that the system did not give.
define internal void @refuse_memory(i64 %size_bytes) cold noinline {
entry:
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 %size_bytes)
  ret void
}

; A new object's payload, of a count of 1; null with an error. `size_bytes` are the payload's.
define ptr @heddle_new(i32 %kind, i64 %size_bytes, ptr %owner, i32 %flags) {
entry:
  %v.3 = add i64 %size_bytes, 32
  %v.4 = call ptr @malloc(i64 %v.3)
  %v.8 = icmp eq ptr %v.4, null
  br i1 %v.8, label %then.5, label %after.7
then.5:
  call void @refuse_memory(i64 %v.3)
  br label %new_object_end.2
after.7:
  store i64 1, ptr %v.4
  %kind_at.9 = getelementptr i8, ptr %v.4, i64 8
  store i32 %kind, ptr %kind_at.9
  %flags_at.10 = getelementptr i8, ptr %v.4, i64 12
  store i32 %flags, ptr %flags_at.10
  %owner_at.11 = getelementptr i8, ptr %v.4, i64 16
  store ptr %owner, ptr %owner_at.11
  %at.14 = getelementptr [32 x i8], ptr %v.4, i64 1
  br label %new_object_end.2
new_object_end.2:
  %result.0.15 = phi ptr [ null, %then.5 ], [ %at.14, %after.7 ]
  ret ptr %result.0.15
}

; Storage for as many elements of `element` bytes as the sizes say. One size, and a block that waits in
; the pool: the usual case leaves out what the others need.
define i32 @heddle_alloc_storage(ptr %context, ptr %register, i64 %rank, ptr %sizes, i64 %element, i32 %device) "heddle-simplified" {
entry:
  %v.4 = icmp eq i64 %rank, 1
  br i1 %v.4, label %then.1, label %after.3
then.1:
  %count.5 = load i64, ptr %sizes
  %table.6 = load ptr, ptr %context
  %v.9 = load i64, ptr %table.6
  %last.10 = sub i64 %v.9, 1
  %v.11 = icmp eq i32 %device, -1
  %v.12 = sext i32 %device to i64
  %v.13 = select i1 %v.11, i64 %last.10, i64 %v.12
  %v.14 = load i64, ptr %table.6
  %is_known.15 = icmp ult i64 %v.13, %v.14
  %v.19 = icmp ult i64 %count.5, 1099511627776
  %v.20 = icmp ult i64 %element, 4096
  %v.21 = and i1 %v.19, %v.20
  %v.22 = and i1 %v.21, %is_known.15
  br i1 %v.22, label %then.16, label %after.18
then.16:
  %at.25 = getelementptr [8 x i8], ptr %table.6, i64 1
  %at.26 = getelementptr [8 x i8], ptr %at.25, i64 %v.13
  %v.27 = load ptr, ptr %at.26
  %v.28 = mul i64 %count.5, %element
  %storage.29 = call ptr @pool_take_waiting(ptr %v.27, i64 %v.28)
  %v.33 = icmp ne ptr %storage.29, null
  br i1 %v.33, label %then.30, label %after.32
then.30:
  %old_kind.36 = load i32, ptr %register
  %payload_at.41 = getelementptr i8, ptr %register, i64 8
  %v.42 = load ptr, ptr %payload_at.41
  store i32 11, ptr %register
  %payload_at.47 = getelementptr i8, ptr %register, i64 8
  store ptr %storage.29, ptr %payload_at.47
  %v.51 = icmp sge i32 %old_kind.36, 7
  br i1 %v.51, label %then.48, label %after.50
then.48:
  call void @heddle_release(ptr %context, i32 %old_kind.36, ptr %v.42)
  br label %after.50
after.50:
  ret i32 0
after.32:
  br label %after.18
after.18:
  br label %after.3
after.3:
  %v.52 = call i32 @alloc_any_storage(ptr %context, ptr %register, i64 %rank, ptr %sizes, i64 %element, i32 %device)
  ret i32 %v.52
}

; Put a storage into a register, for so many elements. `element`: bytes of one. Errors: U0601, U0602,
; V0406.
define internal i32 @alloc_any_storage(ptr %context, ptr %register, i64 %rank, ptr %sizes, i64 %element, i32 %device) {
entry:
  br label %loop.3
loop.3:
  %result.6 = phi i64 [ 1, %entry ], [ %result.20, %body.4 ]
  %any_negative.7 = phi i1 [ false, %entry ], [ %any_negative.14, %body.4 ]
  %any_zero.8 = phi i1 [ false, %entry ], [ %any_zero.16, %body.4 ]
  %number.9 = phi i64 [ 0, %entry ], [ %number.21, %body.4 ]
  %v.10 = icmp slt i64 %number.9, %rank
  br i1 %v.10, label %body.4, label %after.5
body.4:
  %at.11 = getelementptr [8 x i8], ptr %sizes, i64 %number.9
  %size.12 = load i64, ptr %at.11
  %v.13 = icmp slt i64 %size.12, 0
  %any_negative.14 = or i1 %any_negative.7, %v.13
  %v.15 = icmp eq i64 %size.12, 0
  %any_zero.16 = or i1 %any_zero.8, %v.15
  %v.17 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.6, i64 %size.12)
  %v.18 = extractvalue { i64, i1 } %v.17, 0
  %v.19 = extractvalue { i64, i1 } %v.17, 1
  %result.20 = select i1 %v.19, i64 9223372036854775807, i64 %v.18
  %number.21 = add i64 %number.9, 1
  br label %loop.3
after.5:
  %known.22 = select i1 %any_zero.8, i64 0, i64 %result.6
  %v.23 = select i1 %any_negative.7, i64 -1, i64 %known.22
  %v.26 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %v.23, i64 %element)
  %v.27 = extractvalue { i64, i1 } %v.26, 0
  %v.28 = extractvalue { i64, i1 } %v.26, 1
  %bounded.29 = select i1 %v.28, i64 9223372036854775807, i64 %v.27
  %v.30 = icmp slt i64 %v.23, 0
  %v.31 = select i1 %v.30, i64 -1, i64 %bounded.29
  %table.32 = load ptr, ptr %context
  %v.35 = load i64, ptr %table.32
  %last.36 = sub i64 %v.35, 1
  %v.37 = icmp eq i32 %device, -1
  %v.38 = sext i32 %device to i64
  %v.39 = select i1 %v.37, i64 %last.36, i64 %v.38
  %v.43 = load i64, ptr %table.32
  %v.44 = icmp uge i64 %v.39, %v.43
  br i1 %v.44, label %then.40, label %after.42
then.40:
  %v.45 = load i64, ptr %table.32
  %v.46 = sext i32 %device to i64
  call void @heddle_set_error(i32 103937, ptr @bad_device, i64 %v.45, i64 %v.46)
  ret i32 -1
after.42:
  %at.49 = getelementptr [8 x i8], ptr %table.32, i64 1
  %at.50 = getelementptr [8 x i8], ptr %at.49, i64 %v.39
  %v.51 = load ptr, ptr %at.50
  %storage.52 = call ptr @pool_take(ptr %v.51, i64 %v.31)
  %v.56 = icmp eq ptr %storage.52, null
  br i1 %v.56, label %then.53, label %after.55
then.53:
  ret i32 -1
after.55:
  %old_kind.59 = load i32, ptr %register
  %payload_at.64 = getelementptr i8, ptr %register, i64 8
  %v.65 = load ptr, ptr %payload_at.64
  store i32 11, ptr %register
  %payload_at.70 = getelementptr i8, ptr %register, i64 8
  store ptr %storage.52, ptr %payload_at.70
  %v.74 = icmp sge i32 %old_kind.59, 7
  br i1 %v.74, label %then.71, label %after.73
then.71:
  call void @heddle_release(ptr %context, i32 %old_kind.59, ptr %v.65)
  br label %after.73
after.73:
  ret i32 0
}

; Put a tensor in a storage into a register; `start` is in bytes. Errors: V0403 where it does not fit.
define i32 @heddle_alloc_tensor(ptr %context, ptr %register, ptr %storage, i64 %start, i64 %rank, ptr %sizes, i32 %dtype) "heddle-simplified" {
entry:
  br label %loop.3
loop.3:
  %result.6 = phi i64 [ 1, %entry ], [ %result.20, %body.4 ]
  %any_negative.7 = phi i1 [ false, %entry ], [ %any_negative.14, %body.4 ]
  %any_zero.8 = phi i1 [ false, %entry ], [ %any_zero.16, %body.4 ]
  %number.9 = phi i64 [ 0, %entry ], [ %number.21, %body.4 ]
  %v.10 = icmp slt i64 %number.9, %rank
  br i1 %v.10, label %body.4, label %after.5
body.4:
  %at.11 = getelementptr [8 x i8], ptr %sizes, i64 %number.9
  %size.12 = load i64, ptr %at.11
  %v.13 = icmp slt i64 %size.12, 0
  %any_negative.14 = or i1 %any_negative.7, %v.13
  %v.15 = icmp eq i64 %size.12, 0
  %any_zero.16 = or i1 %any_zero.8, %v.15
  %v.17 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.6, i64 %size.12)
  %v.18 = extractvalue { i64, i1 } %v.17, 0
  %v.19 = extractvalue { i64, i1 } %v.17, 1
  %result.20 = select i1 %v.19, i64 9223372036854775807, i64 %v.18
  %number.21 = add i64 %number.9, 1
  br label %loop.3
after.5:
  %known.22 = select i1 %any_zero.8, i64 0, i64 %result.6
  %v.23 = select i1 %any_negative.7, i64 -1, i64 %known.22
  %v.26 = lshr i32 %dtype, 8
  %v.27 = and i32 %v.26, 255
  %v.28 = lshr i32 %dtype, 16
  %v.29 = mul i32 %v.27, %v.28
  %v.30 = add i32 %v.29, 7
  %v.31 = lshr i32 %v.30, 3
  %v.32 = zext i32 %v.31 to i64
  %v.35 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %v.23, i64 %v.32)
  %v.36 = extractvalue { i64, i1 } %v.35, 0
  %v.37 = extractvalue { i64, i1 } %v.35, 1
  %bounded.38 = select i1 %v.37, i64 9223372036854775807, i64 %v.36
  %v.39 = icmp slt i64 %v.23, 0
  %v.40 = select i1 %v.39, i64 -1, i64 %bounded.38
  %end.41 = add i64 %v.40, %start
  %v.45 = load i64, ptr %storage
  %v.46 = icmp ugt i64 %end.41, %v.45
  %v.47 = or i64 %v.23, %start
  %v.48 = icmp slt i64 %v.47, 0
  %v.49 = or i1 %v.46, %v.48
  br i1 %v.49, label %then.42, label %after.44
then.42:
  %v.50 = load i64, ptr %storage
  call void @heddle_set_error(i32 154113, ptr @outside_storage, i64 %v.50, i64 %end.41)
  ret i32 -1
after.44:
  %at.55 = getelementptr [32 x i8], ptr %storage, i64 1
  %at.56 = getelementptr [1 x i8], ptr %at.55, i64 %start
  %device_type_at.57 = getelementptr i8, ptr %storage, i64 16
  %v.58 = load i32, ptr %device_type_at.57
  %device_id_at.59 = getelementptr i8, ptr %storage, i64 20
  %v.60 = load i32, ptr %device_id_at.59
  %v.63 = mul i64 8, %rank
  %v.64 = add i64 48, %v.63
  %v.67 = add i64 %v.64, 32
  %v.68 = call ptr @malloc(i64 %v.67)
  %v.72 = icmp eq ptr %v.68, null
  br i1 %v.72, label %then.69, label %after.71
then.69:
  call void @refuse_memory(i64 %v.67)
  br label %new_object_end.66
after.71:
  store i64 1, ptr %v.68
  %kind_at.73 = getelementptr i8, ptr %v.68, i64 8
  store i32 7, ptr %kind_at.73
  %flags_at.74 = getelementptr i8, ptr %v.68, i64 12
  store i32 0, ptr %flags_at.74
  %owner_at.75 = getelementptr i8, ptr %v.68, i64 16
  store ptr %storage, ptr %owner_at.75
  %at.78 = getelementptr [32 x i8], ptr %v.68, i64 1
  br label %new_object_end.66
new_object_end.66:
  %result.0.79 = phi ptr [ null, %then.69 ], [ %at.78, %after.71 ]
  %v.83 = icmp eq ptr %result.0.79, null
  br i1 %v.83, label %then.80, label %after.82
then.80:
  br label %new_tensor_end.62
after.82:
  store ptr %at.56, ptr %result.0.79
  %device_type_at.84 = getelementptr i8, ptr %result.0.79, i64 8
  store i32 %v.58, ptr %device_type_at.84
  %device_id_at.85 = getelementptr i8, ptr %result.0.79, i64 12
  store i32 %v.60, ptr %device_id_at.85
  %rank_at.86 = getelementptr i8, ptr %result.0.79, i64 16
  %v.87 = trunc i64 %rank to i32
  store i32 %v.87, ptr %rank_at.86
  %dtype_at.88 = getelementptr i8, ptr %result.0.79, i64 20
  store i32 %dtype, ptr %dtype_at.88
  %at.89 = getelementptr [48 x i8], ptr %result.0.79, i64 1
  %sizes_at.90 = getelementptr i8, ptr %result.0.79, i64 24
  store ptr %at.89, ptr %sizes_at.90
  %strides_at.91 = getelementptr i8, ptr %result.0.79, i64 32
  store ptr null, ptr %strides_at.91
  %byte_offset_at.92 = getelementptr i8, ptr %result.0.79, i64 40
  store i64 0, ptr %byte_offset_at.92
  br label %loop.93
loop.93:
  %axis.96 = phi i64 [ 0, %after.82 ], [ %axis.101, %body.94 ]
  %v.97 = icmp slt i64 %axis.96, %rank
  br i1 %v.97, label %body.94, label %after.95
body.94:
  %at.98 = getelementptr [8 x i8], ptr %at.89, i64 %axis.96
  %at.99 = getelementptr [8 x i8], ptr %sizes, i64 %axis.96
  %v.100 = load i64, ptr %at.99
  store i64 %v.100, ptr %at.98
  %axis.101 = add i64 %axis.96, 1
  br label %loop.93
after.95:
  br label %new_tensor_end.62
new_tensor_end.62:
  %result.0.102 = phi ptr [ null, %then.80 ], [ %result.0.79, %after.95 ]
  %v.106 = icmp eq ptr %result.0.102, null
  br i1 %v.106, label %then.103, label %after.105
then.103:
  ret i32 -1
after.105:
  %at.113 = getelementptr [1 x i8], ptr %storage, i64 -32
  %v.117 = load atomic i64, ptr %at.113 monotonic, align 8
  %v.118 = icmp eq i64 %v.117, 1
  br i1 %v.118, label %then.114, label %else.115
then.114:
  store atomic i64 2, ptr %at.113 monotonic, align 8
  br label %after.116
else.115:
  %v.119 = atomicrmw add ptr %at.113, i64 1 monotonic
  br label %after.116
after.116:
  %old_kind.122 = load i32, ptr %register
  %payload_at.127 = getelementptr i8, ptr %register, i64 8
  %v.128 = load ptr, ptr %payload_at.127
  store i32 7, ptr %register
  %payload_at.133 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.102, ptr %payload_at.133
  %v.137 = icmp sge i32 %old_kind.122, 7
  br i1 %v.137, label %then.134, label %after.136
then.134:
  call void @heddle_release(ptr %context, i32 %old_kind.122, ptr %v.128)
  br label %after.136
after.136:
  ret i32 0
}

; A view of the same memory with other sizes. Its owner is the tensor's, or the tensor where the host
; owns the memory.
define i32 @heddle_reshape(ptr %context, ptr %register, ptr %tensor, i64 %rank, ptr %sizes) "heddle-simplified" {
entry:
  %rank_at.1 = getelementptr i8, ptr %tensor, i64 16
  %v.2 = load i32, ptr %rank_at.1
  %v.3 = sext i32 %v.2 to i64
  %sizes_at.4 = getelementptr i8, ptr %tensor, i64 24
  %v.5 = load ptr, ptr %sizes_at.4
  br label %loop.8
loop.8:
  %result.11 = phi i64 [ 1, %entry ], [ %result.25, %body.9 ]
  %any_negative.12 = phi i1 [ false, %entry ], [ %any_negative.19, %body.9 ]
  %any_zero.13 = phi i1 [ false, %entry ], [ %any_zero.21, %body.9 ]
  %number.14 = phi i64 [ 0, %entry ], [ %number.26, %body.9 ]
  %v.15 = icmp slt i64 %number.14, %v.3
  br i1 %v.15, label %body.9, label %after.10
body.9:
  %at.16 = getelementptr [8 x i8], ptr %v.5, i64 %number.14
  %size.17 = load i64, ptr %at.16
  %v.18 = icmp slt i64 %size.17, 0
  %any_negative.19 = or i1 %any_negative.12, %v.18
  %v.20 = icmp eq i64 %size.17, 0
  %any_zero.21 = or i1 %any_zero.13, %v.20
  %v.22 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.11, i64 %size.17)
  %v.23 = extractvalue { i64, i1 } %v.22, 0
  %v.24 = extractvalue { i64, i1 } %v.22, 1
  %result.25 = select i1 %v.24, i64 9223372036854775807, i64 %v.23
  %number.26 = add i64 %number.14, 1
  br label %loop.8
after.10:
  %known.27 = select i1 %any_zero.13, i64 0, i64 %result.11
  %v.28 = select i1 %any_negative.12, i64 -1, i64 %known.27
  br label %loop.31
loop.31:
  %result.34 = phi i64 [ 1, %after.10 ], [ %result.48, %body.32 ]
  %any_negative.35 = phi i1 [ false, %after.10 ], [ %any_negative.42, %body.32 ]
  %any_zero.36 = phi i1 [ false, %after.10 ], [ %any_zero.44, %body.32 ]
  %number.37 = phi i64 [ 0, %after.10 ], [ %number.49, %body.32 ]
  %v.38 = icmp slt i64 %number.37, %rank
  br i1 %v.38, label %body.32, label %after.33
body.32:
  %at.39 = getelementptr [8 x i8], ptr %sizes, i64 %number.37
  %size.40 = load i64, ptr %at.39
  %v.41 = icmp slt i64 %size.40, 0
  %any_negative.42 = or i1 %any_negative.35, %v.41
  %v.43 = icmp eq i64 %size.40, 0
  %any_zero.44 = or i1 %any_zero.36, %v.43
  %v.45 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.34, i64 %size.40)
  %v.46 = extractvalue { i64, i1 } %v.45, 0
  %v.47 = extractvalue { i64, i1 } %v.45, 1
  %result.48 = select i1 %v.47, i64 9223372036854775807, i64 %v.46
  %number.49 = add i64 %number.37, 1
  br label %loop.31
after.33:
  %known.50 = select i1 %any_zero.36, i64 0, i64 %result.34
  %v.51 = select i1 %any_negative.35, i64 -1, i64 %known.50
  %v.55 = icmp ugt i64 %v.51, %v.28
  br i1 %v.55, label %then.52, label %after.54
then.52:
  call void @heddle_set_error(i32 103169, ptr @too_large_view, i64 %v.28, i64 %v.51)
  ret i32 -1
after.54:
  %at.58 = getelementptr [1 x i8], ptr %tensor, i64 -32
  %flags_at.63 = getelementptr i8, ptr %at.58, i64 12
  %v.64 = load i32, ptr %flags_at.63
  %v.65 = and i32 %v.64, 1
  %v.66 = icmp ne i32 %v.65, 0
  br i1 %v.66, label %yes.60, label %no.61
yes.60:
  br label %chosen.62
no.61:
  %owner_at.67 = getelementptr i8, ptr %at.58, i64 16
  %v.68 = load ptr, ptr %owner_at.67
  br label %chosen.62
chosen.62:
  %owner.59.69 = phi ptr [ %tensor, %yes.60 ], [ %v.68, %no.61 ]
  %dtype_at.70 = getelementptr i8, ptr %tensor, i64 20
  %dtype.71 = load i32, ptr %dtype_at.70
  %v.72 = load ptr, ptr %tensor
  %device_type_at.73 = getelementptr i8, ptr %tensor, i64 8
  %v.74 = load i32, ptr %device_type_at.73
  %device_id_at.75 = getelementptr i8, ptr %tensor, i64 12
  %v.76 = load i32, ptr %device_id_at.75
  %v.79 = mul i64 8, %rank
  %v.80 = add i64 48, %v.79
  %v.83 = add i64 %v.80, 32
  %v.84 = call ptr @malloc(i64 %v.83)
  %v.88 = icmp eq ptr %v.84, null
  br i1 %v.88, label %then.85, label %after.87
then.85:
  call void @refuse_memory(i64 %v.83)
  br label %new_object_end.82
after.87:
  store i64 1, ptr %v.84
  %kind_at.89 = getelementptr i8, ptr %v.84, i64 8
  store i32 7, ptr %kind_at.89
  %flags_at.90 = getelementptr i8, ptr %v.84, i64 12
  store i32 0, ptr %flags_at.90
  %owner_at.91 = getelementptr i8, ptr %v.84, i64 16
  store ptr %owner.59.69, ptr %owner_at.91
  %at.94 = getelementptr [32 x i8], ptr %v.84, i64 1
  br label %new_object_end.82
new_object_end.82:
  %result.0.95 = phi ptr [ null, %then.85 ], [ %at.94, %after.87 ]
  %v.99 = icmp eq ptr %result.0.95, null
  br i1 %v.99, label %then.96, label %after.98
then.96:
  br label %new_tensor_end.78
after.98:
  store ptr %v.72, ptr %result.0.95
  %device_type_at.100 = getelementptr i8, ptr %result.0.95, i64 8
  store i32 %v.74, ptr %device_type_at.100
  %device_id_at.101 = getelementptr i8, ptr %result.0.95, i64 12
  store i32 %v.76, ptr %device_id_at.101
  %rank_at.102 = getelementptr i8, ptr %result.0.95, i64 16
  %v.103 = trunc i64 %rank to i32
  store i32 %v.103, ptr %rank_at.102
  %dtype_at.104 = getelementptr i8, ptr %result.0.95, i64 20
  store i32 %dtype.71, ptr %dtype_at.104
  %at.105 = getelementptr [48 x i8], ptr %result.0.95, i64 1
  %sizes_at.106 = getelementptr i8, ptr %result.0.95, i64 24
  store ptr %at.105, ptr %sizes_at.106
  %strides_at.107 = getelementptr i8, ptr %result.0.95, i64 32
  store ptr null, ptr %strides_at.107
  %byte_offset_at.108 = getelementptr i8, ptr %result.0.95, i64 40
  store i64 0, ptr %byte_offset_at.108
  br label %loop.109
loop.109:
  %axis.112 = phi i64 [ 0, %after.98 ], [ %axis.117, %body.110 ]
  %v.113 = icmp slt i64 %axis.112, %rank
  br i1 %v.113, label %body.110, label %after.111
body.110:
  %at.114 = getelementptr [8 x i8], ptr %at.105, i64 %axis.112
  %at.115 = getelementptr [8 x i8], ptr %sizes, i64 %axis.112
  %v.116 = load i64, ptr %at.115
  store i64 %v.116, ptr %at.114
  %axis.117 = add i64 %axis.112, 1
  br label %loop.109
after.111:
  br label %new_tensor_end.78
new_tensor_end.78:
  %result.0.118 = phi ptr [ null, %then.96 ], [ %result.0.95, %after.111 ]
  %v.122 = icmp eq ptr %result.0.118, null
  br i1 %v.122, label %then.119, label %after.121
then.119:
  ret i32 -1
after.121:
  %v.126 = icmp ne ptr %owner.59.69, null
  br i1 %v.126, label %then.123, label %after.125
then.123:
  %at.131 = getelementptr [1 x i8], ptr %owner.59.69, i64 -32
  %kind_at.132 = getelementptr i8, ptr %at.131, i64 8
  %v.133 = load i32, ptr %kind_at.132
  %v.139 = icmp sge i32 %v.133, 7
  br i1 %v.139, label %then.136, label %after.138
then.136:
  %v.143 = icmp eq i32 %v.133, 11
  br i1 %v.143, label %then.140, label %else.141
then.140:
  %at.150 = getelementptr [1 x i8], ptr %owner.59.69, i64 -32
  %v.151 = atomicrmw add ptr %at.150, i64 1 monotonic
  br label %after.142
else.141:
  %at.156 = getelementptr [1 x i8], ptr %owner.59.69, i64 -32
  %v.157 = load i64, ptr %at.156
  %v.158 = add i64 %v.157, 1
  store i64 %v.158, ptr %at.156
  br label %after.142
after.142:
  br label %after.138
after.138:
  br label %after.125
after.125:
  %old_kind.161 = load i32, ptr %register
  %payload_at.166 = getelementptr i8, ptr %register, i64 8
  %v.167 = load ptr, ptr %payload_at.166
  store i32 7, ptr %register
  %payload_at.172 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.118, ptr %payload_at.172
  %v.176 = icmp sge i32 %old_kind.161, 7
  br i1 %v.176, label %then.173, label %after.175
then.173:
  call void @heddle_release(ptr %context, i32 %old_kind.161, ptr %v.167)
  br label %after.175
after.175:
  ret i32 0
}

; Put a shape of `count` sizes into a register.
define i32 @heddle_make_shape(ptr %context, ptr %register, i64 %count, ptr %sizes) "heddle-simplified" {
entry:
  %v.1 = mul i64 8, %count
  %v.2 = add i64 8, %v.1
  %v.5 = add i64 %v.2, 32
  %v.6 = call ptr @malloc(i64 %v.5)
  %v.10 = icmp eq ptr %v.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @refuse_memory(i64 %v.5)
  br label %new_object_end.4
after.9:
  store i64 1, ptr %v.6
  %kind_at.11 = getelementptr i8, ptr %v.6, i64 8
  store i32 8, ptr %kind_at.11
  %flags_at.12 = getelementptr i8, ptr %v.6, i64 12
  store i32 0, ptr %flags_at.12
  %owner_at.13 = getelementptr i8, ptr %v.6, i64 16
  store ptr null, ptr %owner_at.13
  %at.16 = getelementptr [32 x i8], ptr %v.6, i64 1
  br label %new_object_end.4
new_object_end.4:
  %result.0.17 = phi ptr [ null, %then.7 ], [ %at.16, %after.9 ]
  %v.21 = icmp eq ptr %result.0.17, null
  br i1 %v.21, label %then.18, label %after.20
then.18:
  ret i32 -1
after.20:
  store i64 %count, ptr %result.0.17
  %at.24 = getelementptr [8 x i8], ptr %result.0.17, i64 1
  %size.25 = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %at.24, ptr %sizes, i64 %size.25, i1 false)
  %old_kind.28 = load i32, ptr %register
  %payload_at.33 = getelementptr i8, ptr %register, i64 8
  %v.34 = load ptr, ptr %payload_at.33
  store i32 8, ptr %register
  %payload_at.39 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.17, ptr %payload_at.39
  %v.43 = icmp sge i32 %old_kind.28, 7
  br i1 %v.43, label %then.40, label %after.42
then.40:
  call void @heddle_release(ptr %context, i32 %old_kind.28, ptr %v.34)
  br label %after.42
after.42:
  ret i32 0
}

; Put a tuple of `count` values into a register, which counts them.
define i32 @heddle_make_tuple(ptr %context, ptr %register, i64 %count, ptr %items) "heddle-simplified" {
entry:
  %v.1 = mul i64 16, %count
  %size_bytes.2 = add i64 8, %v.1
  %v.5 = add i64 %size_bytes.2, 32
  %v.6 = call ptr @malloc(i64 %v.5)
  %v.10 = icmp eq ptr %v.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @refuse_memory(i64 %v.5)
  br label %new_object_end.4
after.9:
  store i64 1, ptr %v.6
  %kind_at.11 = getelementptr i8, ptr %v.6, i64 8
  store i32 9, ptr %kind_at.11
  %flags_at.12 = getelementptr i8, ptr %v.6, i64 12
  store i32 0, ptr %flags_at.12
  %owner_at.13 = getelementptr i8, ptr %v.6, i64 16
  store ptr null, ptr %owner_at.13
  %at.16 = getelementptr [32 x i8], ptr %v.6, i64 1
  br label %new_object_end.4
new_object_end.4:
  %result.0.17 = phi ptr [ null, %then.7 ], [ %at.16, %after.9 ]
  %v.21 = icmp eq ptr %result.0.17, null
  br i1 %v.21, label %then.18, label %after.20
then.18:
  ret i32 -1
after.20:
  store i64 %count, ptr %result.0.17
  %at.24 = getelementptr [8 x i8], ptr %result.0.17, i64 1
  br label %loop.27
loop.27:
  %number.30 = phi i64 [ 0, %after.20 ], [ %number.74, %after.53 ]
  %v.31 = icmp slt i64 %number.30, %count
  br i1 %v.31, label %body.28, label %after.29
body.28:
  %at.32 = getelementptr [16 x i8], ptr %items, i64 %number.30
  %at.33 = getelementptr [16 x i8], ptr %at.24, i64 %number.30
  %kind.34 = load i32, ptr %at.32
  %payload_at.39 = getelementptr i8, ptr %at.32, i64 8
  %v.40 = load ptr, ptr %payload_at.39
  %zero_at.41 = getelementptr i8, ptr %at.33, i64 4
  %zero_at.42 = getelementptr i8, ptr %at.32, i64 4
  %v.43 = load i32, ptr %zero_at.42
  store i32 %v.43, ptr %zero_at.41
  store i32 %kind.34, ptr %at.33
  %payload_at.48 = getelementptr i8, ptr %at.33, i64 8
  store ptr %v.40, ptr %payload_at.48
  %v.54 = icmp sge i32 %kind.34, 7
  br i1 %v.54, label %then.51, label %after.53
then.51:
  %v.58 = icmp eq i32 %kind.34, 11
  br i1 %v.58, label %then.55, label %else.56
then.55:
  %at.65 = getelementptr [1 x i8], ptr %v.40, i64 -32
  %v.66 = atomicrmw add ptr %at.65, i64 1 monotonic
  br label %after.57
else.56:
  %at.71 = getelementptr [1 x i8], ptr %v.40, i64 -32
  %v.72 = load i64, ptr %at.71
  %v.73 = add i64 %v.72, 1
  store i64 %v.73, ptr %at.71
  br label %after.57
after.57:
  br label %after.53
after.53:
  %number.74 = add i64 %number.30, 1
  br label %loop.27
after.29:
  %old_kind.77 = load i32, ptr %register
  %payload_at.82 = getelementptr i8, ptr %register, i64 8
  %v.83 = load ptr, ptr %payload_at.82
  store i32 9, ptr %register
  %payload_at.88 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.17, ptr %payload_at.88
  %v.92 = icmp sge i32 %old_kind.77, 7
  br i1 %v.92, label %then.89, label %after.91
then.89:
  call void @heddle_release(ptr %context, i32 %old_kind.77, ptr %v.83)
  br label %after.91
after.91:
  ret i32 0
}

; Put a closure into a register: a function's number and `count` values that it binds.
define i32 @heddle_make_closure(ptr %context, ptr %register, i64 %function, i64 %count, ptr %items) "heddle-simplified" {
entry:
  %v.1 = mul i64 16, %count
  %size_bytes.2 = add i64 16, %v.1
  %v.5 = add i64 %size_bytes.2, 32
  %v.6 = call ptr @malloc(i64 %v.5)
  %v.10 = icmp eq ptr %v.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @refuse_memory(i64 %v.5)
  br label %new_object_end.4
after.9:
  store i64 1, ptr %v.6
  %kind_at.11 = getelementptr i8, ptr %v.6, i64 8
  store i32 10, ptr %kind_at.11
  %flags_at.12 = getelementptr i8, ptr %v.6, i64 12
  store i32 0, ptr %flags_at.12
  %owner_at.13 = getelementptr i8, ptr %v.6, i64 16
  store ptr null, ptr %owner_at.13
  %at.16 = getelementptr [32 x i8], ptr %v.6, i64 1
  br label %new_object_end.4
new_object_end.4:
  %result.0.17 = phi ptr [ null, %then.7 ], [ %at.16, %after.9 ]
  %v.21 = icmp eq ptr %result.0.17, null
  br i1 %v.21, label %then.18, label %after.20
then.18:
  ret i32 -1
after.20:
  store i64 %function, ptr %result.0.17
  %num_bound_at.22 = getelementptr i8, ptr %result.0.17, i64 8
  store i64 %count, ptr %num_bound_at.22
  %at.25 = getelementptr [16 x i8], ptr %result.0.17, i64 1
  br label %loop.28
loop.28:
  %number.31 = phi i64 [ 0, %after.20 ], [ %number.75, %after.54 ]
  %v.32 = icmp slt i64 %number.31, %count
  br i1 %v.32, label %body.29, label %after.30
body.29:
  %at.33 = getelementptr [16 x i8], ptr %items, i64 %number.31
  %at.34 = getelementptr [16 x i8], ptr %at.25, i64 %number.31
  %kind.35 = load i32, ptr %at.33
  %payload_at.40 = getelementptr i8, ptr %at.33, i64 8
  %v.41 = load ptr, ptr %payload_at.40
  %zero_at.42 = getelementptr i8, ptr %at.34, i64 4
  %zero_at.43 = getelementptr i8, ptr %at.33, i64 4
  %v.44 = load i32, ptr %zero_at.43
  store i32 %v.44, ptr %zero_at.42
  store i32 %kind.35, ptr %at.34
  %payload_at.49 = getelementptr i8, ptr %at.34, i64 8
  store ptr %v.41, ptr %payload_at.49
  %v.55 = icmp sge i32 %kind.35, 7
  br i1 %v.55, label %then.52, label %after.54
then.52:
  %v.59 = icmp eq i32 %kind.35, 11
  br i1 %v.59, label %then.56, label %else.57
then.56:
  %at.66 = getelementptr [1 x i8], ptr %v.41, i64 -32
  %v.67 = atomicrmw add ptr %at.66, i64 1 monotonic
  br label %after.58
else.57:
  %at.72 = getelementptr [1 x i8], ptr %v.41, i64 -32
  %v.73 = load i64, ptr %at.72
  %v.74 = add i64 %v.73, 1
  store i64 %v.74, ptr %at.72
  br label %after.58
after.58:
  br label %after.54
after.54:
  %number.75 = add i64 %number.31, 1
  br label %loop.28
after.30:
  %old_kind.78 = load i32, ptr %register
  %payload_at.83 = getelementptr i8, ptr %register, i64 8
  %v.84 = load ptr, ptr %payload_at.83
  store i32 10, ptr %register
  %payload_at.89 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.17, ptr %payload_at.89
  %v.93 = icmp sge i32 %old_kind.78, 7
  br i1 %v.93, label %then.90, label %after.92
then.90:
  call void @heddle_release(ptr %context, i32 %old_kind.78, ptr %v.84)
  br label %after.92
after.92:
  ret i32 0
}

; Set the error V0404 with the index and the tuple's length. Gives `Status.FAILED`.
define internal i32 @refuse_item(ptr %tuple_at, i64 %index) cold noinline {
entry:
  %v.1 = load i64, ptr %tuple_at
  call void @heddle_set_error(i32 103427, ptr @no_such_item, i64 %v.1, i64 %index)
  ret i32 -1
}

; Put a field of a tuple into a register. Errors: V0404.
define i32 @heddle_tuple_getitem(ptr %context, ptr %register, ptr %tuple_at, i64 %index) "heddle-simplified" {
entry:
  %v.4 = load i64, ptr %tuple_at
  %v.5 = icmp uge i64 %index, %v.4
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = call i32 @refuse_item(ptr %tuple_at, i64 %index)
  ret i32 %v.6
after.3:
  %at.9 = getelementptr [8 x i8], ptr %tuple_at, i64 1
  %at.10 = getelementptr [16 x i8], ptr %at.9, i64 %index
  call void @heddle_copy(ptr %context, ptr %register, ptr %at.10)
  ret i32 0
}

; Take an item out of a tuple, for all its holders.
define i32 @heddle_tuple_reset(ptr %context, ptr %tuple_at, i64 %index) {
entry:
  %v.4 = load i64, ptr %tuple_at
  %v.5 = icmp uge i64 %index, %v.4
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = call i32 @refuse_item(ptr %tuple_at, i64 %index)
  ret i32 %v.6
after.3:
  %at.9 = getelementptr [8 x i8], ptr %tuple_at, i64 1
  %at.10 = getelementptr [16 x i8], ptr %at.9, i64 %index
  %old_kind.13 = load i32, ptr %at.10
  %payload_at.18 = getelementptr i8, ptr %at.10, i64 8
  %v.19 = load ptr, ptr %payload_at.18
  store i32 0, ptr %at.10
  %payload_at.24 = getelementptr i8, ptr %at.10, i64 8
  store ptr null, ptr %payload_at.24
  %v.28 = icmp sge i32 %old_kind.13, 7
  br i1 %v.28, label %then.25, label %after.27
then.25:
  call void @heddle_release(ptr %context, i32 %old_kind.13, ptr %v.19)
  br label %after.27
after.27:
  ret i32 0
}

; Whether a tensor's strides, where it has some, are those of a tensor without gaps.
define internal i1 @is_compact(ptr %tensor) {
entry:
  %strides_at.1 = getelementptr i8, ptr %tensor, i64 32
  %strides.2 = load ptr, ptr %strides_at.1
  %v.6 = icmp eq ptr %strides.2, null
  br i1 %v.6, label %then.3, label %after.5
then.3:
  ret i1 true
after.5:
  %rank_at.7 = getelementptr i8, ptr %tensor, i64 16
  %axis.8 = load i32, ptr %rank_at.7
  br label %loop.9
loop.9:
  %step.12 = phi i64 [ 1, %after.5 ], [ %step.30, %after.23 ]
  %axis.13 = phi i32 [ %axis.8, %after.5 ], [ %axis.15, %after.23 ]
  %v.14 = icmp sgt i32 %axis.13, 0
  br i1 %v.14, label %body.10, label %after.11
body.10:
  %axis.15 = sub i32 %axis.13, 1
  %sizes_at.16 = getelementptr i8, ptr %tensor, i64 24
  %v.17 = load ptr, ptr %sizes_at.16
  %v.18 = sext i32 %axis.15 to i64
  %at.19 = getelementptr [8 x i8], ptr %v.17, i64 %v.18
  %size.20 = load i64, ptr %at.19
  %v.25 = sext i32 %axis.15 to i64
  %at.26 = getelementptr [8 x i8], ptr %strides.2, i64 %v.25
  %v.27 = load i64, ptr %at.26
  %v.28 = icmp ne i64 %v.27, %step.12
  br i1 %v.28, label %and.24, label %after.23
and.24:
  %v.29 = icmp ne i64 %size.20, 1
  br i1 %v.29, label %then.21, label %after.23
then.21:
  ret i1 false
after.23:
  %step.30 = mul i64 %step.12, %size.20
  br label %loop.9
after.11:
  ret i1 true
}

; The bytes of a tensor's elements.
define internal i64 @tensor_bytes(ptr %tensor) {
entry:
  %rank_at.1 = getelementptr i8, ptr %tensor, i64 16
  %v.2 = load i32, ptr %rank_at.1
  %v.3 = sext i32 %v.2 to i64
  %sizes_at.4 = getelementptr i8, ptr %tensor, i64 24
  %v.5 = load ptr, ptr %sizes_at.4
  br label %loop.8
loop.8:
  %result.11 = phi i64 [ 1, %entry ], [ %result.25, %body.9 ]
  %any_negative.12 = phi i1 [ false, %entry ], [ %any_negative.19, %body.9 ]
  %any_zero.13 = phi i1 [ false, %entry ], [ %any_zero.21, %body.9 ]
  %number.14 = phi i64 [ 0, %entry ], [ %number.26, %body.9 ]
  %v.15 = icmp slt i64 %number.14, %v.3
  br i1 %v.15, label %body.9, label %after.10
body.9:
  %at.16 = getelementptr [8 x i8], ptr %v.5, i64 %number.14
  %size.17 = load i64, ptr %at.16
  %v.18 = icmp slt i64 %size.17, 0
  %any_negative.19 = or i1 %any_negative.12, %v.18
  %v.20 = icmp eq i64 %size.17, 0
  %any_zero.21 = or i1 %any_zero.13, %v.20
  %v.22 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.11, i64 %size.17)
  %v.23 = extractvalue { i64, i1 } %v.22, 0
  %v.24 = extractvalue { i64, i1 } %v.22, 1
  %result.25 = select i1 %v.24, i64 9223372036854775807, i64 %v.23
  %number.26 = add i64 %number.14, 1
  br label %loop.8
after.10:
  %known.27 = select i1 %any_zero.13, i64 0, i64 %result.11
  %v.28 = select i1 %any_negative.12, i64 -1, i64 %known.27
  %dtype_at.29 = getelementptr i8, ptr %tensor, i64 20
  %v.30 = load i32, ptr %dtype_at.29
  %v.33 = lshr i32 %v.30, 8
  %v.34 = and i32 %v.33, 255
  %v.35 = lshr i32 %v.30, 16
  %v.36 = mul i32 %v.34, %v.35
  %v.37 = add i32 %v.36, 7
  %v.38 = lshr i32 %v.37, 3
  %v.39 = zext i32 %v.38 to i64
  %v.40 = mul i64 %v.28, %v.39
  ret i64 %v.40
}

; The rows of a chain (((first, row), row), row) below those of the tensor `first`, as one new tensor.
define i32 @heddle_stack_chain(ptr %context, ptr %register, ptr %chain) {
entry:
  %room.150 = alloca [16 x i8], align 16
  br label %loop.3
loop.3:
  %chain.6 = phi ptr [ %chain, %entry ], [ %at.50, %body.4 ]
  %rows.7 = phi i64 [ 0, %entry ], [ %rows.51, %body.4 ]
  %v.14 = load i32, ptr %chain.6
  %v.15 = icmp ne i32 %v.14, 9
  br i1 %v.15, label %then.10, label %or.13
or.13:
  %payload_at.20 = getelementptr i8, ptr %chain.6, i64 8
  %v.21 = load ptr, ptr %payload_at.20
  %v.22 = load i64, ptr %v.21
  %v.23 = icmp ne i64 %v.22, 2
  br i1 %v.23, label %then.10, label %after.12
then.10:
  br label %is_pair_end.9
after.12:
  %payload_at.30 = getelementptr i8, ptr %chain.6, i64 8
  %v.31 = load ptr, ptr %payload_at.30
  %at.34 = getelementptr [8 x i8], ptr %v.31, i64 1
  %at.35 = getelementptr [16 x i8], ptr %at.34, i64 1
  %v.36 = load i32, ptr %at.35
  %v.37 = icmp eq i32 %v.36, 7
  br label %is_pair_end.9
is_pair_end.9:
  %result.0.38 = phi i1 [ false, %then.10 ], [ %v.37, %after.12 ]
  br i1 %result.0.38, label %body.4, label %after.5
body.4:
  %payload_at.45 = getelementptr i8, ptr %chain.6, i64 8
  %v.46 = load ptr, ptr %payload_at.45
  %at.49 = getelementptr [8 x i8], ptr %v.46, i64 1
  %at.50 = getelementptr [16 x i8], ptr %at.49, i64 0
  %rows.51 = add i64 %rows.7, 1
  br label %loop.3
after.5:
  %v.60 = load i32, ptr %chain.6
  %v.61 = icmp ne i32 %v.60, 7
  br i1 %v.61, label %then.57, label %after.59
then.57:
  br label %is_start_end.56
after.59:
  %payload_at.73 = getelementptr i8, ptr %chain.6, i64 8
  %v.74 = load ptr, ptr %payload_at.73
  %rank_at.75 = getelementptr i8, ptr %v.74, i64 16
  %v.76 = load i32, ptr %rank_at.75
  %v.77 = icmp sgt i32 %v.76, 0
  br i1 %v.77, label %and.66, label %no.64
and.66:
  %payload_at.84 = getelementptr i8, ptr %chain.6, i64 8
  %v.85 = load ptr, ptr %payload_at.84
  %v.86 = call i1 @is_compact(ptr %v.85)
  br i1 %v.86, label %yes.63, label %no.64
yes.63:
  br label %chosen.65
no.64:
  br label %chosen.65
chosen.65:
  %v.62.87 = phi i1 [ true, %yes.63 ], [ false, %no.64 ]
  br label %is_start_end.56
is_start_end.56:
  %result.0.88 = phi i1 [ false, %then.57 ], [ %v.62.87, %chosen.65 ]
  br i1 %result.0.88, label %after.54, label %then.52
then.52:
  %v.89 = load i32, ptr %chain.6
  %v.90 = sext i32 %v.89 to i64
  call void @heddle_set_error(i32 102914, ptr @no_chain, i64 0, i64 %v.90)
  ret i32 -1
after.54:
  %payload_at.97 = getelementptr i8, ptr %chain.6, i64 8
  %v.98 = load ptr, ptr %payload_at.97
  %rank_at.99 = getelementptr i8, ptr %v.98, i64 16
  %v.100 = load i32, ptr %rank_at.99
  %rank.101 = sext i32 %v.100 to i64
  %dtype_at.102 = getelementptr i8, ptr %v.98, i64 20
  %dtype.103 = load i32, ptr %dtype_at.102
  %sizes_at.104 = getelementptr i8, ptr %v.98, i64 24
  %v.105 = load ptr, ptr %sizes_at.104
  %at.106 = getelementptr [8 x i8], ptr %v.105, i64 0
  %first_rows.107 = load i64, ptr %at.106
  %v.108 = sub i64 %rank.101, 1
  %sizes_at.109 = getelementptr i8, ptr %v.98, i64 24
  %v.110 = load ptr, ptr %sizes_at.109
  %at.111 = getelementptr [8 x i8], ptr %v.110, i64 1
  br label %loop.114
loop.114:
  %result.117 = phi i64 [ 1, %after.54 ], [ %result.131, %body.115 ]
  %any_negative.118 = phi i1 [ false, %after.54 ], [ %any_negative.125, %body.115 ]
  %any_zero.119 = phi i1 [ false, %after.54 ], [ %any_zero.127, %body.115 ]
  %number.120 = phi i64 [ 0, %after.54 ], [ %number.132, %body.115 ]
  %v.121 = icmp slt i64 %number.120, %v.108
  br i1 %v.121, label %body.115, label %after.116
body.115:
  %at.122 = getelementptr [8 x i8], ptr %at.111, i64 %number.120
  %size.123 = load i64, ptr %at.122
  %v.124 = icmp slt i64 %size.123, 0
  %any_negative.125 = or i1 %any_negative.118, %v.124
  %v.126 = icmp eq i64 %size.123, 0
  %any_zero.127 = or i1 %any_zero.119, %v.126
  %v.128 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.117, i64 %size.123)
  %v.129 = extractvalue { i64, i1 } %v.128, 0
  %v.130 = extractvalue { i64, i1 } %v.128, 1
  %result.131 = select i1 %v.130, i64 9223372036854775807, i64 %v.129
  %number.132 = add i64 %number.120, 1
  br label %loop.114
after.116:
  %known.133 = select i1 %any_zero.119, i64 0, i64 %result.117
  %v.134 = select i1 %any_negative.118, i64 -1, i64 %known.133
  %v.137 = lshr i32 %dtype.103, 8
  %v.138 = and i32 %v.137, 255
  %v.139 = lshr i32 %dtype.103, 16
  %v.140 = mul i32 %v.138, %v.139
  %v.141 = add i32 %v.140, 7
  %v.142 = lshr i32 %v.141, 3
  %v.143 = zext i32 %v.142 to i64
  %row_bytes.144 = mul i64 %v.134, %v.143
  %room.145 = alloca [8 x i8], i64 %rank.101, align 16
  %sizes_at.146 = getelementptr i8, ptr %v.98, i64 24
  %v.147 = load ptr, ptr %sizes_at.146
  %size.148 = mul i64 %rank.101, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %room.145, ptr %v.147, i64 %size.148, i1 false)
  %v.149 = add i64 %first_rows.107, %rows.7
  store i64 %v.149, ptr %room.145
  store i32 0, ptr %room.150
  %zero_at.153 = getelementptr i8, ptr %room.150, i64 4
  store i32 0, ptr %zero_at.153
  %payload_at.154 = getelementptr i8, ptr %room.150, i64 8
  store i64 0, ptr %payload_at.154
  %v.162 = lshr i32 %dtype.103, 8
  %v.163 = and i32 %v.162, 255
  %v.164 = lshr i32 %dtype.103, 16
  %v.165 = mul i32 %v.163, %v.164
  %v.166 = add i32 %v.165, 7
  %v.167 = lshr i32 %v.166, 3
  %v.168 = zext i32 %v.167 to i64
  %status.169 = call i32 @heddle_alloc_storage(ptr %context, ptr %room.150, i64 %rank.101, ptr %room.145, i64 %v.168, i32 0)
  %v.173 = icmp ne i32 %status.169, 0
  br i1 %v.173, label %then.170, label %after.172
then.170:
  br label %make_room_end.159
after.172:
  %payload_at.178 = getelementptr i8, ptr %room.150, i64 8
  %v.179 = load ptr, ptr %payload_at.178
  %status.180 = call i32 @heddle_alloc_tensor(ptr %context, ptr %room.150, ptr %v.179, i64 0, i64 %rank.101, ptr %room.145, i32 %dtype.103)
  %v.184 = icmp ne i32 %status.180, 0
  br i1 %v.184, label %then.181, label %after.183
then.181:
  %old_kind.187 = load i32, ptr %room.150
  %payload_at.192 = getelementptr i8, ptr %room.150, i64 8
  %v.193 = load ptr, ptr %payload_at.192
  store i32 0, ptr %room.150
  %payload_at.198 = getelementptr i8, ptr %room.150, i64 8
  store ptr null, ptr %payload_at.198
  %v.202 = icmp sge i32 %old_kind.187, 7
  br i1 %v.202, label %then.199, label %after.201
then.199:
  call void @heddle_release(ptr %context, i32 %old_kind.187, ptr %v.193)
  br label %after.201
after.201:
  br label %make_room_end.159
after.183:
  br label %make_room_end.159
make_room_end.159:
  %status.203 = phi i32 [ %status.169, %then.170 ], [ %status.180, %after.201 ], [ %status.180, %after.183 ]
  %result.0.204 = phi i1 [ false, %then.170 ], [ false, %after.201 ], [ true, %after.183 ]
  br i1 %result.0.204, label %after.157, label %then.155
then.155:
  ret i32 -1
after.157:
  %payload_at.211 = getelementptr i8, ptr %room.150, i64 8
  %v.212 = load ptr, ptr %payload_at.211
  %v.215 = load ptr, ptr %v.212
  %byte_offset_at.216 = getelementptr i8, ptr %v.212, i64 40
  %v.217 = load i64, ptr %byte_offset_at.216
  %at.218 = getelementptr [1 x i8], ptr %v.215, i64 %v.217
  %v.221 = load ptr, ptr %v.98
  %byte_offset_at.222 = getelementptr i8, ptr %v.98, i64 40
  %v.223 = load i64, ptr %byte_offset_at.222
  %at.224 = getelementptr [1 x i8], ptr %v.221, i64 %v.223
  %v.225 = mul i64 %first_rows.107, %row_bytes.144
  call void @llvm.memcpy.p0.p0.i64(ptr %at.218, ptr %at.224, i64 %v.225, i1 false)
  %v.229 = mul i64 %first_rows.107, %row_bytes.144
  %at.230 = getelementptr [1 x i8], ptr %at.218, i64 %v.229
  br label %loop.233
loop.233:
  %chain.236 = phi ptr [ %chain, %after.157 ], [ %at.291, %after.261 ]
  %rows.237 = phi i64 [ %rows.7, %after.157 ], [ %rows.271, %after.261 ]
  %v.238 = icmp sgt i64 %rows.237, 0
  br i1 %v.238, label %body.234, label %after.235
body.234:
  %payload_at.245 = getelementptr i8, ptr %chain.236, i64 8
  %v.246 = load ptr, ptr %payload_at.245
  %at.249 = getelementptr [8 x i8], ptr %v.246, i64 1
  %at.250 = getelementptr [16 x i8], ptr %at.249, i64 1
  %payload_at.257 = getelementptr i8, ptr %at.250, i64 8
  %v.258 = load ptr, ptr %payload_at.257
  %v.263 = call i64 @tensor_bytes(ptr %v.258)
  %v.264 = icmp ne i64 %v.263, %row_bytes.144
  br i1 %v.264, label %then.259, label %or.262
or.262:
  %dtype_at.266 = getelementptr i8, ptr %v.258, i64 20
  %v.267 = load i32, ptr %dtype_at.266
  %v.268 = icmp ne i32 %v.267, %dtype.103
  br i1 %v.268, label %then.259, label %or.265
or.265:
  %v.269 = call i1 @is_compact(ptr %v.258)
  br i1 %v.269, label %after.261, label %then.259
then.259:
  %v.270 = call i64 @tensor_bytes(ptr %v.258)
  call void @heddle_set_error(i32 103169, ptr @ragged_chain, i64 %row_bytes.144, i64 %v.270)
  br label %copy_rows_end.232
after.261:
  %rows.271 = sub i64 %rows.237, 1
  %v.272 = mul i64 %rows.271, %row_bytes.144
  %at.273 = getelementptr [1 x i8], ptr %at.230, i64 %v.272
  %v.276 = load ptr, ptr %v.258
  %byte_offset_at.277 = getelementptr i8, ptr %v.258, i64 40
  %v.278 = load i64, ptr %byte_offset_at.277
  %at.279 = getelementptr [1 x i8], ptr %v.276, i64 %v.278
  call void @llvm.memcpy.p0.p0.i64(ptr %at.273, ptr %at.279, i64 %row_bytes.144, i1 false)
  %payload_at.286 = getelementptr i8, ptr %chain.236, i64 8
  %v.287 = load ptr, ptr %payload_at.286
  %at.290 = getelementptr [8 x i8], ptr %v.287, i64 1
  %at.291 = getelementptr [16 x i8], ptr %at.290, i64 0
  br label %loop.233
after.235:
  br label %copy_rows_end.232
copy_rows_end.232:
  %result.0.292 = phi i1 [ false, %then.259 ], [ true, %after.235 ]
  br i1 %result.0.292, label %after.228, label %then.226
then.226:
  %old_kind.295 = load i32, ptr %room.150
  %payload_at.300 = getelementptr i8, ptr %room.150, i64 8
  %v.301 = load ptr, ptr %payload_at.300
  store i32 0, ptr %room.150
  %payload_at.306 = getelementptr i8, ptr %room.150, i64 8
  store ptr null, ptr %payload_at.306
  %v.310 = icmp sge i32 %old_kind.295, 7
  br i1 %v.310, label %then.307, label %after.309
then.307:
  call void @heddle_release(ptr %context, i32 %old_kind.295, ptr %v.301)
  br label %after.309
after.309:
  ret i32 -1
after.228:
  %old_kind.313 = load i32, ptr %register
  %payload_at.318 = getelementptr i8, ptr %register, i64 8
  %v.319 = load ptr, ptr %payload_at.318
  store i32 7, ptr %register
  %payload_at.324 = getelementptr i8, ptr %register, i64 8
  store ptr %v.212, ptr %payload_at.324
  %v.328 = icmp sge i32 %old_kind.313, 7
  br i1 %v.328, label %then.325, label %after.327
then.325:
  call void @heddle_release(ptr %context, i32 %old_kind.313, ptr %v.319)
  br label %after.327
after.327:
  ret i32 0
}

; Put a text behind what is there.
define internal void @append(ptr %message, ptr %text) {
entry:
  %used_at.1 = getelementptr i8, ptr %message, i64 16
  %used.2 = load i64, ptr %used_at.1
  br label %loop.3
loop.3:
  %text.6 = phi ptr [ %text, %entry ], [ %at.16, %body.4 ]
  %used.7 = phi i64 [ %used.2, %entry ], [ %used.15, %body.4 ]
  %v.9 = load i8, ptr %text.6
  %v.10 = icmp ne i8 %v.9, 0
  br i1 %v.10, label %and.8, label %after.5
and.8:
  %v.11 = icmp slt i64 %used.7, 487
  br i1 %v.11, label %body.4, label %after.5
body.4:
  %text_at.12 = getelementptr i8, ptr %message, i64 24
  %at.13 = getelementptr [1 x i8], ptr %text_at.12, i64 %used.7
  %v.14 = load i8, ptr %text.6
  store i8 %v.14, ptr %at.13
  %used.15 = add i64 %used.7, 1
  %at.16 = getelementptr [1 x i8], ptr %text.6, i64 1
  br label %loop.3
after.5:
  %text_at.17 = getelementptr i8, ptr %message, i64 24
  %at.18 = getelementptr [1 x i8], ptr %text_at.17, i64 %used.7
  store i8 0, ptr %at.18
  %used_at.19 = getelementptr i8, ptr %message, i64 16
  store i64 %used.7, ptr %used_at.19
  ret void
}

; Append a number that is not negative.
define internal void @append_number(ptr %message, i64 %number) {
entry:
  %room.1 = alloca [1 x i8], i64 24, align 16
  %at.2 = getelementptr [1 x i8], ptr %room.1, i64 23
  store i8 0, ptr %at.2
  br label %loop.3
loop.3:
  %left.6 = phi i64 [ %number, %entry ], [ %left.14, %body.4 ]
  %at.7 = phi i64 [ 23, %entry ], [ %at.9, %body.4 ]
  %v.8 = icmp ugt i64 %left.6, 9
  br i1 %v.8, label %body.4, label %after.5
body.4:
  %at.9 = sub i64 %at.7, 1
  %at.10 = getelementptr [1 x i8], ptr %room.1, i64 %at.9
  %v.11 = urem i64 %left.6, 10
  %v.12 = trunc i64 %v.11 to i8
  %v.13 = add i8 %v.12, 48
  store i8 %v.13, ptr %at.10
  %left.14 = udiv i64 %left.6, 10
  br label %loop.3
after.5:
  %at.15 = sub i64 %at.7, 1
  %at.16 = getelementptr [1 x i8], ptr %room.1, i64 %at.15
  %v.17 = trunc i64 %left.6 to i8
  %v.18 = add i8 %v.17, 48
  store i8 %v.18, ptr %at.16
  %at.19 = getelementptr [1 x i8], ptr %room.1, i64 %at.15
  call void @append(ptr %message, ptr %at.19)
  ret void
}

; One of several names, counted from 0.
define internal ptr @name_at(ptr %names, i64 %number) {
entry:
  br label %loop.1
loop.1:
  %names.4 = phi ptr [ %names, %entry ], [ %at.14, %after.9 ]
  %number.5 = phi i64 [ %number, %entry ], [ %number.15, %after.9 ]
  %v.6 = icmp sgt i64 %number.5, 0
  br i1 %v.6, label %body.2, label %after.3
body.2:
  br label %loop.7
loop.7:
  %names.10 = phi ptr [ %names.4, %body.2 ], [ %at.13, %body.8 ]
  %v.11 = load i8, ptr %names.10
  %v.12 = icmp ne i8 %v.11, 0
  br i1 %v.12, label %body.8, label %after.9
body.8:
  %at.13 = getelementptr [1 x i8], ptr %names.10, i64 1
  br label %loop.7
after.9:
  %at.14 = getelementptr [1 x i8], ptr %names.10, i64 1
  %number.15 = sub i64 %number.5, 1
  br label %loop.1
after.3:
  ret ptr %names.4
}

; A message about an argument, which is written when there is something to say.
define internal void @begin(ptr %message, ptr %names, i64 %index) {
entry:
  store ptr %names, ptr %message
  %index_at.1 = getelementptr i8, ptr %message, i64 8
  store i64 %index, ptr %index_at.1
  %used_at.2 = getelementptr i8, ptr %message, i64 16
  store i64 0, ptr %used_at.2
  ret void
}

; Append a text; before the first one, which kernel it is about, and which of its arguments.
define internal void @add(ptr %message, ptr %text) {
entry:
  %used_at.4 = getelementptr i8, ptr %message, i64 16
  %v.5 = load i64, ptr %used_at.4
  %v.6 = icmp eq i64 %v.5, 0
  br i1 %v.6, label %then.1, label %after.3
then.1:
  %v.7 = load ptr, ptr %message
  call void @append(ptr %message, ptr %v.7)
  call void @append(ptr %message, ptr @argument)
  %index_at.8 = getelementptr i8, ptr %message, i64 8
  %v.9 = load i64, ptr %index_at.8
  call void @append_number(ptr %message, i64 %v.9)
  call void @append(ptr %message, ptr @name_begins)
  %v.10 = load ptr, ptr %message
  %index_at.11 = getelementptr i8, ptr %message, i64 8
  %v.12 = load i64, ptr %index_at.11
  %v.13 = mul i64 2, %v.12
  %v.14 = add i64 %v.13, 1
  %v.15 = call ptr @name_at(ptr %v.10, i64 %v.14)
  call void @append(ptr %message, ptr %v.15)
  call void @append(ptr %message, ptr @name_ends)
  br label %after.3
after.3:
  call void @append(ptr %message, ptr %text)
  ret void
}

; Make a message with this end the thread's error.
define internal i32 @report(ptr %message, ptr %end, i32 %family, i64 %expected, i64 %got) {
entry:
  call void @add(ptr %message, ptr %end)
  %text_at.1 = getelementptr i8, ptr %message, i64 24
  %at.2 = getelementptr [1 x i8], ptr %text_at.1, i64 0
  call void @heddle_set_error(i32 %family, ptr %at.2, i64 %expected, i64 %got)
  ret i32 -1
}

; Kind and width of a number.
define internal i32 @find_wrong_scalar(ptr %value, ptr %check, ptr %message, ptr %dtype) {
entry:
  %v.1 = load i32, ptr %value
  %kind.2 = sext i32 %v.1 to i64
  %v.6 = load i32, ptr %value
  %v.7 = load i64, ptr %check
  %v.13 = icmp eq i64 %v.7, 1
  br i1 %v.13, label %then.10, label %after.12
then.10:
  %v.16 = icmp eq i32 %v.6, 1
  %v.17 = icmp eq i32 %v.6, 2
  %v.18 = or i1 %v.16, %v.17
  br label %has_right_kind_end.9
after.12:
  %v.22 = icmp eq i64 %v.7, 2
  br i1 %v.22, label %then.19, label %after.21
then.19:
  %v.30 = icmp eq i32 %v.6, 1
  %v.31 = icmp eq i32 %v.6, 2
  %v.32 = or i1 %v.30, %v.31
  br i1 %v.32, label %yes.24, label %or.27
or.27:
  %v.33 = icmp eq i32 %v.6, 3
  br i1 %v.33, label %yes.24, label %no.25
yes.24:
  br label %chosen.26
no.25:
  br label %chosen.26
chosen.26:
  %v.23.34 = phi i1 [ true, %yes.24 ], [ false, %no.25 ]
  br label %has_right_kind_end.9
after.21:
  %v.35 = icmp eq i32 %v.6, 4
  %v.36 = icmp eq i32 %v.6, 0
  %v.37 = or i1 %v.35, %v.36
  br label %has_right_kind_end.9
has_right_kind_end.9:
  %result.0.38 = phi i1 [ %v.18, %then.10 ], [ %v.23.34, %chosen.26 ], [ %v.37, %after.21 ]
  br i1 %result.0.38, label %then.3, label %after.5
then.3:
  %v.43 = load i64, ptr %check
  %v.44 = icmp ne i64 %v.43, 1
  br i1 %v.44, label %then.39, label %or.42
or.42:
  %payload_at.45 = getelementptr i8, ptr %value, i64 8
  %v.46 = load i64, ptr %payload_at.45
  %num_bits_at.52 = getelementptr i8, ptr %check, i64 40
  %v.53 = load i64, ptr %num_bits_at.52
  %v.54 = icmp eq i64 %v.53, 0
  br i1 %v.54, label %then.49, label %after.51
then.49:
  br label %fits_end.48
after.51:
  %num_bits_at.55 = getelementptr i8, ptr %check, i64 40
  %v.56 = load i64, ptr %num_bits_at.55
  %shift.57 = sub i64 64, %v.56
  %is_signed_at.61 = getelementptr i8, ptr %check, i64 48
  %v.62 = load i64, ptr %is_signed_at.61
  %v.63 = icmp ne i64 %v.62, 0
  br i1 %v.63, label %then.58, label %after.60
then.58:
  %v.64 = shl i64 %v.46, %shift.57
  %v.65 = ashr i64 %v.64, %shift.57
  %v.66 = icmp eq i64 %v.65, %v.46
  br label %fits_end.48
after.60:
  %v.67 = shl i64 %v.46, %shift.57
  %v.68 = lshr i64 %v.67, %shift.57
  %v.69 = icmp eq i64 %v.68, %v.46
  br label %fits_end.48
fits_end.48:
  %result.0.70 = phi i1 [ true, %then.49 ], [ %v.66, %then.58 ], [ %v.69, %after.60 ]
  br i1 %result.0.70, label %then.39, label %after.41
then.39:
  ret i32 0
after.41:
  call void @add(ptr %message, ptr @too_wide)
  %payload_at.71 = getelementptr i8, ptr %value, i64 8
  %v.72 = load i64, ptr %payload_at.71
  %v.73 = call i32 @report(ptr %message, ptr %dtype, i32 1, i64 0, i64 %v.72)
  ret i32 %v.73
after.5:
  %v.77 = load i64, ptr %check
  %v.78 = icmp eq i64 %v.77, 3
  br i1 %v.78, label %then.74, label %after.76
then.74:
  %v.79 = call i32 @report(ptr %message, ptr @no_pointer, i32 2, i64 0, i64 %kind.2)
  ret i32 %v.79
after.76:
  %v.83 = load i64, ptr %check
  %v.84 = icmp eq i64 %v.83, 1
  br i1 %v.84, label %then.80, label %else.81
then.80:
  call void @add(ptr %message, ptr @no_integer)
  br label %after.82
else.81:
  call void @add(ptr %message, ptr @no_number)
  br label %after.82
after.82:
  call void @add(ptr %message, ptr %dtype)
  %v.85 = call i32 @report(ptr %message, ptr @got_kind, i32 2, i64 0, i64 %kind.2)
  ret i32 %v.85
}

; Kind, rank, dtype and device.
define internal i32 @find_wrong_header(ptr %value, ptr %check, i64 %device, ptr %message, ptr %dtype) {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp ne i32 %v.4, 7
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = load i32, ptr %value
  %v.7 = sext i32 %v.6 to i64
  %v.8 = call i32 @report(ptr %message, ptr @no_tensor, i32 2, i64 0, i64 %v.7)
  ret i32 %v.8
after.3:
  %payload_at.15 = getelementptr i8, ptr %value, i64 8
  %v.16 = load ptr, ptr %payload_at.15
  %rank_at.20 = getelementptr i8, ptr %v.16, i64 16
  %v.21 = load i32, ptr %rank_at.20
  %v.22 = sext i32 %v.21 to i64
  %rank_at.23 = getelementptr i8, ptr %check, i64 8
  %v.24 = load i64, ptr %rank_at.23
  %v.25 = icmp ne i64 %v.22, %v.24
  br i1 %v.25, label %then.17, label %after.19
then.17:
  %rank_at.26 = getelementptr i8, ptr %check, i64 8
  %v.27 = load i64, ptr %rank_at.26
  %rank_at.28 = getelementptr i8, ptr %v.16, i64 16
  %v.29 = load i32, ptr %rank_at.28
  %v.30 = sext i32 %v.29 to i64
  %v.31 = call i32 @report(ptr %message, ptr @other_rank, i32 1, i64 %v.27, i64 %v.30)
  ret i32 %v.31
after.19:
  %dtype_at.35 = getelementptr i8, ptr %v.16, i64 20
  %v.36 = load i32, ptr %dtype_at.35
  %v.37 = sext i32 %v.36 to i64
  %dtype_at.38 = getelementptr i8, ptr %check, i64 16
  %v.39 = load i64, ptr %dtype_at.38
  %v.40 = icmp ne i64 %v.37, %v.39
  br i1 %v.40, label %then.32, label %after.34
then.32:
  call void @add(ptr %message, ptr @other_dtype)
  call void @add(ptr %message, ptr %dtype)
  %dtype_at.41 = getelementptr i8, ptr %check, i64 16
  %v.42 = load i64, ptr %dtype_at.41
  %dtype_at.43 = getelementptr i8, ptr %v.16, i64 20
  %v.44 = load i32, ptr %dtype_at.43
  %v.45 = sext i32 %v.44 to i64
  %v.46 = call i32 @report(ptr %message, ptr @got_dtype, i32 2, i64 %v.42, i64 %v.45)
  ret i32 %v.46
after.34:
  %device_type_at.50 = getelementptr i8, ptr %v.16, i64 8
  %v.51 = load i32, ptr %device_type_at.50
  %v.52 = sext i32 %v.51 to i64
  %v.53 = icmp ne i64 %v.52, %device
  br i1 %v.53, label %then.47, label %after.49
then.47:
  %device_type_at.54 = getelementptr i8, ptr %v.16, i64 8
  %v.55 = load i32, ptr %device_type_at.54
  %v.56 = sext i32 %v.55 to i64
  %v.57 = call i32 @report(ptr %message, ptr @other_device, i32 1, i64 %device, i64 %v.56)
  ret i32 %v.57
after.49:
  ret i32 0
}

; The number of the `SameSize` about a dimension, or -1.
define internal i64 @same_size_of(ptr %table, i64 %param, i64 %axis) {
entry:
  br label %loop.1
loop.1:
  %number.4 = phi i64 [ 0, %entry ], [ %number.21, %after.14 ]
  %num_same_at.5 = getelementptr i8, ptr %table, i64 16
  %v.6 = load i64, ptr %num_same_at.5
  %v.7 = icmp slt i64 %number.4, %v.6
  br i1 %v.7, label %body.2, label %after.3
body.2:
  %at.10 = getelementptr [24 x i8], ptr %table, i64 1
  %at.11 = getelementptr [32 x i8], ptr %at.10, i64 %number.4
  %v.16 = load i64, ptr %at.11
  %v.17 = icmp eq i64 %v.16, %param
  br i1 %v.17, label %and.15, label %after.14
and.15:
  %axis_at.18 = getelementptr i8, ptr %at.11, i64 8
  %v.19 = load i64, ptr %axis_at.18
  %v.20 = icmp eq i64 %v.19, %axis
  br i1 %v.20, label %then.12, label %after.14
then.12:
  ret i64 %number.4
after.14:
  %number.21 = add i64 %number.4, 1
  br label %loop.1
after.3:
  ret i64 -1
}

; Dimensions of a tensor whose rank is right.
define internal i32 @find_wrong_size(ptr %args, i64 %param, ptr %check, ptr %table, ptr %names, ptr %message) {
entry:
  %at.1 = getelementptr [16 x i8], ptr %args, i64 %param
  %payload_at.8 = getelementptr i8, ptr %at.1, i64 8
  %v.9 = load ptr, ptr %payload_at.8
  br label %loop.10
loop.10:
  %axis.13 = phi i64 [ 0, %entry ], [ %axis.88, %after.76 ]
  %rank_at.14 = getelementptr i8, ptr %check, i64 8
  %v.15 = load i64, ptr %rank_at.14
  %v.16 = icmp slt i64 %axis.13, %v.15
  br i1 %v.16, label %body.11, label %after.12
body.11:
  %sizes_at.17 = getelementptr i8, ptr %v.9, i64 24
  %v.18 = load ptr, ptr %sizes_at.17
  %at.19 = getelementptr [8 x i8], ptr %v.18, i64 %axis.13
  %got.20 = load i64, ptr %at.19
  %number.21 = call i64 @same_size_of(ptr %table, i64 %param, i64 %axis.13)
  %v.25 = icmp sge i64 %number.21, 0
  br i1 %v.25, label %then.22, label %else.23
then.22:
  %at.28 = getelementptr [24 x i8], ptr %table, i64 1
  %at.29 = getelementptr [32 x i8], ptr %at.28, i64 %number.21
  %other_at.30 = getelementptr i8, ptr %at.29, i64 16
  %v.31 = load i64, ptr %other_at.30
  %other_axis_at.32 = getelementptr i8, ptr %at.29, i64 24
  %v.33 = load i64, ptr %other_axis_at.32
  %v.39 = icmp slt i64 %v.33, 0
  br i1 %v.39, label %then.36, label %after.38
then.36:
  %at.40 = getelementptr [16 x i8], ptr %args, i64 %v.31
  %payload_at.41 = getelementptr i8, ptr %at.40, i64 8
  %v.42 = load i64, ptr %payload_at.41
  br label %size_of_argument_end.35
after.38:
  %at.43 = getelementptr [16 x i8], ptr %args, i64 %v.31
  %payload_at.50 = getelementptr i8, ptr %at.43, i64 8
  %v.51 = load ptr, ptr %payload_at.50
  %sizes_at.52 = getelementptr i8, ptr %v.51, i64 24
  %v.53 = load ptr, ptr %sizes_at.52
  %at.54 = getelementptr [8 x i8], ptr %v.53, i64 %v.33
  %v.55 = load i64, ptr %at.54
  br label %size_of_argument_end.35
size_of_argument_end.35:
  %result.0.56 = phi i64 [ %v.42, %then.36 ], [ %v.55, %after.38 ]
  br label %after.24
else.23:
  %at.62 = getelementptr [56 x i8], ptr %check, i64 1
  %at.63 = getelementptr [16 x i8], ptr %at.62, i64 %axis.13
  %mask_at.64 = getelementptr i8, ptr %at.63, i64 8
  %v.65 = load i64, ptr %mask_at.64
  %v.66 = icmp ne i64 %v.65, 0
  br i1 %v.66, label %then.57, label %after.59
then.57:
  %at.69 = getelementptr [56 x i8], ptr %check, i64 1
  %at.70 = getelementptr [16 x i8], ptr %at.69, i64 %axis.13
  %wanted.71 = load i64, ptr %at.70
  br label %after.59
after.59:
  %wanted.72 = phi i64 [ %got.20, %else.23 ], [ %wanted.71, %then.57 ]
  br label %after.24
after.24:
  %wanted.73 = phi i64 [ %result.0.56, %size_of_argument_end.35 ], [ %wanted.72, %after.59 ]
  %v.77 = icmp ne i64 %got.20, %wanted.73
  br i1 %v.77, label %then.74, label %after.76
then.74:
  call void @add(ptr %message, ptr @other_size)
  call void @append_number(ptr %message, i64 %axis.13)
  %v.81 = icmp sge i64 %number.21, 0
  br i1 %v.81, label %then.78, label %after.80
then.78:
  call void @add(ptr %message, ptr @size_begins)
  %v.82 = load i64, ptr %table
  %v.83 = mul i64 2, %v.82
  %v.84 = add i64 %v.83, 1
  %v.85 = add i64 %v.84, %number.21
  %v.86 = call ptr @name_at(ptr %names, i64 %v.85)
  call void @add(ptr %message, ptr %v.86)
  call void @add(ptr %message, ptr @size_ends)
  br label %after.80
after.80:
  %v.87 = call i32 @report(ptr %message, ptr @to_be, i32 1, i64 %wanted.73, i64 %got.20)
  ret i32 %v.87
after.76:
  %axis.88 = add i64 %axis.13, 1
  br label %loop.10
after.12:
  ret i32 0
}

; Whether a tensor has no elements.
define internal i1 @is_empty(ptr %tensor) {
entry:
  br label %loop.1
loop.1:
  %axis.4 = phi i32 [ 0, %entry ], [ %axis.17, %after.10 ]
  %rank_at.5 = getelementptr i8, ptr %tensor, i64 16
  %v.6 = load i32, ptr %rank_at.5
  %v.7 = icmp slt i32 %axis.4, %v.6
  br i1 %v.7, label %body.2, label %after.3
body.2:
  %sizes_at.11 = getelementptr i8, ptr %tensor, i64 24
  %v.12 = load ptr, ptr %sizes_at.11
  %v.13 = sext i32 %axis.4 to i64
  %at.14 = getelementptr [8 x i8], ptr %v.12, i64 %v.13
  %v.15 = load i64, ptr %at.14
  %v.16 = icmp eq i64 %v.15, 0
  br i1 %v.16, label %then.8, label %after.10
then.8:
  ret i1 true
after.10:
  %axis.17 = add i32 %axis.4, 1
  br label %loop.1
after.3:
  ret i1 false
}

; The stride of a dimension where there are no gaps.
define internal i64 @dense_stride(ptr %tensor, i64 %axis) {
entry:
  %rank_at.1 = getelementptr i8, ptr %tensor, i64 16
  %v.2 = load i32, ptr %rank_at.1
  %v.3 = sext i32 %v.2 to i64
  %last.4 = sub i64 %v.3, 1
  br label %loop.5
loop.5:
  %step.8 = phi i64 [ 1, %entry ], [ %step.15, %body.6 ]
  %last.9 = phi i64 [ %last.4, %entry ], [ %last.16, %body.6 ]
  %v.10 = icmp sgt i64 %last.9, %axis
  br i1 %v.10, label %body.6, label %after.7
body.6:
  %sizes_at.11 = getelementptr i8, ptr %tensor, i64 24
  %v.12 = load ptr, ptr %sizes_at.11
  %at.13 = getelementptr [8 x i8], ptr %v.12, i64 %last.9
  %v.14 = load i64, ptr %at.13
  %step.15 = mul i64 %step.8, %v.14
  %last.16 = sub i64 %last.9, 1
  br label %loop.5
after.7:
  ret i64 %step.8
}

; Strides and address of a tensor; of an empty one nothing is asked.
define internal i32 @find_wrong_memory(ptr %tensor, ptr %check, ptr %message) {
entry:
  %v.4 = call i1 @is_empty(ptr %tensor)
  br i1 %v.4, label %then.1, label %after.3
then.1:
  ret i32 0
after.3:
  %strides_at.5 = getelementptr i8, ptr %tensor, i64 32
  %strides.6 = load ptr, ptr %strides_at.5
  br label %loop.7
loop.7:
  %axis.10 = phi i64 [ 0, %after.3 ], [ %axis.36, %after.23 ]
  %rank_at.12 = getelementptr i8, ptr %check, i64 8
  %v.13 = load i64, ptr %rank_at.12
  %v.14 = icmp slt i64 %axis.10, %v.13
  br i1 %v.14, label %and.11, label %after.9
and.11:
  %v.16 = icmp ne ptr %strides.6, null
  br i1 %v.16, label %and.15, label %after.9
and.15:
  %has_own_strides_at.17 = getelementptr i8, ptr %check, i64 32
  %v.18 = load i64, ptr %has_own_strides_at.17
  %v.19 = icmp eq i64 %v.18, 0
  br i1 %v.19, label %body.8, label %after.9
body.8:
  %wanted.20 = call i64 @dense_stride(ptr %tensor, i64 %axis.10)
  %at.25 = getelementptr [8 x i8], ptr %strides.6, i64 %axis.10
  %v.26 = load i64, ptr %at.25
  %v.27 = icmp ne i64 %v.26, %wanted.20
  br i1 %v.27, label %and.24, label %after.23
and.24:
  %sizes_at.28 = getelementptr i8, ptr %tensor, i64 24
  %v.29 = load ptr, ptr %sizes_at.28
  %at.30 = getelementptr [8 x i8], ptr %v.29, i64 %axis.10
  %v.31 = load i64, ptr %at.30
  %v.32 = icmp ne i64 %v.31, 1
  br i1 %v.32, label %then.21, label %after.23
then.21:
  call void @add(ptr %message, ptr @other_stride)
  call void @append_number(ptr %message, i64 %axis.10)
  call void @add(ptr %message, ptr @to_be)
  %at.33 = getelementptr [8 x i8], ptr %strides.6, i64 %axis.10
  %v.34 = load i64, ptr %at.33
  %v.35 = call i32 @report(ptr %message, ptr @takes_dense, i32 1, i64 %wanted.20, i64 %v.34)
  ret i32 %v.35
after.23:
  %axis.36 = add i64 %axis.10, 1
  br label %loop.7
after.9:
  %v.37 = load ptr, ptr %tensor
  %v.38 = ptrtoint ptr %v.37 to i64
  %byte_offset_at.39 = getelementptr i8, ptr %tensor, i64 40
  %v.40 = load i64, ptr %byte_offset_at.39
  %address_of_first.41 = add i64 %v.38, %v.40
  %v.45 = icmp eq i64 %address_of_first.41, 0
  br i1 %v.45, label %then.42, label %after.44
then.42:
  %v.46 = call i32 @report(ptr %message, ptr @without_data, i32 1, i64 0, i64 0)
  ret i32 %v.46
after.44:
  %low_bits_at.47 = getelementptr i8, ptr %check, i64 24
  %v.48 = load i64, ptr %low_bits_at.47
  %past.49 = and i64 %address_of_first.41, %v.48
  %v.53 = icmp ne i64 %past.49, 0
  br i1 %v.53, label %then.50, label %after.52
then.50:
  %low_bits_at.54 = getelementptr i8, ptr %check, i64 24
  %v.55 = load i64, ptr %low_bits_at.54
  %v.56 = add i64 %v.55, 1
  %v.57 = call i32 @report(ptr %message, ptr @not_aligned, i32 1, i64 %v.56, i64 %past.49)
  ret i32 %v.57
after.52:
  ret i32 0
}

; What can be told of each argument alone, without its memory.
define internal i32 @find_wrong_kind(ptr %args, ptr %table, ptr %names, ptr %message) {
entry:
  %at.5 = getelementptr [24 x i8], ptr %table, i64 1
  %num_same_at.6 = getelementptr i8, ptr %table, i64 16
  %v.7 = load i64, ptr %num_same_at.6
  %at.8 = getelementptr [32 x i8], ptr %at.5, i64 %v.7
  br label %loop.9
loop.9:
  %check.12 = phi ptr [ %at.8, %entry ], [ %at.42, %after.33 ]
  %index.13 = phi i64 [ 0, %entry ], [ %index.43, %after.33 ]
  %v.14 = load i64, ptr %table
  %v.15 = icmp slt i64 %index.13, %v.14
  br i1 %v.15, label %body.10, label %after.11
body.10:
  call void @begin(ptr %message, ptr %names, i64 %index.13)
  %v.16 = mul i64 2, %index.13
  %v.17 = add i64 %v.16, 2
  %dtype.18 = call ptr @name_at(ptr %names, i64 %v.17)
  %v.22 = load i64, ptr %check.12
  %v.23 = icmp eq i64 %v.22, 0
  br i1 %v.23, label %then.19, label %else.20
then.19:
  %at.24 = getelementptr [16 x i8], ptr %args, i64 %index.13
  %device_type_at.25 = getelementptr i8, ptr %table, i64 8
  %v.26 = load i64, ptr %device_type_at.25
  %status.27 = call i32 @find_wrong_header(ptr %at.24, ptr %check.12, i64 %v.26, ptr %message, ptr %dtype.18)
  br label %after.21
else.20:
  %at.28 = getelementptr [16 x i8], ptr %args, i64 %index.13
  %status.29 = call i32 @find_wrong_scalar(ptr %at.28, ptr %check.12, ptr %message, ptr %dtype.18)
  br label %after.21
after.21:
  %status.30 = phi i32 [ %status.27, %then.19 ], [ %status.29, %else.20 ]
  %v.34 = icmp ne i32 %status.30, 0
  br i1 %v.34, label %then.31, label %after.33
then.31:
  ret i32 %status.30
after.33:
  %at.39 = getelementptr [56 x i8], ptr %check.12, i64 1
  %rank_at.40 = getelementptr i8, ptr %check.12, i64 8
  %v.41 = load i64, ptr %rank_at.40
  %at.42 = getelementptr [16 x i8], ptr %at.39, i64 %v.41
  %index.43 = add i64 %index.13, 1
  br label %loop.9
after.11:
  ret i32 0
}

; Sizes and memory of all tensors, whose ranks are right.
define internal i32 @find_wrong_tensors(ptr %args, ptr %table, ptr %names, ptr %message) {
entry:
  %at.5 = getelementptr [24 x i8], ptr %table, i64 1
  %num_same_at.6 = getelementptr i8, ptr %table, i64 16
  %v.7 = load i64, ptr %num_same_at.6
  %at.8 = getelementptr [32 x i8], ptr %at.5, i64 %v.7
  br label %loop.9
loop.9:
  %check.12 = phi ptr [ %at.8, %entry ], [ %at.48, %after.18 ]
  %index.13 = phi i64 [ 0, %entry ], [ %index.49, %after.18 ]
  %v.14 = load i64, ptr %table
  %v.15 = icmp slt i64 %index.13, %v.14
  br i1 %v.15, label %body.10, label %after.11
body.10:
  %v.19 = load i64, ptr %check.12
  %v.20 = icmp eq i64 %v.19, 0
  br i1 %v.20, label %then.16, label %after.18
then.16:
  call void @begin(ptr %message, ptr %names, i64 %index.13)
  %status.21 = call i32 @find_wrong_size(ptr %args, i64 %index.13, ptr %check.12, ptr %table, ptr %names, ptr %message)
  %v.25 = icmp eq i32 %status.21, 0
  br i1 %v.25, label %then.22, label %after.24
then.22:
  %at.26 = getelementptr [16 x i8], ptr %args, i64 %index.13
  %payload_at.33 = getelementptr i8, ptr %at.26, i64 8
  %v.34 = load ptr, ptr %payload_at.33
  %status.35 = call i32 @find_wrong_memory(ptr %v.34, ptr %check.12, ptr %message)
  br label %after.24
after.24:
  %status.36 = phi i32 [ %status.21, %then.16 ], [ %status.35, %then.22 ]
  %v.40 = icmp ne i32 %status.36, 0
  br i1 %v.40, label %then.37, label %after.39
then.37:
  ret i32 %status.36
after.39:
  br label %after.18
after.18:
  %at.45 = getelementptr [56 x i8], ptr %check.12, i64 1
  %rank_at.46 = getelementptr i8, ptr %check.12, i64 8
  %v.47 = load i64, ptr %rank_at.46
  %at.48 = getelementptr [16 x i8], ptr %at.45, i64 %v.47
  %index.49 = add i64 %index.13, 1
  br label %loop.9
after.11:
  ret i32 0
}

; 0, or -1 after heddle_set_error for the first thing that is wrong: kinds of all arguments first, then
; sizes and memory of tensors.
define i32 @heddle_check_args(ptr %args, i32 %count, ptr %table, ptr %names) {
entry:
  %room.1 = alloca [512 x i8], align 16
  %v.5 = sext i32 %count to i64
  %v.6 = load i64, ptr %table
  %v.7 = icmp ne i64 %v.5, %v.6
  br i1 %v.7, label %then.2, label %after.4
then.2:
  call void @begin(ptr %room.1, ptr %names, i64 0)
  call void @append(ptr %room.1, ptr %names)
  call void @append(ptr %room.1, ptr @other_count)
  %text_at.8 = getelementptr i8, ptr %room.1, i64 24
  %at.9 = getelementptr [1 x i8], ptr %text_at.8, i64 0
  %v.10 = load i64, ptr %table
  %v.11 = sext i32 %count to i64
  call void @heddle_set_error(i32 2, ptr %at.9, i64 %v.10, i64 %v.11)
  ret i32 -1
after.4:
  %status.12 = call i32 @find_wrong_kind(ptr %args, ptr %table, ptr %names, ptr %room.1)
  %v.16 = icmp eq i32 %status.12, 0
  br i1 %v.16, label %then.13, label %after.15
then.13:
  %status.17 = call i32 @find_wrong_tensors(ptr %args, ptr %table, ptr %names, ptr %room.1)
  br label %after.15
after.15:
  %status.18 = phi i32 [ %status.12, %after.4 ], [ %status.17, %then.13 ]
  ret i32 %status.18
}

; Set the error V0402 with a value's kind. Gives `Status.FAILED`.
define internal i32 @refuse_kind(ptr %message, ptr %value) cold noinline {
entry:
  %v.1 = call i64 @heddle_kind_of(ptr %value)
  call void @heddle_set_error(i32 102914, ptr %message, i64 0, i64 %v.1)
  ret i32 -1
}

; What an error message names as got: a value's kind, or the type of a foreign object.
define i64 @heddle_kind_of(ptr %value) {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp ne i32 %v.4, 12
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = load i32, ptr %value
  %v.7 = sext i32 %v.6 to i64
  ret i64 %v.7
after.3:
  %payload_at.12 = getelementptr i8, ptr %value, i64 8
  %v.13 = load ptr, ptr %payload_at.12
  %at.16 = getelementptr [1 x i8], ptr %v.13, i64 -32
  %owner_at.17 = getelementptr i8, ptr %at.16, i64 16
  %v.18 = load ptr, ptr %owner_at.17
  %type_at.19 = getelementptr i8, ptr %v.18, i64 8
  %v.20 = load ptr, ptr %type_at.19
  %v.21 = ptrtoint ptr %v.20 to i64
  ret i64 %v.21
}

; Put a value of a data type into a register: its constructor's tag and `count` fields.
define i32 @heddle_make_data(ptr %context, ptr %register, i64 %tag, i64 %count, ptr %items) "heddle-simplified" {
entry:
  %v.1 = mul i64 16, %count
  %size_bytes.2 = add i64 16, %v.1
  %v.5 = add i64 %size_bytes.2, 32
  %v.6 = call ptr @malloc(i64 %v.5)
  %v.10 = icmp eq ptr %v.6, null
  br i1 %v.10, label %then.7, label %after.9
then.7:
  call void @refuse_memory(i64 %v.5)
  br label %new_object_end.4
after.9:
  store i64 1, ptr %v.6
  %kind_at.11 = getelementptr i8, ptr %v.6, i64 8
  store i32 13, ptr %kind_at.11
  %flags_at.12 = getelementptr i8, ptr %v.6, i64 12
  store i32 0, ptr %flags_at.12
  %owner_at.13 = getelementptr i8, ptr %v.6, i64 16
  store ptr null, ptr %owner_at.13
  %at.16 = getelementptr [32 x i8], ptr %v.6, i64 1
  br label %new_object_end.4
new_object_end.4:
  %result.0.17 = phi ptr [ null, %then.7 ], [ %at.16, %after.9 ]
  %v.21 = icmp eq ptr %result.0.17, null
  br i1 %v.21, label %then.18, label %after.20
then.18:
  ret i32 -1
after.20:
  store i64 %count, ptr %result.0.17
  %tag_at.22 = getelementptr i8, ptr %result.0.17, i64 8
  store i64 %tag, ptr %tag_at.22
  %at.25 = getelementptr [16 x i8], ptr %result.0.17, i64 1
  br label %loop.28
loop.28:
  %number.31 = phi i64 [ 0, %after.20 ], [ %number.75, %after.54 ]
  %v.32 = icmp slt i64 %number.31, %count
  br i1 %v.32, label %body.29, label %after.30
body.29:
  %at.33 = getelementptr [16 x i8], ptr %items, i64 %number.31
  %at.34 = getelementptr [16 x i8], ptr %at.25, i64 %number.31
  %kind.35 = load i32, ptr %at.33
  %payload_at.40 = getelementptr i8, ptr %at.33, i64 8
  %v.41 = load ptr, ptr %payload_at.40
  %zero_at.42 = getelementptr i8, ptr %at.34, i64 4
  %zero_at.43 = getelementptr i8, ptr %at.33, i64 4
  %v.44 = load i32, ptr %zero_at.43
  store i32 %v.44, ptr %zero_at.42
  store i32 %kind.35, ptr %at.34
  %payload_at.49 = getelementptr i8, ptr %at.34, i64 8
  store ptr %v.41, ptr %payload_at.49
  %v.55 = icmp sge i32 %kind.35, 7
  br i1 %v.55, label %then.52, label %after.54
then.52:
  %v.59 = icmp eq i32 %kind.35, 11
  br i1 %v.59, label %then.56, label %else.57
then.56:
  %at.66 = getelementptr [1 x i8], ptr %v.41, i64 -32
  %v.67 = atomicrmw add ptr %at.66, i64 1 monotonic
  br label %after.58
else.57:
  %at.72 = getelementptr [1 x i8], ptr %v.41, i64 -32
  %v.73 = load i64, ptr %at.72
  %v.74 = add i64 %v.73, 1
  store i64 %v.74, ptr %at.72
  br label %after.58
after.58:
  br label %after.54
after.54:
  %number.75 = add i64 %number.31, 1
  br label %loop.28
after.30:
  %old_kind.78 = load i32, ptr %register
  %payload_at.83 = getelementptr i8, ptr %register, i64 8
  %v.84 = load ptr, ptr %payload_at.83
  store i32 13, ptr %register
  %payload_at.89 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.17, ptr %payload_at.89
  %v.93 = icmp sge i32 %old_kind.78, 7
  br i1 %v.93, label %then.90, label %after.92
then.90:
  call void @heddle_release(ptr %context, i32 %old_kind.78, ptr %v.84)
  br label %after.92
after.92:
  ret i32 0
}

; 1 where a value has this tag, 0 where it has another one; -1 after heddle_set_error for what is of no
; data type.
define i32 @heddle_has_tag(ptr %value, i64 %tag) "heddle-simplified" {
entry:
  %v.7 = load i32, ptr %value
  %v.8 = icmp eq i32 %v.7, 13
  br i1 %v.8, label %yes.4, label %no.5
yes.4:
  %payload_at.13 = getelementptr i8, ptr %value, i64 8
  %v.14 = load ptr, ptr %payload_at.13
  br label %chosen.6
no.5:
  br label %chosen.6
chosen.6:
  %v.3.15 = phi ptr [ %v.14, %yes.4 ], [ null, %no.5 ]
  %v.19 = icmp eq ptr %v.3.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  %v.20 = call i32 @refuse_kind(ptr @no_data, ptr %value)
  ret i32 %v.20
after.18:
  %tag_at.21 = getelementptr i8, ptr %v.3.15, i64 8
  %v.22 = load i64, ptr %tag_at.21
  %v.23 = icmp eq i64 %v.22, %tag
  %v.24 = zext i1 %v.23 to i32
  ret i32 %v.24
}

; Put a field into a register. Errors: V0402 for no data type's value, V0404 for no such field.
define i32 @heddle_get_field(ptr %context, ptr %register, ptr %value, i64 %index) "heddle-simplified" {
entry:
  %v.7 = load i32, ptr %value
  %v.8 = icmp eq i32 %v.7, 13
  br i1 %v.8, label %yes.4, label %no.5
yes.4:
  %payload_at.13 = getelementptr i8, ptr %value, i64 8
  %v.14 = load ptr, ptr %payload_at.13
  br label %chosen.6
no.5:
  br label %chosen.6
chosen.6:
  %v.3.15 = phi ptr [ %v.14, %yes.4 ], [ null, %no.5 ]
  %v.19 = icmp eq ptr %v.3.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  %v.20 = call i32 @refuse_kind(ptr @no_data, ptr %value)
  ret i32 %v.20
after.18:
  %v.24 = load i64, ptr %v.3.15
  %v.25 = icmp uge i64 %index, %v.24
  br i1 %v.25, label %then.21, label %after.23
then.21:
  %v.26 = load i64, ptr %v.3.15
  call void @heddle_set_error(i32 103427, ptr @no_such_field, i64 %v.26, i64 %index)
  ret i32 -1
after.23:
  %at.29 = getelementptr [16 x i8], ptr %v.3.15, i64 1
  %at.30 = getelementptr [16 x i8], ptr %at.29, i64 %index
  call void @heddle_copy(ptr %context, ptr %register, ptr %at.30)
  ret i32 0
}

; Put a new reference to a value into a register.
define i32 @heddle_make_ref(ptr %context, ptr %register, ptr %value) "heddle-simplified" {
entry:
  %v.3 = add i64 16, 32
  %v.4 = call ptr @malloc(i64 %v.3)
  %v.8 = icmp eq ptr %v.4, null
  br i1 %v.8, label %then.5, label %after.7
then.5:
  call void @refuse_memory(i64 %v.3)
  br label %new_object_end.2
after.7:
  store i64 1, ptr %v.4
  %kind_at.9 = getelementptr i8, ptr %v.4, i64 8
  store i32 14, ptr %kind_at.9
  %flags_at.10 = getelementptr i8, ptr %v.4, i64 12
  store i32 0, ptr %flags_at.10
  %owner_at.11 = getelementptr i8, ptr %v.4, i64 16
  store ptr null, ptr %owner_at.11
  %at.14 = getelementptr [32 x i8], ptr %v.4, i64 1
  br label %new_object_end.2
new_object_end.2:
  %result.0.15 = phi ptr [ null, %then.5 ], [ %at.14, %after.7 ]
  %v.19 = icmp eq ptr %result.0.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  ret i32 -1
after.18:
  br label %loop.24
loop.24:
  %number.27 = phi i64 [ 0, %after.18 ], [ %number.71, %after.50 ]
  %v.28 = icmp slt i64 %number.27, 1
  br i1 %v.28, label %body.25, label %after.26
body.25:
  %at.29 = getelementptr [16 x i8], ptr %value, i64 %number.27
  %at.30 = getelementptr [16 x i8], ptr %result.0.15, i64 %number.27
  %kind.31 = load i32, ptr %at.29
  %payload_at.36 = getelementptr i8, ptr %at.29, i64 8
  %v.37 = load ptr, ptr %payload_at.36
  %zero_at.38 = getelementptr i8, ptr %at.30, i64 4
  %zero_at.39 = getelementptr i8, ptr %at.29, i64 4
  %v.40 = load i32, ptr %zero_at.39
  store i32 %v.40, ptr %zero_at.38
  store i32 %kind.31, ptr %at.30
  %payload_at.45 = getelementptr i8, ptr %at.30, i64 8
  store ptr %v.37, ptr %payload_at.45
  %v.51 = icmp sge i32 %kind.31, 7
  br i1 %v.51, label %then.48, label %after.50
then.48:
  %v.55 = icmp eq i32 %kind.31, 11
  br i1 %v.55, label %then.52, label %else.53
then.52:
  %at.62 = getelementptr [1 x i8], ptr %v.37, i64 -32
  %v.63 = atomicrmw add ptr %at.62, i64 1 monotonic
  br label %after.54
else.53:
  %at.68 = getelementptr [1 x i8], ptr %v.37, i64 -32
  %v.69 = load i64, ptr %at.68
  %v.70 = add i64 %v.69, 1
  store i64 %v.70, ptr %at.68
  br label %after.54
after.54:
  br label %after.50
after.50:
  %number.71 = add i64 %number.27, 1
  br label %loop.24
after.26:
  %old_kind.74 = load i32, ptr %register
  %payload_at.79 = getelementptr i8, ptr %register, i64 8
  %v.80 = load ptr, ptr %payload_at.79
  store i32 14, ptr %register
  %payload_at.85 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.15, ptr %payload_at.85
  %v.89 = icmp sge i32 %old_kind.74, 7
  br i1 %v.89, label %then.86, label %after.88
then.86:
  call void @heddle_release(ptr %context, i32 %old_kind.74, ptr %v.80)
  br label %after.88
after.88:
  ret i32 0
}

; Put what a reference holds into a register. Errors: V0402.
define i32 @heddle_read_ref(ptr %context, ptr %register, ptr %value) "heddle-simplified" {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp ne i32 %v.4, 14
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = call i32 @refuse_kind(ptr @no_reference, ptr %value)
  ret i32 %v.6
after.3:
  %payload_at.11 = getelementptr i8, ptr %value, i64 8
  %v.12 = load ptr, ptr %payload_at.11
  call void @heddle_copy(ptr %context, ptr %register, ptr %v.12)
  ret i32 0
}

; Let a reference hold another value. Errors: V0402.
define i32 @heddle_write_ref(ptr %context, ptr %to, ptr %value) "heddle-simplified" {
entry:
  %v.4 = load i32, ptr %to
  %v.5 = icmp ne i32 %v.4, 14
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = call i32 @refuse_kind(ptr @no_reference, ptr %to)
  ret i32 %v.6
after.3:
  %payload_at.11 = getelementptr i8, ptr %to, i64 8
  %v.12 = load ptr, ptr %payload_at.11
  call void @heddle_copy(ptr %context, ptr %v.12, ptr %value)
  ret i32 0
}

; So many runs of bytes, each a step behind the last one.
define internal void @copy_runs(ptr %to, i64 %to_step, ptr %source, i64 %source_step, i64 %run, i64 %count) {
entry:
  %v.4 = icmp eq i64 %run, %to_step
  %v.5 = icmp eq i64 %run, %source_step
  %v.6 = and i1 %v.4, %v.5
  br i1 %v.6, label %then.1, label %after.3
then.1:
  %v.7 = mul i64 %run, %count
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %source, i64 %v.7, i1 false)
  ret void
after.3:
  br label %loop.8
loop.8:
  %number.11 = phi i64 [ 0, %after.3 ], [ %number.17, %body.9 ]
  %v.12 = icmp slt i64 %number.11, %count
  br i1 %v.12, label %body.9, label %after.10
body.9:
  %v.13 = mul i64 %number.11, %to_step
  %at.14 = getelementptr [1 x i8], ptr %to, i64 %v.13
  %v.15 = mul i64 %number.11, %source_step
  %at.16 = getelementptr [1 x i8], ptr %source, i64 %v.15
  call void @llvm.memcpy.p0.p0.i64(ptr %at.14, ptr %at.16, i64 %run, i1 false)
  %number.17 = add i64 %number.11, 1
  br label %loop.8
after.10:
  ret void
}

; Whole rows, part after part.
define internal void @copy_whole_rows(ptr %rows, i64 %first, i64 %last) {
entry:
  %row_bytes_at.1 = getelementptr i8, ptr %rows, i64 40
  %step.2 = load i64, ptr %row_bytes_at.1
  %count.3 = sub i64 %last, %first
  %v.4 = load ptr, ptr %rows
  %v.5 = mul i64 %first, %step.2
  %at.6 = getelementptr [1 x i8], ptr %v.4, i64 %v.5
  br label %loop.7
loop.7:
  %place.10 = phi ptr [ %at.6, %entry ], [ %at.71, %after.67 ]
  %number.11 = phi i64 [ 0, %entry ], [ %number.72, %after.67 ]
  %count_at.12 = getelementptr i8, ptr %rows, i64 16
  %v.13 = load i64, ptr %count_at.12
  %v.14 = icmp slt i64 %number.11, %v.13
  br i1 %v.14, label %body.8, label %after.9
body.8:
  %axis_at.20 = getelementptr i8, ptr %rows, i64 24
  %v.21 = load i64, ptr %axis_at.20
  %v.22 = icmp eq i64 %v.21, -1
  br i1 %v.22, label %then.17, label %after.19
then.17:
  %index_bytes_at.23 = getelementptr i8, ptr %rows, i64 32
  %v.24 = load i64, ptr %index_bytes_at.23
  br label %run_bytes_end.16
after.19:
  %index_bytes_at.25 = getelementptr i8, ptr %rows, i64 32
  %v.26 = load i64, ptr %index_bytes_at.25
  %parts_at.27 = getelementptr i8, ptr %rows, i64 8
  %v.28 = load ptr, ptr %parts_at.27
  %at.29 = getelementptr [16 x i8], ptr %v.28, i64 %number.11
  %payload_at.36 = getelementptr i8, ptr %at.29, i64 8
  %v.37 = load ptr, ptr %payload_at.36
  %sizes_at.38 = getelementptr i8, ptr %v.37, i64 24
  %v.39 = load ptr, ptr %sizes_at.38
  %axis_at.40 = getelementptr i8, ptr %rows, i64 24
  %v.41 = load i64, ptr %axis_at.40
  %at.42 = getelementptr [8 x i8], ptr %v.39, i64 %v.41
  %v.43 = load i64, ptr %at.42
  %v.44 = mul i64 %v.26, %v.43
  br label %run_bytes_end.16
run_bytes_end.16:
  %result.0.45 = phi i64 [ %v.24, %then.17 ], [ %v.44, %after.19 ]
  %parts_at.46 = getelementptr i8, ptr %rows, i64 8
  %v.47 = load ptr, ptr %parts_at.46
  %at.48 = getelementptr [16 x i8], ptr %v.47, i64 %number.11
  %payload_at.55 = getelementptr i8, ptr %at.48, i64 8
  %v.56 = load ptr, ptr %payload_at.55
  %v.59 = load ptr, ptr %v.56
  %byte_offset_at.60 = getelementptr i8, ptr %v.56, i64 40
  %v.61 = load i64, ptr %byte_offset_at.60
  %at.62 = getelementptr [1 x i8], ptr %v.59, i64 %v.61
  %v.63 = mul i64 %first, %result.0.45
  %at.64 = getelementptr [1 x i8], ptr %at.62, i64 %v.63
  %is_split_at.68 = getelementptr i8, ptr %rows, i64 56
  %v.69 = load i64, ptr %is_split_at.68
  %v.70 = icmp ne i64 %v.69, 0
  br i1 %v.70, label %then.65, label %else.66
then.65:
  call void @copy_runs(ptr %at.64, i64 %result.0.45, ptr %place.10, i64 %step.2, i64 %result.0.45, i64 %count.3)
  br label %after.67
else.66:
  call void @copy_runs(ptr %place.10, i64 %step.2, ptr %at.64, i64 %result.0.45, i64 %result.0.45, i64 %count.3)
  br label %after.67
after.67:
  %at.71 = getelementptr [1 x i8], ptr %place.10, i64 %result.0.45
  %number.72 = add i64 %number.11, 1
  br label %loop.7
after.9:
  ret void
}

; The bytes of one row from `begin` to `end`.
define internal void @copy_within(ptr %rows, i64 %row, i64 %begin, i64 %end) {
entry:
  br label %loop.1
loop.1:
  %base.4 = phi i64 [ 0, %entry ], [ %base.83, %after.48 ]
  %number.5 = phi i64 [ 0, %entry ], [ %number.84, %after.48 ]
  %count_at.6 = getelementptr i8, ptr %rows, i64 16
  %v.7 = load i64, ptr %count_at.6
  %v.8 = icmp slt i64 %number.5, %v.7
  %v.9 = icmp slt i64 %base.4, %end
  %v.10 = and i1 %v.8, %v.9
  br i1 %v.10, label %body.2, label %after.3
body.2:
  %axis_at.16 = getelementptr i8, ptr %rows, i64 24
  %v.17 = load i64, ptr %axis_at.16
  %v.18 = icmp eq i64 %v.17, -1
  br i1 %v.18, label %then.13, label %after.15
then.13:
  %index_bytes_at.19 = getelementptr i8, ptr %rows, i64 32
  %v.20 = load i64, ptr %index_bytes_at.19
  br label %run_bytes_end.12
after.15:
  %index_bytes_at.21 = getelementptr i8, ptr %rows, i64 32
  %v.22 = load i64, ptr %index_bytes_at.21
  %parts_at.23 = getelementptr i8, ptr %rows, i64 8
  %v.24 = load ptr, ptr %parts_at.23
  %at.25 = getelementptr [16 x i8], ptr %v.24, i64 %number.5
  %payload_at.32 = getelementptr i8, ptr %at.25, i64 8
  %v.33 = load ptr, ptr %payload_at.32
  %sizes_at.34 = getelementptr i8, ptr %v.33, i64 24
  %v.35 = load ptr, ptr %sizes_at.34
  %axis_at.36 = getelementptr i8, ptr %rows, i64 24
  %v.37 = load i64, ptr %axis_at.36
  %at.38 = getelementptr [8 x i8], ptr %v.35, i64 %v.37
  %v.39 = load i64, ptr %at.38
  %v.40 = mul i64 %v.22, %v.39
  br label %run_bytes_end.12
run_bytes_end.12:
  %result.0.41 = phi i64 [ %v.20, %then.13 ], [ %v.40, %after.15 ]
  %start.42 = call i64 @llvm.smax.i64(i64 %begin, i64 %base.4)
  %v.43 = add i64 %base.4, %result.0.41
  %v.44 = call i64 @llvm.smin.i64(i64 %end, i64 %v.43)
  %size.45 = sub i64 %v.44, %start.42
  %v.49 = icmp sgt i64 %size.45, 0
  br i1 %v.49, label %then.46, label %after.48
then.46:
  %v.50 = load ptr, ptr %rows
  %row_bytes_at.51 = getelementptr i8, ptr %rows, i64 40
  %v.52 = load i64, ptr %row_bytes_at.51
  %v.53 = mul i64 %row, %v.52
  %v.54 = add i64 %v.53, %start.42
  %at.55 = getelementptr [1 x i8], ptr %v.50, i64 %v.54
  %parts_at.56 = getelementptr i8, ptr %rows, i64 8
  %v.57 = load ptr, ptr %parts_at.56
  %at.58 = getelementptr [16 x i8], ptr %v.57, i64 %number.5
  %payload_at.65 = getelementptr i8, ptr %at.58, i64 8
  %v.66 = load ptr, ptr %payload_at.65
  %v.69 = load ptr, ptr %v.66
  %byte_offset_at.70 = getelementptr i8, ptr %v.66, i64 40
  %v.71 = load i64, ptr %byte_offset_at.70
  %at.72 = getelementptr [1 x i8], ptr %v.69, i64 %v.71
  %v.73 = mul i64 %row, %result.0.41
  %v.74 = add i64 %v.73, %start.42
  %v.75 = sub i64 %v.74, %base.4
  %at.76 = getelementptr [1 x i8], ptr %at.72, i64 %v.75
  %is_split_at.80 = getelementptr i8, ptr %rows, i64 56
  %v.81 = load i64, ptr %is_split_at.80
  %v.82 = icmp ne i64 %v.81, 0
  br i1 %v.82, label %then.77, label %else.78
then.77:
  call void @llvm.memcpy.p0.p0.i64(ptr %at.76, ptr %at.55, i64 %size.45, i1 false)
  br label %after.79
else.78:
  call void @llvm.memcpy.p0.p0.i64(ptr %at.55, ptr %at.76, i64 %size.45, i1 false)
  br label %after.79
after.79:
  br label %after.48
after.48:
  %base.83 = add i64 %base.4, %result.0.41
  %number.84 = add i64 %number.5, 1
  br label %loop.1
after.3:
  ret void
}

; The lines of a tensor's memory that one thread takes. Gives 0.
define internal i32 @copy_lines(i64 %first_line, i64 %last_line, ptr %ctx) {
entry:
  %row_bytes_at.1 = getelementptr i8, ptr %ctx, i64 40
  %step.2 = load i64, ptr %row_bytes_at.1
  %begin.3 = mul i64 %first_line, 64
  %v.4 = mul i64 %last_line, 64
  %size_bytes_at.5 = getelementptr i8, ptr %ctx, i64 48
  %v.6 = load i64, ptr %size_bytes_at.5
  %end.7 = call i64 @llvm.smin.i64(i64 %v.4, i64 %v.6)
  %v.8 = add i64 %begin.3, %step.2
  %v.9 = sub i64 %v.8, 1
  %v.12 = udiv i64 %v.9, %step.2
  %v.15 = udiv i64 %end.7, %step.2
  %v.19 = icmp sgt i64 %v.12, %v.15
  br i1 %v.19, label %then.16, label %after.18
then.16:
  %v.20 = mul i64 %v.15, %step.2
  %v.21 = sub i64 %begin.3, %v.20
  %v.22 = mul i64 %v.15, %step.2
  %v.23 = sub i64 %end.7, %v.22
  call void @copy_within(ptr %ctx, i64 %v.15, i64 %v.21, i64 %v.23)
  ret i32 0
after.18:
  %v.27 = mul i64 %v.12, %step.2
  %v.28 = icmp slt i64 %begin.3, %v.27
  br i1 %v.28, label %then.24, label %after.26
then.24:
  %v.29 = sub i64 %v.12, 1
  %v.30 = sub i64 %v.12, 1
  %v.31 = mul i64 %v.30, %step.2
  %v.32 = sub i64 %begin.3, %v.31
  call void @copy_within(ptr %ctx, i64 %v.29, i64 %v.32, i64 %step.2)
  br label %after.26
after.26:
  call void @copy_whole_rows(ptr %ctx, i64 %v.12, i64 %v.15)
  %v.36 = mul i64 %v.15, %step.2
  %v.37 = icmp slt i64 %v.36, %end.7
  br i1 %v.37, label %then.33, label %after.35
then.33:
  %v.38 = mul i64 %v.15, %step.2
  %v.39 = sub i64 %end.7, %v.38
  call void @copy_within(ptr %ctx, i64 %v.15, i64 0, i64 %v.39)
  br label %after.35
after.35:
  ret i32 0
}

; A tensor of this machine whose elements lie one after the other; null for anything else.
define internal ptr @plain_tensor(ptr %value) {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp ne i32 %v.4, 7
  br i1 %v.5, label %then.1, label %after.3
then.1:
  ret ptr null
after.3:
  %payload_at.12 = getelementptr i8, ptr %value, i64 8
  %v.13 = load ptr, ptr %payload_at.12
  %device_type_at.17 = getelementptr i8, ptr %v.13, i64 8
  %v.18 = load i32, ptr %device_type_at.17
  %v.19 = icmp ne i32 %v.18, 1
  %rank_at.20 = getelementptr i8, ptr %v.13, i64 16
  %v.21 = load i32, ptr %rank_at.20
  %v.22 = icmp sgt i32 %v.21, 16
  %v.23 = or i1 %v.19, %v.22
  br i1 %v.23, label %then.14, label %after.16
then.14:
  ret ptr null
after.16:
  %v.24 = call i1 @is_compact(ptr %v.13)
  %v.25 = select i1 %v.24, ptr %v.13, ptr null
  ret ptr %v.25
}

; A position, counted from the end where it is negative; NOWHERE where it is no int64 of rank 0 or out of
; range.
define internal i64 @place_in(ptr %value, i64 %count) {
entry:
  %tensor.1 = call ptr @plain_tensor(ptr %value)
  %v.5 = icmp eq ptr %tensor.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  ret i64 -1
after.4:
  %dtype_at.9 = getelementptr i8, ptr %tensor.1, i64 20
  %v.10 = load i32, ptr %dtype_at.9
  %v.11 = icmp ne i32 %v.10, 81920
  %rank_at.12 = getelementptr i8, ptr %tensor.1, i64 16
  %v.13 = load i32, ptr %rank_at.12
  %v.14 = icmp ne i32 %v.13, 0
  %v.15 = or i1 %v.11, %v.14
  br i1 %v.15, label %then.6, label %after.8
then.6:
  ret i64 -1
after.8:
  %v.18 = load ptr, ptr %tensor.1
  %byte_offset_at.19 = getelementptr i8, ptr %tensor.1, i64 40
  %v.20 = load i64, ptr %byte_offset_at.19
  %at.21 = getelementptr [1 x i8], ptr %v.18, i64 %v.20
  %given.22 = load i64, ptr %at.21
  %v.23 = icmp slt i64 %given.22, 0
  %v.24 = add i64 %given.22, %count
  %place.25 = select i1 %v.23, i64 %v.24, i64 %given.22
  %v.26 = icmp sge i64 %place.25, 0
  %v.27 = icmp slt i64 %place.25, %count
  %v.28 = and i1 %v.26, %v.27
  %v.29 = select i1 %v.28, i64 %place.25, i64 -1
  ret i64 %v.29
}

; The item goes before the element at a place, or behind all where there is no place.
define i32 @heddle_sequence_insert(ptr %context, ptr %register, ptr %sequence, ptr %item, ptr %place) "heddle-simplified" {
entry:
  %v.7 = load i32, ptr %sequence
  %v.8 = icmp eq i32 %v.7, 9
  br i1 %v.8, label %yes.4, label %no.5
yes.4:
  %payload_at.13 = getelementptr i8, ptr %sequence, i64 8
  %v.14 = load ptr, ptr %payload_at.13
  br label %chosen.6
no.5:
  br label %chosen.6
chosen.6:
  %v.3.15 = phi ptr [ %v.14, %yes.4 ], [ null, %no.5 ]
  %v.19 = icmp eq ptr %v.3.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  ret i32 2
after.18:
  %count.20 = load i64, ptr %v.3.15
  %v.24 = icmp ne ptr %place, null
  br i1 %v.24, label %then.21, label %after.23
then.21:
  %at.25 = call i64 @place_of_new(ptr %place, i64 %count.20)
  %v.29 = icmp eq i64 %at.25, -1
  br i1 %v.29, label %then.26, label %after.28
then.26:
  ret i32 2
after.28:
  br label %after.23
after.23:
  %at.30 = phi i64 [ %count.20, %after.18 ], [ %at.25, %after.28 ]
  %v.31 = add i64 %count.20, 1
  %v.34 = mul i64 16, %v.31
  %size_bytes.35 = add i64 8, %v.34
  %v.38 = add i64 %size_bytes.35, 32
  %v.39 = call ptr @malloc(i64 %v.38)
  %v.43 = icmp eq ptr %v.39, null
  br i1 %v.43, label %then.40, label %after.42
then.40:
  call void @refuse_memory(i64 %v.38)
  br label %new_object_end.37
after.42:
  store i64 1, ptr %v.39
  %kind_at.44 = getelementptr i8, ptr %v.39, i64 8
  store i32 9, ptr %kind_at.44
  %flags_at.45 = getelementptr i8, ptr %v.39, i64 12
  store i32 0, ptr %flags_at.45
  %owner_at.46 = getelementptr i8, ptr %v.39, i64 16
  store ptr null, ptr %owner_at.46
  %at.49 = getelementptr [32 x i8], ptr %v.39, i64 1
  br label %new_object_end.37
new_object_end.37:
  %result.0.50 = phi ptr [ null, %then.40 ], [ %at.49, %after.42 ]
  %v.54 = icmp ne ptr %result.0.50, null
  br i1 %v.54, label %then.51, label %after.53
then.51:
  store i64 %v.31, ptr %result.0.50
  br label %after.53
after.53:
  %v.58 = icmp eq ptr %result.0.50, null
  br i1 %v.58, label %then.55, label %after.57
then.55:
  ret i32 -1
after.57:
  %at.61 = getelementptr [8 x i8], ptr %v.3.15, i64 1
  %at.64 = getelementptr [8 x i8], ptr %result.0.50, i64 1
  br label %loop.67
loop.67:
  %number.70 = phi i64 [ 0, %after.57 ], [ %number.114, %after.93 ]
  %v.71 = icmp slt i64 %number.70, %at.30
  br i1 %v.71, label %body.68, label %after.69
body.68:
  %at.72 = getelementptr [16 x i8], ptr %at.61, i64 %number.70
  %at.73 = getelementptr [16 x i8], ptr %at.64, i64 %number.70
  %kind.74 = load i32, ptr %at.72
  %payload_at.79 = getelementptr i8, ptr %at.72, i64 8
  %v.80 = load ptr, ptr %payload_at.79
  %zero_at.81 = getelementptr i8, ptr %at.73, i64 4
  %zero_at.82 = getelementptr i8, ptr %at.72, i64 4
  %v.83 = load i32, ptr %zero_at.82
  store i32 %v.83, ptr %zero_at.81
  store i32 %kind.74, ptr %at.73
  %payload_at.88 = getelementptr i8, ptr %at.73, i64 8
  store ptr %v.80, ptr %payload_at.88
  %v.94 = icmp sge i32 %kind.74, 7
  br i1 %v.94, label %then.91, label %after.93
then.91:
  %v.98 = icmp eq i32 %kind.74, 11
  br i1 %v.98, label %then.95, label %else.96
then.95:
  %at.105 = getelementptr [1 x i8], ptr %v.80, i64 -32
  %v.106 = atomicrmw add ptr %at.105, i64 1 monotonic
  br label %after.97
else.96:
  %at.111 = getelementptr [1 x i8], ptr %v.80, i64 -32
  %v.112 = load i64, ptr %at.111
  %v.113 = add i64 %v.112, 1
  store i64 %v.113, ptr %at.111
  br label %after.97
after.97:
  br label %after.93
after.93:
  %number.114 = add i64 %number.70, 1
  br label %loop.67
after.69:
  %at.115 = getelementptr [16 x i8], ptr %at.64, i64 %at.30
  br label %loop.118
loop.118:
  %number.121 = phi i64 [ 0, %after.69 ], [ %number.165, %after.144 ]
  %v.122 = icmp slt i64 %number.121, 1
  br i1 %v.122, label %body.119, label %after.120
body.119:
  %at.123 = getelementptr [16 x i8], ptr %item, i64 %number.121
  %at.124 = getelementptr [16 x i8], ptr %at.115, i64 %number.121
  %kind.125 = load i32, ptr %at.123
  %payload_at.130 = getelementptr i8, ptr %at.123, i64 8
  %v.131 = load ptr, ptr %payload_at.130
  %zero_at.132 = getelementptr i8, ptr %at.124, i64 4
  %zero_at.133 = getelementptr i8, ptr %at.123, i64 4
  %v.134 = load i32, ptr %zero_at.133
  store i32 %v.134, ptr %zero_at.132
  store i32 %kind.125, ptr %at.124
  %payload_at.139 = getelementptr i8, ptr %at.124, i64 8
  store ptr %v.131, ptr %payload_at.139
  %v.145 = icmp sge i32 %kind.125, 7
  br i1 %v.145, label %then.142, label %after.144
then.142:
  %v.149 = icmp eq i32 %kind.125, 11
  br i1 %v.149, label %then.146, label %else.147
then.146:
  %at.156 = getelementptr [1 x i8], ptr %v.131, i64 -32
  %v.157 = atomicrmw add ptr %at.156, i64 1 monotonic
  br label %after.148
else.147:
  %at.162 = getelementptr [1 x i8], ptr %v.131, i64 -32
  %v.163 = load i64, ptr %at.162
  %v.164 = add i64 %v.163, 1
  store i64 %v.164, ptr %at.162
  br label %after.148
after.148:
  br label %after.144
after.144:
  %number.165 = add i64 %number.121, 1
  br label %loop.118
after.120:
  %v.166 = add i64 %at.30, 1
  %at.167 = getelementptr [16 x i8], ptr %at.64, i64 %v.166
  %at.168 = getelementptr [16 x i8], ptr %at.61, i64 %at.30
  %v.169 = sub i64 %count.20, %at.30
  br label %loop.172
loop.172:
  %number.175 = phi i64 [ 0, %after.120 ], [ %number.219, %after.198 ]
  %v.176 = icmp slt i64 %number.175, %v.169
  br i1 %v.176, label %body.173, label %after.174
body.173:
  %at.177 = getelementptr [16 x i8], ptr %at.168, i64 %number.175
  %at.178 = getelementptr [16 x i8], ptr %at.167, i64 %number.175
  %kind.179 = load i32, ptr %at.177
  %payload_at.184 = getelementptr i8, ptr %at.177, i64 8
  %v.185 = load ptr, ptr %payload_at.184
  %zero_at.186 = getelementptr i8, ptr %at.178, i64 4
  %zero_at.187 = getelementptr i8, ptr %at.177, i64 4
  %v.188 = load i32, ptr %zero_at.187
  store i32 %v.188, ptr %zero_at.186
  store i32 %kind.179, ptr %at.178
  %payload_at.193 = getelementptr i8, ptr %at.178, i64 8
  store ptr %v.185, ptr %payload_at.193
  %v.199 = icmp sge i32 %kind.179, 7
  br i1 %v.199, label %then.196, label %after.198
then.196:
  %v.203 = icmp eq i32 %kind.179, 11
  br i1 %v.203, label %then.200, label %else.201
then.200:
  %at.210 = getelementptr [1 x i8], ptr %v.185, i64 -32
  %v.211 = atomicrmw add ptr %at.210, i64 1 monotonic
  br label %after.202
else.201:
  %at.216 = getelementptr [1 x i8], ptr %v.185, i64 -32
  %v.217 = load i64, ptr %at.216
  %v.218 = add i64 %v.217, 1
  store i64 %v.218, ptr %at.216
  br label %after.202
after.202:
  br label %after.198
after.198:
  %number.219 = add i64 %number.175, 1
  br label %loop.172
after.174:
  %old_kind.222 = load i32, ptr %register
  %payload_at.227 = getelementptr i8, ptr %register, i64 8
  %v.228 = load ptr, ptr %payload_at.227
  store i32 9, ptr %register
  %payload_at.233 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.50, ptr %payload_at.233
  %v.237 = icmp sge i32 %old_kind.222, 7
  br i1 %v.237, label %then.234, label %after.236
then.234:
  call void @heddle_release(ptr %context, i32 %old_kind.222, ptr %v.228)
  br label %after.236
after.236:
  ret i32 0
}

; As `place_in`; a new element may stand behind all.
define internal i64 @place_of_new(ptr %value, i64 %count) {
entry:
  %tensor.1 = call ptr @plain_tensor(ptr %value)
  %v.5 = icmp eq ptr %tensor.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  ret i64 -1
after.4:
  %dtype_at.9 = getelementptr i8, ptr %tensor.1, i64 20
  %v.10 = load i32, ptr %dtype_at.9
  %v.11 = icmp ne i32 %v.10, 81920
  %rank_at.12 = getelementptr i8, ptr %tensor.1, i64 16
  %v.13 = load i32, ptr %rank_at.12
  %v.14 = icmp ne i32 %v.13, 0
  %v.15 = or i1 %v.11, %v.14
  br i1 %v.15, label %then.6, label %after.8
then.6:
  ret i64 -1
after.8:
  %v.18 = load ptr, ptr %tensor.1
  %byte_offset_at.19 = getelementptr i8, ptr %tensor.1, i64 40
  %v.20 = load i64, ptr %byte_offset_at.19
  %at.21 = getelementptr [1 x i8], ptr %v.18, i64 %v.20
  %v.22 = load i64, ptr %at.21
  %is_end.23 = icmp eq i64 %v.22, %count
  br i1 %is_end.23, label %yes.25, label %no.26
yes.25:
  br label %chosen.27
no.26:
  %v.28 = call i64 @place_in(ptr %value, i64 %count)
  br label %chosen.27
chosen.27:
  %v.24.29 = phi i64 [ %count, %yes.25 ], [ %v.28, %no.26 ]
  ret i64 %v.24.29
}

; A sequence without the element at a place.
define i32 @heddle_sequence_erase(ptr %context, ptr %register, ptr %sequence, ptr %place) "heddle-simplified" {
entry:
  %v.7 = load i32, ptr %sequence
  %v.8 = icmp eq i32 %v.7, 9
  br i1 %v.8, label %yes.4, label %no.5
yes.4:
  %payload_at.13 = getelementptr i8, ptr %sequence, i64 8
  %v.14 = load ptr, ptr %payload_at.13
  br label %chosen.6
no.5:
  br label %chosen.6
chosen.6:
  %v.3.15 = phi ptr [ %v.14, %yes.4 ], [ null, %no.5 ]
  %v.19 = icmp eq ptr %v.3.15, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  ret i32 2
after.18:
  %count.20 = load i64, ptr %v.3.15
  %at.21 = call i64 @place_in(ptr %place, i64 %count.20)
  %v.25 = icmp eq i64 %at.21, -1
  br i1 %v.25, label %then.22, label %after.24
then.22:
  ret i32 2
after.24:
  %v.26 = sub i64 %count.20, 1
  %v.29 = mul i64 16, %v.26
  %size_bytes.30 = add i64 8, %v.29
  %v.33 = add i64 %size_bytes.30, 32
  %v.34 = call ptr @malloc(i64 %v.33)
  %v.38 = icmp eq ptr %v.34, null
  br i1 %v.38, label %then.35, label %after.37
then.35:
  call void @refuse_memory(i64 %v.33)
  br label %new_object_end.32
after.37:
  store i64 1, ptr %v.34
  %kind_at.39 = getelementptr i8, ptr %v.34, i64 8
  store i32 9, ptr %kind_at.39
  %flags_at.40 = getelementptr i8, ptr %v.34, i64 12
  store i32 0, ptr %flags_at.40
  %owner_at.41 = getelementptr i8, ptr %v.34, i64 16
  store ptr null, ptr %owner_at.41
  %at.44 = getelementptr [32 x i8], ptr %v.34, i64 1
  br label %new_object_end.32
new_object_end.32:
  %result.0.45 = phi ptr [ null, %then.35 ], [ %at.44, %after.37 ]
  %v.49 = icmp ne ptr %result.0.45, null
  br i1 %v.49, label %then.46, label %after.48
then.46:
  store i64 %v.26, ptr %result.0.45
  br label %after.48
after.48:
  %v.53 = icmp eq ptr %result.0.45, null
  br i1 %v.53, label %then.50, label %after.52
then.50:
  ret i32 -1
after.52:
  %at.56 = getelementptr [8 x i8], ptr %v.3.15, i64 1
  %at.59 = getelementptr [8 x i8], ptr %result.0.45, i64 1
  br label %loop.62
loop.62:
  %number.65 = phi i64 [ 0, %after.52 ], [ %number.109, %after.88 ]
  %v.66 = icmp slt i64 %number.65, %at.21
  br i1 %v.66, label %body.63, label %after.64
body.63:
  %at.67 = getelementptr [16 x i8], ptr %at.56, i64 %number.65
  %at.68 = getelementptr [16 x i8], ptr %at.59, i64 %number.65
  %kind.69 = load i32, ptr %at.67
  %payload_at.74 = getelementptr i8, ptr %at.67, i64 8
  %v.75 = load ptr, ptr %payload_at.74
  %zero_at.76 = getelementptr i8, ptr %at.68, i64 4
  %zero_at.77 = getelementptr i8, ptr %at.67, i64 4
  %v.78 = load i32, ptr %zero_at.77
  store i32 %v.78, ptr %zero_at.76
  store i32 %kind.69, ptr %at.68
  %payload_at.83 = getelementptr i8, ptr %at.68, i64 8
  store ptr %v.75, ptr %payload_at.83
  %v.89 = icmp sge i32 %kind.69, 7
  br i1 %v.89, label %then.86, label %after.88
then.86:
  %v.93 = icmp eq i32 %kind.69, 11
  br i1 %v.93, label %then.90, label %else.91
then.90:
  %at.100 = getelementptr [1 x i8], ptr %v.75, i64 -32
  %v.101 = atomicrmw add ptr %at.100, i64 1 monotonic
  br label %after.92
else.91:
  %at.106 = getelementptr [1 x i8], ptr %v.75, i64 -32
  %v.107 = load i64, ptr %at.106
  %v.108 = add i64 %v.107, 1
  store i64 %v.108, ptr %at.106
  br label %after.92
after.92:
  br label %after.88
after.88:
  %number.109 = add i64 %number.65, 1
  br label %loop.62
after.64:
  %at.110 = getelementptr [16 x i8], ptr %at.59, i64 %at.21
  %v.111 = add i64 %at.21, 1
  %at.112 = getelementptr [16 x i8], ptr %at.56, i64 %v.111
  %v.113 = sub i64 %count.20, %at.21
  %v.114 = sub i64 %v.113, 1
  br label %loop.117
loop.117:
  %number.120 = phi i64 [ 0, %after.64 ], [ %number.164, %after.143 ]
  %v.121 = icmp slt i64 %number.120, %v.114
  br i1 %v.121, label %body.118, label %after.119
body.118:
  %at.122 = getelementptr [16 x i8], ptr %at.112, i64 %number.120
  %at.123 = getelementptr [16 x i8], ptr %at.110, i64 %number.120
  %kind.124 = load i32, ptr %at.122
  %payload_at.129 = getelementptr i8, ptr %at.122, i64 8
  %v.130 = load ptr, ptr %payload_at.129
  %zero_at.131 = getelementptr i8, ptr %at.123, i64 4
  %zero_at.132 = getelementptr i8, ptr %at.122, i64 4
  %v.133 = load i32, ptr %zero_at.132
  store i32 %v.133, ptr %zero_at.131
  store i32 %kind.124, ptr %at.123
  %payload_at.138 = getelementptr i8, ptr %at.123, i64 8
  store ptr %v.130, ptr %payload_at.138
  %v.144 = icmp sge i32 %kind.124, 7
  br i1 %v.144, label %then.141, label %after.143
then.141:
  %v.148 = icmp eq i32 %kind.124, 11
  br i1 %v.148, label %then.145, label %else.146
then.145:
  %at.155 = getelementptr [1 x i8], ptr %v.130, i64 -32
  %v.156 = atomicrmw add ptr %at.155, i64 1 monotonic
  br label %after.147
else.146:
  %at.161 = getelementptr [1 x i8], ptr %v.130, i64 -32
  %v.162 = load i64, ptr %at.161
  %v.163 = add i64 %v.162, 1
  store i64 %v.163, ptr %at.161
  br label %after.147
after.147:
  br label %after.143
after.143:
  %number.164 = add i64 %number.120, 1
  br label %loop.117
after.119:
  %old_kind.167 = load i32, ptr %register
  %payload_at.172 = getelementptr i8, ptr %register, i64 8
  %v.173 = load ptr, ptr %payload_at.172
  store i32 9, ptr %register
  %payload_at.178 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.45, ptr %payload_at.178
  %v.182 = icmp sge i32 %old_kind.167, 7
  br i1 %v.182, label %then.179, label %after.181
then.179:
  call void @heddle_release(ptr %context, i32 %old_kind.167, ptr %v.173)
  br label %after.181
after.181:
  ret i32 0
}

; A tensor with memory of its own; null after heddle_set_error.
define internal ptr @new_host_tensor(ptr %context, i64 %rank, ptr %sizes, i32 %dtype) {
entry:
  br label %loop.3
loop.3:
  %result.6 = phi i64 [ 1, %entry ], [ %result.20, %body.4 ]
  %any_negative.7 = phi i1 [ false, %entry ], [ %any_negative.14, %body.4 ]
  %any_zero.8 = phi i1 [ false, %entry ], [ %any_zero.16, %body.4 ]
  %number.9 = phi i64 [ 0, %entry ], [ %number.21, %body.4 ]
  %v.10 = icmp slt i64 %number.9, %rank
  br i1 %v.10, label %body.4, label %after.5
body.4:
  %at.11 = getelementptr [8 x i8], ptr %sizes, i64 %number.9
  %size.12 = load i64, ptr %at.11
  %v.13 = icmp slt i64 %size.12, 0
  %any_negative.14 = or i1 %any_negative.7, %v.13
  %v.15 = icmp eq i64 %size.12, 0
  %any_zero.16 = or i1 %any_zero.8, %v.15
  %v.17 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.6, i64 %size.12)
  %v.18 = extractvalue { i64, i1 } %v.17, 0
  %v.19 = extractvalue { i64, i1 } %v.17, 1
  %result.20 = select i1 %v.19, i64 9223372036854775807, i64 %v.18
  %number.21 = add i64 %number.9, 1
  br label %loop.3
after.5:
  %known.22 = select i1 %any_zero.8, i64 0, i64 %result.6
  %v.23 = select i1 %any_negative.7, i64 -1, i64 %known.22
  %v.26 = lshr i32 %dtype, 8
  %v.27 = and i32 %v.26, 255
  %v.28 = lshr i32 %dtype, 16
  %v.29 = mul i32 %v.27, %v.28
  %v.30 = add i32 %v.29, 7
  %v.31 = lshr i32 %v.30, 3
  %v.32 = zext i32 %v.31 to i64
  %v.35 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %v.23, i64 %v.32)
  %v.36 = extractvalue { i64, i1 } %v.35, 0
  %v.37 = extractvalue { i64, i1 } %v.35, 1
  %bounded.38 = select i1 %v.37, i64 9223372036854775807, i64 %v.36
  %v.39 = icmp slt i64 %v.23, 0
  %v.40 = select i1 %v.39, i64 -1, i64 %bounded.38
  %v.41 = load ptr, ptr %context
  %v.42 = load ptr, ptr %context
  %v.45 = load i64, ptr %v.42
  %last.46 = sub i64 %v.45, 1
  %v.47 = icmp eq i32 -1, -1
  %v.48 = sext i32 -1 to i64
  %v.49 = select i1 %v.47, i64 %last.46, i64 %v.48
  %at.52 = getelementptr [8 x i8], ptr %v.41, i64 1
  %at.53 = getelementptr [8 x i8], ptr %at.52, i64 %v.49
  %v.54 = load ptr, ptr %at.53
  %storage.55 = call ptr @pool_take(ptr %v.54, i64 %v.40)
  %v.59 = icmp eq ptr %storage.55, null
  br i1 %v.59, label %then.56, label %after.58
then.56:
  ret ptr null
after.58:
  %at.64 = getelementptr [32 x i8], ptr %storage.55, i64 1
  %at.65 = getelementptr [1 x i8], ptr %at.64, i64 0
  %device_type_at.66 = getelementptr i8, ptr %storage.55, i64 16
  %v.67 = load i32, ptr %device_type_at.66
  %device_id_at.68 = getelementptr i8, ptr %storage.55, i64 20
  %v.69 = load i32, ptr %device_id_at.68
  %v.72 = mul i64 8, %rank
  %v.73 = add i64 48, %v.72
  %v.76 = add i64 %v.73, 32
  %v.77 = call ptr @malloc(i64 %v.76)
  %v.81 = icmp eq ptr %v.77, null
  br i1 %v.81, label %then.78, label %after.80
then.78:
  call void @refuse_memory(i64 %v.76)
  br label %new_object_end.75
after.80:
  store i64 1, ptr %v.77
  %kind_at.82 = getelementptr i8, ptr %v.77, i64 8
  store i32 7, ptr %kind_at.82
  %flags_at.83 = getelementptr i8, ptr %v.77, i64 12
  store i32 0, ptr %flags_at.83
  %owner_at.84 = getelementptr i8, ptr %v.77, i64 16
  store ptr %storage.55, ptr %owner_at.84
  %at.87 = getelementptr [32 x i8], ptr %v.77, i64 1
  br label %new_object_end.75
new_object_end.75:
  %result.0.88 = phi ptr [ null, %then.78 ], [ %at.87, %after.80 ]
  %v.92 = icmp eq ptr %result.0.88, null
  br i1 %v.92, label %then.89, label %after.91
then.89:
  br label %new_tensor_end.71
after.91:
  store ptr %at.65, ptr %result.0.88
  %device_type_at.93 = getelementptr i8, ptr %result.0.88, i64 8
  store i32 %v.67, ptr %device_type_at.93
  %device_id_at.94 = getelementptr i8, ptr %result.0.88, i64 12
  store i32 %v.69, ptr %device_id_at.94
  %rank_at.95 = getelementptr i8, ptr %result.0.88, i64 16
  %v.96 = trunc i64 %rank to i32
  store i32 %v.96, ptr %rank_at.95
  %dtype_at.97 = getelementptr i8, ptr %result.0.88, i64 20
  store i32 %dtype, ptr %dtype_at.97
  %at.98 = getelementptr [48 x i8], ptr %result.0.88, i64 1
  %sizes_at.99 = getelementptr i8, ptr %result.0.88, i64 24
  store ptr %at.98, ptr %sizes_at.99
  %strides_at.100 = getelementptr i8, ptr %result.0.88, i64 32
  store ptr null, ptr %strides_at.100
  %byte_offset_at.101 = getelementptr i8, ptr %result.0.88, i64 40
  store i64 0, ptr %byte_offset_at.101
  br label %loop.102
loop.102:
  %axis.105 = phi i64 [ 0, %after.91 ], [ %axis.110, %body.103 ]
  %v.106 = icmp slt i64 %axis.105, %rank
  br i1 %v.106, label %body.103, label %after.104
body.103:
  %at.107 = getelementptr [8 x i8], ptr %at.98, i64 %axis.105
  %at.108 = getelementptr [8 x i8], ptr %sizes, i64 %axis.105
  %v.109 = load i64, ptr %at.108
  store i64 %v.109, ptr %at.107
  %axis.110 = add i64 %axis.105, 1
  br label %loop.102
after.104:
  br label %new_tensor_end.71
new_tensor_end.71:
  %result.0.111 = phi ptr [ null, %then.89 ], [ %result.0.88, %after.104 ]
  %v.115 = icmp eq ptr %result.0.111, null
  br i1 %v.115, label %then.112, label %after.114
then.112:
  %at.122 = getelementptr [1 x i8], ptr %storage.55, i64 -32
  %v.127 = load atomic i64, ptr %at.122 acquire, align 8
  %v.128 = icmp eq i64 %v.127, 1
  br i1 %v.128, label %then.123, label %or.126
or.126:
  %v.129 = atomicrmw sub ptr %at.122, i64 1 acq_rel
  %v.130 = icmp eq i64 %v.129, 1
  br i1 %v.130, label %then.123, label %after.125
then.123:
  call void @pool_give(ptr %storage.55)
  br label %after.125
after.125:
  br label %after.114
after.114:
  ret ptr %result.0.111
}

; The sizes of elements joined along an axis, or a new one; False where they are not plain tensors that
; fit.
define internal i1 @joined_sizes(ptr %items, i64 %count, i64 %axis, i64 %is_new, ptr %sizes) {
entry:
  %first.1 = call ptr @plain_tensor(ptr %items)
  %v.5 = icmp eq ptr %first.1, null
  br i1 %v.5, label %then.2, label %after.4
then.2:
  ret i1 false
after.4:
  %rank_at.6 = getelementptr i8, ptr %first.1, i64 16
  %v.7 = load i32, ptr %rank_at.6
  %rank.8 = sext i32 %v.7 to i64
  %v.12 = add i64 %rank.8, %is_new
  %v.13 = icmp sgt i64 %v.12, 16
  br i1 %v.13, label %then.9, label %after.11
then.9:
  ret i1 false
after.11:
  br label %loop.14
loop.14:
  %number.17 = phi i64 [ 0, %after.11 ], [ %number.72, %after.64 ]
  %total.18 = phi i64 [ 0, %after.11 ], [ %total.71, %after.64 ]
  %v.19 = icmp slt i64 %number.17, %count
  br i1 %v.19, label %body.15, label %after.16
body.15:
  %at.20 = getelementptr [16 x i8], ptr %items, i64 %number.17
  %item.21 = call ptr @plain_tensor(ptr %at.20)
  %v.25 = icmp eq ptr %item.21, null
  br i1 %v.25, label %then.22, label %after.24
then.22:
  ret i1 false
after.24:
  %dtype_at.29 = getelementptr i8, ptr %item.21, i64 20
  %v.30 = load i32, ptr %dtype_at.29
  %dtype_at.31 = getelementptr i8, ptr %first.1, i64 20
  %v.32 = load i32, ptr %dtype_at.31
  %v.33 = icmp ne i32 %v.30, %v.32
  %rank_at.34 = getelementptr i8, ptr %item.21, i64 16
  %v.35 = load i32, ptr %rank_at.34
  %rank_at.36 = getelementptr i8, ptr %first.1, i64 16
  %v.37 = load i32, ptr %rank_at.36
  %v.38 = icmp ne i32 %v.35, %v.37
  %v.39 = or i1 %v.33, %v.38
  br i1 %v.39, label %then.26, label %after.28
then.26:
  ret i1 false
after.28:
  br label %loop.40
loop.40:
  %dim.43 = phi i64 [ 0, %after.28 ], [ %dim.61, %after.47 ]
  %v.44 = icmp slt i64 %dim.43, %rank.8
  br i1 %v.44, label %body.41, label %after.42
body.41:
  %sizes_at.48 = getelementptr i8, ptr %item.21, i64 24
  %v.49 = load ptr, ptr %sizes_at.48
  %at.50 = getelementptr [8 x i8], ptr %v.49, i64 %dim.43
  %v.51 = load i64, ptr %at.50
  %sizes_at.52 = getelementptr i8, ptr %first.1, i64 24
  %v.53 = load ptr, ptr %sizes_at.52
  %at.54 = getelementptr [8 x i8], ptr %v.53, i64 %dim.43
  %v.55 = load i64, ptr %at.54
  %v.56 = icmp ne i64 %v.51, %v.55
  %v.57 = icmp ne i64 %dim.43, %axis
  %v.58 = icmp ne i64 %is_new, 0
  %v.59 = or i1 %v.57, %v.58
  %v.60 = and i1 %v.56, %v.59
  br i1 %v.60, label %then.45, label %after.47
then.45:
  ret i1 false
after.47:
  %dim.61 = add i64 %dim.43, 1
  br label %loop.40
after.42:
  %v.65 = icmp eq i64 %is_new, 0
  br i1 %v.65, label %then.62, label %after.64
then.62:
  %sizes_at.66 = getelementptr i8, ptr %item.21, i64 24
  %v.67 = load ptr, ptr %sizes_at.66
  %at.68 = getelementptr [8 x i8], ptr %v.67, i64 %axis
  %v.69 = load i64, ptr %at.68
  %total.70 = add i64 %total.18, %v.69
  br label %after.64
after.64:
  %total.71 = phi i64 [ %total.18, %after.42 ], [ %total.70, %then.62 ]
  %number.72 = add i64 %number.17, 1
  br label %loop.14
after.16:
  br label %loop.73
loop.73:
  %dim.76 = phi i64 [ 0, %after.16 ], [ %dim.96, %after.81 ]
  %v.77 = add i64 %rank.8, %is_new
  %v.78 = icmp slt i64 %dim.76, %v.77
  br i1 %v.78, label %body.74, label %after.75
body.74:
  %v.82 = icmp eq i64 %dim.76, %axis
  br i1 %v.82, label %then.79, label %else.80
then.79:
  %at.83 = getelementptr [8 x i8], ptr %sizes, i64 %dim.76
  %v.84 = icmp ne i64 %is_new, 0
  %v.85 = select i1 %v.84, i64 %count, i64 %total.18
  store i64 %v.85, ptr %at.83
  br label %after.81
else.80:
  %at.86 = getelementptr [8 x i8], ptr %sizes, i64 %dim.76
  %sizes_at.87 = getelementptr i8, ptr %first.1, i64 24
  %v.88 = load ptr, ptr %sizes_at.87
  %v.89 = icmp ne i64 %is_new, 0
  %v.90 = icmp sgt i64 %dim.76, %axis
  %v.91 = and i1 %v.89, %v.90
  %v.92 = sub i64 %dim.76, 1
  %v.93 = select i1 %v.91, i64 %v.92, i64 %dim.76
  %at.94 = getelementptr [8 x i8], ptr %v.88, i64 %v.93
  %v.95 = load i64, ptr %at.94
  store i64 %v.95, ptr %at.86
  br label %after.81
after.81:
  %dim.96 = add i64 %dim.76, 1
  br label %loop.73
after.75:
  ret i1 true
}

; The elements after each other along an axis that they have, or along a new one.
define i32 @heddle_sequence_concat(ptr %context, ptr %register, ptr %sequence, i64 %axis, i64 %is_new) {
entry:
  %room.120 = alloca [64 x i8], align 16
  %room.1 = alloca [8 x i8], i64 16, align 16
  %v.8 = load i32, ptr %sequence
  %v.9 = icmp eq i32 %v.8, 9
  br i1 %v.9, label %yes.5, label %no.6
yes.5:
  %payload_at.14 = getelementptr i8, ptr %sequence, i64 8
  %v.15 = load ptr, ptr %payload_at.14
  br label %chosen.7
no.6:
  br label %chosen.7
chosen.7:
  %v.4.16 = phi ptr [ %v.15, %yes.5 ], [ null, %no.6 ]
  %v.20 = icmp eq ptr %v.4.16, null
  br i1 %v.20, label %then.17, label %after.19
then.17:
  ret i32 2
after.19:
  %at.23 = getelementptr [8 x i8], ptr %v.4.16, i64 1
  %count.24 = load i64, ptr %v.4.16
  %v.28 = icmp eq i64 %count.24, 0
  br i1 %v.28, label %then.25, label %after.27
then.25:
  ret i32 2
after.27:
  %first.29 = call ptr @plain_tensor(ptr %at.23)
  %v.33 = icmp eq ptr %first.29, null
  br i1 %v.33, label %then.30, label %after.32
then.30:
  ret i32 2
after.32:
  %rank_at.34 = getelementptr i8, ptr %first.29, i64 16
  %v.35 = load i32, ptr %rank_at.34
  %v.36 = sext i32 %v.35 to i64
  %rank.37 = add i64 %v.36, %is_new
  %v.38 = icmp slt i64 %axis, 0
  %v.39 = add i64 %axis, %rank.37
  %place.40 = select i1 %v.38, i64 %v.39, i64 %axis
  %v.44 = icmp slt i64 %place.40, 0
  %v.45 = icmp sge i64 %place.40, %rank.37
  %v.46 = or i1 %v.44, %v.45
  br i1 %v.46, label %then.41, label %after.43
then.41:
  ret i32 2
after.43:
  %v.50 = call i1 @joined_sizes(ptr %at.23, i64 %count.24, i64 %place.40, i64 %is_new, ptr %room.1)
  br i1 %v.50, label %after.49, label %then.47
then.47:
  ret i32 2
after.49:
  %dtype_at.51 = getelementptr i8, ptr %first.29, i64 20
  %v.52 = load i32, ptr %dtype_at.51
  %made.53 = call ptr @new_host_tensor(ptr %context, i64 %rank.37, ptr %room.1, i32 %v.52)
  %v.57 = icmp eq ptr %made.53, null
  br i1 %v.57, label %then.54, label %after.56
then.54:
  ret i32 -1
after.56:
  br label %loop.60
loop.60:
  %result.63 = phi i64 [ 1, %after.56 ], [ %result.77, %body.61 ]
  %any_negative.64 = phi i1 [ false, %after.56 ], [ %any_negative.71, %body.61 ]
  %any_zero.65 = phi i1 [ false, %after.56 ], [ %any_zero.73, %body.61 ]
  %number.66 = phi i64 [ 0, %after.56 ], [ %number.78, %body.61 ]
  %v.67 = icmp slt i64 %number.66, %place.40
  br i1 %v.67, label %body.61, label %after.62
body.61:
  %at.68 = getelementptr [8 x i8], ptr %room.1, i64 %number.66
  %size.69 = load i64, ptr %at.68
  %v.70 = icmp slt i64 %size.69, 0
  %any_negative.71 = or i1 %any_negative.64, %v.70
  %v.72 = icmp eq i64 %size.69, 0
  %any_zero.73 = or i1 %any_zero.65, %v.72
  %v.74 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.63, i64 %size.69)
  %v.75 = extractvalue { i64, i1 } %v.74, 0
  %v.76 = extractvalue { i64, i1 } %v.74, 1
  %result.77 = select i1 %v.76, i64 9223372036854775807, i64 %v.75
  %number.78 = add i64 %number.66, 1
  br label %loop.60
after.62:
  %known.79 = select i1 %any_zero.65, i64 0, i64 %result.63
  %v.80 = select i1 %any_negative.64, i64 -1, i64 %known.79
  %v.81 = sub i64 %rank.37, %place.40
  %v.82 = sub i64 %v.81, 1
  %v.83 = add i64 %place.40, 1
  %at.84 = getelementptr [8 x i8], ptr %room.1, i64 %v.83
  br label %loop.87
loop.87:
  %result.90 = phi i64 [ 1, %after.62 ], [ %result.104, %body.88 ]
  %any_negative.91 = phi i1 [ false, %after.62 ], [ %any_negative.98, %body.88 ]
  %any_zero.92 = phi i1 [ false, %after.62 ], [ %any_zero.100, %body.88 ]
  %number.93 = phi i64 [ 0, %after.62 ], [ %number.105, %body.88 ]
  %v.94 = icmp slt i64 %number.93, %v.82
  br i1 %v.94, label %body.88, label %after.89
body.88:
  %at.95 = getelementptr [8 x i8], ptr %at.84, i64 %number.93
  %size.96 = load i64, ptr %at.95
  %v.97 = icmp slt i64 %size.96, 0
  %any_negative.98 = or i1 %any_negative.91, %v.97
  %v.99 = icmp eq i64 %size.96, 0
  %any_zero.100 = or i1 %any_zero.92, %v.99
  %v.101 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.90, i64 %size.96)
  %v.102 = extractvalue { i64, i1 } %v.101, 0
  %v.103 = extractvalue { i64, i1 } %v.101, 1
  %result.104 = select i1 %v.103, i64 9223372036854775807, i64 %v.102
  %number.105 = add i64 %number.93, 1
  br label %loop.87
after.89:
  %known.106 = select i1 %any_zero.92, i64 0, i64 %result.90
  %v.107 = select i1 %any_negative.91, i64 -1, i64 %known.106
  %dtype_at.108 = getelementptr i8, ptr %first.29, i64 20
  %v.109 = load i32, ptr %dtype_at.108
  %v.112 = lshr i32 %v.109, 8
  %v.113 = and i32 %v.112, 255
  %v.114 = lshr i32 %v.109, 16
  %v.115 = mul i32 %v.113, %v.114
  %v.116 = add i32 %v.115, 7
  %v.117 = lshr i32 %v.116, 3
  %v.118 = zext i32 %v.117 to i64
  %inner.119 = mul i64 %v.107, %v.118
  %v.123 = load ptr, ptr %made.53
  %byte_offset_at.124 = getelementptr i8, ptr %made.53, i64 40
  %v.125 = load i64, ptr %byte_offset_at.124
  %at.126 = getelementptr [1 x i8], ptr %v.123, i64 %v.125
  store ptr %at.126, ptr %room.120
  %parts_at.127 = getelementptr i8, ptr %room.120, i64 8
  store ptr %at.23, ptr %parts_at.127
  %count_at.128 = getelementptr i8, ptr %room.120, i64 16
  store i64 %count.24, ptr %count_at.128
  %axis_at.129 = getelementptr i8, ptr %room.120, i64 24
  %v.130 = icmp ne i64 %is_new, 0
  %v.131 = select i1 %v.130, i64 -1, i64 %place.40
  store i64 %v.131, ptr %axis_at.129
  %index_bytes_at.132 = getelementptr i8, ptr %room.120, i64 32
  store i64 %inner.119, ptr %index_bytes_at.132
  %row_bytes_at.133 = getelementptr i8, ptr %room.120, i64 40
  %at.134 = getelementptr [8 x i8], ptr %room.1, i64 %place.40
  %v.135 = load i64, ptr %at.134
  %v.136 = mul i64 %inner.119, %v.135
  store i64 %v.136, ptr %row_bytes_at.133
  %size_bytes_at.137 = getelementptr i8, ptr %room.120, i64 48
  %row_bytes_at.138 = getelementptr i8, ptr %room.120, i64 40
  %v.139 = load i64, ptr %row_bytes_at.138
  %v.140 = mul i64 %v.139, %v.80
  store i64 %v.140, ptr %size_bytes_at.137
  %is_split_at.141 = getelementptr i8, ptr %room.120, i64 56
  store i64 0, ptr %is_split_at.141
  %size_bytes_at.144 = getelementptr i8, ptr %room.120, i64 48
  %v.145 = load i64, ptr %size_bytes_at.144
  %v.146 = add i64 %v.145, 64
  %v.147 = sub i64 %v.146, 1
  %v.150 = udiv i64 %v.147, 64
  %v.151 = call i32 @heddle_parallel_for(ptr @copy_lines, ptr %room.120, i64 %v.150, i64 8192)
  %old_kind.154 = load i32, ptr %register
  %payload_at.159 = getelementptr i8, ptr %register, i64 8
  %v.160 = load ptr, ptr %payload_at.159
  store i32 7, ptr %register
  %payload_at.165 = getelementptr i8, ptr %register, i64 8
  store ptr %made.53, ptr %payload_at.165
  %v.169 = icmp sge i32 %old_kind.154, 7
  br i1 %v.169, label %then.166, label %after.168
then.166:
  call void @heddle_release(ptr %context, i32 %old_kind.154, ptr %v.160)
  br label %after.168
after.168:
  ret i32 0
}

; How many parts a split makes; NOWHERE where their sizes do not fit.
define internal i64 @parts_of(i64 %total, ptr %wanted, i64 %keeps_axis) {
entry:
  %v.3 = load ptr, ptr %wanted
  %byte_offset_at.4 = getelementptr i8, ptr %wanted, i64 40
  %v.5 = load i64, ptr %byte_offset_at.4
  %at.6 = getelementptr [1 x i8], ptr %v.3, i64 %v.5
  %rank_at.10 = getelementptr i8, ptr %wanted, i64 16
  %v.11 = load i32, ptr %rank_at.10
  %v.12 = icmp eq i32 %v.11, 0
  br i1 %v.12, label %then.7, label %after.9
then.7:
  %size.13 = load i64, ptr %at.6
  %v.17 = icmp slt i64 %size.13, 1
  %v.18 = icmp eq i64 %keeps_axis, 0
  %v.19 = icmp ne i64 %size.13, 1
  %v.20 = and i1 %v.18, %v.19
  %v.21 = or i1 %v.17, %v.20
  br i1 %v.21, label %then.14, label %after.16
then.14:
  ret i64 -1
after.16:
  %v.22 = add i64 %total, %size.13
  %v.23 = sub i64 %v.22, 1
  %v.24 = udiv i64 %v.23, %size.13
  ret i64 %v.24
after.9:
  %sizes_at.25 = getelementptr i8, ptr %wanted, i64 24
  %v.26 = load ptr, ptr %sizes_at.25
  %count.27 = load i64, ptr %v.26
  br label %loop.28
loop.28:
  %left.31 = phi i64 [ %total, %after.9 ], [ %left.46, %after.38 ]
  %number.32 = phi i64 [ 0, %after.9 ], [ %number.47, %after.38 ]
  %v.33 = icmp slt i64 %number.32, %count.27
  br i1 %v.33, label %body.29, label %after.30
body.29:
  %at.34 = getelementptr [8 x i8], ptr %at.6, i64 %number.32
  %size.35 = load i64, ptr %at.34
  %v.39 = icmp slt i64 %size.35, 0
  %v.40 = icmp sgt i64 %size.35, %left.31
  %v.41 = or i1 %v.39, %v.40
  %v.42 = icmp eq i64 %keeps_axis, 0
  %v.43 = icmp ne i64 %size.35, 1
  %v.44 = and i1 %v.42, %v.43
  %v.45 = or i1 %v.41, %v.44
  br i1 %v.45, label %then.36, label %after.38
then.36:
  ret i64 -1
after.38:
  %left.46 = sub i64 %left.31, %size.35
  %number.47 = add i64 %number.32, 1
  br label %loop.28
after.30:
  %v.48 = icmp eq i64 %left.31, 0
  %v.49 = select i1 %v.48, i64 %count.27, i64 -1
  ret i64 %v.49
}

; The parts of a tensor along an axis: of the sizes of a vector, or of one size, the last one less.
define i32 @heddle_sequence_split(ptr %context, ptr %register, ptr %value, ptr %wanted, i64 %axis, i64 %keeps_axis) {
entry:
  %room.1 = alloca [8 x i8], i64 16, align 16
  %tensor.2 = call ptr @plain_tensor(ptr %value)
  %parts.3 = call ptr @plain_tensor(ptr %wanted)
  %v.7 = icmp eq ptr %tensor.2, null
  %v.8 = icmp eq ptr %parts.3, null
  %v.9 = or i1 %v.7, %v.8
  br i1 %v.9, label %then.4, label %after.6
then.4:
  ret i32 2
after.6:
  %dtype_at.13 = getelementptr i8, ptr %parts.3, i64 20
  %v.14 = load i32, ptr %dtype_at.13
  %v.15 = icmp ne i32 %v.14, 81920
  %rank_at.16 = getelementptr i8, ptr %parts.3, i64 16
  %v.17 = load i32, ptr %rank_at.16
  %v.18 = icmp sgt i32 %v.17, 1
  %v.19 = or i1 %v.15, %v.18
  %v.20 = icmp slt i64 %axis, 0
  %v.21 = or i1 %v.19, %v.20
  %rank_at.22 = getelementptr i8, ptr %tensor.2, i64 16
  %v.23 = load i32, ptr %rank_at.22
  %v.24 = sext i32 %v.23 to i64
  %v.25 = icmp sge i64 %axis, %v.24
  %v.26 = or i1 %v.21, %v.25
  br i1 %v.26, label %then.10, label %after.12
then.10:
  ret i32 2
after.12:
  %sizes_at.27 = getelementptr i8, ptr %tensor.2, i64 24
  %v.28 = load ptr, ptr %sizes_at.27
  %at.29 = getelementptr [8 x i8], ptr %v.28, i64 %axis
  %total.30 = load i64, ptr %at.29
  %count.31 = call i64 @parts_of(i64 %total.30, ptr %parts.3, i64 %keeps_axis)
  %v.35 = icmp eq i64 %count.31, -1
  br i1 %v.35, label %then.32, label %after.34
then.32:
  ret i32 2
after.34:
  %v.38 = mul i64 16, %count.31
  %size_bytes.39 = add i64 8, %v.38
  %v.42 = add i64 %size_bytes.39, 32
  %v.43 = call ptr @malloc(i64 %v.42)
  %v.47 = icmp eq ptr %v.43, null
  br i1 %v.47, label %then.44, label %after.46
then.44:
  call void @refuse_memory(i64 %v.42)
  br label %new_object_end.41
after.46:
  store i64 1, ptr %v.43
  %kind_at.48 = getelementptr i8, ptr %v.43, i64 8
  store i32 9, ptr %kind_at.48
  %flags_at.49 = getelementptr i8, ptr %v.43, i64 12
  store i32 0, ptr %flags_at.49
  %owner_at.50 = getelementptr i8, ptr %v.43, i64 16
  store ptr null, ptr %owner_at.50
  %at.53 = getelementptr [32 x i8], ptr %v.43, i64 1
  br label %new_object_end.41
new_object_end.41:
  %result.0.54 = phi ptr [ null, %then.44 ], [ %at.53, %after.46 ]
  %v.58 = icmp ne ptr %result.0.54, null
  br i1 %v.58, label %then.55, label %after.57
then.55:
  store i64 %count.31, ptr %result.0.54
  br label %after.57
after.57:
  %v.62 = icmp eq ptr %result.0.54, null
  br i1 %v.62, label %then.59, label %after.61
then.59:
  ret i32 -1
after.61:
  br label %loop.63
loop.63:
  %number.66 = phi i64 [ 0, %after.61 ], [ %number.76, %body.64 ]
  %v.67 = icmp slt i64 %number.66, %count.31
  br i1 %v.67, label %body.64, label %after.65
body.64:
  %at.70 = getelementptr [8 x i8], ptr %result.0.54, i64 1
  %at.71 = getelementptr [16 x i8], ptr %at.70, i64 %number.66
  store i32 0, ptr %at.71
  %zero_at.74 = getelementptr i8, ptr %at.71, i64 4
  store i32 0, ptr %zero_at.74
  %payload_at.75 = getelementptr i8, ptr %at.71, i64 8
  store i64 0, ptr %payload_at.75
  %number.76 = add i64 %number.66, 1
  br label %loop.63
after.65:
  %rank_at.77 = getelementptr i8, ptr %tensor.2, i64 16
  %v.78 = load i32, ptr %rank_at.77
  %rank.79 = sext i32 %v.78 to i64
  br label %loop.80
loop.80:
  %dim.83 = phi i64 [ 0, %after.65 ], [ %dim.96, %body.81 ]
  %to.84 = phi i64 [ 0, %after.65 ], [ %to.95, %body.81 ]
  %v.85 = icmp slt i64 %dim.83, %rank.79
  br i1 %v.85, label %body.81, label %after.82
body.81:
  %at.86 = getelementptr [8 x i8], ptr %room.1, i64 %to.84
  %sizes_at.87 = getelementptr i8, ptr %tensor.2, i64 24
  %v.88 = load ptr, ptr %sizes_at.87
  %at.89 = getelementptr [8 x i8], ptr %v.88, i64 %dim.83
  %v.90 = load i64, ptr %at.89
  store i64 %v.90, ptr %at.86
  %v.91 = icmp ne i64 %keeps_axis, 0
  %v.92 = icmp ne i64 %dim.83, %axis
  %v.93 = or i1 %v.91, %v.92
  %v.94 = select i1 %v.93, i64 1, i64 0
  %to.95 = add i64 %to.84, %v.94
  %dim.96 = add i64 %dim.83, 1
  br label %loop.80
after.82:
  %status.97 = call i32 @fill_parts(ptr %context, ptr %result.0.54, ptr %tensor.2, ptr %parts.3, i64 %axis, i64 %keeps_axis, ptr %room.1)
  %v.101 = icmp eq i32 %status.97, 0
  br i1 %v.101, label %then.98, label %else.99
then.98:
  %old_kind.104 = load i32, ptr %register
  %payload_at.109 = getelementptr i8, ptr %register, i64 8
  %v.110 = load ptr, ptr %payload_at.109
  store i32 9, ptr %register
  %payload_at.115 = getelementptr i8, ptr %register, i64 8
  store ptr %result.0.54, ptr %payload_at.115
  %v.119 = icmp sge i32 %old_kind.104, 7
  br i1 %v.119, label %then.116, label %after.118
then.116:
  call void @heddle_release(ptr %context, i32 %old_kind.104, ptr %v.110)
  br label %after.118
after.118:
  br label %after.100
else.99:
  call void @heddle_release(ptr %context, i32 9, ptr %result.0.54)
  br label %after.100
after.100:
  ret i32 %status.97
}

; The elements of a split; `sizes` are a part's, that of the axis aside.
define internal i32 @fill_parts(ptr %context, ptr %made, ptr %tensor, ptr %parts, i64 %axis, i64 %keeps_axis, ptr %sizes) {
entry:
  %room.138 = alloca [64 x i8], align 16
  %rank_at.1 = getelementptr i8, ptr %tensor, i64 16
  %v.2 = load i32, ptr %rank_at.1
  %rank.3 = sext i32 %v.2 to i64
  %sizes_at.4 = getelementptr i8, ptr %tensor, i64 24
  %v.5 = load ptr, ptr %sizes_at.4
  br label %loop.8
loop.8:
  %result.11 = phi i64 [ 1, %entry ], [ %result.25, %body.9 ]
  %any_negative.12 = phi i1 [ false, %entry ], [ %any_negative.19, %body.9 ]
  %any_zero.13 = phi i1 [ false, %entry ], [ %any_zero.21, %body.9 ]
  %number.14 = phi i64 [ 0, %entry ], [ %number.26, %body.9 ]
  %v.15 = icmp slt i64 %number.14, %axis
  br i1 %v.15, label %body.9, label %after.10
body.9:
  %at.16 = getelementptr [8 x i8], ptr %v.5, i64 %number.14
  %size.17 = load i64, ptr %at.16
  %v.18 = icmp slt i64 %size.17, 0
  %any_negative.19 = or i1 %any_negative.12, %v.18
  %v.20 = icmp eq i64 %size.17, 0
  %any_zero.21 = or i1 %any_zero.13, %v.20
  %v.22 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.11, i64 %size.17)
  %v.23 = extractvalue { i64, i1 } %v.22, 0
  %v.24 = extractvalue { i64, i1 } %v.22, 1
  %result.25 = select i1 %v.24, i64 9223372036854775807, i64 %v.23
  %number.26 = add i64 %number.14, 1
  br label %loop.8
after.10:
  %known.27 = select i1 %any_zero.13, i64 0, i64 %result.11
  %v.28 = select i1 %any_negative.12, i64 -1, i64 %known.27
  %v.29 = sub i64 %rank.3, %axis
  %v.30 = sub i64 %v.29, 1
  %sizes_at.31 = getelementptr i8, ptr %tensor, i64 24
  %v.32 = load ptr, ptr %sizes_at.31
  %v.33 = add i64 %axis, 1
  %at.34 = getelementptr [8 x i8], ptr %v.32, i64 %v.33
  br label %loop.37
loop.37:
  %result.40 = phi i64 [ 1, %after.10 ], [ %result.54, %body.38 ]
  %any_negative.41 = phi i1 [ false, %after.10 ], [ %any_negative.48, %body.38 ]
  %any_zero.42 = phi i1 [ false, %after.10 ], [ %any_zero.50, %body.38 ]
  %number.43 = phi i64 [ 0, %after.10 ], [ %number.55, %body.38 ]
  %v.44 = icmp slt i64 %number.43, %v.30
  br i1 %v.44, label %body.38, label %after.39
body.38:
  %at.45 = getelementptr [8 x i8], ptr %at.34, i64 %number.43
  %size.46 = load i64, ptr %at.45
  %v.47 = icmp slt i64 %size.46, 0
  %any_negative.48 = or i1 %any_negative.41, %v.47
  %v.49 = icmp eq i64 %size.46, 0
  %any_zero.50 = or i1 %any_zero.42, %v.49
  %v.51 = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %result.40, i64 %size.46)
  %v.52 = extractvalue { i64, i1 } %v.51, 0
  %v.53 = extractvalue { i64, i1 } %v.51, 1
  %result.54 = select i1 %v.53, i64 9223372036854775807, i64 %v.52
  %number.55 = add i64 %number.43, 1
  br label %loop.37
after.39:
  %known.56 = select i1 %any_zero.42, i64 0, i64 %result.40
  %v.57 = select i1 %any_negative.41, i64 -1, i64 %known.56
  %dtype_at.58 = getelementptr i8, ptr %tensor, i64 20
  %v.59 = load i32, ptr %dtype_at.58
  %v.62 = lshr i32 %v.59, 8
  %v.63 = and i32 %v.62, 255
  %v.64 = lshr i32 %v.59, 16
  %v.65 = mul i32 %v.63, %v.64
  %v.66 = add i32 %v.65, 7
  %v.67 = lshr i32 %v.66, 3
  %v.68 = zext i32 %v.67 to i64
  %inner.69 = mul i64 %v.57, %v.68
  %sizes_at.70 = getelementptr i8, ptr %tensor, i64 24
  %v.71 = load ptr, ptr %sizes_at.70
  %at.72 = getelementptr [8 x i8], ptr %v.71, i64 %axis
  %left.73 = load i64, ptr %at.72
  %v.76 = load ptr, ptr %parts
  %byte_offset_at.77 = getelementptr i8, ptr %parts, i64 40
  %v.78 = load i64, ptr %byte_offset_at.77
  %at.79 = getelementptr [1 x i8], ptr %v.76, i64 %v.78
  br label %loop.80
loop.80:
  %left.83 = phi i64 [ %left.73, %after.39 ], [ %left.136, %after.134 ]
  %number.84 = phi i64 [ 0, %after.39 ], [ %number.137, %after.134 ]
  %v.85 = load i64, ptr %made
  %v.86 = icmp slt i64 %number.84, %v.85
  br i1 %v.86, label %body.81, label %after.82
body.81:
  %rank_at.91 = getelementptr i8, ptr %parts, i64 16
  %v.92 = load i32, ptr %rank_at.91
  %v.93 = icmp eq i32 %v.92, 0
  br i1 %v.93, label %yes.88, label %no.89
yes.88:
  %v.94 = load i64, ptr %at.79
  %v.95 = call i64 @llvm.smin.i64(i64 %v.94, i64 %left.83)
  br label %chosen.90
no.89:
  %at.96 = getelementptr [8 x i8], ptr %at.79, i64 %number.84
  %v.97 = load i64, ptr %at.96
  br label %chosen.90
chosen.90:
  %size.87.98 = phi i64 [ %v.95, %yes.88 ], [ %v.97, %no.89 ]
  %v.102 = icmp ne i64 %keeps_axis, 0
  br i1 %v.102, label %then.99, label %after.101
then.99:
  %at.103 = getelementptr [8 x i8], ptr %sizes, i64 %axis
  store i64 %size.87.98, ptr %at.103
  br label %after.101
after.101:
  %v.104 = icmp ne i64 %keeps_axis, 0
  %v.105 = sub i64 %rank.3, 1
  %v.106 = select i1 %v.104, i64 %rank.3, i64 %v.105
  %dtype_at.107 = getelementptr i8, ptr %tensor, i64 20
  %v.108 = load i32, ptr %dtype_at.107
  %part.109 = call ptr @new_host_tensor(ptr %context, i64 %v.106, ptr %sizes, i32 %v.108)
  %v.113 = icmp eq ptr %part.109, null
  br i1 %v.113, label %then.110, label %after.112
then.110:
  ret i32 -1
after.112:
  %at.116 = getelementptr [8 x i8], ptr %made, i64 1
  %at.117 = getelementptr [16 x i8], ptr %at.116, i64 %number.84
  %old_kind.120 = load i32, ptr %at.117
  %payload_at.125 = getelementptr i8, ptr %at.117, i64 8
  %v.126 = load ptr, ptr %payload_at.125
  store i32 7, ptr %at.117
  %payload_at.131 = getelementptr i8, ptr %at.117, i64 8
  store ptr %part.109, ptr %payload_at.131
  %v.135 = icmp sge i32 %old_kind.120, 7
  br i1 %v.135, label %then.132, label %after.134
then.132:
  call void @heddle_release(ptr %context, i32 %old_kind.120, ptr %v.126)
  br label %after.134
after.134:
  %left.136 = sub i64 %left.83, %size.87.98
  %number.137 = add i64 %number.84, 1
  br label %loop.80
after.82:
  %v.141 = load ptr, ptr %tensor
  %byte_offset_at.142 = getelementptr i8, ptr %tensor, i64 40
  %v.143 = load i64, ptr %byte_offset_at.142
  %at.144 = getelementptr [1 x i8], ptr %v.141, i64 %v.143
  store ptr %at.144, ptr %room.138
  %parts_at.145 = getelementptr i8, ptr %room.138, i64 8
  %at.148 = getelementptr [8 x i8], ptr %made, i64 1
  store ptr %at.148, ptr %parts_at.145
  %count_at.149 = getelementptr i8, ptr %room.138, i64 16
  %v.150 = load i64, ptr %made
  store i64 %v.150, ptr %count_at.149
  %axis_at.151 = getelementptr i8, ptr %room.138, i64 24
  %v.152 = icmp ne i64 %keeps_axis, 0
  %v.153 = select i1 %v.152, i64 %axis, i64 -1
  store i64 %v.153, ptr %axis_at.151
  %index_bytes_at.154 = getelementptr i8, ptr %room.138, i64 32
  store i64 %inner.69, ptr %index_bytes_at.154
  %row_bytes_at.155 = getelementptr i8, ptr %room.138, i64 40
  %sizes_at.156 = getelementptr i8, ptr %tensor, i64 24
  %v.157 = load ptr, ptr %sizes_at.156
  %at.158 = getelementptr [8 x i8], ptr %v.157, i64 %axis
  %v.159 = load i64, ptr %at.158
  %v.160 = mul i64 %inner.69, %v.159
  store i64 %v.160, ptr %row_bytes_at.155
  %size_bytes_at.161 = getelementptr i8, ptr %room.138, i64 48
  %row_bytes_at.162 = getelementptr i8, ptr %room.138, i64 40
  %v.163 = load i64, ptr %row_bytes_at.162
  %v.164 = mul i64 %v.163, %v.28
  store i64 %v.164, ptr %size_bytes_at.161
  %is_split_at.165 = getelementptr i8, ptr %room.138, i64 56
  store i64 1, ptr %is_split_at.165
  %size_bytes_at.168 = getelementptr i8, ptr %room.138, i64 48
  %v.169 = load i64, ptr %size_bytes_at.168
  %v.170 = add i64 %v.169, 64
  %v.171 = sub i64 %v.170, 1
  %v.174 = udiv i64 %v.171, 64
  %v.175 = call i32 @heddle_parallel_for(ptr @copy_lines, ptr %room.138, i64 %v.174, i64 8192)
  ret i32 0
}

; Whether the stack has room for a frame of so many bytes.
define i32 @heddle_room(ptr %context, i64 %size_bytes) {
entry:
  %v.6 = call ptr @llvm.frameaddress.p0(i32 0)
  %v.7 = sub i64 0, %size_bytes
  %at.8 = getelementptr [1 x i8], ptr %v.6, i64 %v.7
  %stack_limit_at.9 = getelementptr i8, ptr %context, i64 56
  %v.10 = load ptr, ptr %stack_limit_at.9
  %v.11 = icmp uge ptr %at.8, %v.10
  br i1 %v.11, label %then.1, label %after.3
then.1:
  ret i32 0
after.3:
  call void @heddle_set_error(i32 78080, ptr @too_deep, i64 0, i64 0)
  ret i32 -1
}

; 1 where the stack has room for a frame of so many bytes, else 0.
define i32 @heddle_has_room(ptr %context, i64 %size_bytes) {
entry:
  %v.3 = call ptr @llvm.frameaddress.p0(i32 0)
  %v.4 = sub i64 0, %size_bytes
  %at.5 = getelementptr [1 x i8], ptr %v.3, i64 %v.4
  %stack_limit_at.6 = getelementptr i8, ptr %context, i64 56
  %v.7 = load ptr, ptr %stack_limit_at.6
  %v.8 = icmp uge ptr %at.5, %v.7
  %v.9 = zext i1 %v.8 to i32
  ret i32 %v.9
}

; Set the error V0305. Gives `Status.FAILED`.
define internal i32 @refuse_depth() cold noinline {
entry:
  call void @heddle_set_error(i32 78080, ptr @too_deep, i64 0, i64 0)
  ret i32 -1
}

; Run the code of a function, whose frame takes so many bytes, on a new segment.
define i32 @heddle_grow(ptr %context, i64 %size_bytes, ptr %code, ptr %args, ptr %register) {
entry:
  %v.1 = add i64 16777216, %size_bytes
  %v.4 = sub i64 64, 1
  %v.5 = add i64 %v.1, %v.4
  %v.6 = udiv i64 %v.5, 64
  %v.7 = mul i64 %v.6, 64
  %stack_left_at.8 = getelementptr i8, ptr %context, i64 104
  %v.9 = load i64, ptr %stack_left_at.8
  %left.10 = sub i64 %v.9, %v.7
  %v.15 = icmp eq i32 $HAS_SEGMENTS, 0
  br i1 %v.15, label %then.11, label %or.14
or.14:
  %v.16 = icmp slt i64 %left.10, 0
  br i1 %v.16, label %then.11, label %after.13
then.11:
  %v.17 = call i32 @refuse_depth()
  ret i32 %v.17
after.13:
  %segment.18 = call ptr @aligned_alloc(i64 64, i64 %v.7)
  %v.22 = icmp eq ptr %segment.18, null
  br i1 %v.22, label %then.19, label %after.21
then.19:
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 %v.7)
  ret i32 -1
after.21:
  %stack_limit_at.23 = getelementptr i8, ptr %context, i64 56
  %limit.24 = load ptr, ptr %stack_limit_at.23
  %home_at.25 = getelementptr i8, ptr %context, i64 112
  %home.26 = load ptr, ptr %home_at.25
  %v.30 = icmp eq ptr %home.26, null
  br i1 %v.30, label %then.27, label %after.29
then.27:
  %home_at.31 = getelementptr i8, ptr %context, i64 112
  %v.32 = call ptr @llvm.frameaddress.p0(i32 0)
  %at.33 = getelementptr [1 x i8], ptr %v.32, i64 -4096
  store ptr %at.33, ptr %home_at.31
  %home_limit_at.34 = getelementptr i8, ptr %context, i64 120
  store ptr %limit.24, ptr %home_limit_at.34
  br label %after.29
after.29:
  %stack_left_at.35 = getelementptr i8, ptr %context, i64 104
  store i64 %left.10, ptr %stack_left_at.35
  %stack_limit_at.36 = getelementptr i8, ptr %context, i64 56
  %at.37 = getelementptr [1 x i8], ptr %segment.18, i64 1048576
  store ptr %at.37, ptr %stack_limit_at.36
  %at.38 = getelementptr [1 x i8], ptr %segment.18, i64 %v.7
  %v.39 = ptrtoint ptr %context to i64
  %v.40 = ptrtoint ptr %args to i64
  %v.41 = ptrtoint ptr %register to i64
  %status.42 = call i32 @run_on(ptr %at.38, ptr %code, i64 %v.39, i64 %v.40, i64 %v.41, i64 0, i64 0)
  %stack_limit_at.43 = getelementptr i8, ptr %context, i64 56
  store ptr %limit.24, ptr %stack_limit_at.43
  %stack_left_at.44 = getelementptr i8, ptr %context, i64 104
  %v.45 = add i64 %left.10, %v.7
  store i64 %v.45, ptr %stack_left_at.44
  %home_at.46 = getelementptr i8, ptr %context, i64 112
  store ptr %home.26, ptr %home_at.46
  call void @free(ptr %segment.18)
  ret i32 %status.42
}

; Call a function of the host on the thread's own stack. It may call the program, which has what is left
; of that stack, and segments again.
define internal i32 @call_at_home(ptr %context, ptr %code, i64 %function, ptr %args, i64 %count, ptr %register) {
entry:
  %home_at.1 = getelementptr i8, ptr %context, i64 112
  %home.2 = load ptr, ptr %home_at.1
  %stack_limit_at.3 = getelementptr i8, ptr %context, i64 56
  %limit.4 = load ptr, ptr %stack_limit_at.3
  %home_at.5 = getelementptr i8, ptr %context, i64 112
  store ptr null, ptr %home_at.5
  %stack_limit_at.6 = getelementptr i8, ptr %context, i64 56
  %home_limit_at.7 = getelementptr i8, ptr %context, i64 120
  %v.8 = load ptr, ptr %home_limit_at.7
  store ptr %v.8, ptr %stack_limit_at.6
  %v.11 = ptrtoint ptr %home.2 to i64
  %v.12 = and i64 %v.11, 63
  %v.13 = sub i64 0, %v.12
  %at.14 = getelementptr [1 x i8], ptr %home.2, i64 %v.13
  %v.15 = ptrtoint ptr %context to i64
  %v.16 = ptrtoint ptr %args to i64
  %v.17 = ptrtoint ptr %register to i64
  %status.18 = call i32 @run_on(ptr %at.14, ptr %code, i64 %v.15, i64 %function, i64 %v.16, i64 %count, i64 %v.17)
  %home_at.19 = getelementptr i8, ptr %context, i64 112
  store ptr %home.2, ptr %home_at.19
  %stack_limit_at.20 = getelementptr i8, ptr %context, i64 56
  store ptr %limit.4, ptr %stack_limit_at.20
  ret i32 %status.18
}

; What comes before each call of a function of the program, and each turn of a loop: a program without
; end ends here, where the host says so, which an interrupt makes it do.
define i32 @heddle_turn(ptr %context) "heddle-simplified" {
entry:
  %turns_at.1 = getelementptr i8, ptr %context, i64 128
  %v.2 = load i64, ptr %turns_at.1
  %turns.3 = add i64 %v.2, 1
  %turns_at.4 = getelementptr i8, ptr %context, i64 128
  store i64 %turns.3, ptr %turns_at.4
  %asks_at.8 = getelementptr i8, ptr %context, i64 136
  %v.9 = load i64, ptr %asks_at.8
  %v.10 = icmp eq i64 %v.9, 0
  %v.11 = and i64 %turns.3, 15
  %v.12 = icmp ne i64 %v.11, 0
  %v.13 = or i1 %v.10, %v.12
  br i1 %v.13, label %then.5, label %after.7
then.5:
  ret i32 0
after.7:
  %v.14 = call i32 @ask_host(ptr %context)
  ret i32 %v.14
}

; Fail where the host wants the program to end.
define internal i32 @ask_host(ptr %context) cold noinline {
entry:
  %room.1 = alloca [16 x i8], i64 1, align 16
  %home_at.7 = getelementptr i8, ptr %context, i64 112
  %v.8 = load ptr, ptr %home_at.7
  %v.9 = icmp ne ptr %v.8, null
  br i1 %v.9, label %then.4, label %after.6
then.4:
  %host_call_at.10 = getelementptr i8, ptr %context, i64 24
  %v.11 = load ptr, ptr %host_call_at.10
  %v.12 = call i32 @call_at_home(ptr %context, ptr %v.11, i64 -2, ptr null, i64 0, ptr %room.1)
  br label %call_host_end.3
after.6:
  %host_call_at.13 = getelementptr i8, ptr %context, i64 24
  %v.14 = load ptr, ptr %host_call_at.13
  %v.15 = call i32 %v.14(ptr %context, i64 -2, ptr null, i64 0, ptr %room.1)
  br label %call_host_end.3
call_host_end.3:
  %result.0.16 = phi i32 [ %v.12, %then.4 ], [ %v.15, %after.6 ]
  ret i32 %result.0.16
}

; Run the code of a function. One that ends with a call of another function, which may come back to it,
; leaves that call as a closure in the register, and its frame is gone. The call is made here, and the next
; one: a cycle of calls in tail position takes the space of one frame.
define internal i32 @run_code(ptr %context, ptr %code, ptr %args, ptr %register) {
entry:
  %v.4 = call i32 @heddle_turn(ptr %context)
  %v.5 = icmp ne i32 %v.4, 0
  br i1 %v.5, label %then.1, label %after.3
then.1:
  ret i32 -1
after.3:
  %status.6 = call i32 %code(ptr %context, ptr %args, ptr %register)
  br label %loop.7
loop.7:
  %status.10 = phi i32 [ %status.6, %after.3 ], [ %status.32, %after.26 ]
  %v.11 = icmp eq i32 %status.10, 1
  br i1 %v.11, label %body.8, label %after.9
body.8:
  %payload_at.16 = getelementptr i8, ptr %register, i64 8
  %v.17 = load ptr, ptr %payload_at.16
  store i32 0, ptr %register
  %functions_at.18 = getelementptr i8, ptr %context, i64 16
  %v.19 = load ptr, ptr %functions_at.18
  %v.20 = load i64, ptr %v.17
  %at.21 = getelementptr [16 x i8], ptr %v.19, i64 %v.20
  %v.22 = load ptr, ptr %at.21
  %status.23 = call i32 @heddle_turn(ptr %context)
  %v.27 = icmp eq i32 %status.23, 0
  br i1 %v.27, label %then.24, label %after.26
then.24:
  %at.30 = getelementptr [16 x i8], ptr %v.17, i64 1
  %status.31 = call i32 %v.22(ptr %context, ptr %at.30, ptr %register)
  br label %after.26
after.26:
  %status.32 = phi i32 [ %status.23, %body.8 ], [ %status.31, %then.24 ]
  call void @heddle_release(ptr %context, i32 10, ptr %v.17)
  br label %loop.7
after.9:
  ret i32 %status.10
}

; Call a function of the program, or of the host. Arguments are lent. Where their number is wrong the
; host says so in its words.
define i32 @heddle_call(ptr %context, ptr %register, i64 %function, ptr %args, i64 %count) {
entry:
  %functions_at.1 = getelementptr i8, ptr %context, i64 16
  %v.2 = load ptr, ptr %functions_at.1
  %at.3 = getelementptr [16 x i8], ptr %v.2, i64 %function
  %v.4 = load ptr, ptr %at.3
  %v.9 = icmp ne ptr %v.4, null
  br i1 %v.9, label %and.8, label %after.7
and.8:
  %num_args_at.10 = getelementptr i8, ptr %at.3, i64 8
  %v.11 = load i64, ptr %num_args_at.10
  %v.12 = icmp eq i64 %v.11, %count
  br i1 %v.12, label %then.5, label %after.7
then.5:
  %v.13 = call i32 @run_code(ptr %context, ptr %v.4, ptr %args, ptr %register)
  ret i32 %v.13
after.7:
  %home_at.19 = getelementptr i8, ptr %context, i64 112
  %v.20 = load ptr, ptr %home_at.19
  %v.21 = icmp ne ptr %v.20, null
  br i1 %v.21, label %then.16, label %after.18
then.16:
  %host_call_at.22 = getelementptr i8, ptr %context, i64 24
  %v.23 = load ptr, ptr %host_call_at.22
  %v.24 = call i32 @call_at_home(ptr %context, ptr %v.23, i64 %function, ptr %args, i64 %count, ptr %register)
  br label %call_host_end.15
after.18:
  %host_call_at.25 = getelementptr i8, ptr %context, i64 24
  %v.26 = load ptr, ptr %host_call_at.25
  %v.27 = call i32 %v.26(ptr %context, i64 %function, ptr %args, i64 %count, ptr %register)
  br label %call_host_end.15
call_host_end.15:
  %result.0.28 = phi i32 [ %v.24, %then.16 ], [ %v.27, %after.18 ]
  ret i32 %result.0.28
}

; Call a closure with more arguments before its bound ones, or what the host can call.
define i32 @heddle_invoke(ptr %context, ptr %register, ptr %callee, ptr %args, i64 %count) {
entry:
  %v.4 = load i32, ptr %callee
  %v.5 = icmp ne i32 %v.4, 10
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %v.6 = add i64 %count, 1
  %room.7 = alloca [16 x i8], i64 %v.6, align 16
  call void @llvm.memcpy.p0.p0.i64(ptr %room.7, ptr %callee, i64 16, i1 false)
  %at.8 = getelementptr [16 x i8], ptr %room.7, i64 1
  %size.9 = mul i64 %count, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %at.8, ptr %args, i64 %size.9, i1 false)
  %v.10 = add i64 %count, 1
  %home_at.16 = getelementptr i8, ptr %context, i64 112
  %v.17 = load ptr, ptr %home_at.16
  %v.18 = icmp ne ptr %v.17, null
  br i1 %v.18, label %then.13, label %after.15
then.13:
  %host_call_at.19 = getelementptr i8, ptr %context, i64 24
  %v.20 = load ptr, ptr %host_call_at.19
  %v.21 = call i32 @call_at_home(ptr %context, ptr %v.20, i64 -1, ptr %room.7, i64 %v.10, ptr %register)
  br label %call_host_end.12
after.15:
  %host_call_at.22 = getelementptr i8, ptr %context, i64 24
  %v.23 = load ptr, ptr %host_call_at.22
  %v.24 = call i32 %v.23(ptr %context, i64 -1, ptr %room.7, i64 %v.10, ptr %register)
  br label %call_host_end.12
call_host_end.12:
  %result.0.25 = phi i32 [ %v.21, %then.13 ], [ %v.24, %after.15 ]
  ret i32 %result.0.25
after.3:
  %payload_at.30 = getelementptr i8, ptr %callee, i64 8
  %v.31 = load ptr, ptr %payload_at.30
  %num_bound_at.32 = getelementptr i8, ptr %v.31, i64 8
  %bound.33 = load i64, ptr %num_bound_at.32
  %v.34 = add i64 %count, %bound.33
  %room.35 = alloca [16 x i8], i64 %v.34, align 16
  %size.36 = mul i64 %count, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %room.35, ptr %args, i64 %size.36, i1 false)
  %at.37 = getelementptr [16 x i8], ptr %room.35, i64 %count
  %at.40 = getelementptr [16 x i8], ptr %v.31, i64 1
  %size.41 = mul i64 %bound.33, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %at.37, ptr %at.40, i64 %size.41, i1 false)
  %at.46 = getelementptr [1 x i8], ptr %v.31, i64 -32
  %v.47 = load i64, ptr %at.46
  %v.48 = add i64 %v.47, 1
  store i64 %v.48, ptr %at.46
  %v.49 = load i64, ptr %v.31
  %v.50 = add i64 %count, %bound.33
  %status.51 = call i32 @heddle_call(ptr %context, ptr %register, i64 %v.49, ptr %room.35, i64 %v.50)
  call void @heddle_release(ptr %context, i32 10, ptr %v.31)
  ret i32 %status.51
}

; Call a function of the program or of the host, with operands that are spelled out.
;
; `words`: the function's number, the place of the call, the number of operands, then for each its
; `Operand` and its number. `args` is room for the operands.
define i32 @heddle_call_by_words(ptr %context, ptr %registers, ptr %register, ptr %words, ptr %args) {
entry:
  %call_place_at.1 = getelementptr i8, ptr %context, i64 80
  %at.2 = getelementptr [8 x i8], ptr %words, i64 1
  %v.3 = load i64, ptr %at.2
  store i64 %v.3, ptr %call_place_at.1
  %at.4 = getelementptr [8 x i8], ptr %words, i64 2
  %count.5 = load i64, ptr %at.4
  br label %loop.6
loop.6:
  %number.9 = phi i64 [ 0, %entry ], [ %number.36, %after.24 ]
  %v.10 = icmp slt i64 %number.9, %count.5
  br i1 %v.10, label %body.7, label %after.8
body.7:
  %at.11 = getelementptr [16 x i8], ptr %args, i64 %number.9
  %v.12 = mul i64 2, %number.9
  %v.13 = add i64 3, %v.12
  %at.14 = getelementptr [8 x i8], ptr %words, i64 %v.13
  %v.15 = load i64, ptr %at.14
  %v.16 = mul i64 2, %number.9
  %v.17 = add i64 4, %v.16
  %at.18 = getelementptr [8 x i8], ptr %words, i64 %v.17
  %v.19 = load i64, ptr %at.18
  %v.25 = icmp eq i64 %v.15, 256
  br i1 %v.25, label %then.22, label %else.23
then.22:
  %at.26 = getelementptr [16 x i8], ptr %registers, i64 %v.19
  call void @llvm.memcpy.p0.p0.i64(ptr %at.11, ptr %at.26, i64 16, i1 false)
  br label %after.24
else.23:
  %v.30 = icmp eq i64 %v.15, 257
  br i1 %v.30, label %then.27, label %else.28
then.27:
  %constants_at.31 = getelementptr i8, ptr %context, i64 8
  %v.32 = load ptr, ptr %constants_at.31
  %at.33 = getelementptr [16 x i8], ptr %v.32, i64 %v.19
  call void @llvm.memcpy.p0.p0.i64(ptr %at.11, ptr %at.33, i64 16, i1 false)
  br label %after.29
else.28:
  %v.34 = trunc i64 %v.15 to i32
  store i32 %v.34, ptr %at.11
  %payload_at.35 = getelementptr i8, ptr %at.11, i64 8
  store i64 %v.19, ptr %payload_at.35
  br label %after.29
after.29:
  br label %after.24
after.24:
  %number.36 = add i64 %number.9, 1
  br label %loop.6
after.8:
  %at.37 = getelementptr [8 x i8], ptr %words, i64 0
  %v.38 = load i64, ptr %at.37
  %v.39 = call i32 @heddle_call(ptr %context, ptr %register, i64 %v.38, ptr %args, i64 %count.5)
  ret i32 %v.39
}

; Enter a function: arguments become its first registers.
define void @heddle_enter(ptr %context, ptr %registers, ptr %args, i64 %count) "heddle-simplified" {
entry:
  br label %loop.3
loop.3:
  %number.6 = phi i64 [ 0, %entry ], [ %number.50, %after.29 ]
  %v.7 = icmp slt i64 %number.6, %count
  br i1 %v.7, label %body.4, label %after.5
body.4:
  %at.8 = getelementptr [16 x i8], ptr %args, i64 %number.6
  %at.9 = getelementptr [16 x i8], ptr %registers, i64 %number.6
  %kind.10 = load i32, ptr %at.8
  %payload_at.15 = getelementptr i8, ptr %at.8, i64 8
  %v.16 = load ptr, ptr %payload_at.15
  %zero_at.17 = getelementptr i8, ptr %at.9, i64 4
  %zero_at.18 = getelementptr i8, ptr %at.8, i64 4
  %v.19 = load i32, ptr %zero_at.18
  store i32 %v.19, ptr %zero_at.17
  store i32 %kind.10, ptr %at.9
  %payload_at.24 = getelementptr i8, ptr %at.9, i64 8
  store ptr %v.16, ptr %payload_at.24
  %v.30 = icmp sge i32 %kind.10, 7
  br i1 %v.30, label %then.27, label %after.29
then.27:
  %v.34 = icmp eq i32 %kind.10, 11
  br i1 %v.34, label %then.31, label %else.32
then.31:
  %at.41 = getelementptr [1 x i8], ptr %v.16, i64 -32
  %v.42 = atomicrmw add ptr %at.41, i64 1 monotonic
  br label %after.33
else.32:
  %at.47 = getelementptr [1 x i8], ptr %v.16, i64 -32
  %v.48 = load i64, ptr %at.47
  %v.49 = add i64 %v.48, 1
  store i64 %v.49, ptr %at.47
  br label %after.33
after.33:
  br label %after.29
after.29:
  %number.50 = add i64 %number.6, 1
  br label %loop.3
after.5:
  ret void
}

; The function ends: its result moves to the caller's register, what is left in its own is dropped.
define void @heddle_leave(ptr %context, ptr %registers, i64 %count, ptr %value, ptr %result) "heddle-simplified" {
entry:
  call void @heddle_copy(ptr %context, ptr %result, ptr %value)
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %count)
  ret void
}

; The function fails at an instruction: the innermost place is kept.
define void @heddle_fail(ptr %context, ptr %registers, i64 %count, i64 %place) {
entry:
  %error_place_at.4 = getelementptr i8, ptr %context, i64 48
  %v.5 = load i64, ptr %error_place_at.4
  %v.6 = icmp eq i64 %v.5, -1
  br i1 %v.6, label %then.1, label %after.3
then.1:
  %error_place_at.7 = getelementptr i8, ptr %context, i64 48
  store i64 %place, ptr %error_place_at.7
  br label %after.3
after.3:
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %count)
  ret void
}

; A call of itself in tail position: the arguments become the first registers of the same frame, all
; others are dropped.
define void @heddle_again(ptr %context, ptr %registers, i64 %registers_count, ptr %args, i64 %count) "heddle-simplified" {
entry:
  %room.1 = alloca [16 x i8], i64 %count, align 16
  br label %loop.4
loop.4:
  %number.7 = phi i64 [ 0, %entry ], [ %number.51, %after.30 ]
  %v.8 = icmp slt i64 %number.7, %count
  br i1 %v.8, label %body.5, label %after.6
body.5:
  %at.9 = getelementptr [16 x i8], ptr %args, i64 %number.7
  %at.10 = getelementptr [16 x i8], ptr %room.1, i64 %number.7
  %kind.11 = load i32, ptr %at.9
  %payload_at.16 = getelementptr i8, ptr %at.9, i64 8
  %v.17 = load ptr, ptr %payload_at.16
  %zero_at.18 = getelementptr i8, ptr %at.10, i64 4
  %zero_at.19 = getelementptr i8, ptr %at.9, i64 4
  %v.20 = load i32, ptr %zero_at.19
  store i32 %v.20, ptr %zero_at.18
  store i32 %kind.11, ptr %at.10
  %payload_at.25 = getelementptr i8, ptr %at.10, i64 8
  store ptr %v.17, ptr %payload_at.25
  %v.31 = icmp sge i32 %kind.11, 7
  br i1 %v.31, label %then.28, label %after.30
then.28:
  %v.35 = icmp eq i32 %kind.11, 11
  br i1 %v.35, label %then.32, label %else.33
then.32:
  %at.42 = getelementptr [1 x i8], ptr %v.17, i64 -32
  %v.43 = atomicrmw add ptr %at.42, i64 1 monotonic
  br label %after.34
else.33:
  %at.48 = getelementptr [1 x i8], ptr %v.17, i64 -32
  %v.49 = load i64, ptr %at.48
  %v.50 = add i64 %v.49, 1
  store i64 %v.50, ptr %at.48
  br label %after.34
after.34:
  br label %after.30
after.30:
  %number.51 = add i64 %number.7, 1
  br label %loop.4
after.6:
  call void @heddle_release_all(ptr %context, ptr %registers, i64 %registers_count)
  %size.52 = mul i64 %count, 16
  call void @llvm.memcpy.p0.p0.i64(ptr %registers, ptr %room.1, i64 %size.52, i1 false)
  ret void
}

; The number of sizes of a tensor or shape, their address to `sizes`; UNKNOWN for something else.
define i64 @heddle_sizes(ptr %value, ptr %sizes) {
entry:
  %v.4 = load i32, ptr %value
  %v.5 = icmp eq i32 %v.4, 7
  br i1 %v.5, label %then.1, label %after.3
then.1:
  %payload_at.10 = getelementptr i8, ptr %value, i64 8
  %v.11 = load ptr, ptr %payload_at.10
  %sizes_at.12 = getelementptr i8, ptr %v.11, i64 24
  %v.13 = load ptr, ptr %sizes_at.12
  store ptr %v.13, ptr %sizes
  %rank_at.14 = getelementptr i8, ptr %v.11, i64 16
  %v.15 = load i32, ptr %rank_at.14
  %v.16 = sext i32 %v.15 to i64
  ret i64 %v.16
after.3:
  %v.20 = load i32, ptr %value
  %v.21 = icmp eq i32 %v.20, 8
  br i1 %v.21, label %then.17, label %after.19
then.17:
  %payload_at.26 = getelementptr i8, ptr %value, i64 8
  %v.27 = load ptr, ptr %payload_at.26
  %at.30 = getelementptr [8 x i8], ptr %v.27, i64 1
  store ptr %at.30, ptr %sizes
  %v.31 = load i64, ptr %v.27
  ret i64 %v.31
after.19:
  ret i64 -1
}

; The truth of an int, bool, or only element of an int or bool tensor: 0 or 1; UNKNOWN where the host has
; to say.
define i32 @heddle_condition(ptr %value) {
entry:
  %kind.1 = load i32, ptr %value
  %v.6 = icmp eq i32 %kind.1, 1
  br i1 %v.6, label %then.2, label %or.5
or.5:
  %v.7 = icmp eq i32 %kind.1, 2
  br i1 %v.7, label %then.2, label %after.4
then.2:
  %payload_at.8 = getelementptr i8, ptr %value, i64 8
  %v.9 = load i64, ptr %payload_at.8
  %v.10 = icmp ne i64 %v.9, 0
  %v.11 = zext i1 %v.10 to i32
  ret i32 %v.11
after.4:
  %v.15 = icmp ne i32 %kind.1, 7
  br i1 %v.15, label %then.12, label %after.14
then.12:
  ret i32 -1
after.14:
  %payload_at.20 = getelementptr i8, ptr %value, i64 8
  %v.21 = load ptr, ptr %payload_at.20
  %rank_at.25 = getelementptr i8, ptr %v.21, i64 16
  %v.26 = load i32, ptr %rank_at.25
  %v.27 = icmp ne i32 %v.26, 0
  br i1 %v.27, label %then.22, label %after.24
then.22:
  ret i32 -1
after.24:
  %dtype_at.28 = getelementptr i8, ptr %v.21, i64 20
  %v.29 = load i32, ptr %dtype_at.28
  %code.30 = and i32 %v.29, 255
  %v.35 = icmp ne i32 %code.30, 0
  br i1 %v.35, label %and.34, label %after.33
and.34:
  %v.37 = icmp ne i32 %code.30, 1
  br i1 %v.37, label %and.36, label %after.33
and.36:
  %v.38 = icmp ne i32 %code.30, 6
  br i1 %v.38, label %then.31, label %after.33
then.31:
  ret i32 -1
after.33:
  %dtype_at.39 = getelementptr i8, ptr %v.21, i64 20
  %v.40 = load i32, ptr %dtype_at.39
  %v.43 = lshr i32 %v.40, 8
  %v.44 = and i32 %v.43, 255
  %v.45 = lshr i32 %v.40, 16
  %v.46 = mul i32 %v.44, %v.45
  %v.47 = add i32 %v.46, 7
  %v.48 = lshr i32 %v.47, 3
  %v.49 = zext i32 %v.48 to i64
  %v.53 = icmp eq i64 %v.49, 1
  br i1 %v.53, label %then.50, label %after.52
then.50:
  %v.54 = load ptr, ptr %v.21
  %v.55 = load i8, ptr %v.54
  %v.56 = icmp ne i8 %v.55, 0
  %v.57 = zext i1 %v.56 to i32
  ret i32 %v.57
after.52:
  %v.61 = icmp eq i64 %v.49, 2
  br i1 %v.61, label %then.58, label %after.60
then.58:
  %v.62 = load ptr, ptr %v.21
  %v.63 = load i16, ptr %v.62
  %v.64 = icmp ne i16 %v.63, 0
  %v.65 = zext i1 %v.64 to i32
  ret i32 %v.65
after.60:
  %v.69 = icmp eq i64 %v.49, 4
  br i1 %v.69, label %then.66, label %after.68
then.66:
  %v.70 = load ptr, ptr %v.21
  %v.71 = load i32, ptr %v.70
  %v.72 = icmp ne i32 %v.71, 0
  %v.73 = zext i1 %v.72 to i32
  ret i32 %v.73
after.68:
  %v.78 = icmp eq i64 %v.49, 8
  br i1 %v.78, label %yes.75, label %no.76
yes.75:
  %v.79 = load ptr, ptr %v.21
  %v.80 = load i64, ptr %v.79
  %v.81 = icmp ne i64 %v.80, 0
  %v.82 = zext i1 %v.81 to i32
  br label %chosen.77
no.76:
  br label %chosen.77
chosen.77:
  %v.74.83 = phi i32 [ %v.82, %yes.75 ], [ -1, %no.76 ]
  ret i32 %v.74.83
}

; Clear the register of a tensor of the frame, which may hold an object in its place.
define void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor) {
entry:
  %v.11 = load i32, ptr %register
  %v.12 = icmp eq i32 %v.11, 7
  br i1 %v.12, label %and.10, label %no.8
and.10:
  %payload_at.17 = getelementptr i8, ptr %register, i64 8
  %v.18 = load ptr, ptr %payload_at.17
  %v.19 = icmp eq ptr %v.18, %tensor
  br i1 %v.19, label %yes.7, label %no.8
yes.7:
  br label %chosen.9
no.8:
  br label %chosen.9
chosen.9:
  %v.6.20 = phi i1 [ true, %yes.7 ], [ false, %no.8 ]
  br i1 %v.6.20, label %then.1, label %after.3
then.1:
  store i32 0, ptr %register
  %at.23 = getelementptr [1 x i8], ptr %tensor, i64 -32
  %owner_at.24 = getelementptr i8, ptr %at.23, i64 16
  %v.25 = load ptr, ptr %owner_at.24
  %at.30 = getelementptr [1 x i8], ptr %v.25, i64 -32
  %v.34 = load i64, ptr %at.30
  %v.35 = icmp eq i64 %v.34, 1
  br i1 %v.35, label %then.31, label %else.32
then.31:
  call void @pool_give(ptr %v.25)
  br label %after.33
else.32:
  %v.36 = load i64, ptr %at.30
  %v.37 = sub i64 %v.36, 1
  store i64 %v.37, ptr %at.30
  br label %after.33
after.33:
  ret void
after.3:
  %kind.40 = load i32, ptr %register
  store i32 0, ptr %register
  %v.44 = icmp sge i32 %kind.40, 7
  br i1 %v.44, label %then.41, label %after.43
then.41:
  %payload_at.49 = getelementptr i8, ptr %register, i64 8
  %v.50 = load ptr, ptr %payload_at.49
  call void @heddle_release(ptr %context, i32 %kind.40, ptr %v.50)
  br label %after.43
after.43:
  ret void
}

; Clear the register of a storage that is the frame's alone.
define void @heddle_drop_storage(ptr %register) {
entry:
  %v.4 = load i32, ptr %register
  %v.5 = icmp eq i32 %v.4, 11
  br i1 %v.5, label %then.1, label %after.3
then.1:
  store i32 0, ptr %register
  %payload_at.10 = getelementptr i8, ptr %register, i64 8
  %v.11 = load ptr, ptr %payload_at.10
  %at.16 = getelementptr [1 x i8], ptr %v.11, i64 -32
  %v.20 = load i64, ptr %at.16
  %v.21 = icmp eq i64 %v.20, 1
  br i1 %v.21, label %then.17, label %else.18
then.17:
  call void @pool_give(ptr %v.11)
  br label %after.19
else.18:
  %v.22 = load i64, ptr %at.16
  %v.23 = sub i64 %v.22, 1
  store i64 %v.23, ptr %at.16
  br label %after.19
after.19:
  br label %after.3
after.3:
  ret void
}

; Set the error V0408 with the kind that a register holds.
define internal void @wrong_kind(ptr %message, ptr %register) cold noinline {
entry:
  %v.1 = call i64 @heddle_kind_of(ptr %register)
  call void @heddle_set_error(i32 104448, ptr %message, i64 0, i64 %v.1)
  ret void
}

; A tensor of the frame over bytes `start` to `end` of the storage in register `source`.
;
; `end` is negative where the sizes are so large that their product was not computed, or below 0. What does
; not fit becomes an object, or an error. Result: DONE, or FAILED with the error set.
define i32 @heddle_frame_tensor(ptr %context, ptr %register, ptr %tensor, ptr %source, i64 %start, i64 %end, i64 %word, ptr %sizes) {
entry:
  %v.4 = load i32, ptr %source
  %v.5 = icmp ne i32 %v.4, 11
  br i1 %v.5, label %then.1, label %after.3
then.1:
  call void @wrong_kind(ptr @expected_storage, ptr %source)
  ret i32 -1
after.3:
  %payload_at.10 = getelementptr i8, ptr %source, i64 8
  %v.11 = load ptr, ptr %payload_at.10
  %v.15 = load i64, ptr %v.11
  %v.16 = icmp ugt i64 %end, %v.15
  br i1 %v.16, label %then.12, label %after.14
then.12:
  %v.17 = trunc i64 %word to i32
  %v.18 = sext i32 %v.17 to i64
  %v.19 = ashr i64 %word, 32
  %v.20 = trunc i64 %v.19 to i32
  %v.21 = call i32 @heddle_alloc_tensor(ptr %context, ptr %register, ptr %v.11, i64 %start, i64 %v.18, ptr %sizes, i32 %v.20)
  ret i32 %v.21
after.14:
  %at.24 = getelementptr [32 x i8], ptr %v.11, i64 1
  %at.25 = getelementptr [1 x i8], ptr %at.24, i64 %start
  %v.31 = load i32, ptr %register
  %v.32 = icmp ne i32 %v.31, 0
  br i1 %v.32, label %then.28, label %after.30
then.28:
  call void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor)
  br label %after.30
after.30:
  %at.35 = getelementptr [1 x i8], ptr %v.11, i64 -32
  %v.36 = load i64, ptr %at.35
  %v.37 = add i64 %v.36, 1
  store i64 %v.37, ptr %at.35
  %at.40 = getelementptr [1 x i8], ptr %tensor, i64 -32
  store i64 1, ptr %at.40
  %kind_at.41 = getelementptr i8, ptr %at.40, i64 8
  store i32 7, ptr %kind_at.41
  %flags_at.42 = getelementptr i8, ptr %at.40, i64 12
  store i32 4, ptr %flags_at.42
  %owner_at.43 = getelementptr i8, ptr %at.40, i64 16
  store ptr %v.11, ptr %owner_at.43
  store ptr %at.25, ptr %tensor
  %device_type_at.44 = getelementptr i8, ptr %tensor, i64 8
  %device_type_at.45 = getelementptr i8, ptr %v.11, i64 16
  %v.46 = load i32, ptr %device_type_at.45
  store i32 %v.46, ptr %device_type_at.44
  %device_id_at.47 = getelementptr i8, ptr %tensor, i64 12
  %device_id_at.48 = getelementptr i8, ptr %v.11, i64 20
  %v.49 = load i32, ptr %device_id_at.48
  store i32 %v.49, ptr %device_id_at.47
  %rank_at.50 = getelementptr i8, ptr %tensor, i64 16
  %v.51 = trunc i64 %word to i32
  store i32 %v.51, ptr %rank_at.50
  %dtype_at.52 = getelementptr i8, ptr %tensor, i64 20
  %v.53 = ashr i64 %word, 32
  %v.54 = trunc i64 %v.53 to i32
  store i32 %v.54, ptr %dtype_at.52
  %sizes_at.55 = getelementptr i8, ptr %tensor, i64 24
  store ptr %sizes, ptr %sizes_at.55
  %strides_at.56 = getelementptr i8, ptr %tensor, i64 32
  store ptr null, ptr %strides_at.56
  %byte_offset_at.57 = getelementptr i8, ptr %tensor, i64 40
  store i64 0, ptr %byte_offset_at.57
  store i32 7, ptr %register
  %payload_at.62 = getelementptr i8, ptr %register, i64 8
  store ptr %tensor, ptr %payload_at.62
  ret i32 0
}

; A view of the frame: `count` elements of the tensor in register `source`, whose place in the frame is
; `viewed` and which has `old_count`. Counts are negative where they were not computed, or below 0.
define i32 @heddle_frame_view(ptr %context, ptr %register, ptr %tensor, ptr %source, ptr %viewed, i64 %old_count, i64 %count, i64 %word, ptr %sizes) {
entry:
  %v.12 = load i32, ptr %source
  %v.13 = icmp eq i32 %v.12, 7
  br i1 %v.13, label %and.11, label %no.9
and.11:
  %payload_at.18 = getelementptr i8, ptr %source, i64 8
  %v.19 = load ptr, ptr %payload_at.18
  %v.20 = icmp eq ptr %v.19, %viewed
  br i1 %v.20, label %yes.8, label %no.9
yes.8:
  br label %chosen.10
no.9:
  br label %chosen.10
chosen.10:
  %v.7.21 = phi i1 [ true, %yes.8 ], [ false, %no.9 ]
  br i1 %v.7.21, label %or.4, label %then.1
or.4:
  %v.23 = icmp slt i64 %old_count, 0
  br i1 %v.23, label %then.1, label %or.22
or.22:
  %v.24 = icmp ugt i64 %count, %old_count
  br i1 %v.24, label %then.1, label %after.3
then.1:
  %v.28 = load i32, ptr %source
  %v.29 = icmp ne i32 %v.28, 7
  br i1 %v.29, label %then.25, label %after.27
then.25:
  call void @wrong_kind(ptr @expected_tensor, ptr %source)
  ret i32 -1
after.27:
  %payload_at.34 = getelementptr i8, ptr %source, i64 8
  %v.35 = load ptr, ptr %payload_at.34
  %v.36 = trunc i64 %word to i32
  %v.37 = sext i32 %v.36 to i64
  %v.38 = call i32 @heddle_reshape(ptr %context, ptr %register, ptr %v.35, i64 %v.37, ptr %sizes)
  ret i32 %v.38
after.3:
  %at.41 = getelementptr [1 x i8], ptr %viewed, i64 -32
  %owner_at.42 = getelementptr i8, ptr %at.41, i64 16
  %v.43 = load ptr, ptr %owner_at.42
  %v.44 = load ptr, ptr %viewed
  %v.50 = load i32, ptr %register
  %v.51 = icmp ne i32 %v.50, 0
  br i1 %v.51, label %then.47, label %after.49
then.47:
  call void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor)
  br label %after.49
after.49:
  %at.54 = getelementptr [1 x i8], ptr %v.43, i64 -32
  %v.55 = load i64, ptr %at.54
  %v.56 = add i64 %v.55, 1
  store i64 %v.56, ptr %at.54
  %at.59 = getelementptr [1 x i8], ptr %tensor, i64 -32
  store i64 1, ptr %at.59
  %kind_at.60 = getelementptr i8, ptr %at.59, i64 8
  store i32 7, ptr %kind_at.60
  %flags_at.61 = getelementptr i8, ptr %at.59, i64 12
  store i32 4, ptr %flags_at.61
  %owner_at.62 = getelementptr i8, ptr %at.59, i64 16
  store ptr %v.43, ptr %owner_at.62
  store ptr %v.44, ptr %tensor
  %device_type_at.63 = getelementptr i8, ptr %tensor, i64 8
  %device_type_at.64 = getelementptr i8, ptr %v.43, i64 16
  %v.65 = load i32, ptr %device_type_at.64
  store i32 %v.65, ptr %device_type_at.63
  %device_id_at.66 = getelementptr i8, ptr %tensor, i64 12
  %device_id_at.67 = getelementptr i8, ptr %v.43, i64 20
  %v.68 = load i32, ptr %device_id_at.67
  store i32 %v.68, ptr %device_id_at.66
  %rank_at.69 = getelementptr i8, ptr %tensor, i64 16
  %v.70 = trunc i64 %word to i32
  store i32 %v.70, ptr %rank_at.69
  %dtype_at.71 = getelementptr i8, ptr %tensor, i64 20
  %v.72 = ashr i64 %word, 32
  %v.73 = trunc i64 %v.72 to i32
  store i32 %v.73, ptr %dtype_at.71
  %sizes_at.74 = getelementptr i8, ptr %tensor, i64 24
  store ptr %sizes, ptr %sizes_at.74
  %strides_at.75 = getelementptr i8, ptr %tensor, i64 32
  store ptr null, ptr %strides_at.75
  %byte_offset_at.76 = getelementptr i8, ptr %tensor, i64 40
  store i64 0, ptr %byte_offset_at.76
  store i32 7, ptr %register
  %payload_at.81 = getelementptr i8, ptr %register, i64 8
  store ptr %tensor, ptr %payload_at.81
  ret i32 0
}
