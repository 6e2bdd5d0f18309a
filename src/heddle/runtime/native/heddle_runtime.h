/* The runtime of a program that heddle made as one C file, which includes it.

   It defines the functions that heddle_program.h, heddle_c.h and heddle.h declare, over the tables that the file holds
   after it. State is static: a process has one program object, which runs on one thread at a time.

   HEDDLE_ARENA_BYTES   memory comes from a static array of this size, and malloc is never called
   HEDDLE_STACK_BYTES   how deep calls may go
   HEDDLE_PARALLEL_FOR  a function like heddle_parallel_for that runs parallel loops, on threads say */

#ifndef HEDDLE_RUNTIME_H_
#define HEDDLE_RUNTIME_H_

#include "heddle_program.h"

#ifndef HEDDLE_ARENA_BYTES
#include <stdlib.h>
#elif defined(HEDDLE_PARALLEL_FOR)
#error "the arena belongs to one thread: leave out HEDDLE_PARALLEL_FOR, or the arena"
#endif
#ifdef HEDDLE_PARALLEL_FOR
int32_t HEDDLE_PARALLEL_FOR(int32_t (*body)(int64_t begin, int64_t end, void *data), void *data, int64_t extent,
                            int64_t grain);
#endif
#ifndef HEDDLE_STACK_BYTES
#define HEDDLE_STACK_BYTES (2 << 20)
#endif

/* ---- the tables of the program */

extern const int64_t heddle_num_functions;
extern const char *const heddle_function_names[]; /* NULL where it is not to be run by name */
extern const HeddleEntry heddle_functions[];
extern const HeddleCell *heddle_constants(void);

/* ---- errors */

static struct {
  bool is_set;
  int64_t expected, got;
  const char *message;
} heddle_last_error;

void heddle_set_error(int32_t kind, const char *message, int64_t expected, int64_t got) {
  (void)kind;
  heddle_last_error.is_set = true;
  heddle_last_error.message = message;
  heddle_last_error.expected = expected;
  heddle_last_error.got = got;
}

static int32_t heddle_refuse(const char *message, int64_t expected, int64_t got) {
  heddle_set_error(0, message, expected, got);
  return -1;
}

/* ---- memory: blocks of multiples of 64 bytes, aligned to 64, behind a header of as much */

enum { HEDDLE_BLOCK_BYTES = 64 };

typedef struct HeddleBlock {
  union {
    struct HeddleBlock *next; /* of a free block */
    void *start;              /* what malloc gave */
  } at;
  uint64_t size_bytes;
} HeddleBlock;

#ifdef HEDDLE_ARENA_BYTES

static union {
  unsigned char bytes[(HEDDLE_ARENA_BYTES) + HEDDLE_BLOCK_BYTES];
  double real;
  int64_t integer;
  void *pointer;
} heddle_arena;
static uint64_t heddle_arena_used;
static HeddleBlock *heddle_free_blocks;

/* A free block of the very size, else the next part of the arena: blocks are never split, so that programs whose sizes
   are known take the same blocks again. */
static HeddleBlock *heddle_new_block(uint64_t size_bytes) {
  HeddleBlock **place, *found;
  const uint64_t past = (uint64_t)(uintptr_t)heddle_arena.bytes % HEDDLE_BLOCK_BYTES;
  for (place = &heddle_free_blocks; *place != NULL; place = &(*place)->at.next) {
    if ((*place)->size_bytes == size_bytes) {
      found = *place;
      *place = found->at.next;
      return found;
    }
  }
  if (size_bytes > (HEDDLE_ARENA_BYTES) - heddle_arena_used) {
    (void)heddle_refuse("the arena has no room for %g bytes more: it has %e bytes", (HEDDLE_ARENA_BYTES), (int64_t)size_bytes);
    return NULL;
  }
  found = (HeddleBlock *)(void *)(heddle_arena.bytes + (past == 0 ? 0 : HEDDLE_BLOCK_BYTES - past) + heddle_arena_used);
  heddle_arena_used += size_bytes;
  found->size_bytes = size_bytes;
  return found;
}

static void heddle_free_block(HeddleBlock *block) {
  block->at.next = heddle_free_blocks;
  heddle_free_blocks = block;
}

#else

static HeddleBlock *heddle_new_block(uint64_t size_bytes) {
  unsigned char *start = size_bytes < SIZE_MAX - HEDDLE_BLOCK_BYTES ? (unsigned char *)malloc((size_t)size_bytes + HEDDLE_BLOCK_BYTES) : NULL;
  HeddleBlock *block;
  if (start == NULL) {
    (void)heddle_refuse("out of memory: %g bytes were asked for", 0, (int64_t)size_bytes);
    return NULL;
  }
  block = (HeddleBlock *)(void *)(start + (HEDDLE_BLOCK_BYTES - (uintptr_t)start % HEDDLE_BLOCK_BYTES));
  block->at.start = start;
  block->size_bytes = size_bytes;
  return block;
}

static void heddle_free_block(HeddleBlock *block) { free(block->at.start); }

#endif

/* NULL, with the error set, where there is none. */
static void *heddle_take(int64_t size_bytes) {
  HeddleBlock *block;
  if (size_bytes < 0 || size_bytes > INT64_MAX / 2) {
    (void)heddle_refuse("out of memory: %g bytes were asked for", 0, size_bytes);
    return NULL;
  }
  block = heddle_new_block(((uint64_t)size_bytes + 2 * HEDDLE_BLOCK_BYTES - 1) / HEDDLE_BLOCK_BYTES * HEDDLE_BLOCK_BYTES);
  return block == NULL ? NULL : (unsigned char *)block + HEDDLE_BLOCK_BYTES;
}

static void heddle_give(void *memory) { heddle_free_block((HeddleBlock *)(void *)((unsigned char *)memory - HEDDLE_BLOCK_BYTES)); }

void *heddle_workspace_alloc(int64_t size_bytes) { return heddle_take(size_bytes); }
void heddle_workspace_free(void *workspace) { heddle_give(workspace); }

int32_t heddle_parallel_for(int32_t (*body)(int64_t begin, int64_t end, void *data), void *data, int64_t extent,
                            int64_t grain) {
#ifdef HEDDLE_PARALLEL_FOR
  return HEDDLE_PARALLEL_FOR(body, data, extent, grain);
#else
  (void)grain;
  return extent > 0 ? body(0, extent, data) : 0;
#endif
}

/* ---- objects: counted, behind a head of 32 bytes */

enum { HEDDLE_HEAD_BYTES = 32, HEDDLE_STORAGE_BYTES = 32 };
#define HEDDLE_IMMORTAL (INT64_C(1) << 60)

typedef struct {
  int64_t count;
  int32_t kind, flags;
  union {
    void *pointer;
    int64_t room;
  } owner;
  int64_t size_bytes; /* of a storage */
} HeddleHead;

static HeddleHead *heddle_head(void *payload) {
  return (HeddleHead *)(void *)((unsigned char *)payload - HEDDLE_HEAD_BYTES);
}

static void *heddle_new(int32_t kind, int64_t bytes, void *owner) {
  HeddleHead *head = (HeddleHead *)heddle_take(HEDDLE_HEAD_BYTES + bytes);
  if (head == NULL) return NULL;
  memset(head, 0, sizeof *head);
  head->count = 1;
  head->kind = kind;
  head->owner.pointer = owner;
  return (unsigned char *)head + HEDDLE_HEAD_BYTES;
}

static void heddle_retain(const HeddleCell *value) {
  if (value->kind >= HEDDLE_KIND_TENSOR) ++heddle_head(value->as.pointer)->count;
}

static void heddle_release(int32_t kind, void *payload) {
  /* Objects that hold others wait in a list, so that long chains need no deep stack. */
  HeddleHead *waiting = NULL, *head;
  if (kind < HEDDLE_KIND_TENSOR) return;
  head = heddle_head(payload);
  if (--head->count > 0) return;
  for (;;) {
    unsigned char *const own = (unsigned char *)head + HEDDLE_HEAD_BYTES;
    HeddleHead *next = waiting;
    HeddleCell *items = NULL;
    int64_t count = 0, i;
    if (head->kind == HEDDLE_KIND_TENSOR && head->owner.pointer != NULL) {
      HeddleHead *owner = heddle_head(head->owner.pointer);
      if (--owner->count == 0) {
        owner->owner.pointer = next;
        next = owner;
      }
    } else if (head->kind == HEDDLE_KIND_TUPLE) {
      count = *(int64_t *)(void *)own;
      items = (HeddleCell *)(void *)(own + 8);
    } else if (head->kind == HEDDLE_KIND_CLOSURE) {
      count = ((int64_t *)(void *)own)[1];
      items = (HeddleCell *)(void *)(own + 16);
    }
    for (i = 0; i < count; ++i) {
      HeddleHead *item;
      if (items[i].kind < HEDDLE_KIND_TENSOR) continue;
      item = heddle_head(items[i].as.pointer);
      if (--item->count > 0) continue;
      if (item->kind == HEDDLE_KIND_TENSOR) { /* its owner's place is taken: a storage alone goes on the list */
        HeddleHead *owner = item->owner.pointer == NULL ? NULL : heddle_head(item->owner.pointer);
        heddle_give(item);
        if (owner == NULL || --owner->count > 0) continue;
        item = owner;
      }
      item->owner.pointer = next;
      next = item;
    }
    heddle_give(head);
    if (next == NULL) return;
    head = next;
    waiting = (HeddleHead *)head->owner.pointer;
    head->owner.pointer = NULL;
  }
}

void heddle_put(HeddleContext *context, HeddleCell *into, int32_t kind, void *payload) {
  const HeddleCell before = *into;
  (void)context;
  into->kind = kind;
  into->zero = 0;
  into->as.integer = 0;
  into->as.pointer = payload;
  if (before.kind >= HEDDLE_KIND_TENSOR) heddle_release(before.kind, before.as.pointer);
}

void heddle_copy(HeddleContext *context, HeddleCell *into, const HeddleCell *value) {
  const HeddleCell before = *into, now = *value;
  (void)context;
  heddle_retain(&now);
  *into = now;
  if (before.kind >= HEDDLE_KIND_TENSOR) heddle_release(before.kind, before.as.pointer);
}

void heddle_release_all(HeddleContext *context, HeddleCell *values, int64_t count) {
  int64_t i;
  for (i = 0; i < count; ++i) heddle_put(context, &values[i], 0, NULL);
}

static void heddle_copy_values(HeddleCell *to, const HeddleCell *from, int64_t count) {
  int64_t i;
  for (i = 0; i < count; ++i) {
    to[i] = from[i];
    heddle_retain(&to[i]);
  }
}

/* The product of sizes: -1 where one is negative, the largest number where it is too large. */
static int64_t heddle_product(int64_t ndim, const int64_t *sizes, int64_t element_bytes) {
  int64_t count = element_bytes, axis;
  bool is_empty = false;
  for (axis = 0; axis < ndim; ++axis) {
    if (sizes[axis] < 0) return -1;
    is_empty = is_empty || sizes[axis] == 0;
  }
  if (is_empty) return 0;
  for (axis = 0; axis < ndim; ++axis) {
    if (count > INT64_MAX / sizes[axis]) return INT64_MAX;
    count *= sizes[axis];
  }
  return count;
}

static int64_t heddle_element_bytes(int32_t dtype) {
  const int64_t bits = (dtype >> 8) & 255, lanes = (dtype >> 16) & 0xFFFF;
  return (bits + 7) / 8 * lanes;
}

static int64_t heddle_tensor_elements(const DLTensor *tensor) { return heddle_product(tensor->ndim, tensor->shape, 1); }

int32_t heddle_alloc_storage(HeddleContext *context, HeddleCell *into, int64_t ndim, const int64_t *sizes,
                             int64_t element_bytes, int32_t device) {
  const int64_t bytes = heddle_product(ndim, sizes, element_bytes);
  void *storage;
  if (device != 0) return heddle_refuse("device index %g is out of range: there are %e devices", 1, device);
  if (bytes < 0) return heddle_refuse("a size of a storage is negative", 0, bytes);
  if (bytes > INT64_MAX / 4) return heddle_refuse("out of memory: %g bytes were asked for", 0, bytes);
  storage = heddle_new(HEDDLE_KIND_STORAGE, HEDDLE_STORAGE_BYTES + bytes, NULL);
  if (storage == NULL) return -1;
  heddle_head(storage)->size_bytes = bytes;
  heddle_put(context, into, HEDDLE_KIND_STORAGE, storage);
  return 0;
}

static DLTensor *heddle_new_tensor(void *data, int64_t ndim, const int64_t *sizes, int32_t dtype, void *owner) {
  DLTensor *tensor = (DLTensor *)heddle_new(HEDDLE_KIND_TENSOR, (int64_t)sizeof(DLTensor) + 8 * ndim, owner);
  if (tensor == NULL) return NULL;
  memset(tensor, 0, sizeof *tensor);
  tensor->data = data;
  tensor->device.device_type = 1;
  tensor->ndim = (int32_t)ndim;
  tensor->dtype.code = (uint8_t)(dtype & 255);
  tensor->dtype.bits = (uint8_t)((dtype >> 8) & 255);
  tensor->dtype.lanes = (uint16_t)((dtype >> 16) & 0xFFFF);
  tensor->shape = (int64_t *)(void *)((unsigned char *)tensor + sizeof *tensor);
  if (ndim > 0) memcpy(tensor->shape, sizes, (size_t)ndim * 8);
  if (owner != NULL) ++heddle_head(owner)->count;
  return tensor;
}

int32_t heddle_alloc_tensor(HeddleContext *context, HeddleCell *into, void *storage, int64_t offset_bytes, int64_t ndim,
                            const int64_t *sizes, int32_t dtype) {
  const int64_t has = heddle_head(storage)->size_bytes;
  const int64_t bytes = heddle_product(ndim, sizes, heddle_element_bytes(dtype));
  DLTensor *tensor;
  if (bytes < 0 || offset_bytes < 0 || offset_bytes > has || bytes > has - offset_bytes)
    return heddle_refuse("tensor ends at byte %g of its storage, which has only %e bytes", has, bytes);
  tensor = heddle_new_tensor((unsigned char *)storage + HEDDLE_STORAGE_BYTES + offset_bytes, ndim, sizes, dtype, storage);
  if (tensor == NULL) return -1;
  heddle_put(context, into, HEDDLE_KIND_TENSOR, tensor);
  return 0;
}

int32_t heddle_reshape(HeddleContext *context, HeddleCell *into, DLTensor *tensor, int64_t ndim, const int64_t *sizes) {
  const int64_t have = heddle_tensor_elements(tensor), want = heddle_product(ndim, sizes, 1);
  DLTensor *view;
  if (want < 0 || want > have) return heddle_refuse("cannot view a tensor of %e elements as one of %g elements", have, want);
  view = heddle_new_tensor(tensor->data, ndim, sizes, heddle_dtype_word(tensor), heddle_head(tensor)->owner.pointer);
  if (view == NULL) return -1;
  heddle_put(context, into, HEDDLE_KIND_TENSOR, view);
  return 0;
}

int32_t heddle_make_shape(HeddleContext *context, HeddleCell *into, int64_t count, const int64_t *sizes) {
  int64_t *shape = (int64_t *)heddle_new(HEDDLE_KIND_SHAPE, 8 + 8 * count, NULL);
  if (shape == NULL) return -1;
  shape[0] = count;
  if (count > 0) memcpy(shape + 1, sizes, (size_t)count * 8);
  heddle_put(context, into, HEDDLE_KIND_SHAPE, shape);
  return 0;
}

int32_t heddle_make_tuple(HeddleContext *context, HeddleCell *into, int64_t count, const HeddleCell *items) {
  int64_t *tuple = (int64_t *)heddle_new(HEDDLE_KIND_TUPLE, 8 + (int64_t)sizeof(HeddleCell) * count, NULL);
  if (tuple == NULL) return -1;
  tuple[0] = count;
  heddle_copy_values((HeddleCell *)(void *)(tuple + 1), items, count);
  heddle_put(context, into, HEDDLE_KIND_TUPLE, tuple);
  return 0;
}

static HeddleCell *heddle_item(void *tuple, int64_t index) {
  const int64_t count = *(int64_t *)tuple;
  if (index < 0 || index >= count) {
    (void)heddle_refuse("tuple index %g is out of range: the tuple has %e elements", count, index);
    return NULL;
  }
  return (HeddleCell *)(void *)((int64_t *)tuple + 1) + index;
}

int32_t heddle_tuple_getitem(HeddleContext *context, HeddleCell *into, void *tuple, int64_t index) {
  const HeddleCell *item = heddle_item(tuple, index);
  if (item == NULL) return -1;
  heddle_copy(context, into, item);
  return 0;
}

int32_t heddle_tuple_reset(HeddleContext *context, void *tuple, int64_t index) {
  HeddleCell *item = heddle_item(tuple, index);
  if (item == NULL) return -1;
  heddle_put(context, item, 0, NULL);
  return 0;
}

/* The rows of a chain (((first, row), row), row) below those of the tensor `first`, as one new tensor. */
int32_t heddle_stack_chain(HeddleContext *context, HeddleCell *into, const HeddleCell *chain) {
  const HeddleCell *at = chain;
  const DLTensor *first, *row;
  DLTensor *made;
  HeddleCell temporary;
  int64_t rows = 0, row_bytes, place, first_rows, size;
  while (at->kind == HEDDLE_KIND_TUPLE && *(const int64_t *)at->as.pointer == 2) {
    at = heddle_item(at->as.pointer, 0);
    if (at[1].kind != HEDDLE_KIND_TENSOR) break;
    ++rows;
  }
  if (at->kind != HEDDLE_KIND_TENSOR || ((const DLTensor *)at->as.pointer)->ndim < 1)
    return heddle_refuse("expected a chain of rows, (((tensor, tensor), tensor), ...)", 0, 0);
  first = (const DLTensor *)at->as.pointer;
  first_rows = first->shape[0];
  row_bytes = heddle_product(first->ndim - 1, first->shape + 1, heddle_element_bytes(heddle_dtype_word(first)));
  memset(&temporary, 0, sizeof temporary);
  size = (first_rows + rows) * row_bytes;
  if (heddle_alloc_storage(context, &temporary, 1, &size, 1, 0) != 0) return -1;
  made = heddle_new_tensor((unsigned char *)temporary.as.pointer + HEDDLE_STORAGE_BYTES, first->ndim, first->shape,
                           heddle_dtype_word(first), temporary.as.pointer);
  heddle_put(context, &temporary, 0, NULL);
  if (made == NULL) return -1;
  made->shape[0] = first_rows + rows;
  memcpy(made->data, first->data, (size_t)(first_rows * row_bytes));
  temporary.kind = HEDDLE_KIND_TENSOR;
  temporary.as.pointer = made;
  at = chain;
  for (place = first_rows + rows - 1; place >= first_rows; --place) {
    at = heddle_item(at->as.pointer, 0);
    row = (const DLTensor *)at[1].as.pointer;
    if (heddle_product(row->ndim, row->shape, heddle_element_bytes(heddle_dtype_word(row))) != row_bytes ||
        heddle_dtype_word(row) != heddle_dtype_word(first)) {
      heddle_put(context, &temporary, 0, NULL);
      return heddle_refuse("rows of a chain differ: expected a dense one of %e bytes", row_bytes, 0);
    }
    memcpy((unsigned char *)made->data + place * row_bytes, row->data, (size_t)row_bytes);
  }
  heddle_put(context, into, HEDDLE_KIND_TENSOR, made);
  return 0;
}

/* ---- looking at values */

int64_t heddle_sizes(const HeddleCell *value, const int64_t **sizes) {
  if (value->kind == HEDDLE_KIND_TENSOR) {
    *sizes = ((const DLTensor *)value->as.pointer)->shape;
    return ((const DLTensor *)value->as.pointer)->ndim;
  }
  if (value->kind != HEDDLE_KIND_SHAPE) return -1;
  *sizes = (const int64_t *)value->as.pointer + 1;
  return *(const int64_t *)value->as.pointer;
}

int64_t heddle_kind_of(const HeddleCell *value) { return value->kind; }

int32_t heddle_condition(const HeddleCell *value) {
  static const unsigned char zeros[8] = {0};
  const DLTensor *tensor;
  if (value->kind == 1 || value->kind == 2) return value->as.integer != 0;
  if (value->kind != HEDDLE_KIND_TENSOR) return -1;
  tensor = (const DLTensor *)value->as.pointer;
  if (tensor->ndim != 0 || (tensor->dtype.code > 1 && tensor->dtype.code != 6)) return -1;
  return memcmp(tensor->data, zeros, (size_t)(tensor->dtype.bits + 7) / 8) != 0;
}

/* ---- calls */

int32_t heddle_room(HeddleContext *context, int64_t frame_bytes) {
  unsigned char here;
  const uintptr_t now = (uintptr_t)&here, base = (uintptr_t)context->stack_limit;
  const uintptr_t used = now < base ? base - now : now - base;
  if ((int64_t)used + frame_bytes > (int64_t)(HEDDLE_STACK_BYTES))
    return heddle_refuse("call depth exceeded: the stack has no room for another frame", 0, 0);
  return 0;
}

void heddle_enter(HeddleContext *context, HeddleCell *registers, const HeddleCell *args, int64_t count) {
  (void)context;
  heddle_copy_values(registers, args, count);
}

void heddle_leave(HeddleContext *context, HeddleCell *registers, int64_t count, const HeddleCell *value,
                  HeddleCell *result) {
  heddle_copy(context, result, value);
  heddle_release_all(context, registers, count);
}

void heddle_fail(HeddleContext *context, HeddleCell *registers, int64_t count, int64_t place) {
  if (context->error_place == -1) context->error_place = place;
  heddle_release_all(context, registers, count);
}

/* A program of its own has no host that could want it to end. */
int32_t heddle_turn(HeddleContext *context) {
  (void)context;
  return 0;
}

/* `args` are values that nobody counts: they get a holder before the registers lose theirs. */
void heddle_again(HeddleContext *context, HeddleCell *registers, int64_t num_registers, const HeddleCell *args,
                  int64_t count) {
  int64_t i;
  for (i = 0; i < count; ++i) heddle_retain(&args[i]);
  heddle_release_all(context, registers, num_registers);
  if (count > 0) memcpy(registers, args, (size_t)count * sizeof *args);
}

int32_t heddle_make_closure(HeddleContext *context, HeddleCell *into, int64_t function, int64_t count,
                            const HeddleCell *bound) {
  int64_t *closure = (int64_t *)heddle_new(HEDDLE_KIND_CLOSURE, 16 + (int64_t)sizeof(HeddleCell) * count, NULL);
  if (closure == NULL) return -1;
  closure[0] = function;
  closure[1] = count;
  heddle_copy_values((HeddleCell *)(void *)(closure + 2), bound, count);
  heddle_put(context, into, HEDDLE_KIND_CLOSURE, closure);
  return 0;
}

/* Runs the code of a function. One that ends with a call of another one (status 1) leaves that call as a closure. */
static int32_t heddle_run_code(HeddleContext *context, HeddleCode code, const HeddleCell *args, HeddleCell *into) {
  int32_t status = code(context, args, into);
  while (status == 1) {
    int64_t *const closure = (int64_t *)into->as.pointer;
    into->kind = 0;
    status = context->functions[closure[0]].code(context, (const HeddleCell *)(const void *)(closure + 2), into);
    heddle_release(HEDDLE_KIND_CLOSURE, closure);
  }
  return status;
}

static int32_t heddle_call(HeddleContext *context, HeddleCell *into, int64_t function, const HeddleCell *args,
                           int64_t count) {
  const HeddleEntry entry = context->functions[function];
  if (entry.code == NULL) return heddle_refuse("the program calls function %g, which only a host has", 0, function);
  if (entry.num_args != count) return heddle_refuse("a function takes %e arguments, got %g", entry.num_args, count);
  return heddle_run_code(context, entry.code, args, into);
}

int32_t heddle_call_by_words(HeddleContext *context, HeddleCell *registers, HeddleCell *into, const int64_t *words,
                             HeddleCell *args) {
  int64_t i;
  context->call_place = words[1];
  for (i = 0; i < words[2]; ++i) {
    const int64_t operand = words[3 + 2 * i], number = words[4 + 2 * i];
    if (operand == 256) {
      args[i] = registers[number];
    } else if (operand == 257) {
      args[i] = context->constants[number];
    } else {
      args[i].kind = (int32_t)operand;
      args[i].zero = 0;
      args[i].as.integer = number;
    }
  }
  return heddle_call(context, into, words[0], args, words[2]);
}

int32_t heddle_invoke(HeddleContext *context, HeddleCell *into, const HeddleCell *callee, const HeddleCell *args,
                      int64_t count) {
  HeddleCell held = *callee, *room;
  int64_t *closure;
  int32_t status;
  if (held.kind != HEDDLE_KIND_CLOSURE) return heddle_refuse("expected a function to call", 0, held.kind);
  closure = (int64_t *)held.as.pointer;
  room = (HeddleCell *)heddle_take((int64_t)sizeof(HeddleCell) * (count + closure[1]));
  if (room == NULL) return -1;
  if (count > 0) memcpy(room, args, (size_t)count * sizeof *room);
  if (closure[1] > 0) memcpy(room + count, closure + 2, (size_t)closure[1] * sizeof *room);
  heddle_retain(&held);
  status = heddle_call(context, into, closure[0], room, count + closure[1]);
  heddle_release(held.kind, held.as.pointer);
  heddle_give(room);
  return status;
}

/* ---- heddle.h */

struct HeddleProgram {
  HeddleContext context;
  HeddleCell result;
  char text[512];
};

static struct HeddleProgram heddle_the_program;

HeddleProgram *heddle_open(void) {
  memset(&heddle_the_program, 0, sizeof heddle_the_program);
  heddle_the_program.context.constants = heddle_constants();
  heddle_the_program.context.functions = heddle_functions;
  return &heddle_the_program;
}

void heddle_close(HeddleProgram *program) {
  if (program != NULL) heddle_put(&program->context, &program->result, 0, NULL);
}

static bool heddle_is_compact(const DLTensor *tensor) {
  int64_t step = 1;
  int32_t axis;
  if (tensor->strides == NULL) return true;
  for (axis = tensor->ndim - 1; axis >= 0; --axis) {
    if (tensor->shape[axis] > 1 && tensor->strides[axis] != step) return heddle_tensor_elements(tensor) == 0;
    step *= tensor->shape[axis];
  }
  return true;
}

int heddle_run(HeddleProgram *program, const char *function, const DLTensor *const *inputs, int num_inputs) {
  HeddleContext *const context = &program->context;
  HeddleCell *values;
  int64_t number = 0;
  int32_t status = 0, i, lent = 0;
  heddle_put(context, &program->result, 0, NULL);
  while (number < heddle_num_functions &&
         (heddle_function_names[number] == NULL || strcmp(heddle_function_names[number], function) != 0))
    ++number;
  if (number == heddle_num_functions) return heddle_refuse("the program has no such function", 0, 0);
  if (heddle_functions[number].num_args != num_inputs)
    return heddle_refuse("the function takes %e inputs, got %g", heddle_functions[number].num_args, num_inputs);
  values = (HeddleCell *)heddle_take((int64_t)sizeof(HeddleCell) * num_inputs);
  if (values == NULL) return -1;
  for (i = 0; i < num_inputs && status == 0; ++i) {
    DLTensor *tensor;
    if (!heddle_is_compact(inputs[i])) {
      status = heddle_refuse("input %g is not compact and row-major", 0, i);
      break;
    }
    tensor = (DLTensor *)heddle_new(HEDDLE_KIND_TENSOR, (int64_t)sizeof(DLTensor), NULL);
    status = tensor == NULL ? -1 : 0;
    if (tensor == NULL) break;
    *tensor = *inputs[i];
    tensor->strides = NULL;
    memset(&values[i], 0, sizeof values[i]);
    values[i].kind = HEDDLE_KIND_TENSOR;
    values[i].as.pointer = tensor;
    lent = i + 1;
  }
  if (status == 0) {
    unsigned char here;
    context->error_place = -1;
    context->stack_limit = &here;
    status = heddle_run_code(context, heddle_functions[number].code, values, &program->result);
    context->stack_limit = NULL;
  }
  heddle_release_all(context, values, lent);
  heddle_give(values);
  return status;
}

int heddle_num_outputs(HeddleProgram *program) {
  if (program->result.kind == HEDDLE_KIND_TENSOR) return 1;
  return program->result.kind == HEDDLE_KIND_TUPLE ? (int)*(const int64_t *)program->result.as.pointer : 0;
}

const DLTensor *heddle_output(HeddleProgram *program, int index) {
  const HeddleCell *found = &program->result;
  if (index < 0 || index >= heddle_num_outputs(program)) return NULL;
  if (found->kind == HEDDLE_KIND_TUPLE) found = heddle_item(found->as.pointer, index);
  return found->kind == HEDDLE_KIND_TENSOR ? (const DLTensor *)found->as.pointer : NULL;
}

static char *heddle_write_number(char *to, int64_t number) {
  char digits[20];
  int count = 0;
  uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
  if (number < 0) *to++ = '-';
  do digits[count++] = (char)('0' + rest % 10);
  while ((rest /= 10) != 0);
  while (count > 0) *to++ = digits[--count];
  return to;
}

static char *heddle_write_text(char *to, const char *text) {
  while (*text != 0) *to++ = *text++;
  return to;
}

/* What a message calls a value of a kind. */
static const char *heddle_kind_name(int64_t kind) {
  static const char *const names[] = {"nothing", "an int", "a bool", "a float", "a pointer", "a value", "a value",
                                      "a tensor", "a shape", "a tuple", "a closure", "a storage"};
  return kind >= 0 && kind < (int64_t)(sizeof names / sizeof names[0]) ? names[kind] : "a value";
}

/* The spelling of a dtype: its code, its bits and its lanes are the bytes of a number. */
static char *heddle_write_dtype(char *to, int64_t word) {
  static const char *const names[] = {"int", "uint", "float", "handle", "bfloat", "complex"};
  const int64_t code = word & 255, bits = word >> 8 & 255;
  if (code == 6) return heddle_write_text(to, "bool");
  if (code > 6) return heddle_write_number(heddle_write_text(to, "code "), code);
  return heddle_write_number(heddle_write_text(to, names[code]), bits);
}

const char *heddle_error(HeddleProgram *program) {
  char *to = program->text, *const end = program->text + sizeof program->text - 32;
  const char *from = heddle_last_error.message;
  if (heddle_last_error.is_set) {
    for (; *from != 0 && to < end; ++from) {
      if (from[0] == '%' && from[1] != 0) {
        const int64_t got = heddle_last_error.got;
        switch (*++from) {
          case 'e': to = heddle_write_number(to, heddle_last_error.expected); break;
          case 't': to = heddle_write_dtype(to, got); break;
          case 'k':
          case 'v': to = heddle_write_text(to, heddle_kind_name(got)); break;
          case 'g': to = heddle_write_number(to, got); break;
          default: *to++ = *--from;
        }
      } else {
        *to++ = *from;
      }
    }
  }
  heddle_last_error.is_set = false;
  *to = 0;
  return program->text;
}

/* How much of the arena was ever in use; 0 without one. */
uint64_t heddle_arena_peak_bytes(void) {
#ifdef HEDDLE_ARENA_BYTES
  return heddle_arena_used;
#else
  return 0;
#endif
}

#endif
