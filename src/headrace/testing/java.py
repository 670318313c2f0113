"""JVM options for tests, which do little work."""

from __future__ import annotations

# Tests plan much and compute little, so Java's second compiler costs more than it saves. On 31 tests of updates the
# session took 177 s of CPU without it, 229 s with it. The first compiler alone reserves 48 MB for code, which may be
# too little.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A process that runs hundreds of updates is faster with both: 65 updates of three flows took 218 s of CPU with the
# first compiler alone and 219 s with both, and each one after the first five 3.15 s against 2.81 s.
BOTH_COMPILERS = "-XX:TieredStopAtLevel=4 -XX:MetaspaceSize=512m"
