"""Names of what is measured: places, routes and cases are told apart, and read back."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.case import AnyPlace, Case, Place, PlaceSet, Route, node, parse_place
from numamicro.errors import NumamicroError
from tests import examples


@given(examples.places)
def test_a_place_reads_back_from_its_name(place: AnyPlace) -> None:
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("node0", Place("node", 0)),
        ("llc250", Place("llc", 250)),
        ("file:a+b:c", Place("file", "a+b:c")),
        ("node0+node8", PlaceSet((Place("node", 0), Place("node", 8)))),
    ],
)
def test_names_of_places(text: str, place: AnyPlace) -> None:
    assert parse_place(text) == place
    assert str(place) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "node", "node-1", "node 0", "node0x", "Node0", "node٣", "node0+", "+node0", "0"),
        *("file:", "socket0", "node1e3", "node" + "9" * 5000),
    ],
    ids=lambda text: text[:8].encode("ascii", "backslashreplace").decode(),
)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(NumamicroError, match="names no place; write for example node0, gpu1"):
        parse_place(text)


@given(st.text())
def test_any_text_is_a_place_or_refused(text: str) -> None:
    try:
        place = parse_place(text)
    except NumamicroError:
        return
    assert parse_place(str(place)) == place


@pytest.mark.parametrize(
    ("route", "text"),
    [
        (Route(node(0), node(1)), "node0>node1"),
        (
            Route(Place("gpu", 0), Place("gpu", 1), via=node(2), mover="copy-engine"),
            "gpu0>node2>gpu1@copy-engine",
        ),
        (Route(node(0), PlaceSet((node(0), node(1)))), "node0>node0+node1"),
    ],
)
def test_names_of_routes(route: Route, text: str) -> None:
    assert str(route) == text


ROUTE = Route(node(0), node(1))
params = st.dictionaries(examples.words, st.integers() | examples.words, max_size=4)
cases = st.builds(
    lambda probe, operation, route, params: Case.of(probe, operation, route, **params),
    examples.words,
    examples.words,
    st.builds(Route, examples.numbered_places, examples.numbered_places),
    params,
)


@given(params)
def test_the_order_in_which_parameters_are_given_is_no_matter(given: dict[str, object]) -> None:
    forth = Case.of("p", "o", ROUTE, **given)  # type: ignore[arg-type]
    back = Case.of("p", "o", ROUTE, **dict(reversed(given.items())))  # type: ignore[arg-type]
    assert forth == back
    assert hash(forth) == hash(back)
    assert [name for name, _ in forth.params] == sorted(given)


@given(st.lists(cases, min_size=2, max_size=6))
def test_a_key_tells_cases_apart(some: list[Case]) -> None:
    assert len({case.key for case in some}) == len(set(some))


def test_each_part_of_a_case_is_in_its_key() -> None:
    case = Case.of("bandwidth", "read", ROUTE, threads=8, pages="huge")
    assert case.key == "bandwidth/read node0>node1 pages=huge,threads=8"
    assert Case.of("bandwidth", "read", ROUTE).key == "bandwidth/read node0>node1"
    others = [
        Case.of("latency", "read", ROUTE, threads=8, pages="huge"),
        Case.of("bandwidth", "write", ROUTE, threads=8, pages="huge"),
        Case.of("bandwidth", "read", Route(node(1), node(0)), threads=8, pages="huge"),
        Case.of("bandwidth", "read", Route(node(0), node(1), via=node(2)), threads=8, pages="huge"),
        case.having(threads=9),
        case.without("threads"),
    ]
    assert len({case.key, *(other.key for other in others)}) == 7


@given(cases, params)
def test_having_changes_what_is_named_and_nothing_else(case: Case, changes: dict[str, int]) -> None:
    changed = case.having(**changes)
    assert dict(changed.params) == dict(case.params) | changes
    assert (changed.probe, changed.operation, changed.route) == (
        case.probe,
        case.operation,
        case.route,
    )
    assert [name for name, _ in changed.params] == sorted(dict(changed.params))


@given(cases)
def test_without_undoes_having(case: Case) -> None:
    assert case.having(**{"new name": 1}).without("new name", "absent") == case
    assert case.without(*dict(case.params)).params == ()


def test_a_parameter_may_have_any_name() -> None:
    names = {"probe": 1, "operation": 2, "route": 3, "cls": 4, "self": 5}
    case = Case.of("p", "o", ROUTE).having(**names)
    assert dict(case.params) == names
    assert case == Case.of("p", "o", ROUTE, **names)


def test_parameters_are_looked_up_by_name() -> None:
    case = Case.of("bandwidth", "read", ROUTE, threads=8, pages="huge")
    assert case["pages"] == "huge"
    assert case.get("variant") is None
    assert case.get("variant", "any") == "any"
    assert case.number("threads") == 8
    with pytest.raises(KeyError):
        case["variant"]
    with pytest.raises(NumamicroError, match="'pages' is 'huge', not a whole number"):
        case.number("pages")


def test_a_case_is_found_after_it_came_from_another_process() -> None:
    case = Case.of("bandwidth", "read", Route(node(0), node(1)), threads=2)
    code = (
        "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)))"
    )
    sent = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps(case),
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONHASHSEED": "1"},
        check=True,
    ).stdout
    assert pickle.loads(sent) in {case}
