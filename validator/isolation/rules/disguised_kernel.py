"""A file holds compiled GPU code and is not called so.

What ships compiled is found by its name (`.ptx`, `.cubin`, `.fatbin` and so on) and by the manifest's `[[artifacts]]`.
PTX, machine code or a fat binary under any other name, or PTX written out in a source file, is loaded at run time like
the rest, and no stage looks into it: what it reads before a wait, for one, is then unknown.

Bad:  `fastpath/table.txt`, which begins with `.version 8.6`; `KERNEL = ".version 8.6\\n.target sm_90a …"` in a module.
Good: `fastpath/scale.sm_90a.ptx`, named in an `[[artifacts]]` table.

To mend it, keep the code in a file of its own with its usual suffix and name it in an `[[artifacts]]` table; a file
that such a table names may be called anything.

What it does not see: code that is compressed, encoded or put together at run time, of directives that stand apart, for
one. Policy's trusted tests may hold PTX, and pages of documentation (`.md`, `.rst`) may show some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from validator.change.kernels import COMPILED_SUFFIXES
from validator.change.model import FileChange, FileKind, read_many
from validator.checks import finding
from validator.globs import matches
from validator.rule import Rule
from validator.stage import StageContext
from validator.verdict.model import Finding, Severity

__all__ = ["RULE", "check"]

RULE = Rule("isolation/disguised-kernel", "compiled code under another name", Severity.UNPROVEN)

_LARGEST = 512 << 20
"""Bytes of a file that is read, where policy allows such."""
_FAT = (b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46")
"""Fat binaries, as containers and as the wrapper that points to one."""
_EM_CUDA = b"\xbe\x00"
_PTX = re.compile(rb"(?>(?:\s+|//[^\n]*\n|/\*[\s\S]*?\*/)*)\.version\s+\d+\.\d+\s")
_COMMENT = rb"/\*(?:[^*]|\*(?!/)){0,500}\*/"
_WRITTEN_OUT = re.compile(
    rb"\.version\s+\d+\.\d+(?>(?:\s+|\\[nrt]|//[^\n\\]*|" + _COMMENT + rb"|[bBfFrRuU]{1,2}(?=[\"'])|[\"'+\\,])*)"
    rb"\.target(?>(?:\s+|" + _COMMENT + rb")+)(?:sm_\d|[%{$])"
)
"""Two directives, between which a source that spells them out has quotes, line ends and comments; the second may name
what is filled in. What was matched is never tried in another way, here and above: the text is the head's, and may be
made to take time."""
_PAGES = (".md", ".rst")
"""They show what others load."""


def check(context: StageContext) -> Iterator[Finding]:
    named = [artifact.path for artifact in context.manifest.artifacts] if context.manifest else []
    limit = min(context.policy.isolation.max_file_bytes, _LARGEST)
    paths = [file.path for file in context.change.files if _is_another(file) and not matches(file.path, named)]
    for path, data in sorted(read_many(context.change.head_tree, paths, limit)):
        what = _whole(data)
        if not what and not path.lower().endswith(_PAGES) and not matches(path, context.policy.trusted.tests):
            head = _WRITTEN_OUT.search(data)
            what = "writes out PTX" if head and b".entry" in data[head.end() :] else ""
        if what:
            yield finding(
                RULE,
                path,
                f"{path} {what}, and no [[artifacts]] table names it: nobody looked into it",
                why="it is loaded like any other kernel, whatever the file is called",
                fix="keep it in a file with its usual suffix and name that in an [[artifacts]] table",
            )


def _is_another(file: FileChange) -> bool:
    plain = bool(file.new_id) and file.kind in (FileKind.REGULAR, FileKind.EXECUTABLE)
    return plain and not file.path.lower().endswith(COMPILED_SUFFIXES)


def _whole(data: bytes) -> str:
    """What the file is as a whole; empty: nothing of the kind."""
    if _PTX.match(data):
        return "is PTX"
    if data.startswith(b"\x7fELF") and data[18:20] == _EM_CUDA:
        return "is machine code for a GPU"
    return "is a fat binary" if data.startswith(_FAT) else ""
