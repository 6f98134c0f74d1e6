"""The numbers of the analysis of Act IV-S, as its plan must give them."""

from typing import Annotated

from pydantic import Field

from diffdraft.studies.settings import Count, Percentiles, Seed, Seeds, Settings, Share


class Act4sAnalysis(Settings):
    """`analysis:` of prereg/act4s.yaml.

    Ratios are `baseline_arm` time over arm time; `block_size` is K of the primary claim, and
    `margin_floor` a log ratio. A prompt is loop-free where the share of `loop_ngram`-grams of its
    native text that repeat earlier ones is below `loop_free_below`.
    """

    baseline_arm: Annotated[str, Field(min_length=1)]
    block_size: Count
    floor_prompts: Count
    resamples: Count
    interval_percentiles: Percentiles
    margin_floor: Annotated[float, Field(ge=0)]
    loop_ngram: Count
    loop_free_below: Share
    ulp_tolerance: Annotated[float, Field(ge=1)]
    confidence_bins: Count

    @property
    def arm(self) -> str:
        """The arm of the primary claim."""
        return f"uno_k{self.block_size}"


class Act4sSeeds(Seeds):
    """`seeds:` of prereg/act4s.yaml that the analysis reads."""

    bootstrap: Seed
