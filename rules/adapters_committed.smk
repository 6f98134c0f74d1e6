# Committed adapters. Needs the evidence in results/PROFILE/adapters, and the target; makes the
# drafters in build/PROFILE/adapters by copying, in place of training them here.

ADAPTER_EVIDENCE = f"{RESULTS}/adapters"
ADAPTER_MANIFEST = f"{ADAPTER_EVIDENCE}/MANIFEST.json"


rule take_adapter:
    """Take a committed drafter: the file of the manifest, for this profile and this target."""
    input:
        profile=ancient(PROFILE_FILE),
        # A clone sets file times at random; the manifest's digest in `version` tells of a change.
        manifest=ancient(ADAPTER_MANIFEST),
        target=TARGET_FILES,
    output:
        f"{BUILD}/adapters/{{adapter}}/adapter.safetensors",
        f"{BUILD}/adapters/{{adapter}}/training.csv",
        f"{BUILD}/adapters/{{adapter}}/training.json",
    log:
        f"{BUILD}/logs/take_adapter_{{adapter}}.txt",
    wildcard_constraints:
        adapter="|".join(ADAPTER_TAGS),
    conda:
        "../envs/analysis.yaml"
    params:
        version=f"{version('take_adapter.py')}-{files.sha256_file(ADAPTER_MANIFEST)[:12]}",
        evidence=lambda wildcards, input: folder([input.manifest]),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " take_adapter.py --profile {input.profile} --tag {wildcards.adapter}"
        " --evidence {params.evidence} --target {params.target} --out {params.out}"
