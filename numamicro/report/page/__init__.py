"""The matrix as one page of HTML that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.report.figures import Footnotes
from numamicro.report.page.comparison import comparison_section
from numamicro.report.page.curves import Charts, curve_figures
from numamicro.report.page.facts import findings_section, notes_section, setting_section
from numamicro.report.page.heat import heat_tables
from numamicro.report.page.machine import machine_figure
from numamicro.report.page.markup import Markup, data, joined, tag
from numamicro.report.page.token import token_section
from numamicro.report.table import heading
from numamicro.report.token import advice_line, usual_advice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison import Comparison
    from numamicro.cost.model import ModelSpec
    from numamicro.matrix import CostMatrix

START = "<!doctype html>\n<!-- numamicro report -->\n"
"""How every page begins, so that no other file is taken for one."""


def render_page(
    matrix: CostMatrix,
    model: ModelSpec | None = None,
    library: str = "",
    comparison: Comparison | None = None,
) -> str:
    """Give the page.

    Parameters
    ----------
    model : ModelSpec, optional
        Whose token is predicted; None: a usual one that fits.
    library : str
        The JavaScript that draws curves, as :func:`numamicro.report.page.plotly_js.plotly_source`
        gives it; empty: they are tables alone.
    comparison : Comparison, optional
        With another setting.
    """
    footnotes, charts = Footnotes(), Charts()
    verdict, token = _token(matrix, model)
    sections = [
        ("machine", "Machine", machine_figure(matrix)),
        ("matrices", "Matrices", heat_tables(matrix, footnotes)),
        ("token", "Cost of a token", token),
        ("curves", "Curves", curve_figures(matrix, footnotes, charts)),
        ("findings", "Findings", findings_section(matrix)),
        ("notes", "How to read the figures", notes_section(matrix, footnotes)),
        ("setting", "Setting", setting_section(matrix)),
    ]
    if comparison is not None:
        sections.insert(0, ("comparison", "Comparison", comparison_section(comparison)))
    script = _resource("page.js")
    drawing = library if charts.specs else ""
    return START + tag(
        "html",
        _head(matrix, [script, drawing]),
        tag(
            "body",
            *_body(matrix, verdict, sections),
            data(charts.specs, "charts"),
            # As text, which the last script runs when it is needed.
            tag("script", Markup(drawing), type="text/plain", id="library") if drawing else None,
            tag("script", Markup(script)),
        ),
        lang="en",
    )


def _head(matrix: CostMatrix, scripts: Sequence[str]) -> Markup:
    name = matrix.header.label or matrix.header.machine.cpu_model or "a machine"
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # The browser itself holds the page to this: no request, no script but those below.
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(scripts)),
        tag("title", f"{name} · numamicro"),
        tag("style", Markup(_resource("page.css"))),
    )


def _policy(scripts: Sequence[str]) -> str:
    hashes = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in scripts
        if text
    )
    allowed = " ".join(f"'sha256-{text}'" for text in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _token(matrix: CostMatrix, model: ModelSpec | None) -> tuple[str, Markup]:
    """Give what a token costs in one line and as a section, or why that is not predicted."""
    try:
        advice, predictor = usual_advice(matrix, model)
    except NumamicroError as error:
        line = f"A token: not predicted: {error}"
        return line, tag("p", line)
    return advice_line(advice), token_section(advice, predictor)


def _body(
    matrix: CostMatrix, verdict: str, sections: Sequence[tuple[str, str, Markup]]
) -> list[Markup]:
    machine, how = heading(matrix).split("\n", 1)
    links = [tag("a", name, href=f"#{id}") for id, name, _ in sections]
    origin = matrix.header.origin
    return [
        tag(
            "header",
            tag("h1", matrix.header.label or "Cost matrix"),
            tag("p", machine),
            tag("p", how),
            tag("p", f"{origin} figures: no machine was measured here", class_="warning")
            if origin != "measured"
            else None,
            tag("p", verdict, class_="verdict"),
            tag("nav", joined(*links, between=" "), aria_label="Sections"),
        ),
        tag(
            "main",
            *(tag("section", tag("h2", name), inside, id=id) for id, name, inside in sections),
        ),
        tag("p", id="more", role="status", hidden=True),
    ]


def _resource(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
