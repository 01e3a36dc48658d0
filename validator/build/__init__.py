"""Kernels compiled here from the head's sources, without a GPU: read by the audits, and held against what ships.

A compiler (`toolchains`) turns one source for one architecture into PTX and machine code, in a sandbox (`confined`).
`cells` makes that a cell, twice in different folders, so that a build that is not reproducible shows; `stage` says what
came of it. A build that fails or takes too long is an outcome like any other.
"""
