"""What a worker with a device may do besides: make a local socket, which nobody answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from validator.run.adapters import ADAPTERS

TRY = """
import socket
from validator.run.confine import confine
said = confine({}, ["/usr", "/lib", "/lib64"], [], device=%s)
if said["system-calls"] != "yes":
    print("skip", said["system-calls"])
for family in (socket.AF_UNIX, socket.AF_INET):
    try:
        made = socket.socket(family)
        made.connect("/nobody" if family == socket.AF_UNIX else ("127.0.0.1", 9))
    except OSError as error:
        print(type(error).__name__)
"""


def tried(device: bool) -> list[str]:
    done = subprocess.run([sys.executable, "-c", TRY % device], capture_output=True, text=True, timeout=60, check=True)
    if done.stdout.startswith("skip"):
        pytest.skip(f"no seccomp here: {done.stdout}")
    return done.stdout.split()


def test_a_driver_may_make_a_local_socket_and_connect_it_to_nobody():
    assert tried(True) == ["ConnectionRefusedError", "PermissionError"]


def test_without_a_device_there_is_no_socket():
    assert tried(False) == ["PermissionError", "PermissionError"]


def test_only_adapters_of_a_gpu_see_more_of_the_machine():
    assert {a.name for a in ADAPTERS.values() if a.open_files} <= {"cuda", "torch-cuda", "steps-cuda"}
    assert "/proc/self" in ADAPTERS["cuda"].open_files


PROGRAMS = """
import os, subprocess, sys
from validator.run.confine import confine
readable = ["/usr", "/lib", "/lib64", "/bin", sys.base_prefix, sys.prefix]
said = confine({}, readable, [sys.argv[1], os.devnull], programs=%s)
if said["system-calls"] != "yes" or said["files"] != "yes":
    print("skip", said)
inside = '''
import os, socket, sys
gate = lambda: os.kill(int(sys.argv[1]), 0)
for reach in (socket.socket, gate, os.setsid, lambda: open("/etc/hostname"), lambda: open(sys.argv[2], "w")):
    try:
        reach()
        print("reached")
    except OSError as error:
        print(type(error).__name__)
'''
command = [sys.executable, "-I", "-c", inside, str(os.getppid()), sys.argv[1] + "-beside"]
print(subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode())
"""


def test_what_a_worker_starts_is_confined_as_it_is(tmp_path: Path):
    command = [sys.executable, "-c", PROGRAMS % True, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    if done.stdout.startswith("skip"):
        pytest.skip(f"no confinement here: {done.stdout}")
    assert done.stdout.split() == ["PermissionError"] * 5
    refused = subprocess.run(
        [sys.executable, "-c", PROGRAMS % False, str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert refused.returncode < 0


def test_only_callables_that_may_compile_themselves_start_programs():
    assert {a.name for a in ADAPTERS.values() if a.programs} == {"torch-cuda", "steps-cuda"}
    assert all(a.gpu for a in ADAPTERS.values() if a.programs)
