"""Builds the package's own jar from src/java, the same bytes each time, and writes its digest into the lock.

`--check` writes nothing and fails if the jar is not the one that the sources give.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from headrace.connectors.fetch import STORAGE_JAR, jars

SOURCES = Path(__file__).resolve().parent.parent / "src" / "java"
LOCK = STORAGE_JAR.with_name("jars.lock.toml")
# The class files differ from one release of the compiler to the next.
JAVA = 17
NO_COMPILER = 3
# The jars of Spark that the sources are compiled with.
_NEEDED = (
    "hadoop-client-api-*.jar",
    "spark-core_*.jar",
    "scala-library-*.jar",
    "spark-common-utils_*.jar",
    "jackson-annotations-*.jar",
)
_TIME = (1980, 1, 1, 0, 0, 0)


def compiler_release() -> int | None:
    """The release of the Java compiler on PATH, or None."""
    compiler = shutil.which("javac")
    if compiler is None:
        return None
    shown = subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"javac (\d+)", shown)
    return int(found.group(1)) if found else None


def build() -> bytes:
    """The jar's bytes, which depend only on the sources, the locked jars and the compiler's release."""
    of_spark = Path(pyspark.__file__).with_name("jars")
    needed = (file for pattern in _NEEDED for file in sorted(of_spark.glob(pattern)))
    class_path = os.pathsep.join(map(str, (*jars(environ=os.environ), *needed)))
    sources = sorted(SOURCES.rglob("*.java"))
    with tempfile.TemporaryDirectory() as name:
        classes, file = Path(name, "classes"), Path(name, "jar")
        options = ("--release", str(JAVA), "-proc:none", "-implicit:none", "-g:source,lines", "-d", str(classes))
        command = shutil.which("javac") or "javac"
        subprocess.run([command, *options, "-cp", class_path, *map(str, sources)], check=True)
        # Not compressed: the result would depend on the version of zlib.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as jar:
            jar.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _TIME), "Manifest-Version: 1.0\r\n\r\n")
            for path in sorted(classes.rglob("*.class")):
                jar.writestr(zipfile.ZipInfo(path.relative_to(classes).as_posix(), _TIME), path.read_bytes())
        return file.read_bytes()


def _locked(text: str, content: bytes) -> str:
    """The text of the lock with the digest and size of *content*."""
    digest = hashlib.sha256(content).hexdigest()
    entry = f'[headrace-storage]\nsha256 = "{digest}"\nsize = {len(content)}\n'
    return re.sub(r'\[headrace-storage\]\nsha256 = "\w*"\nsize = \d+\n', entry, text)


if __name__ == "__main__":
    if compiler_release() != JAVA:
        print(f"javac {JAVA} is needed (Debian and Ubuntu: apt install openjdk-{JAVA}-jdk-headless)", file=sys.stderr)
        sys.exit(NO_COMPILER)
    built = build()
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if built == STORAGE_JAR.read_bytes() else f"{STORAGE_JAR} is not what src/java gives: make jar")
    STORAGE_JAR.write_bytes(built)
    LOCK.write_text(_locked(LOCK.read_text(encoding="utf-8"), built), encoding="utf-8")
    print(f"{STORAGE_JAR.name}: {len(built)} bytes")
