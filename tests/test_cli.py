"""What a command prints and returns: one line for the user, a traceback only when asked for."""

import errno

import pytest

from diffdraft import cli
from diffdraft.errors import UserError


def run(capsys, main, *argv):
    with pytest.raises(SystemExit) as ended:
        cli.run(cli.Parser("A command."), main, list(argv))
    return ended.value.code, capsys.readouterr().err


def raising(error):
    def main(args):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UserError("a.csv", "x", 1, 2), 3, "error: a.csv: x: found 1; expected 2\n"),
        (
            OSError(errno.ENOSPC, "Full"),
            3,
            "error: output: disk: found Full; expected room for it\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted; the same command again goes on from here\n"),
        (ValueError("two\nlines"), 70, "error: ValueError: two lines (not foreseen; --debug shows"),
    ],
)
def test_every_end_is_one_line(capsys, error, status, line):
    code, printed = run(capsys, raising(error))
    assert code == status
    assert printed.startswith(line)
    assert printed.count("\n") == 1


@pytest.mark.parametrize("error", [UserError("a.csv", "x", 1, 2), ValueError("deep")])
def test_debug_shows_the_traceback(capsys, error):
    _, printed = run(capsys, raising(error), "--debug")
    assert "Traceback" in printed and "raise error" in printed


def test_status_is_what_main_returns(capsys):
    assert run(capsys, lambda args: 2)[0] == 2
    assert run(capsys, lambda args: None)[0] == 0
    assert run(capsys, lambda args: None, "--unknown")[0] == 3
