"""A few bytes that all processes of a soak share: what goes on, and what is wanted."""

import mmap
import struct

PHASES = {
    b"\0": "starting",
    b"?": "not told",
    b"i": "idle",
    b"c": "claiming",
    b"r": "running",
    b"t": "telling",
}
SLOTS = 64


class Board:
    """Made before the processes are forked."""

    def __init__(self) -> None:
        self._bytes = mmap.mmap(-1, 64 + SLOTS)

    @property
    def faulty(self) -> bool:
        """Whether the wire shall lose, repeat and delay."""
        return self._bytes[0] == 1

    @faulty.setter
    def faulty(self, wanted: bool) -> None:
        self._bytes[0] = int(wanted)

    @property
    def ended(self) -> bool:
        """Whether the human shall end."""
        return self._bytes[1] == 1

    @ended.setter
    def ended(self, wanted: bool) -> None:
        self._bytes[1] = int(wanted)

    @property
    def jump_s(self) -> float:
        """How far the time of day of the service is off."""
        return float(struct.unpack_from("<d", self._bytes, 8)[0])

    @jump_s.setter
    def jump_s(self, seconds: float) -> None:
        struct.pack_into("<d", self._bytes, 8, seconds)

    def phase(self, slot: int) -> str:
        """What a worker is doing."""
        return PHASES[self._bytes[64 + slot : 65 + slot]]

    def enter(self, slot: int, phase: bytes) -> None:
        """Say what a worker is doing."""
        self._bytes[64 + slot : 65 + slot] = phase
