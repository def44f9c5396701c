"""Certificates for one cluster of our own: who has its key is let in, and nobody else."""

import os
import subprocess
from pathlib import Path

from assistant.errors import SettingsError
from assistant.executors.dask_address import Certificates

DAYS = 365
"""How long they are good for."""

WITHIN_S = 30.0


def make_certificates(folder: Path) -> Certificates:
    """Write a key and a certificate that vouches for itself, by the program `openssl`.

    Args:
        folder: in which nobody but its owner may look.

    Raises:
        SettingsError: there is no such program, or it fails.
    """
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    os.close(os.open(key, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    command = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
        "-nodes", "-days", str(DAYS), "-subj", "/CN=copperline", "-keyout", str(key),
        "-out", str(certificate),
    ]  # fmt: skip
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(
            f"no certificates can be made for the workers' TLS ({error}); install openssl, or name "
            "authority, certificate and key in [executor]"
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SettingsError(f"openssl made no certificate for the workers' TLS: {last}")
    return Certificates(certificate, certificate, key)
