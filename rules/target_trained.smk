# Target. Needs the corpus; makes an ordinary model folder (config, safetensors, tokenizer) in
# build/PROFILE/target, which mlx_lm.load reads.


rule train_target:
    """Train the tiny target from scratch; killed, it goes on from its last checkpoint."""
    input:
        profile=ancient(PROFILE_FILE),
        corpus=CORPUS_FILES,
    output:
        multiext(
            f"{BUILD}/target/",
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "training.json",
            "training.csv",
        ),
    log:
        f"{BUILD}/logs/train_target.txt",
    conda:
        "../envs/models.yaml"
    # Nothing can run beside it; more than two BLAS threads do not help matrices this small.
    threads: 2
    params:
        version=version("train_target.py", "target"),
        corpus=lambda wildcards, input: folder(input.corpus),
        out=lambda wildcards, output: folder(output),
        work=work("target", "train_target.py", "target"),
    shell:
        "python workflow_scripts/logged.py {log} --discard {params.work}"
        " train_target.py --profile {input.profile} --corpus {params.corpus}"
        " --out {params.out} --work {params.work}"
