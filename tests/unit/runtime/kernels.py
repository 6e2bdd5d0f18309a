"""Hand-written kernels for the tests: the LLVM IR, and a module with their object code."""

from functools import cache

from heddle.runtime import KernelModule
from heddle.runtime.native.library import compile_ir

NAMES = (
    "scale",
    "sum_parallel",
    "fail",
    "fail_in_part",
    "echo",
    "nested",
    "scratch",
    "order",
    "wait",
    "chunks",
)

# A value is {i32 kind, i32, i64 payload}; a DLTensor has data at 0 and shape at 24.
SOURCE = """
%Value = type { i32, i32, i64 }
declare void @heddle_set_error(i32, ptr, i64, i64)
declare i32 @heddle_parallel_for(ptr, ptr, i64, i64)
declare ptr @heddle_workspace_alloc(i64)
declare void @heddle_workspace_free(ptr)
declare float @expf(float)
@text = private constant [25 x i8] c"expected %e rows, got %g\\00"

define internal ptr @data(ptr %args, i64 %i) {
  %at = getelementptr %Value, ptr %args, i64 %i, i32 2
  %tensor = load ptr, ptr %at
  %data = load ptr, ptr %tensor
  ret ptr %data
}

define internal i64 @length(ptr %args, i64 %i) {
  %at = getelementptr %Value, ptr %args, i64 %i, i32 2
  %tensor = load ptr, ptr %at
  %shape_at = getelementptr i8, ptr %tensor, i64 24
  %shape = load ptr, ptr %shape_at
  %n = load i64, ptr %shape
  ret i64 %n
}

; scale(x: f32[n], factor: float, out: f32[n]): out = exp(0) * factor * x
define i32 @heddle_kernel_scale(ptr %args, i32 %nargs) {
entry:
  %x = call ptr @data(ptr %args, i64 0)
  %out = call ptr @data(ptr %args, i64 2)
  %n = call i64 @length(ptr %args, i64 0)
  %factor_at = getelementptr %Value, ptr %args, i64 1, i32 2
  %factor = load double, ptr %factor_at
  %narrow = fptrunc double %factor to float
  %one = call float @expf(float 0.0)
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out_block
body:
  %from = getelementptr float, ptr %x, i64 %i
  %value = load float, ptr %from
  %scaled = fmul float %value, %narrow
  %same = fmul float %scaled, %one
  %to = getelementptr float, ptr %out, i64 %i
  store float %same, ptr %to
  %next = add i64 %i, 1
  br label %check
out_block:
  ret i32 0
}

; sum_parallel(out: i64[extent + 1], extent, grain): out[i] = i + 1; the last element counts the parts
define internal i32 @fill(i64 %begin, i64 %end, ptr %ctx) {
entry:
  %extent = load i64, ptr %ctx
  %out_at = getelementptr i64, ptr %ctx, i64 1
  %out = load ptr, ptr %out_at
  %count_at = getelementptr i64, ptr %out, i64 %extent
  %old = atomicrmw add ptr %count_at, i64 1 monotonic
  br label %check
check:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %to = getelementptr i64, ptr %out, i64 %i
  %had = load i64, ptr %to
  %next = add i64 %i, 1
  %now = add i64 %had, %next
  store i64 %now, ptr %to
  br label %check
done:
  ret i32 0
}

define i32 @heddle_kernel_sum_parallel(ptr %args, i32 %nargs) {
  %ctx = alloca [2 x i64]
  %extent_at = getelementptr %Value, ptr %args, i64 1, i32 2
  %extent = load i64, ptr %extent_at
  %grain_at = getelementptr %Value, ptr %args, i64 2, i32 2
  %grain = load i64, ptr %grain_at
  store i64 %extent, ptr %ctx
  %out = call ptr @data(ptr %args, i64 0)
  %out_at = getelementptr i64, ptr %ctx, i64 1
  store ptr %out, ptr %out_at
  %status = call i32 @heddle_parallel_for(ptr @fill, ptr %ctx, i64 %extent, i64 %grain)
  ret i32 %status
}

define internal i32 @log_chunk(i64 %begin, i64 %end, ptr %out) {
  %old = atomicrmw add ptr %out, i64 1 monotonic
  %place = add i64 %old, 1
  %to = getelementptr i64, ptr %out, i64 %place
  store i64 %begin, ptr %to
  ret i32 0
}

; chunks(out: i64[...], extent, grain): out[0] counts the calls of the body, out[1 + k] is where call k begins
define i32 @heddle_kernel_chunks(ptr %args, i32 %nargs) {
  %extent_at = getelementptr %Value, ptr %args, i64 1, i32 2
  %extent = load i64, ptr %extent_at
  %grain_at = getelementptr %Value, ptr %args, i64 2, i32 2
  %grain = load i64, ptr %grain_at
  %out = call ptr @data(ptr %args, i64 0)
  %status = call i32 @heddle_parallel_for(ptr @log_chunk, ptr %out, i64 %extent, i64 %grain)
  ret i32 %status
}

define internal i32 @nest(i64 %begin, i64 %end, ptr %ctx) {
  %size = sub i64 %end, %begin
  %status = call i32 @heddle_parallel_for(ptr @fill, ptr %ctx, i64 3, i64 1)
  ret i32 %status
}

; nested(out: i64[4], extent): every part of the outer loop runs the inner loop over 3
define i32 @heddle_kernel_nested(ptr %args, i32 %nargs) {
  %ctx = alloca [2 x i64]
  store i64 3, ptr %ctx
  %out = call ptr @data(ptr %args, i64 0)
  %out_at = getelementptr i64, ptr %ctx, i64 1
  store ptr %out, ptr %out_at
  %status = call i32 @heddle_parallel_for(ptr @nest, ptr %ctx, i64 1, i64 1)
  ret i32 %status
}

; fail(kind, expected, got)
define i32 @heddle_kernel_fail(ptr %args, i32 %nargs) {
  %kind_at = getelementptr %Value, ptr %args, i64 0, i32 2
  %kind = load i64, ptr %kind_at
  %expected_at = getelementptr %Value, ptr %args, i64 1, i32 2
  %expected = load i64, ptr %expected_at
  %got_at = getelementptr %Value, ptr %args, i64 2, i32 2
  %got = load i64, ptr %got_at
  %short = trunc i64 %kind to i32
  call void @heddle_set_error(i32 %short, ptr @text, i64 %expected, i64 %got)
  ret i32 -1
}

define internal i32 @fail_part(i64 %begin, i64 %end, ptr %ctx) {
  %is_last = icmp eq i64 %end, 1000
  br i1 %is_last, label %bad, label %good
bad:
  call void @heddle_set_error(i32 3, ptr @text, i64 1000, i64 %end)
  ret i32 5
good:
  ret i32 0
}

define i32 @heddle_kernel_fail_in_part(ptr %args, i32 %nargs) {
  %status = call i32 @heddle_parallel_for(ptr @fail_part, ptr null, i64 1000, i64 1)
  ret i32 %status
}

; echo(out: i64[2 n], ...): kind and payload of each further argument
define i32 @heddle_kernel_echo(ptr %args, i32 %nargs) {
entry:
  %out = call ptr @data(ptr %args, i64 0)
  %n = sext i32 %nargs to i64
  br label %check
check:
  %i = phi i64 [ 1, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %kind_at = getelementptr %Value, ptr %args, i64 %i
  %kind = load i32, ptr %kind_at
  %wide = zext i32 %kind to i64
  %payload_at = getelementptr %Value, ptr %args, i64 %i, i32 2
  %payload = load i64, ptr %payload_at
  %less = sub i64 %i, 1
  %even = shl i64 %less, 1
  %first = getelementptr i64, ptr %out, i64 %even
  store i64 %wide, ptr %first
  %second = getelementptr i64, ptr %first, i64 1
  store i64 %payload, ptr %second
  %next = add i64 %i, 1
  br label %check
done:
  ret i32 0
}

; scratch(out: i64[3], bytes): addresses of two blocks, and of a third after both were freed
define i32 @heddle_kernel_scratch(ptr %args, i32 %nargs) {
  %bytes_at = getelementptr %Value, ptr %args, i64 1, i32 2
  %bytes = load i64, ptr %bytes_at
  %out = call ptr @data(ptr %args, i64 0)
  %a = call ptr @heddle_workspace_alloc(i64 %bytes)
  %failed = icmp eq ptr %a, null
  br i1 %failed, label %bad, label %good
good:
  %last = getelementptr i8, ptr %a, i64 %bytes
  %b = call ptr @heddle_workspace_alloc(i64 %bytes)
  store i64 1, ptr %a
  store i64 1, ptr %b
  call void @heddle_workspace_free(ptr %a)
  call void @heddle_workspace_free(ptr %b)
  %c = call ptr @heddle_workspace_alloc(i64 %bytes)
  call void @heddle_workspace_free(ptr %c)
  call void @heddle_workspace_free(ptr null)
  store ptr %a, ptr %out
  %second = getelementptr ptr, ptr %out, i64 1
  store ptr %b, ptr %second
  %third = getelementptr ptr, ptr %out, i64 2
  store ptr %c, ptr %third
  ret i32 0
bad:
  ret i32 1
}

; wait(flag: i64[n]): until flag[0] is not 0
define i32 @heddle_kernel_wait(ptr %args, i32 %nargs) {
entry:
  %flag = call ptr @data(ptr %args, i64 0)
  br label %check
check:
  %now = load atomic i64, ptr %flag monotonic, align 8
  %unset = icmp eq i64 %now, 0
  br i1 %unset, label %check, label %done
done:
  ret i32 0
}

; order(): succeeds, does nothing
define i32 @heddle_kernel_order(ptr %args, i32 %nargs) {
  ret i32 0
}
"""


@cache
def object_code() -> bytes:
    return compile_ir(SOURCE)


def kernel_module() -> KernelModule:
    return KernelModule([object_code()], NAMES, "llvm")
