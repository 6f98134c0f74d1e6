"""The seeds that the measurement takes from a plan, or from the command line."""

from diffdraft.studies.settings import Seed, Seeds


class DecodingSeeds(Seeds):
    """`seeds:` of prereg/act4s.yaml that the measurement reads.

    Prompt i drafts from `draft_noise` + i, and its random proposals come from `random_drafter` +
    i. `arm_order` orders the arms, and `context` draws the passages.
    """

    draft_noise: Seed
    arm_order: Seed
    context: Seed
    random_drafter: Seed
