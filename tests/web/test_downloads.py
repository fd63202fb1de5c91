"""What is taken along from the pages: the report, tables whole, and what a question in SQL finds."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermes.base.errors import QueryError
from hermes.profiles.api import analyze, query
from hermes.report.report_json import to_json
from hermes.web.document_pages import Page, TableRequest
from hermes.web.downloads import table_csv


def test_the_report_is_given_as_json_as_one_page_and_as_a_spreadsheet(local: Any, client: Any) -> None:
    found = client.get("/api/download/report.json")
    assert json.loads(found.body) == local.study.document
    told = to_json(analyze(local.study.loaded))
    assert json.loads(found.body) == json.loads(told)
    # To the byte what the command writes.
    assert found.body.decode() == told
    page = client.get("/api/download/report.html")
    assert page.body.startswith(b"<!doctype html>")
    sheets = client.get("/api/download/report.xlsx?lang=zh")
    with zipfile.ZipFile(io.BytesIO(sheets.body)) as file:
        assert "发现" in file.read("xl/workbook.xml").decode()
    for answer in (found, page, sheets):
        assert answer.headers["content-disposition"].startswith("attachment;")


def test_a_table_is_given_whole_with_its_filter_and_exact_values(local: Any, client: Any) -> None:
    answer = client.get("/api/download/table.csv?table=kernel&rank=1&filter=matmul&sort=dur_ns&desc=1")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    shown = client.rows("table=kernel&rank=1&filter=matmul&sort=dur_ns&desc=1&limit=1000")
    assert [row["dur_ns"] for row in rows] == [str(row["dur_ns"]) for row in shown]
    assert len(rows) > 10
    everything = client.get("/api/download/table.csv?table=host_op")
    assert everything.body.count(b"\n") == client.json("/api/rows?table=host_op&limit=1")["total"] + 1


def test_what_a_spreadsheet_would_run_stays_text() -> None:
    page = Page(columns=(("name", "text"),), total=1, matching=1, rows=(("=1+1",),))
    assert b"".join(table_csv(lambda ask: page, TableRequest(table="x"))) == b"name\n'=1+1\n"


def test_a_table_that_there_is_not_is_refused_in_words(client: Any) -> None:
    answer = client.get("/api/download/table.csv?table=nothing")
    assert answer.status == 404
    assert "nothing" in json.loads(answer.body)["error"]["what"]


def test_sql_reads_the_tables_of_all_ranks(client: Any) -> None:
    found = client.json(f"/api/sql?q={quote('select count(distinct rank) as n from kernel')}")
    assert found == {"columns": [{"name": "n", "number": True}], "rows": [[3]], "more": False}


@pytest.mark.parametrize(
    "sql", ["drop table kernel", "copy kernel to '/tmp/out.csv'", "select * from read_csv('/etc/passwd')", "select"]
)
def test_sql_that_writes_or_reads_elsewhere_is_refused(sql: str, client: Any) -> None:
    answer = client.get(f"/api/sql?q={quote(sql)}")
    assert answer.status >= 400
    assert json.loads(answer.body)["error"]["what"]


def test_sql_gives_no_more_rows_than_a_page_holds(client: Any) -> None:
    found = client.json(f"/api/sql?q={quote('select * from range(5000)')}")
    assert len(found["rows"]) == 1000
    assert found["more"]


def test_sql_that_takes_too_long_is_ended(local: Any) -> None:
    endless = "select count(*) from range(1000000) a, range(1000000) b, range(1000) c where a.range + b.range = 7"
    with pytest.raises(QueryError, match="took longer"):
        query(local.study.loaded, endless, seconds=0.3)


@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
def test_the_page_data_answers_sql_and_tells_what_tables_hold(served: Any, visit: Any) -> None:
    seen = visit(served)
    page = seen.open("data")
    page.get_by_label("Ask in SQL").fill("select count(*) as all_of_them from step")
    page.get_by_role("button", name="Ask").click()
    found = page.get_by_role("region", name="What was found")
    found.get_by_text("all_of_them").wait_for()
    assert "9" in found.locator("tbody").inner_text()
    page.get_by_text("What the tables hold").click()
    page.locator("details details summary code").get_by_text("kernel", exact=True).click()
    page.locator("details details[open] dt code").get_by_text("dur_ns", exact=True).wait_for()
    assert seen.faults == []


@pytest.mark.live
@pytest.mark.skipif(not Path("/usr/bin/chromium").exists(), reason="no chromium at /usr/bin/chromium")
def test_a_table_and_the_report_are_saved_from_the_page(served: Any, visit: Any) -> None:
    seen = visit(served)
    with seen.page.expect_download() as begun:
        seen.page.get_by_role("link", name="report as JSON").click()
    assert json.loads(Path(begun.value.path()).read_text())["verdict"]
    seen.page.get_by_role("button", name="中文").click()
    with seen.page.expect_download() as begun:
        seen.page.locator("a[href='/api/download/report.html?lang=zh']").click()
    assert '<html lang="zh-CN">' in Path(begun.value.path()).read_text()
    seen.page.get_by_role("button", name="English").click()
    page = seen.open("operators")
    with page.expect_download() as begun:
        page.get_by_label("Save all rows of Kernels by type as CSV").click()
    assert Path(begun.value.path()).read_text().startswith("type,component,unit")
