"""Every column of every row file is explained in docs/rows.md, and nothing else is."""

import re
from pathlib import Path

import pytest

from diffdraft.prereg.registry import STUDIES
from diffdraft.rows import SCHEMAS, columns

TEXT = (Path(__file__).parents[1] / "docs" / "rows.md").read_text()


def explained(schema: str) -> list[str]:
    (section,) = re.findall(rf"^### {schema}\n(.*?)(?=^##|\Z)", TEXT, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


@pytest.mark.parametrize("schema", sorted(SCHEMAS))
def test_the_dictionary_has_each_column_once(schema):
    assert sorted(explained(schema)) == sorted(columns(schema))


def test_the_dictionary_has_each_kind_of_file():
    for study in STUDIES.values():
        for name, schema in study.rows.items():
            general = re.sub(r"^[a-z]+(?=(_cycles|_divergences)?\.csv)", "RUN", name)
            general = re.sub(r"(?<=positions_)[a-z]+", "TAG", general)
            assert f"| `{general}` | {schema} |" in TEXT or f"| `{name}` | {schema} |" in TEXT
