"""``[executor]`` of a sweep file: where runs are executed."""

from pathlib import Path
from typing import Literal

from assistant.applications.schema import Strict
from assistant.errors import SettingsError
from assistant.executors import Certificates, Place

CERTIFICATES = ("authority", "certificate", "key")
"""Keys of ``[executor]`` that name files."""


class ExecutorSettings(Strict):
    """``[executor]``: where runs are executed."""

    kind: Literal["serial", "process_pool", "dask"]
    address: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None

    def build(self) -> Place:
        """Return the place. Raises SettingsError for one that cannot be."""
        told = (self.authority, self.certificate, self.key)
        if any(told) and not all(told):
            raise SettingsError(
                "[executor]: TLS needs all of authority, certificate and key, paths of PEM files"
            )
        certificates = Certificates(*(Path(str(one)) for one in told)) if all(told) else None
        return Place(self.kind, self.address, certificates)
