# case: beside the model on the GPU
import torch
def resume(model, path):
    model.cuda()
    model.load_state_dict(torch.load(path))  # expect: VF010
# case: onto the CPU
import torch
def resume(model, path):
    model.cuda()
    model.load_state_dict(torch.load(path, map_location="cpu"))
# case: onto the GPU by name
import torch
def resume(model, optimizer, path):
    checkpoint = torch.load(path, map_location="cuda")  # expect: VF010
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
# case: onto the device of the training
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
def resume(net, path):
    state = torch.load(path, map_location=device)  # expect: VF010
    net.to(device)
    net.load_state_dict(state)
# case: a CPU device
import torch
device = torch.device("cpu")
def resume(net, path):
    net.load_state_dict(torch.load(path, map_location=device))
# case: by rank
import torch
def resume(model, path, rank):
    state = torch.load(path, map_location={"cuda:0": f"cuda:{rank}"})  # expect: VF010
    model.load_state_dict(state)
# case: storage stays where it is
import torch
def resume(model, path):
    model.load_state_dict(torch.load(path, map_location=lambda storage, loc: storage))
    model.cuda()
# case: data are no second copy
import torch
embeddings = torch.load("embeddings.pt", map_location="cuda")
print(embeddings.shape)
# case: a whole model is no second copy
import torch
model = torch.load("model.pt", map_location="cuda", weights_only=False)
model.eval()
# case: no GPU anywhere
import torch
def resume(model, path):
    model.load_state_dict(torch.load(path))
# case: positional location
import torch
def resume(model, path):
    model.load_state_dict(torch.load(path, "cuda:0"))  # expect: VF010
