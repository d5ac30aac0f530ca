// SPDX-License-Identifier: Apache-2.0
// What CUDA C++ means to g++ on a host: put before the text of a module. Threads of a block run as fibers, one at a
// time (fibers.h). With -fsanitize=thread, g++ calls __tsan_read4 and the like before each access to memory that other
// threads may see: here they lead to the race checker (races.h), not to the library of that name.
typedef __SIZE_TYPE__ size_t;
#define UNROLL_SHIM
#define __device__
#define __forceinline__
#define __launch_bounds__(...)
#define __global__ __attribute__((noinline))
#define __shared__ static
#define UNROLL_PLAIN __attribute__((no_sanitize("thread"), noinline))

struct UnrollIndex {
  unsigned x, y, z;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
// Set by the driver before it runs a thread.
struct UnrollState {
  UnrollIndex thread, block, block_size, grid_size;
  void (*barrier)(void* place);
  void (*access)(const void* address, unsigned bytes, bool writes, const void* place);
  void (*arrive)(const void* barrier, bool completes);
  void (*yield)();
  void (*meet)();
  char* shared;
  unsigned cluster;
  char* (*shared_of)(unsigned rank);
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
// A device reads such a vector at once, and only where its address is a multiple of 16. g++ may believe that it is.
UNROLL_PLAIN static inline void unroll_check_vector(const void* at) {
  size_t address = size_t(at);
  asm("" : "+r"(address));
  if (address % 16 != 0) unroll_state.access(nullptr, 1, true, nullptr);  // fails
}
template <class Vector>
static inline Vector unroll_vector(const void* at) {
  unroll_check_vector(at);
  return *(const Vector*)at;
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

// The barrier of a grid (loops/prelude.cc): blocks of a cooperative launch run in turn, until each waits for others.
UNROLL_PLAIN static unsigned unroll_arrive(unsigned* at, unsigned n) {
  const unsigned before = *at;
  *at = before + n;
  unroll_state.arrive(at, ((before ^ *at) & 0x80000000u) != 0u);
  return before;
}
UNROLL_PLAIN static unsigned unroll_arrivals(const unsigned* at) {
  unroll_state.yield();
  return *at;
}

// The barrier of a cluster: as the one of a grid, for the blocks of the cluster.
UNROLL_PLAIN static void unroll_cluster_wait(unsigned blocks) {
  static unsigned arrived[1024];
  const unsigned block = unroll_state.block.x;
  if (unroll_state.cluster != blocks) unroll_state.access(nullptr, 1, true, nullptr);  // fails
  __syncthreads();
  if (unroll_state.thread.x == 0) {
    unsigned* const at = arrived + block / blocks;
    const unsigned before = unroll_arrive(at, block % blocks == 0 ? 0x80000000u - (blocks - 1u) : 1u);
    while (((before ^ unroll_arrivals(at)) & 0x80000000u) == 0u) {}
  }
  __syncthreads();
}
// Shared memory that the launch asks for, of the running block.
UNROLL_PLAIN static char* unroll_shared_memory() { return unroll_state.shared; }
// Where `at` of it lies in another block of the cluster.
UNROLL_PLAIN static char* unroll_peer(const void* at, unsigned rank) {
  return unroll_state.shared_of(rank) + ((const char*)at - unroll_state.shared);
}
template <class Vector>
static inline void unroll_store_peer(const void* at, unsigned rank, Vector x) {
  char* const there = unroll_peer(at, rank);
  if (size_t(there) % sizeof(Vector) != 0) unroll_state.access(nullptr, 1, true, nullptr);  // fails
  *(Vector*)there = x;
}

// mma.sync: every lane leaves its fragments, and when the warp has met computes its own four sums. The fragments of
// the next call go elsewhere, since lanes go on one after the other. "PTX ISA, Matrix Fragments for mma": thread 4g + q
// holds rows g and g + 8 of a and sums, column g of b, and columns 2q and 2q + 1 of sums; in 16 bits terms 2q, 2q + 1,
// 2q + 8 and 2q + 9, in tf32 q and q + 4.
struct UnrollFragments {
  unsigned a[32][4], b[32][2];
};
static UnrollFragments unroll_fragments[32][2];  // [warp][odd or even call]
UNROLL_PLAIN static float unroll_number_of(unsigned bits, int kind) {
  if (kind == 1) return __builtin_bit_cast(float, bits << 16);
  const unsigned e = bits >> 10 & 31u, m = bits & 1023u;
  const float size = e == 0u ? m * 5.9604644775390625e-8f
                             : __builtin_bit_cast(float, (e == 31u ? 255u : e + 112u) << 23 | m << 13);
  return bits & 0x8000u ? -size : size;
}
// Term k of row `row` of fragments with `words` words a lane.
UNROLL_PLAIN static float unroll_term(const unsigned* words, unsigned stride, unsigned row, unsigned k, int kind) {
  const unsigned high = kind == 3 ? k / 4 : k / 8, q = kind == 3 ? k % 4 : k % 8 / 2;
  const unsigned word = stride == 4 ? row / 8 + 2 * high : high, bits = words[(row % 8 * 4 + q) * stride + word];
  if (kind == 3) return __builtin_bit_cast(float, bits & 0xffffe000u);  // as tensor cores do
  return unroll_number_of(k % 2 ? bits >> 16 : bits & 0xffffu, kind);
}
UNROLL_PLAIN static void unroll_mma(float* sums, const uint4& a, unsigned b, unsigned c, int kind) {
  const unsigned thread = unroll_state.thread.x, lane = thread % 32;
  static unsigned calls[1024];
  UnrollFragments& all = unroll_fragments[thread / 32][calls[thread]++ % 2];
  const unsigned words[4] = {a.x, a.y, a.z, a.w};
  for (int i = 0; i < 4; ++i) all.a[lane][i] = words[i];
  all.b[lane][0] = b, all.b[lane][1] = c;
  unroll_state.meet();
  const unsigned terms = kind == 3 ? 8 : 16;
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned k = 0; k < terms; ++k)
      sums[i] += unroll_term(all.a[0], 4, lane / 4 + i / 2 * 8, k, kind) *
                 unroll_term(all.b[0], 2, lane % 4 * 2 + i % 2, k, kind);
}
static inline void unroll_mma_bf16(float (&sums)[4], const uint4& a, unsigned b, unsigned c) {
  unroll_mma(sums, a, b, c, 1);
}
static inline void unroll_mma_f16(float (&sums)[4], const uint4& a, unsigned b, unsigned c) {
  unroll_mma(sums, a, b, c, 2);
}
static inline void unroll_mma_tf32(float (&sums)[4], const uint4& a, unsigned b, unsigned c) {
  unroll_mma(sums, a, b, c, 3);
}

// wgmma: as mma for each warp, whose rows of weights are its own; the operand is read where the descriptor says.
// Results arrive with the wait: until then they are NaN.
struct UnrollDescriptor {
  const char* at;
  int next_k, next_rows;
};
struct UnrollPending {
  float* to;
  unsigned count;
  float sums[16];
};
static UnrollFragments unroll_wgmma_fragments[32][2];
static UnrollPending unroll_pending[1024][8];  // [thread]
static unsigned unroll_n_pending[1024];
static bool unroll_may_begin[1024];
static inline UnrollDescriptor unroll_describe(const char* at, int next_k, int next_rows) {
  return {at, next_k, next_rows};
}
static inline void unroll_proxy_fence() {}
template <class Sums>
static inline void unroll_settle(Sums&) {}
UNROLL_PLAIN static void unroll_wgmma_begin() { unroll_may_begin[unroll_state.thread.x] = true; }
UNROLL_PLAIN static void unroll_wgmma_end() {
  const unsigned thread = unroll_state.thread.x;
  for (unsigned p = 0; p < unroll_n_pending[thread]; ++p)
    for (unsigned i = 0; i < unroll_pending[thread][p].count; ++i)
      unroll_pending[thread][p].to[i] = unroll_pending[thread][p].sums[i];
  unroll_n_pending[thread] = 0, unroll_may_begin[thread] = false;
}
UNROLL_PLAIN static void unroll_wgmma(float* d, unsigned count, const uint4& a, const UnrollDescriptor& b, int kind) {
  const unsigned thread = unroll_state.thread.x, lane = thread % 32;
  if (!unroll_may_begin[thread]) unroll_state.access(nullptr, 1, true, nullptr);  // fails
  static unsigned calls[1024];
  UnrollFragments& all = unroll_wgmma_fragments[thread / 32][calls[thread]++ % 2];
  const unsigned words[4] = {a.x, a.y, a.z, a.w};
  for (int i = 0; i < 4; ++i) all.a[lane][i] = words[i];
  unroll_state.meet();
  unsigned p = 0;
  while (p < unroll_n_pending[thread] && unroll_pending[thread][p].to != d) ++p;
  UnrollPending& pending = unroll_pending[thread][p];
  if (p == unroll_n_pending[thread]) {
    ++unroll_n_pending[thread], pending.to = d, pending.count = count;
    for (unsigned i = 0; i < count; ++i) pending.sums[i] = d[i], d[i] = __builtin_nanf("");
  }
  for (unsigned i = 0; i < count; ++i) {
    const unsigned row = i / 4 * 8 + lane % 4 * 2 + i % 2;  // of the operand
    for (unsigned k = 0; k < 16; ++k) {
      const char* const at = b.at + k / 8 * b.next_k + row / 8 * b.next_rows + row % 8 * 16;
      if (k % 8 == 0) unroll_state.access(at, 16, false, nullptr);
      pending.sums[i] += unroll_term(all.a[0], 4, lane / 4 + i % 4 / 2 * 8, k, kind) *
                         unroll_number_of(((const unsigned short*)at)[k % 8], kind);
    }
  }
}
template <int COUNT>
static inline void unroll_wgmma_bf16(float (&d)[COUNT], const uint4& a, const UnrollDescriptor& b) {
  unroll_wgmma(d, COUNT, a, b, 1);
}
template <int COUNT>
static inline void unroll_wgmma_f16(float (&d)[COUNT], const uint4& a, const UnrollDescriptor& b) {
  unroll_wgmma(d, COUNT, a, b, 2);
}

// In two roundings: processors without the instruction compute the other form slowly.
static inline float unroll_fma(float a, float b, float c) { return a * b + c; }
static inline double unroll_fma(double a, double b, double c) { return a * b + c; }
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
