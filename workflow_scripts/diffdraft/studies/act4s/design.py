"""Which arms, lengths and repeats the plan asks of every run, and the tables made from them."""

from dataclasses import dataclass

from diffdraft.prereg.schema import DecodingSample

TIMED_RUNS = ("baseline", "ksweep", "context", "controls", "adaptive", "confidence")
RUNS = (*TIMED_RUNS, "precision")
POLICY_ARMS = (
    "adapt_entropy",
    "adapt_survival",
    "adapt_survival_repaired",
    "adapt_ev",
    "adapt_confidence",
)
DTYPES = ("float32", "bfloat16")
NO_CONTEXTS = (0,)
TABLES = (
    "summary",
    "by_category",
    "histogram",
    "survival",
    "slot_break_even",
    "confidence_bins",
    "policy_choices",
    "degeneration",
    "loop_phases",
    "cost_curve",
    "cost_parts",
    "cost_model",
    "audit",
    "ties_summary",
)


@dataclass(frozen=True)
class RunDesign:
    """One run: `arms` x `max_tokens` x `contexts` x `repeats`, for every prompt.

    `contexts` are lengths of the text before the continuation, and `NO_CONTEXTS` where prompts are
    of any length. `dtypes` is empty where the run has one, whatever it is.
    """

    arms: tuple[str, ...]
    max_tokens: tuple[int, ...]
    repeats: int
    contexts: tuple[int, ...] = NO_CONTEXTS
    dtypes: tuple[str, ...] = ()


def designs(sample: DecodingSample, baseline_arm: str = "ar") -> dict[str, RunDesign]:
    """The design of every run of a sample."""
    k, tokens, repeats = sample.block_size, (sample.tokens,), sample.repeats
    arm = f"uno_k{k}"
    sweep = uno_arms(sample.block_sizes)
    controls = (
        arm,
        *(f"refine{passes}_k{k}" for passes in sample.refinements),
        *(f"ngram{order}_k{k}" for order in sample.ngram_orders),
        *(f"{name}_k{k}" for name in ("untrained", "shuffled", "random")),
    )
    chosen = (*uno_arms(sample.policies.allowed), *POLICY_ARMS)
    context = sample.context
    return {
        "baseline": RunDesign((baseline_arm, arm), tuple(sample.token_counts), repeats),
        "ksweep": RunDesign((baseline_arm, *sweep, f"{arm}_again"), tokens, repeats),
        "context": RunDesign(
            (baseline_arm, *uno_arms(context.block_sizes)),
            (context.tokens,),
            repeats,
            tuple(context.lengths),
        ),
        "controls": RunDesign((baseline_arm, *controls), tokens, repeats),
        "adaptive": RunDesign((baseline_arm, *chosen), tokens, repeats),
        "confidence": RunDesign((baseline_arm, f"conf_k{k}"), tokens, repeats),
        "precision": RunDesign((baseline_arm, *sweep), tokens, 1, dtypes=DTYPES),
    }


def uno_arms(block_sizes: list[int]) -> tuple[str, ...]:
    """Ids of the arms of fixed block size."""
    return tuple(f"uno_k{size}" for size in block_sizes)
