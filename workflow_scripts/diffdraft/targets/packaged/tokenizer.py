"""The tokenizer of a GGUF file: byte-pair merges rebuilt from a vocabulary with scores.

The file holds pieces, their scores and their kinds, as SentencePiece (Kudo and Richardson,
1808.06226) trained them, but no merges. Two neighbours may merge when the result is a piece, the
best score first. So the merges are, for each piece, every split of it into two pieces. Blanks are
"▁" inside; what no piece covers becomes its UTF-8 bytes.

A control piece written out in a text ("<bos>") is taken for the control token, as the publisher's
own tokenizer takes it; a "▁" in a text comes back as a blank. All other text comes back unchanged.
"""

from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors

from diffdraft.errors import UserError
from diffdraft.targets.packaged.gguf_file import GGUFFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # token types of GGUF
BLANK, SPACE = "▁", " "
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
# What else the file may ask for would change every text: only these settings are carried over.
SETTINGS: dict[str, str | bool] = {
    "model": "llama",  # SentencePiece with scores
    "add_bos_token": True,
    "add_eos_token": False,
    "add_space_prefix": False,
}
NAMED = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, their scores and kinds, and the ids that have a name."""

    pieces: list[str]
    scores: list[float]
    kinds: list[int]
    named: dict[str, int]

    def of_kind(self, *kinds: int) -> list[str]:
        """Pieces of some kinds, in the order of their ids."""
        return [piece for piece, kind in zip(self.pieces, self.kinds, strict=True) if kind in kinds]


def read_vocabulary(file: GGUFFile) -> Vocabulary:
    """The vocabulary of the file. Raises `UserError` for one that cannot be rebuilt."""
    for name, expected in SETTINGS.items():
        key = f"tokenizer.ggml.{name}"
        kind: Any = type(expected)
        found = file.get(key, kind)
        if found != expected:
            raise UserError(file.name, key, found, expected)
    columns = [file.get(f"tokenizer.ggml.{name}", list) for name in ("tokens", "scores")]
    kinds = file.get("tokenizer.ggml.token_type", list)
    named = {name: file.get(f"tokenizer.ggml.{key}_token_id", int) for name, key in NAMED.items()}
    vocabulary = Vocabulary(columns[0], columns[1], kinds, named)
    _check(file.name, vocabulary)
    return vocabulary


def _check(name: str, vocabulary: Vocabulary) -> None:
    pieces, key = vocabulary.pieces, "tokenizer.ggml.tokens"
    lengths = {len(pieces), len(vocabulary.scores), len(vocabulary.kinds)}
    if len(lengths) > 1:
        raise UserError(name, key, f"{sorted(lengths)} entries", "as many scores and types")
    if len(set(pieces)) < len(pieces):
        raise UserError(name, key, "a piece twice", "distinct pieces")
    if missing := sorted(set(BYTES) - set(vocabulary.of_kind(BYTE))):
        raise UserError(name, key, f"no {missing[0]}", "a piece for each of the 256 bytes")
    for token, id_ in vocabulary.named.items():
        if not 0 <= id_ < len(pieces):
            raise UserError(name, token, id_, f"an id below {len(pieces)}")


def merges(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    """Every pair of pieces whose join is a piece, the best score first, then the lower ids."""
    score = {
        piece: (-value, id_)
        for id_, (piece, value, kind) in enumerate(
            zip(vocabulary.pieces, vocabulary.scores, vocabulary.kinds, strict=True)
        )
        if kind == NORMAL
    }
    splits = ((piece, piece[:cut], piece[cut:]) for piece in score for cut in range(1, len(piece)))
    found = [split for split in splits if split[1] in score and split[2] in score]
    found.sort(key=lambda split: (score[split[0]], score[split[1]][1], score[split[2]][1]))
    return [(left, right) for _, left, right in found]


def build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """The tokenizer: the beginning token in front, and every id as the file has it."""
    ids = {piece: id_ for id_, piece in enumerate(vocabulary.pieces)}
    unknown = vocabulary.pieces[vocabulary.named["unk_token"]]
    tokenizer = Tokenizer(
        models.BPE(vocab=ids, merges=merges(vocabulary), byte_fallback=True, unk_token=unknown)
    )
    tokenizer.normalizer = normalizers.Replace(SPACE, BLANK)
    # `mlx_lm` knows this very sequence, and streams text by it.
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(BLANK, SPACE), decoders.ByteFallback(), decoders.Fuse()]
    )
    tokenizer.add_special_tokens(_added(vocabulary.of_kind(UNKNOWN, CONTROL), special=True))
    tokenizer.add_tokens(_added(vocabulary.of_kind(USER_DEFINED), special=False))
    begin = vocabulary.pieces[vocabulary.named["bos_token"]]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A $B", special_tokens=[(begin, ids[begin])]
    )
    return tokenizer


def _added(pieces: list[str], special: bool) -> list[AddedToken]:
    """Found in the text as it stands, the longest first, before blanks are replaced."""
    return [AddedToken(piece, special=special, normalized=False) for piece in pieces]


def tokenizer_config(vocabulary: Vocabulary, context: int) -> dict[str, Any]:
    """The tokenizer_config.json.

    It names no mask token, though the vocabulary has one: drafting draws its noise from the ids
    below that, which here would be three control tokens.
    """
    return {name: vocabulary.pieces[id_] for name, id_ in vocabulary.named.items()} | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
    }
