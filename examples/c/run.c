/* Runs a model that heddle exported, with no Python in the process.

     heddle compile model.onnx -o model.so
     cc run.c model.so -Wl,-rpath,. -o run && ./run

   The model takes one float32 tensor of shape (rows, 8); its outputs are printed. */

#include <stdio.h>
#include <stdlib.h>

#include "heddle.h"

static void print(const DLTensor* tensor) {
  int64_t count = 1;
  for (int axis = 0; axis < tensor->ndim; ++axis) count *= tensor->shape[axis];
  for (int64_t i = 0; i < count; ++i) printf("%.6g ", ((const float*)tensor->data)[i]);
  printf("\n");
}

int main(int argc, char** argv) {
  int64_t rows = argc > 1 ? atoll(argv[1]) : 3;
  int64_t columns = argc > 2 ? atoll(argv[2]) : 8;
  int64_t shape[2] = {rows, columns};
  float* data = malloc(sizeof(float) * rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) data[i] = (float)(i % 7) - 3;
  DLTensor input = {data, {1, 0}, 2, {2, 32, 1}, shape, NULL, 0};
  const DLTensor* inputs[] = {&input};

  HeddleProgram* program = heddle_open();
  int status = heddle_run(program, "main", inputs, 1);
  if (status != 0) {
    fprintf(stderr, "%s\n", heddle_error(program));
  } else {
    for (int i = 0; i < heddle_num_outputs(program); ++i) print(heddle_output(program, i));
  }
  heddle_close(program);
  free(data);
  return status == 0 ? 0 : 1;
}
