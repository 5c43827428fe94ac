"""torchaudio's models."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
import torchaudio.models as models
from examples import BATCH, Example, floats, integers, total

_SECOND = 16000


def _wave() -> Any:
    return (floats(BATCH, _SECOND),)


def _lengths(*sizes: int) -> torch.Tensor:
    return torch.tensor(sizes, dtype=torch.int32)


_MODELS: Dict[str, Tuple[Callable[[], torch.nn.Module], Callable[[], Any]]] = {
    "Conformer": (lambda: models.Conformer(80, 4, 128, 2, 31), lambda: (floats(BATCH, 100, 80), torch.tensor([100, 80]))),
    "ConvTasNet": (models.ConvTasNet, lambda: (floats(BATCH, 1, 8000),)),
    "conv_tasnet_base": (models.conv_tasnet_base, lambda: (floats(BATCH, 1, 8000),)),
    "DeepSpeech": (lambda: models.DeepSpeech(64), lambda: (floats(BATCH, 1, 100, 64),)),
    "Emformer": (
        lambda: models.Emformer(512, 8, 2048, 2, 4, right_context_length=1), lambda: (floats(BATCH, 9, 512), _lengths(9, 7))),
    "emformer_rnnt_base": (
        lambda: models.emformer_rnnt_base(128),
        lambda: (floats(BATCH, 68, 80), _lengths(64, 64), integers(127, BATCH, 20).int(), _lengths(20, 16))),
    "HDemucs": (lambda: models.HDemucs(["drums", "vocals"]), lambda: (floats(BATCH, 2, 44100),)),
    "hdemucs_low": (lambda: models.hdemucs_low(["drums", "vocals"]), lambda: (floats(BATCH, 2, 44100),)),
    "hubert_pretrain_base": (models.hubert_pretrain_base, lambda: (floats(BATCH, _SECOND), integers(100, BATCH, 49))),
    "SquimObjective": (models.squim_objective_base, _wave),
    "SquimSubjective": (models.squim_subjective_base, lambda: (floats(BATCH, _SECOND), floats(BATCH, _SECOND))),
    "Tacotron2": (
        models.Tacotron2,
        lambda: (integers(100, BATCH, 20), torch.tensor([20, 15]), floats(BATCH, 80, 30), torch.tensor([30, 25]))),
    "Wav2Letter": (models.Wav2Letter, lambda: (floats(BATCH, 1, _SECOND),)),
    "WaveRNN": (
        lambda: models.WaveRNN([5, 5, 8], 512, 200), lambda: (floats(BATCH, 1, (10 - 4) * 200), floats(BATCH, 1, 128, 10))),
}
for _name in ("hubert_base", "hubert_large", "wav2vec2_base", "wav2vec2_large", "wav2vec2_large_lv60k", "wav2vec2_xlsr_300m", "wavlm_base", "wavlm_large"):
    _MODELS[_name] = (getattr(models, _name), _wave)


def names() -> List[str]:
    """The models listed here."""
    return list(_MODELS)


def examples(name: str) -> Iterator[Example]:
    """The model with its own default sizes."""
    build, inputs = _MODELS[name]
    yield Example(build, lambda _: inputs(), total)
