"""Modules of peft and bitsandbytes are captured as they will be stored on the GPU."""

import pytest
import torch

peft = pytest.importorskip("peft")
bnb = pytest.importorskip("bitsandbytes")

import vramfit  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Network(torch.nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(width), Block(width))
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(x)).mean()


def quantized(model: torch.nn.Module, scheme: str) -> torch.nn.Module:
    """The linear layers of the blocks as bitsandbytes has them, not quantised yet."""
    for name, layer in list(model.blocks.named_modules()):
        if not isinstance(layer, torch.nn.Linear):
            continue
        if scheme == "int8":
            made = bnb.nn.Linear8bitLt(layer.in_features, layer.out_features, True, has_fp16_weights=False, threshold=6.0)
            made.weight = bnb.nn.Int8Params(layer.weight.data, requires_grad=False, has_fp16_weights=False)
        else:
            made = bnb.nn.Linear4bit(layer.in_features, layer.out_features, True, compute_dtype=torch.float32, quant_type=scheme)
            made.weight = bnb.nn.Params4bit(layer.weight.data, requires_grad=False, quant_type=scheme, module=made)
        made.bias = layer.bias
        model.blocks.set_submodule(name, made)
    return model


def captured(model, tmp_path):
    inputs = torch.randn(4, 16, 128)
    return vramfit.capture(model, inputs, tmp_path / "model.vramfit", only={("as-built", "train")})


def weight(capture, name):
    return next(row for row in capture.contents["parameters"] if name in row["names"])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_four_bit_weights_are_packed_whatever_device_they_are_on(device, tmp_path):
    with torch.device(device):
        model = quantized(Network(), "nf4")
    capture = captured(model, tmp_path)
    row = weight(capture, "blocks.0.up.weight")
    assert (row["shape"], row["dtype"]) == ([128 * 256 // 2, 1], "uint8")
    assert row["quantized"]["shape"] == [256, 128] and row["quantized"]["nested"] and not row["quantized"]["moved_packed"]
    states = {buffer["names"][0].rsplit(".", 1)[-1]: buffer["shape"] for buffer in capture.contents["buffers"][:5]}
    assert states == {"quant_map": [16], "nested_offset": [], "nested_absmax": [2], "absmax": [512], "nested_quant_map": [256]}


def test_weights_that_are_quantised_already_are_moved_as_they_are(tmp_path):
    model = quantized(Network(), "nf4").to("cpu")
    assert model.blocks[0].up.weight.dtype is torch.uint8
    assert weight(captured(model, tmp_path), "blocks.0.up.weight")["quantized"]["moved_packed"]


def test_the_model_is_as_it_was(tmp_path):
    model = quantized(Network(), "nf4")
    before = model.blocks[0].up.weight
    captured(model, tmp_path)
    assert model.blocks[0].up.weight is before and before.dtype is torch.float32
    assert model.blocks[0].up.quant_state is None


def test_the_backward_of_a_quantised_layer_is_recorded(tmp_path):
    model = quantized(Network(), "nf4")
    names = [name for name, _ in captured(model, tmp_path).contents["operators"]]
    assert "bitsandbytes.gemm_4bit.default" in names and "bitsandbytes.dequantize_4bit.default" in names


@pytest.mark.parametrize("scheme", ["nf4", "fp4", "int8"])
def test_quantised_models_with_adapters_have_an_answer_without_gaps(scheme, tmp_path):
    model = quantized(Network(), scheme)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    setattr(model, "is_loaded_in_8bit" if scheme == "int8" else "is_loaded_in_4bit", True)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["up", "down"], r=4))
    answer = vramfit.estimate(adapted, torch.randn(4, 16, 128))
    assert answer.unmodelled == ()
    plain = vramfit.estimate(Network(), torch.randn(4, 16, 128))
    assert answer.breakdown.optimizer < plain.breakdown.optimizer


def test_a_plan_with_adapters_is_refused_by_apply_and_runs_as_printed():
    model, inputs = Network(2048), {"x": torch.randn(2, 16, 2048)}
    plans = vramfit.plan(model, inputs, vram="240MiB", optimizer="adamw")
    adapted = [plan for plan in plans if any(change.trick == "adapters" for change in plan.changes)]
    assert adapted, plans
    with pytest.raises(vramfit.errors.PlanError, match="trains adapters"):
        adapted[0].apply(model, torch.optim.AdamW(model.parameters()))
    code = adapted[0].code.replace('device = "cuda"', 'device = "cpu"').replace("fused=True", "")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(adapted[0].settings["precision"], torch.float32)
    exec(code, {"model": Network(2048), "batches": [{name: tensor.to(dtype) for name, tensor in inputs.items()}]})
