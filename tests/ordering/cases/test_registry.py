"""One check = one module = one id = one page = one pair of fixtures, and the sets are equal."""

from __future__ import annotations

import inspect
from pathlib import Path

from validator.ordering import rules
from validator.rules import all_rules, page

FIXTURES = Path(__file__).parents[3] / "fixtures/ordering/rules"
MODULES = (*rules.MODULES, *rules.STEP_MODULES)


def test_rules_fixtures_and_pages_are_the_same_set():
    ids = {module.RULE.id for module in MODULES}
    assert ids == {f"order/{p.name}" for p in FIXTURES.iterdir()}
    assert ids == {rule.id for rule in rules.RULES}
    assert ids == {rule.id for rule in all_rules() if rule.id.startswith("order/")}
    assert len(ids) == len(MODULES)


def test_every_rule_has_a_page_that_explains_it():
    for module in MODULES:
        text = page(module.RULE.id)
        assert isinstance(text, str), module.RULE.id
        said = inspect.getdoc(module)
        assert said, module.RULE.id
        assert said.split("\n", 1)[0] in text, module.RULE.id


def test_every_rule_is_a_module_of_its_name():
    for module in MODULES:
        stem = Path(inspect.getfile(module)).stem
        assert module.RULE.id == "order/" + stem.replace("_", "-")


def test_every_pair_is_whole():
    for folder in FIXTURES.iterdir():
        for kind in ("bad", "good"):
            names = {p.name for p in (folder / kind).iterdir()}
            assert {"kernel.cu", "contract.toml", "expect.toml"} <= names
            assert any(n.endswith(".ptx") for n in names)
