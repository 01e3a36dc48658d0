// Asynchronous copies, mbarriers, warp roles.
#include <cuda.h>

#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")

__device__ unsigned address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void until(unsigned barrier, unsigned parity) {
  unsigned ok;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p,[%1],%2; selp.u32 %0,1,0,p;}"
                 : "=r"(ok) : "r"(barrier), "r"(parity) : "memory");
  } while (!ok);
}

extern "C" __global__ void copies(float* out, const float* act, int n) {
  __shared__ float s[4][256];
  unsigned to = address(s);
  for (int i = 0; i < n; i++) {
    asm volatile("cp.async.ca.shared.global [%0],[%1],4;"
                 ::"r"(to + (i & 3) * 1024 + threadIdx.x * 4), "l"(act + i * 256 + threadIdx.x) : "memory");
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    __syncthreads();
    out[i * 256 + threadIdx.x] = s[(i + 1) & 3][threadIdx.x ^ 1];
    __syncthreads();
  }
  asm volatile("bar.sync 3, 64;");
  asm volatile("bar.arrive 4, 96;");
}

extern "C" __global__ void tensors(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap to,
                                   float* out, int n) {
  extern __shared__ __align__(128) float s[];
  __shared__ __align__(8) unsigned long long barrier;
  unsigned b = address(&barrier), sa = address(s);
  asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0],1;" ::"r"(b) : "memory");
  __syncthreads();
  for (int i = 0; i < n; i++) {
    if (threadIdx.x == 0) {
      WAIT;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(b), "r"(1024) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];"
                   ::"r"(sa), "l"(&in), "r"(i), "r"(0), "r"(b) : "memory");
    }
    until(b, i & 1);
    float v = s[threadIdx.x];
    s[threadIdx.x] = v * 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0,{%1,%2}],[%3];"
                   ::"l"(&to), "r"(i), "r"(0), "r"(sa) : "memory");
      asm volatile("cp.async.bulk.commit_group;");
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
      asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0],[%1],64;"
                   ::"l"(out), "r"(sa) : "memory");
      asm volatile("cp.async.bulk.commit_group;");
      asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      asm volatile("cp.async.bulk.prefetch.L2.global [%0],256;" ::"l"(out) : "memory");
      asm volatile("prefetch.global.L2 [%0];" ::"l"(out) : "memory");
    }
  }
}

extern "C" __global__ void roles(float* out, const float* act, const float* weight, int n) {
  __shared__ float s[1024];
  __shared__ __align__(8) unsigned long long full[2], empty[2];
  int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
  unsigned fb = address(full), eb = address(empty);
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0],32;" ::"r"(fb + 8 * i) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0],96;" ::"r"(eb + 8 * i) : "memory");
    }
  __syncthreads();
  if (warp == 0) {
    WAIT;
    for (int k = 0; k < n; k++) {
      int stage = k & 1;
      until(eb + 8 * stage, ((k >> 1) & 1) ^ 1);
      s[stage * 512 + threadIdx.x] = act[k * 32 + threadIdx.x];
      asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(fb + 8 * stage) : "memory");
    }
  } else {
    for (int k = 0; k < n; k++) {
      int stage = k & 1;
      float w = weight[k * 128 + threadIdx.x];
      until(fb + 8 * stage, (k >> 1) & 1);
      out[k * 128 + threadIdx.x] = s[stage * 512 + (threadIdx.x & 31)] * w;
      asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(eb + 8 * stage) : "memory");
    }
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) neighbour(float* out, const float* act) {
  __shared__ float s[128];
  s[threadIdx.x] = act[threadIdx.x];
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  unsigned remote;
  float v;
  asm volatile("mapa.shared::cluster.u32 %0,%1,%2;" : "=r"(remote) : "r"(address(s)), "r"(1));
  asm volatile("ld.shared::cluster.f32 %0,[%1];" : "=f"(v) : "r"(remote));
  out[threadIdx.x] = v;
}
