"""Calls of packages outside the tree that change something for the whole process: known ones, and those whose name
says so (`torch.set_num_threads(1)`, `numpy.seterr(…)`), where the call stands alone as a statement."""

from __future__ import annotations

import ast
import re
from typing import Final

__all__ = ["changes_process"]

_KNOWN: Final = frozenset(
    {
        "os.putenv", "os.unsetenv", "os.chdir", "sys.path.insert", "sys.path.append", "sys.path.extend",
        "sys.meta_path.insert", "sys.meta_path.append", "sys.path_hooks.insert", "sys.path_hooks.append",
        "torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type", "torch.manual_seed",
        "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.set_num_threads", "random.seed",
        "np.random.seed", "numpy.random.seed", "torch.use_deterministic_algorithms", "logging.disable",
        "torch.set_float32_matmul_precision", "signal.signal", "locale.setlocale", "gc.disable", "gc.enable",
        "gc.freeze", "gc.set_threshold", "warnings.filterwarnings", "warnings.simplefilter", "atexit.register",
        "logging.basicConfig", "logging.setLoggerClass", "sys.setrecursionlimit", "sys.settrace", "sys.setprofile",
        "faulthandler.enable", "multiprocessing.set_start_method",
        "os.sched_setaffinity", "os.nice", "os.umask", "os.setpriority", "resource.setrlimit", "threading.settrace",
        "threading.setprofile", "threading.stack_size", "codecs.register", "importlib.reload",
        "torch.distributed.init_process_group", "torch.distributed.destroy_process_group",
        "torch.cuda.memory.change_current_allocator", "torch.cuda.change_current_allocator",
    }
)  # fmt: skip
_BY_NAME: Final = re.compile(
    r"_?(?:set|unset|reset|enable|disable|use|install|uninstall|seterr|register_module)(?:_\w+)?$"
)
"""Last names that say it, of functions of modules: nothing above them is a class."""
_PATCHERS: Final = ("unittest.mock.", "wrapt.")
_FOR_OWN: Final = frozenset({"copyreg.pickle"})
"""They change what is done with objects of the class that they are given."""


def changes_process(call: ast.Call, meant: str, *, alone: bool, inside: bool, own: frozenset[str]) -> bool:
    """Whether a call of something imported changes the process. `meant`: its dotted name; `alone`: its result is not
    used, nor is it entered by a `with`; `inside`: it is of the tree; `own`: classes that the file defines."""
    if meant in _KNOWN or meant.startswith(_PATCHERS):
        return True
    if meant in _FOR_OWN:
        return not (call.args and isinstance(call.args[0], ast.Name) and call.args[0].id in own)
    owner, _, last = meant.rpartition(".")
    of_module = bool(owner) and not any(part[:1].isupper() for part in owner.split("."))
    return alone and not inside and of_module and _BY_NAME.match(last) is not None
