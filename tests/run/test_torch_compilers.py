"""A callable that compiles its kernel when it is called runs where a compiler is; else that is said of the machine."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from validator.run.worker import _sibling


@pytest.fixture
def torch_adapter(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter over a torch that has a GPU and no tensors."""
    torch: Any = ModuleType("torch")
    torch.bfloat16 = torch.float8_e4m3fn = torch.float8_e5m2 = torch.Tensor = torch.strided = object()
    torch.cuda = SimpleNamespace(is_available=lambda: True, Stream=object)
    torch.set_num_threads = torch.set_grad_enabled = lambda value: None
    monkeypatch.setitem(sys.modules, "torch", torch)
    return _sibling("torch", "adapters")


def load(adapter: ModuleType, monkeypatch: pytest.MonkeyPatch, source: str, device: str = "cuda") -> Any:
    module = ModuleType("new_path")
    exec(source, vars(module))
    monkeypatch.setitem(sys.modules, "new_path", module)
    return adapter.load("new_path:run", ".", {"device": device})


JIT = """
class JITFunction: pass
JITFunction.__module__ = "triton.runtime.jit"
kernel = JITFunction()
def run(x): pass
"""


def test_triton_without_a_c_compiler_is_not_run_here(torch_adapter: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_adapter.shutil, "which", lambda name: None)
    with pytest.raises(torch_adapter.NotRunHere, match="needs a C compiler"):
        load(torch_adapter, monkeypatch, JIT)


def test_what_compiles_itself_is_called_where_it_can(torch_adapter: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_adapter.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert callable(load(torch_adapter, monkeypatch, JIT))


def test_torchs_own_operations_are(torch_adapter: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_adapter.shutil, "which", lambda name: None)
    assert callable(load(torch_adapter, monkeypatch, "def run(x): pass"))
    assert callable(load(torch_adapter, monkeypatch, JIT, "cpu"))
