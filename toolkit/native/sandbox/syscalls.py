"""Numbers of system calls (``unistd.h``), and those that no worker may make.

A number that is ``None`` is a call that the machine does not have.
"""

from typing import Final, NamedTuple


class Call(NamedTuple):
    """A system call, and its number on each machine."""

    name: str
    x86_64: int | None
    aarch64: int | None


FORBIDDEN: Final = (
    # Other processes: their memory, their descriptors, their pace, their end.
    Call("ptrace", 101, 117),
    Call("process_vm_readv", 310, 270),
    Call("process_vm_writev", 311, 271),
    Call("process_madvise", 440, 440),
    Call("process_mrelease", 448, 448),
    Call("kcmp", 312, 272),
    Call("pidfd_open", 434, 434),
    Call("pidfd_getfd", 438, 438),
    Call("pidfd_send_signal", 424, 424),
    Call("tkill", 200, 130),
    Call("rt_sigqueueinfo", 129, 138),
    Call("rt_tgsigqueueinfo", 297, 240),
    Call("setpriority", 141, 140),
    Call("ioprio_set", 251, 30),
    Call("sched_setaffinity", 203, 122),
    Call("sched_setparam", 142, 118),
    Call("sched_setscheduler", 144, 119),
    Call("sched_setattr", 314, 274),
    Call("migrate_pages", 256, 238),
    Call("move_pages", 279, 239),
    # Starting programs, and processes that would outlive the worker.
    Call("execve", 59, 221),
    Call("execveat", 322, 281),
    Call("fork", 57, None),
    Call("vfork", 58, None),
    # To be spoken to.
    Call("bind", 49, 200),
    Call("listen", 50, 201),
    Call("accept", 43, 202),
    Call("accept4", 288, 242),
    # Shared memory by name.
    Call("shmget", 29, 194),
    Call("shmat", 30, 196),
    Call("shmctl", 31, 195),
    Call("msgget", 68, 186),
    Call("msgsnd", 69, 189),
    Call("msgrcv", 70, 188),
    Call("msgctl", 71, 187),
    Call("semget", 64, 190),
    Call("semop", 65, 193),
    Call("semctl", 66, 191),
    Call("semtimedop", 220, 192),
    Call("mq_open", 240, 180),
    Call("mq_unlink", 241, 181),
    # Changing files by path or handle, which some versions of Landlock do not check.
    Call("chmod", 90, None),
    Call("fchmodat", 268, 53),
    Call("fchmodat2", 452, 452),
    Call("chown", 92, None),
    Call("lchown", 94, None),
    Call("fchown", 93, 55),
    Call("fchownat", 260, 54),
    Call("utime", 132, None),
    Call("utimes", 235, None),
    Call("futimesat", 261, None),
    Call("utimensat", 280, 88),
    Call("setxattr", 188, 5),
    Call("lsetxattr", 189, 6),
    Call("setxattrat", 463, 463),
    Call("removexattr", 197, 14),
    Call("lremovexattr", 198, 15),
    Call("removexattrat", 466, 466),
    Call("file_setattr", 469, 469),
    Call("truncate", 76, 45),
    Call("creat", 85, None),
    Call("mknod", 133, None),
    Call("mknodat", 259, 33),
    Call("name_to_handle_at", 303, 264),
    Call("open_by_handle_at", 304, 265),
    # Namespaces and mounts.
    Call("unshare", 272, 97),
    Call("setns", 308, 268),
    Call("mount", 165, 40),
    Call("umount2", 166, 39),
    Call("pivot_root", 155, 41),
    Call("chroot", 161, 51),
    Call("open_tree", 428, 428),
    Call("open_tree_attr", 467, 467),
    Call("move_mount", 429, 429),
    Call("fsopen", 430, 430),
    Call("fsconfig", 431, 431),
    Call("fsmount", 432, 432),
    Call("fspick", 433, 433),
    Call("mount_setattr", 442, 442),
    # Ways into the kernel that a worker has no use for.
    Call("io_uring_setup", 425, 425),
    Call("io_uring_enter", 426, 426),
    Call("io_uring_register", 427, 427),
    Call("bpf", 321, 280),
    Call("perf_event_open", 298, 241),
    Call("userfaultfd", 323, 282),
    Call("keyctl", 250, 219),
    Call("add_key", 248, 217),
    Call("request_key", 249, 218),
    Call("init_module", 175, 105),
    Call("finit_module", 313, 273),
    Call("delete_module", 176, 106),
    Call("kexec_load", 246, 104),
    Call("kexec_file_load", 320, 294),
    Call("reboot", 169, 142),
    Call("swapon", 167, 224),
    Call("swapoff", 168, 225),
    Call("acct", 163, 89),
    Call("quotactl", 179, 60),
    Call("quotactl_fd", 443, 443),
    Call("fanotify_init", 300, 262),
    Call("personality", 135, 92),
    Call("syslog", 103, 116),
    Call("iopl", 172, None),
    Call("ioperm", 173, None),
    Call("modify_ldt", 154, None),
)
CLONE: Final = Call("clone", 56, 220)
CLONE3: Final = Call("clone3", 435, 435)
KILL: Final = Call("kill", 62, 129)
TGKILL: Final = Call("tgkill", 234, 131)
PRLIMIT64: Final = Call("prlimit64", 302, 261)
PRCTL: Final = Call("prctl", 157, 167)
SOCKET: Final = Call("socket", 41, 198)
CONNECT: Final = Call("connect", 42, 203)
OPEN: Final = Call("open", 2, None)
OPENAT: Final = Call("openat", 257, 56)
OPENAT2: Final = Call("openat2", 437, 437)
