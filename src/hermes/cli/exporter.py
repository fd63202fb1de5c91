"""`hermes exporter`: serves metrics of this host's jobs, network and devices, for Prometheus and OpenTelemetry."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hermes.base.end_on_signal import clear_at_end
from hermes.cli import shared_options
from hermes.cli.print_output import few_arenas, show_data, show_line

if TYPE_CHECKING:
    from hermes.base.message import Text
    from hermes.fleet.api import Exporter


@click.command("exporter")
@click.option("--listen", default="127.0.0.1:8656", metavar="ADDRESS",
              help="Listen address HOST:PORT, with a numeric host. Other hosts can connect only with TLS.")  # fmt: skip
@click.option("--tls-cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate of this host (PEM).")
@click.option("--tls-key", type=click.Path(path_type=Path, dir_okay=False), help="Key of the certificate (PEM).")
@click.option("--tls-client-ca", type=click.Path(path_type=Path, dir_okay=False),
              help="Authority that signs the clients' certificates (PEM).")  # fmt: skip
@click.option("--user", "users", multiple=True, metavar="NAME",
              help="Also show jobs of this user, as root's policy allows; may be given several times.")  # fmt: skip
@click.option("--once", is_flag=True, help="Print the metrics once, and end.")
@click.option("--no-devices", is_flag=True, help="Do not run the tools of device vendors.")
@click.option(
    "--commands", is_flag=True, help="Export the command lines of jobs, too; they may hold paths and secrets."
)
@click.option("--peak-tflops", type=float, help="Peak of one device in TFLOP/s, for MFU.")
@click.option("--otlp", default="", metavar="URL",
              help="Also push to this collector: http(s)://HOST:4318 or grpc(s)://HOST:4317.")  # fmt: skip
@click.option("--otlp-plain", is_flag=True, help="Allow unencrypted addresses of other hosts for --otlp.")
@shared_options.lang
def run(
    listen: str, tls_cert: Path | None, tls_key: Path | None, tls_client_ca: Path | None, users: tuple[str, ...],
    peak_tflops: float | None, otlp: str, lang: str | None, *, once: bool, no_devices: bool, commands: bool,
    otlp_plain: bool,
) -> None:  # fmt: skip
    """Serve the metrics of this host at /metrics: its jobs, the host itself and its devices.

    The exporter reads jobs of this account, captures nothing and changes nothing. By default only this host can
    connect. The command ends with an interrupt.
    """
    from hermes.fleet.api import Exporter

    few_arenas()
    # A library for linear algebra would start threads, which have no work here.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    language = shared_options.language(lang)
    exporter = Exporter(
        os.environ, root=Path("/"), users=users, peak_flops=peak_tflops * 1e12 if peak_tflops else None,
        commands=commands, say=_nothing,
    )  # fmt: skip
    with ExitStack() as closing:
        closing.enter_context(clear_at_end(exporter.close))
        if once:
            _print(exporter, devices=not no_devices)
        else:
            _listen(exporter, closing, listen, (tls_cert, tls_key, tls_client_ca), language)
            if otlp:
                _push(exporter, closing, otlp, plain=otlp_plain)
            _look(exporter, devices=not no_devices)


def _print(exporter: Exporter, *, devices: bool) -> None:
    from hermes.model.metric import openmetrics

    exporter.look()
    if devices:
        exporter.look_at_devices()
    show_data(openmetrics(exporter.measured()), end="")


def _listen(
    exporter: Exporter, closing: ExitStack, listen: str, files: tuple[Path | None, Path | None, Path | None],
    language: str,
) -> None:  # fmt: skip
    from hermes.base.say import say
    from hermes.fleet.api import Server, address, messages, served

    where = address.read_address(listen)
    server = Server(where, exporter, address.tls(where, *files))
    closing.enter_context(clear_at_end(server.socket.close))
    served(server)
    scheme = "https" if server.encrypted else "http"
    host = f"[{where.host}]" if ":" in where.host else where.host
    show_line(say(messages.listening(address=f"{scheme}://{host}:{server.port}/metrics"), language))


def _push(exporter: Exporter, closing: ExitStack, otlp: str, *, plain: bool) -> None:
    from hermes.fleet.api import Push
    from hermes.jobs.api import metrics

    push = Push(exporter, otlp, plain=plain, period_s=metrics.PERIOD_S)
    closing.enter_context(clear_at_end(push.close))


def _look(exporter: Exporter, *, devices: bool) -> None:
    from hermes.fleet.api import DEVICES_S, LOOK_S

    if devices:
        # A tool that hangs must not delay a look at jobs.
        threading.Thread(target=_look_at_devices, args=(exporter, DEVICES_S), daemon=True).start()
    while True:
        exporter.look()
        time.sleep(LOOK_S)


def _look_at_devices(exporter: Exporter, period_s: float) -> None:
    while True:
        exporter.look_at_devices()
        time.sleep(period_s)


def _nothing(_text: Text) -> None:
    """Print nothing: an alarm is a counter in the metrics, and the job's watcher says why."""
