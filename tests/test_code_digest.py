"""The digest moves when what runs changes, and only then."""

import pytest

from diffdraft.code_digest import code_digest

FILES = {
    "step.py": '"""Step."""\nfrom diffdraft.room.used import answer\nprint(answer())\n',
    "diffdraft/__init__.py": "",
    "diffdraft/room/__init__.py": "",
    "diffdraft/room/used.py": (
        "def answer():\n    from diffdraft import deep\n    return deep.VALUE\n"
    ),
    "diffdraft/room/page.html": "<p>",
    "diffdraft/room/aside.py": "ASIDE = 1\n",
    "diffdraft/deep.py": "VALUE = 42\n",
    "diffdraft/other/__init__.py": "",
}


@pytest.fixture
def digest_with(tmp_path):
    """A function: digest of the step after some files were changed."""
    trees = iter(range(10))

    def digest(changes=()):
        root = tmp_path / str(next(trees))
        for name, text in {**FILES, **dict(changes)}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return code_digest(root / "step.py")

    return digest


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step.py", FILES["step.py"] + "print(1)\n"),
        ("diffdraft/room/used.py", FILES["diffdraft/room/used.py"].replace("VALUE", "LEVEL")),
        ("diffdraft/deep.py", "VALUE = 43\n"),
        ("diffdraft/room/__init__.py", "import os\n"),
        ("diffdraft/room/page.html", "<b>"),
    ],
)
def test_changes_of_what_runs_count(digest_with, name, text):
    assert digest_with() != digest_with({name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step.py", FILES["step.py"].replace("Step.", "Another docstring.")),
        ("diffdraft/deep.py", "# the answer\nVALUE  =  42\n"),
        ("diffdraft/room/aside.py", "ASIDE = 2\n"),
        ("diffdraft/other/__init__.py", "x = 1\n"),
        (
            "diffdraft/room/used.py",
            FILES["diffdraft/room/used.py"].replace("    from", "    'D.'\n    from"),
        ),
    ],
)
def test_comments_docstrings_and_strangers_do_not(digest_with, name, text):
    assert digest_with() == digest_with({name: text})
