"""Confinement of a worker, from inside it, before anything untrusted is imported. Linux, unprivileged, ctypes only.

Each function returns what it achieved as a value ("yes", or "no: why"); nothing is assumed. Loaded by path in the
worker, so it imports the standard library alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct

__all__ = ["confine", "confine_programs"]

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_CAPBSET_DROP, LAST_CAPABILITY = 24, 63
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 2, 4, 0x4000, 0x40000
DISK = "size=67108864,nr_inodes=4096,mode=700"
"""All that a worker may write to files, where it gets a file system of its own."""
SECCOMP_KILL, SECCOMP_ERRNO, SECCOMP_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
AF_UNIX = 1
SYS_LANDLOCK = (444, 445, 446)
"""create_ruleset, add_rule, restrict_self: the same number on every architecture."""

_ARCHES: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (
        0xC000003E,
        {
            "fork": 57, "vfork": 58, "clone": 56, "clone3": 435, "execve": 59, "execveat": 322, "ptrace": 101,
            "process_vm_readv": 310, "process_vm_writev": 311, "kill": 62, "tkill": 200, "tgkill": 234,
            "pidfd_open": 434, "pidfd_send_signal": 424, "socket": 41, "setsid": 112, "setpgid": 109, "mount": 165,
            "bpf": 321, "io_uring_setup": 425, "keyctl": 250, "perf_event_open": 298, "unshare": 272, "setns": 308,
            "connect": 42, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_getfd": 438, "shmget": 29,
            "userfaultfd": 323, "add_key": 248, "request_key": 249, "setpriority": 141, "ioprio_set": 251,
            "fsopen": 430, "open_tree": 428, "move_mount": 429, "mount_setattr": 442, "pivot_root": 155, "chroot": 161,
            "fcntl": 72, "ioctl": 16, "prlimit64": 302, "sched_setaffinity": 203, "sched_setscheduler": 144,
            "sched_setparam": 142, "sched_setattr": 314,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "clone": 220, "clone3": 435, "execve": 221, "execveat": 281, "ptrace": 117, "process_vm_readv": 270,
            "process_vm_writev": 271, "kill": 129, "tkill": 130, "tgkill": 131, "pidfd_open": 434,
            "pidfd_send_signal": 424, "socket": 198, "setsid": 157, "setpgid": 154, "mount": 40, "bpf": 280,
            "io_uring_setup": 425, "keyctl": 219, "perf_event_open": 241, "unshare": 97, "setns": 268, "connect": 203,
            "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "pidfd_getfd": 438, "shmget": 194, "userfaultfd": 282,
            "add_key": 217, "request_key": 218, "setpriority": 140, "ioprio_set": 30, "fsopen": 430, "open_tree": 428,
            "move_mount": 429, "mount_setattr": 442, "pivot_root": 41, "chroot": 51, "fcntl": 25, "ioctl": 29,
            "prlimit64": 261, "sched_setaffinity": 122, "sched_setscheduler": 119, "sched_setparam": 118,
            "sched_setattr": 274,
        },
    ),
}  # fmt: skip
_KILLED = ("fork", "vfork", "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev")
"""No honest kernel model does these; the process ends with SIGSYS, which the gate can name."""
_PEEKS = ("ptrace", "process_vm_readv", "process_vm_writev")
_REFUSED = ("tkill", "pidfd_open", "pidfd_send_signal", "socket", "setsid", "setpgid", "mount", "bpf", "io_uring_setup",
            "keyctl", "perf_event_open", "unshare", "setns", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_getfd",
            "shmget", "userfaultfd", "add_key", "request_key", "setpriority", "ioprio_set", "fsopen", "open_tree",
            "move_mount", "mount_setattr", "pivot_root", "chroot")  # fmt: skip
"""Signals to others by any of their ways, memory that outlives the process or no limit counts, mounts, priorities."""
_OWN = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
"""Take a process as their first argument: 0, or none but this one."""
_OWNERS = (("fcntl", (8, 10, 15)), ("ioctl", (0x8901, 0x8902)))
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP, as second argument: the kernel then signals somebody else."""


def confine(
    limits: dict[str, int], readable: list[str], writable: list[str], device: bool = False, programs: bool = False
) -> dict[str, str]:
    """Everything this machine offers; what is in force, by name. Call once, single-threaded.

    `device`: NVIDIA's driver makes a local socket when it starts (and finds nobody to connect it to). `programs`: it
    may start what is `readable`, and what it starts is confined likewise.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    done = {"limits": _limit(limits), "namespaces": _namespaces(libc)}
    done["disk"] = _disk(libc, writable) if done["namespaces"] == "yes" else "no: needs namespaces"
    _drop_capabilities(libc)
    done["no-new-privileges"] = _ok(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    done["files"] = _landlock(libc, readable, writable)
    done["system-calls"] = _seccomp(libc, device, programs)
    return done


def confine_programs(limits: dict[str, int], readable: list[str], writable: list[str]) -> dict[str, str]:
    """The same for a program that starts others, as compilers do: it may, and they cannot reach the gate either."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    done = {"limits": _limit(limits), "namespaces": _namespaces(libc)}
    _drop_capabilities(libc)
    done["no-new-privileges"] = _ok(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    done["files"] = _landlock(libc, readable, writable)
    return {**done, "system-calls": _seccomp(libc, programs=True)}


def _ok(result: int) -> str:
    return "yes" if result >= 0 else f"no: {errno.errorcode.get(ctypes.get_errno(), 'error')}"


def _limit(limits: dict[str, int]) -> str:
    failed = []
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name.upper()}")
        hard = resource.getrlimit(number)[1]
        try:
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))
        except (ValueError, OSError):
            failed.append(name)
    return f"no: {', '.join(failed)}" if failed else "yes"


def _namespaces(libc: ctypes.CDLL) -> str:
    """No network, no shared IPC: a user namespace of its own. Needs a kernel that lets users make one."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS) < 0:
        return _ok(-1)
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        pass  # an unmapped user owns nothing: stricter, not weaker
    return "yes"


def _disk(libc: ctypes.CDLL, writable: list[str]) -> str:
    """A small file system in memory over the private folder, the first of `writable`: what is written there is bounded
    and ends with the process."""
    if not writable:
        return "yes"
    home = writable[0]
    mount = libc.mount
    mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
    if mount(None, b"/", None, MS_REC | MS_PRIVATE, None) < 0:
        return _ok(-1)
    done = _ok(mount(b"none", os.fsencode(home), b"tmpfs", MS_NOSUID | MS_NODEV, DISK.encode()))
    os.chdir(home)  # the folder as it is now, not what it covers
    return done


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """A user namespace gives its maker every capability in it; nothing needs one from here on."""
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.capset(struct.pack("<II", 0x20080522, 0), bytes(24))


_LL_READ = 1 << 2 | 1 << 3
_LL_EXECUTE = 1 << 0
_LL_OF_A_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # the last: ioctl on a device
_LL_BY_ABI = ((1, 13), (2, 14), (3, 15), (5, 16))
"""Landlock ABI → number of file access rights it knows."""


def _landlock(libc: ctypes.CDLL, readable: list[str], writable: list[str]) -> str:
    """Read only what is listed, write only below `writable`; no TCP; no signals or abstract sockets to the outside."""
    create, add, restrict = SYS_LANDLOCK
    abi = libc.syscall(create, None, ctypes.c_size_t(0), 1)
    if abi < 1:
        return _ok(abi if abi < 0 else -1)
    rights = (1 << max(n for a, n in _LL_BY_ABI if a <= abi)) - 1
    attr = struct.pack("<Q", rights)
    attr += struct.pack("<Q", 3) if abi >= 4 else b""
    attr += struct.pack("<Q", 3) if abi >= 6 else b""
    ruleset = libc.syscall(create, attr, ctypes.c_size_t(len(attr)), 0)
    if ruleset < 0:
        return _ok(ruleset)
    for paths, wanted in ((readable, _LL_READ | _LL_EXECUTE), (writable, rights & ~_LL_EXECUTE)):
        for path in paths:
            if not os.path.exists(path):
                continue
            # Folder-only rights are refused on a file: keep those a file may have.
            granted = wanted if os.path.isdir(path) else wanted & _LL_OF_A_FILE
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            libc.syscall(add, ruleset, 1, struct.pack("<Qi", granted & rights, fd), 0)
            os.close(fd)
    result = libc.syscall(restrict, ruleset, 0)
    os.close(ruleset)
    return "yes" if result == 0 else _ok(-1)


def _seccomp(libc: ctypes.CDLL, local_sockets: bool = False, programs: bool = False) -> str:
    """No new process, no other program, no peeking into other processes, no signals but to itself.

    `local_sockets`: a local socket may be made; it cannot be connected. `programs`: processes may be started, with the
    same filter; they may signal one another, and not the process that started this one.
    """
    machine = platform.machine() if struct.calcsize("P") == 8 else ""
    if machine not in _ARCHES:
        return f"no: not supported on {machine or '32 bit'}"
    arch, numbers = _ARCHES[machine]
    load, equal, at_least, all_bits, back = 0x20, 0x15, 0x35, 0x45, 0x06
    eperm, enosys = SECCOMP_ERRNO | errno.EPERM, SECCOMP_ERRNO | errno.ENOSYS
    code = [(load, 0, 0, 4), (equal, 1, 0, arch), (back, 0, 0, SECCOMP_KILL), (load, 0, 0, 0)]
    if machine == "x86_64":  # the x32 table has other numbers for the same calls
        code += [(at_least, 0, 1, 0x40000000), (back, 0, 0, SECCOMP_KILL)]
    refused = tuple(name for name in _REFUSED if name != "socket" or not local_sockets)
    nobody = (("connect",), SECCOMP_ERRNO | errno.ECONNREFUSED)
    killed = tuple(name for name in _KILLED if not programs or name in _PEEKS)
    hidden = () if programs else ("clone3",)
    for names, action in ((killed, SECCOMP_KILL), (refused, eperm), (hidden, enosys), nobody):
        for name in names:
            if name in numbers:
                code += [(equal, 0, 1, numbers[name]), (back, 0, 0, action)]
    # Threads are fine (CLONE_THREAD), processes are not; clone3 hides its flags in memory, so libc must use clone.
    if not programs:
        code += [(equal, 0, 4, numbers["clone"]), (load, 0, 0, 16), (all_bits, 1, 0, 0x10000)]
        code += [(back, 0, 0, SECCOMP_KILL), (back, 0, 0, SECCOMP_ALLOW)]
    # abort() and faults of its own still work.
    own = {"kill": os.getpid(), "tgkill": os.getpid()}
    only = {**({} if programs else own), **({"socket": AF_UNIX} if local_sockets else {})}
    gate = [os.getppid(), -1 & 0xFFFFFFFF, -os.getpgid(os.getppid()) & 0xFFFFFFFF]
    for name in own if programs else ():
        code += [(equal, 0, len(gate) + 3, numbers[name]), (load, 0, 0, 16)]
        code += [(equal, len(gate) - at, 0, target) for at, target in enumerate(gate)]
        code += [(back, 0, 0, SECCOMP_ALLOW), (back, 0, 0, eperm)]
    for name, first in only.items():
        code += [(equal, 0, 4, numbers[name]), (load, 0, 0, 16), (equal, 1, 0, first), (back, 0, 0, eperm)]
        code += [(back, 0, 0, SECCOMP_ALLOW)]
    for name in _OWN:
        code += [(equal, 0, 5, numbers[name]), (load, 0, 0, 16), (equal, 2, 0, 0), (equal, 1, 0, os.getpid())]
        code += [(back, 0, 0, eperm), (back, 0, 0, SECCOMP_ALLOW)]
    for name, commands in _OWNERS:
        code += [(equal, 0, len(commands) + 3, numbers[name]), (load, 0, 0, 24)]
        code += [(equal, len(commands) - at, 0, command) for at, command in enumerate(commands)]
        code += [(back, 0, 0, SECCOMP_ALLOW), (back, 0, 0, eperm)]
    code.append((back, 0, 0, SECCOMP_ALLOW))
    program = b"".join(struct.pack("<HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(buffer))
    return _ok(libc.prctl(PR_SET_SECCOMP, 2, ctypes.c_char_p(fprog), 0, 0))
