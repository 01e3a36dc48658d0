// Memory that the gate shares with a worker: laid, compared and weighed where it lies. Compiled to shelf.ptx (compute_90).

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned int u32;
typedef unsigned long long u64;

struct Stretch {
  unsigned char* at;
  const unsigned char* other;  // what is put there or looked for; null: the pattern, byte i at addresses i modulo 16
  u64 bytes;
  uint4 pattern;
};

struct Stretches {
  Stretch each[16];
};

// Both begin at the same place within 16 bytes.
static __device__ __forceinline__ unsigned char byte_of(const Stretch& s, u64 i) {
  return s.other ? s.other[i] : reinterpret_cast<const unsigned char*>(&s.pattern)[reinterpret_cast<u64>(s.at + i) & 15];
}

static __device__ __forceinline__ uint4 fresh(const uint4* p) {  // never from a stale line: another process writes there
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}

static __device__ __forceinline__ u32 differing(u32 a, u32 b) {
  return __popc(__vcmpne4(a, b)) / 8;
}

// Bytes before the first multiple of 16, whole quads, bytes behind the last.
static __device__ __forceinline__ void split(const Stretch& s, u64& head, u64& quads, u64& tail) {
  head = (16 - (reinterpret_cast<u64>(s.at) & 15)) & 15;
  head = head < s.bytes ? head : s.bytes;
  quads = (s.bytes - head) / 16;
  tail = s.bytes - head - quads * 16;
}

// Any grid of blocks of at least 32 threads.
extern "C" __global__ void lay(const __grid_constant__ Stretches of, u32 count) {
  const u64 me = blockIdx.x * u64(blockDim.x) + threadIdx.x, all = gridDim.x * u64(blockDim.x);
  for (u32 r = 0; r < count; ++r) {
    const Stretch& s = of.each[r];
    u64 head, quads, tail;
    split(s, head, quads, tail);
    uint4* to = reinterpret_cast<uint4*>(s.at + head);
    const uint4* from = reinterpret_cast<const uint4*>(s.other ? s.other + head : nullptr);
    for (u64 i = me; i < quads; i += all) to[i] = from ? from[i] : s.pattern;
    if (me < head) s.at[me] = byte_of(s, me);
    if (me < tail) s.at[s.bytes - tail + me] = byte_of(s, s.bytes - tail + me);
  }
}

// The same grid. wrong[r] += bytes of stretch r that are not what is looked for.
extern "C" __global__ void count(const __grid_constant__ Stretches of, u32 count, u64* wrong) {
  const u64 me = blockIdx.x * u64(blockDim.x) + threadIdx.x, all = gridDim.x * u64(blockDim.x);
  for (u32 r = 0; r < count; ++r) {
    const Stretch& s = of.each[r];
    u64 head, quads, tail, mine = 0;
    split(s, head, quads, tail);
    const uint4* at = reinterpret_cast<const uint4*>(s.at + head);
    const uint4* other = reinterpret_cast<const uint4*>(s.other ? s.other + head : nullptr);
#pragma unroll 4
    for (u64 i = me; i < quads; i += all) {
      const uint4 a = fresh(at + i), b = other ? other[i] : s.pattern;
      mine += differing(a.x, b.x) + differing(a.y, b.y) + differing(a.z, b.z) + differing(a.w, b.w);
    }
    const volatile unsigned char* bytes = s.at;
    if (me < head) mine += bytes[me] != byte_of(s, me);
    if (me < tail) mine += bytes[s.bytes - tail + me] != byte_of(s, s.bytes - tail + me);
    if (mine) atomicAdd(wrong + r, mine);
  }
}

// What a result weighs: never less than on the host, which has what is exact in float64.
struct Weight {
  u64 worst;  // bits of the largest error in yardsticks, infinite where one is no number
  double error, due;  // sums of squares of errors, at least, and of yardsticks, at most
  u64 differing;  // elements with other bits than the trusted result
};

struct Tally {
  double worst = 0, error = 0, due = 0;
  u64 differing = 0;

  // `away`: how far the exact result is from the trusted one, in yardsticks, cut to eight bits.
  __device__ __forceinline__ void add(double got, double trusted, bool same, double away, double yard) {
    const double off = got - trusted;
    const double own = off == 0 ? 0 : float(off) / float(yard);
    double ratio = fabs(own - away) + fabs(away) * 0x1p-7 + fabs(own) * 0x1p-20 + 0x1p-20;
    ratio = ratio < 1e30 ? ratio : INFINITY;
    const double far = ratio * yard;
    worst = fmax(worst, ratio);
    error += far * far;
    due += yard * yard;
    differing += !same;
  }
};

static __device__ __forceinline__ double wide(__nv_bfloat16 x) { return __bfloat162float(x); }
static __device__ __forceinline__ double wide(__half x) { return __half2float(x); }
static __device__ __forceinline__ double wide(float x) { return x; }
static __device__ __forceinline__ bool same(__nv_bfloat16 a, __nv_bfloat16 b) { return __bfloat16_as_ushort(a) == __bfloat16_as_ushort(b); }
static __device__ __forceinline__ bool same(__half a, __half b) { return __half_as_ushort(a) == __half_as_ushort(b); }
static __device__ __forceinline__ bool same(float a, float b) { return __float_as_uint(a) == __float_as_uint(b); }

template <typename T>
struct alignas(16) Eight {
  T each[8];
};

// All begin at multiples of 16 bytes.
template <typename T>
static __device__ __forceinline__ void weigh_all(const T* got, const T* trusted, const __nv_bfloat16* away,
                                                        const __nv_bfloat16* yard, u64 count, Weight* out) {
  const u64 me = blockIdx.x * u64(blockDim.x) + threadIdx.x, all = gridDim.x * u64(blockDim.x);
  Tally mine;
  for (u64 i = me; i < count / 8; i += all) {
    const auto g = reinterpret_cast<const Eight<T>*>(got)[i], t = reinterpret_cast<const Eight<T>*>(trusted)[i];
    const auto a = reinterpret_cast<const Eight<__nv_bfloat16>*>(away)[i];
    const auto y = reinterpret_cast<const Eight<__nv_bfloat16>*>(yard)[i];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      mine.add(wide(g.each[k]), wide(t.each[k]), same(g.each[k], t.each[k]), wide(a.each[k]), wide(y.each[k]));
  }
  if (me < count % 8) {
    const u64 i = count - 1 - me;
    mine.add(wide(got[i]), wide(trusted[i]), same(got[i], trusted[i]), wide(away[i]), wide(yard[i]));
  }
  for (int step = 16; step; step /= 2) {
    mine.worst = fmax(mine.worst, __shfl_xor_sync(~0u, mine.worst, step));
    mine.error += __shfl_xor_sync(~0u, mine.error, step);
    mine.due += __shfl_xor_sync(~0u, mine.due, step);
    mine.differing += __shfl_xor_sync(~0u, mine.differing, step);
  }
  __shared__ Tally warps[32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x) return;
  for (u32 w = 1; w < blockDim.x / 32; ++w) {
    mine.worst = fmax(mine.worst, warps[w].worst);
    mine.error += warps[w].error, mine.due += warps[w].due, mine.differing += warps[w].differing;
  }
  atomicMax(&out->worst, u64(__double_as_longlong(mine.worst)));  // none is below zero: their bits are in order
  atomicAdd(&out->error, mine.error);
  atomicAdd(&out->due, mine.due);
  if (mine.differing) atomicAdd(&out->differing, mine.differing);
}

#define WEIGH(name, T)                                                                                            \
  extern "C" __global__ void name(const T* got, const T* trusted, const __nv_bfloat16* away, const __nv_bfloat16* yard, \
                                  u64 count, Weight* out) {                                                       \
    weigh_all(got, trusted, away, yard, count, out);                                                              \
  }

// Whole warps, up to 32 a block; `out` is zero before.
WEIGH(weigh_bfloat16, __nv_bfloat16)
WEIGH(weigh_float16, __half)
WEIGH(weigh_float32, float)
