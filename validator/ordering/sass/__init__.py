"""Machine code that ships (cubins, fat binaries, libraries, wheels) as programs for the ordering audit."""

from validator.ordering.sass.containers import Limits
from validator.ordering.sass.errors import SassError
from validator.ordering.sass.program import SassProgram
from validator.ordering.sass.reader import BinaryModule, SassKernel, read_binary
from validator.ordering.sass.scan import Scan, Settlement
from validator.ordering.sass.tools import Tools

__all__ = [
    "BinaryModule",
    "Limits",
    "SassError",
    "SassKernel",
    "SassProgram",
    "Scan",
    "Settlement",
    "Tools",
    "read_binary",
]
