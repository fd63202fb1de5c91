"""The exporter's listen address, and its TLS settings for clients on other hosts."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from hermes.base.errors import InputError
from hermes.fleet.exporter import messages

DEFAULT = "127.0.0.1:8656"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address of this host, as a number, and a port; port 0 means any free port."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this host can reach the address."""
        return ip_address(self.host).is_loopback

    @property
    def names(self) -> frozenset[str]:
        """The names by which a client on this host reaches the address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset({host, "localhost", "127.0.0.1", "[::1]"})


def read_address(text: str) -> Address:
    """The address in `HOST:PORT`, where the host is a number such as `10.0.0.5`, `0.0.0.0` or `[::1]`. Raises
    `InputError`."""
    host, _, port = text.rpartition(":")
    host = {"localhost": "127.0.0.1"}.get(host, host.removeprefix("[").removesuffix("]"))
    try:
        made = Address(host=str(ip_address(host)), port=int(port))
    except ValueError as wrong:
        raise InputError(messages.no_address(text=text[:60]), where="--listen", hint=messages.DO_ADDRESS) from wrong
    if not port.isdecimal() or not 0 <= made.port < 65_536:
        raise InputError(messages.no_address(text=text[:60]), where="--listen", hint=messages.DO_ADDRESS)
    return made


class Tls:
    """Certificate and key of this host, and the authority that signs clients' certificates; replaced files are read
    again."""

    def __init__(self, certificate: Path, key: Path, client_authority: Path) -> None:
        """Raises `InputError` for files that cannot be used."""
        self._files = (certificate, key, client_authority)
        self._stamps: tuple[tuple[int, int], ...] = ()
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """The TLS context of the next connection; the previous one while a replaced file cannot be used."""
        try:
            if self._stamp() != self._stamps:
                self._context = self._made()
        except (InputError, OSError):
            pass
        return self._context

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        return tuple((facts.st_mtime_ns, facts.st_ino) for facts in (file.stat() for file in self._files))

    def _made(self) -> ssl.SSLContext:
        certificate, key, authority = self._files
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        made.verify_mode = ssl.CERT_REQUIRED
        try:
            stamps = self._stamp()
            made.load_cert_chain(certificate, key)
            made.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as wrong:
            where = str(getattr(wrong, "filename", None) or certificate)
            raise InputError(messages.no_certificate(why=type(wrong).__name__), where=where) from wrong
        self._stamps = stamps
        return made


def tls(listens: Address, certificate: Path | None, key: Path | None, client_authority: Path | None) -> Tls | None:
    """The TLS settings. Raises `InputError` if other hosts could connect without TLS, or if files are missing."""
    if certificate is None and key is None and client_authority is None:
        if listens.loopback:
            return None
        raise InputError(messages.needs_tls(host=listens.host), where="--listen", hint=messages.DO_TLS)
    if certificate is None or key is None or client_authority is None:
        raise InputError(messages.TLS_IN_PART, where="--tls-cert", hint=messages.DO_TLS)
    return Tls(certificate, key, client_authority)
