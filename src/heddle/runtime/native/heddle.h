/* Programs that heddle exported into a shared library, from C. No Python is needed.

   A program object belongs to one thread at a time; open as many as there are threads. Tensors are DLPack's, on the
   CPU, without gaps between elements. Outputs belong to the program and live until its next run or its end; an output
   may share memory with an input. Functions that fail return -1, and heddle_error tells why. */

#ifndef HEDDLE_H_
#define HEDDLE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
typedef struct { int32_t device_type, device_id; } DLDevice;               /* the CPU is {1, 0} */
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;         /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;                                                         /* NULL: row-major without gaps */
  uint64_t byte_offset;
} DLTensor;
#endif

typedef struct HeddleProgram HeddleProgram;

HeddleProgram* heddle_open(void);
void heddle_close(HeddleProgram* program);

/* Run a function, "main" say. 0, or -1. */
int heddle_run(HeddleProgram* program, const char* function, const DLTensor* const* inputs, int num_inputs);

/* The outputs of the last run: the fields of a tuple, or the one value; NULL where there is no such output or it is no
   tensor. */
int heddle_num_outputs(HeddleProgram* program);
const DLTensor* heddle_output(HeddleProgram* program, int index);

/* What went wrong last on this thread; "" where nothing did. */
const char* heddle_error(HeddleProgram* program);

/* A library of a module with the attribute system_lib_prefix has these functions with the prefix before their names, so
   that several can be linked into one program: HEDDLE_DECLARE(my_) declares my_heddle_open and the others. */
#define HEDDLE_DECLARE(prefix)                                                                                   \
  HeddleProgram* prefix##heddle_open(void);                                                                      \
  void prefix##heddle_close(HeddleProgram* program);                                                             \
  int prefix##heddle_run(HeddleProgram* program, const char* function, const DLTensor* const* inputs,            \
                         int num_inputs);                                                                        \
  int prefix##heddle_num_outputs(HeddleProgram* program);                                                        \
  const DLTensor* prefix##heddle_output(HeddleProgram* program, int index);                                      \
  const char* prefix##heddle_error(HeddleProgram* program);

#ifdef __cplusplus
}
#endif

#endif
