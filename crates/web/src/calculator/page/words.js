// The page's words in English and Chinese.
"use strict";

const WORDS = {
  en: {
    skip: "Skip to the answer", motto: "Will your training fit on the GPU? Simulated operator by operator, not guessed by a formula.",
    token: "This server wants a token", "wrong-token": "Not the token of this server", show: "Show", question: "Your training", answer: "The answer", model: "Model",
    file: "Open a file…", "your-file": "Your file", more: "All other settings", changed: "{number} changed", reset: "Reset all settings",
    timeline: "Memory over {steps} steps", compare: "On other GPUs", "add-gpu": "Add a GPU…", remove: "Remove {gpu}",
    plan: "What makes it fit, or fit better", search: "Search for plans", fix: "Find what makes it fit",
    "plan-help": "Simulates combinations of changes and ranks those that fit by the time they cost.",
    holders: "The largest holders of memory at the peak", again: "The same answer elsewhere", "command-help": "On the command line:",
    "link-help": "In a browser; the address has all settings:",
    "link-help-file": "In a browser; the address has all settings, but not the file: drop {file} on the page again.",
    copy: "Copy", copied: "Copied", drop: "Drop a config.json, .vramfit, .pt2 or model.toml",
    footer: "Everything is computed by the program that serves this page. Nothing is sent anywhere else.",
    "footer-engine": "Everything is computed in this browser. Nothing is sent anywhere.", "no-engine": "The engine could not be loaded ({why}).",
    "engine-failed": "vramfit failed at this question; please report it with the address of the page",
    "no-server": "No answer from vramfit ({why}). Is it still running?", "no-answer": "No answer for these settings", "no-limit": "on the device; no limit was given",
    title: "{verdict} {where}", "verdict-fits": "Fits", "verdict-too-close": "Too close to call", "verdict-does-not-fit": "Does not fit",
    "on-gpu": "on the {gpu}", "in-cap": "in {cap}", needs: "Needs {needed} of {capacity} GiB", "stays-free": "; {left} ({share} %) stay free.",
    short: ", {short} short", "needs-file": "Open {file} again", "needs-file-help": "The link has all settings, but not the file: open {file} above, or drop it on the page.", later: "; {needed} in later steps",
    "too-large": "{file} has {size}; at most {most} are taken here. The command line has no such limit.", "whole-number": "needs a whole number from 1 on", "may-die": "; some simulations fit and others do not.", "nccl-may": " without NCCL, which may take up to {most}: more than stays free.", "dies-in": ". Dies in {what} ({when}).", "dies-when": ". Dies in {when}.",
    "dies-build": ". Dies while the model and its inputs are moved to the GPU.", "op-of": "{op} of {module}", when: "step {step}, {phase}",
    draft: "from the {steps} steps shown; later ones are being simulated…",
    precision: "Precision", "as-built": "as built", autocast: "autocast {dtype}", optimizer: "Optimizer", checkpoint: "Checkpointing", off: "off", blocks: "every block",
    "chosen-modules": "chosen modules", quantize: "Quantise", accumulate: "Micro-batches a step", parameters: "parameters", unset: "not set",
    largest: "largest that fits: {batch}", "at-least": "at least {batch} fit", "no-batch": "not even one sample fits",
    "peak-allocated": "Peak allocated", "peak-reserved": "Peak reserved", "device-used": "In nvidia-smi", "peak-at": "Peak in",
    exact: "exact to the byte", between: "{low} to {high}", "give-or-take": "give or take {bytes}", "with-context": "with {context} of CUDA context",
    "part-parameters": "parameters", "part-gradients": "gradients", "part-optimizer": "optimizer", "part-activations": "activations", "part-inputs": "inputs", "part-outputs": "outputs",
    "part-temporary": "temporary", "part-workspace": "workspaces", "part-communication": "communication", "part-rounding": "rounding", "part-cached": "cached, unused", "part-context": "CUDA context",
    "about-parameters": "Weights and buffers", "about-gradients": "Gradients", "about-optimizer": "The optimizer's state", "about-activations": "What the forward pass keeps for the backward pass",
    "about-inputs": "Inputs and targets", "about-outputs": "What the model returned", "about-temporary": "What an operator or the optimizer uses for a moment",
    "about-workspace": "Workspaces of cuBLAS and cuDNN", "about-rounding": "What blocks are larger than what was requested", "about-cached": "Reserved by PyTorch's caching allocator, used by no tensor",
    "about-communication": "What is exchanged with the other GPUs", "about-context": "What CUDA takes for the process", "bar-label": "{needed} of {capacity}", "timeline-label": "Allocated memory, request by request; the peak is {peak}",
    "holder-size": "Size", "holder-kind": "Kind", "holder-module": "Module", "holder-code": "Code", "the-model": "the model",
    searching: "Simulating candidates…", "nothing-fits": "Nothing fits: the leanest candidate is {missing} short. The smallest GPU that would do: {gpu}.", "none-found": "No plan was found.",
    "cut-short": "The search was stopped; these are the best plans so far.", "time-axis": "time for the same work, 1× is as it is now", times: "{times}× the time",
    "plot-help": "{number} candidates were simulated. Each dot is a plan: click it, or choose one below. The line is what the GPU has.", "as-it-is": "as it is now", "between-changes": "; ", code: "Code of the chosen plan", "use-plan": "Set everything as in this plan",
    gpus: "GPUs to spread it over", link: "Link between them", "one-gpu": "one GPU", "all-gpus": "all {number} GPUs", "ranks-reserved": "reserved at the peak", "ranks-sent": "sent in a step", "ranks-batch": "batch",
    accelerate: "Configuration of Accelerate",
    "no-accelerate": "No Accelerate file: {why}.",
    "group-none": "The same results", "group-mixed-precision": "Mixed precision", "group-weight-state": "Another optimizer, or fewer trained weights", "group-smaller-dtype": "The whole model in a smaller type", "group-smaller-training": "Smaller batch, sequence or image",
  },
  zh: {
    skip: "跳到结果", motto: "你的训练能放进这块 GPU 吗？逐算子模拟，而不是套公式估算。",
    token: "此服务器需要令牌", "wrong-token": "令牌不对", show: "显示", question: "你的训练", answer: "结果", model: "模型",
    file: "打开文件…", "your-file": "你的文件", more: "其他所有设置", changed: "已改 {number} 项", reset: "重置所有设置",
    timeline: "{steps} 步中的显存", compare: "换成其他 GPU", "add-gpu": "添加 GPU…", remove: "移除 {gpu}",
    plan: "怎样才能放得下，或放得更好", search: "搜索方案", fix: "怎样才放得下？",
    "plan-help": "模拟各种改动的组合，把放得下的按时间代价排序。",
    holders: "峰值时占用显存最多的对象", again: "在别处得到同样的结果", "command-help": "命令行：",
    "link-help": "浏览器；地址里包含所有设置：",
    "link-help-file": "浏览器；地址里包含所有设置，但不含文件：请把 {file} 再拖到页面上。",
    copy: "复制", copied: "已复制", drop: "拖放 config.json、.vramfit、.pt2 或 model.toml",
    footer: "一切都由提供此页面的程序计算，不会发送到其他地方。",
    "footer-engine": "一切都在这个浏览器里计算，不会发送到任何地方。", "no-engine": "无法加载计算引擎（{why}）。",
    "engine-failed": "vramfit 无法回答这个问题；请连同页面地址一起报告",
    "no-server": "vramfit 没有回应（{why}）。它还在运行吗？", "no-answer": "这些设置没有结果", "no-limit": "的显存；没有给出上限",
    title: "{where} {verdict}", "verdict-fits": "放得下", "verdict-too-close": "难以断定", "verdict-does-not-fit": "放不下",
    "on-gpu": "{gpu}", "in-cap": "{cap}", needs: "需要 {needed} GiB，共有 {capacity} GiB", "stays-free": "；剩余 {left}（{share} %）。",
    short: "，还差 {short}", "needs-file": "请重新打开 {file}", "needs-file-help": "链接包含所有设置，但不含文件：请在上面打开 {file}，或把它拖到页面上。", later: "；之后的步骤 {needed}",
    "too-large": "{file} 有 {size}；这里最多接受 {most}。命令行没有这个限制。", "whole-number": "需要 1 或更大的整数", "may-die": "；有的模拟放得下，有的放不下。", "nccl-may": "（不含 NCCL，它最多可能占用 {most}，超过剩余的显存）。", "dies-in": "。在 {what} 处爆显存（{when}）。", "dies-when": "。在{when}爆显存。",
    "dies-build": "。在把模型和输入搬到 GPU 时爆显存。", "op-of": "{module} 的 {op}", when: "第 {step} 步，{phase}",
    draft: "仅据显示的 {steps} 步；之后的步骤正在模拟…",
    precision: "精度", "as-built": "原样", autocast: "autocast {dtype}", optimizer: "优化器", checkpoint: "激活检查点", off: "关", blocks: "每个块",
    "chosen-modules": "指定模块", quantize: "量化", accumulate: "每步的微批次数", parameters: "个参数", unset: "未设置",
    largest: "放得下的最大批大小：{batch}", "at-least": "批大小至少可到 {batch}", "no-batch": "连一个样本都放不下",
    "peak-allocated": "已分配峰值", "peak-reserved": "已预留峰值", "device-used": "nvidia-smi 显示", "peak-at": "峰值出现在",
    exact: "精确到字节", between: "{low} 到 {high}", "give-or-take": "误差 {bytes}", "with-context": "含 CUDA 上下文 {context}",
    "part-parameters": "参数", "part-gradients": "梯度", "part-optimizer": "优化器", "part-activations": "激活值", "part-inputs": "输入", "part-outputs": "输出",
    "part-temporary": "临时", "part-workspace": "工作区", "part-communication": "通信", "part-rounding": "取整", "part-cached": "缓存未用", "part-context": "CUDA 上下文",
    "about-parameters": "权重和缓冲区", "about-gradients": "梯度", "about-optimizer": "优化器状态", "about-activations": "前向传播为反向传播保留的张量",
    "about-inputs": "输入和目标", "about-outputs": "模型的返回值", "about-temporary": "算子或优化器短暂使用的内存",
    "about-workspace": "cuBLAS 和 cuDNN 的工作区", "about-rounding": "内存块比请求大的部分", "about-cached": "PyTorch 缓存分配器预留、没有张量使用的内存",
    "about-communication": "与其他 GPU 交换的数据", "about-context": "CUDA 为进程占用的内存", "bar-label": "{needed}，共 {capacity}", "timeline-label": "逐个请求的已分配显存；峰值 {peak}",
    "holder-size": "大小", "holder-kind": "种类", "holder-module": "模块", "holder-code": "代码", "the-model": "模型本身",
    searching: "正在模拟候选方案…", "nothing-fits": "都放不下：最省的方案还差 {missing}。够用的最小 GPU：{gpu}。", "none-found": "没有找到方案。",
    "cut-short": "搜索已停止；这些是目前最好的方案。", "time-axis": "完成同样工作的时间，1× 为当前设置", times: "{times}× 时间",
    "plot-help": "模拟了 {number} 个候选方案。每个点是一个方案：点击它，或在下面选择。横线是 GPU 的容量。", "as-it-is": "保持现状", "between-changes": "；", code: "所选方案的代码", "use-plan": "按此方案设置",
    gpus: "分布到几块 GPU", link: "GPU 之间的连接", "one-gpu": "一块 GPU", "all-gpus": "全部 {number} 块 GPU", "ranks-reserved": "峰值预留", "ranks-sent": "每步发送", "ranks-batch": "批大小",
    accelerate: "Accelerate 的配置",
    "no-accelerate": "没有 Accelerate 的配置：{why}。",
    "group-none": "结果相同", "group-mixed-precision": "混合精度", "group-weight-state": "换优化器，或训练更少的权重", "group-smaller-dtype": "整个模型用更小的类型", "group-smaller-training": "更小的批大小、序列或图像",
  },
};

const NAMES = {
  sizes: { batch: ["Batch", "批大小"], seq: ["Sequence length", "序列长度"], seq_labels: ["Sequence length of labels", "标签序列长度"], image: ["Image size", "图像尺寸"], height: ["Height", "高"], width: ["Width", "宽"] },
  phases: { build: ["build", "构建"], forward: ["forward", "前向"], backward: ["backward", "反向"], step: ["optimizer", "优化器"], eval: ["eval", "评估"] },
  "short-phases": { forward: ["fwd", "前"], backward: ["bwd", "反"], step: ["opt", "优"], eval: ["eval", "评"] },
  groups: { Model: ["Model", "模型"], "Fine-tuning": ["Fine-tuning", "微调"], Training: ["Training", "训练"], GPU: ["GPU", "GPU"], "Several GPUs": ["Several GPUs", "多 GPU"] },
  tasks: {
    "image classification": ["image classification", "图像分类"], "language modelling": ["language modelling", "语言建模"], "word language modelling": ["word language modelling", "词级语言建模"],
    "sequence classification": ["sequence classification", "序列分类"], "segmentation, 2 classes": ["segmentation, 2 classes", "分割，2 类"], "segmentation, 21 classes": ["segmentation, 21 classes", "分割，21 类"],
    "speech to text": ["speech to text", "语音转文本"], "text to text": ["text to text", "文本到文本"], "images and texts, contrastive loss": ["images and texts, contrastive loss", "图文对比学习"],
  },
  options: {
    size: ["Other sizes", "其他尺寸"], mode: ["Mode", "模式"], grad: ["Keep the graph in evaluation", "评估时保留计算图"], "lora-targets": ["LoRA targets", "LoRA 目标层"], "lora-dropout": ["LoRA dropout", "LoRA dropout"],
    "quantize-compute": ["Compute type of nf4", "nf4 计算类型"], "optimizer-groups": ["Parameter groups", "参数组"], "optimizer-state": ["Where the state is", "优化器状态位置"], "step-in-backward": ["Step in backward", "在反向传播中更新"],
    "optimizer-impl": ["Implementation", "优化器实现"], "weight-decay": ["Weight decay", "权重衰减"], "clip-grad": ["Clip gradients", "梯度裁剪"], "cudnn-benchmark": ["cudnn.benchmark", "cudnn.benchmark"], "channels-last": ["Channels last", "通道在后"], "fused-attention": ["Fused attention", "融合注意力"], "in-place": ["Activations in place", "就地激活"],
    inputs: ["Inputs", "输入"], outputs: ["Outputs", "输出"], "checkpoint-save": ["Results that checkpoints keep", "检查点保留的结果"], "offload-activations": ["Offload activations", "激活值卸载"], "chunked-loss": ["Loss in chunks", "分块计算损失"],
    "fused-linear-loss": ["Fused loss", "融合损失"], freeze: ["Frozen weights", "冻结的权重"], ema: ["Moving average of weights", "权重滑动平均"], "zero-grad": ["Where zero_grad is called", "zero_grad 的位置"],
    "set-to-none": ["set_to_none", "set_to_none"], loss: ["Loss", "损失"], steps: ["Steps", "步数"], vram: ["Limit on PyTorch's memory", "PyTorch 显存上限"], "alloc-conf": ["Allocator settings", "分配器设置"], torch: ["PyTorch version", "PyTorch 版本"],
    parallel: ["Spread over GPUs", "并行方式"], world: ["Number of GPUs", "GPU 数量"], shard: ["Sharded modules", "分片的模块"], "reshard-after-forward": ["Reshard after forward", "前向后重新分片"],
    "param-dtype": ["Compute type of shards", "分片的计算类型"], "reduce-dtype": ["Type of reduced gradients", "梯度归约类型"], "cpu-offload": ["Shards on the CPU", "分片放在 CPU"],
    "gradient-as-bucket-view": ["Gradients as bucket views", "梯度作为桶视图"], "static-graph": ["Static graph", "静态图"], "no-sync": ["Reduce in the last micro-batch", "仅最后一个微批次归约"],
    "reduce-bucket-size": ["DeepSpeed's bucket of gradients", "DeepSpeed 的梯度桶"], "overlap-comm": ["Overlap communication", "通信与计算重叠"],
    "gradient-clipping": ["DeepSpeed clips gradients", "DeepSpeed 裁剪梯度"], "stage3-prefetch-bucket-size": ["Elements gathered ahead", "提前收集的元素"],
    "stage3-max-live-parameters": ["Most gathered elements", "最多收集的元素"], "stage3-max-reuse-distance": ["Weights kept for reuse within", "在此距离内重用的权重保留"],
    "stage3-param-persistence-threshold": ["Weights that stay gathered", "保持收集的权重"], "offload-param": ["Parts of weights on the CPU", "权重分片放在 CPU"],
  },
};

function words(key, values = {}) {
  const text = WORDS[state.language][key] ?? WORDS.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

const named = (kind, name) => NAMES[kind][name]?.[state.language === "zh" ? 1 : 0] ?? name;
const sizeName = (name) => named("sizes", name);
const phaseName = (name) => named("phases", name);
const shortPhaseName = (name) => named("short-phases", name);
const groupName = (name) => named("groups", name);
const taskName = (name) => named("tasks", name);
const optionName = (name) => named("options", name);

// The fixed words of the page.
function translate() {
  document.documentElement.lang = state.language === "zh" ? "zh-CN" : "en";
  for (const place of document.querySelectorAll("[data-t]")) place.textContent = words(place.dataset.t);
  if (ENGINE) element("footer").textContent = words("footer-engine");
  for (const button of document.querySelectorAll("[data-language]")) button.setAttribute("aria-pressed", String(button.dataset.language === state.language));
}
