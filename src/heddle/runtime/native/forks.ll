; A fork while other threads run.
;
; The forking thread takes the lock of every pool, so that no other one is within a pool's books, and gives it back in
; parent and child. It holds the interpreter's lock all the while (these run inside the C library's fork); whoever holds
; a pool's lock without the interpreter's needs nothing but time.
; In the child the workers are gone: their pool is made as new.

%Known = type { ptr, ptr }                                       ; pool, the one that was registered before

@known_pools = internal global ptr null

; Pools are never unregistered. -1 after heddle_set_error.
define i32 @heddle_pool_register(ptr %pool) {
entry:
  %node = call ptr @calloc(i64 1, i64 16)
  %none = icmp eq ptr %node, null
  br i1 %none, label %fail, label %fill
fail:
  call void @heddle_set_error(i32 153856, ptr @no_system_memory, i64 0, i64 16)
  ret i32 -1
fill:
  store ptr %pool, ptr %node
  %next_at = getelementptr %Known, ptr %node, i32 0, i32 1
  br label %try
try:
  %before = load atomic ptr, ptr @known_pools acquire, align 8
  store ptr %before, ptr %next_at
  %exchange = cmpxchg ptr @known_pools, ptr %before, ptr %node acq_rel acquire
  %done = extractvalue { ptr, i1 } %exchange, 1
  br i1 %done, label %out, label %try
out:
  ret i32 0
}

@held_pools = internal global ptr null                           ; those that the forking thread has taken

define void @heddle_fork_before() {
entry:
  %first = load atomic ptr, ptr @known_pools acquire, align 8
  store ptr %first, ptr @held_pools
  br label %check
check:
  %node = phi ptr [ %first, %entry ], [ %next, %take ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %out, label %take
take:
  %pool = load ptr, ptr %node
  call void @pool_lock(ptr %pool)
  %next_at = getelementptr %Known, ptr %node, i32 0, i32 1
  %next = load ptr, ptr %next_at
  br label %check
out:
  ret void
}

define void @heddle_fork_parent() {
entry:
  %first = load ptr, ptr @held_pools
  br label %check
check:
  %node = phi ptr [ %first, %entry ], [ %next, %give ]
  %end = icmp eq ptr %node, null
  br i1 %end, label %out, label %give
give:
  %pool = load ptr, ptr %node
  call void @pool_unlock(ptr %pool)
  %next_at = getelementptr %Known, ptr %node, i32 0, i32 1
  %next = load ptr, ptr %next_at
  br label %check
out:
  ret void
}

define void @heddle_fork_child() {
  call void @heddle_fork_parent()
  call void @heddle_pool_reset()
  ret void
}
