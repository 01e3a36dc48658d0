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

// A keyed digest, as of `differential/native/digesting.c` but for the order of the digits: within blocks of 4096 bytes sums of
// products of 32-bit words, each plus its part of the key, twice, by keys that are 16 bytes apart; the sums of the blocks
// are digits of a number modulo 2^61 - 1 at a secret base, the first block's the lowest. No worker sees key or digest: other
// bytes have the same one with a probability under 2^-50, whoever chose them.
static const u64 PRIME = (u64(1) << 61) - 1;

static __device__ __forceinline__ u64 folded(u64 x) {
  x = (x & PRIME) + (x >> 61);
  return x >= PRIME ? x - PRIME : x;
}

static __device__ __forceinline__ u64 times(u64 a, u64 b) {  // both below 2^61
  const u64 low = a * b, high = __umul64hi(a, b);
  return folded((low & PRIME) + (high << 3 | low >> 61));
}

static __device__ __forceinline__ u64 power(u64 base, u64 exponent) {
  u64 found = 1;
  for (; exponent; exponent >>= 1, base = times(base, base))
    if (exponent & 1) found = times(found, base);
  return found;
}

// The 16 bytes that begin `skip` bytes (below 16) after the first of 32.
static __device__ __forceinline__ uint4 shifted(uint4 a, uint4 b, u32 skip) {
  u64 w[4] = {a.x | u64(a.y) << 32, a.z | u64(a.w) << 32, b.x | u64(b.y) << 32, b.z | u64(b.w) << 32};
  if (skip >= 8) w[0] = w[1], w[1] = w[2], w[2] = w[3];
  const u32 bits = skip % 8 * 8;
  const u64 low = bits ? w[0] >> bits | w[1] << (64 - bits) : w[0], high = bits ? w[1] >> bits | w[2] << (64 - bits) : w[1];
  return make_uint4(u32(low), u32(low >> 32), u32(high), u32(high >> 32));
}

// Bytes behind the end are zero; those beside the stretch, up to a multiple of 16, may be read.
static __device__ __forceinline__ uint4 quad_of(const unsigned char* at, u64 bytes, u64 from) {
  if (from >= bytes) return make_uint4(0, 0, 0, 0);
  const u32 skip = reinterpret_cast<u64>(at) & 15;
  const uint4* quads = reinterpret_cast<const uint4*>(at - skip + from);
  uint4 v = fresh(quads);
  if (skip) v = shifted(v, skip + bytes - from > 16 ? fresh(quads + 1) : make_uint4(0, 0, 0, 0), skip);
  if (bytes - from >= 16) return v;
  const u32 left = u32(bytes - from);
  u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (u32 k = 0; k < 4; ++k) {
    const u32 here = left > 4 * k ? left - 4 * k : 0;
    if (here < 4) words[k] &= (1u << 8 * here) - 1;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

static __device__ __forceinline__ u64 product(u32 a, u32 b, u32 key, u32 next) { return u64(a + key) * u64(b + next); }
static __device__ __forceinline__ u64 products(uint4 v, uint4 k) {
  return product(v.x, v.y, k.x, k.y) + product(v.z, v.w, k.z, k.w);
}

const u32 BLOCK = 4096, QUADS = BLOCK / 16;

struct Key {
  uint4 sums[QUADS + 1];
  u64 bases[2], steps[2];  // steps: the bases to the power of the number of warps
};

// Blocks of 256 threads. out[4 * r ...] += the digest's two numbers, their low and their high 32 bits by themselves. A
// stretch's `other`: the number of its first block.
extern "C" __global__ void __launch_bounds__(256) digest(const __grid_constant__ Stretches of, u32 count, const Key* key, u64* out) {
  __shared__ uint4 sums[QUADS + 1];
  __shared__ u64 found[4];
  for (u32 k = threadIdx.x; k <= QUADS; k += blockDim.x) sums[k] = key->sums[k];
  const u32 lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
  const u32 warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const u64 base = key->bases[lane & 1], step = key->steps[lane & 1];
  for (u32 r = 0; r < count; ++r) {
    const Stretch& s = of.each[r];
    if (threadIdx.x < 4) found[threadIdx.x] = 0;
    __syncthreads();
    const u64 blocks = (s.bytes + BLOCK - 1) / BLOCK;
    u64 mine = 0, weight = warp < blocks ? power(base, reinterpret_cast<u64>(s.other) + warp) : 0;
    for (u64 b = warp; b < blocks; b += warps, weight = times(weight, step)) {
      uint4 v[QUADS / 32];
      if (!(reinterpret_cast<u64>(s.at) & 15) && (b + 1) * BLOCK <= s.bytes) {
#pragma unroll
        for (u32 k = 0; k < QUADS / 32; ++k) v[k] = fresh(reinterpret_cast<const uint4*>(s.at + b * BLOCK) + k * 32 + lane);
      } else {
#pragma unroll
        for (u32 k = 0; k < QUADS / 32; ++k) v[k] = quad_of(s.at, s.bytes, b * BLOCK + 16 * (k * 32 + lane));
      }
      u64 one = 0, two = 0;
#pragma unroll
      for (u32 k = 0; k < QUADS / 32; ++k) {
        one += products(v[k], sums[k * 32 + lane]), two += products(v[k], sums[k * 32 + lane + 1]);
      }
      for (int far = 16; far; far /= 2) {
        one += __shfl_xor_sync(~0u, one, far);
        two += __shfl_xor_sync(~0u, two, far);
      }
      mine = folded(mine + times(folded(lane & 1 ? two : one), weight));
    }
    if (lane < 2 && mine) {
      atomicAdd(found + 2 * lane, mine & 0xffffffff);
      atomicAdd(found + 2 * lane + 1, mine >> 32);
    }
    __syncthreads();
    if (threadIdx.x < 4 && found[threadIdx.x]) atomicAdd(out + 4 * r + threadIdx.x, found[threadIdx.x]);
    __syncthreads();
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

  // `away`: how far the exact result is from the trusted one, in yardsticks, as a float of eight bits (four of mantissa,
  // steps of 1/64 below a half); minus zero: too far.
  __device__ __forceinline__ void add(double got, double trusted, bool same, unsigned char away, double yard) {
    const double off = got - trusted;
    const double own = off == 0 ? 0 : float(off) / float(yard);
    const u32 bits = away & 0x7f;
    const double far = (bits < 16 ? bits : ((bits & 15) | 16) << ((bits >> 4) - 1)) * 0x1p-6, lost = fmax(0x1p-7, far * 0x1p-5);
    double ratio = fabs(away & 0x80 ? own + far : own - far) + lost + fabs(own) * 0x1p-20 + 0x1p-20;
    ratio = away != 0x80 && ratio < 1e30 ? ratio : INFINITY;
    const double error_here = ratio * yard;
    worst = fmax(worst, ratio);
    error += error_here * error_here;
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

static __device__ __forceinline__ float one_of(const float* at) { return *reinterpret_cast<const volatile float*>(at); }
static __device__ __forceinline__ __half one_of(const __half* at) {
  return __ushort_as_half(*reinterpret_cast<const volatile unsigned short*>(at));
}
static __device__ __forceinline__ __nv_bfloat16 one_of(const __nv_bfloat16* at) {
  return __ushort_as_bfloat16(*reinterpret_cast<const volatile unsigned short*>(at));
}

template <typename T>
struct alignas(16) Eight {
  T each[8];
};

template <typename T>
static __device__ __forceinline__ Eight<T> eight(const T* from, u64 i) {  // read once, and as it is now
  Eight<T> found;
#pragma unroll
  for (u32 k = 0; k < sizeof(found) / 16; ++k)
    reinterpret_cast<uint4*>(&found)[k] = fresh(reinterpret_cast<const uint4*>(from + 8 * i) + k);
  return found;
}

// All begin at multiples of 16 bytes. `take`: what was weighed stands in the trusted one's place afterwards.
template <typename T>
static __device__ __forceinline__ void weigh_all(const T* got, T* trusted, const unsigned char* away,
                                                        const __nv_bfloat16* yard, u64 count, Weight* out, u64 take) {
  const u64 me = blockIdx.x * u64(blockDim.x) + threadIdx.x, all = gridDim.x * u64(blockDim.x);
  Tally mine;
  for (u64 i = me; i < count / 8; i += all) {
    const auto g = eight(got, i), t = reinterpret_cast<const Eight<T>*>(trusted)[i];
    const auto a = reinterpret_cast<const u64*>(away)[i];
    const auto y = reinterpret_cast<const Eight<__nv_bfloat16>*>(yard)[i];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      mine.add(wide(g.each[k]), wide(t.each[k]), same(g.each[k], t.each[k]), a >> 8 * k & 255, wide(y.each[k]));
    if (take) reinterpret_cast<Eight<T>*>(trusted)[i] = g;
  }
  if (me < count % 8) {
    const u64 i = count - 1 - me;
    const T g = one_of(got + i);
    mine.add(wide(g), wide(trusted[i]), same(g, trusted[i]), away[i], wide(yard[i]));
    if (take) trusted[i] = g;
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

#define WEIGH(name, T)                                                                                           \
  extern "C" __global__ void name(const T* got, T* trusted, const unsigned char* away, const __nv_bfloat16* yard, \
                                  u64 count, Weight* out, u64 take) {                                             \
    weigh_all(got, trusted, away, yard, count, out, take);                                                        \
  }

// Whole warps, up to 32 a block; `out` is zero before.
WEIGH(weigh_bfloat16, __nv_bfloat16)
WEIGH(weigh_float16, __half)
WEIGH(weigh_float32, float)
