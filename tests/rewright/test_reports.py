"""Reports escape every name and text, and the exit status follows the worst verdict."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewright.reports import Entry, exit_status, github, junit, markdown
from rewright.tables import verdict_table


def entry(status: str, name: str = "Law", text: str = "text", file: str = "rules.py", reason: str = "because") -> Entry:
    return Entry(
        {"name": name, "status": status, "scope": "every size", "equality": "real", "seconds": 0.5, "reason": reason}, text, file, 7
    )


@pytest.mark.parametrize(
    ("statuses", "require_proof", "expected"),
    [
        (["PROVED", "TRIVIAL", "TESTED", "PROVED_BOUNDED"], False, 0),
        ([], False, 0),
        (["PROVED", "TESTED"], True, 3),
        (["PROVED_BOUNDED"], True, 3),
        (["UNDECIDED", "PROVED"], False, 3),
        (["ERROR", "UNDECIDED"], False, 2),
        (["ERROR", "UNDECIDED", "REFUTED"], False, 1),
        (["VACUOUS"], False, 1),
    ],
)
def test_exit_status(statuses: list[str], require_proof: bool, expected: int) -> None:
    assert exit_status([entry(status) for status in statuses], require_proof) == expected


@given(st.text(), st.text(), st.text())
def test_junit_is_xml_whatever_the_names(name: str, text: str, reason: str) -> None:
    root = ElementTree.fromstring(junit([entry("REFUTED", name, text, reason=reason), entry("ERROR", name), entry("PROVED", name)]))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "1", "1")
    assert [child.tag for case in root for child in case] == ["failure", "error"]


@given(st.text(), st.text())
def test_a_github_annotation_is_one_line(name: str, text: str) -> None:
    (line,) = github([entry("REFUTED", name, text), entry("PROVED")])
    assert line.startswith("::error file=rules.py,line=7,title=")
    assert "\n" not in line and "\r" not in line
    title = line.removeprefix("::error file=rules.py,line=7,title=").split("::", 1)[0]
    assert "," not in title and ":" not in title


def test_markdown_keeps_names_inside_their_cells() -> None:
    text = markdown([entry("REFUTED", "A|B<script>", "a ``` fence")])
    assert "| A\\|B&lt;script&gt; | REFUTED |" in text
    assert "````text\na ``` fence\n````" in text


def test_an_unproved_rule_fails_only_where_proof_is_required() -> None:
    assert github([entry("TESTED")]) == []
    assert github([entry("TESTED")], require_proof=True)[0].endswith("::TESTED: because%0Atext")


@pytest.mark.parametrize(("status", "words"), [("PROVED", "every size"), ("TESTED", "every size; because"), ("REFUTED", "because")])
def test_the_table_says_why_a_tested_rule_is_not_proved(status: str, words: str) -> None:
    (cell,) = verdict_table([entry(status)]).columns[2].cells
    assert str(cell) == words
