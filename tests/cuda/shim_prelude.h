// SPDX-License-Identifier: Apache-2.0
// What CUDA C++ means to g++ on a host: put before the text of a module. Threads of a block run as fibers, one at a
// time (fibers.h). With -fsanitize=thread, g++ calls __tsan_read4 and the like before each access to memory that other
// threads may see: here they lead to the race checker (races.h), not to the library of that name.
typedef __SIZE_TYPE__ size_t;
#define __device__
#define __global__ __attribute__((noinline))
#define __shared__ static
#define UNROLL_PLAIN __attribute__((no_sanitize("thread"), noinline))

struct UnrollIndex {
  unsigned x, y, z;
};
// Set by the driver before it runs a thread.
struct UnrollState {
  UnrollIndex thread, block, block_size, grid_size;
  void (*barrier)(void* place);
  void (*access)(const void* address, unsigned bytes, bool writes, const void* place);
  void (*arrive)();
  void (*yield)();
};
extern "C" {
UnrollState unroll_state;
double fabs(double); double sqrt(double); double exp(double); double expm1(double); double log(double);
double log1p(double); double tanh(double); double erf(double); double rint(double); double ldexp(double, int);
double copysign(double, double); int ilogb(double);
float fabsf(float); float sqrtf(float); float expf(float); float expm1f(float); float logf(float);
float log1pf(float); float tanhf(float); float erff(float); float rintf(float); float ldexpf(float, int);
float copysignf(float, float); int ilogbf(float);
void* memset(void*, int, size_t);

#define UNROLL_ACCESS(n)                                                                        \
  UNROLL_PLAIN void __tsan_read##n(void* at) {                                                  \
    unroll_state.access(at, n, false, __builtin_return_address(0));                             \
  }                                                                                             \
  UNROLL_PLAIN void __tsan_write##n(void* at) {                                                 \
    unroll_state.access(at, n, true, __builtin_return_address(0));                              \
  }
UNROLL_ACCESS(1)
UNROLL_ACCESS(2)
UNROLL_ACCESS(4)
UNROLL_ACCESS(8)
UNROLL_ACCESS(16)
UNROLL_PLAIN void __tsan_func_entry(void*) {}
UNROLL_PLAIN void __tsan_func_exit() {}
UNROLL_PLAIN void __tsan_init() {}
UNROLL_PLAIN void __tsan_read_range(void* at, size_t n) {
  unroll_state.access(at, unsigned(n), false, __builtin_return_address(0));
}
UNROLL_PLAIN void __tsan_write_range(void* at, size_t n) {
  unroll_state.access(at, unsigned(n), true, __builtin_return_address(0));
}
}
UNROLL_PLAIN static inline UnrollIndex unroll_thread() { return unroll_state.thread; }
UNROLL_PLAIN static inline UnrollIndex unroll_block() { return unroll_state.block; }
UNROLL_PLAIN static inline UnrollIndex unroll_block_size() { return unroll_state.block_size; }
UNROLL_PLAIN static inline UnrollIndex unroll_grid_size() { return unroll_state.grid_size; }
#define threadIdx unroll_thread()
#define blockIdx unroll_block()
#define blockDim unroll_block_size()
#define gridDim unroll_grid_size()
// Told apart by where they stand in the text: g++ may make two calls of one.
UNROLL_PLAIN static void unroll_barrier(size_t place) { unroll_state.barrier((void*)place); }
#define __syncthreads() unroll_barrier(__COUNTER__ + 1)

// The barrier of a grid (whole_loop.cc): blocks of a cooperative launch run in turn, until each waits for the others.
UNROLL_PLAIN static void __threadfence() {}
UNROLL_PLAIN static unsigned atomicAdd(unsigned* at, unsigned n) {
  unroll_state.arrive();
  const unsigned before = *at;
  *at = before + n;
  return before;
}
UNROLL_PLAIN static unsigned __ldcv(const unsigned* at) {
  unroll_state.yield();
  return *at;
}

static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
// CUDA has these for both types.
static inline float fabs(float x) { return fabsf(x); }
static inline float rint(float x) { return rintf(x); }
static inline float ldexp(float x, int e) { return ldexpf(x, e); }
static inline float copysign(float x, float y) { return copysignf(x, y); }
static inline int ilogb(float x) { return ilogbf(x); }
