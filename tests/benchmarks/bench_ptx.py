"""How fast PTX is read and audited, beside ptxas compiling the same file in the same run.

    python tests/benchmarks/bench_ptx.py [--lines N] [--file PATH]

Reports figures and never passes or fails: times depend on the machine and on what else runs there, so the ratio to
ptxas is the figure to compare. CPU seconds of one core, best of three.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from validator.ordering.audit import audit_program
from validator.ordering.ptx import PtxProgram, read_ptx

FIXTURES = Path(__file__).parents[2] / "fixtures" / "ordering"

TILE = """
template <int R> __device__ __forceinline__
void tile(const float* __restrict__ k, const float* __restrict__ v, float (&q)[16], float (&o)[16], float& m,
          float& l) {
#pragma unroll
  for (int j = 0; j < 16; j++) {
    float s = 0;
#pragma unroll
    for (int d = 0; d < 16; d++) s += q[d] * __ldg(k + (R * 16 + j) * 64 + d);
    float mn = fmaxf(m, s), c = __expf(m - mn), p = __expf(s - mn);
    l = l * c + p; m = mn;
#pragma unroll
    for (int d = 0; d < 16; d++) o[d] = o[d] * c + p * __ldg(v + (R * 16 + j) * 64 + d);
  }
}
extern "C" __global__ void attention(const float* q, const float* k, const float* v, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float qq[16], o[16] = {}, m = -1e30f, l = 0;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  for (int d = 0; d < 16; d++) qq[d] = q[i * 16 + d];
  k += blockIdx.y * 65536; v += blockIdx.y * 65536;
"""
LINES_PER_TILE = 3_000
"""What nvcc makes of one tile."""


def unrolled_attention(tiles: int) -> bytes:
    """PTX of an unrolled attention loop, by nvcc."""
    calls = "\n".join(f"tile<{n}>(k, v, qq, o, m, l); __syncthreads();" for n in range(tiles))
    source = f"{TILE}{calls}\nfor (int d = 0; d < 16; d++) out[i * 16 + d] = o[d] / l;\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        cuda, ptx = Path(folder, "attention.cu"), Path(folder, "attention.ptx")
        cuda.write_text(source)
        command = ["nvcc", "-arch=sm_90a", "-ptx", str(cuda), "-o", str(ptx)]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        return ptx.read_bytes()


def repeated_kernel(lines: int) -> bytes:
    """A stored kernel of Triton's with its body repeated, where there is no nvcc."""
    text = (FIXTURES / "labelled" / "ht1_ok" / "sm_90a.ptx").read_text()
    match = re.search(r"// %bb\.0:\n(.*?)\tret;\n", text, re.DOTALL)
    if match is None:
        raise SystemExit("the stored kernel has changed its shape")
    body = re.sub(r"^\$L__\w+:\n", "", match[1], flags=re.MULTILINE)
    copies = max(1, lines // body.count("\n"))
    return (text[: match.start(1)] + body * copies + text[match.end(1) :]).encode()


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """CPU seconds of the fastest round."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def read_all(data: bytes) -> list[PtxProgram]:
    """Parse every kernel with its events and every definition."""
    programs = list(read_ptx(data, "bench.ptx").programs)
    for program in programs:
        _ = program.events
        for index in range(program.blocks[-1].stop):
            program.definitions(index)
    return programs


def audit_all(data: bytes) -> None:
    """Read and audit every kernel, nothing declared."""
    for program in read_ptx(data, "bench.ptx").programs:
        audit_program(program, None, artifact="bench.ptx", digest=program.digest)


def ptxas_seconds(data: bytes) -> float | None:
    """CPU seconds ptxas takes for the same text; None where there is no ptxas or it refuses."""
    if shutil.which("ptxas") is None:
        return None
    target = read_ptx(data, "bench.ptx").target
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder, "bench.ptx")
        ptx.write_bytes(data)
        command = ["bash", "-c", 'TIMEFORMAT="%U %S"; time ptxas -arch="$1" "$2" -o "$2.cubin"', "_", target, str(ptx)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
        if done.returncode:
            return None
        return sum(map(float, done.stderr.split()[-2:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=25_000, help="lines of PTX to make (default %(default)s)")
    parser.add_argument("--file", type=Path, help="measure this file instead")
    options = parser.parse_args()
    if options.file is not None:
        data, origin = options.file.read_bytes(), str(options.file)
    elif shutil.which("nvcc") is not None:
        data, origin = unrolled_attention(-(-options.lines // LINES_PER_TILE)), "unrolled attention, nvcc"
    else:
        data, origin = repeated_kernel(options.lines), "stored Triton kernel, repeated"
    size, lines = len(data) / 1e6, data.count(b"\n")
    print(f"{origin}: {size:.2f} MB, {lines:,} lines")
    compiler = ptxas_seconds(data)
    rows = [("read", best(lambda: read_all(data))), ("read and audit", best(lambda: audit_all(data)))]
    if compiler is not None:
        rows.append(("ptxas", compiler))
    for name, seconds in rows:
        ratio = f"  1/{compiler / seconds:.1f} of ptxas" if compiler is not None and name != "ptxas" else ""
        print(f"{name:16}{seconds:8.3f} s {size / seconds:8.2f} MB/s {lines / seconds:12,.0f} lines/s{ratio}")


if __name__ == "__main__":
    main()
