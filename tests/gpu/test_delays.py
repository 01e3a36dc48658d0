"""Delays in PTX: found at the sites, the same for the same seed, taken by ptxas, and minimised to what matters."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from validator.gpu.delays import Delays, inject, minimised, sites

CORPUS = Path(__file__).parents[2] / "fixtures/ordering/labelled"
PTXAS = shutil.which("ptxas")

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.func helper()
{
	bar.sync 	1;
	ret;
}
.visible .entry k(.param .u64 p)
{
	.reg .pred %p1;
	.reg .b32 %r<9>;
	mov.u32 %r1, %tid.x;
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bar.sync 	0;
	bar.warp.sync -1; // within a warp
	{
	membar.gl;
	}
	// bar.sync 0;
	mov.u32 %r2, 0; bar.sync 0;
	ret;
}
.visible .entry other()
{
	bar.sync 	0;
	ret;
}
"""


def test_sites_are_before_and_after_what_orders_threads():
    found = sites(KERNEL, "k")
    assert [(site.text.split()[-2:], site.after) for site in found] == [
        (["bar.sync", "0"], False),
        (["bar.sync", "0"], True),
        (["membar.gl"], False),
        (["membar.gl"], True),
    ]
    assert str(found[1]) == "after line 16: @%p1 bar.sync \t0"
    assert len(sites(KERNEL, "other")) == 2
    assert sites(KERNEL, "nobody") == ()


def test_a_seed_replays_and_another_is_another():
    one, same, other = (inject(KERNEL, "k", Delays(seed, 5000, (0, 3))) for seed in (1, 1, 2))
    assert one == same
    assert one != other
    assert one.count("%globaltimer") == 4
    assert "5000" in one
    assert inject(KERNEL, "k", Delays(1, 5000, ())) == KERNEL.strip("\n").join("\n\n")


def test_what_matters_is_what_is_left():
    tried: list[tuple[int, ...]] = []

    def fails(chosen: tuple[int, ...]) -> bool:
        tried.append(chosen)
        return {3, 11} <= set(chosen)

    assert minimised(range(16), fails) == (3, 11)
    assert len(tried) < 64
    assert minimised(range(16), lambda chosen: 7 in chosen) == (7,)
    assert minimised((5,), lambda chosen: True) == (5,)
    assert len(minimised(range(100), fails, tries=3)) > 2


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.skipif(PTXAS is None, reason="no ptxas")
def test_every_labelled_kernel_assembles_with_every_site_delayed(tmp_path: Path):
    """A few of each compiler's."""
    assert PTXAS is not None
    for name in ("h08_ok", "h17_bad", "h19_ok", "hc1_ok", "hc3_bad", "ht1_ok", "ht3_bad"):
        # Some compilers print a newer version than they need; what is in these kernels is as old as sm_90a.
        ptx = re.sub(r"\.version 9\.\d", ".version 9.0", (CORPUS / name / "sm_90a.ptx").read_text())
        (kernel,) = {line.split("(")[0].split()[-1] for line in ptx.splitlines() if ".entry" in line}
        places = sites(ptx, kernel)
        assert places, name
        delayed = tmp_path / f"{name}.ptx"
        delayed.write_text(inject(ptx, kernel, Delays(7, 20_000, tuple(range(len(places))))))
        done = subprocess.run(
            [PTXAS, "-arch=sm_90a", str(delayed), "-o", str(tmp_path / "out.cubin")],
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (name, done.stderr[:600])
