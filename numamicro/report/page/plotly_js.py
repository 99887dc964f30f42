"""The library that draws curves: its source goes into the page, so that nothing is fetched."""

from __future__ import annotations

from functools import cache

from numamicro.errors import NumamicroError


@cache
def plotly_source() -> str:
    """Give the JavaScript of Plotly.

    Raises
    ------
    NumamicroError
        It is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise NumamicroError(
            "curves are given as tables alone, for the library that draws them is not installed: "
            "pip install 'numamicro[report]'"
        ) from error
    source: str = get_plotlyjs()
    # Only the end of the script element can end it.
    return source.replace("</script", "<\\/script")
