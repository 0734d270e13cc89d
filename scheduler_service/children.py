"""Commands whose processes cannot outlive the process that started them.

Owns the one trick this needs: the child asks the kernel to be signalled when its parent dies, before it
becomes the real program (same pid). Linux only; elsewhere the command just runs. The kernel watches the
THREAD that forked, so start such children from a thread that lives as long as they should: the main one.
"""

import os
import signal
import sys

# The child may be born after its parent died: then nobody would ever signal it, so it looks once itself.
_TETHER = """\
import os, sys
parent, number = int(sys.argv[1]), int(sys.argv[2])
if sys.platform == "linux":
    import ctypes
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"{sys.argv[3]}: whoever started this is gone")
try:
    os.execvp(sys.argv[3], sys.argv[3:])
except OSError as exc:
    sys.exit(f"{sys.argv[3]}: {exc.strerror}")
"""


def tethered(argv: list[str], death_signal: signal.Signals = signal.SIGKILL) -> list[str]:
    """The command that runs `argv` under the same pid and dies by `death_signal` with this process."""
    return [sys.executable, "-I", "-S", "-c", _TETHER, str(os.getpid()), str(int(death_signal)), *argv]
