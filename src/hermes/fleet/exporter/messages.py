"""What the exporter says."""

from __future__ import annotations

from hermes.base.message import Name, message, sentence

DO_ADDRESS = sentence("fleet.do_address")
"""How an address is written."""

DO_TLS = sentence("fleet.do_tls")
"""What an address beyond this host needs."""

TLS_IN_PART = sentence("fleet.tls_in_part")
"""Some of the three files for encryption are missing."""

DO_OTHER_PORT = sentence("fleet.do_other_port")
"""What to do where a port is taken."""

DO_INSTALL_OTLP = sentence("fleet.do_install_otlp")
"""How OpenTelemetry's libraries are installed."""

OTLP_IN_THE_CLEAR = sentence("fleet.otlp_in_the_clear")
"""Metrics would leave this host unencrypted."""

DO_ENCRYPT_OTLP = sentence("fleet.do_encrypt_otlp")
"""How metrics leave this host encrypted."""


@message("fleet.no_address")
def no_address(*, text: Name) -> None:
    """An address to listen at that is none."""


@message("fleet.needs_tls")
def needs_tls(*, host: Name) -> None:
    """Other hosts reach the address, and nothing would tell who asks."""


@message("fleet.no_certificate")
def no_certificate(*, why: Name) -> None:
    """A file of a certificate, a key or an authority that cannot be used."""


@message("fleet.not_listening")
def not_listening(*, why: Name) -> None:
    """The system refuses the address."""


@message("fleet.listening")
def listening(*, address: Name) -> None:
    """Where the exporter can be asked."""


@message("fleet.no_otlp")
def no_otlp(*, missing: Name) -> None:
    """OpenTelemetry's libraries are not installed."""


@message("fleet.otlp_address")
def otlp_address(*, text: Name) -> None:
    """An address to push to that is none."""
