"""Run one step of the workflow: `logged.py LOG [--discard FOLDER] SCRIPT [argument ...]`.

What the step prints goes to LOG and to the terminal. Where somebody watches, the step sees a
terminal too and draws its progress bars; LOG keeps the last state of each line, not every redraw.
LOG is locked while the step runs, so a step that a killed run left behind is waited for, and
never runs twice at once. A step that succeeds no longer needs the checkpoints in FOLDER; they go
under the same lock, since the next run of the step may write there as soon as it is free. The exit
status is the step's.
"""

import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import BinaryIO

READ_BYTES = 1 << 16


def main(log: Path, discard: Path | None, script: str, arguments: list[str]) -> int:
    """Run the script that lies beside this one; return its exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        wait_for_lock(stream, script)
        stream.truncate(0)
        watched = sys.stderr.isatty()
        reader, writer = terminal_pair() if watched else os.pipe()
        # The default action returns in the step, since exec drops handlers: it stops by itself,
        # and this process stays to log its last words.
        signal.signal(signal.SIGINT, lambda *_: None)
        step = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(script)), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            pass_fds=[stream.fileno()],  # the lock lives as long as the step
        )
        signal.signal(signal.SIGTERM, lambda *_: step.terminate())
        os.close(writer)
        copy(reader, stream, raw=watched)
        status = step.wait()
        if status == 0 and discard is not None:
            shutil.rmtree(discard, ignore_errors=True)
    return status if status >= 0 else 128 - status


def wait_for_lock(stream: BinaryIO, script: str) -> None:
    """Take the lock of the log, after the step that holds it where one does."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"{script}: waiting for the same step of a killed run to end", file=sys.stderr)
        fcntl.flock(stream, fcntl.LOCK_EX)


def terminal_pair() -> tuple[int, int]:
    """A pseudo-terminal of the size of the real one: (end to read, end for the step)."""
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, termios.tcgetwinsize(sys.stderr.fileno()))
    return reader, writer


def copy(reader: int, log: BinaryIO, raw: bool) -> None:
    """Copy all that the step prints: to stderr as it comes (`raw`) or line by line, and to LOG."""
    pending = b""
    while chunk := read(reader):
        if raw:
            show(chunk)
        *lines, pending = (pending + chunk).split(b"\n")
        for line in map(last_state, lines):
            log.write(line)
            if not raw:
                show(line)
        log.flush()
        pending = pending[pending.rfind(b"\r", 0, -1) + 1 :]
    if pending:
        log.write(last_state(pending))
        if not raw:
            show(last_state(pending))


def last_state(line: bytes) -> bytes:
    """What a terminal would show of a line that was redrawn after carriage returns."""
    return line.rstrip(b"\r").rsplit(b"\r", 1)[-1] + b"\n"


def read(reader: int) -> bytes:
    """Next bytes; none at the end, which a pseudo-terminal on Linux tells by an error."""
    try:
        return os.read(reader, READ_BYTES)
    except OSError:
        return b""


def show(data: bytes) -> None:
    """Write to stderr, unless whoever watched has gone."""
    try:
        sys.stderr.buffer.write(data)
        sys.stderr.buffer.flush()
    except OSError:
        pass


if __name__ == "__main__":
    log, *words = sys.argv[1:]
    folder = Path(words[1]) if words[0] == "--discard" else None
    script, *arguments = words[2:] if folder else words
    sys.exit(main(Path(log), folder, script, arguments))
