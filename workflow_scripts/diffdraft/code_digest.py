"""Which code a script runs, as one digest: what a rule depends on besides its files.

File times cannot tell: every file of a fresh clone is new. The digest is over the parsed syntax
of a script and of every module of `diffdraft` that it imports, directly or not, so it changes
when what runs changes and does not when a comment, a docstring, or a module that the script
never imports does. Other files in a package it imports (templates) count byte by byte.
"""

import ast
import functools
from pathlib import Path

from diffdraft import files

PACKAGE = "diffdraft"
DIGEST_LENGTH = 12  # hexadecimal digits: enough to tell versions apart, short enough to read


def code_digest(script: Path) -> str:
    """Digest of `script` and all it imports from the package beside it."""
    root = script.parent
    seen: dict[Path, str] = {}
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen[path], imported = _module(path)
            waiting += [file for name in imported for file in _files(root, name)]
    lines = [f"{path.relative_to(root)} {seen[path]}" for path in sorted(seen)]
    return files.sha256_bytes("\n".join(lines).encode())[:DIGEST_LENGTH]


@functools.cache
def _module(path: Path) -> tuple[str, tuple[str, ...]]:
    """Digest of one module, and the dotted names it imports from the package."""
    if path.suffix != ".py":
        return files.sha256_file(path), ()
    tree = ast.parse(files.read_text(path), filename=str(path))
    imported: set[str] = set()
    for node in ast.walk(tree):
        imported.update(name for name in _imports(node) if name.split(".")[0] == PACKAGE)
        _drop_docstring(node)
    return files.sha256_bytes(ast.dump(tree).encode()), tuple(sorted(imported))


def _imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        # The name after `import` may be a module too; `_files` finds out.
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _drop_docstring(node: ast.AST) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
        node.body = node.body[1:]


@functools.cache
def _files(root: Path, dotted: str) -> tuple[Path, ...]:
    """Files that importing `dotted` reads: each package on the way, then the module."""
    place, found = root, []
    for part in dotted.split("."):
        place = place / part
        if place.is_dir():
            found += [file for file in place.iterdir() if _is_package_file(file)]
        elif (module := place.with_suffix(".py")).is_file():
            found.append(module)
    return tuple(found)


def _is_package_file(file: Path) -> bool:
    """Whether a package's folder brings this file along: its `__init__.py` and its data."""
    return file.name == "__init__.py" or (file.suffix not in (".py", ".pyc") and file.is_file())
