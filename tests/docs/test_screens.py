"""The screens of the terminal in docs/start.md are what `hermes analyze` prints, at 80 columns.

`make goldens` writes the screens anew. Read their diff before you commit it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.goldens.test_goldens import JOBS
from tests.report.test_first_screen import drawn
from tests.shared_jobs import Jobs

from hermes_testing import Format, Job

HEALTHY: tuple[Job, Format] = (Job(ranks=4, steps=4), "ascend-text")
"""A job without a planted fault, as `python -m hermes_testing out/job --ranks 4` writes it."""
_SCREEN = re.compile(
    r"^```console\n\$ (?P<command>hermes analyze (?P<path>\S+)(?P<zh> --lang zh)?)\n(?P<screen>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CAPTURES = "profiles/"
"""The folder that stands in the page for the captures of `../shared/data`."""
_MODELLED = {"out/demo/job": JOBS["demo"], "out/job": HEALTHY}
_WRITTEN = {
    match["command"]: (match["path"], match["zh"] is not None, match["screen"])
    for match in _SCREEN.finditer((Path(__file__).parents[2] / "docs" / "start.md").read_text("utf-8"))
}


def test_six_screens_are_shown_four_captures_a_healthy_job_and_a_chinese_one() -> None:
    paths = [path for path, *_ in _WRITTEN.values()]
    assert sum(path.startswith(_CAPTURES) for path in paths) == 4
    assert "out/job" in paths
    assert [zh for _, zh, _ in _WRITTEN.values()].count(True) == 1
    assert len(paths) == 6


@pytest.mark.parametrize("command", _WRITTEN)
def test_a_screen_is_what_the_command_prints(
    command: str, root: Path, jobs: Jobs, request: pytest.FixtureRequest
) -> None:
    path, chinese, screen = _WRITTEN[command]
    if path.startswith(_CAPTURES):
        report = jobs.real_report(path.removeprefix(_CAPTURES))
    else:
        report = jobs.report(*_MODELLED[path])
    lines = drawn(report, 80, "zh" if chinese else "en", paths=[path])
    made = "".join(f"{line.rstrip()}\n" for line in lines)
    if request.config.getoption("update_golden"):
        page = root / "docs" / "start.md"
        page.write_text(
            page.read_text("utf-8").replace(f"$ {command}\n{screen}```", f"$ {command}\n{made}```"), "utf-8"
        )
        return
    assert made == screen
