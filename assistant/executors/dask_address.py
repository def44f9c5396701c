"""Where a scheduler of Dask is, and with whom it may be talked to."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from assistant.errors import SettingsError


@dataclass(frozen=True)
class Certificates:
    """PEM files of TLS: of the authority, of this client, and of its key."""

    authority: Path
    certificate: Path
    key: Path


def check_address(address: str | None, certificates: Certificates | None) -> None:
    """Refuse an address that cannot be, and one whose connection anybody could read or enter.

    Raises:
        SettingsError: it is no address, or neither on this machine nor encrypted.
    """
    if _is_missing("distributed"):
        raise SettingsError("Dask is not installed; pip install 'copperline[dask]' installs it")
    if address is None:
        if certificates is not None:
            raise SettingsError(
                "certificates go with the address of a scheduler; a cluster of our own is on "
                "loopback and needs none"
            )
        return
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or port is None:
        raise SettingsError(
            f"the Dask address '{address}' is not of the form tls://HOST:PORT (or tcp://HOST:PORT "
            "on this machine)"
        )
    if parts.scheme == "tls" and certificates is None:
        raise SettingsError(
            f"the Dask address '{address}' needs certificates: authority, certificate and key"
        )
    if parts.scheme == "tcp" and not is_loopback(parts.hostname):
        raise SettingsError(
            f"the Dask address '{address}' is not on this machine, and tcp is not encrypted: "
            "whoever reaches a Dask scheduler can run programs there. Use tls://, with certificates"
        )
    _check_files(certificates)


def check_own_workers(address: str | None, certificates: Certificates | None) -> None:
    """Refuse what cannot be for workers that a batch system starts.

    Raises:
        SettingsError: dask-jobqueue is not installed, or there is a scheduler elsewhere already.
    """
    if _is_missing("distributed") or _is_missing("dask_jobqueue"):
        raise SettingsError(
            "dask-jobqueue is not installed; pip install 'copperline[slurm]' installs it"
        )
    if address is not None:
        raise SettingsError(
            f"the Dask scheduler at {address} has workers of its own; say either its address or "
            "the system that starts workers"
        )
    _check_files(certificates)


def _check_files(certificates: Certificates | None) -> None:
    if certificates is not None:
        for name in ("authority", "certificate", "key"):
            path = getattr(certificates, name)
            if not path.is_file():
                raise SettingsError(f"the file '{path}' ({name} of TLS) is not there")


def _is_missing(package: str) -> bool:
    """Tell whether a package is missing here."""
    from importlib.util import find_spec

    return find_spec(package) is None


def is_loopback(host: str) -> bool:
    """Tell whether an address is of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
