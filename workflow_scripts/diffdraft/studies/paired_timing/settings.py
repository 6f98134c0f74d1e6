"""The numbers of the paired-timing analysis, as its plan must give them."""

from typing import Annotated

from pydantic import Field

from diffdraft.studies.settings import Count, Percentiles, Seed, Seeds, Settings


class PairedTimingAnalysis(Settings):
    """`analysis:` of prereg/paired_timing.yaml; ratios are `baseline_arm` time over `arm` time."""

    baseline_arm: Annotated[str, Field(min_length=1)]
    arm: Annotated[str, Field(min_length=1)]
    floor_prompts: Count
    resamples: Count
    interval_percentiles: Percentiles


class PairedTimingSeeds(Seeds):
    """`seeds:` of prereg/paired_timing.yaml that the analysis reads."""

    bootstrap: Seed
