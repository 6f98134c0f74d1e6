"""What scripts leave in their folder: all of it, and so what their rules declare."""

OUTPUTS = {
    "train_target": {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.csv",
        "training.json",
    },
    "train_adapter": {"adapter.safetensors", "training.csv", "training.json"},
    "take_adapter": {"adapter.safetensors", "training.csv", "training.json"},
}
