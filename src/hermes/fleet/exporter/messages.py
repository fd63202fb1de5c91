"""Messages of the metrics exporter."""

from __future__ import annotations

from hermes.base.message import Name, message, sentence

DO_ADDRESS = sentence("fleet.do_address")
"""Advice on how to write a listen address."""

DO_TLS = sentence("fleet.do_tls")
"""Advice for an address that other hosts can reach: give the TLS files."""

TLS_IN_PART = sentence("fleet.tls_in_part")
"""Error: some of the three files for encryption are missing."""

DO_OTHER_PORT = sentence("fleet.do_other_port")
"""Advice for a port that is in use: listen on another port."""

DO_INSTALL_OTLP = sentence("fleet.do_install_otlp")
"""Advice on how to install OpenTelemetry's libraries."""

OTLP_IN_THE_CLEAR = sentence("fleet.otlp_in_the_clear")
"""Error: metrics would leave this host unencrypted."""

DO_ENCRYPT_OTLP = sentence("fleet.do_encrypt_otlp")
"""Advice on how to send metrics encrypted."""


@message("fleet.no_address")
def no_address(*, text: Name) -> None:
    """Error: a listen address is not valid."""


@message("fleet.needs_tls")
def needs_tls(*, host: Name) -> None:
    """Error: other hosts can reach the address, and no TLS certificate would identify them."""


@message("fleet.no_certificate")
def no_certificate(*, why: Name) -> None:
    """Error: a file of a certificate, a key or an authority cannot be used."""


@message("fleet.not_listening")
def not_listening(*, why: Name) -> None:
    """Error: the system refuses the listen address."""


@message("fleet.listening")
def listening(*, address: Name) -> None:
    """Says at which address the exporter serves metrics."""


@message("fleet.no_otlp")
def no_otlp(*, missing: Name) -> None:
    """Error: OpenTelemetry's libraries are not installed."""


@message("fleet.otlp_address")
def otlp_address(*, text: Name) -> None:
    """Error: an address for OpenTelemetry is not valid."""
