"""A pretrained target that installed packages carry as a GGUF file, made an MLX model folder."""
