"""The page in a real Chromium: quiet, alone, readable and operable, and looking as it did.

Needs the [browser] extra and a Chromium on the machine (Debian: `apt-get install chromium`); skipped visibly otherwise.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import BASE, hostile_result
from tests.report.stories import STORY, told
from tests.report.test_own_code import SOURCE, brought
from tests.support.golden import UPDATE
from validator.report.html import render_html
from validator.report.reading import read_result
from validator.verdict.compute import verdict_reason
from validator.verdict.model import Finding, Location, Severity

sync_api = pytest.importorskip("playwright.sync_api", reason="the page is looked at with the [browser] extra")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="the page is checked with the [browser] extra"
)

HERE = Path(__file__).parent
EARLY = Finding("order/early-read", Severity.ERROR, "early", Location("fast/k.cu", line=150))
WIDTHS = (390, 820, 1280)
"""A phone, a tablet, a desk."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = [p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))]
    if not found:
        pytest.skip("no Chromium on this machine")
    with sync_api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=found[0], args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results: by hand, from a real run, with evidence of unknown kinds, with the change's code, and all attack."""
    folder = tmp_path_factory.mktemp("pages")
    written = replace(BASE, reason=verdict_reason(BASE.obligations))
    attack = "\"'><img src=x onerror=alert(1)><script>alert(2)</script><a href=javascript:alert(3)>x</a>"
    results = {
        "written": written,
        "run": read_result(HERE / "bundles" / "hoisted"),
        "story": told(STORY),
        "code": brought([{"path": "fast/k.cu", "text": SOURCE * 60, "more": 3}], EARLY),
        "hostile": hostile_result(attack),
    }
    for name, result in results.items():
        (folder / f"{name}.html").write_text(render_html(result), "utf-8")
    return {name: folder / f"{name}.html" for name in results}


class Visit:
    """One page in one window, and everything that happened while it was open."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.path = path
        self.console: list[str] = []
        self.requests: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda m: self.console.append(m.text))
        self.page.on("dialog", lambda d: self.console.append(f"dialog {d.message}"))
        self.page.on("pageerror", lambda e: self.console.append(str(e)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.goto(path.as_uri())


VISITS = [
    *((name, width, "light") for name in ("written", "run") for width in WIDTHS),
    *((name, 820, "dark") for name in ("written", "run")),
    *(("story", 390, "dark"), ("story", 1280, "light"), ("code", 390, "dark"), ("code", 1280, "light")),
    *(("hostile", 390, "light"), ("hostile", 1280, "dark")),
]


@pytest.mark.parametrize(("name", "width", "scheme"), VISITS)
def test_quiet_alone_and_accessible(browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str) -> None:
    visit = Visit(browser, pages[name], width, scheme)
    page = visit.page
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    broken = axe.Axe().run(page)
    assert broken.violations_count == 0, broken.generate_report()
    assert page.evaluate("document.scrollingElement.scrollWidth <= document.scrollingElement.clientWidth")
    assert visit.console == []
    assert [r for r in visit.requests if r != visit.path.as_uri() and not r.startswith("data:")] == []
    page.close()


def test_the_keyboard_reaches_and_opens_everything(browser: Any, pages: dict[str, Path]) -> None:
    page = Visit(browser, pages["run"], 820, "light").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    summary = page.locator("details:not([open]) > summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open")
    page.close()


def test_a_place_leads_to_its_line(browser: Any, pages: dict[str, Path]) -> None:
    page = Visit(browser, pages["code"], 820, "light").page
    assert not page.locator("#code-1-150").is_visible()
    page.locator("#look a").first.click()
    assert page.locator("#code-1-150").is_visible()
    assert page.evaluate("document.querySelector(':target').id") == "code-1-150"
    page.close()


def test_paper_shows_what_a_click_would(browser: Any, pages: dict[str, Path]) -> None:
    page = Visit(browser, pages["run"], 820, "light").page
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.evaluate(
        "[...document.querySelectorAll('details:not([open]) li')].every(e => e.getBoundingClientRect().height > 0)"
    )
    page.close()


@pytest.mark.parametrize(
    ("name", "width", "media"),
    [*((n, w, "screen") for n in ("written", "run") for w in WIDTHS), ("run", 794, "print"), ("story", 820, "screen")],
)
def test_looks_as_it_did(browser: Any, pages: dict[str, Path], name: str, width: int, media: str) -> None:
    """Compared at a quarter of its size, with room for how a version of Chromium smooths its letters."""
    page = browser.new_page(viewport={"width": width, "height": 1400}, device_scale_factor=0.5, color_scheme="light")
    page.emulate_media(media=media)
    page.goto(pages[name].as_uri())
    if name == "story":
        page.evaluate("document.querySelector('#kernels').scrollIntoView()")
    fonts = page.evaluate(_FONTS)
    shot = page.screenshot(full_page=False)
    stored, noted = HERE / "golden" / f"page-{name}-{width}.png", HERE / "golden" / "page-fonts.txt"
    if os.environ.get(UPDATE):
        stored.write_bytes(shot)
        noted.write_text(fonts + "\n")
    if noted.read_text().strip() != fonts:
        pytest.skip(f"other fonts than the stored pictures: {fonts}, not {noted.read_text().strip()}")
    page.goto("about:blank")
    images = [f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in (shot, stored.read_bytes())]
    difference = page.evaluate(_DIFFERENCE, images)
    page.close()
    assert difference < 0.02, f"the page looks otherwise; when it is right: {UPDATE}=1 pytest tests/report"


_FONTS = """() => {
  const c = document.createElement('canvas').getContext('2d');
  return ['system-ui', 'ui-monospace'].map(f => {
    c.font = `100px ${f}`;
    return f + ' ' + c.measureText('The quick brown fox 0123').width.toFixed(0);
  }).join(', ');
}"""

_DIFFERENCE = """async (sources) => {
  const pixels = [];
  for (const source of sources) {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = Math.ceil(image.width / 4);
    canvas.height = Math.ceil(image.height / 4);
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    pixels.push(context.getImageData(0, 0, canvas.width, canvas.height).data);
  }
  if (pixels[0].length !== pixels[1].length) return 1;
  let far = 0;
  for (let i = 0; i < pixels[0].length; i += 4) {
    const d = [0, 1, 2].map(k => Math.abs(pixels[0][i + k] - pixels[1][i + k]));
    if (Math.max(...d) > 48) far += 1;
  }
  return far / (pixels[0].length / 4);
}"""
