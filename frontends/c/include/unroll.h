/* SPDX-License-Identifier: Apache-2.0 */
/* Runs trained models from C, or from any language that calls C. Link with libunroll-c (pkg-config unroll-c).
 *
 * Every function that can fail returns 0, or one of the codes below; unroll_last_error() then returns the error message
 * of the calling thread. Closed or invalid handles are refused with UNROLL_USAGE. Two threads may use two streams or
 * two predictors at the same time, also of one model. A second call on the same object is refused with UNROLL_BUSY.
 * Strings are UTF-8. Arrays are dense and row-major: T steps, B sequences, I inputs, O outputs.
 *
 * Options are text, "key=value" separated by blanks; NULL or "" means all defaults. Unknown keys are refused. */
#ifndef UNROLL_H
#define UNROLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define UNROLL_C_API __attribute__((visibility("default")))
#else
#define UNROLL_C_API
#endif

/* Compare with unroll_abi_version(): functions are added, never changed, while the number stays. */
#define UNROLL_ABI_VERSION 1

enum unroll_code {
  UNROLL_OK = 0,
  UNROLL_INTERNAL = 1,   /* a bug in the library: please report it */
  UNROLL_USAGE = 2,      /* an invalid option, handle, name, shape or dtype */
  UNROLL_INPUT_FILE = 3, /* a file is missing or malformed */
  UNROLL_NUMERIC = 4,
  UNROLL_DEVICE = 5,
  UNROLL_STORAGE = 6,
  UNROLL_MEMORY = 7,
  UNROLL_BUSY = 10       /* another thread is using this stream or predictor */
};

enum unroll_dtype { UNROLL_F32 = 0, UNROLL_F64 = 1, UNROLL_I32 = 2, UNROLL_B8 = 3, UNROLL_BF16 = 4, UNROLL_F16 = 5 };
enum unroll_kind { UNROLL_INPUT = 0, UNROLL_OUTPUT = 1 };
#define UNROLL_MAX_RANK 6

typedef struct unroll_model unroll_model;         /* a trained model */
typedef struct unroll_predictor unroll_predictor; /* complete sequences, in batches */
typedef struct unroll_stream unroll_stream;       /* one step at a time; keeps its state */

/* An input or output of a model. Set struct_size to sizeof(unroll_tensor_info). Pointers are valid until the
 * model is closed. */
typedef struct unroll_tensor_info {
  size_t struct_size;
  const char* name;
  int32_t dtype;                     /* enum unroll_dtype */
  int32_t rank;
  int64_t dims[UNROLL_MAX_RANK];     /* -1: each call chooses the size */
  const char* axes[UNROLL_MAX_RANK]; /* the letter of a free axis, "T" or "B"; "" for a fixed size */
  int32_t is_state;                  /* the input is optional and defaults to zeros. The output of the same name is
                                        its next value */
} unroll_tensor_info;

/* A result. Set struct_size to sizeof(unroll_tensor_view). `data` is valid until the next call with the predictor. */
typedef struct unroll_tensor_view {
  size_t struct_size;
  const void* data;
  size_t bytes;
  int32_t dtype;
  int32_t rank;
  int64_t dims[UNROLL_MAX_RANK];
} unroll_tensor_view;

/* Library. ------------------------------------------------------------------------------------------------------- */
UNROLL_C_API const char* unroll_version(void); /* "0.1.0" */
UNROLL_C_API int32_t unroll_abi_version(void);
/* Call unroll_require_abi(UNROLL_ABI_VERSION) first: it fails if library and header have different versions. */
UNROLL_C_API int unroll_require_abi(int32_t version);
/* The message of the last failed call in this thread, and a hint on the next step. "" if no call failed. */
UNROLL_C_API const char* unroll_last_error(void);
UNROLL_C_API const char* unroll_last_error_hint(void);
UNROLL_C_API const char* unroll_code_name(int code); /* "usage" */

/* Models. -------------------------------------------------------------------------------------------------------- */
/* Opens a file of `unroll train` (runs/x/best.safetensors), or its bytes, which may be freed afterwards.
 * Options: backend=cpu (see `unroll doctor`), threads=1 (0: all processors). */
UNROLL_C_API int unroll_model_open(const char* path, const char* options, unroll_model** model);
UNROLL_C_API int unroll_model_open_memory(const void* bytes, size_t n, const char* options, unroll_model** model);
/* Streams and predictors of the model stay valid. NULL is allowed. */
UNROLL_C_API int unroll_model_close(unroll_model* model);
/* Metadata stored with the model, such as "task", "labels" or "vocabulary". *size is the capacity of `buffer`
 * and becomes the size of the text, including its end. A NULL buffer only sets the size. */
UNROLL_C_API int unroll_model_metadata(unroll_model* model, const char* key, char* buffer, size_t* size);
/* The inputs or outputs of predictors. */
UNROLL_C_API int unroll_model_count(unroll_model* model, int kind, size_t* n);
UNROLL_C_API int unroll_model_info(unroll_model* model, int kind, size_t index, unroll_tensor_info* info);

/* Predictors. ---------------------------------------------------------------------------------------------------- */
/* Each predictor has a separate thread pool of the size in the model's options. */
UNROLL_C_API int unroll_predictor_new(unroll_model* model, unroll_predictor** predictor);
/* Copies an input. `data` has the elements of `dims`. */
UNROLL_C_API int unroll_predictor_set(unroll_predictor* predictor, const char* name, int dtype, const int64_t* dims,
                                      int rank, const void* data);
/* Uses an input without a copy. `data` must stay valid until the input is set again or the predictor is freed, and may
 * change between runs. It must be aligned for its elements. */
UNROLL_C_API int unroll_predictor_borrow(unroll_predictor* predictor, const char* name, int dtype, const int64_t* dims,
                                         int rank, const void* data);
/* Inputs stay set for the next run. Programs for new sizes are compiled once and kept. */
UNROLL_C_API int unroll_predictor_run(unroll_predictor* predictor);
UNROLL_C_API int unroll_predictor_get(unroll_predictor* predictor, const char* name, unroll_tensor_view* view);
UNROLL_C_API int unroll_predictor_free(unroll_predictor* predictor); /* NULL is allowed */

/* Streams: for language-model, classify and forecast models that read in one direction. --------------------------- */
/* Options: lanes=1 (sequences that advance together), chunk=1 (a call runs one step or this many), weights=f32 (or
 * bf16, int8). A step of the cpu backend allocates no memory. */
UNROLL_C_API int unroll_stream_new(unroll_model* model, const char* options, unroll_stream** stream);
/* Values of one step of a lane: I, which is 1 for ids, and O. A step of an imported graph with strides is a block of
 * positions: all its values. */
UNROLL_C_API int unroll_stream_sizes(unroll_stream* stream, size_t* inputs, size_t* outputs);
/* x [T,B,I] -> y [T,B,O]; nx and ny count values. T is 1 or the chunk. */
UNROLL_C_API int unroll_stream_step(unroll_stream* stream, const float* x, size_t nx, float* y, size_t ny);
/* ids [T,B] -> y [T,B,O], for models of tokens. */
UNROLL_C_API int unroll_stream_step_ids(unroll_stream* stream, const int32_t* ids, size_t n, float* y, size_t ny);
UNROLL_C_API int unroll_stream_reset(unroll_stream* stream, int64_t lane); /* to zero; -1: all lanes */
/* Saves the state as bytes, to continue later or in another process with the same model. *size: as for metadata. */
UNROLL_C_API int unroll_stream_save(unroll_stream* stream, void* buffer, size_t* size);
UNROLL_C_API int unroll_stream_restore(unroll_stream* stream, const void* bytes, size_t n);
/* Creates a second stream with the same state. The weights are shared. */
UNROLL_C_API int unroll_stream_fork(unroll_stream* stream, unroll_stream** fork);
UNROLL_C_API int unroll_stream_free(unroll_stream* stream); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif
