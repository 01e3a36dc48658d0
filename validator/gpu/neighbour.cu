// The kernels that the harness itself runs before and after a candidate (validator/gpu/neighbour.py).
//
//   nvcc -std=c++17 -arch=compute_90 -ptx neighbour.cu -o neighbour.ptx
//
// The PTX is stored beside this file and compiled by the driver, so no toolkit is needed where the candidate runs.
// Every loop that waits for something has a bound.

using u32 = unsigned;
using u64 = unsigned long long;

struct Region {  // one buffer of the candidate
  uint4* live;         // what the candidate is given
  const uint4* other;  // what it is restored from, overwritten with or compared against
  u64 quads;           // 16-byte words
};

static __device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

static __device__ __forceinline__ void let_dependants_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

static __device__ __forceinline__ uint4 fresh(const uint4* p) {  // never from a stale L1 line
  uint4 v;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}

static __device__ __forceinline__ bool same(uint4 a, uint4 b) {
  return a.x == b.x && a.y == b.y && a.z == b.z && a.w == b.w;
}

// One thread. Holds the stream back until the host has queued everything behind it, or `bound` ns are over.
extern "C" __global__ void gate(const u32* open, u64 bound) {
  const u64 begin = nanoseconds();
  u32 now;
  do asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(now) : "l"(open) : "memory");
  while (now == 0 && nanoseconds() - begin < bound);
}

// Any grid: live = other.
extern "C" __global__ void restore(const Region* regions, u32 count) {
  for (u32 r = 0; r < count; ++r)
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < regions[r].quads; i += gridDim.x * blockDim.x)
      regions[r].live[i] = regions[r].other[i];
}

// One CTA: lets its dependants start at once, waits `delay` ns, then writes the data and after that publishes the flags
// (regions from `data` on).
extern "C" __global__ void late_producer(const Region* regions, u32 data, u32 count, u64 delay) {
  const u64 begin = nanoseconds();
  let_dependants_start();
  while (nanoseconds() - begin < delay) {
  }
  for (u32 r = 0; r < data; ++r)
    for (u64 i = threadIdx.x; i < regions[r].quads; i += blockDim.x) regions[r].live[i] = regions[r].other[i];
  __threadfence();
  __syncthreads();
  for (u32 r = data; r < count; ++r)
    for (u64 i = threadIdx.x; i < regions[r].quads * 4; i += blockDim.x) {
      u32* to = reinterpret_cast<u32*>(regions[r].live) + i;
      asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(reinterpret_cast<const u32*>(regions[r].other)[i]) : "memory");
    }
}

// Two CTAs: the first waits `delay` ns and writes the data, last region first; the second sees that it is done, and then
// publishes the words of the flags and mailboxes (regions from `data` on) in four turns, out of order, `delay` / 4 apart.
// `first`: with which turn it begins, so that over four launches each word is the last one once.
extern "C" __global__ void late_publisher(const Region* regions, u32 data, u32 count, u64 delay, u32* done, u32 first) {
  const u64 begin = nanoseconds();
  let_dependants_start();
  if (blockIdx.x == 0) {
    while (nanoseconds() - begin < delay) {
    }
    for (u32 r = data; r-- > 0;)
      for (u64 i = threadIdx.x; i < regions[r].quads; i += blockDim.x) regions[r].live[i] = regions[r].other[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(done), "r"(1) : "memory");
    return;
  }
  if (threadIdx.x == 0) {
    u32 seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(done) : "memory");
    while (seen == 0 && nanoseconds() - begin < 2 * delay + 100000000);
  }
  __syncthreads();
  for (u32 turn = 0; turn < 4; ++turn) {
    const u64 now = nanoseconds();
    while (nanoseconds() - now < delay / 4) {
    }
    const u32 word = 0x1302u >> (4 * ((first + turn) & 3)) & 3;  // 2, 0, 3, 1 from there on
    for (u32 r = data; r < count; ++r)
      for (u64 i = 4 * u64(threadIdx.x) + word; i < regions[r].quads * 4; i += 4 * u64(blockDim.x)) {
        u32* to = reinterpret_cast<u32*>(regions[r].live) + i;
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(reinterpret_cast<const u32*>(regions[r].other)[i]) : "memory");
      }
  }
}

// One CTA: lets its dependants start at once and keeps reading until `delay` ns are over; changed[r] becomes 1 when
// region r stopped being what it was.
extern "C" __global__ void late_reader(const Region* regions, u32 count, u32* changed, u64 delay) {
  const u64 begin = nanoseconds();
  let_dependants_start();
  do
    for (u32 r = 0; r < count; ++r)
      for (u64 i = threadIdx.x; i < regions[r].quads; i += blockDim.x)
        if (!same(fresh(regions[r].live + i), regions[r].other[i])) changed[r] = 1;
  while (nanoseconds() - begin < delay);
}

static __device__ void mark_differences(const Region* regions, u32 count, u32* differs) {
  for (u32 r = 0; r < count; ++r)
    for (u64 i = blockIdx.x * blockDim.x + threadIdx.x; i < regions[r].quads; i += gridDim.x * blockDim.x)
      if (!same(fresh(regions[r].live + i), regions[r].other[i])) differs[r] = 1;
}

// Any grid: differs[r] becomes 1 when region r is not `other`.
extern "C" __global__ void compare(const Region* regions, u32 count, u32* differs) {
  mark_differences(regions, count, differs);
}

// Any grid, launched as a dependant: the same after its wait. differs[count] becomes 1 when it began while the regions
// were still to be written, without which its answer means nothing.
extern "C" __global__ void successor(const Region* regions, u32 count, u32* differs) {
  let_dependants_start();
  for (u32 r = 0; r < count; ++r)
    if (threadIdx.x == 0 && !same(fresh(regions[r].live), regions[r].other[0])) differs[count] = 1;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  mark_differences(regions, count, differs);
}
