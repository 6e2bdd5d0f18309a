/* What the functions of a program call, in C code that heddle made.

   A program that is loaded into a Python process has these functions from heddle's support library. A program of its
   own includes heddle_runtime.h, which defines them. */

#ifndef HEDDLE_PROGRAM_H_
#define HEDDLE_PROGRAM_H_

#include "heddle_c.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HEDDLE_KIND_TENSOR = 7, HEDDLE_KIND_SHAPE = 8, HEDDLE_KIND_TUPLE = 9, HEDDLE_KIND_CLOSURE = 10, HEDDLE_KIND_STORAGE = 11 };

typedef struct HeddleContext HeddleContext;
typedef int32_t (*HeddleCode)(HeddleContext *context, const HeddleCell *args, HeddleCell *result);

typedef struct {
  HeddleCode code;
  int64_t num_args;
} HeddleEntry;

/* What a machine keeps for its program. The constants -1, -2, ... are its functions, as values. */
struct HeddleContext {
  void *pools;
  const HeddleCell *constants;
  const HeddleEntry *functions;
  void *host_call, *deferred, *state;
  int64_t error_place;
  void *stack_limit;
  int64_t thread, calls, call_place, watched;
  void *owner;
  int64_t stack_left;
  void *home, *home_limit;
  int64_t turns, asks, asked_at;
};

/* A register that gets a value drops the one that it had. Functions that give a status fail with -1 and an error. */
int32_t heddle_room(HeddleContext *context, int64_t frame_bytes);
void heddle_enter(HeddleContext *context, HeddleCell *registers, const HeddleCell *args, int64_t count);
void heddle_leave(HeddleContext *context, HeddleCell *registers, int64_t count, const HeddleCell *value,
                  HeddleCell *result);
void heddle_fail(HeddleContext *context, HeddleCell *registers, int64_t count, int64_t place);
int32_t heddle_turn(HeddleContext *context); /* before each turn of a loop: fails where the host wants an end */
void heddle_again(HeddleContext *context, HeddleCell *registers, int64_t num_registers, const HeddleCell *args,
                  int64_t count);
void heddle_put(HeddleContext *context, HeddleCell *into, int32_t kind, void *payload);
void heddle_copy(HeddleContext *context, HeddleCell *into, const HeddleCell *value);
void heddle_release_all(HeddleContext *context, HeddleCell *values, int64_t count);
int64_t heddle_sizes(const HeddleCell *value, const int64_t **sizes); /* of a tensor or shape; else -1 */
int64_t heddle_kind_of(const HeddleCell *value);
int32_t heddle_condition(const HeddleCell *value); /* 0, 1, or -1 where the host has to say */
int32_t heddle_alloc_storage(HeddleContext *context, HeddleCell *into, int64_t ndim, const int64_t *sizes,
                             int64_t element_bytes, int32_t device);
int32_t heddle_alloc_tensor(HeddleContext *context, HeddleCell *into, void *storage, int64_t offset_bytes, int64_t ndim,
                            const int64_t *sizes, int32_t dtype);
int32_t heddle_reshape(HeddleContext *context, HeddleCell *into, DLTensor *tensor, int64_t ndim, const int64_t *sizes);
int32_t heddle_make_shape(HeddleContext *context, HeddleCell *into, int64_t count, const int64_t *sizes);
int32_t heddle_make_tuple(HeddleContext *context, HeddleCell *into, int64_t count, const HeddleCell *items);
int32_t heddle_tuple_getitem(HeddleContext *context, HeddleCell *into, void *tuple, int64_t index);
int32_t heddle_tuple_reset(HeddleContext *context, void *tuple, int64_t index);
int32_t heddle_stack_chain(HeddleContext *context, HeddleCell *into, const HeddleCell *chain);
int32_t heddle_make_closure(HeddleContext *context, HeddleCell *into, int64_t function, int64_t count,
                            const HeddleCell *bound);
int32_t heddle_invoke(HeddleContext *context, HeddleCell *into, const HeddleCell *closure, const HeddleCell *args,
                      int64_t count);
int32_t heddle_call_by_words(HeddleContext *context, HeddleCell *registers, HeddleCell *into, const int64_t *words,
                             HeddleCell *args);

/* How much of the arena was ever in use; 0 without one. Of heddle_runtime.h alone. */
uint64_t heddle_arena_peak_bytes(void);

/* The slots of a shape heap, NULL where the value is none. */
static inline int64_t *heddle_shape_heap(const HeddleCell *value) {
  const DLTensor *tensor;
  if (value->kind != HEDDLE_KIND_TENSOR) return NULL;
  tensor = (const DLTensor *)value->as.pointer;
  return heddle_dtype_word(tensor) == 0x14000 && tensor->ndim == 1 ? (int64_t *)tensor->data : NULL;
}

static inline int32_t heddle_new_shape_heap(HeddleContext *context, HeddleCell *into, int64_t slots) {
  HeddleCell storage;
  int32_t status;
  memset(&storage, 0, sizeof storage);
  if (heddle_alloc_storage(context, &storage, 1, &slots, 8, 0) != 0) return -1;
  status = heddle_alloc_tensor(context, into, storage.as.pointer, 0, 1, &slots, 0x14000);
  if (status == 0 && slots > 0) memset(((DLTensor *)into->as.pointer)->data, 0, (size_t)slots * 8);
  heddle_put(context, &storage, 0, NULL);
  return status;
}

/* Whether the host language holds the same object. The flags are 20 bytes before what a value points to. */
static inline bool heddle_is_the_hosts(const void *payload) {
  int32_t flags;
  memcpy(&flags, (const unsigned char *)payload - 20, sizeof flags);
  return flags != 0;
}

#ifdef __cplusplus
}
#endif

#endif
