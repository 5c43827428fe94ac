"""Three steps of a Llama with a billion parameters, as a script."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(0)
config = LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=20, num_attention_heads=16)
model = LlamaForCausalLM(config).to("cuda")
print(sum(one.numel() for one in model.parameters()))
opt = torch.optim.AdamW(model.parameters(), lr=5e-5)
model.train()
for step in range(3):
    ids = torch.randint(0, 32000, (1, 512), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(step, loss.item())
