# Target. Needs the pinned snapshot of the hub (its cache, the network, or `--config model=FOLDER`);
# makes a model folder in build/PROFILE/target whose weights are links to it.

from diffdraft.hub import requirements

GIVEN = requirements.Given(
    *(Path(config[key]) if config.get(key) else None for key in HUB_KEYS),
    None if ADAPTER_SOURCE == "train" else ADAPTER_SOURCE,
)
# A dry run lists the jobs; before them this tells what they need.
if workflow.output_settings.dryrun:
    for line in requirements.explain(ACTIVE, GIVEN, Path("prereg")):
        print(line, file=sys.stderr)


# In place of the one in rules/common.smk.
onstart:
    hold_run_lock()
    checked(
        requirements.refuse_missing,
        ACTIVE,
        GIVEN,
        Path("prereg"),
        measured_studies(),
    )


rule fetch_target:
    """Check that it is the pinned snapshot, and link to it."""
    input:
        profile=ancient(PROFILE_FILE),
    output:
        TARGET_FILES,
    log:
        f"{BUILD}/logs/fetch_target.txt",
    conda:
        "../envs/models.yaml"
    params:
        version=version("fetch_target.py", "target"),
        model=option("model"),
        given=given(config.get("model")),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " fetch_target.py --profile {input.profile} {params.model:q} --out {params.out}"
