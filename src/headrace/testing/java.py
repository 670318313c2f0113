"""What a Java that does little work is started with."""

from __future__ import annotations

# Tests plan much and compute little: what Java's second compiler makes of it costs more than it saves. On 31 tests of
# updates the session took 177 s of CPU without it, 229 s with it. The first one alone sets aside 48 MB for code, which
# may not do.
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A process that runs hundreds of updates is better off with both: 65 updates of three flows took 218 s of CPU with the
# first alone and 219 s with both, and each one after the first five 3.15 s against 2.81 s.
BOTH_COMPILERS = "-XX:TieredStopAtLevel=4 -XX:MetaspaceSize=512m"
# The default collector works beside the program, on cores that a machine with few does not have to spare: 48 tests of
# updates on two workers and two cores took 161 s and 176 s with it, 156 s with the parallel one, 149 s with this one.
ONE_THREAD_COLLECTOR = "-XX:+UseSerialGC"
