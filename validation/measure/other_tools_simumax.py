"""What SimuMax says of measured ranks, as lines for validation/measured/other-tools.jsonl.

    python3 validation/measure/other_tools_simumax.py FOLDER   # a checkout of github.com/MooreThreads/SimuMax; needs pandas, sympy, matplotlib

SimuMax knows decoders of Llama's kind as Megatron trains them: data parallel, with the optimizer's state split over the ranks or not, and
tensor parallel. It keeps weights in half precision and always counts master weights and Adam's state in single precision. DeepSpeed's stage 1
does so, too; the other cases train in half precision alone, so that their figures are those of another recipe.
"""

import json
import sys

import fork_pool

fork_pool.prepare_environment()

PLAIN = ("llama-small", "llama-no-cache", "llama-1b")
ZERO = {"ddp": 0, "tp": 0, "zero1": 1, "deepspeed:1": 1}


def is_known(case):
    is_plain = (case.optimizer, case.optimizer_state, case.amp) == ("adamw", "gpu", "none")
    return is_plain and case.model in PLAIN and case.parallel in ZERO and case.dtype in ("bf16", "fp16")


def asked(folder, case, config):
    """Peak bytes of a rank."""
    from simumax.core import perf_llm
    from simumax.core.config import ModelConfig, StrategyConfig, SystemConfig

    # It writes sizes as words with four digits.
    perf_llm.convert_final_result_to_human_format = lambda result: None
    layers, recomputes = config["num_hidden_layers"], case.checkpoint == "blocks"
    strategy = StrategyConfig(
        seq_len=case.seq,
        micro_batch_size=case.batch,
        micro_batch_num=case.accumulate,
        dtype=case.dtype,
        world_size=case.world,
        tp_size=case.world if case.parallel == "tp" else 1,
        zero_state=ZERO[case.parallel],
        enable_sequence_parallel=False,
        grad_reduce_in_bf16=True,  # gradients in half precision
        enable_recompute=recomputes,
        recompute_granularity="full_block" if recomputes else None,
        recompute_layer_num=layers if recomputes else 0,
    )
    model = ModelConfig(
        model_type="dense",
        model_name=case.model,
        hidden_size=config["hidden_size"],
        head_num=config["num_attention_heads"],
        kv_head_num=config["num_key_value_heads"],
        head_size=config["hidden_size"] // config["num_attention_heads"],
        intermediate_size=config["intermediate_size"],
        layer_num=layers,
        vocab_size=config["vocab_size"],
        use_swiglu=True,
    )
    model.padded_vocab_size = False
    # Only times depend on the system.
    system = SystemConfig.init_from_config_file(f"{folder}/configs/system/a100_pcie.json")
    simulated = perf_llm.PerfLLM()
    simulated.configure(strategy_config=strategy, model_config=model, system_config=system)
    simulated.run_estimate()
    return int(simulated.analysis_mem().data["peak_mem"])


def main():
    folder = sys.argv[1]
    sys.path.insert(0, folder)
    from cases import CASES, MODELS

    for case in filter(is_known, CASES.values()):
        has_masters = case.parallel == "deepspeed:1"
        tool = "SimuMax" if has_masters else "SimuMax, other recipe"
        peak = asked(folder, case, MODELS[case.model].arguments["config"][1])
        print(json.dumps({"tool": tool, "case": case.name, "peak": peak}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
