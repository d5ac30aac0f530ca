/* SPDX-License-Identifier: Apache-2.0 */
/* The C library as a C program sees it. usage: test_c FORECAST.safetensors; the model reads one series */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unroll.h>

static int failures = 0;
static void check(int ok, const char* what, int line) {
  if (ok) return;
  fprintf(stderr, "line %d: %s; last error: %s\n", line, what, unroll_last_error());
  ++failures;
}
#define CHECK(condition) check(condition, #condition, __LINE__)
#define REFUSED(call, code, text) \
  check((call) == (code) && strstr(unroll_last_error(), text) != NULL, #call " is refused with: " text, __LINE__)

static unroll_tensor_info info_of(unroll_model* model, int kind) {
  unroll_tensor_info info = {.struct_size = sizeof info};
  CHECK(unroll_model_info(model, kind, 0, &info) == UNROLL_OK);
  return info;
}

/* Whole sequences give what the stream gives step by step. */
static void predictor_agrees_with_stream(unroll_model* model) {
  enum { T = 5 };
  const float x[T] = {330.5f, 331.0f, 329.75f, 332.5f, 333.0f};
  unroll_predictor* predictor = NULL;
  unroll_stream* stream = NULL;
  unroll_tensor_view view = {.struct_size = sizeof view};
  size_t inputs = 0, outputs = 0;
  CHECK(unroll_predictor_new(model, &predictor) == UNROLL_OK);
  REFUSED(unroll_predictor_get(predictor, "forecast", &view), UNROLL_USAGE, "no outputs yet");
  CHECK(unroll_predictor_set(predictor, "x", UNROLL_F32, (const int64_t[]){T, 1, 1}, 3, x) == UNROLL_OK);
  CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
  CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK);
  REFUSED(unroll_predictor_get(predictor, "other", &view), UNROLL_USAGE, "no output 'other'");

  CHECK(unroll_stream_new(model, "", &stream) == UNROLL_OK);
  CHECK(unroll_stream_sizes(stream, &inputs, &outputs) == UNROLL_OK);
  CHECK(inputs == 1 && view.rank == 3 && view.dims[1] * view.dims[2] == (int64_t)outputs);
  float* y = calloc(outputs, sizeof *y);
  for (int t = 0; t < T; ++t) CHECK(unroll_stream_step(stream, &x[t], 1, y, outputs) == UNROLL_OK);
  for (size_t i = 0; i < outputs; ++i) CHECK(fabsf(y[i] - ((const float*)view.data)[i]) <= 3e-5f * fabsf(y[i]));
  REFUSED(unroll_stream_step(stream, x, 2, y, outputs), UNROLL_USAGE, "a step reads 1 values");

  CHECK(unroll_predictor_set(predictor, "x", UNROLL_F32, (const int64_t[]){T, 1}, 2, x) == UNROLL_OK);
  REFUSED(unroll_predictor_run(predictor), UNROLL_USAGE, "[x] expected f32[T,B,1], got f32[5,1]");
  CHECK(unroll_predictor_free(predictor) == UNROLL_OK);
  REFUSED(unroll_predictor_free(predictor), UNROLL_USAGE, "no open predictor");
  CHECK(unroll_stream_free(stream) == UNROLL_OK);
  free(y);
}

/* A borrowed input is read where it is: a change of the array is seen by the next run. */
static void predictor_borrows(unroll_model* model) {
  enum { T = 5 };
  const int64_t dims[3] = {T, 1, 1};
  float x[T] = {330.5f, 331.0f, 329.75f, 332.5f, 333.0f}, first[256], other[256];
  unroll_predictor* predictor = NULL;
  unroll_tensor_view view = {.struct_size = sizeof view};
  CHECK(unroll_predictor_new(model, &predictor) == UNROLL_OK);
  CHECK(unroll_predictor_set(predictor, "x", UNROLL_F32, dims, 3, x) == UNROLL_OK);
  CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
  CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK && view.bytes <= sizeof first);
  memcpy(first, view.data, view.bytes);
  CHECK(unroll_predictor_borrow(predictor, "x", UNROLL_F32, dims, 3, x) == UNROLL_OK);
  REFUSED(unroll_predictor_get(predictor, "forecast", &view), UNROLL_USAGE, "no outputs yet");
  CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
  CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK);
  CHECK(memcmp(first, view.data, view.bytes) == 0);
  x[T - 1] += 10;
  CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
  CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK);
  memcpy(other, view.data, view.bytes);
  CHECK(memcmp(first, other, view.bytes) != 0);
  CHECK(unroll_predictor_set(predictor, "x", UNROLL_F32, dims, 3, x) == UNROLL_OK);
  x[T - 1] -= 10;
  CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
  CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK);
  CHECK(memcmp(other, view.data, view.bytes) == 0);
  REFUSED(unroll_predictor_borrow(predictor, "x", UNROLL_F32, dims, 3, (const char*)x + 1), UNROLL_USAGE,
          "must begin at a multiple of 4 bytes");
  REFUSED(unroll_predictor_borrow(predictor, "x", UNROLL_F32, dims, 3, NULL), UNROLL_USAGE, "data");
  CHECK(unroll_predictor_free(predictor) == UNROLL_OK);
}

/* What is not finite is no error: the outputs are those of the network, until a reset. */
static void inputs_may_be_not_finite(unroll_model* model) {
  const float wrong[] = {NAN, INFINITY, -INFINITY};
  float x[2] = {331, 0}, y[256];
  size_t inputs = 0, n = 0;
  unroll_predictor* predictor = NULL;
  unroll_stream* stream = NULL;
  unroll_tensor_view view = {.struct_size = sizeof view};
  CHECK(unroll_predictor_new(model, &predictor) == UNROLL_OK && unroll_stream_new(model, NULL, &stream) == UNROLL_OK);
  CHECK(unroll_stream_sizes(stream, &inputs, &n) == UNROLL_OK && n <= 256);
  for (int k = 0; k < 3; ++k) {
    x[1] = wrong[k];
    CHECK(unroll_predictor_set(predictor, "x", UNROLL_F32, (const int64_t[]){2, 1, 1}, 3, x) == UNROLL_OK);
    CHECK(unroll_predictor_run(predictor) == UNROLL_OK);
    CHECK(unroll_predictor_get(predictor, "forecast", &view) == UNROLL_OK && !isfinite(((const float*)view.data)[0]));
    for (int t = 0; t < 2; ++t) CHECK(unroll_stream_step(stream, &x[t], 1, y, n) == UNROLL_OK);
    CHECK(!isfinite(y[0]));
    CHECK(unroll_stream_reset(stream, -1) == UNROLL_OK);
    for (int t = 0; t < 2; ++t) CHECK(unroll_stream_step(stream, &x[0], 1, y, n) == UNROLL_OK);
    CHECK(isfinite(y[0]));
    CHECK(unroll_stream_reset(stream, -1) == UNROLL_OK);
  }
  CHECK(unroll_predictor_free(predictor) == UNROLL_OK && unroll_stream_free(stream) == UNROLL_OK);
}

/* A saved state, restored or forked, goes on with the same bits. */
static void state_is_saved_and_forked(unroll_model* model) {
  unroll_stream *a = NULL, *b = NULL, *c = NULL;
  float x = 331, from_a[256], from_b[256], from_c[256];
  size_t inputs = 0, n = 0, size = 0;
  CHECK(unroll_stream_new(model, "lanes=1", &a) == UNROLL_OK && unroll_stream_new(model, NULL, &b) == UNROLL_OK);
  CHECK(unroll_stream_sizes(a, &inputs, &n) == UNROLL_OK && n <= 256);
  CHECK(unroll_stream_step(a, &x, 1, from_a, n) == UNROLL_OK);
  CHECK(unroll_stream_save(a, NULL, &size) == UNROLL_OK && size > 0);
  void* saved = malloc(size);
  size_t short_size = 3;
  REFUSED(unroll_stream_save(a, saved, &short_size), UNROLL_USAGE, "the buffer has 3 bytes");
  CHECK(unroll_stream_save(a, saved, &size) == UNROLL_OK);
  CHECK(unroll_stream_restore(b, saved, size) == UNROLL_OK);
  REFUSED(unroll_stream_restore(b, saved, size / 2), UNROLL_INPUT_FILE, "state");
  CHECK(unroll_stream_fork(a, &c) == UNROLL_OK);
  x = 332;
  CHECK(unroll_stream_step(a, &x, 1, from_a, n) == UNROLL_OK);
  CHECK(unroll_stream_step(b, &x, 1, from_b, n) == UNROLL_OK);
  CHECK(unroll_stream_step(c, &x, 1, from_c, n) == UNROLL_OK);
  CHECK(memcmp(from_a, from_b, n * sizeof x) == 0 && memcmp(from_a, from_c, n * sizeof x) == 0);
  CHECK(unroll_stream_reset(a, -1) == UNROLL_OK);
  REFUSED(unroll_stream_reset(a, 1), UNROLL_USAGE, "1 lanes; got lane 1");
  free(saved);
  CHECK(unroll_stream_free(a) == 0 && unroll_stream_free(b) == 0 && unroll_stream_free(c) == 0);
}

/* Wrong calls are answered with what to do; nothing is followed that is no handle. */
static void wrong_calls_are_refused(unroll_model* model, const char* path) {
  unroll_model* other = (unroll_model*)path;
  unroll_stream* stream = NULL;
  unroll_tensor_info info = {.struct_size = 0};
  size_t n = 0;
  REFUSED(unroll_stream_new(other, NULL, &stream), UNROLL_USAGE, "no open model");
  REFUSED(unroll_stream_new(NULL, NULL, &stream), UNROLL_USAGE, "no open model");
  REFUSED(unroll_stream_new(model, NULL, NULL), UNROLL_USAGE, "'stream' is NULL");
  REFUSED(unroll_stream_new(model, "lanez=2", &stream), UNROLL_USAGE, "no option 'lanez'");
  REFUSED(unroll_stream_new(model, "lanes=x", &stream), UNROLL_USAGE, "'lanes' must be a number from 1");
  REFUSED(unroll_stream_new(model, "lanes=2 lanes=2", &stream), UNROLL_USAGE, "given twice");
  REFUSED(unroll_stream_new(model, "weights=f8", &stream), UNROLL_USAGE, "unknown weight format 'f8'");
  REFUSED(unroll_model_info(model, UNROLL_INPUT, 0, &info), UNROLL_USAGE, "struct_size is 0");
  REFUSED(unroll_model_info(model, 7, 0, &info), UNROLL_USAGE, "of kind 7");
  REFUSED(unroll_model_count(model, 2, &n), UNROLL_USAGE, "no kind 2");
  REFUSED(unroll_model_metadata(model, "nothing", NULL, &n), UNROLL_USAGE, "no metadata 'nothing'");
  REFUSED(unroll_model_open("/no/such/file", NULL, &other), UNROLL_INPUT_FILE, "/no/such/file");
  CHECK(other == NULL && strlen(unroll_last_error()) > 0);
  REFUSED(unroll_model_open(path, "backend=abacus", &other), UNROLL_DEVICE, "abacus");
  CHECK(strlen(unroll_last_error_hint()) > 0);
  REFUSED(unroll_model_open_memory("short", 5, NULL, &other), UNROLL_INPUT_FILE, "model");
}

static void* bytes_of(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file) exit(1);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* bytes = malloc(*size);
  if (fread(bytes, 1, *size, file) != *size) exit(1);
  fclose(file);
  return bytes;
}

int main(int argc, char** argv) {
  unroll_model *model = NULL, *copy = NULL;
  unroll_stream* stream = NULL;
  char task[32];
  size_t size = sizeof task, n = 0;
  if (argc != 2) return 2;
  CHECK(unroll_abi_version() == UNROLL_ABI_VERSION && strlen(unroll_version()) > 0);
  CHECK(unroll_require_abi(UNROLL_ABI_VERSION) == UNROLL_OK);
  REFUSED(unroll_require_abi(UNROLL_ABI_VERSION + 1), UNROLL_USAGE, "has version 1");
  CHECK(unroll_model_open(argv[1], "backend=cpu threads=1", &model) == UNROLL_OK);
  if (!model) return 1;
  CHECK(unroll_model_metadata(model, "task", task, &size) == UNROLL_OK && strcmp(task, "forecast") == 0);
  CHECK(size == strlen("forecast") + 1);
  CHECK(unroll_model_count(model, UNROLL_INPUT, &n) == UNROLL_OK && n == 1);
  const unroll_tensor_info in = info_of(model, UNROLL_INPUT), out = info_of(model, UNROLL_OUTPUT);
  CHECK(strcmp(in.name, "x") == 0 && in.rank == 3 && in.dims[0] == -1 && strcmp(in.axes[0], "T") == 0);
  CHECK(in.dims[2] == 1 && strcmp(in.axes[2], "") == 0 && in.dtype == UNROLL_F32 && !in.is_state);
  CHECK(strcmp(out.name, "forecast") == 0);
  predictor_agrees_with_stream(model);
  predictor_borrows(model);
  inputs_may_be_not_finite(model);
  state_is_saved_and_forked(model);
  wrong_calls_are_refused(model, argv[1]);

  /* The same model from memory; a stream outlives its model's handle. */
  void* bytes = bytes_of(argv[1], &size);
  CHECK(unroll_model_open_memory(bytes, size, NULL, &copy) == UNROLL_OK);
  free(bytes);
  CHECK(unroll_stream_new(copy, NULL, &stream) == UNROLL_OK && unroll_model_close(copy) == UNROLL_OK);
  CHECK(unroll_stream_reset(stream, 0) == UNROLL_OK && unroll_stream_free(stream) == UNROLL_OK);
  REFUSED(unroll_stream_new(copy, NULL, &stream), UNROLL_USAGE, "no open model");
  CHECK(unroll_model_close(model) == UNROLL_OK && unroll_model_close(NULL) == UNROLL_OK);
  if (failures == 0) puts("all checks of the C library passed");
  return failures != 0;
}
