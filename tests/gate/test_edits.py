"""What an edit of a test file does to the tests that were there: honest additions stay quiet, weakenings do not."""

from __future__ import annotations

import time

import pytest

from validator.gate.edits import compare_tests

OLD = '''\
"""Tests."""
import unittest
import numpy as np
import pytest
from lib import scale

LIMIT = 1e-3


@pytest.fixture
def data():
    return np.ones(4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_one(n, data, reference):
    got = scale(data, n)
    assert got.shape == data.shape
    np.testing.assert_allclose(got, n * data, rtol=1e-5, atol=LIMIT)


class TestTwo(unittest.TestCase):
    size = 3

    def test_two(self):
        self.assertEqual(sum([1, 2]), self.size)
        with pytest.raises(ValueError):
            scale(None, None)
'''


def edited(old: str, new: str) -> list[str]:
    """What is said about OLD with one piece replaced."""
    assert OLD.count(old) == 1
    edits = compare_tests(OLD.encode(), OLD.replace(old, new).encode())
    assert edits is not None
    return [edit.what for edit in edits]


def added(text: str) -> list[str]:
    edits = compare_tests(OLD.encode(), (OLD + "\n\n" + text).encode())
    assert edits is not None
    return [edit.what for edit in edits]


@pytest.mark.parametrize(
    "text",
    [
        "def test_three(data):\n    assert scale(data, 2).any()\n",
        "@pytest.mark.parametrize('n', [4])\ndef test_four(n):\n    assert n\n",
        "class TestFive:\n    def setup_method(self):\n        self.x = 1\n\n"
        "    def test_x(self):\n        assert self.x\n",
        "import math\nfrom os import path as p\nPI = math.pi\nA, B = 1, 2\nC: int = 3\n",
        "@pytest.fixture\ndef mine():\n    return 1\n",
        "import numpy as np\n",
        "'''A note.'''\n# and a comment\n",
        "@pytest.mark.skip\ndef test_later():\n    assert False\n",
    ],
)
def test_additions_stay_quiet(text: str) -> None:
    assert added(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def scale(a, b):\n    return a * b\n", "scale takes a name that the existing tests use"),
        ("def reference():\n    return 1\n", "reference takes a name that the existing tests use"),
        ("@pytest.fixture\ndef data():\n    return 0\n", "data is defined again, which replaces it"),
        ("def test_one():\n    pass\n", "test_one is defined again, which replaces it"),
        ("class TestTwo:\n    pass\n", "TestTwo is defined again, which replaces it"),
        ("def sum(x):\n    return 3\n", "sum takes a name that the existing tests use"),
        ("from mine import *\n", "from mine import * takes a name that the existing tests use"),
        ("from mine import scale\n", "from mine import scale takes a name that the existing tests use"),
        ("import fake as np\n", "import fake as np takes a name that the existing tests use"),
        ("LIMIT = 10\n", "LIMIT = 10 takes a name that the existing tests use"),
        ("LIMIT += 10\n", "LIMIT += 10 runs when the file is imported, before the existing tests"),
        (
            "np.testing.assert_allclose = print\n",
            "np.testing.assert_allclose = print changes something that the existing",
        ),
        ("_ = setattr(np, 'x', 1)\n", "_ = setattr(np, 'x', 1) changes something that the existing tests may use"),
        ("del scale\n", "del scale runs when the file is imported, before the existing tests"),
        ("if True:\n    scale = print\n", "if True: runs when the file is imported, before the existing tests"),
        ("pytestmark = pytest.mark.skip\n", "pytestmark = pytest.mark.skip steers which tests run"),
        ("collect_ignore = ['x']\n", "collect_ignore = ['x'] steers which tests run"),
        (
            "pytest.skip('x', allow_module_level=True)\n",
            "pytest.skip('x', allow_module_level=True) runs when the file is",
        ),
        ("@pytest.fixture(autouse=True)\ndef quiet():\n    pass\n", "quiet runs around the existing tests"),
        ("def setup_module():\n    pass\n", "setup_module runs around the existing tests"),
        ("def pytest_runtest_setup(item):\n    pass\n", "pytest_runtest_setup runs around the existing tests"),
        ("def __getattr__(name):\n    pass\n", "__getattr__ runs around the existing tests"),
    ],
)
def test_additions_that_reach_the_old_tests(text: str, expected: str) -> None:
    (said,) = added(text)
    assert said.startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    assert got.shape == data.shape\n", "", "test_one has 1 assertions, had 2"),
        ("rtol=1e-5", "rtol=1e-2", "test_one has a looser tolerance: rtol 1e-05 → 0.01"),
        ("[1, 2, 3]", "[1]", "test_one is parametrized with 1 values, had 3"),
        ("def test_one", "@pytest.mark.xfail\ndef test_one", "test_one is skipped or expected to fail now"),
        ("    got = scale", "    pytest.skip()\n    got = scale", "test_one is skipped or expected to fail now"),
        ("    got = scale", "    return\n    got = scale", "test_one is changed"),
        ("def test_one", "def check_one", "test_one is gone"),
        ("got.shape == data.shape", "True", "test_one is changed"),
        ("LIMIT = 1e-3", "LIMIT = 1e3", "changed or gone: LIMIT = 0.001"),
        ("from lib import scale", "from mine import scale", "changed or gone: from lib import scale"),
        ("    size = 3", "    size = 4", "changed or gone: TestTwo.size = 3"),
        ("        self.assertEqual(sum([1, 2]), self.size)\n", "", "TestTwo.test_two has 1 assertions, had 2"),
        (
            "        with pytest.raises(ValueError):\n            scale(None, None)\n",
            "",
            "TestTwo.test_two has 1 assertions",
        ),
        ("class TestTwo", "@unittest.skip('x')\nclass TestTwo", "TestTwo: is skipped or expected to fail now"),
        ("(unittest.TestCase)", "(object)", "TestTwo: its bases or decorators are changed"),
        ("np.ones(4)", "np.zeros(4)", "data is changed"),
        (
            "    size = 3\n",
            "    size = 3\n    def setUp(self):\n        pass\n",
            "TestTwo.setUp runs around the existing tests",
        ),
    ],
)
def test_edits_of_the_old_tests(old: str, new: str, expected: str) -> None:
    assert edited(old, new)[0].startswith(expected)


def test_layout_and_comments_change_nothing() -> None:
    assert (
        edited("    got = scale(data, n)\n", "    # first\n    got = scale(\n        data,\n        n,\n    )\n") == []
    )


def test_new_methods_of_an_old_class_stay_quiet() -> None:
    assert (
        edited("    def test_two(self)", "    def test_more(self):\n        assert self\n\n    def test_two(self)")
        == []
    )


@pytest.mark.parametrize(
    "text", [b"def f(:\n", b"\xff\xfe", b"a\0b", b"(" * 100_000, b"-" * 100_000 + b"1", b"x" + b".a" * 50_000]
)
def test_what_cannot_be_parsed_is_said_to_be_so(text: bytes) -> None:
    assert compare_tests(OLD.encode(), text) is None


def test_a_file_of_the_largest_size_is_compared_in_time() -> None:
    old = b"".join(b"a%d = %d\n" % (i, i) for i in range(20_000))
    new = b"".join(b"b%d = %d\n" % (i, i) for i in range(20_000))
    started = time.process_time()
    edits = compare_tests(old, new)
    assert edits is not None
    assert len(edits) == 20_000
    assert time.process_time() - started < 20
