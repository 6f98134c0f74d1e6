# Pre-registered experiments on diffusion-drafted speculative decoding.
#
# Two evidence roots, one graph: build/PROFILE/measured/STUDY comes from the rules that run models,
# build/PROFILE/committed/STUDY is derived from the rows in results/PROFILE/STUDY. No rule writes
# results/, so a failed or killed rule cannot touch committed evidence. `snakemake --list` shows
# what can be asked for; `audit`, `published` and `rprm_stage2` stand in rules/ with their commands.
from snakemake.utils import min_version

min_version("9.0")


configfile: "config/config.yaml"


include: "rules/common.smk"
include: f"rules/corpus_{CORPUS_KIND}.smk"
include: f"rules/target_{TARGET_KIND}.smk"


for name in ADAPTER_RULES:

    include: f"rules/{name}.smk"


include: "rules/measure.smk"
include: "rules/act4s.smk"
include: "rules/analyse.smk"
include: "rules/judge.smk"
include: "rules/report.smk"


rule all:
    """Train, then measure, judge and report rprm and paired_timing (the default)."""
    default_target: True
    input:
        f"{BUILD}/report/measured/index.html",
        comparisons(*FIRST_STUDIES),


rule rprm:
    """Measure and judge the study rprm: does a drafter's entropy tell what will be accepted?"""
    input:
        f"{BUILD}/measured/rprm/verdict.json",


rule paired_timing:
    """Measure and judge the study paired_timing: greedy K=4 against native decoding."""
    input:
        f"{BUILD}/measured/paired_timing/verdict.json",


rule act4s:
    """Measure, judge and report the study act4s: does a drafter pay, and at which width?"""
    input:
        f"{BUILD}/measured/act4s/verdict.json",
        f"{BUILD}/report/measured/act4s/index.html",
        comparisons("act4s"),


rule reanalyse:
    """Derive every verdict and the reports again from committed rows; runs no model."""
    input:
        f"{BUILD}/report/committed/index.html",
        f"{BUILD}/report/committed/act4s/index.html",
        expand(f"{BUILD}/committed/{{study}}/comparison.json", study=STUDIES),


rule reanalyse_rprm:
    """Derive the verdict of rprm again from committed rows; runs no model."""
    input:
        f"{BUILD}/committed/rprm/comparison.json",


rule reanalyse_paired_timing:
    """Derive the verdict of paired_timing again from committed rows; runs no model."""
    input:
        f"{BUILD}/committed/paired_timing/comparison.json",


rule reanalyse_act4s:
    """Derive the verdict of act4s again from committed rows; runs no model."""
    input:
        f"{BUILD}/committed/act4s/comparison.json",
        f"{BUILD}/report/committed/act4s/index.html",


rule compare:
    """Do the verdicts measured here, and those derived again, equal the committed ones?"""
    input:
        expand(
            f"{BUILD}/{{evidence}}/{{study}}/comparison.json",
            evidence=EVIDENCE,
            study=STUDIES,
        ),


rule report:
    """The report on rprm and paired_timing measured here, as HTML and Markdown."""
    input:
        f"{BUILD}/report/measured/index.html",
