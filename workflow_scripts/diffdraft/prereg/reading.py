"""Read YAML that is safe, has no duplicate keys and fits a pydantic model, or say why not."""

from collections.abc import Hashable
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from diffdraft.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


class UniqueKeyLoader(yaml.SafeLoader):
    """`SafeLoader` that refuses a key given twice: the later one would win unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} is given twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def parse_yaml(data: bytes, file: object) -> Any:
    """Parse YAML bytes; other encodings, bad YAML and duplicate keys are `UserError`s."""
    try:
        return yaml.load(data.decode("utf-8"), Loader=UniqueKeyLoader)
    except RecursionError:
        raise UserError(file, "text", "nesting without end", "YAML of some levels") from None
    except UnicodeDecodeError as error:
        raise UserError(file, f"byte {error.start}", "not UTF-8", "UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise UserError(file, f"line {line}", error.problem, "YAML with unique keys") from None
    except (yaml.YAMLError, TypeError, ValueError) as error:
        # The loader lets through what a key that is a list, or a date that is none, raises.
        raise UserError(file, "text", error, "YAML with unique keys") from None


def refuse(field: str, found: object, expected: str) -> PydanticCustomError:
    """The error a validator raises for a rule that spans several fields."""
    context = {"field": field, "found": str(found), "expected": expected}
    return PydanticCustomError("plan_rule", "found {found}; expected {expected}", context)


def fit(model: type[Model], value: Any, file: object) -> Model:
    """Validate `value`; the first thing that does not fit becomes a one-line `UserError`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _first_problem(error, file) from None


def _first_problem(error: ValidationError, file: object) -> UserError:
    problem = error.errors(include_url=False)[0]
    # A part in angle brackets is the branch of a union, and no key of the file.
    keys = [str(part) for part in problem["loc"] if not str(part).startswith("<")]
    field = ".".join(keys)
    if problem["type"] == "plan_rule":
        context = problem["ctx"]
        field = f"{field}.{context['field']}" if field else context["field"]
        return UserError(file, field, context["found"], context["expected"])
    if problem["type"] == "extra_forbidden":
        return UserError(file, field, "an unknown key", "only keys of the schema")
    if problem["type"] == "missing":
        return UserError(file, field, "nothing", "this key")
    return UserError(file, field or "text", _short(problem["input"]), problem["msg"])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
