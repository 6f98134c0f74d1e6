"""The numbers of the RPRM analysis, as its plan must give them."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from diffdraft.studies.settings import Count, Percentiles, Seed, Seeds, Settings, Share


class RprmAnalysis(Settings):
    """`analysis:` of prereg/rprm.yaml.

    `fit_share` and `validation_share` are of windows, TEST is the rest; `floor_windows` is the
    number below which the study is abandoned; a within-offset cell is adequate with
    `adequate_cell_n` TEST rows and `adequate_bucket_n` in its low and in its high bin, and it is
    signed when the AUROC of minus entropy is above `cell_auroc_above`.
    """

    fit_share: Share
    validation_share: Share
    floor_windows: Count
    quantile_bins: Annotated[int, Field(ge=2)]
    within_offset_bins: Annotated[int, Field(ge=2)]
    timestep_bins: Annotated[int, Field(ge=2)]
    calibration_bins: Annotated[int, Field(ge=2)]
    adequate_cell_n: Count
    adequate_bucket_n: Count
    cell_auroc_above: Share
    wilson_z: Annotated[float, Field(gt=0)]
    probability_clip: Annotated[float, Field(gt=0, lt=0.5)]
    linear_predictor_clip: Annotated[float, Field(gt=0)]
    shuffles: Count
    shuffle_percentiles: Percentiles
    resamples: Count
    interval_percentiles: Percentiles

    @model_validator(mode="after")
    def _test_is_not_empty(self) -> Self:
        if self.fit_share + self.validation_share >= 1:
            raise ValueError("fit_share + validation_share below 1, so that TEST has windows")
        return self


class RprmSeeds(Seeds):
    """`seeds:` of prereg/rprm.yaml that the analysis reads; shuffle r uses `shuffle_first` + r."""

    split: Seed
    shuffle_first: Seed
    bootstrap_auroc: Seed
    bootstrap_log_loss: Seed
