"""The figures of study `act4s`, drawn, by name: file stem and one sentence on what each shows."""

from collections.abc import Callable

from matplotlib.figure import Figure

from diffdraft.report import act4s_figures_cost as cost
from diffdraft.report import act4s_figures_drafts as drafts
from diffdraft.report import act4s_figures_policies as policies
from diffdraft.report import act4s_figures_speed as speed
from diffdraft.report import document, style
from diffdraft.report.act4s_inputs import Act4s
from diffdraft.report.document import Block, Picture

CAPTIONS = {
    "block_size": "Tokens a second by block size with the quartiles of runs and native decoding as "
    "a band, and the paired ratio to native with its interval over prompts.",
    "category": "Paired speed-up over native in each prompt category, one mark a block size.",
    "survival": "Share of cycles in which at least j proposals were accepted, for fixed block "
    "sizes and for the controls.",
    "histogram": "Share of cycles by number of accepted proposals, one panel a block size.",
    "stages": "Median milliseconds that a cycle spends on draft, verification, commit and "
    "overhead, timed between the same points in every arm.",
    "forwards": "Tokens a forward against paired speed-up with its interval over prompts, one mark "
    "an arm; on the dotted line every forward would cost what a native one does.",
    "refinement": "Accepted proposals a cycle and paired speed-up with its interval over prompts, "
    "by the number of draft passes.",
    "controls": "Paired speed-up with its interval over prompts and accepted proposals a cycle, "
    "for the trained drafter and for drafters that have learned less or nothing.",
    "context": "Log ratio of native to drafted wall time with its interval over passages, by "
    "length of the context.",
    "confidence": "Accepted proposals a cycle by bin of the drafter's mean top-1 probability in "
    "that cycle.",
    "adaptive": "Paired speed-up with its interval over prompts of arms that choose the width, "
    "beside fixed widths, and the share of cycles at each width.",
    "degeneration": "Accepted share against repetition of the native text by prompt and length, "
    "and acceptance before and inside the repetition by arm.",
    "length": "Paired speed-up over native with its interval over prompts, by tokens generated.",
    "cost_curve": "Median milliseconds of one forward by its number of rows with quartiles, and "
    "the least-squares lines, for both dtypes.",
    "cost_parts": "Share of each part of the model in the time of a forward, by its rows.",
    "break_even": "Chance that slot j is accepted, and the chance above which it pays, one panel a "
    "block size.",
}


def show(study: Act4s, name: str) -> Block:
    """The figure of this name, drawn."""
    figure = style.png_bytes(DRAW[name](study))
    return document.picture(Picture(f"act4s_{name}", CAPTIONS[name], figure))


def _table(draw: Callable[..., Figure], *stems: str) -> Callable[[Act4s], Figure]:
    """A figure of the analysis and some tables."""
    return lambda study: draw(study.analysis, *(study.tables[stem] for stem in stems))


DRAW: dict[str, Callable[[Act4s], Figure]] = {
    "block_size": _table(speed.by_block_size, "summary"),
    "category": _table(speed.by_category, "by_category"),
    "survival": _table(drafts.survival, "survival"),
    "histogram": _table(drafts.histogram, "histogram"),
    "stages": _table(cost.stages, "summary"),
    "forwards": _table(speed.forwards_against_speed, "summary"),
    "refinement": _table(drafts.refinement, "summary"),
    "controls": _table(drafts.controls, "summary"),
    "context": _table(speed.by_context, "summary"),
    "confidence": _table(drafts.confidence, "confidence_bins"),
    "adaptive": _table(policies.adaptive, "summary", "policy_choices"),
    "degeneration": _table(policies.degeneration, "degeneration", "loop_phases"),
    "length": _table(speed.by_length, "summary"),
    "cost_curve": _table(cost.curve, "cost_curve"),
    "cost_parts": lambda study: cost.parts(study.tables["cost_parts"]),
    "break_even": lambda study: cost.break_even(study.tables["slot_break_even"]),
}
