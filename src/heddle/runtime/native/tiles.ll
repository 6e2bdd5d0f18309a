; The processor's tile registers (AMX). Linux gives them to a process that asks for them; threads made later, and
; child processes, have them too.

@tiles_answer = internal global i32 1                           ; 1: not asked, 0: granted, -1: refused

$ASK_DECLARATION

; 0 if this process may use tile registers, else -1. It asks once.
define i32 @heddle_request_tiles() {
  %known = load atomic i32, ptr @tiles_answer monotonic, align 4
  %is_known = icmp ne i32 %known, 1
  br i1 %is_known, label %out, label %ask
out:
  ret i32 %known
ask:
  %status = $ASK_FOR_TILES
  %granted = icmp eq i64 %status, 0
  %answer = select i1 %granted, i32 0, i32 -1
  store atomic i32 %answer, ptr @tiles_answer monotonic, align 4
  ret i32 %answer
}
