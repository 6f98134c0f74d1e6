# Adapters. Needs the corpus and the target; makes the two drafters of the study rprm (primary and
# replication) in build/PROFILE/adapters.


rule train_adapter:
    """Train one drafter against the frozen target; killed, it goes on from its checkpoint."""
    input:
        profile=ancient(PROFILE_FILE),
        corpus=rules.build_corpus.output,
        target=rules.train_target.output,
    output:
        f"{BUILD}/adapters/{{tag}}/adapter.safetensors",
        f"{BUILD}/adapters/{{tag}}/training.csv",
        f"{BUILD}/adapters/{{tag}}/training.json",
    log:
        f"{BUILD}/logs/train_adapter_{{tag}}.txt",
    conda:
        "../envs/models.yaml"
    threads: MODEL_THREADS
    params:
        version=lambda wildcards: version("train_adapter.py", "adapters", wildcards.tag),
        corpus=lambda wildcards, input: folder(input.corpus),
        target=lambda wildcards, input: folder(input.target),
        out=lambda wildcards, output: folder(output),
        work=lambda wildcards: work(
            f"adapter_{wildcards.tag}", "train_adapter.py", "adapters", wildcards.tag
        ),
    shell:
        "python workflow_scripts/logged.py {log} --discard {params.work}"
        " train_adapter.py --profile {input.profile} --tag {wildcards.tag}"
        " --corpus {params.corpus} --target {params.target} --out {params.out}"
        " --work {params.work}"
