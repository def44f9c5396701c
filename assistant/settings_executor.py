"""``[executor]`` of a sweep file: where runs are executed."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from assistant.applications.schema import DurationS, Strict
from assistant.errors import SettingsError
from assistant.executors import BatchSystem, Certificates, Place

CERTIFICATES = ("authority", "certificate", "key")
"""Keys of ``[executor]`` that name files of TLS."""

OF_SYSTEM = ("system", "partition", "account", "walltime", "options", "host", "folder")
"""Keys of ``[executor]`` that speak of a batch system and its jobs."""

PATHS = (*CERTIFICATES, "folder")
"""Keys of ``[executor]`` that are paths, relative to the sweep file."""


_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_.,@+-]*$"


class ExecutorSettings(Strict):
    """``[executor]``: where runs are executed."""

    kind: Literal["serial", "process_pool", "dask", "slurm"]
    address: str | None = None
    authority: str | None = None
    certificate: str | None = None
    key: str | None = None
    system: Literal["slurm"] | None = None
    partition: str | None = Field(default=None, pattern=_NAME)
    account: str | None = Field(default=None, pattern=_NAME)
    walltime: DurationS | None = None
    options: list[str] = Field(default_factory=list)
    host: str | None = None
    folder: str | None = None

    def build(self) -> Place:
        """Return the place. Raises SettingsError for one that cannot be."""
        told = (self.authority, self.certificate, self.key)
        if any(told) and not all(told):
            raise SettingsError(
                "[executor]: TLS needs all of authority, certificate and key, paths of PEM files"
            )
        certificates = Certificates(*(Path(str(one)) for one in told)) if all(told) else None
        return Place(self.kind, self.address, certificates, self._batch())

    def _batch(self) -> BatchSystem | None:
        """Return what a batch system is told; None if nothing is said and none starts anything."""
        said = [name for name in OF_SYSTEM if getattr(self, name)]
        if self.kind == "dask" and said and self.system is None:
            raise SettingsError(
                f"[executor]: '{said[0]}' speaks of jobs; say who starts them: system = \"slurm\""
            )
        if self.kind != "slurm" and not said:
            return None
        return BatchSystem(
            "slurm", self.partition, self.account, self.walltime, tuple(self.options), self.host,
            None if self.folder is None else Path(self.folder),
        )  # fmt: skip
