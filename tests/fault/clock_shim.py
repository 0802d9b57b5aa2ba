"""A wall clock that can be moved while a process runs: a preloaded library reads an offset from a file.

Not libfaketime: under it Python's timed waits hang.
"""

import os
import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock_shim.c")


def compiler() -> str | None:
    """The C compiler of this machine; None where there is none, and no clock can be moved."""
    return shutil.which("cc") or shutil.which("gcc")


def built(folder: Path) -> Path | None:
    """The shim, compiled into `folder`; None without a compiler."""
    found = compiler()
    if found is None:
        return None
    shim = folder / "clock_shim.so"
    if not shim.exists():
        subprocess.run(
            [found, "-shared", "-fPIC", "-O2", "-o", str(shim), str(_SOURCE)], check=True, capture_output=True
        )
        shim.chmod(0o755)
    return shim


class MovedClock:
    """The offset of one process and its children."""

    def __init__(self, shim: Path, file: Path) -> None:
        self.shim = shim
        self.file = file
        self.file.write_bytes(struct.pack("=q", 0))
        self.file.chmod(0o644)

    @property
    def environment(self) -> dict[str, str]:
        """What the process is started with."""
        return {"LD_PRELOAD": str(self.shim), "CLOCK_SHIM_OFFSET": str(self.file)}

    @property
    def seconds(self) -> float:
        """How far its wall clock is from the machine's."""
        return float(struct.unpack("=q", self.file.read_bytes())[0] / 1e9)

    def move(self, seconds: float) -> None:
        """From now on its wall clock is so far from the machine's; in place, as others have the file mapped."""
        descriptor = os.open(self.file, os.O_WRONLY)
        try:
            os.pwrite(descriptor, struct.pack("=q", round(seconds * 1e9)), 0)
        finally:
            os.close(descriptor)
