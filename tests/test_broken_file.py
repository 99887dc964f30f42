"""Reading a result file: what is broken is refused in a sentence, and an older one is upgraded."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from numamicro import file, wire
from numamicro.errors import NumamicroError
from numamicro.file import SCHEMA, UPGRADES, matrix_text, read_matrix, write_matrix
from numamicro.matrix import Sample
from numamicro.report.table import render
from tests import examples
from tests.test_file import DOCUMENT, Path_, full_matrix, nodes_of, put, without

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.matrix import CostMatrix


def as_written(document: Any) -> str:
    """Give a document as text, laid out as the program lays it out where it has cells."""
    cells = document.get("measurements") if isinstance(document, dict) else None
    if not isinstance(cells, list) or set(document) != set(DOCUMENT):
        return json.dumps(document)
    head = json.dumps({key: document[key] for key in document if key != "measurements"}, indent=1)
    lines = ",\n".join(map(json.dumps, cells))
    return head.removesuffix("\n}") + f',\n "measurements": [\n{lines}\n ]\n}}\n'


def test_the_layout_is_the_programs() -> None:
    assert as_written(DOCUMENT) == matrix_text(full_matrix())


def read_or_refuse(text: str | bytes, path: Path) -> CostMatrix | None:
    """Read a text as a file: give the matrix, or None when a sentence refused it."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        matrix = read_matrix(path)
    except NumamicroError as error:
        sentence = str(error)
        assert sentence.startswith(f"{path}")
        assert "\n" not in sentence
        assert len(sentence) < len(str(path)) + 300
        return None
    # What is read can be worked with and written again.
    render(matrix)
    assert read_again(matrix, path) == matrix
    return matrix


def read_again(matrix: CostMatrix, path: Path) -> CostMatrix:
    write_matrix(matrix, path)
    return read_matrix(path)


def test_a_file_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    text = matrix_text(full_matrix())
    path = tmp_path / "cut.json"
    for length in {*range(0, len(text.rstrip()), 31), *range(len(text) - 60, len(text) - 1)}:
        assert read_or_refuse(text[:length], path) is None, f"cut after {length} bytes"
    assert read_or_refuse(text.rstrip(), path) == full_matrix()


WRONG_VALUES: tuple[object, ...] = (
    None, True, False, 0, -1, 1, 10**400, 0.5, 1e308, -1e308, "", "x", "node0", "9" * 5000,
    [], [1], [[]], {}, {"x": 1}, {"-1": 1}, {"9" * 5000: 1}, {"\ud800": []},
)  # fmt: skip


def test_a_wrong_value_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    refused = 0
    places = [place for place, _ in nodes_of(DOCUMENT)]
    for number, place in enumerate(places):
        for value in WRONG_VALUES[number % 4 :: 4]:
            refused += read_or_refuse(as_written(put(DOCUMENT, place, value)), path) is None
    assert refused > len(places)


LAID_OUT_OTHERWISE = (
    ("},\n", "} ,\n"),
    ("\n ]\n}\n", "\n ]\n}"),
    ("\n ]\n}\n", '\n ],\n "label": "all"\n}\n'),
    ('"label": "all"', '"measurements": 1,\n "label": "all"'),
)


def test_a_file_reads_alike_however_it_is_laid_out(tmp_path: Path) -> None:
    path, text = tmp_path / "laid.json", matrix_text(full_matrix())
    assert all(text != text.replace(*change) for change in LAID_OUT_OTHERWISE)
    for content in (
        *(text.replace(*change) for change in LAID_OUT_OTHERWISE),
        json.dumps(DOCUMENT),
        json.dumps(dict(reversed(DOCUMENT.items())), indent=1),
    ):
        path.write_text(content)
        assert read_matrix(path) == full_matrix()


def test_a_list_within_is_not_taken_for_the_cells(tmp_path: Path) -> None:
    within = '"label": {"x": 1,\n "measurements": [\n1\n ]\n}'
    path = tmp_path / "within.json"
    path.write_text(matrix_text(full_matrix()).replace('"label": "all"', within))
    with pytest.raises(NumamicroError, match="label should be a text or null, not an object"):
        read_matrix(path)


def test_a_missing_value_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    path, places = tmp_path / "lacking.json", [place for place, _ in nodes_of(DOCUMENT) if place]
    lacking = (as_written(without(DOCUMENT, place)) for place in places)
    refused = sum(read_or_refuse(text, path) is None for text in lacking)
    assert 0 < refused < len(places)


MAY_BE_MISSING = {"label", "machine_id", "boot_id", "budget"}


@pytest.mark.parametrize("key", sorted(set(DOCUMENT) - MAY_BE_MISSING))
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    path = tmp_path / "lacking.json"
    path.write_text(json.dumps(without(DOCUMENT, (key,))))
    with pytest.raises(NumamicroError) as caught:
        read_matrix(path)
    assert str(caught.value) == f"{path}: key '{key}' is missing"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_anything_anywhere_is_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    document = DOCUMENT
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([place for place, _ in nodes_of(document)]))
        document = put(document, place, data.draw(examples.json_values))
    read_or_refuse(as_written(document), tmp_path / "any.json")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=8))
@example(0, b"\xff\xfe")
def test_garbled_bytes_are_refused_or_harmless(tmp_path: Path, where: int, noise: bytes) -> None:
    text = matrix_text(full_matrix()).encode()
    where %= len(text)
    garbled = text[:where] + noise + text[where + len(noise) :]
    read_or_refuse(garbled, tmp_path / "garbled.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_what_is_no_result_file_is_refused(tmp_path: Path, content: bytes) -> None:
    assert read_or_refuse(content, tmp_path / "other.json") is None


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (("tool",), 1, "tool should be a text, not a whole number"),
        (("setting",), [], "setting should be an object, not a list"),
        (
            ("setting", "thp.enabled"),
            [],
            "setting[...] should be a whole number or a text or null",
        ),
        (("machine", "nodes", 0, "id"), "0", "machine.nodes[0].id is '0', not of type int"),
        (("measurements", 0, "state"), "fine", "measurements[0].state: invalid enum value 'fine'"),
        (
            ("measurements", 1, "route", "source"),
            "here",
            "measurements[1]: 'here' names no place",
        ),
        (
            ("measurements", 2, "route", "via"),
            "node0+node1",
            "measurements[2]: 'node0+node1' is several places where one is meant",
        ),
        (
            ("measurements", 0, "runs", 0, "samples", 0),
            [1.0, 2],
            "measurements[0].runs[0].samples[0] should be a list of length 3, not 2",
        ),
        (
            ("measurements", 0, "runs", 0, "samples", 0, 0),
            0,
            "measurements[0].runs[0].samples[0][0] should be a decimal number >= 1e-15",
        ),
        (
            ("measurements", 0, "runs", 0, "placement", "pages"),
            {"x": 1},
            "a key of measurements[0].runs[0].placement.pages should be a whole number, not a text",
        ),
        (
            ("measurements", 0, "runs", 0, "placement", "share"),
            1.01,
            "measurements[0].runs[0].placement.share should be a decimal number <= 1.0",
        ),
        (("budget",), True, "budget should be a number or null, not true or false"),
        (("budget",), 2**63, "budget should be a whole number within 64 bits"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_the_sentence_says_where_and_what(
    tmp_path: Path, place: Path_, value: object, sentence: str
) -> None:
    path = tmp_path / "wrong.json"
    for lay_out in (as_written, json.dumps):
        path.write_text(lay_out(put(DOCUMENT, place, value)))
        with pytest.raises(NumamicroError) as caught:
            read_matrix(path)
        assert str(caught.value).startswith(f"{path}: {sentence}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is no result file: it is empty"),
        (b'{"schema": 1,\n', "is no complete result file: its JSON breaks off at line 2"),
        (
            b'{"schema": 1, "tool": "numami',
            "is no complete result file: its JSON breaks off at line 1",
        ),
        (b"# numamicro\n", "is no result file: line 1 is not JSON"),
        (b'{"schema": 1}}', "is no result file: line 1 is not JSON"),
        (b"[" * 100_000, "is no result file: its JSON is absurd"),
        (b'{"schema": 1, "budget": 1e999}', "holds 1e999, which is neither a figure nor JSON"),
        (b'{"schema": 1, "budget": NaN}', "holds NaN, which is neither a figure nor JSON"),
        (b'{"schema": 1, "budget": -Infinity}', "holds -Infinity, which is neither a figure nor"),
        (b'{"schema": ' + b"9" * 5000 + b"}", "is no result file: its JSON is absurd"),
        (b"\xff\xfe{", "is no result file: it is not text"),
    ],
    ids=lambda value: value[:20].decode(errors="replace") if isinstance(value, bytes) else "",
)
def test_what_is_no_json_is_said_so(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(NumamicroError) as caught:
        read_matrix(path)
    assert str(caught.value).startswith(f"{path} {sentence}")


@pytest.mark.parametrize(
    ("name", "reason"), [("absent", "No such file or directory"), ("", "Is a directory")]
)
def test_what_cannot_be_opened_is_said_so(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(NumamicroError) as caught:
        read_matrix(tmp_path / name)
    assert str(caught.value) == f"cannot read {tmp_path / name}: {reason}"


def test_a_key_of_a_later_version_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "more.json"
    for place, value in nodes_of(DOCUMENT):
        inside = {"plan", "setting", "params", "outcome", "pages", "distances"}
        if isinstance(value, dict) and not inside & set(place):
            path.write_text(json.dumps(put(DOCUMENT, (*place, "new"), {"any": "thing"})))
            assert read_matrix(path) == full_matrix()


def test_what_is_equal_and_not_alike_is_told_apart() -> None:
    cell = DOCUMENT["measurements"][0]
    for value in (1, 1.0, True, 1):
        case = wire.case_from_json(cell | {"params": {"x": value}}, "cell")
        assert type(case["x"]) is type(value)
        placement = cell["runs"][0]["placement"] | {"page_bytes": value}
        run = cell["runs"][0] | {"placement": placement}
        with nullcontext() if type(value) is int else pytest.raises(NumamicroError, match=r"^run"):
            wire.run_from_json(run, "run")


def test_seconds_without_a_point_are_seconds() -> None:
    run = DOCUMENT["measurements"][0]["runs"][0]
    (sample,) = wire.run_from_json(run | {"samples": [[2, 3, 4]]}, "run").samples
    assert sample == Sample(2.0, 3, 4)
    assert type(sample.seconds) is float


# ---- versions ------------------------------------------------------------------------------------


def test_a_newer_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "newer.json"
    path.write_text(json.dumps({"schema": SCHEMA + 1, "all": "else may have changed"}))
    with pytest.raises(NumamicroError) as caught:
        read_matrix(path)
    assert str(caught.value) == (
        f"{path} has schema {SCHEMA + 1}, and this numamicro reads up to {SCHEMA}: "
        "update numamicro to read it"
    )


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_that_never_was_is_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "never.json"
    path.write_text(json.dumps(DOCUMENT | {"schema": version}))
    with pytest.raises(NumamicroError, match="which no numamicro ever wrote"):
        read_matrix(path)


def test_an_older_file_is_upgraded_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_tool(document: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in document.items() if key != "program"} | {
            "tool": document["program"],
            "schema": SCHEMA + 1,
        }

    def with_cells(document: dict[str, Any]) -> dict[str, Any]:
        assert "tool" in document
        return document | {"measurements": document["cells"], "schema": SCHEMA + 2}

    monkeypatch.setitem(UPGRADES, SCHEMA, with_tool)
    monkeypatch.setitem(UPGRADES, SCHEMA + 1, with_cells)
    monkeypatch.setattr(file, "SCHEMA", SCHEMA + 2)
    old = dict(DOCUMENT)
    old["program"], old["cells"] = old.pop("tool"), old.pop("measurements")
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old))
    assert read_matrix(path) == full_matrix()
