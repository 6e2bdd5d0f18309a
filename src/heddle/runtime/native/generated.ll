; Made by `python -m heddle.driver.native_text` from the sources in source/; change those instead.

%Value = type { i32, i32, i64 }
%Error = type { i32, i32, i64, i64, [488 x i8] }
%ScratchHead = type { i64, [7 x i64] }
%Block = type { ptr, i64 }
%Thread = type { %Error, i32, i32, [8 x %Block], i64, i64, ptr }
%Head = type { i64, i32, i32, ptr, i64 }
%Storage = type { i64, i64, i32, i32, i64 }
%StorageBlock = type { %Head, %Storage }
%DLTensor = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }
%Entry = type { ptr, i64 }
%Context = type { ptr, ptr, ptr, ptr, ptr, ptr, i64, ptr, i64, i64, i64, i64 }
%Pool = type { i64, i64, i64, i64, i64, i64, i64, i32, i32, i32, i32, [512 x ptr], i32 }

@thread_key = internal global i32 0, align 4
@spare_thread = internal global [672 x i8] zeroinitializer, align 64
@num_threads = internal global i32 1, align 4
@num_workers = internal global i32 0, align 4
@spin_limit = internal global i32 4000, align 4
@busy = internal global i32 0, align 64
@ticket = internal global i64 0, align 64
@done = internal global i64 0, align 64
@sleepers = internal global i32 0, align 64
@caller_waits = internal global i32 0, align 64
@job = internal global [560 x i8] zeroinitializer, align 64
@owner_cpu = internal global i32 -1, align 64
@helper_cpu = internal global i32 -2, align 64
@lock = internal global [128 x i8] zeroinitializer, align 64
@work_ready = internal global [128 x i8] zeroinitializer, align 64
@work_done = internal global [128 x i8] zeroinitializer, align 64
@inline_cycles = internal global i64 0, align 8
@wake_cycles = internal global i64 0, align 8
@costs = internal global [1536 x i8] zeroinitializer, align 64
@no_memory = internal constant [45 x i8] c"no memory for a kernel's %e bytes of scratch\00"
@no_storage = internal constant [67 x i8] c"memory limit of %e bytes reached: %g more bytes do not fit into it\00"
@no_system_memory = internal constant [42 x i8] c"the system has no %g bytes of memory left\00"
@negative_storage = internal constant [48 x i8] c"storage size must not be negative, got %g bytes\00"
@expected_storage = internal constant [77 x i8] c"vm.builtin.alloc_tensor cannot take its operands: expected a storage, got %v\00"
@expected_tensor = internal constant [71 x i8] c"vm.builtin.reshape cannot take its operands: expected a tensor, got %v\00"

declare i32 @pthread_key_create(ptr, ptr)
declare void @free(ptr)
declare ptr @calloc(i64, i64)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @strncpy(ptr, ptr, i64)
declare ptr @llvm.frameaddress.p0(i32)
$STACK_END
declare ptr @aligned_alloc(i64, i64)
$PAUSE_DECLARATION
$ON_LINUX declare i32 @madvise(ptr, i64, i32)
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
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.readcyclecounter()

define i32 @heddle_thread_setup() {
entry:
  %v.1 = call i32 @pthread_key_create(ptr @thread_key, ptr @thread_exit)
  ret i32 %v.1
}

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
  %end.9 = call ptr @stack_end()
  %v.13 = icmp ne ptr %me.2, @spare_thread
  br i1 %v.13, label %then.10, label %after.12
then.10:
  %stack_end_at.14 = getelementptr i8, ptr %me.2, i64 664
  store ptr %end.9, ptr %stack_end_at.14
  br label %after.12
after.12:
  br label %after.7
after.7:
  %end.15 = phi ptr [ %end.4, %entry ], [ %end.9, %after.12 ]
  %at.16 = getelementptr [1 x i8], ptr %end.15, i64 $STACK_RESERVE_BYTES
  %v.17 = sub i64 0, $STACK_BYTES
  %at.18 = getelementptr [1 x i8], ptr %here.1, i64 %v.17
  %v.19 = icmp ugt ptr %at.16, %at.18
  %v.20 = select i1 %v.19, ptr %at.16, ptr %at.18
  ret ptr %v.20
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
  %v.4 = call ptr @heddle_thread()
  %is_inside_at.5 = getelementptr i8, ptr %v.4, i64 512
  store i32 0, ptr %is_inside_at.5
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

define void @heddle_pool_configure(i32 %threads, i32 %spins) {
entry:
  store atomic i32 %threads, ptr @num_threads monotonic, align 4
  store atomic i32 %spins, ptr @spin_limit monotonic, align 4
  ret void
}

; Decide how the parts of a loop are run: how many indices at a time, and in which order.
define internal void @set_order(ptr %fn, i64 %extent, i64 %parts, i64 %grain, i1 %sweeps) {
entry:
  %chunk_at.1 = getelementptr i8, ptr @job, i64 24
  store i64 %extent, ptr %chunk_at.1
  %is_backwards_at.2 = getelementptr i8, ptr @job, i64 32
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
  %is_backwards_at.22 = getelementptr i8, ptr @job, i64 32
  %runs_at.23 = getelementptr i8, ptr %at.11, i64 16
  %v.24 = load i64, ptr %runs_at.23
  %v.25 = and i64 %v.24, 1
  store i64 %v.25, ptr %is_backwards_at.22
  %chunk_at.26 = getelementptr i8, ptr @job, i64 24
  %v.27 = udiv i64 %extent, %parts
  %v.28 = lshr i64 %v.27, 3
  %v.29 = call i64 @llvm.umax.i64(i64 %v.28, i64 %grain)
  store i64 %v.29, ptr %chunk_at.26
  ret void
}

; Run one part of the current job; gives the status of the first chunk that fails.
define internal i32 @run_chunks(ptr %fn, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %chunk_at.1 = getelementptr i8, ptr @job, i64 24
  %chunk.2 = load i64, ptr %chunk_at.1
  %is_backwards_at.3 = getelementptr i8, ptr @job, i64 32
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
define internal void @drain(ptr %me, ptr %cpu) {
entry:
  br label %loop.1
loop.1:
  %seen.4 = load atomic i64, ptr @ticket acquire, align 8
  %part.5 = and i64 %seen.4, 65535
  %v.6 = lshr i64 %seen.4, 16
  %parts.7 = and i64 %v.6, 65535
  %v.11 = icmp uge i64 %part.5, %parts.7
  br i1 %v.11, label %then.8, label %after.10
then.8:
  ret void
after.10:
  %v.15 = add i64 %seen.4, 1
  %pair.16 = cmpxchg ptr @ticket, i64 %seen.4, i64 %v.15 acq_rel acquire
  %v.17 = extractvalue { i64, i1 } %pair.16, 1
  br i1 %v.17, label %after.14, label %then.12
then.12:
  br label %loop.1
after.14:
  %v.18 = $CURRENT_CPU
  store atomic i32 %v.18, ptr %cpu monotonic, align 4
  %fn.21 = load ptr, ptr @job
  %extent_at.22 = getelementptr i8, ptr @job, i64 16
  %v.23 = load i64, ptr %extent_at.22
  %base.24 = udiv i64 %v.23, %parts.7
  %extent_at.25 = getelementptr i8, ptr @job, i64 16
  %v.26 = load i64, ptr %extent_at.25
  %extra.27 = urem i64 %v.26, %parts.7
  %v.28 = mul i64 %part.5, %base.24
  %v.29 = call i64 @llvm.umin.i64(i64 %part.5, i64 %extra.27)
  %begin.30 = add i64 %v.28, %v.29
  %v.31 = icmp ult i64 %part.5, %extra.27
  %v.32 = zext i1 %v.31 to i64
  %size.33 = add i64 %base.24, %v.32
  %start.34 = call i64 @llvm.readcyclecounter()
  %v.35 = add i64 %begin.30, %size.33
  %ctx_at.36 = getelementptr i8, ptr @job, i64 8
  %v.37 = load ptr, ptr %ctx_at.36
  %status.38 = call i32 @run_chunks(ptr %fn.21, i64 %begin.30, i64 %v.35, ptr %v.37)
  %cycles_at.41 = getelementptr i8, ptr %me, i64 648
  %v.42 = load i64, ptr %cycles_at.41
  %v.43 = call i64 @llvm.readcyclecounter()
  %v.44 = sub i64 %v.43, %start.34
  %v.45 = add i64 %v.42, %v.44
  store i64 %v.45, ptr %cycles_at.41
  %indices_at.46 = getelementptr i8, ptr %me, i64 656
  %v.47 = load i64, ptr %indices_at.46
  %v.48 = add i64 %v.47, %size.33
  store i64 %v.48, ptr %indices_at.46
  %v.53 = icmp ne i32 %status.38, 0
  br i1 %v.53, label %and.52, label %after.51
and.52:
  %status_at.54 = getelementptr i8, ptr @job, i64 40
  %pair.55 = cmpxchg ptr %status_at.54, i32 0, i32 %status.38 acq_rel acquire
  %v.56 = extractvalue { i32, i1 } %pair.55, 1
  br i1 %v.56, label %then.49, label %after.51
then.49:
  %error_at.57 = getelementptr i8, ptr @job, i64 48
  call void @llvm.memcpy.p0.p0.i64(ptr %error_at.57, ptr %me, i64 512, i1 false)
  br label %after.51
after.51:
  %v.62 = atomicrmw add ptr @done, i64 1 seq_cst
  %v.63 = add i64 %v.62, 1
  %v.64 = icmp eq i64 %v.63, %parts.7
  br i1 %v.64, label %and.61, label %after.60
and.61:
  %v.65 = load atomic i32, ptr @caller_waits seq_cst, align 4
  %v.66 = icmp ne i32 %v.65, 0
  br i1 %v.66, label %then.58, label %after.60
then.58:
  %v.67 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.68 = call i32 @pthread_cond_signal(ptr @work_done)
  %v.69 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %after.60
after.60:
  br label %loop.1
}

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
  %limit.9 = load atomic i32, ptr @spin_limit monotonic, align 4
  br label %loop.10
loop.10:
  %spins.13 = phi i32 [ 0, %loop.6 ], [ %spins.21, %after.24 ]
  %seen.16 = load atomic i64, ptr @ticket seq_cst, align 8
  %v.17 = and i64 %seen.16, 65535
  %v.18 = lshr i64 %seen.16, 16
  %v.19 = and i64 %v.18, 65535
  %v.20 = icmp ult i64 %v.17, %v.19
  br i1 %v.20, label %after.12, label %body.11
body.11:
  $PAUSE
  %spins.21 = add i32 %spins.13, 1
  %v.27 = $CURRENT_CPU
  %v.28 = load atomic i32, ptr @owner_cpu monotonic, align 4
  %v.29 = icmp eq i32 %v.27, %v.28
  %v.30 = icmp sge i32 %spins.21, %limit.9
  %v.31 = or i1 %v.29, %v.30
  br i1 %v.31, label %then.22, label %after.24
then.22:
  %v.34 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.35 = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %loop.36
loop.36:
  %seen.41 = load atomic i64, ptr @ticket seq_cst, align 8
  %v.42 = and i64 %seen.41, 65535
  %v.43 = lshr i64 %seen.41, 16
  %v.44 = and i64 %v.43, 65535
  %v.45 = icmp ult i64 %v.42, %v.44
  br i1 %v.45, label %after.38, label %body.37
body.37:
  %v.46 = call i32 @pthread_cond_wait(ptr @work_ready, ptr @lock)
  br label %loop.36
after.38:
  %v.47 = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  %v.48 = call i32 @pthread_mutex_unlock(ptr @lock)
  br label %after.12
after.24:
  br label %loop.10
after.12:
  %spins.49 = phi i32 [ %spins.13, %loop.10 ], [ %spins.21, %after.38 ]
  call void @drain(ptr %me.4, ptr @helper_cpu)
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
  %v.12 = zext i32 %v.11 to i64
  %parts.13 = call i64 @llvm.umin.i64(i64 %wanted.10, i64 %v.12)
  %v.14 = icmp uge i64 %wanted.10, 4
  %has_order.15 = and i1 %sweeps.7, %v.14
  %v.19 = icmp ugt i64 %parts.13, 1
  %v.20 = or i1 %v.19, %has_order.15
  br i1 %v.20, label %then.16, label %after.18
then.16:
  %me.21 = call ptr @heddle_thread()
  %is_inside_at.26 = getelementptr i8, ptr %me.21, i64 512
  %v.27 = load i32, ptr %is_inside_at.26
  %v.28 = icmp eq i32 %v.27, 0
  br i1 %v.28, label %and.25, label %after.24
and.25:
  %pair.29 = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %v.30 = extractvalue { i32, i1 } %pair.29, 1
  br i1 %v.30, label %then.22, label %after.24
then.22:
  %v.36 = icmp ule i64 %parts.13, 1
  br i1 %v.36, label %then.33, label %after.35
then.33:
  call void @set_order(ptr %fn, i64 %extent_wish, i64 1, i64 %grain.6, i1 %sweeps.7)
  %v.37 = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent_wish, ptr %ctx)
  br label %run_owned_end.32
after.35:
  %v.46 = load atomic i32, ptr @sleepers monotonic, align 4
  %v.47 = icmp eq i32 %v.46, 0
  br i1 %v.47, label %then.43, label %after.45
then.43:
  br label %is_too_small_end.42
after.45:
  %v.50 = ptrtoint ptr %fn to i64
  %v.51 = lshr i64 %v.50, 4
  %v.52 = and i64 %v.51, 63
  %at.53 = getelementptr [24 x i8], ptr @costs, i64 %v.52
  %v.57 = load ptr, ptr %at.53
  %v.58 = icmp ne ptr %v.57, %fn
  br i1 %v.58, label %then.54, label %after.56
then.54:
  br label %is_too_small_end.42
after.56:
  %v.59 = load i64, ptr @inline_cycles
  %rate_at.60 = getelementptr i8, ptr %at.53, i64 8
  %v.61 = load i64, ptr %rate_at.60
  %v.62 = mul i64 %v.61, %extent_wish
  %v.63 = lshr i64 %v.62, 10
  %total.64 = add i64 %v.59, %v.63
  %v.65 = load i64, ptr @wake_cycles
  %v.66 = shl i64 %v.65, 1
  %is_small.67 = icmp ult i64 %total.64, %v.66
  %v.68 = select i1 %is_small.67, i64 %total.64, i64 0
  store i64 %v.68, ptr @inline_cycles
  br label %is_too_small_end.42
is_too_small_end.42:
  %result.0.69 = phi i1 [ false, %then.43 ], [ false, %then.54 ], [ %is_small.67, %after.56 ]
  br i1 %result.0.69, label %then.38, label %after.40
then.38:
  %start.70 = call i64 @llvm.readcyclecounter()
  call void @set_order(ptr %fn, i64 %extent_wish, i64 1, i64 %grain.6, i1 %sweeps.7)
  %status.71 = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent_wish, ptr %ctx)
  %cycles_at.74 = getelementptr i8, ptr %me.21, i64 648
  %v.75 = load i64, ptr %cycles_at.74
  %v.76 = call i64 @llvm.readcyclecounter()
  %v.77 = sub i64 %v.76, %start.70
  %v.78 = add i64 %v.75, %v.77
  store i64 %v.78, ptr %cycles_at.74
  %indices_at.79 = getelementptr i8, ptr %me.21, i64 656
  %v.80 = load i64, ptr %indices_at.79
  %v.81 = add i64 %v.80, %extent_wish
  store i64 %v.81, ptr %indices_at.79
  %cycles_at.84 = getelementptr i8, ptr %me.21, i64 648
  %cycles.85 = load i64, ptr %cycles_at.84
  %indices_at.86 = getelementptr i8, ptr %me.21, i64 656
  %indices.87 = load i64, ptr %indices_at.86
  %cycles_at.88 = getelementptr i8, ptr %me.21, i64 648
  store i64 0, ptr %cycles_at.88
  %indices_at.89 = getelementptr i8, ptr %me.21, i64 656
  store i64 0, ptr %indices_at.89
  %v.93 = icmp ne i64 %indices.87, 0
  br i1 %v.93, label %then.90, label %after.92
then.90:
  %v.96 = ptrtoint ptr %fn to i64
  %v.97 = lshr i64 %v.96, 4
  %v.98 = and i64 %v.97, 63
  %at.99 = getelementptr [24 x i8], ptr @costs, i64 %v.98
  store ptr %fn, ptr %at.99
  %rate_at.100 = getelementptr i8, ptr %at.99, i64 8
  %v.101 = shl i64 %cycles.85, 10
  %v.102 = udiv i64 %v.101, %indices.87
  store i64 %v.102, ptr %rate_at.100
  br label %after.92
after.92:
  br label %run_owned_end.32
after.40:
  %v.105 = load atomic i32, ptr @num_threads monotonic, align 4
  %need.106 = sub i32 %v.105, 1
  %v.110 = load i32, ptr @num_workers
  %v.111 = icmp ult i32 %v.110, %need.106
  br i1 %v.111, label %then.107, label %after.109
then.107:
  call void @start_workers(i32 %need.106)
  br label %after.109
after.109:
  %is_inside_at.112 = getelementptr i8, ptr %me.21, i64 512
  store i32 1, ptr %is_inside_at.112
  call void @set_order(ptr %fn, i64 %extent_wish, i64 %parts.13, i64 %grain.6, i1 %sweeps.7)
  store ptr %fn, ptr @job
  %ctx_at.115 = getelementptr i8, ptr @job, i64 8
  store ptr %ctx, ptr %ctx_at.115
  %extent_at.116 = getelementptr i8, ptr @job, i64 16
  store i64 %extent_wish, ptr %extent_at.116
  %status_at.117 = getelementptr i8, ptr @job, i64 40
  store atomic i32 0, ptr %status_at.117 monotonic, align 4
  store atomic i64 0, ptr @done monotonic, align 8
  %v.118 = load atomic i64, ptr @ticket monotonic, align 8
  %generation.119 = lshr i64 %v.118, 32
  %v.120 = add i64 %generation.119, 1
  %v.121 = shl i64 %v.120, 32
  %v.122 = shl i64 %parts.13, 16
  %v.123 = or i64 %v.121, %v.122
  store atomic i64 %v.123, ptr @ticket seq_cst, align 8
  %v.127 = load atomic i32, ptr @sleepers seq_cst, align 4
  %v.128 = icmp ne i32 %v.127, 0
  br i1 %v.128, label %then.124, label %after.126
then.124:
  %start.129 = call i64 @llvm.readcyclecounter()
  %v.130 = call i32 @pthread_mutex_lock(ptr @lock)
  %v.131 = call i32 @pthread_cond_broadcast(ptr @work_ready)
  %v.132 = call i32 @pthread_mutex_unlock(ptr @lock)
  %v.133 = call i64 @llvm.readcyclecounter()
  %v.134 = sub i64 %v.133, %start.129
  %before.137 = load i64, ptr @wake_cycles
  %v.138 = shl i64 %before.137, 1
  %v.139 = call i64 @llvm.umin.i64(i64 %v.134, i64 %v.138)
  %v.140 = add i64 %before.137, %v.139
  %mean.141 = lshr i64 %v.140, 1
  %v.142 = icmp eq i64 %before.137, 0
  %v.143 = select i1 %v.142, i64 %v.134, i64 %mean.141
  store i64 %v.143, ptr @wake_cycles
  br label %after.126
after.126:
  call void @drain(ptr %me.21, ptr @owner_cpu)
  call void @wait_for_parts(i64 %parts.13)
  %cycles_at.146 = getelementptr i8, ptr %me.21, i64 648
  %cycles.147 = load i64, ptr %cycles_at.146
  %indices_at.148 = getelementptr i8, ptr %me.21, i64 656
  %indices.149 = load i64, ptr %indices_at.148
  %cycles_at.150 = getelementptr i8, ptr %me.21, i64 648
  store i64 0, ptr %cycles_at.150
  %indices_at.151 = getelementptr i8, ptr %me.21, i64 656
  store i64 0, ptr %indices_at.151
  %v.155 = icmp ne i64 %indices.149, 0
  br i1 %v.155, label %then.152, label %after.154
then.152:
  %v.158 = ptrtoint ptr %fn to i64
  %v.159 = lshr i64 %v.158, 4
  %v.160 = and i64 %v.159, 63
  %at.161 = getelementptr [24 x i8], ptr @costs, i64 %v.160
  store ptr %fn, ptr %at.161
  %rate_at.162 = getelementptr i8, ptr %at.161, i64 8
  %v.163 = shl i64 %cycles.147, 10
  %v.164 = udiv i64 %v.163, %indices.149
  store i64 %v.164, ptr %rate_at.162
  br label %after.154
after.154:
  %is_inside_at.165 = getelementptr i8, ptr %me.21, i64 512
  store i32 0, ptr %is_inside_at.165
  %status_at.166 = getelementptr i8, ptr @job, i64 40
  %status.167 = load atomic i32, ptr %status_at.166 monotonic, align 4
  %v.171 = icmp ne i32 %status.167, 0
  br i1 %v.171, label %then.168, label %after.170
then.168:
  %error_at.172 = getelementptr i8, ptr @job, i64 48
  call void @llvm.memcpy.p0.p0.i64(ptr %me.21, ptr %error_at.172, i64 512, i1 false)
  br label %after.170
after.170:
  br label %run_owned_end.32
run_owned_end.32:
  %result.0.173 = phi i32 [ %v.37, %then.33 ], [ %status.71, %after.92 ], [ %status.167, %after.170 ]
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %result.0.173
after.24:
  br label %after.18
after.18:
  %v.174 = call i32 %fn(i64 0, i64 %extent_wish, ptr %ctx)
  ret i32 %v.174
}

; Clear the register of a tensor of the frame, which may hold an object in its place.
define void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor) {
entry:
  %v.11 = load i32, ptr %register
  %v.12 = icmp eq i32 %v.11, 7
  br i1 %v.12, label %and.10, label %no.8
and.10:
  %at.17 = getelementptr [1 x i8], ptr %register, i64 8
  %v.18 = load ptr, ptr %at.17
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
  %at.49 = getelementptr [1 x i8], ptr %register, i64 8
  %v.50 = load ptr, ptr %at.49
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
  %at.10 = getelementptr [1 x i8], ptr %register, i64 8
  %v.11 = load ptr, ptr %at.10
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

define internal void @wrong_kind(ptr %message, ptr %register) cold noinline {
entry:
  %v.1 = call i64 @heddle_kind_of(ptr %register)
  call void @heddle_set_error(i32 104448, ptr %message, i64 0, i64 %v.1)
  ret void
}

; A tensor of the frame over bytes `start` to `end` of the storage in register `source`.
;
; `end` is negative where the sizes are so large that their product was not computed, or below 0. What does
; not fit becomes an object, or an error. Result: 0, or -1 with the error set.
define i32 @heddle_frame_tensor(ptr %context, ptr %register, ptr %tensor, ptr %source, i64 %start, i64 %end, i64 %word, ptr %sizes) {
entry:
  %v.4 = load i32, ptr %source
  %v.5 = icmp ne i32 %v.4, 11
  br i1 %v.5, label %then.1, label %after.3
then.1:
  call void @wrong_kind(ptr @expected_storage, ptr %source)
  ret i32 -1
after.3:
  %at.10 = getelementptr [1 x i8], ptr %source, i64 8
  %v.11 = load ptr, ptr %at.10
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
  %v.25 = load i32, ptr %register
  %v.26 = icmp ne i32 %v.25, 0
  br i1 %v.26, label %then.22, label %after.24
then.22:
  call void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor)
  br label %after.24
after.24:
  %at.27 = getelementptr [32 x i8], ptr %v.11, i64 1
  %at.28 = getelementptr [1 x i8], ptr %at.27, i64 %start
  %at.33 = getelementptr [1 x i8], ptr %v.11, i64 -32
  %v.34 = load i64, ptr %at.33
  %v.35 = add i64 %v.34, 1
  store i64 %v.35, ptr %at.33
  %at.38 = getelementptr [1 x i8], ptr %tensor, i64 -32
  store i64 1, ptr %at.38
  %kind_at.39 = getelementptr i8, ptr %at.38, i64 8
  store i32 7, ptr %kind_at.39
  %flags_at.40 = getelementptr i8, ptr %at.38, i64 12
  store i32 4, ptr %flags_at.40
  %owner_at.41 = getelementptr i8, ptr %at.38, i64 16
  store ptr %v.11, ptr %owner_at.41
  store ptr %at.28, ptr %tensor
  %device_type_at.42 = getelementptr i8, ptr %tensor, i64 8
  %device_type_at.43 = getelementptr i8, ptr %v.11, i64 16
  %v.44 = load i32, ptr %device_type_at.43
  store i32 %v.44, ptr %device_type_at.42
  %device_id_at.45 = getelementptr i8, ptr %tensor, i64 12
  %device_id_at.46 = getelementptr i8, ptr %v.11, i64 20
  %v.47 = load i32, ptr %device_id_at.46
  store i32 %v.47, ptr %device_id_at.45
  %rank_at.48 = getelementptr i8, ptr %tensor, i64 16
  %v.49 = trunc i64 %word to i32
  store i32 %v.49, ptr %rank_at.48
  %dtype_at.50 = getelementptr i8, ptr %tensor, i64 20
  %v.51 = ashr i64 %word, 32
  %v.52 = trunc i64 %v.51 to i32
  store i32 %v.52, ptr %dtype_at.50
  %sizes_at.53 = getelementptr i8, ptr %tensor, i64 24
  store ptr %sizes, ptr %sizes_at.53
  %strides_at.54 = getelementptr i8, ptr %tensor, i64 32
  store ptr null, ptr %strides_at.54
  %byte_offset_at.55 = getelementptr i8, ptr %tensor, i64 40
  store i64 0, ptr %byte_offset_at.55
  store i32 7, ptr %register
  %at.58 = getelementptr [1 x i8], ptr %register, i64 8
  store ptr %tensor, ptr %at.58
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
  %at.18 = getelementptr [1 x i8], ptr %source, i64 8
  %v.19 = load ptr, ptr %at.18
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
  %at.34 = getelementptr [1 x i8], ptr %source, i64 8
  %v.35 = load ptr, ptr %at.34
  %v.36 = trunc i64 %word to i32
  %v.37 = sext i32 %v.36 to i64
  %v.38 = call i32 @heddle_reshape(ptr %context, ptr %register, ptr %v.35, i64 %v.37, ptr %sizes)
  ret i32 %v.38
after.3:
  %v.42 = load i32, ptr %register
  %v.43 = icmp ne i32 %v.42, 0
  br i1 %v.43, label %then.39, label %after.41
then.39:
  call void @heddle_drop_tensor(ptr %context, ptr %register, ptr %tensor)
  br label %after.41
after.41:
  %at.46 = getelementptr [1 x i8], ptr %viewed, i64 -32
  %owner_at.47 = getelementptr i8, ptr %at.46, i64 16
  %v.48 = load ptr, ptr %owner_at.47
  %v.49 = load ptr, ptr %viewed
  %at.54 = getelementptr [1 x i8], ptr %v.48, i64 -32
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
  store ptr %v.48, ptr %owner_at.62
  store ptr %v.49, ptr %tensor
  %device_type_at.63 = getelementptr i8, ptr %tensor, i64 8
  %device_type_at.64 = getelementptr i8, ptr %v.48, i64 16
  %v.65 = load i32, ptr %device_type_at.64
  store i32 %v.65, ptr %device_type_at.63
  %device_id_at.66 = getelementptr i8, ptr %tensor, i64 12
  %device_id_at.67 = getelementptr i8, ptr %v.48, i64 20
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
  %at.79 = getelementptr [1 x i8], ptr %register, i64 8
  store ptr %tensor, ptr %at.79
  ret i32 0
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
