"""The page in a real browser: headless Chromium, with the network there to be tried."""

from __future__ import annotations

import itertools
import os
import shutil
from typing import TYPE_CHECKING, Any, Literal

import pytest

from numamicro.report.page import render_page
from numamicro.report.page.plotly_js import plotly_source
from numamicro.report.table import tables
from tests.report.pages import large, small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser
    from playwright.sync_api import Page as Tab

    from numamicro.matrix import CostMatrix

UNITS = {"GB/s": 1e9, "ns": 1e-9, "µs": 1e-6}

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium, or run ./dev test as root"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    # A container's root has no sandbox of its own to give.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the pages of both examples, written once."""
    folder = tmp_path_factory.mktemp("pages")
    written = {"small": folder / "small.html", "large": folder / "large.html"}
    for name, matrix in (("small", small()), ("large", large())):
        written[name].write_text(render_page(matrix, library=plotly_source()), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def tab(browser: Browser) -> Iterator[Tab]:
    """Give the one tab of all tests: to start another costs more than most of them do."""
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(tab: Tab, pages: dict[str, Path]) -> Iterator[Callable[..., Tab]]:
    """Give what opens a page; at the end nothing was complained of and nothing asked for."""
    faults: list[str] = []
    allowed = [path.as_uri() for path in pages.values()]
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: faults.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: faults.append(f"error: {error}"),
        "dialog": lambda dialog: faults.append(f"dialog: {dialog.message}"),
        "request": lambda request: None if request.url in allowed else faults.append(request.url),
    }
    for event, listener in listeners.items():
        tab.on(event, listener)

    def open_page(name: str, scheme: Literal["light", "dark"] = "light") -> Tab:
        tab.set_viewport_size({"width": 1280, "height": 900})
        tab.emulate_media(media="screen", color_scheme=scheme)
        tab.goto(pages[name].as_uri())
        return tab

    yield open_page
    for event, listener in listeners.items():
        tab.remove_listener(event, listener)
    assert faults == []


def scroll_through(tab: Tab) -> None:
    """Bring every part of a page into view, as a reader does."""
    for place in tab.locator("h2, .chart").all():
        place.scroll_into_view_if_needed()
    tab.wait_for_function(
        "() => [...document.querySelectorAll('.chart')].every(chart => chart.querySelector('svg'))"
    )


def fits(tab: Tab) -> bool:
    """Tell that a page is no wider than its window, a wide one and a telephone's."""
    for width in (1280, 400):
        tab.set_viewport_size({"width": width, "height": 900})
        # Charts follow a moment later.
        tab.wait_for_function(f"() => document.documentElement.scrollWidth <= {width}")
    return True


def test_curves_are_drawn_from_their_figures_and_fit(opened: Callable[..., Tab]) -> None:
    tab = opened("small")
    scroll_through(tab)
    assert tab.locator(".chart").count() == 3  # teams, working sets, and latency over rate
    drawn = tab.evaluate("[...document.querySelectorAll('.chart')].map(chart => chart.data)")
    sweep = next(lines[0] for lines in drawn if 2**14 in lines[0]["x"])
    assert sweep["y"] == pytest.approx([2.0**step for step in range(8)])
    loaded = next(lines[0] for lines in drawn if lines[0]["x"] == [5, 30, 40])
    assert loaded["y"] == pytest.approx([110, 200, 400])
    assert fits(tab)


@pytest.mark.parametrize(("name", "matrix"), [("small", small()), ("large", large())])
def test_arrow_keys_reach_every_cell_and_each_tells_of_itself(
    opened: Callable[..., Tab], name: str, matrix: CostMatrix
) -> None:
    tab = opened(name)
    grids = tab.locator("table.heat")
    assert grids.count() == len(tables(matrix))
    assert grids.locator("td[tabindex='0']").count() == grids.count()
    grid = grids.first
    rows = grid.locator("tbody tr").count()
    columns = grid.locator("tbody tr").first.locator("td").count()
    grid.locator("td[tabindex='0']").focus()
    reached = set()
    for row in range(rows):
        for _ in range(columns - 1):
            reached.add(told(tab))
            tab.keyboard.press("ArrowLeft" if row % 2 else "ArrowRight")
        reached.add(told(tab))
        tab.keyboard.press("ArrowDown")
    assert len(reached) == rows * columns
    assert grid.locator("td[tabindex='0']").count() == 1


def told(tab: Tab) -> str:
    """Give what the page says of the cell or line that is looked at."""
    return str(tab.evaluate("document.getElementById('more').textContent"))


def test_arrow_keys_and_the_mouse_reach_the_lines_between_gpus(
    opened: Callable[..., Tab],
) -> None:
    tab = opened("large")
    lines = tab.locator(".pair")
    count = lines.count()
    assert count == 8 * 7 // 2
    tab.locator(".pair[tabindex='0']").focus()
    reached = set()
    for _ in range(count):
        reached.add(told(tab).partition(".")[0])
        tab.keyboard.press("ArrowDown")
    assert len(reached) == count
    assert tab.locator(".pair[tabindex='0']").count() == 1
    # Beside the middle, where it crosses others.
    line = tab.get_by_role("img", name="gpu0, gpu1.")
    line.scroll_into_view_if_needed()
    line.hover()
    assert told(tab).startswith("gpu0, gpu1. Copies 12.5 there")


def test_what_a_cell_shows_is_what_it_holds(opened: Callable[..., Tab]) -> None:
    read = """tables => tables.flatMap(table => [...table.querySelectorAll("td[data-value]")].map(
        cell => [table.ariaLabel, cell.innerText, cell.dataset.value]))"""
    shown = opened("large").locator("table.heat").evaluate_all(read)
    assert len(shown) > 8 * 8
    for title, text, value in shown:
        unit = next(unit for unit in UNITS if f" in {unit}" in title)
        assert float(text.split()[0]) == pytest.approx(float(value) / UNITS[unit], abs=0.0501)


def test_a_head_sorts_its_table_by_value(opened: Callable[..., Tab]) -> None:
    tab = opened("small")
    grid = tab.locator("table.heat").first
    head = grid.locator("thead th button").first
    orders = []
    for _ in range(2):
        head.click()
        values = grid.locator("tbody tr td:nth-child(2)").all()
        orders.append([float(cell.get_attribute("data-value") or 0) for cell in values])
    assert orders[0] == sorted(orders[0])
    assert orders[1] == orders[0][::-1]


def test_a_table_can_be_copied_as_a_spreadsheet_takes_it(opened: Callable[..., Tab]) -> None:
    tab = opened("small")
    tab.locator(".matrices button.copy").first.click()
    lines = tab.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].split("\t") == ["", "node0", "node8"]
    assert lines[1].split("\t") == ["node0", "40.0", "20.0"]


def test_a_page_of_many_columns_is_no_wider_than_its_window(opened: Callable[..., Tab]) -> None:
    assert fits(opened("large"))


CONTRAST = """() => {
  const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  return [...document.querySelectorAll(".legend span")].map((each) => {
    const style = getComputedStyle(each);
    const seen = (color) => color === "rgba(0, 0, 0, 0)" ? getComputedStyle(document.body).backgroundColor : color;
    const ground = light(seen(style.backgroundColor)), ink = light(style.color);
    return [ground, (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05)];
  });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shades_differ_in_lightness_and_their_text_can_be_read(
    opened: Callable[..., Tab], scheme: str
) -> None:
    steps = opened("small", scheme).evaluate(CONTRAST)
    lightness = [ground for ground, _ in steps]
    # In one direction: so the steps are told apart by eyes that see no hues, and in grey print.
    assert lightness == sorted(lightness, reverse=scheme == "light")
    assert all(b / a > 1.1 or a / b > 1.1 for a, b in itertools.pairwise(lightness))
    assert min(contrast for _, contrast in steps) >= 4.5


def test_on_paper_everything_is_unfolded_and_drawn(opened: Callable[..., Tab]) -> None:
    tab = opened("small", "dark")
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert tab.locator("details:not([open])").count() == 0
    assert tab.locator(".chart .main-svg").count() > 0
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.locator("details[open]").count() == 0


def test_eight_nodes_and_eight_gpus_open_at_once(
    opened: Callable[..., Tab], pages: dict[str, Path]
) -> None:
    assert pages["large"].stat().st_size < 6_000_000
    # The fastest of a few: other programs may be at work beside.
    for _ in range(5):
        tab = opened("large")
        ended = tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        if 0 < ended < 2000:
            return
    pytest.fail("no page opened within 2 s")


def test_pictures_have_words(opened: Callable[..., Tab]) -> None:
    tab = opened("small")
    for picture in tab.get_by_role("img").all():
        assert picture.evaluate("each => each.ariaLabel || each.querySelector('title').textContent")
    assert tab.locator("#machine details pre").count() == 1
