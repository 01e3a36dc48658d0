"""Compiled PTX run on a CPU, on all threads of all CTAs at once, with a memory that plays against it.

`program` decodes a kernel of the PTX reader, `machine` runs it, `memory` and `happens_before` are what its loads and
stores meet, `adversary` says what the machine may do at its worst, `hazard` what was seen, `explain` how to tell it.
The values that instructions compute are `isa`'s.
"""
