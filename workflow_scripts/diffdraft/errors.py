"""The one exception that is meant for the user."""


class UserError(Exception):
    """Bad input, told in one line: which file, which field, what was found and expected.

    `cli.run` prints it without a traceback and exits with `cli.EXIT_USER_ERROR`.
    """

    def __init__(
        self, file: object, field: str, found: object, expected: object, action: str = ""
    ) -> None:
        self.file, self.field, self.found, self.expected = str(file), field, found, expected
        self.action = action
        line = f"{file}: {field}: found {found}; expected {expected}"
        super().__init__(
            " ".join(f"{line}. {action}".split()) if action else " ".join(line.split())
        )
