# Target. Needs the pinned snapshot of the hub (its cache, the network, or `--config model=FOLDER`);
# makes a model folder in build/PROFILE/target whose weights are links to it.


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
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " fetch_target.py --profile {input.profile} {params.model:q} --out {params.out}"
