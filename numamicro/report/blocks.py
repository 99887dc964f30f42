"""Blocks of a text in each style: paragraphs, and tables with a title."""

from __future__ import annotations

import html


def paragraph(text: str, style: str) -> str:
    """Give lines as they stand, or as a paragraph of HTML."""
    if style != "html" or not text:
        return text
    return f"<p>{html.escape(text).replace(chr(10), '<br>' + chr(10))}</p>"


def titled(title: str, table: str, style: str) -> str:
    """Give a table below its title; GitHub takes a table for one only after an empty line."""
    if style == "html":
        return f"<h3>{html.escape(title)}</h3>\n{table}"
    gap = "\n" if style == "plain" else "\n\n"
    return f"{title}{gap}{table}"
