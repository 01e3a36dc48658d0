"""What a worker with a device may do besides: make a local socket, which nobody answers."""

from __future__ import annotations

import subprocess
import sys

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
