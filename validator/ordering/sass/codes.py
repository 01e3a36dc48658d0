"""Opcode numbers: the low 12 bits of an instruction, measured with nvdisasm 13.5 on sm_90a, 100a, 103a and 120a.

Read off compiled libraries and the test kernels; one name may have several numbers (register, immediate, constant and
uniform forms). Where two architectures give a number to two opcodes that act alike here, one name stands for both. The
tests compare the table with nvdisasm, and so does every run for what it disassembles.
"""

from __future__ import annotations

from enum import IntEnum, unique
from functools import cache

import numpy as np

from validator.ordering.sass.opcodes import CONTROL, HARMLESS

__all__ = ["CLASSES", "Class", "class_of"]


@unique
class Class(IntEnum):
    """What a scan has to know about an opcode."""

    UNKNOWN = 0
    HARMLESS = 1
    """Arithmetic, moves, constants: no memory, no order, falls through."""
    CONTROL = 2
    """May go elsewhere than to the next instruction, or end."""
    GLOBAL = 3
    """May touch global memory, prefetches and generic accesses included."""
    SHARED = 4
    """Shared or local memory, mbarriers."""
    ORDER = 5
    """Barriers, fences, waits for asynchronous operations."""
    WAIT = 6
    TRIGGER = 7


_GLOBAL_NAMES = """
LDG LDGMC LD STG STGMC ST ATOM ATOMG RED REDG REDGMC LDGSTS CCTL UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG UTMAREDG UTMAPF
UTMACCTL STAS REDAS TEX TLD TLD4 TXD TXQ TMML SULD SUST SUATOM SURED
"""
_GLOBAL = frozenset(_GLOBAL_NAMES.split())
_SHARED = frozenset(("LDS", "LDSM", "STS", "STSM", "ATOMS", "LDL", "STL", "SYNCS", "ARRIVES"))

_TABLE = """
    ACQBULK 82e; ARRIVES 9b0; ATOM 38b 98a 9a2; ATOMG 3a8 3a9 9a3 9a8; ATOMS 38c 38d 58d 98c f8c; B2R 31c; BAR b1d;
    BPT 95c; BRA 547 947; BREAK 942; BREV 301; BRX 949; BRXU 958; BSSY 945; BSYNC 941; CALL 343 344 944; CCTL 540
    98f; CGAERRBAR 5ab; CREDUX 2cc; CS2R 805; DADD 229 e29; DEPBAR 91a; DFMA 22b 42b 82b; DMUL 228 828 c28; DSETP
    22a e2a; ELECT 82f; ENDCOLLECTIVE 91b; ERRBAR 9ab; EXIT 94d; F2F 304 310 d10; F2FP 23e c3e; F2I 305 311; FADD
    221 421 e21; FADD2 24b; FCHK 302; FENCE 3c6; FFMA 223 423 823 c23 e23; FLO 300 d00; FMNMX 209 809 c09; FMNMX3
    276 876; FMUL 220 820 c20; FRND 307; FSEL 208 808 c08; FSETP 20b 80b c0b; HADD2 230 430 e30; HFMA2 231 431 435
    831; HMMA 23c; HMNMX2 240; HMUL2 232 832 c32; HSETP2 234 434 e34; I2F 306 312 906 d06 d12; I2FP 245 c45; IABS
    213 c13; IADD 235 835 c35; IADD3 210 810 c10; IDP 226 c26; IGMMA 9f1; IMAD 224 225 227 424 824 825 827 c24 c25
    c27 e24 e25; IMMA 237; IMNMX 217 817 c17; ISETP 20c 80c c0c; LD 980; LDC b82; LDCU 7ac; LDG 97e 981; LDGDEPBAR
    9af; LDGSTS fae; LDL 983; LDS 984; LDSM 83b; LDTM 9ee; LEA 211 811 c11; LEPC 94e; LOP3 212 812 c12; MATCH 3a1;
    MEMBAR 992; MOV 202 402 802 c02; MUFU 308 908 d08; NANOSLEEP 35d 95d; NOP 918; OMMA 47f; P2R 803; PLOP3 81c;
    POPC 309 d09; PREEXIT 82d; PRMT 216 416 816; QGMMA 9f3 df3; QMMA 27a; QSPC 3aa 9aa; R2P 804; R2UR 2ca; REDG 98e;
    REDUX 3c4; RET 950; RPCMOV 352 353; S2R 919; S2UR 9c3; SEL 207 407 607 807 c07 e07; SHF 219 819 c19; SHFL 389
    589 989 f89; ST 985; STAS dbd; STG 986; STL 387 987; STS 388 988; STSM 844; STTM 9ed; SYNCS 5a7 5b2 9a7 9b1;
    UBLKCP 3ba; UBLKPF 3bc; UBLKRED 3bb; UBREV 2be; UCGABAR_ARV 9c7; UCGABAR_WAIT dc7; UF2I 25c; UFADD 254 454;
    UFFMA 455; UFLO 2bd; UFMUL 256 856; UFSEL 251; UFSETP 253 853; UGETNEXTWORKID 3ca; UI2F 25a 85a; UI2FP 25e;
    UIADD3 290 297 890 897; UIMAD 2a4 2a5 2a6 4a4 8a4 8a5; UIMNMX 885; UISETP 28c 88c; ULDC ab9 abb; ULEA 291 891;
    ULOP3 292 892; UMOV 482 882 c82; UP2UR 883; UPLOP3 89c; UPOPC 2bf; UPRMT 896; UR2UP 884; USEL 287 487 887 c87;
    USETMAXREG 9c8; USHF 299 899; UTCATOMSWS 5e3 9e3; UTCBAR 3e9; UTCCP 9e7; UTCHMMA 5ea; UTCQMMA dea; UTMACCTL 9b9;
    UTMACMDFLUSH 9b7; UTMALDG 3b4 5b4; UTMAPF 5b8; UTMAREDG 3b6; UTMASTG 3b5; UVIMNMX 24a 84a; UVIRTCOUNT 84c;
    VHMNMX 247; VIADD 836 c36; VIADDMNMX 246 446 846 c46 e46; VIMNMX 248 848 c48; VIMNMX3 20f; VOTE 806; VOTEU 886;
    WARPGROUP 9c5; WARPSYNC 348 948; YIELD 946
"""


@cache
def class_of(base: str) -> Class:
    """Class of an opcode by its name without modifiers."""
    if base == "ACQBULK":
        return Class.WAIT
    if base == "PREEXIT":
        return Class.TRIGGER
    if base in CONTROL:
        return Class.CONTROL
    if base in _GLOBAL:
        return Class.GLOBAL
    if base in _SHARED:
        return Class.SHARED
    return Class.HARMLESS if base in HARMLESS else Class.ORDER


def _classes() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    table = np.zeros(4096, dtype=np.uint8)
    for entry in _TABLE.replace("\n", " ").split(";"):
        name, *numbers = entry.split()
        for number in numbers:
            table[int(number, 16)] = class_of(name)
    table.flags.writeable = False
    return table


CLASSES = _classes()
"""Opcode number → `Class`, shape (4096,)."""
