# Target. Needs the packages that carry it (the extra `gemma`) and no corpus, since the text
# of such a profile is made from the target. Makes an ordinary model folder (config, safetensors,
# tokenizer) in build/PROFILE/target, which mlx_lm.load reads.


rule convert_target:
    """Convert the GGUF file inside installed packages, whole or not at all."""
    input:
        profile=ancient(PROFILE_FILE),
    output:
        multiext(
            f"{BUILD}/target/",
            "config.json",
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "conversion.json",
        ),
    log:
        f"{BUILD}/logs/convert_target.txt",
    conda:
        "../envs/gemma.yaml"
    params:
        version=version("convert_target.py", "target"),
        out=lambda wildcards, output: folder(output),
    shell:
        "python workflow_scripts/logged.py {log}"
        " convert_target.py --profile {input.profile} --out {params.out}"
