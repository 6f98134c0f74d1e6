"""What a trial is made of, from the options of the command line."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diffdraft import backend
from diffdraft.decoding.acceptance import GreedyAcceptance
from diffdraft.decoding.loop import decode
from diffdraft.decoding.policy import FixedBlock
from diffdraft.decoding.trace import OnCommit, Trace
from diffdraft.drafters.uno import UnoDrafter
from diffdraft.errors import UserError
from diffdraft.layers.adapter_file import load_adapter, read_adapter
from diffdraft.layers.lora import Adapter
from diffdraft.measure.speculative import options
from diffdraft.measure.speculative.bench import precision
from diffdraft.targets.load import Target, load_target

BLOCK_SIZE = 4  # where neither the command nor the adapter says another
STDIN = "-"


@dataclass(frozen=True)
class Trial:
    """A prompt, and the target and adapter that go on from it. Without an adapter, natively."""

    target: Target
    adapter: Adapter | None
    prompt: str
    ids: list[int]
    block_size: int
    max_tokens: int
    seed: int
    dtype: str

    def native(self, max_tokens: int | None = None, on_commit: OnCommit | None = None) -> Trace:
        """The target alone."""
        return self._decode(None, max_tokens, on_commit)

    def drafted(self, max_tokens: int | None = None, on_commit: OnCommit | None = None) -> Trace:
        """With the drafter; natively where there is none."""
        if self.adapter is None:
            return self.native(max_tokens, on_commit)
        drafter = UnoDrafter(self.target, self.adapter, self.seed)
        return self._decode(drafter, max_tokens, on_commit)

    def _decode(
        self, drafter: UnoDrafter | None, max_tokens: int | None, on_commit: OnCommit | None
    ) -> Trace:
        backend.barrier()
        return decode(
            self.target,
            drafter,
            GreedyAcceptance(),
            FixedBlock(self.block_size),
            self.ids,
            max_tokens or self.max_tokens,
            stop_ids=self.target.tokenizer.eos_token_ids,
            on_commit=on_commit,
        )


def make_trial(args: Namespace) -> Trial:
    """Check the options, which is quick, before the model is loaded, which is not."""
    prompt = prompt_text(args.prompt)
    max_tokens = options.whole("--max-tokens", args.max_tokens)
    seed = options.whole("--seed", args.seed, least=0)
    block_size = block_size_of(args.block_size, args.adapter)
    target = load_target(args.model, args.dtype or backend.traits().dtype)
    dtype = precision(target.model)
    adapter = None
    if args.adapter is not None:
        adapter = load_adapter(target.model, target.fingerprint, args.adapter)
    ids: Sequence[int] = target.tokenizer.encode(prompt)
    return Trial(target, adapter, prompt, list(ids), block_size, max_tokens, seed, dtype)


def block_size_of(asked: str | None, adapter: Path | None) -> int:
    """The block size that was asked for, or else that the adapter was trained for."""
    if asked is not None and adapter is None:
        raise UserError("--block-size", "value", repr(asked), "an --adapter to draft with")
    if asked is not None:
        return options.whole("--block-size", asked)
    if adapter is None:
        return BLOCK_SIZE
    said = read_adapter(adapter)[1].get("block_size", str(BLOCK_SIZE))
    return options.whole(f"{adapter}: metadata.block_size", said)


def prompt_text(given: str) -> str:
    """The prompt itself, or standard input for "-", without its last line end.

    Raises `UserError` for an empty one, or one that is not UTF-8.
    """
    source = "standard input" if given == STDIN else "prompt"
    try:
        raw = sys.stdin.buffer.read() if given == STDIN else given.encode()
        text = raw.decode()
    except UnicodeError:
        raise UserError(source, "text", "other bytes", "UTF-8") from None
    if given == STDIN:
        text = text.removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise UserError(source, "text", "nothing", "some words to go on from")
    return text
