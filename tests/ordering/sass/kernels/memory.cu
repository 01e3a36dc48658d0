// Where accesses go and how they are ordered.
#include <cuda/atomic>

struct Tensors {
  int n;
  const float* act;
  float* out;
  int strides[5];
};

__device__ float table[1024];
__constant__ int offsets[16];

extern "C" __global__ void structure(Tensors t, int z) {
  int i = threadIdx.x + blockIdx.x * blockDim.x + offsets[z];
  if (i >= t.n) return;
  t.out[i] = t.act[i + t.strides[z]] + table[i];
}

extern "C" __global__ void choice(float* out, const float* a, const float* b, const float* const* tab, int n) {
  const float* p = n > 3 ? a : b;
  if (threadIdx.x & 1) p = tab[n];
  asm volatile("griddepcontrol.launch_dependents;");
  float v = p[threadIdx.x];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[threadIdx.x] = v + __ldg(a + n);
}

extern "C" __global__ void spills(float* out, const float* act, int n) {
  float buffer[64];
  for (int i = 0; i < 64; i++) buffer[i] = act[i * n + threadIdx.x];
  float sum = 0;
  for (int i = 0; i < n; i++) sum += buffer[(i * 7 + threadIdx.x) & 63];
  out[threadIdx.x] = sum;
}

extern "C" __global__ void orders(int* out, int* flag) {
  int v;
  asm volatile("ld.acquire.gpu.global.b32 %0,[%1];" : "=r"(v) : "l"(flag) : "memory");
  out[0] = v;
  asm volatile("ld.acquire.sys.global.b32 %0,[%1];" : "=r"(v) : "l"(flag + 1) : "memory");
  out[1] = v;
  asm volatile("ld.acquire.cta.global.b32 %0,[%1];" : "=r"(v) : "l"(flag + 2) : "memory");
  out[2] = v;
  asm volatile("ld.relaxed.gpu.global.b32 %0,[%1];" : "=r"(v) : "l"(flag + 3) : "memory");
  out[3] = v;
  asm volatile("ld.volatile.global.b32 %0,[%1];" : "=r"(v) : "l"(flag + 4) : "memory");
  out[4] = v;
  asm volatile("st.release.gpu.global.b32 [%0],%1;" ::"l"(flag + 5), "r"(v) : "memory");
  asm volatile("st.relaxed.sys.global.b32 [%0],%1;" ::"l"(flag + 6), "r"(v) : "memory");
  asm volatile("red.release.gpu.global.add.s32 [%0],%1;" ::"l"(flag + 7), "r"(v) : "memory");
  asm volatile("atom.acquire.gpu.global.exch.b32 %0,[%1],%2;" : "=r"(v) : "l"(flag + 8), "r"(1) : "memory");
  out[5] = v;
  asm volatile("atom.acq_rel.sys.global.exch.b32 %0,[%1],%2;" : "=r"(v) : "l"(flag + 9), "r"(1) : "memory");
  out[6] = v;
  asm volatile("atom.relaxed.gpu.global.exch.b32 %0,[%1],%2;" : "=r"(v) : "l"(flag + 10), "r"(1) : "memory");
  out[7] = v;
}

extern "C" __global__ void fences(int* out) {
  out[0] = 1;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  out[1] = 1;
  asm volatile("fence.sc.sys;" ::: "memory");
  out[2] = 1;
  asm volatile("fence.acq_rel.cta;" ::: "memory");
  out[3] = 1;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  out[4] = 1;
  asm volatile("fence.proxy.async.global;" ::: "memory");
  out[5] = 1;
}
