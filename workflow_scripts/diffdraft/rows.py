"""The row files of every study: read, checked and written in one place.

A file is CSV in UTF-8 with one header line; CRLF and LF are both read, LF is written. The
schemas are exact: these columns, in this order, no empty cell. Floats are written with the
shortest text that reads back as the same number. The schemas themselves are in `row_schemas`.
"""

import csv
import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaError

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.row_schemas import SCHEMAS

INTEGER = re.compile(r"-?\d{1,18}")


def columns(schema_name: str) -> list[str]:
    """Column names of a schema, in file order."""
    return list(SCHEMAS[schema_name].columns)


def read_rows(path: str | Path, schema_name: str) -> pd.DataFrame:
    """Read and check a row file; rows keep their order.

    Raises:
        UserError: the first defect, with its column and line.
    """
    return validate(parse(path, schema_name), schema_name, path)


def write_rows(path: str | Path, frame: pd.DataFrame, schema_name: str) -> None:
    """Check `frame` and write it whole or not at all.

    Raises:
        UserError: the first defect; nothing is written then.
    """
    checked = validate(frame.reset_index(drop=True), schema_name, path)
    files.write_text(path, checked.to_csv(index=False, lineterminator="\n"))


def parse(path: str | Path, schema_name: str) -> pd.DataFrame:
    """Turn the text of a row file into typed columns, without the checks between them."""
    names = columns(schema_name)
    reader = csv.reader(io.StringIO(files.read_text(path)))
    try:
        records = list(reader)
    except csv.Error as error:  # a quote that is never closed runs on over the following lines
        raise UserError(path, f"line {reader.line_num}", error, "CSV without quotes") from None
    if not records:
        raise UserError(path, "file", "an empty file", f"a header with {len(names)} columns")
    _check_header(path, records[0], names)
    rows = records[1:]
    _check_length(path, len(rows), schema_name)
    for line, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise UserError(path, f"line {line}", f"{len(row)} fields", f"{len(names)} fields")
    kinds = {name: column.dtype.type.kind for name, column in SCHEMAS[schema_name].columns.items()}
    cells = zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True)
    return pd.DataFrame({name: _typed(path, name, kinds[name], texts) for name, texts in cells})


def validate(frame: pd.DataFrame, schema_name: str, path: object) -> pd.DataFrame:
    """Check a frame against a schema; `path` is only named in the error."""
    _check_header(path, list(frame.columns), columns(schema_name))
    _check_length(path, len(frame), schema_name)
    schema = SCHEMAS[schema_name]
    try:
        return schema.validate(frame)
    except SchemaError as error:
        raise _user_error(path, frame, schema, error) from None


def _check_header(path: object, found: list[str], expected: list[str]) -> None:
    for name in expected:
        if name not in found:
            raise UserError(path, "header", f"no column {name}", f"{len(expected)} columns")
    for place, name in enumerate(found):
        if name not in expected or name in found[:place]:
            raise UserError(path, "header", f"extra column {name!r}", f"{len(expected)} columns")
    for place, (name, wanted) in enumerate(zip(found, expected, strict=True), start=1):
        if name != wanted:
            raise UserError(path, "header", f"{name!r} as column {place}", f"{wanted!r} there")


def _check_length(path: object, rows: int, schema_name: str) -> None:
    if rows == 0 and not SCHEMAS[schema_name].metadata["may_be_empty"]:
        raise UserError(path, "rows", "none", "at least one row under the header")


def _typed(path: object, name: str, kind: str, texts: tuple[str, ...]) -> Any:
    if kind == "O":
        return pd.Series(texts, dtype="str")
    convert: Callable[[str], float] = _integer if kind == "i" else _finite
    values = []
    for line, text in enumerate(texts, start=2):
        try:
            values.append(convert(text))
        except ValueError:
            expected = "an integer" if kind == "i" else "a finite number"
            found = repr(text) if text else "nothing"
            raise UserError(path, f"{name}, line {line}", found, expected) from None
    return np.array(values, dtype=np.int64 if kind == "i" else np.float64)


def _integer(text: str) -> int:
    if not INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _user_error(
    path: object, frame: pd.DataFrame, schema: pa.DataFrameSchema, error: SchemaError
) -> UserError:
    """Name the first failing row of the first failing check."""
    rules = {str(i): rule for i, rule in enumerate(schema.metadata["rules"])}
    name = error.check.name if isinstance(error.check, pa.Check) else str(error.check)
    if name in rules:
        rule = rules[name]
        row = int(np.flatnonzero(~np.broadcast_to(rule.passes(frame), len(frame)))[0])
        return UserError(
            path, f"{rule.field}, line {row + 2}", rule.found(frame, row), rule.expected
        )
    field = error.schema.name
    if isinstance(error.check, pa.Check) and "index" in error.failure_cases:
        row = int(error.failure_cases["index"].min())
        return UserError(path, f"{field}, line {row + 2}", frame[field][row], error.check.error)
    return UserError(path, field, f"type {frame[field].dtype}", schema.columns[field].dtype)
