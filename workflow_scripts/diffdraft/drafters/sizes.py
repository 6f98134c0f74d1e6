"""Whole numbers that a user chose: sizes of blocks, numbers of passes, orders."""

from diffdraft.errors import UserError


def check_size(file: str, field: str, value: object, least: int = 1) -> None:
    """Raise `UserError` unless `value` is an int of at least `least`; a bool is none."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UserError(file, field, repr(value), f"a whole number of at least {least}")
