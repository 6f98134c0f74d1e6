"""Snakemake runs in processes forked from one that has imported it already.

Importing it takes several seconds, the rest of a dry run well under one. Each run still is a
process of its own, in a session of its own, with a working folder and output of its own.
"""

import multiprocessing
import os
import sys
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["snakemake.cli", "snakemake.linting.rules", "pydantic"])


def start(folder, arguments, environment, output):
    """Start Snakemake in `folder`; its stdout and stderr go to the file `output`."""
    process = _context.Process(target=_run, args=(folder, arguments, environment, output))
    process.start()
    return process


def _run(folder, arguments, environment, output):
    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    for path, flags, descriptors in (
        (os.devnull, os.O_RDONLY, (0,)),
        (output, os.O_WRONLY | os.O_CREAT, (1, 2)),
    ):
        opened = os.open(path, flags)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
    from snakemake.cli import main

    sys.argv = [str(Path(sys.executable).with_name("snakemake")), *arguments]
    sys.exit(main(arguments))
