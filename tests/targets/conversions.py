"""Conversions in processes of their own, which the system stops."""

import multiprocessing
import os
import resource
import signal
import time

from diffdraft.errors import UserError
from diffdraft.targets.packaged import convert
from diffdraft.whole_folder import whole_folder

NO_ROOM = 3
spawned = multiprocessing.get_context("spawn")  # MLX does not survive a fork


def in_child(work, *arguments):
    """Exit status of a process that does the work; -N where signal N ended it."""
    process = spawned.Process(target=work, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


def convert_with_room_for(limit, settings, out):
    """Convert where no file may grow beyond `limit` bytes; exit with `NO_ROOM` if that is told."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        convert.convert_target(settings, out)
    except UserError as error:
        os._exit(NO_ROOM if "expected room for it" in str(error) else 4)


def convert_and_die(step, settings, out):
    """The process is killed as soon as a step is done."""
    original = getattr(convert, step)

    def die(*arguments):
        original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(convert, step, die)
    convert.convert_target(settings, out)


def hold(out, names, seconds):
    """Go on making a folder."""
    with whole_folder(out, names) as folder:
        (folder / names[0]).write_text("{}")
        time.sleep(seconds)
