"""Prompt suites: files of short openings in nine categories, three prompts each."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field, StringConstraints, model_validator

from diffdraft.errors import UserError
from diffdraft.prereg.criteria import Name, Strict
from diffdraft.prereg.reading import fit, parse_yaml, refuse

Category = Literal[
    "prose",
    "factual",
    "code",
    "math",
    "structured",
    "technical",
    "dialogue",
    "reasoning",
    "high_entropy",
]
PROMPTS_PER_CATEGORY = 3

# A blank at either end would be a token of its own, and change what follows.
Opening = Annotated[str, StringConstraints(min_length=1, pattern=r"^\S(?s:.*\S)?$")]


class Prompt(Strict):
    """One opening, to be continued by the model."""

    id: Name
    category: Category
    text: Opening


class Workload(Strict):
    """A suite of prompts, in the order in which they are measured."""

    name: Name
    description: str
    prompts: Annotated[tuple[Prompt, ...], Field(strict=False)]  # YAML has lists only

    @model_validator(mode="after")
    def _three_of_each_category(self) -> "Workload":
        counts = Counter(prompt.category for prompt in self.prompts)
        for category in get_args(Category):
            if counts[category] != PROMPTS_PER_CATEGORY:
                found = f"{counts[category]} of category {category}"
                raise refuse("prompts", found, f"{PROMPTS_PER_CATEGORY} of each category")
        return self

    @model_validator(mode="after")
    def _prompts_are_distinct(self) -> "Workload":
        for field in ("id", "text"):
            values = [getattr(prompt, field) for prompt in self.prompts]
            for value, times in Counter(values).items():
                if times > 1:
                    raise refuse(f"prompts.{field}", f"{value!r} twice", "each once")
        return self


class EncodedPrompt(NamedTuple):
    """A prompt as token ids."""

    id: str
    category: str
    ids: list[int]


def load_workload(path: str | Path) -> Workload:
    """Read a suite; anything that its schema does not allow is a `UserError`."""
    path = Path(path)
    if not path.is_file():
        raise UserError(path, "file", "nothing there", "a workload")
    return fit(Workload, parse_yaml(path.read_bytes(), path), path)


def encode_workload(
    workload: Workload, tokenizer: Any, new_tokens: int, context: int
) -> list[EncodedPrompt]:
    """Token ids of every prompt, without a chat template.

    Raises:
        UserError: a prompt that gives no token, or that leaves no room for `new_tokens` in a
            context of `context` tokens.
    """
    encoded = []
    for prompt in workload.prompts:
        ids = list(tokenizer.encode(prompt.text))
        if not ids:
            raise UserError(workload.name, prompt.id, "no token", "at least one token")
        if len(ids) + new_tokens > context:
            found = f"{len(ids)} tokens and {new_tokens} to generate"
            raise UserError(workload.name, prompt.id, found, f"a context of {context} at most")
        encoded.append(EncodedPrompt(prompt.id, prompt.category, ids))
    return encoded
