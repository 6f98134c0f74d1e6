"""What a trial prints below its text."""

from collections.abc import Sequence

from diffdraft import backend
from diffdraft.decoding.trace import Trace
from diffdraft.measure.divergence import DivergenceAudit
from diffdraft.measure.trial.marked_text import Marks
from diffdraft.measure.trial.request import Trial

WIDTH = 10
TOLERANCE = 1.0  # of a judgement that the audit makes and nothing is printed of


def alone(trial: Trial, trace: Trace, marks: Marks) -> str:
    """Of one run, as it was shown."""
    if trial.adapter is None:
        lines = [tokens_line(trace), line("native", f"{rate([trace]):.1f} tokens/s")]
    else:
        speed = line("drafted", f"{rate([trace]):.1f} tokens/s, {blocks(trial)}")
        lines = [tokens_line(trace, marks), accepted_line(trace), speed]
    return "\n".join([*lines, computed_line(trial)])


def compared(trial: Trial, native: Sequence[Trace], drafted: Sequence[Trace], marks: Marks) -> str:
    """Of the timed runs."""
    ratio = rate(drafted) / rate(native)
    how = f"{len(native)} runs of each in turns after a warm-up, the prompt's time included"
    return "\n".join(
        [
            tokens_line(drafted[0], marks),
            accepted_line(drafted[0]),
            line("drafted", f"{rate(drafted):.1f} tokens/s, {blocks(trial)}"),
            line("native", f"{rate(native):.1f} tokens/s"),
            line("speed", f"{ratio:.2f} times native ({how})"),
            line("text", text_words(trial, native, drafted)),
            computed_line(trial),
        ]
    )


def rate(traces: Sequence[Trace]) -> float:
    """Tokens a second over whole generations, prefill included."""
    tokens = sum(len(trace.tokens) for trace in traces)
    return tokens / sum(trace.wall_seconds for trace in traces)


def line(name: str, words: str) -> str:
    """A name and what is said of it, in two columns."""
    return f"{name:<{WIDTH}}{words}"


def blocks(trial: Trial) -> str:
    """The block size in words."""
    return f"block size {trial.block_size}"


def tokens_line(trace: Trace, marks: Marks | None = None) -> str:
    """How many tokens there are and, with marks, how many the drafter guessed."""
    words = str(len(trace.tokens))
    if marks is not None:
        # The given and the next token of every cycle are the target's; the last may be cut short.
        guessed = sum(max(0, min(c.accepted, c.committed - 1)) for c in trace.cycles)
        words += f", of which {guessed} drafted ({marks.called})"
    return line("tokens", words)


def accepted_line(trace: Trace) -> str:
    """The mean accepted prefix of what was offered a cycle."""
    cycles = len(trace.cycles)
    accepted, offered = (trace.total(name) / cycles for name in ("accepted", "offered"))
    each = f"{accepted:.2f} of {offered:.2f} offered tokens a cycle, {cycles} cycles"
    return line("accepted", each)


def text_words(trial: Trial, native: Sequence[Trace], drafted: Sequence[Trace]) -> str:
    """Whether all texts are the same, and where not, how close the choice was."""
    for name, runs in (("native", native), ("drafted", drafted)):
        if any(run.tokens != runs[0].tokens for run in runs):
            return f"differs from one {name} run to the next"
    texts = native[0].tokens, drafted[0].tokens
    audit = DivergenceAudit(trial.target.model, TOLERANCE).row(trial.ids, *texts)
    if audit is None:
        return "identical to native greedy decoding"
    ours, theirs = (
        repr(trial.target.tokenizer.decode([audit[name]])) for name in ("spec_token", "ar_token")
    )
    return (
        f"differs from native from token {audit['position'] + 1} on: {ours} for {theirs}, "
        f"whose logits are {audit['gap_in_ulps']:.3g} units in the last place apart"
    )


def computed_line(trial: Trial) -> str:
    """Precision and device."""
    return line("computed", f"in {trial.dtype} on {backend.name()}, {backend.chip()}")
