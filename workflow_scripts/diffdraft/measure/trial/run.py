"""See a text being written, and what drafting is worth on it.

A trial is no measurement: one prompt, nothing kept. The text is shown as it is decoded, and the
speeds are then taken again from runs that show nothing.
"""

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TextIO

from tqdm import tqdm

from diffdraft.decoding.trace import Trace
from diffdraft.measure.speculative.protocol import WARMUP_TOKENS
from diffdraft.measure.trial import report
from diffdraft.measure.trial.marked_text import MarkedText, Marks, harmless, marks_for
from diffdraft.measure.trial.request import Trial, make_trial


def run(args: Namespace) -> None:
    """Write the text to standard output as it comes, then what it took.

    Raises:
        UserError: an option that is no number or out of range, no prompt, a model folder or an
            adapter that does not fit, or a prompt that the context has no room for.
    """
    trial = make_trial(args)
    both = args.compare and trial.adapter is not None
    for decode_once in (trial.native, trial.drafted) if both else (trial.drafted,):
        decode_once(min(WARMUP_TOKENS, trial.max_tokens))
    marks = marks_for(sys.stdout, args.plain)
    shown = show(trial, marks, sys.stdout)
    if not both:
        print(report.alone(trial, shown, marks))
        return
    sys.stdout.flush()
    print("timing both, two runs of each ...", file=sys.stderr)
    native, drafted = in_turns(trial.native, trial.drafted)
    print(report.compared(trial, native, drafted, marks))


def show(trial: Trial, marks: Marks, stream: TextIO) -> Trace:
    """Decode once and write prompt and text to `stream`, cycle by cycle."""
    text = MarkedText(trial.target.tokenizer, trial.ids, marks)
    stops = trial.target.tokenizer.eos_token_ids
    told = 0

    def on_commit(trace: Trace) -> None:
        nonlocal told
        if told == 0:
            stream.write(harmless(trial.prompt))
        new = trace.tokens[told:]
        told = len(trace.tokens)
        kept = [token for token in new if token not in stops]
        stream.write(text.add(kept, guessed(trace, len(new))[: len(kept)]))
        stream.flush()

    trace = trial.drafted(on_commit=on_commit)
    stream.write(text.finish() + "\n\n")
    return trace


def guessed(trace: Trace, new: int) -> list[bool]:
    """Which of the newest `new` tokens the drafter offered and the target accepted.

    A cycle commits the token that the target itself gave with the draft, then those accepted, then
    the target's next one; the end of the text may cut it short.
    """
    accepted = trace.cycles[-1].accepted if trace.cycles else 0
    return [1 <= place <= accepted for place in range(new)]


def in_turns(*arms: Callable[[], Trace]) -> list[list[Trace]]:
    """Traces of every arm, run forwards and then backwards, so that a drift is charged to none."""
    found: list[list[Trace]] = [[] for _ in arms]
    order = (*range(len(arms)), *reversed(range(len(arms))))
    for place in tqdm(order, disable=None, unit="run"):
        found[place].append(arms[place]())
    return found
