"""The settings of a model folder: files of JSON that hold no code. Imports no MLX."""

from pathlib import Path
from typing import Any

from diffdraft import files
from diffdraft.errors import UserError
from diffdraft.weight_folder import INDEX

NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")
# And what else `mlx_lm.load` reads. Other JSON in a snapshot, such as a record of how somebody
# trained it, would be taken for this project's own.
SETTINGS = (*NEEDED, INDEX, "generation_config.json", "special_tokens_map.json")
# Where a loader would find the name of a Python file to run.
WITH_CODE = ("config.json", "tokenizer_config.json")
CODE = ("auto_map", "model_file", "custom_pipelines")


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON file of settings by name. Raises `UserError` for another one, or one with code."""
    found = files.read_json(path)
    if not isinstance(found, dict):
        raise UserError(path, "file", "no settings", "settings by name")
    text = found.get("text_config", {})
    if not isinstance(text, dict):
        raise UserError(path, "text_config", text, "settings by name")
    for name in CODE:
        for place, within in (("", found), ("text_config.", text)):
            if name in within:
                raise UserError(path, place + name, within[name], "no code beside the weights")
    return found


def check_no_code(folder: Path) -> None:
    """Raise `UserError` for a folder whose settings name code, or are none."""
    for name in WITH_CODE:
        if (folder / name).is_file():
            read_settings(folder / name)
