// Control flow that is not text order: calls that are not inlined, jump tables, calls through pointers, traps.
#include <cstdio>

#define WAIT asm volatile("griddepcontrol.wait;" ::: "memory")

__device__ __noinline__ float twice(const float* p, int i) { return p[i] * 2.f + p[i * 3]; }

extern "C" __global__ void calls(float* out, const float* act, const float* weight) {
  float early = twice(weight, threadIdx.x);
  WAIT;
  out[threadIdx.x] = early + twice(act, threadIdx.x);
}

extern "C" __global__ void jump_table(float* out, const float* act, int mode) {
  float v = 0;
  switch (mode) {
    case 0: v = act[1]; break;
    case 1: v = act[2] * act[3]; break;
    case 2: v = __sinf(act[4]); break;
    case 3: v = __expf(act[7]); break;
    case 4: v = act[8] / act[9]; break;
    case 5: v = sqrtf(act[12]); break;
    case 6: WAIT; v = act[77]; break;
    case 7: v = act[100] + out[3]; break;
    case 8: v = rsqrtf(act[3]); break;
  }
  out[threadIdx.x] = v;
}

extern "C" __global__ void pointer_call(float* out, const float* act, float (*f)(float)) {
  out[threadIdx.x] = f(act[threadIdx.x]);
}

extern "C" __global__ void prints(float* out, const float* act, int n) {
  WAIT;
  if (act[n] > 3.f) printf("%d\n", n);
  if (act[n] < 0.f) __trap();
  out[threadIdx.x] = n;
}

extern "C" __global__ void loop_with_wait(float* out, const float* act, int n) {
  for (int i = 0; i < n; i++) {
    WAIT;
    out[i * blockDim.x + threadIdx.x] = act[i * blockDim.x + threadIdx.x];
  }
}
