"""`validator run` with machine code that is none: what cannot be held against it is no pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "fixtures/demo/good"
KERNELS = DEMO / "fastpath/kda_decode/kernels"
CUBIN = (KERNELS / "kda_decode.sm_90a.cubin").read_bytes()


@pytest.mark.sass
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "k.cubin"),
        (b"", "k.cubin: was not audited: "),
        (b"\xf5 noise" * 99, "k.cubin: was not audited: "),
        (CUBIN[: len(CUBIN) // 2], "reaches beyond the file"),
        (CUBIN.replace(b"kda_decode", b"kda_decoda"), "no kernel kda_decode is in it"),
    ],
)
def test_machine_code_that_is_not_there_is_no_pass(
    cli: Callable, tmp_path: Path, data: bytes | None, said: str
) -> None:
    if data is not None:
        (tmp_path / "k.cubin").write_bytes(data)
    asked = ("--contract", str(DEMO / "rfcs/kda-decode.toml"), "--cubin", str(tmp_path / "k.cubin"), "--schedules", "1")
    ran = cli("run", str(KERNELS / "kda_decode.sm_90a.ptx"), *asked)
    assert ran.code == 2
    assert ran.out == ""
    assert said in ran.err
