"""Local processes of a pool."""

import signal
import subprocess
import sys

PROGRAM = """
import os, signal, sys
from rewright.executors import executor

if __name__ == "__main__":
    with executor(2) as pool:
        print(len({pool.submit(os.getpid).result() for _ in range(4)}), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    """The workers hold the other end of the pipe: it closes when the last of them is gone."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == -signal.SIGKILL
    assert int(run.stdout) >= 1
