/* SPDX-License-Identifier: Apache-2.0 */
/* Forecasts from C, one step at a time. usage: stream MODEL.safetensors < numbers */
#include <stdio.h>
#include <stdlib.h>
#include <unroll.h>

static int failed(void) {
  fprintf(stderr, "%s\n", unroll_last_error());
  return 1;
}

int main(int argc, char** argv) {
  unroll_model* model = NULL;
  unroll_stream* stream = NULL;
  size_t inputs = 0, outputs = 0;
  if (argc != 2) return fprintf(stderr, "usage: stream MODEL.safetensors < numbers\n"), 2;
  if (unroll_model_open(argv[1], "backend=cpu", &model) || unroll_stream_new(model, NULL, &stream)) return failed();
  if (unroll_stream_sizes(stream, &inputs, &outputs)) return failed();
  float* x = calloc(inputs, sizeof *x);
  float* y = calloc(outputs, sizeof *y);
  for (;;) {
    for (size_t i = 0; i < inputs; ++i)
      if (scanf("%f", &x[i]) != 1) goto end;
    if (unroll_stream_step(stream, x, inputs, y, outputs)) return failed();
    printf("%.6g\n", (double)y[0]); /* the next value, in the units of the data */
  }
end:
  free(x);
  free(y);
  unroll_stream_free(stream);
  return unroll_model_close(model);
}
