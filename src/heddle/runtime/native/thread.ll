; What each thread owns: its last error, whether it is inside a parallel loop, its scratch blocks, and what it
; has run of the current loop.
;
; A pthread key leads to it (thread_local variables need loader support that in-process linking does not have).

%Error = type { i32, i32, i64, i64, [488 x i8] }                ; is set, kind, expected, got, message: 512 bytes
%Value = type { i32, i32, i64 }                                 ; kind, zero, payload: see objects.ll
%Block = type { ptr, i64 }                                      ; address, usable bytes
%Thread = type { %Error, i32, i32, [8 x %Block], i64, i64, ptr } ; error, inside a loop, number of free blocks, they,
                                                                ; cycles and indices run, where the stack ends

@thread_key = internal global i32 0

; For threads that the system had no memory for, all of them: their errors may be taken for one another's. They keep no
; scratch and forget where their stack ends.
@spare_thread = internal global [1024 x i8] zeroinitializer, align 64

declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @calloc(i64, i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare ptr @strncpy(ptr, ptr, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define i32 @heddle_thread_setup() {
  %status = call i32 @pthread_key_create(ptr @thread_key, ptr @thread_exit)
  ret i32 %status
}

define internal void @thread_exit(ptr %self) {
entry:
  %count_at = getelementptr %Thread, ptr %self, i32 0, i32 2
  %count = load i32, ptr %count_at
  br label %check
check:
  %i = phi i32 [ 0, %entry ], [ %next, %drop ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %drop, label %out
drop:
  %at = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %i, i32 0
  %block = load ptr, ptr %at
  call void @free(ptr %block)
  %next = add i32 %i, 1
  br label %check
out:
  call void @free(ptr %self)
  ret void
}

define ptr @heddle_thread() {
  %key = load i32, ptr @thread_key
  %known = call ptr @pthread_getspecific(i32 %key)
  %missing = icmp eq ptr %known, null
  br i1 %missing, label %make, label %out
make:
  %made = call ptr @calloc(i64 1, i64 1024)
  %none = icmp eq ptr %made, null
  br i1 %none, label %share, label %keep
keep:
  %status = call i32 @pthread_setspecific(i32 %key, ptr %made)
  %kept = icmp eq i32 %status, 0
  br i1 %kept, label %mine, label %drop
mine:
  ret ptr %made
drop:
  call void @free(ptr %made)
  br label %share
share:
  ret ptr @spare_thread
out:
  ret ptr %known
}

; How far down the stack of this thread a program may go that begins here: some way, and not near the end.
define internal ptr @stack_limit() {
entry:
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %self = call ptr @heddle_thread()
  %end_at = getelementptr %Thread, ptr %self, i32 0, i32 6
  %known = load ptr, ptr %end_at
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %ask, label %decide
ask:
  %found = call ptr @stack_end()
  %shared = icmp eq ptr %self, @spare_thread
  br i1 %shared, label %decide, label %note
note:
  store ptr %found, ptr %end_at
  br label %decide
decide:
  %end = phi ptr [ %known, %entry ], [ %found, %ask ], [ %found, %note ]
  %spare = getelementptr i8, ptr %end, i64 $STACK_RESERVE_BYTES
  %far = getelementptr i8, ptr %here, i64 -$STACK_BYTES
  %short = icmp ugt ptr %spare, %far
  %limit = select i1 %short, ptr %spare, ptr %far
  ret ptr %limit
}

; Whether this thread is so near the end of its stack that nothing more should begin.
define internal i1 @stack_is_short() {
  %limit = call ptr @stack_limit()
  %here = call ptr @llvm.frameaddress.p0(i32 0)
  %short = icmp ult ptr %here, %limit
  ret i1 %short
}

$STACK_END

declare ptr @llvm.frameaddress.p0(i32)

define void @heddle_set_error(i32 %kind, ptr %message, i64 %expected, i64 %got) {
  %self = call ptr @heddle_thread()
  store i32 1, ptr %self
  %kind_at = getelementptr %Error, ptr %self, i32 0, i32 1
  store i32 %kind, ptr %kind_at
  %expected_at = getelementptr %Error, ptr %self, i32 0, i32 2
  store i64 %expected, ptr %expected_at
  %got_at = getelementptr %Error, ptr %self, i32 0, i32 3
  store i64 %got, ptr %got_at
  %text_at = getelementptr %Error, ptr %self, i32 0, i32 4
  call ptr @strncpy(ptr %text_at, ptr %message, i64 487)
  ret void
}

@no_memory = internal constant [45 x i8] c"no memory for a kernel's %e bytes of scratch\00"

; Scratch of at least %bytes, aligned to 64. The 64 bytes before it hold its size. The 8 largest of the freed blocks are
; kept per thread, and lent again where they are large enough: fresh pages cost more than the kernel.
define ptr @heddle_workspace_alloc(i64 %bytes) {
entry:
  %self = call ptr @heddle_thread()
  %wish = call i64 @llvm.smax.i64(i64 %bytes, i64 64)
  %up = add i64 %wish, 4095
  %size = and i64 %up, -4096
  %count_at = getelementptr %Thread, ptr %self, i32 0, i32 2
  %count = load i32, ptr %count_at
  br label %check
check:
  %i = phi i32 [ 0, %entry ], [ %next, %skip ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %look, label %fresh
look:
  %slot = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %i
  %size_at = getelementptr %Block, ptr %slot, i32 0, i32 1
  %has = load i64, ptr %size_at
  %fits = icmp uge i64 %has, %size
  br i1 %fits, label %take, label %skip
skip:
  %next = add i32 %i, 1
  br label %check
take:
  %block = load ptr, ptr %slot
  %last = sub i32 %count, 1
  %last_slot = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %last
  %moved = load %Block, ptr %last_slot
  store %Block %moved, ptr %slot
  store i32 %last, ptr %count_at
  br label %hand
fresh:
  %whole = add i64 %size, 64
  %made = call ptr @aligned_alloc(i64 64, i64 %whole)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %fail, label %mark
mark:
  store i64 %size, ptr %made
  br label %hand
hand:
  %start = phi ptr [ %block, %take ], [ %made, %mark ]
  %usable = getelementptr i8, ptr %start, i64 64
  ret ptr %usable
fail:
  call void @heddle_set_error(i32 153856, ptr @no_memory, i64 %bytes, i64 0)
  ret ptr null
}

define void @heddle_workspace_free(ptr %usable) {
entry:
  %nothing = icmp eq ptr %usable, null
  br i1 %nothing, label %out, label %give
give:
  %self = call ptr @heddle_thread()
  %start = getelementptr i8, ptr %usable, i64 -64
  %size = load i64, ptr %start
  %count_at = getelementptr %Thread, ptr %self, i32 0, i32 2
  %count = load i32, ptr %count_at
  %shared = icmp eq ptr %self, @spare_thread
  br i1 %shared, label %drop, label %choose
choose:
  %room = icmp slt i32 %count, 8
  br i1 %room, label %keep, label %search
search:
  %i = phi i32 [ 0, %choose ], [ %next, %search ]
  %least = phi i32 [ 0, %choose ], [ %less, %search ]
  %least_at = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %least, i32 1
  %least_size = load i64, ptr %least_at
  %here_at = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %i, i32 1
  %here_size = load i64, ptr %here_at
  %smaller = icmp ult i64 %here_size, %least_size
  %less = select i1 %smaller, i32 %i, i32 %least
  %next = add i32 %i, 1
  %rest = icmp slt i32 %next, 8
  br i1 %rest, label %search, label %found
found:
  %old_at = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %less
  %old_size_at = getelementptr %Block, ptr %old_at, i32 0, i32 1
  %old_size = load i64, ptr %old_size_at
  %larger = icmp ugt i64 %size, %old_size
  br i1 %larger, label %swap, label %drop
swap:
  %old = load ptr, ptr %old_at
  store ptr %start, ptr %old_at
  store i64 %size, ptr %old_size_at
  call void @free(ptr %old)
  ret void
keep:
  %slot = getelementptr %Thread, ptr %self, i32 0, i32 3, i32 %count
  store ptr %start, ptr %slot
  %size_at = getelementptr %Block, ptr %slot, i32 0, i32 1
  store i64 %size, ptr %size_at
  %more = add i32 %count, 1
  store i32 %more, ptr %count_at
  ret void
drop:
  call void @free(ptr %start)
  ret void
out:
  ret void
}
