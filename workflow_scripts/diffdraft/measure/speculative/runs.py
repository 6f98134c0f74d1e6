"""Which arms meet which prompts in a run: the units that are timed, in the order they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffdraft.decoding.loop import context_tokens
from diffdraft.errors import UserError
from diffdraft.measure.speculative.arms import block_size_of
from diffdraft.measure.speculative.passages import passages
from diffdraft.measure.speculative.protocol import Unit
from diffdraft.measure.workloads import EncodedPrompt, Workload, encode_workload
from diffdraft.prereg.schema import DecodingSample
from diffdraft.studies.act4s.design import NO_CONTEXTS, RunDesign


@dataclass(frozen=True)
class Run:
    """One run: its arms, how often each is repeated, and its benchmark calls.

    A call is warmed up by itself: the prompts at one length of context, to one number of new
    tokens, in one precision.
    """

    name: str
    arms: tuple[str, ...]
    repeats: int
    calls: list[list[Unit]]

    @property
    def units(self) -> list[Unit]:
        """All units in the order in which they are timed."""
        return [unit for call in self.calls for unit in call]


@dataclass(frozen=True)
class Source:
    """Where prompts come from: a suite, and for the run `context` a corpus and the draw's seed."""

    workload: Workload
    tokenizer: Any
    corpus: Path | None
    context_seed: int

    def prompts(
        self, design: RunDesign, passages_each: int, new_tokens: int, context: int
    ) -> list[list[EncodedPrompt]]:
        """Prompts of a run, a list for each of its contexts."""
        if design.contexts == NO_CONTEXTS:
            return [encode_workload(self.workload, self.tokenizer, new_tokens, context)]
        if self.corpus is None:
            raise UserError("--corpus", "folder", "nothing", "the corpus that passages come from")
        return passages(self.corpus, design.contexts, passages_each, self.context_seed)


def plan_run(
    name: str,
    design: RunDesign,
    sample: DecodingSample,
    source: Source,
    model: Any,
    own_dtype: str,
) -> Run:
    """The units of a run.

    Raises:
        UserError: a prompt without a token, or one that leaves no room in the model's context for
            its continuation and the largest block behind it.
    """
    context = context_tokens(model)
    largest = max(block_size_of(arm, sample.policies) for arm in design.arms)
    calls: list[list[Unit]] = []
    number = 0
    for dtype in design.dtypes or (own_dtype,):
        for max_tokens in design.max_tokens:
            for prompts in source.prompts(design, sample.context.passages, max_tokens, context):
                check_room(prompts, max_tokens, largest, context)
                calls.append(
                    [
                        Unit(prompt, place, number + place, max_tokens, dtype)
                        for place, prompt in enumerate(prompts)
                    ]
                )
                number += len(prompts)
    return Run(name, design.arms, design.repeats, calls)


def check_room(
    prompts: Sequence[EncodedPrompt], new_tokens: int, block_size: int, context: int
) -> None:
    """Refuse what would not fit after an hour of decoding: the block behind the last but one token.

    Raises `UserError` with the prompt's name.
    """
    for prompt in prompts:
        needed = len(prompt.ids) + new_tokens - 1 + block_size
        if needed > context:
            found = f"{len(prompt.ids)} tokens, {new_tokens} to generate and blocks of {block_size}"
            expected = f"what a context of {context} holds (one token less than their sum)"
            raise UserError("prompts", prompt.id, found, expected)
