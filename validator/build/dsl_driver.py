"""Compiles a Python kernel: run inside the sandbox by the interpreter that has the compiler, never imported.

`python -I dsl_driver.py TOOLCHAIN JSON`: leaves `*.ptx` and `*.cubin` in the folder that it is told.
"""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    toolchain, told = sys.argv[1:]
    asked = json.loads(told)
    sys.path.insert(0, asked["root"])
    sys.argv[:] = [asked["source"]]
    if toolchain == "triton":
        _triton(asked)
    else:
        runpy.run_path(asked["source"], run_name="__main__")  # it dumps what it compiles


def _triton(asked: dict[str, Any]) -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    spec = importlib.util.spec_from_file_location("kernel_source", asked["source"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    digits = re.sub(r"\D", "", asked["arch"])
    source = ASTSource(getattr(module, asked["entry"]), asked["signature"], constexprs=asked["constants"])
    made = triton.compile(source, target=GPUTarget("cuda", int(digits), 32))
    out = Path(asked["out"])
    (out / f"{asked['entry']}.ptx").write_text(made.asm["ptx"])
    (out / f"{asked['entry']}.cubin").write_bytes(made.asm["cubin"])


if __name__ == "__main__":
    main()
