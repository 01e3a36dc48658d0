"""Files that do not parse, odd encodings, very large files, hostile names: a finding, no crash, bounded time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.isolation.test_offpath import _prove
from tests.support.isolation_case import context_of, honest
from tests.support.repository import Node
from validator.isolation.proof import run
from validator.verdict.model import StageResult, Status


def _run(folder: Path, base_more: dict[bytes, bytes], head_more: dict[bytes, bytes]) -> StageResult:
    base, head = honest()
    extra = {path: Node(data) for path, data in base_more.items()}
    return run(context_of(base | extra, head | extra | {p: Node(d) for p, d in head_more.items()}, folder))


def _status(result: StageResult, path: str) -> Status:
    return next(o.status for o in result.obligations if o.id == f"isolation/off-path/{path}")


@pytest.mark.parametrize(
    "data",
    [
        b"def f(:\n",
        b"\xff\xfe\x00x",
        b"# coding: klingon\nx = 1\n",
        b"# coding: undefined\nx = 1\n",
        b"x = 1\n\0\n",
        b"x = 1\nfrom __future__ import annotations\n",
        b"x = 1\nreturn x\n",
        b"x = 1\n\n\ndef f():\n    x = 2\n    global x\n",
        b"x = " + b"(" * 3000 + b")" * 3000,
        b"x = " + b"[" * 90 + b"]" * 90 + b"\n" + b"y = " + b"-" * 8000 + b"1\n",
    ],
)
def test_a_file_that_cannot_be_read_is_unproven(data: bytes, tmp_path: Path) -> None:
    result = _run(tmp_path, {b"engine/util.py": b"x = 1\n"}, {b"engine/util.py": data})
    assert _status(result, "engine/util.py") in (Status.UNPROVEN, Status.REFUTED)
    assert _status(result, "engine/models/k3.py") is Status.PROVEN


def test_an_isolated_file_that_cannot_be_read_is_unproven(tmp_path: Path) -> None:
    result = _run(tmp_path, {}, {b"engine/models/k3_fused/broken.py": b"class :\n"})
    assert _status(result, "engine/models/k3_fused/broken.py") is Status.UNPROVEN


def test_encodings_are_read_as_python_reads_them(tmp_path: Path) -> None:
    latin = "# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\n"
    marked = "\ufeffNAME = 'x'\r\nOTHER = 1\r\n"
    base = {b"engine/a.py": latin.encode("latin-1"), b"engine/b.py": marked.encode()}
    head = {
        b"engine/a.py": (latin + "# more\n").encode("latin-1"),
        b"engine/b.py": marked.replace("\r\n", "\n").encode(),
    }
    result = _run(tmp_path, base, head)
    assert _status(result, "engine/a.py") is Status.PROVEN
    assert _status(result, "engine/b.py") is Status.PROVEN


@pytest.mark.slow
def test_a_file_of_fifty_thousand_lines() -> None:
    block = "def f{0}(x, y=1):\n    if x is None:\n        return y\n    z = g(x)\n    return z + y\n"
    text = "".join(block.format(i) for i in range(10_000))
    changed = text.replace("def f7000(x, y=1):", "def f7000(x, y=2):")
    start = time.process_time()
    (found,) = _prove(text, changed).differences
    assert (found.difference.line, found.difference.undecided) == (35_001, False)
    assert time.process_time() - start < 60


def test_hostile_names_and_links_do_nothing(tmp_path: Path) -> None:
    base, head = honest()
    head = head | {
        b"engine/\x1b[31mred.py": Node(b"x = 1\n"),
        b"engine/new\nline.py": Node(b"x = 1\n"),
        b"engine/\xff\xfe.py": Node(b"x = 1\n"),
        b"engine/link.py": Node(b"../../../etc/passwd", 0o120000),
    }
    result = run(context_of(base, head, tmp_path))
    assert _status(result, "engine/models/k3.py") is Status.PROVEN


_DOUBLED = "x0 = 1\n" + "".join(f"x{i} = (x{i - 1}, x{i - 1})\n" for i in range(1, 45))


@pytest.mark.parametrize(
    "added",
    [
        "FLAG = FLAG + 1\n",
        "a = b[0]\nb = a[0]\n",
        f"{_DOUBLED}Y = x44[0]\n",
        f"{_DOUBLED}Y = {{x44: 1}}\n",
        "Y = {((((((0,) * 4000,) * 4000,) * 4000,) * 4000): 1}\n",
        'Y = f"{((((0,) * 4000,) * 4000,) * 4000)}"\n',
    ],
)
def test_a_few_lines_that_stand_for_millions_of_values_are_left_open(added: str, tmp_path: Path) -> None:
    started = time.process_time()
    result = _run(tmp_path, {b"engine/util.py": b"z = 1\n"}, {b"engine/util.py": f"z = 1\n{added}".encode()})
    assert time.process_time() - started < 60
    assert _status(result, "engine/util.py") in (Status.UNPROVEN, Status.REFUTED)
