"""Characters that hide or reorder text, and those that writing needs."""

from __future__ import annotations

import pytest

from validator.isolation.rules.hidden_text import _FLAG, _FOUND


def found(line: str) -> bool:
    return _FOUND.search(_FLAG.sub("", line)) is not None


@pytest.mark.parametrize(
    "line",
    [
        'if role != "user\u202e \u2066# admins\u2069":',
        "A\u3164 = 1",
        "x\u200by",
        "x = 1  # \u200b",
        "x = 1  # \u200b\u200c",
        "x\u200d = 1",
        "f(\u2063)",
        "# quiet\rimport os",
        "\x1b[2Kx = 1",
        "x = 2\x08\x08",
        "x = 1  \u2028y = 2",
        "a\ufe01\ufe02\ufe03",
        "a\U000e0110\U000e0111",
        "notes\U000e0041\U000e0042",
        "\U0001f3f4\U000e0067\U000e0062 no end of a flag",
    ],
)
def test_hides(line: str) -> None:
    assert found(line)


@pytest.mark.parametrize(
    "line",
    [
        "x = 1\r",
        "\U0001f469\u200d\U0001f680",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "\u1787\u17b6\u200b\u1797\u17b6\u179f\u17b6\u200b",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u05e9\u05dc\u05d5\u05dd (\u200e1)",
        "\u845b\U000e0100\u57ce",
        "\u2764\ufe0f",
        "\u1820\u180e\u1820",
        "a\tb\x0c",
    ],
)
def test_is_writing(line: str) -> None:
    assert not found(line)
