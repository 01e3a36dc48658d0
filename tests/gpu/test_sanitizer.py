"""What compute-sanitizer prints is understood; where it is absent or fails, nothing is claimed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from validator.gpu.driver import NotHere
from validator.gpu.sanitizer import Sanitized, sanitized

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at kernel(float *)+0x90
=========     by thread (0,0,0) in block (0,0,0)
========= Invalid __global__ read of size 4 bytes
========= Program hit cudaErrorLaunchFailure (error 719)
========= ERROR SUMMARY: 3 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k()+0x10 and Read access at k()+0x20 [32 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def played(text: str) -> None:
        (tmp_path / "said").write_text(text)
        program = tmp_path / "compute-sanitizer"
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/said\n')
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return played


def test_errors_are_counted_and_named_once(tool, tmp_path: Path):
    tool(MEMCHECK)
    said = sanitized(["program", "argument"], "memcheck")
    assert isinstance(said, Sanitized)
    assert said.errors == 3
    assert [line.split()[0] for line in said.reports] == ["Invalid", "Program"]
    assert (tmp_path / "asked").read_text().split()[:2] == ["--tool", "memcheck"]
    assert str(said) == "compute-sanitizer memcheck: 3 errors; Invalid __global__ read of size 4 bytes"


def test_hazards_are_errors_too(tool):
    tool(RACECHECK)
    said = sanitized(["program"], "racecheck")
    assert isinstance(said, Sanitized)
    assert (said.errors, len(said.reports)) == (1, 1)


def test_no_summary_is_no_evidence(tool):
    tool("========= Error: Device not supported\n")
    said = sanitized(["program"], "synccheck")
    assert isinstance(said, NotHere)
    assert "Device not supported" in said.reason


def test_no_tool_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(sanitized(["program"], "memcheck")) == "not run here: compute-sanitizer is not installed"
