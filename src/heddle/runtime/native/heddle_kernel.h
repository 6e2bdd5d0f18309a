/* Functions of one's own in C, for programs that heddle compiles.

   A graph calls one by its name; the source stands in the attribute c_source of the call's ExternFunc:

     #include "heddle_kernel.h"

     HEDDLE_KERNEL(twice) {
       const DLTensor *x = args[0].tensor, *out = args[1].tensor;
       for (int64_t i = 0; i < x->shape[0]; ++i) ((float*)out->data)[i] = 2 * ((const float*)x->data)[i];
       return 0;
     }

   Tensors are the caller's, compact and row-major; the result goes into one of them. 0 is success; -1 comes after
   heddle_set_error. Functions may run in several threads at once. */

#ifndef HEDDLE_KERNEL_H_
#define HEDDLE_KERNEL_H_

#include "heddle.h"

enum { HEDDLE_NONE = 0, HEDDLE_INT = 1, HEDDLE_BOOL = 2, HEDDLE_FLOAT = 3, HEDDLE_POINTER = 4, HEDDLE_TENSOR = 7 };

typedef struct {
  int32_t kind, unused;
  union {
    int64_t integer;                                                        /* also of HEDDLE_BOOL */
    double real;
    void* pointer;
    DLTensor* tensor;
  };
} HeddleValue;

#ifdef __cplusplus
extern "C" {
#define HEDDLE_EXTERN_C extern "C"
#else
#define HEDDLE_EXTERN_C
#endif

/* Says what is wrong. `kind`: 0 the program is at fault, 1 a value (ValueError), 2 a type (TypeError), 3 an index
   (IndexError). In the message %e and %g stand for the two numbers. */
void heddle_set_error(int32_t kind, const char* message, int64_t expected, int64_t got);

/* Calls `body(begin, end, data)` in parallel on ranges of 0..extent, of `grain` at least. 0, or -1 where one failed.
   A negative `grain` says that the loop reads much memory once: every other run goes backwards, to find there what the
   run before read last. */
int32_t heddle_parallel_for(int32_t (*body)(int64_t begin, int64_t end, void* data), void* data, int64_t extent,
                            int64_t grain);

#ifdef __cplusplus
}
#endif

#define HEDDLE_KERNEL(name)                                                          \
  HEDDLE_EXTERN_C int32_t heddle_kernel_##name(const HeddleValue* args, int32_t num_args); \
  int32_t heddle_kernel_##name(const HeddleValue* args, int32_t num_args)

#endif
