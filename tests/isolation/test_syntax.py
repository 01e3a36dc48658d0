"""Python 3.9 to 3.14: what the judged code may be written in, whatever Python this program runs on."""

from __future__ import annotations

import ast

import pytest

from validator.isolation.source import parse
from validator.isolation.syntax import lower_new_syntax, parse_new_syntax, unparse

NEW = {
    "the same quotes": ('x = f"{d["a"]}"', "x = f\"{d['a']}\""),
    "fields over several lines": ('x = f"{\n a +  # not b\n b}"', 'x = f"{a + b}"'),
    "a backslash": ("x = f\"{chr(10).join(a)!r:>{w}} {'\\n'.join(b)}\"", None),
    "a string that holds braces": ('x = f"{"}"} {"{"}"', None),
    "f-strings in f-strings": ('x = f"{f"{f"{f"{y}"}"}"}"', None),
    "spec with a field": ('x = f"{a["b"]:{c["d"]}>10}"', "x = f\"{a['b']:{c['d']}>10}\""),
    "conversion": ('x = f"{a["b"]!r}"', "x = f\"{a['b']!r}\""),
    "prints its own text": ('x = f"{a["b"]=}"', None),
    "raw": ('x = rf"\\d{a["b"]}\\s"', "x = rf\"\\d{a['b']}\\s\""),
    "doubled braces": ('x = f"{{}} {a["b"]} {{"', "x = f\"{{}} {a['b']} {{\""),
    "named character": ('x = f"\\N{BULLET}{a["b"]}"', "x = f\"\\N{BULLET}{a['b']}\""),
    "not equal": ('x = f"{a["b"] != c}"', "x = f\"{a['b'] != c}\""),
    "lambda and walrus": ('x = f"{(lambda: a["b"])()}{(y := a["c"])}"', None),
    "triple": ('x = f"""{a["b"]}\n{"""q"""}\n"""', None),
    "a comment with quotes": ('x = f"{\na  # it\'s "\n}"', 'x = f"{a}"'),
    "in a generic function": (
        'def f[T](x: T) -> T:\n    return f"{x["a"]}"',
        "def f(x: T) -> T:\n return f\"{x['a']}\"",
    ),
    "type alias": ("type A[T] = list[T]", "A = list[T]"),
    "generic class": ("class C[T = int, *Ts, **P](B[T]):\n    pass", "class C(B[T]):\n    pass"),
    "exceptions without brackets": ("try:\n    a()\nexcept A, B:\n    pass", "try:\n a()\nexcept (A, B):\n pass"),
    "exception groups": ("try:\n    a()\nexcept* A, B:\n    pass", "try:\n a()\nexcept* (A, B):\n pass"),
    "template": ('x = t"{a["b"]}"', "x = f\"{a['b']}\""),
    "raw template": ('x = rt"\\d{a}"', 'x = rf"\\d{a}"'),
    "soft keyword as a name": ("type = 3\ntype[0] = f'{1}'", "type = 3\ntype[0] = f'{1}'"),
}


@pytest.mark.parametrize("name", NEW)
def test_newer_syntax(name: str) -> None:
    text, same = NEW[name]
    module = parse("a.py", text.encode()).module
    assert module is not None
    if same is not None:
        assert ast.dump(module) == ast.dump(ast.parse(same))
    assert parse("a.py", text.encode()).lines == tuple(text.splitlines())


@pytest.mark.parametrize("name", NEW)
def test_lowered_and_then_read_gives_what_a_newer_parser_gives(name: str) -> None:
    """Where this interpreter reads the text itself, both ways agree."""
    text, _ = NEW[name]
    try:
        native = ast.parse(text)
    except SyntaxError:
        return
    if "t" not in text.split("=")[-1][:4] and "type" not in text and "[T" not in text:
        assert ast.dump(parse_new_syntax(text)) == ast.dump(native)


def test_lines_stay() -> None:
    text = 'a = 1\nx = f"{\n  d["a"]\n  + b\n}"\ny = 2\nz = f"{d["b"]}"\n'
    module = parse("a.py", text.encode()).module
    assert module is not None
    assert [s.lineno for s in module.body] == [1, 2, 6, 7]
    names = {n.id: n.lineno for n in ast.walk(module) if isinstance(n, ast.Name)}
    assert names | {"d": 0} == {"a": 1, "x": 2, "d": 0, "b": 4, "y": 6, "z": 7}


@pytest.mark.parametrize(
    "text",
    ['x = f"{"', 'x = f"{a["', 'x = f"{}"', 'x = f"{a b["c"]}"', 'x = f"{' * 60, 'x = f"{"a";b}"', "x = '", '"""'],
)
def test_what_is_no_python_is_a_problem_and_no_crash(text: str) -> None:
    source = parse("a.py", text.encode())
    assert source.module is None
    assert "does not parse" in source.problem


@pytest.mark.parametrize("text", ["x = 1\n# f'{a}'\n", "'''f\"{d[\"a\"]}\"'''\n", "s = 'it''s'\nif f(''): pass\n", ""])
def test_text_without_such_fields_stays(text: str) -> None:
    assert lower_new_syntax(text) == text


def test_a_tree_that_an_older_python_cannot_write_is_shown_somehow() -> None:
    module = parse("a.py", b'x = f"{"\\n".join(b)}"').module
    assert module is not None
    assert "join" in unparse(module)
