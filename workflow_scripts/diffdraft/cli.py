"""What every command shares: arguments, one-line errors, exit codes."""

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from diffdraft.disk import full_disk_told
from diffdraft.errors import UserError

EXIT_OK = 0
EXIT_USER_ERROR = 3  # 1 and 2 are verdicts of `audit`: FAIL and CANNOT TELL
EXIT_DEFECT = 70  # an exception that nobody foresaw: ours to mend
EXIT_INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose usage errors do not collide with the exit codes of `audit`."""

    def __init__(self, description: str | None) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self.add_argument("--debug", action="store_true", help="show a traceback on bad input")

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USER_ERROR, f"error: {message}\n")


def run(
    parser: argparse.ArgumentParser,
    main: Callable[[argparse.Namespace], int | None],
    argv: Sequence[str] | None = None,
) -> NoReturn:
    """Parse, call `main(args)`, exit with what it returns (None is 0)."""
    args = parser.parse_args(argv)
    try:
        with full_disk_told("output"):
            sys.exit(main(args) or EXIT_OK)
    except UserError as error:
        if args.debug:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_USER_ERROR)
    except Exception as error:
        if args.debug:
            traceback.print_exc()
        told = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"error: {told} (not foreseen; --debug shows where)", file=sys.stderr)
        sys.exit(EXIT_DEFECT)
    except KeyboardInterrupt:
        print("interrupted; the same command again goes on from here", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
