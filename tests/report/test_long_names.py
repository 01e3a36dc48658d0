"""Long names and messages: cut with their length and digest in what a person reads, in every format and command."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.report.conftest import BASE
from validator.differential.cases import Case
from validator.differential.controls import Controlled
from validator.differential.device import candidate_of
from validator.differential.faults import Fault, FaultKind
from validator.differential.results import CaseResult, KernelResult
from validator.differential.settle import Demands, settle
from validator.differential.text import replay_text, run_text
from validator.manifest.contract import KernelContract
from validator.report.formats import FORMATS, render
from validator.verdict.model import Finding, Location, Severity
from validator.verdict.result import CheckResult

LONG = 20_000
ATTACKS = st.sampled_from(
    ["\x1b[2J\x07", "\u202e", "<img src=x onerror=alert(1)>", "`|\\", "=1+1", "@all #1 ", "\udc80"]
)
relaxed = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


def long_result(name: str) -> CheckResult:
    """A result in which all that the head names freely is this long text."""
    where = Location(name, line=1, kernel=name)
    finding = Finding("order/early-read", Severity.ERROR, name, where, name, name, (name,), (name,), 1, (where,))
    return replace(
        BASE,
        findings=(finding,),
        obligations=tuple(replace(o, reason=name, statement=name, findings=()) for o in BASE.obligations),
        not_covered=(name,),
        assumptions=(name,),
        change=replace(BASE.change, head_ref=name, notes=(name,)),
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_a_long_name_is_cut_with_its_digest(kind: str) -> None:
    name = "k" * (LONG // 2) + "e" * (LONG // 2)
    page = render(long_result(name), kind)
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    if kind == "json":  # for programs: whole
        assert name in page
        return
    assert kind == "sarif" or name not in page  # a program follows its `uri`
    assert re.search(rf"\[{LONG} characters, sha256:{digest}\]", page)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "json"])
@relaxed
@given(st.lists(ATTACKS, min_size=1, max_size=3), st.integers(300, 600))
def test_a_long_attack_stays_one(kind: str, parts: list[str], times: int) -> None:
    """Cutting does not let out what was escaped, and escaping does not undo the cut."""
    page = render(long_result("".join(parts) * times), kind)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"} or c == "\u200b" for c in page)
    assert "<img src=x" not in page or kind != "html"
    if kind == "markdown":
        tokens = MarkdownIt("commonmark").enable("table").parse(page)
        inline = [child for token in tokens for child in token.children or ()]
        assert not {child.type for child in inline} & {"link_open", "image"}
        assert not any("<img" in child.content for child in inline if child.type == "html_inline")
    assert max(map(len, page.split("\n"))) < 60_000 or kind == "html"
    if kind == "junit":
        ET.fromstring(page)


CONTRACT = {
    "match": "scale",
    "candidate": "fast.model:scale",
    "reference": "stock.ops:scale",
    "dims": ["D in 1..4"],
    "args": [
        {"name": "x", "role": "activation", "dtype": "float32", "shape": ["D"]},
        {"name": "out", "role": "output", "dtype": "float32", "shape": ["D"]},
    ],
}


@relaxed
@given(st.text(st.characters(exclude_categories=()), max_size=60), st.integers(1, 300))
def test_what_a_candidate_raises_does_nothing_in_a_terminal(text: str, times: int) -> None:
    contract = KernelContract.model_validate(CONTRACT)
    message = text * times
    fault = Fault(FaultKind.WORKER, message, f"the candidate raised: {message}", {message[:50]: message})
    case = Case("scale", (("D", 1),), 1, origin=message, variants=())
    failed = CaseResult(case, (fault,), Controlled((), (), ()))
    result = KernelResult((case,), [failed], {case.id: failed})
    stage = settle(contract, result, Demands(1), candidate_of(contract))
    for page in (run_text([(contract, result, stage)], "fail"), replay_text(failed)):
        assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in page)


@relaxed
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60).filter(lambda t: "\0" not in t))
def test_an_error_says_any_name_harmlessly(capsys: pytest.CaptureFixture[str], text: str) -> None:
    from validator.cli import command_line

    assert command_line(["audit", f"./{text.replace('/', '_')}.ptx"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in said.err)
