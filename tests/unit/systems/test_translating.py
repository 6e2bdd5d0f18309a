"""The text that sources become."""

from heddle.runtime.native.library import compile_ir
from heddle.systems.program import read_program
from heddle.systems.translate import translate
from tests.unit.systems.sources import module_of, program_of

SOURCE = '''
class Node(Struct):
    key: u32
    next: Pointer["Node"]
    lock: Atomic[i32]

first = Global(Pointer[Node])
tries = Global(i64, -3, align_bytes=64)
nodes = Global(Array[Node, 2])
unused = Text("kept")

@external
def sched_yield() -> i32: ...

@external
def never_called() -> i32: ...

@inline
def is_wanted(node: Pointer[Node], key: u32) -> bool:
    """Not in the text: it is put in place."""
    return node.key == key

@native
def lock_of(node: Pointer[Node]) -> Pointer[Atomic[i32]]:
    """Costs $5.

    Two lines.
    """
    return node.lock

@export
def find(key: u32) -> u64:
    node = first.value
    steps: u64 = 0
    while node != null and not is_wanted(node, key):
        node = node.next
        steps += 1
    if node == null:
        sched_yield()
    return steps

@cold
def pair(n: u64) -> tuple[u64, bool]:
    return min(n, 3), n > 3
'''

EXPECTED = """
@first = internal global ptr null, align 8
@tries = internal global i64 -3, align 64
@nodes = internal global [48 x i8] zeroinitializer, align 8
@unused = internal constant [5 x i8] c"kept\\00"

declare i32 @sched_yield()
declare i64 @llvm.umin.i64(i64, i64)

; Costs $$5.
;
; Two lines.
define internal ptr @lock_of(ptr %node) {
entry:
  %lock_at.1 = getelementptr i8, ptr %node, i64 16
  ret ptr %lock_at.1
}

define i64 @find(i32 %key) {
entry:
  %node.1 = load ptr, ptr @first
  br label %loop.2
loop.2:
  %node.5 = phi ptr [ %node.1, %entry ], [ %node.14, %body.3 ]
  %steps.6 = phi i64 [ 0, %entry ], [ %steps.15, %body.3 ]
  %v.8 = icmp ne ptr %node.5, null
  br i1 %v.8, label %and.7, label %after.4
and.7:
  %v.11 = load i32, ptr %node.5
  %v.12 = icmp eq i32 %v.11, %key
  br i1 %v.12, label %after.4, label %body.3
body.3:
  %next_at.13 = getelementptr i8, ptr %node.5, i64 8
  %node.14 = load ptr, ptr %next_at.13
  %steps.15 = add i64 %steps.6, 1
  br label %loop.2
after.4:
  %v.19 = icmp eq ptr %node.5, null
  br i1 %v.19, label %then.16, label %after.18
then.16:
  %v.20 = call i32 @sched_yield()
  br label %after.18
after.18:
  ret i64 %steps.6
}

define internal { i64, i1 } @pair(i64 %n) cold noinline {
entry:
  %v.1 = call i64 @llvm.umin.i64(i64 %n, i64 3)
  %v.2 = icmp ugt i64 %n, 3
  %v.3 = insertvalue { i64, i1 } poison, i64 %v.1, 0
  %v.4 = insertvalue { i64, i1 } %v.3, i1 %v.2, 1
  ret { i64, i1 } %v.4
}
"""


def test_text_is_ssa_without_stray_blocks(tmp_path):
    assert translate(program_of(tmp_path, SOURCE)) == EXPECTED


def test_what_another_text_declares_is_not_declared_again(tmp_path):
    text = translate(program_of(tmp_path, SOURCE), {"sched_yield", "llvm.umin.i64"})
    assert "declare" not in text


PARTS = (
    """
total = Global(i64)
note = Text("first")

@external
def sched_yield() -> i32: ...

@native
def bump(n: i64) -> i64:
    total.value += n
    sched_yield()
    return total.value
""",
    """
limit = Global(i64)

@export
def run(n: i64) -> i64:
    if n > limit.value:
        sched_yield()
    return bump(n)
""",
)


def test_a_part_of_a_program_is_a_text_without_the_rest(tmp_path):
    first = module_of(tmp_path, PARTS[0])
    second = module_of(tmp_path, f"from {first.__name__} import bump, sched_yield\n{PARTS[1]}")
    program = read_program([first, second])
    core, rest = (translate(program, modules=[module]) for module in (first, second))
    assert "define internal i64 @bump" in core and "@total =" in core and "@note =" in core
    assert "@run" not in core and "@limit" not in core
    assert "define i64 @run" in rest and "@limit =" in rest and "call i64 @bump(i64 %n)" in rest
    assert "@total" not in rest and "@note" not in rest and "declare i64 @bump" not in rest
    assert "declare i32 @sched_yield()" in rest
    assert "declare" not in translate(program, {"sched_yield"}, [second])
    compile_ir(core + translate(program, {"sched_yield"}, [second]))


def test_memory_of_others_and_for_others_has_its_name(tmp_path):
    text = translate(
        program_of(
            tmp_path,
            "theirs = Global(Array[u8, 4], linkage=EXTERNAL)\nours = Global(i64, 3, linkage=EXPORTED)\n"
            "half = Global(f64)\nat = Global(Pointer[u8])\n",
        )
    )
    assert "@theirs = external global [4 x i8], align 1" in text
    assert "@ours = global i64 3, align 8" in text
    assert "@half = internal global double 0.0, align 8" in text
    assert "@at = internal global ptr null, align 8" in text


def test_marks_are_attributes(tmp_path):
    source = '@marked("first")\n@marked("second")\n@export\ndef f(n: i64) -> i64:\n    return n\n'
    assert 'define i64 @f(i64 %n) "second" "first" {' in translate(program_of(tmp_path, source))
