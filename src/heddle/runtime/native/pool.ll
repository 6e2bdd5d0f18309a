; The fork-join pool: i32 @heddle_parallel_for(fn, ctx, extent, grain), fn = i32 (i64 begin, i64 end, ptr ctx).
;
; One job at a time. The owner of @busy writes the job, then publishes @ticket = generation:32 | parts:16 | next:16.
; Whoever advances `next` with compare-exchange owns that part; the job's fields cannot change before every part is
; done, so reading them after a successful claim is safe. The caller claims parts too, so a worker that wakes late
; costs nothing. Idle workers spin @spin_limit times on the ticket, then sleep on @work_ready. A part belongs to a
; range that depends only on extent and parts: results do not depend on who ran what.
;
; Waking a sleeper can cost the caller more than a small loop does (60 us on some virtual machines). While workers
; sleep, loops run inline until the cycles spent so exceed twice what the last wakes cost: then waking has paid off, or
; costs at most as much again. @costs remembers cycles per 1024 indices of loop bodies; an unknown body wakes at once.
;
; Where the grain is negative, the loop reads a lot of memory once, and may soon do so again: its parts run in chunks,
; and every other run takes them backwards, because what it read last is still near. The steps of a recurrent network
; find half of their weights in the second-level cache that way. A chunk has as many indices as are worth a thread.
;
; Where other programs want the processors too, two threads of the pool may meet on one. Whoever spins there takes the
; time of the one that has work, so it sleeps at once: idle workers look at @owner_cpu, a waiting caller at @helper_cpu.
;
; @sleepers and @ticket (and likewise @caller_waits and @done) form the store-load pattern that needs seq_cst.

%Cost = type { ptr, i64, i64 }                                    ; body, cycles per 1024 indices, runs

@num_threads = internal global i32 1
@num_workers = internal global i32 0
@spin_limit = internal global i32 4000
@busy = internal global i32 0, align 64
@ticket = internal global i64 0, align 64
@done = internal global i64 0, align 64
@sleepers = internal global i32 0, align 64
@caller_waits = internal global i32 0, align 64
@job_fn = internal global ptr null
@job_ctx = internal global ptr null
@job_extent = internal global i64 0
@job_chunk = internal global i64 0
@job_is_backwards = internal global i64 0                          ; 1 if so
@job_status = internal global i32 0
@job_error = internal global %Error zeroinitializer, align 16
@costs = internal global [64 x %Cost] zeroinitializer, align 64   ; used by the owner of @busy only
@wake_cycles = internal global i64 0
@inline_cycles = internal global i64 0
@owner_cpu = internal global i32 -1, align 64                      ; where the caller claimed its last part
@helper_cpu = internal global i32 -2, align 64                     ; where a worker did
@lock = internal global [128 x i8] zeroinitializer, align 64
@work_ready = internal global [128 x i8] zeroinitializer, align 64
@work_done = internal global [128 x i8] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i64 @llvm.readcyclecounter()
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
$PAUSE_DECLARATION
$CPU_DECLARATION

; Make the pool as new. Also called in the child of a fork, where the workers and whoever held @busy are gone.
define void @heddle_pool_reset() {
  call i32 @pthread_mutex_init(ptr @lock, ptr null)
  call i32 @pthread_cond_init(ptr @work_ready, ptr null)
  call i32 @pthread_cond_init(ptr @work_done, ptr null)
  store i32 0, ptr @num_workers
  store i32 0, ptr @sleepers
  store i32 0, ptr @caller_waits
  store i64 0, ptr @ticket
  store i64 0, ptr @done
  %self = call ptr @heddle_thread()
  %inside = getelementptr %Thread, ptr %self, i32 0, i32 1
  store i32 0, ptr %inside
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

define void @heddle_pool_configure(i32 %threads, i32 %spins) {
  store atomic i32 %threads, ptr @num_threads monotonic, align 4
  store atomic i32 %spins, ptr @spin_limit monotonic, align 4
  ret void
}

; Add what happened since %start, over %size indices, to the thread's account.
define internal void @count_cycles(ptr %self, i64 %start, i64 %size) alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %now, %start
  %cycles_at = getelementptr %Thread, ptr %self, i32 0, i32 4
  %cycles = load i64, ptr %cycles_at
  %more_cycles = add i64 %cycles, %spent
  store i64 %more_cycles, ptr %cycles_at
  %count_at = getelementptr %Thread, ptr %self, i32 0, i32 5
  %count = load i64, ptr %count_at
  %more = add i64 %count, %size
  store i64 %more, ptr %count_at
  ret void
}

; Where the cost of a loop body is kept: by some bits of its address, so another body may take the place.
define internal ptr @cost_of(ptr %fn) alwaysinline {
  %bits = ptrtoint ptr %fn to i64
  %high = lshr i64 %bits, 4
  %index = and i64 %high, 63
  %entry = getelementptr [64 x %Cost], ptr @costs, i64 0, i64 %index
  ret ptr %entry
}

; Move the thread's account to the cost of %fn.
define internal void @settle_account(ptr %self, ptr %fn) alwaysinline {
entry:
  %cycles_at = getelementptr %Thread, ptr %self, i32 0, i32 4
  %cycles = load i64, ptr %cycles_at
  %count_at = getelementptr %Thread, ptr %self, i32 0, i32 5
  %count = load i64, ptr %count_at
  store i64 0, ptr %cycles_at
  store i64 0, ptr %count_at
  %none = icmp eq i64 %count, 0
  br i1 %none, label %out, label %set
set:
  %scaled = shl i64 %cycles, 10
  %rate = udiv i64 %scaled, %count
  %cost = call ptr @cost_of(ptr %fn)
  store ptr %fn, ptr %cost
  %rate_at = getelementptr %Cost, ptr %cost, i64 0, i32 1
  store i64 %rate, ptr %rate_at
  br label %out
out:
  ret void
}

; Whether to run this loop inline because its helpers sleep and waking them would not pay yet.
define internal i1 @is_too_small(ptr %fn, i64 %extent) alwaysinline {
entry:
  %asleep = load atomic i32, ptr @sleepers monotonic, align 4
  %awake = icmp eq i32 %asleep, 0
  br i1 %awake, label %large, label %look
look:
  %cost = call ptr @cost_of(ptr %fn)
  %body = load ptr, ptr %cost
  %known = icmp eq ptr %body, %fn
  br i1 %known, label %weigh, label %large
weigh:
  %rate_at = getelementptr %Cost, ptr %cost, i64 0, i32 1
  %rate = load i64, ptr %rate_at
  %scaled = mul i64 %rate, %extent
  %estimate = lshr i64 %scaled, 10
  %spent = load i64, ptr @inline_cycles
  %total = add i64 %spent, %estimate
  %wake = load i64, ptr @wake_cycles
  %double = shl i64 %wake, 1
  %small = icmp ult i64 %total, %double
  %kept = select i1 %small, i64 %total, i64 0
  store i64 %kept, ptr @inline_cycles
  ret i1 %small
large:
  ret i1 false
}

; Decide how the parts of a loop are run: how many indices at a time, and in which order.
define internal void @set_order(ptr %fn, i64 %extent, i64 %parts, i64 %grain, i1 %sweeps) alwaysinline {
entry:
  store i64 %extent, ptr @job_chunk
  store i64 0, ptr @job_is_backwards
  br i1 %sweeps, label %look, label %out
look:
  %cost = call ptr @cost_of(ptr %fn)
  %body = load ptr, ptr %cost
  %known = icmp eq ptr %body, %fn
  %runs_at = getelementptr %Cost, ptr %cost, i32 0, i32 2
  br i1 %known, label %order, label %meet
meet:                                                             ; its cost is not known yet: as if it were large
  store ptr %fn, ptr %cost
  %rate_at = getelementptr %Cost, ptr %cost, i32 0, i32 1
  store i64 1073741824, ptr %rate_at
  store i64 0, ptr %runs_at
  br label %order
order:
  %runs = load i64, ptr %runs_at
  %now = add i64 %runs, 1
  store i64 %now, ptr %runs_at
  %odd = and i64 %now, 1
  store i64 %odd, ptr @job_is_backwards
  %share = udiv i64 %extent, %parts
  %eighth = lshr i64 %share, 3
  %chunk = call i64 @llvm.umax.i64(i64 %eighth, i64 %grain)
  store i64 %chunk, ptr @job_chunk
  br label %out
out:
  ret void
}

; Run one part of the current job; gives the status of the first chunk that fails.
define internal i32 @run_chunks(ptr %fn, i64 %begin, i64 %end, ptr %ctx) {
entry:
  %chunk = load i64, ptr @job_chunk
  %backwards = load i64, ptr @job_is_backwards
  %is_backwards = icmp ne i64 %backwards, 0
  %size = sub i64 %end, %begin
  %less = sub i64 %size, 1
  %last = udiv i64 %less, %chunk
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k_next, %done ]
  %mirrored = sub i64 %last, %k
  %which = select i1 %is_backwards, i64 %mirrored, i64 %k
  %offset = mul i64 %which, %chunk
  %from = add i64 %begin, %offset
  %full = add i64 %from, %chunk
  %to = call i64 @llvm.umin.i64(i64 %full, i64 %end)
  %status = call i32 %fn(i64 %from, i64 %to, ptr %ctx)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %done, label %out
done:
  %k_next = add i64 %k, 1
  %more = icmp ule i64 %k_next, %last
  br i1 %more, label %next, label %out
out:
  ret i32 %status
}

; Claim and run parts of the current job until none is left. %cpu_at remembers the processor.
define internal void @drain(ptr %self, ptr %cpu_at) {
entry:
  br label %look
look:
  %seen = load atomic i64, ptr @ticket acquire, align 8
  %next = and i64 %seen, 65535
  %shifted = lshr i64 %seen, 16
  %parts = and i64 %shifted, 65535
  %none = icmp uge i64 %next, %parts
  br i1 %none, label %out, label %claim
claim:
  %after = add i64 %seen, 1
  %exchange = cmpxchg ptr @ticket, i64 %seen, i64 %after acq_rel acquire
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %run, label %look
run:
  %cpu = $CURRENT_CPU
  store atomic i32 %cpu, ptr %cpu_at monotonic, align 4
  %fn = load ptr, ptr @job_fn
  %ctx = load ptr, ptr @job_ctx
  %extent = load i64, ptr @job_extent
  %base = udiv i64 %extent, %parts
  %extra = urem i64 %extent, %parts
  %here = mul i64 %next, %base
  %early = call i64 @llvm.umin.i64(i64 %next, i64 %extra)
  %begin = add i64 %here, %early
  %is_early = icmp ult i64 %next, %extra
  %one = zext i1 %is_early to i64
  %size = add i64 %base, %one
  %end = add i64 %begin, %size
  %start = call i64 @llvm.readcyclecounter()
  %status = call i32 @run_chunks(ptr %fn, i64 %begin, i64 %end, ptr %ctx)
  call void @count_cycles(ptr %self, i64 %start, i64 %size)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %finish, label %fail
fail:
  %first_exchange = cmpxchg ptr @job_status, i32 0, i32 %status acq_rel acquire
  %first = extractvalue { i32, i1 } %first_exchange, 1
  br i1 %first, label %keep, label %finish
keep:
  call void @llvm.memcpy.p0.p0.i64(ptr @job_error, ptr %self, i64 512, i1 false)
  br label %finish
finish:
  %before = atomicrmw add ptr @done, i64 1 seq_cst
  %now = add i64 %before, 1
  %last = icmp eq i64 %now, %parts
  br i1 %last, label %tell, label %look
tell:
  %waits = load atomic i32, ptr @caller_waits seq_cst, align 4
  %is_waiting = icmp ne i32 %waits, 0
  br i1 %is_waiting, label %signal, label %look
signal:
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_signal(ptr @work_done)
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %look
out:
  ret void
}

define internal i1 @has_work() alwaysinline {
  %seen = load atomic i64, ptr @ticket seq_cst, align 8
  %next = and i64 %seen, 65535
  %shifted = lshr i64 %seen, 16
  %parts = and i64 %shifted, 65535
  %some = icmp ult i64 %next, %parts
  ret i1 %some
}

; Whether this thread runs on the processor that another one left its mark of.
define internal i1 @is_here(ptr %mark) alwaysinline {
  %cpu = $CURRENT_CPU
  %other = load atomic i32, ptr %mark monotonic, align 4
  %same = icmp eq i32 %cpu, %other
  ret i1 %same
}

define internal ptr @worker(ptr %unused) {
entry:
  %signals = alloca [128 x i8], align 16
  call i32 @sigfillset(ptr %signals)
  call i32 @pthread_sigmask(i32 $SIG_BLOCK, ptr %signals, ptr null)
  %self = call ptr @heddle_thread()
  %inside = getelementptr %Thread, ptr %self, i32 0, i32 1
  store i32 1, ptr %inside
  br label %begin
begin:
  %limit = load atomic i32, ptr @spin_limit monotonic, align 4
  br label %spin
spin:
  %i = phi i32 [ 0, %begin ], [ %i_next, %rest ]
  %ready = call i1 @has_work()
  br i1 %ready, label %work, label %pause
pause:
  $PAUSE
  %i_next = add i32 %i, 1
  %in_the_way = call i1 @is_here(ptr @owner_cpu)
  %late = icmp sge i32 %i_next, %limit
  %tired = or i1 %late, %in_the_way
  br i1 %tired, label %sleep, label %rest
rest:
  br label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr @lock)
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %check
check:
  %woken = call i1 @has_work()
  br i1 %woken, label %wake, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @work_ready, ptr @lock)
  br label %check
wake:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %work
work:
  call void @drain(ptr %self, ptr @helper_cpu)
  br label %begin
}

; Start missing workers. A thread that cannot be had is done without: the caller runs what nobody claims.
define internal void @start_workers(i32 %wanted) cold noinline {
entry:
  %id = alloca i64
  br label %check
check:
  %have = load i32, ptr @num_workers
  %enough = icmp sge i32 %have, %wanted
  br i1 %enough, label %out, label %start
start:
  %status = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr null)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %out, label %count
count:
  %thread = load i64, ptr %id
  call i32 @pthread_detach(i64 %thread)
  %more = add i32 %have, 1
  store i32 %more, ptr @num_workers
  br label %check
out:
  ret void
}

; Wait until @done reaches %parts: spin, then sleep.
define internal void @wait_for_parts(i64 %parts) {
entry:
  %limit = load atomic i32, ptr @spin_limit monotonic, align 4
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i_next, %pause ]
  %count = load atomic i64, ptr @done acquire, align 8
  %ready = icmp eq i64 %count, %parts
  br i1 %ready, label %out, label %pause
pause:
  $PAUSE
  %i_next = add i32 %i, 1
  %in_the_way = call i1 @is_here(ptr @helper_cpu)
  %late = icmp sge i32 %i_next, %limit
  %tired = or i1 %late, %in_the_way
  br i1 %tired, label %sleep, label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i32 1, ptr @caller_waits seq_cst, align 4
  br label %check
check:
  %now = load atomic i64, ptr @done seq_cst, align 8
  %finished = icmp eq i64 %now, %parts
  br i1 %finished, label %wake, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @work_done, ptr @lock)
  br label %check
wake:
  store atomic i32 0, ptr @caller_waits seq_cst, align 4
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %out
out:
  ret void
}

define i32 @heddle_parallel_for(ptr %fn, ptr %ctx, i64 %extent, i64 %grain_wish) {
entry:
  %empty = icmp sle i64 %extent, 0
  br i1 %empty, label %nothing, label %count
count:
  %sweeps = icmp slt i64 %grain_wish, 0
  %grain_size = call i64 @llvm.abs.i64(i64 %grain_wish, i1 false)
  %grain = call i64 @llvm.umax.i64(i64 %grain_size, i64 1)
  %less = sub i64 %extent, 1
  %full = udiv i64 %less, %grain
  %wanted = add i64 %full, 1
  %threads = load atomic i32, ptr @num_threads monotonic, align 4
  %most = zext i32 %threads to i64
  %parts = call i64 @llvm.umin.i64(i64 %wanted, i64 %most)
  %few = icmp ult i64 %wanted, 4
  %at_once = xor i1 %sweeps, true
  %plain = or i1 %few, %at_once
  %alone = icmp ule i64 %parts, 1
  %single = and i1 %alone, %plain
  br i1 %single, label %inline, label %ask
ask:
  %self = call ptr @heddle_thread()
  %inside = getelementptr %Thread, ptr %self, i32 0, i32 1
  %depth = load i32, ptr %inside
  %nested = icmp ne i32 %depth, 0
  br i1 %nested, label %inline, label %acquire
acquire:
  %exchange = cmpxchg ptr @busy, i32 0, i32 1 acq_rel acquire
  %free = extractvalue { i32, i1 } %exchange, 1
  br i1 %free, label %own, label %inline
own:
  br i1 %alone, label %solo, label %judge
solo:
  call void @set_order(ptr %fn, i64 %extent, i64 1, i64 %grain, i1 %sweeps)
  %solo_status = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent, ptr %ctx)
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %solo_status
judge:
  %too_small = call i1 @is_too_small(ptr %fn, i64 %extent)
  br i1 %too_small, label %hold, label %staff
hold:
  %held_from = call i64 @llvm.readcyclecounter()
  call void @set_order(ptr %fn, i64 %extent, i64 1, i64 %grain, i1 %sweeps)
  %held_status = call i32 @run_chunks(ptr %fn, i64 0, i64 %extent, ptr %ctx)
  call void @count_cycles(ptr %self, i64 %held_from, i64 %extent)
  call void @settle_account(ptr %self, ptr %fn)
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %held_status
staff:
  %have = load i32, ptr @num_workers
  %need = sub i32 %threads, 1
  %short = icmp slt i32 %have, %need
  br i1 %short, label %hire, label %publish
hire:
  call void @start_workers(i32 %need)
  br label %publish
publish:
  store i32 1, ptr %inside
  store ptr %fn, ptr @job_fn
  store ptr %ctx, ptr @job_ctx
  store i64 %extent, ptr @job_extent
  call void @set_order(ptr %fn, i64 %extent, i64 %parts, i64 %grain, i1 %sweeps)
  store i32 0, ptr @job_status
  store atomic i64 0, ptr @done monotonic, align 8
  %old = load atomic i64, ptr @ticket monotonic, align 8
  %generation = lshr i64 %old, 32
  %newer = add i64 %generation, 1
  %high = shl i64 %newer, 32
  %middle = shl i64 %parts, 16
  %fresh = or i64 %high, %middle
  store atomic i64 %fresh, ptr @ticket seq_cst, align 8
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %rouse, label %work
rouse:
  %rouse_from = call i64 @llvm.readcyclecounter()
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_broadcast(ptr @work_ready)
  call i32 @pthread_mutex_unlock(ptr @lock)
  %rouse_to = call i64 @llvm.readcyclecounter()
  %rouse_cycles = sub i64 %rouse_to, %rouse_from
  %rouse_before = load i64, ptr @wake_cycles
  %rouse_first = icmp eq i64 %rouse_before, 0
  %rouse_most = shl i64 %rouse_before, 1                         ; one slow wake must not stop waking for long
  %rouse_clipped = call i64 @llvm.umin.i64(i64 %rouse_cycles, i64 %rouse_most)
  %rouse_sum = add i64 %rouse_before, %rouse_clipped
  %rouse_half = lshr i64 %rouse_sum, 1
  %rouse_mean = select i1 %rouse_first, i64 %rouse_cycles, i64 %rouse_half
  store i64 %rouse_mean, ptr @wake_cycles
  br label %work
work:
  call void @drain(ptr %self, ptr @owner_cpu)
  call void @wait_for_parts(i64 %parts)
  call void @settle_account(ptr %self, ptr %fn)
  store i32 0, ptr %inside
  %status = load i32, ptr @job_status
  %good = icmp eq i32 %status, 0
  br i1 %good, label %release, label %fetch
fetch:
  call void @llvm.memcpy.p0.p0.i64(ptr %self, ptr @job_error, i64 512, i1 false)
  br label %release
release:
  store atomic i32 0, ptr @busy release, align 4
  ret i32 %status
inline:
  %inline_status = call i32 %fn(i64 0, i64 %extent, ptr %ctx)
  ret i32 %inline_status
nothing:
  ret i32 0
}
