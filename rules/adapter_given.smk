# Adapter from outside. Needs the file or URL in `--config adapter=`, and the target; makes the
# primary drafter in build/PROFILE/adapters, in place of one trained here.


ruleorder: fetch_adapter > train_adapter


rule fetch_adapter:
    """Verify a drafter given by path or URL, and bind it to the target."""
    input:
        profile=ancient(PROFILE_FILE),
        target=TARGET_FILES,
    output:
        adapter=f"{BUILD}/adapters/primary/adapter.safetensors",
        record=f"{BUILD}/adapters/primary/fetched.json",
    log:
        f"{BUILD}/logs/fetch_adapter.txt",
    conda:
        "../envs/models.yaml"
    params:
        version=version("fetch_adapter.py", "target"),
        adapter=ADAPTER_SOURCE,
        given=given(ADAPTER_SOURCE),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder([output.adapter]),
    shell:
        "python workflow_scripts/logged.py {log}"
        " fetch_adapter.py --profile {input.profile} --adapter {params.adapter:q}"
        " --target {params.target} --out {params.out}"
