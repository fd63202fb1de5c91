"""`hermes serve`: starts the web app on this machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.errors import HermesError
from hermes.cli import shared_options
from hermes.cli.print_output import show_line, show_lines

if TYPE_CHECKING:
    from hermes.model.report import Report
    from hermes.profiles.api import Loaded


@click.command("serve")
@click.argument("paths", nargs=-1, metavar="[PATH]…", type=shared_options.LocalPath(),
                help="Folders or files with profiles: one rank or many; by default the working directory.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65_535), help="Port on loopback; by default 8655, or any free port.")
@click.option("--against", multiple=True, metavar="PATH", type=shared_options.LocalPath(),
              help="An earlier run, for the page Compare; may be given several times.")  # fmt: skip
@click.option("--source", metavar="TREE", type=click.Path(path_type=Path, exists=True),
              help="A program's source tree, for the page Migration.")  # fmt: skip
@click.option("--precision", nargs=2, metavar="GOLDEN TARGET", type=click.Path(path_type=Path, exists=True),
              help="Two recordings to compare, for the page Precision.")  # fmt: skip
@shared_options.capture
@click.option("--open", "opens", is_flag=True, help="Open the link in the browser of this machine.")
def run(
    paths: tuple[Path, ...], port: int | None, against: tuple[Path, ...], source: Path | None,
    precision: tuple[Path, Path] | None, capture: str, *, opens: bool,
) -> None:  # fmt: skip
    """Show the analysis, the tables and the timeline in a browser on this machine."""
    serve(paths or (Path(),), port=port, against=against, source=source, precision=precision, capture=capture,
          opens=opens)  # fmt: skip


def serve(
    paths: Sequence[Path],
    *,
    port: int | None = None,
    against: Sequence[Path] = (),
    source: Path | None = None,
    precision: tuple[Path, Path] | None = None,
    capture: str = "",
    opens: bool = False,
    known: tuple[Loaded, Report] | None = None,
) -> None:
    """Serve until interrupted; `against` are runs to compare with, `source` is a tree to move to Ascend, `precision`
    are two recordings of `hermes precision record`.

    `known` are tables and an analysis that exist already.
    """
    from hermes.cli.print_output import open_cache

    for needed in ("fastapi", "starlette", "uvicorn"):
        if find_spec(needed) is None:
            raise HermesError(
                f"the web app is not installed ({needed} is missing)", hint="pip install 'hermes-perf[web,timeline]'"
            )
    from hermes.store.input_files import walk
    from hermes.web.access_guard import SessionKeys
    from hermes.web.analysis_session import AnalysisSession
    from hermes.web.browser import opened_in_browser
    from hermes.web.page_server import build
    from hermes.web.server import bound, server

    walk(paths)
    walk(against)
    with contextlib.closing(bound(port)) as listening, contextlib.ExitStack() as opened:
        at = listening.getsockname()[1]
        study = AnalysisSession(paths, open_cache(), capture=capture, known=known)
        others = [AnalysisSession([path], open_cache(), capture=capture) for path in against]

        def announce(token: str) -> None:
            # A link works once, so each use makes the next link; the page that led to a used link is removed.
            opened.close()
            show_line(f"another browser: {_link(at, token)}")

        keys = SessionKeys(announce)
        app = build(study, keys=keys, port=lambda: at, against=others, source=source, precision=precision)
        study.start()
        show_lines(f"open {_link(at, keys.token)}\nEnds with Ctrl-C. Each link works once.")
        if opens:
            opened.enter_context(opened_in_browser(_link(at, keys.token), _no_browser))
        server(app).run(sockets=[listening])


def _no_browser() -> None:
    show_line("no browser could be started here: open the link yourself", to=sys.stderr)


def _link(port: int, token: str) -> str:
    return f"http://127.0.0.1:{port}/?token={token}"
