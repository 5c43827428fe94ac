// What the engine says in English, in Chinese: notes, warnings, and the changes of plans. An English sentence is its own key, with {names} for what
// varies in it; a value may be a phrase itself. What is not here stays English, and is marked as English.
"use strict";

const PHRASES = [
  // Notes of an estimate.
  ["{bytes} of the optimizer's state are in managed memory: neither PyTorch nor nvidia-smi counts them for the process, and the driver moves them to the CPU's memory where the GPU's is full",
    "优化器状态中有 {bytes} 位于托管内存：PyTorch 和 nvidia-smi 都不计入该进程；GPU 显存不足时，驱动会把它移到主机内存"],
  ["{flags}: no effect in evaluation", "{flags}：评估时没有作用"],
  ["--optimizer-impl: no effect with --optimizer none", "--optimizer-impl：与 --optimizer none 一起没有作用"],
  ["--loss: no effect, the captured step returns a loss", "--loss：没有作用，捕获的一步已经返回损失"],
  ["--loss none: there is no backward pass without a loss", "--loss none：没有损失就没有反向传播"],
  ["the captured step returns no loss: cross-entropy of the first output is added", "捕获的一步不返回损失：已加上第一个输出的交叉熵"],
  ["{name}: taken as the built-in model {model}, which is built in fp32; from_pretrained may load another type (--dtype)",
    "{name}：按内置模型 {model} 计算，它以 fp32 构建；from_pretrained 可能加载别的类型（--dtype）"],
  ["--vram: {gb} GB are {size}; a GPU sold with {gb} GB has {gb} GiB: --vram {gib}", "--vram：{gb} GB 等于 {size}；以 {gb} GB 出售的 GPU 有 {gb} GiB：--vram {gib}"],
  ["--gpu {name}: taken as the {gpu}; there are also {others}", "--gpu {name}：按 {gpu} 计算；此外还有 {others}"],
  ["a display on the {gpu} takes memory too, typically 70 to {most} on Linux and more than 1 GiB on Windows; `--vram {left}` leaves {room} for it",
    "连接在 {gpu} 上的显示器也占显存，Linux 上通常为 70 到 {most}，Windows 上超过 1 GiB；`--vram {left}` 会为它留出 {room}"],
  ["buffer {name}: no values on the meta device, {what} assumed", "缓冲区 {name}：meta 设备上没有数值，假定为 {what}"],
  ["zeros", "零"],
  ["--lora {rank}: an adapter of rank {least} can change the smallest adapted layer as much, with fewer weights", "--lora {rank}：秩为 {least} 的适配器对最小的一层已有同样的作用，而权重更少"],
  ["compute capability {compute} has no bfloat16: PyTorch emulates it, slowly", "计算能力 {compute} 不支持 bfloat16：PyTorch 用软件模拟，很慢"],
  ["cuDNN's workspaces are those of an H200; on the {gpu} it may choose others", "cuDNN 的工作区取自 H200；在 {gpu} 上它可能选择别的"],
  ["sizes that are not certain: {what}", "不能确定的大小：{what}"],
  ["memory does not repeat within the steps shown: from step {step} on it needs up to {bytes}", "在显示的步数内显存没有开始重复：从第 {step} 步起最多需要 {bytes}"],
  ["memory rules are those of torch {measured}, where they were measured; torch {version} may differ{libraries}", "显存规则是在 torch {measured} 上测得的；torch {version} 可能不同{libraries}"],
  [", and its wheels bring cuDNN {own}, not {measured}, so that convolutions may have other workspaces", "，而且它的安装包带的是 cuDNN {own}，不是 {measured}，卷积可能用别的工作区"],
  ["not measured on this GPU ({gpu}): {context}, cuBLAS's workspaces are from PyTorch's code; `vramfit calibrate` measures both there",
    "没有在这款 GPU（{gpu}）上测量过：{context}，cuBLAS 的工作区取自 PyTorch 的代码；在那台机器上运行 `vramfit calibrate` 可以测量两者"],
  ["the CUDA context is measured", "CUDA 上下文是测得的"],
  ["the CUDA context is a published figure ({room}; \"fits\" leaves room for the most)", "CUDA 上下文取自一个公开数字（{room}；“放得下”按最大值留出空间）"],
  ["the CUDA context is the median of {count} published figures ({room}; \"fits\" leaves room for the most)", "CUDA 上下文是 {count} 个公开数字的中位数（{room}；“放得下”按最大值留出空间）"],
  ["the CUDA context follows from the number of multiprocessors ({room}; \"fits\" leaves room for the most)", "CUDA 上下文由多处理器的数量推算（{room}；“放得下”按最大值留出空间）"],
  ["{low} to {high}", "{low} 到 {high}"],
  ["the CPU needs {bytes} of pinned memory for copies of the weights and their gradients, and more for the optimizer's state", "主机需要 {bytes} 锁页内存来存放权重和梯度的副本，优化器状态还要更多"],
  ["the workspaces of common convolutions on the {gpu} are those that cuDNN {version} chooses for compute capability {compute}; another version may choose others",
    "{gpu} 上常见卷积的工作区是 cuDNN {version} 为计算能力 {compute} 选择的；别的版本可能选择别的"],
  ["torch 2.11's CUDA 13 wheels do not run on compute capability {compute}: use those of CUDA {cuda}, which end with torch {torch}", "torch 2.11 的 CUDA 13 安装包不能在计算能力 {compute} 上运行：请用 CUDA {cuda} 的安装包，它们到 torch {torch} 为止"],
  ["torch 2.11's CUDA 13 wheels do not run on compute capability {compute}: use those of CUDA {cuda}", "torch 2.11 的 CUDA 13 安装包不能在计算能力 {compute} 上运行：请用 CUDA {cuda} 的安装包"],
  ["torch 2.11's CUDA 13 wheels do not run on compute capability {compute}", "torch 2.11 的 CUDA 13 安装包不能在计算能力 {compute} 上运行"],
  ["what CUDA sees of the {gpu}'s memory is not recorded: from 91 % ({low}) to all of it ({high}); \"fits\" means in the least of that. PyTorch names it in its out-of-memory error as \"total capacity\"",
    "没有记录 CUDA 能看到 {gpu} 的多少显存：从 91 %（{low}）到全部（{high}）；“放得下”按最小值计算。PyTorch 在显存不足的错误里称它为“total capacity”"],
  ["how many different rows a sparse gradient has depends on values: each row was taken to be as likely as any other", "稀疏梯度有多少个不同的行取决于数值：假定每一行的可能性相同"],
  ["the order in which some operators copy their saved tensors to the CPU is not simulated exactly", "有些算子把保存的张量复制到主机的顺序没有精确模拟"],
  ["ranks were measured one by one, with PyTorch's fake process group, whose collectives only copy", "各个 rank 是逐个测量的，用的是 PyTorch 的假进程组，它的集合通信只做复制"],
  ["NCCL takes {low} to {high} more on each GPU: no number counts it, and `fits` leaves room for it", "NCCL 在每块 GPU 上另占 {low} 到 {high}：各数字都不含它，而“放得下”为它留出空间"],
  ["each GPU sends {bytes} in a step", "每块 GPU 每步发送 {bytes}"],
  ["times are rough: they were measured on an H200 and scaled to the {gpu} by its peak rates", "时间是粗略的：在 H200 上测得，再按峰值速度换算到 {gpu}"],
  ["size `{name}` ({producer}) stays {size} at every batch", "尺寸 `{name}`（{producer}）在任何批大小下都是 {size}"],
  ["{gpus} GPUs are the fewest that would do, sharded by FSDP2 and otherwise as it is", "用 FSDP2 分片、其余不变，最少需要 {gpus} 块 GPU"],
  ["{gpus} GPUs are the fewest that would do, sharded by FSDP2 and otherwise as the first plan", "用 FSDP2 分片、其余同第一个方案，最少需要 {gpus} 块 GPU"],
  ["PyTorch refuses the backward pass of `{path}` ({class}) unless its input is channels_last: it computes in {computed}, and its running statistics stay in {stored}; cast them to {computed} too",
    "除非输入是 channels_last，PyTorch 会拒绝 `{path}`（{class}）的反向传播：它以 {computed} 计算，而运行统计量仍是 {stored}；请把它们也转换为 {computed}"],
  ["no number of GPUs up to {most} makes it fit by sharding alone", "只靠分片，{most} 块以内的 GPU 都放不下"],
  // Changes of plans.
  ["one batch of {batch}", "一个批次，大小 {batch}"],
  ["{count} micro-batches of {batch}", "{count} 个大小为 {batch} 的微批次"],
  ["QLoRA: weights in NF4, LoRA of rank {rank}", "QLoRA：权重用 NF4，LoRA 的秩为 {rank}"],
  ["LoRA of rank {rank}", "LoRA，秩为 {rank}"],
  ["nothing checkpointed", "不用激活检查点"],
  ["every block checkpointed", "每个块都用激活检查点"],
  ["checkpoint_sequential in {segments} segments", "checkpoint_sequential，分 {segments} 段"],
  ["checkpoints keep results of {what}", "检查点保留这些算子的结果：{what}"],
  ["checkpoint {modules}", "激活检查点：{modules}"],
  ["loss in {chunks} checkpointed chunks", "分 {chunks} 块计算损失，带检查点"],
  ["loss by LigerFusedLinearCrossEntropyLoss", "用 LigerFusedLinearCrossEntropyLoss 计算损失"],
  ["autocast fp16 with a GradScaler", "autocast fp16，带 GradScaler"],
  ["saved tensors in pinned host memory", "保存的张量放在锁页主机内存"],
  ["channels last", "通道在后"],
  ["channels as given", "通道顺序不变"],
  ["scaled_dot_product_attention in {places}", "在 {places} 使用 scaled_dot_product_attention"],
  ["edit these lines by hand; other random numbers drop scores, and results differ by rounding", "请手动修改这些行；dropout 会用到别的随机数，结果有舍入差别"],
  ["every operator of these modules is dispatched through Python: where the GPU waits for the CPU, plain checkpoints are faster", "这些模块的每个算子都经由 Python 分发：如果是 GPU 在等 CPU，普通检查点更快"],
  ["saved tensors in host memory", "保存的张量放在主机内存"],
  ["optimizer {name}", "优化器 {name}"],
  ["the {name} implementation of {optimizer}", "{optimizer} 的 {name} 实现"],
  ["the optimizer's state on the {place}", "优化器状态放在 {place}"],
  ["del outputs before backward, del loss after it", "反向传播前 del outputs，之后 del loss"],
  ["batch {batch}", "批大小 {batch}"],
  ["height {height}, width {width}", "高 {height}，宽 {width}"],
  ["seq {length}", "序列长度 {length}"],
  ["the whole model in {dtype}", "整个模型用 {dtype}"],
  ["a copy of the model on each of {gpus} GPUs (DDP), and a part of the optimizer (ZeroRedundancyOptimizer)", "{gpus} 块 GPU 各有一份模型（DDP）和一部分优化器（ZeroRedundancyOptimizer）"],
  ["a copy of the model on each of {gpus} GPUs (DDP)", "{gpus} 块 GPU 各有一份模型（DDP）"],
  ["sharded over {gpus} GPUs (FSDP2)", "分片到 {gpus} 块 GPU（FSDP2）"],
  ["sharded over {gpus} GPUs (FSDP2), gathered weights kept until the backward pass", "分片到 {gpus} 块 GPU（FSDP2），收集的权重保留到反向传播"],
  ["{copies} copies, each sharded over {gpus} GPUs (HSDP)", "{copies} 份模型，各分片到 {gpus} 块 GPU（HSDP）"],
  ["updates in the backward pass", "在反向传播中更新权重"],
  ["zero_grad(set_to_none={value}) before the forward pass", "在前向传播之前 zero_grad(set_to_none={value})"],
  ["{count} activations in place", "{count} 个激活函数就地计算"],
  // Their warnings.
  ["{count} batch norms compute their statistics over {samples} samples instead of all", "{count} 个批归一化层只用 {samples} 个样本计算统计量，而不是全部"],
  ["the loss is a mean over labels: if some are ignored (-100), micro-batches weigh the others differently", "损失是对标签取平均：如果有标签被忽略（-100），微批次会改变其余标签的权重"],
  ["checkpointed modules update buffers, such as the running statistics of batch norms, twice per step: they follow the data faster", "带检查点的模块每步更新缓冲区两次，例如批归一化的滑动统计量：它们会更快地跟随数据"],
  ["each weight has its own optimizer: schedulers and saved states are one for each, too, and gradients cannot be clipped", "每个权重有自己的优化器：调度器和保存的状态也各有一个，而且不能裁剪梯度"],
  ["only the adapters learn: for fine-tuning a trained model, not for training from scratch", "只有适配器在学习：适合微调训练好的模型，不适合从头训练"],
  ["outputs.logits are then the last hidden states, not logits", "此时 outputs.logits 是最后的隐藏状态，而不是 logits"],
  ["pure fp16 training overflows at 65,504 and loses gradients below 6e-8: most models do not train this way", "纯 fp16 训练在 65,504 处溢出，小于 6e-8 的梯度会丢失：多数模型无法这样训练"],
  ["with 8 significant bits small updates are lost: an update below 1/256 of a weight changes nothing", "只有 8 个有效二进制位，小的更新会丢失：小于权重 1/256 的更新不起作用"],
  ["the time is a lower bound: every operator of these modules is dispatched through Python, which was not measured", "时间是下限：这些模块的每个算子都经由 Python 分派，这部分没有测量"],
  ["the time does not count giving the images channels last on the CPU: let the workers of the loader do it", "时间不包括在 CPU 上把图像转换为 channels last：让数据加载器的工作进程来做"],
  ["everything that autograd saves, weights included, is copied to host memory: its time is rough, and the host needs as much", "autograd 保存的一切（包括权重）都复制到主机内存：时间只是粗略值，主机需要同样多的内存"],
  ["everything that autograd saves, weights included, is copied to host memory: its time is rough, and the host needs up to twice that: PyTorch rounds each up to a power of two", "autograd 保存的一切（包括权重）都复制到主机内存：时间只是粗略值，主机最多需要两倍的内存：PyTorch 把每个张量的大小向上取整到 2 的幂"],
  ["the states of large weights are in managed memory, which the driver moves to the CPU's where the GPU's is full: it does not count as allocated, and steps take longer then", "大权重的状态在托管内存里，GPU 显存不足时驱动会把它移到主机：它不计入已分配，这时每步会变慢"],
  ["the time is that of one machine's CPU and bus, and yours may take several times as long; the CPU needs memory for the weights, their gradients and the optimizer's state", "时间取自一台机器的 CPU 和总线，你的可能慢数倍；主机需要内存存放权重、梯度和优化器状态"],
  ["the time counts what is sent at {link} GB/s within a machine and {network} GB/s between machines, as far as it does not overlap with computing: an estimate", "时间按机器内 {link} GB/s、机器间 {network} GB/s 计算通信，只计与计算不重叠的部分：是估计值"],
  ["the time counts what is sent at {link} GB/s within a machine and {network} GB/s between machines, as far as it does not overlap with computing: an estimate; {more}", "时间按机器内 {link} GB/s、机器间 {network} GB/s 计算通信，只计与计算不重叠的部分：是估计值；{more}"],
  ["updates are priced as one machine's CPU and bus took, and yours may take several times as long", "更新的时间取自一台机器的 CPU 和总线，你的可能慢数倍"],
  ["updates are priced as one machine's CPU and bus took, and yours may take several times as long; {more}", "更新的时间取自一台机器的 CPU 和总线，你的可能慢数倍；{more}"],
  ["copies of weights from the CPU are not counted", "从 CPU 复制权重的时间没有计入"],
  ["DeepSpeed is another package; {more}", "DeepSpeed 是另一个软件包；{more}"],
  ["DeepSpeed is another package, and keeps master weights in fp32; {more}", "DeepSpeed 是另一个软件包，并保留 fp32 的主权重；{more}"],
  ["DeepSpeed is another package", "DeepSpeed 是另一个软件包"],
  ["DeepSpeed is another package, and keeps master weights in fp32", "DeepSpeed 是另一个软件包，并保留 fp32 的主权重"],
  ["ZeRO stage {stage} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}, weights and the optimizer's state on the CPU", "在 {world} 张 GPU 上使用 DeepSpeed 的 ZeRO 第 {stage} 阶段，reduce_bucket_size {bucket}，权重和优化器状态在 CPU 上"],
  ["ZeRO stage {stage} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}, weights on the CPU", "在 {world} 张 GPU 上使用 DeepSpeed 的 ZeRO 第 {stage} 阶段，reduce_bucket_size {bucket}，权重在 CPU 上"],
  ["ZeRO stage {stage} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}, the optimizer's state on the CPU", "在 {world} 张 GPU 上使用 DeepSpeed 的 ZeRO 第 {stage} 阶段，reduce_bucket_size {bucket}，优化器状态在 CPU 上"],
  ["ZeRO stage {stage} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}", "在 {world} 张 GPU 上使用 DeepSpeed 的 ZeRO 第 {stage} 阶段，reduce_bucket_size {bucket}"],
  // Why there is no file for Accelerate.
  ["it does not wrap the model of a single process", "只有一个进程时它不包装模型"],
  ["no code is printed for layers that are split", "切分的层没有打印的代码"],
  ["the code starts DeepSpeed itself, with ds_config.json", "代码自己用 ds_config.json 启动 DeepSpeed"],
  ["it has no setting for ZeroRedundancyOptimizer", "它没有 ZeroRedundancyOptimizer 的设置"],
  ["it shards all modules of a class, and others have the class of one that is sharded", "它分片一个类的所有模块，而其他模块与被分片的模块属于同一个类"],
  ["its reshard_after_forward is true or false, not a number of GPUs", "它的 reshard_after_forward 只能是 true 或 false，不能是 GPU 数"],
  ["it keeps the root's weights gathered, which the plan frees after the forward pass", "它让根模块的权重保持收集状态，而方案在前向之后释放它们"],
  // Why a plan's peak is what it is.
  ["the peak is {bytes} in the {phase} pass of {module}: {parts}; next is {second} with {other}", "峰值 {bytes}，在 {module} 的{phase}：{parts}；其次是{second}，{other}"],
  ["the peak is {bytes} in the {phase} pass: {parts}; next is {second} with {other}", "峰值 {bytes}，在{phase}：{parts}；其次是{second}，{other}"],
  ["the peak is {bytes} in the {phase}: {parts}; next is {second} with {other}", "峰值 {bytes}，在{phase}：{parts}；其次是{second}，{other}"],
  ["forward", "前向传播"], ["backward", "反向传播"], ["step", "优化器更新"], ["build", "构建"], ["optimizer step", "优化器更新"],
  ["{first}, {second}, {third}", "{first}，{second}，{third}"],
  ...[["parameters", "参数"], ["gradients", "梯度"], ["optimizer", "优化器"], ["activations", "激活值"], ["inputs", "输入"], ["outputs", "输出"], ["temporary", "临时"], ["workspace", "工作区"], ["rounding", "取整"]]
    .flatMap(([name, chinese]) => ["GiB", "MiB", "KiB"].map((unit) => [`${name} {bytes} ${unit}`, `${chinese} {bytes} ${unit}`])),
];

const knownPatterns = new Map();

// Made once, when Chinese is first needed.
function patterns(phrases) {
  const plain = (text) => text.replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  if (!knownPatterns.has(phrases)) knownPatterns.set(phrases, phrases.map(([english, chinese]) => ({
    pattern: new RegExp(`^${english.split(/\{\w+\}/).map(plain).join("([^]+?)")}$`),
    names: [...english.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
    chinese,
  })));
  return knownPatterns.get(phrases);
}

// A sentence in the page's language; `null` where there is no translation.
function chinese(text, phrases) {
  for (const { pattern, names, chinese: phrase } of patterns(phrases)) {
    const values = text.match(pattern)?.slice(1);
    if (!values) continue;
    return phrase.replace(/\{(\w+)\}/g, (_, name) => {
      const value = values[names.indexOf(name)];
      return chinese(value, phrases) ?? value;
    });
  }
  return null;
}

// The sentence and its language, for screen readers.
function said(text, phrases = PHRASES) {
  const translated = state.language === "zh" ? chinese(text, phrases) : null;
  return { text: translated ?? text, lang: translated === null ? "en" : "zh-CN" };
}

// Why there is no answer, and what to do about it.
function refusal(error) {
  const parts = [error.message, error.hint].filter(Boolean).map((part) => said(part, REFUSALS));
  return parts.flatMap(({ text, lang }, index) => [...(index ? [" — "] : []), make("span", { lang }, text)]);
}
