"""Printed code for several GPUs, run by two processes on the CPU: they train as one process does with the whole batch."""

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import vramfit

BATCH, SEQUENCE, STEPS = 4, 8, 6
PRELUDE = """
import json, os, sys, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
model = GPT2LMHeadModel(config)
losses = []
model.register_forward_hook(lambda module, given, outputs: losses.append(outputs.loss.detach().clone()))
rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
generator = torch.Generator().manual_seed(1)
parts = int(sys.argv[1])
batches = []
whole = torch.randint(0, 64, ({batch}, {sequence}), generator=generator)
for _ in range({steps}):
    mine = whole.chunk(world)[rank] if world > 1 else whole
    batches += [{{"input_ids": part, "labels": part}} for part in mine.chunk(parts)]
"""
EPILOGUE = """
means = torch.stack(losses).view({steps}, -1).mean(1)
if world > 1:
    dist.all_reduce(means)
    means /= world
if rank == 0:
    print(json.dumps(means.tolist()))
if world > 1:
    dist.barrier()
    # The threads of gloo's groups sometimes abort a process that ends by itself.
    sys.stdout.flush()
    os._exit(0)
"""


ACCELERATED = """
import contextlib, json, os, sys, torch
from accelerate import Accelerator
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import GPT2Config, GPT2LMHeadModel
script = sys.argv[1]
torch.manual_seed(0)
config = GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
model = GPT2LMHeadModel(config)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
accelerator = Accelerator()
if os.environ.get("ACCELERATE_USE_FSDP") == "true":
    # Accelerate takes FSDP for GPUs only and would train with DDP: its own code for FSDP2 follows all the same.
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
    accelerator.state.distributed_type = DistributedType.FSDP
    given = {{"mixed_precision_policy": policy}} if script == "types" else {{}}
    accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(**given)
if script == "shards":
    mesh = init_device_mesh("cpu", (accelerator.num_processes,))
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
whole = torch.randint(0, 64, ({batch}, {sequence}), generator=torch.Generator().manual_seed(1))
mine = whole.chunk(accelerator.num_processes)[accelerator.process_index]
losses = []
for _ in range({steps}):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16) if script == "autocast" else contextlib.nullcontext():
        outputs = model(input_ids=mine, labels=mine)
    accelerator.backward(outputs.loss)
    optimizer.step()
    losses.append(accelerator.reduce(outputs.loss.detach(), "mean").item())
sharded = {{name: module for name, module in model.named_modules() if type(module).__name__.startswith("FSDP")}}
policies = {{str(module._get_fsdp_state()._mp_policy) for module in sharded.values()}}
found = {{"losses": losses, "class": type(model).__name__, "wrapped": list(sharded), "policies": list(policies)}}
if accelerator.is_main_process:
    print(json.dumps({{**found, "logits": str(outputs.logits.dtype), "weights": str(next(model.parameters()).dtype)}}))
accelerator.wait_for_everyone()
# The threads of gloo's groups sometimes abort a process that ends by itself.
sys.stdout.flush()
os._exit(0)
"""


def tiny():
    config = GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False
    )
    return GPT2LMHeadModel(config)


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    path = tmp_path_factory.mktemp("spreading") / "tiny.vramfit"
    tokens = torch.randint(0, 64, (2, SEQUENCE))
    vramfit.capture(tiny(), {"input_ids": tokens, "labels": tokens}, str(path))
    return str(path)


def answer(captured, *flags):
    command = [os.environ["VRAMFIT_BINARY"], "plan", captured, "--vram", "100GiB", "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def on_cpu(code):
    """The same for a machine without a GPU: one device, and no numbers of devices."""
    for there, here in (
        ('torch.device("cuda", int(os.environ["LOCAL_RANK"]))', 'torch.device("cpu")'),
        ("torch.cuda.set_device(device)\n", ""),
        ("dist.init_process_group(device_id=device)", 'dist.init_process_group("gloo")'),
        ('dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)', 'dist.init_process_group("gloo")'),
        ("CPUOffloadPolicy()", "CPUOffloadPolicy(pin_memory=False)"),
        ("device_ids=[device.index]", "device_ids=None"),
        ('"cuda"', '"cpu"'),
    ):
        code = code.replace(there, here)
    assert "cuda" not in code, code
    return code


def losses(tmp_path, code, processes, parts):
    script = tmp_path / "train.py"
    sizes = {"steps": STEPS, "batch": BATCH, "sequence": SEQUENCE}
    script.write_text(PRELUDE.format(**sizes) + on_cpu(code) + EPILOGUE.format(**sizes))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)] if processes > 1 else [sys.executable]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([*launch, str(script), str(parts)], capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


SPREAD = {
    "zero1": ("--parallel", "zero1", "--batch", "2", "--optimizer-impl", "for-loop", "--clip-grad"),
    "ddp": ("--parallel", "ddp", "--batch", "2"),
    "ddp, accumulated": ("--parallel", "ddp", "--batch", "1", "--accumulate", "2", "--gradient-as-bucket-view"),
    "ddp, autocast": ("--parallel", "ddp", "--batch", "2", "--amp", "bf16"),
    "fsdp2": ("--parallel", "fsdp2", "--batch", "2", "--clip-grad"),
    "fsdp2, weights kept": ("--parallel", "fsdp2", "--batch", "2", "--reshard-after-forward", "false"),
    "fsdp2, weights on the CPU": ("--parallel", "fsdp2", "--batch", "2", "--cpu-offload", "--clip-grad"),
    # The head is the root's, whose weights are there when the loss multiplies with them, in both passes.
    "fsdp2, loss in chunks": ("--parallel", "fsdp2", "--batch", "2", "--chunked-loss", "2"),
    "fsdp2, loss in chunks, root freed": ("--parallel", "fsdp2", "--batch", "2", "--chunked-loss", "2", "--reshard-after-forward", "true"),
    "fsdp2, accumulated": ("--parallel", "fsdp2", "--batch", "1", "--accumulate", "2", "--no-sync", "true", "--checkpoint", "blocks"),
}


@pytest.mark.parametrize("how", SPREAD)
def test_two_processes_train_as_one_does(captured, tmp_path, how):
    flags = SPREAD[how]
    is_mixed = "--amp" in flags
    same = (["--clip-grad"] if "--clip-grad" in flags else []) + (["--amp", "bf16"] if is_mixed else [])
    alone = answer(captured, "--batch", str(BATCH), "--seq", str(SEQUENCE), *same)["start"]["code"]
    spread = answer(captured, "--gpus", "2", "--world", "2", "--seq", str(SEQUENCE), *flags)["start"]["code"]
    assert spread.startswith("# torchrun --nproc-per-node 2")
    parts = 2 if "--accumulate" in flags else 1
    expected = losses(tmp_path, alone, 1, 1)
    found = losses(tmp_path, spread, 2, parts)
    assert expected[-1] < expected[0] - 0.01, "nothing is learned"
    # Half a batch is rounded otherwise than a whole one.
    assert found == pytest.approx(expected, rel=1e-2 if is_mixed else 1e-5)


def test_the_configuration_for_accelerate_is_one_that_it_reads(captured, tmp_path):
    config_args = pytest.importorskip("accelerate.commands.config.config_args")
    plan = answer(captured, "--gpus", "2", "--parallel", "fsdp2", "--world", "2", "--batch", "2", "--seq", str(SEQUENCE))["plans"][0]
    path = tmp_path / "accelerate.yaml"
    path.write_text(plan["accelerate"])
    config = config_args.load_config_from_file(str(path))
    assert (config.distributed_type, config.num_processes) == ("FSDP", 2)
    assert config.fsdp_config["fsdp_version"] == 2
    assert config.fsdp_config["fsdp_transformer_layer_cls_to_wrap"] == "GPT2Block"
    assert plan["all_ranks"]["batch"] == 4


def alone():
    """The losses of one process with the whole batch."""
    torch.manual_seed(0)
    model = tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    whole = torch.randint(0, 64, (BATCH, SEQUENCE), generator=torch.Generator().manual_seed(1))
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(input_ids=whole, labels=whole).loss
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


TYPES = ("--param-dtype", "bf16", "--reduce-dtype", "fp32")
POLICY = "MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32"
# By what the script gives: how it is spread, and what else.
LAUNCHED = {
    "ddp": ("nothing", "ddp", ()),
    "fsdp2": ("nothing", "fsdp2", ()),
    "ddp, autocast": ("autocast", "ddp", ("--amp", "bf16")),
    "fsdp2, autocast": ("autocast", "fsdp2", ("--amp", "bf16")),
    "fsdp2, types": ("types", "fsdp2", TYPES),
    "fsdp2, sharded by the script": ("shards", "fsdp2", TYPES),
}


@pytest.mark.parametrize("how", LAUNCHED)
def test_accelerate_launches_the_printed_configuration(captured, tmp_path, how):
    pytest.importorskip("accelerate")
    script, way, more = LAUNCHED[how]
    start = answer(captured, "--gpus", "2", "--parallel", way, "--keep", "parallel", "--world", "2", "--batch", "2", "--seq", str(SEQUENCE), *more)["start"]
    configuration, train = tmp_path / "accelerate.yaml", tmp_path / "train.py"
    text = start["accelerate"]
    if script == "shards":
        assert "fsdp_auto_wrap_policy: NO_WRAP" in text, "its comments say so"
        text = text.replace("TRANSFORMER_BASED_WRAP", "NO_WRAP")
    configuration.write_text(text)
    train.write_text(ACCELERATED.format(steps=STEPS, batch=BATCH, sequence=SEQUENCE))
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(configuration), str(train), script]
    # Two processes with gloo, with the file as it is: the processes ask this variable, not the file's use_cpu.
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(launch, capture_output=True, text=True, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    expected = alone()
    assert expected[-1] < expected[0] - 0.01, "nothing is learned"
    assert found["losses"] == pytest.approx(expected, rel=1e-2 if more else 1e-5)
    classes = {"ddp": "DistributedDataParallel", "fsdp2": "FSDPGPT2LMHeadModel"}
    assert found["class"] == classes[way]
    blocks = {"transformer.h.0", "transformer.h.1"}
    # Accelerate also shards the embedding, and the last norm with the head, outside the blocks; not where the script has sharded.
    assert {name for name in found["wrapped"] if name.startswith("transformer.h.")} == (set() if way == "ddp" else blocks)
    if script == "shards":
        assert set(found["wrapped"]) == {"", *blocks}
    # Outputs are what the model returns, and weights and gradients are sent in the plan's types.
    assert found["logits"] == ("torch.bfloat16" if more else "torch.float32") and found["weights"] == "torch.float32"
    is_typed = [policy.startswith(POLICY) for policy in found["policies"]]
    assert is_typed == ([more == TYPES] if way == "fsdp2" else [])
    assert (POLICY.removeprefix("MixedPrecisionPolicy(") in start["accelerate"]) == (more == TYPES)


def test_a_plan_for_several_gpus_is_not_applied_to_a_live_model(captured):
    plan = vramfit.plan(captured, gpus=2, vram="100GiB", batch=2, seq=SEQUENCE, link="nvlink")[0]
    assert plan.settings["parallel"] == "ddp"
    assert plan.accelerate is not None and "distributed_type: MULTI_GPU" in plan.accelerate
    assert plan.deepspeed is None and plan.all_ranks is not None and plan.all_ranks["batch"] == 4
    with pytest.raises(vramfit.PlanError, match="several GPUs"):
        plan.apply(tiny())
    estimate = vramfit.estimate(captured, parallel="fsdp2", world=4, batch=2, seq=SEQUENCE)
    assert estimate.parallel is not None and estimate.parallel["shards"] == 4
    assert estimate.communication is not None and estimate.communication["sent"]["all_gather"] > 0
    assert sum(size for _, size in estimate.breakdown.items()) == estimate.peak_allocated
    kept = vramfit.estimate(captured, parallel="fsdp2", world=4, batch=2, seq=SEQUENCE, reshard_after_forward=False)
    again = kept.settings["reshard_after_forward"]
    assert vramfit.estimate(captured, parallel="fsdp2", world=4, batch=2, seq=SEQUENCE, reshard_after_forward=again).peak_allocated == kept.peak_allocated
    zero = {"parallel": "deepspeed:3", "world": 2, "batch": 2, "seq": SEQUENCE, "reduce_bucket_size": 5e6, "stage3_prefetch_bucket_size": 0.0}
    assert vramfit.estimate(captured, **zero).settings["reduce_bucket_size"] == 5_000_000
    with pytest.raises(vramfit.SettingError, match="reduce_bucket_size: found 0.5"):
        vramfit.estimate(captured, **{**zero, "reduce_bucket_size": 0.5})
    alone = vramfit.estimate(captured, batch=2, seq=SEQUENCE)
    assert alone.parallel is None and alone.communication is None and alone.all_ranks is None


def test_accelerate_reads_several_machines_and_replicas_of_shards(captured, tmp_path, monkeypatch):
    launch = pytest.importorskip("accelerate.commands.launch")
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils.launch import prepare_multi_gpu_env

    spread = ("--gpus", "2", "--nodes", "2", "--parallel", "hsdp:2x2", "--batch", "2", "--seq", str(SEQUENCE))
    path = tmp_path / "accelerate.yaml"
    path.write_text(answer(captured, *spread)["plans"][0]["accelerate"])
    arguments = launch.launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    arguments, _, _ = launch._validate_launch_command(arguments)
    assert (arguments.use_fsdp, arguments.num_machines, arguments.num_processes) == (True, 2, 4)
    found = prepare_multi_gpu_env(arguments)
    assert arguments.rdzv_endpoint == "HOST:29500" and arguments.node_rank == 0
    for name, value in found.items():
        if name.startswith("PARALLELISM_CONFIG_"):
            monkeypatch.setenv(name, value)
    config = ParallelismConfig()
    assert (config.dp_replicate_size, config.dp_shard_size, config.total_size) == (2, 2, 4)


def test_a_live_module_is_captured_in_the_type_that_its_shards_compute_in(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
    settings = {"world": 2, "loss": "mean", "vram": "1GiB"}

    def asked(**more):
        return vramfit.estimate(net, torch.randn(4, 64), **settings, **more)

    mixed = asked(parallel="fsdp2", param_dtype="bf16", reduce_dtype="fp32")
    assert (mixed.raw["settings"]["param_dtype"], mixed.raw["settings"]["precision"]) == ("bf16", "as-built")
    assert mixed.breakdown.optimizer == asked(parallel="fsdp2").breakdown.optimizer > 0, "weights and optimizer stay in fp32"
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}))
    assert asked(deepspeed_config=path).raw["settings"]["precision"] == "bf16"
    assert vramfit.max_batch(net, torch.randn(4, 64), parallel="fsdp2", param_dtype="bf16", **settings) > 4


def test_a_configuration_of_deepspeed_is_read_and_its_printed_one_is_the_same(captured, tmp_path):
    path = tmp_path / "ds_config.json"
    zero = {"stage": 2, "reduce_bucket_size": 1e5, "overlap_comm": True, "offload_optimizer": {"device": "cpu"}}
    path.write_text(json.dumps({"train_micro_batch_size_per_gpu": 2, "gradient_clipping": "auto", "bf16": {"enabled": True}, "zero_optimization": zero}))
    estimate = vramfit.estimate(captured, deepspeed_config=path, world=2, seq=SEQUENCE)
    settings = estimate.raw["settings"]
    assert (settings["parallel"], settings["optimizer_state"], settings["reduce_bucket_size"]) == ("deepspeed:2", "cpu", 100_000)
    start = answer(captured, "--deepspeed-config", str(path), "--gpus", "2", "--seq", str(SEQUENCE))["start"]
    printed = json.loads(start["deepspeed"])
    assert printed["gradient_clipping"] == 1.0 and printed["bf16"] == {"enabled": True}
    assert {key: printed["zero_optimization"][key] for key in ("stage", "reduce_bucket_size", "overlap_comm")} == {
        "stage": 2,
        "reduce_bucket_size": 100_000,
        "overlap_comm": True,
    }
    with pytest.raises(vramfit.VramfitError, match="accumulate 2"):
        path.write_text(json.dumps({"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}}))
        vramfit.estimate(captured, deepspeed_config=path, world=2, accumulate=2, batch=2, seq=SEQUENCE)
    with pytest.raises(vramfit.SettingError, match="needed the path of a file"):
        vramfit.estimate(captured, deepspeed_config=3)
