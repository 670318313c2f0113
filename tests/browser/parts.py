"""What tests of pages need: a browser, its driver, the rules of axe-core, fonts. As a program it gets what is missing.

`make test-servers` runs it. Chromium and the fonts come from the packages of Debian, axe-core from npm.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path

CHROMIUM = Path("/usr/bin/chromium")
FONTS = Path("/usr/share/fonts/truetype/dejavu")
AXE = Path(sys.prefix) / "share" / "headrace-tests" / "axe.min.js"
_AXE_VERSION = "4.14.1"
_AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
_DEBIAN = ("chromium", "fonts-dejavu-core")
_MODULES = ("playwright", "PIL")


def missing_parts() -> list[str]:
    """Which of the parts are not installed, by name."""
    missing = [name for name in _MODULES if find_spec(name) is None]
    missing += [path.name for path in (CHROMIUM, FONTS / "DejaVuSans.ttf") if not path.exists()]
    return missing if _is_axe_there() else [*missing, "axe-core"]


def _is_axe_there() -> bool:
    return AXE.exists() and _digest(AXE.read_bytes()) == _AXE_SHA256


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _get_axe() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", f"axe-core@{_AXE_VERSION}"], cwd=folder, check=True, stdout=sys.stderr
        )
        with tarfile.open(Path(folder) / f"axe-core-{_AXE_VERSION}.tgz") as package:
            member = package.extractfile(f"package/{AXE.name}")
            content = member.read() if member else b""
    if _digest(content) != _AXE_SHA256:
        sys.exit(f"axe-core {_AXE_VERSION} is not the file that is locked in {__file__}")
    AXE.parent.mkdir(parents=True, exist_ok=True)
    AXE.write_bytes(content)


def main() -> None:
    """Install what is missing; what needs root without being root is named with its command."""
    if not _is_axe_there():
        _get_axe()
    if not CHROMIUM.exists() or not FONTS.exists():
        command = ["apt-get", "install", "--yes", "--no-install-recommends", *_DEBIAN]
        if os.geteuid() != 0:
            sys.exit(f"Chromium and its fonts are missing: sudo {' '.join(command)}")
        subprocess.run(["apt-get", "update", "--quiet"], check=True)
        subprocess.run(command, check=True)
    if missing := missing_parts():
        sys.exit(f"still missing: {', '.join(missing)}")


if __name__ == "__main__":
    main()
