"""Commands whose processes cannot outlive the process that started them.

Owns the one trick for this: the child asks the kernel for a signal when its parent dies, then becomes the real program
(same pid). Linux only; elsewhere the command just runs. The kernel watches the THREAD that forked, so start such
children from a thread that lives as long as they should: the main one.
"""

import os
import signal
import sys

# Import first, while root may still read the modules, and drop root before setting the death signal: a change of the
# user clears it. A child whose parent died before this would never be signalled, so it checks once itself.
_TETHER = """\
import ctypes, os, sys
parent, number, user, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if user:
    import pwd
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"{program}: the process that started it is gone")
try:
    os.execvp(program, sys.argv[4:])
except OSError as exc:
    sys.exit(f"{program}: {exc.strerror}")
"""


def tethered(argv: list[str], death_signal: signal.Signals = signal.SIGKILL, user: str | None = None) -> list[str]:
    """The command that runs `argv` under the same pid and dies by `death_signal` with this process.

    `user` is the account that a root process changes to first.
    """
    tether = [sys.executable, "-I", "-S", "-c", _TETHER]
    return [*tether, str(os.getpid()), str(int(death_signal)), user or "", *argv]
