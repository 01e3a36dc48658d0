"""Directives of a PTX file: what stands outside the bodies."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from validator.errors import ValidatorError
from validator.ordering.program import Parameter, Space
from validator.ordering.ptx import PtxError, PtxModule, read_ptx

Read = Callable[[str], PtxModule]
HEAD = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n"


def entry(name: str = "k", params: str = "", directives: str = "", body: str = "ret;") -> str:
    return f".visible .entry {name}({params})\n{directives}\n{{ {body} }}\n"


def test_version_target_and_address_size(read: Read) -> None:
    module = read(HEAD + entry())
    assert (module.version, module.target, module.targets) == ("9.0", "sm_90a", ("sm_90a", "debug"))
    assert module.address_size == 64
    assert module.name == "t.ptx"


def test_leading_comments_and_trailing_nul(read: Read) -> None:
    module = read("//\n// Generated\n/* block\n comment */\n" + HEAD + entry() + "\0\0")
    assert [p.name for p in module.programs] == ["k"]


def test_parameters_are_laid_out_at_their_alignment(read: Read) -> None:
    params = """
        .param .u32 a,                                  // a comment, with commas
        .param .u64 .ptr .global .align 16 b,
        .param .align 8 .b8 c[40],
        .param .f32 d,
        .param .align 64 .b8 map[128],
        .param .u8 e, .param .v2 .f32 f
    """
    (program,) = read(HEAD + entry(params=params)).programs
    assert program.parameters == (
        Parameter(0, 0, 4, "a", "u32", False),
        Parameter(1, 8, 8, "b", "u64", True),
        Parameter(2, 16, 40, "c", "b8[40]", None),
        Parameter(3, 56, 4, "d", "f32", False),
        Parameter(4, 64, 128, "map", "b8[128]", None),
        Parameter(5, 192, 1, "e", "u8", False),
        Parameter(6, 200, 8, "f", "f32", None),
    )


@pytest.mark.parametrize(
    ("directives", "block_size", "maximum"),
    [
        ("", None, None),
        (".reqntid 128", (128, 1, 1), 128),
        (".reqntid 128, 1, 1", (128, 1, 1), 128),
        (".reqntid 16,16", (16, 16, 1), 256),
        (".maxntid 1024, 1, 1\n.minnctapersm 2", None, 1024),
        (".maxntid 8,8,8 .maxnreg 64 .maxnctapersm 1", None, 512),
        (".explicitcluster\n.reqnctapercluster 2, 1, 1\n.reqntid 256", (256, 1, 1), 256),
        (".reqntid 64 .blocksareclusters .maxclusterrank 8", (64, 1, 1), 64),
        ('.pragma "nounroll";\n.reqntid 32', (32, 1, 1), 32),
    ],
)
def test_performance_directives(
    read: Read, directives: str, block_size: tuple[int, int, int] | None, maximum: int | None
) -> None:
    (program,) = read(HEAD + entry(directives=directives)).programs
    assert (program.block_size, program.max_block_size) == (block_size, maximum)
    assert program.unknown == {}


def test_unknown_directives_are_counted(read: Read) -> None:
    module = read(HEAD + ".futuremode 7\n.futureblock { .b8 1, 2 }\n" + entry(directives=".futurehint 3"))
    assert module.unknown == {".futureblock": 1, ".futuremode": 1}
    assert module.programs[0].unknown == {".futureblock": 1, ".futurehint": 1, ".futuremode": 1}


def test_several_entries_with_their_own_digests(read: Read) -> None:
    first, second = entry("first", body="bar.sync 0; ret;"), entry("second")
    module = read(HEAD + first + ".weak " + second.removeprefix(".visible "))
    assert [p.name for p in module.programs] == ["first", "second"]
    text = first.removeprefix(".visible ").strip()
    assert module.digests["first"] == hashlib.sha256(text.encode()).hexdigest()
    moved = read("// another file\n" + HEAD + second + first)
    assert moved.digests == module.digests


def test_variables(read: Read) -> None:
    text = """
.visible .global .align 4 .b8 table[16] = {1, 0, 0, 0, 2}; // { ;
.extern .shared .align 16 .b8 dyn[];
.const .f32 c[4] = {0f00000000};
.global .align 8 .u64 fns[2] = {f, generic(g)};
.global .align 1 .b8 $str[7] = {37, 100, 10};
.shared .align 8 .b64 bars[2], one;
.global .attribute(.managed) .s32 m;
"""
    found = {v.name: (v.space, v.size) for v in read(HEAD + text + entry()).variables.values()}
    assert found == {
        "table": (Space.GLOBAL, 16),
        "dyn": (Space.SHARED, None),
        "c": (Space.CONST, 16),
        "fns": (Space.GLOBAL, 16),
        "$str": (Space.GLOBAL, 7),
        "bars": (Space.SHARED, 16),
        "one": (Space.SHARED, 8),
        "m": (Space.GLOBAL, 4),
    }


@pytest.mark.parametrize("at_end", [True, False])
def test_file_table(read: Read, at_end: bool) -> None:
    files = '.file 1 "/src/k{;.cu"\n.file 2 "a.h", 1665153211, 4711\n.file 3 "dir" "b.h"\n'
    body = entry(body=".loc 1 7 3\nbar.sync 0;\nret;")
    module = read(HEAD + (body + files if at_end else files + body))
    assert module.files == {1: "/src/k{;.cu", 2: "a.h", 3: "dir/b.h"}
    assert module.programs[0].line(0).file == "/src/k{;.cu"


def test_debug_sections_are_skipped(read: Read) -> None:
    section = """
.section .debug_str
{
$L__info_string0: // not a brace: }
.b8 95,90,0
}
.section .debug_macinfo { }
@@DWARF .byte 0x2b, 0x00
"""
    assert len(read(HEAD + section + entry() + section).programs) == 1


def test_functions_prototypes_and_aliases(read: Read) -> None:
    text = """
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b) ;
.func helper(.param .b64 p) ;
.visible .func (.reg .u32 r) helper2 (.reg .u32 a) .noreturn { ret; }
.func .attribute(.unified(0x1, 0x2)) helper(.param .b64 p) { ret; }
.alias other, helper;
"""
    module = read(HEAD + text + entry())
    assert {name: f.body is not None for name, f in module.functions.items()} == {
        "vprintf": False,
        "helper": True,
        "helper2": True,
    }
    assert module.functions["helper2"].header.noreturn
    assert module.functions["vprintf"].header.results[0].size == 4
    assert module.aliases == {"other": "helper"}


def test_a_prototype_of_an_entry_is_no_program(read: Read) -> None:
    assert read(HEAD + ".extern .entry k(.param .u32 a);\n").programs == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "empty"),
        ("// nothing\n", 1, "empty"),
        ("int main() {}\n", 1, "not PTX"),
        ("\x7fELF\0\0", 1, "not PTX"),
        (".version nine\n", 1, "malformed directive"),
        (".version 9.0\n", 2, "no .target"),
        (HEAD + "garbage\n", 4, "no PTX directive"),
        (HEAD + ".visible .entry k(\n", 5, "ends inside a declaration"),
        (HEAD + ".visible .entry k(.param .u64 a)\n{\nret;\n", 7, "block that opens in line 5"),
        (HEAD + ".visible .entry k(.zzz a)\n{\nret;\n}\n", 4, "malformed header"),
        (HEAD + ".global .b8 x[3] = {1, 2", 4, "ends inside a declaration"),
        (HEAD + ".section .debug_str {\n.b8 1\n", 6, "block that opens in line 4"),
        (HEAD + '.file x "y"\n', 4, "malformed .file"),
    ],
)
def test_errors_say_where(text: str, line: int, words: str) -> None:
    with pytest.raises(PtxError) as caught:
        read_ptx(text.encode("latin-1"), "bad.ptx")
    assert caught.value.line == line
    assert f"bad.ptx:{line}" in str(caught.value)
    assert words in str(caught.value)
    assert isinstance(caught.value, ValidatorError)


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("mov.u32 %r1, 5\n", 6, "not a whole PTX statement"),
        ("mov.u32 %r1, {5;}\n", 6, "not a whole PTX statement"),
        ("ret;\n#if\n", 7, "not a whole PTX statement: '#if'"),
        ("ret;\nmov.u32 %r1, 5\ngriddepcontrol.wait;\n", 7, "not a whole PTX statement: 'mov.u32 %r1, 5'"),
        ("ret;\nmov.u32 %r1, 5 // five\n\n\t@p griddepcontrol.wait;\n", 7, "not a whole"),
        ("{ .reg .b32 t; add.s32 t, t, 1 griddepcontrol.wait; }\n", 6, "not a whole"),
        ("bar.sync 0\nbar.sync 1;\n", 6, "not a whole"),
        ("griddepcontrol.wait\nld.global.b32 %r1, [%rd1];\n", 6, "not a whole"),
        ("ret;\nld.global.b32 %r1, [%rd1;\nret;\n", 7, "not a whole"),
        ("call (r, f, (a);\n", 6, "not a whole"),
        ("bra nowhere;\n", 6, "label that is not there"),
        ("/* never closed\n", 8, "block that opens in line 5"),
        ("brx.idx %r1, list;\n", 6, "label that is not there"),
        ("{" * 200 + "}" * 200, 6, "nested scopes"),
        ("ld.global.b32 {" + "a," * 5000 + "a}, [x];\n", 6, "operands"),
    ],
)
def test_errors_in_bodies_say_where(body: str, line: int, words: str) -> None:
    with pytest.raises(PtxError) as caught:
        _ = read_ptx((HEAD + ".entry k()\n{\n" + body + "}\n").encode(), "bad.ptx").programs[0].blocks
    assert words in str(caught.value)
    assert caught.value.line == line


def test_bodies_are_parsed_lazily_and_let_go() -> None:
    filler = "add.s32 %r1, %r1, 1;\n" * 150_000
    text = HEAD + "".join(entry(f"k{n}", body=filler + "bar.sync 0; ret;") for n in range(4))
    module = read_ptx(text.encode(), "big.ptx")
    assert [p._code for p in module.programs] == [None] * 4
    counts = [len(p.events) for p in module.programs]
    assert counts == [2] * 4
    held = [p.name for p in module.programs if p._code is not None]
    assert held == ["k2", "k3"]
    assert module.programs[0].blocks[-1].stop == 150_002
