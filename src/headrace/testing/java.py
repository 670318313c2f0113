"""JVM options for tests, which do little work."""

from __future__ import annotations

# Tests plan much and compute little, so Java's second compiler costs more than it saves. On 31 tests of updates the
# session took 177 s of CPU without it, 229 s with it. The first compiler alone reserves 48 MB for code, which may be
# too little.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A process that runs hundreds of updates is faster with both, if the second one compiles only the hottest code, and if
# the heap has its full size from the start. On 76 tests of updates, the session took 397 s of CPU with these options,
# 399 s with the first compiler alone, and 459 s with the second compiler's own thresholds.
BOTH_COMPILERS = (
    "-XX:TieredStopAtLevel=4 -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    " -Xms3g -XX:+UseTransparentHugePages -XX:MetaspaceSize=512m"
)

# Delta keeps what it knows of each table for an hour. After 70 minutes of tests, a session had 218 tables in a heap of
# 3 GB that was full, and had spent 6 minutes in 94 full collections.
FEW_TABLES = "-Ddelta.log.cacheSize=50"
