// Memory that the gate shares with a worker: laid and compared where it lies. Compiled to shelf.ptx (compute_90).

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
