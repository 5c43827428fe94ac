# case: modules
from torch import nn
net = nn.Sequential(
    nn.Conv2d(3, 8, 3),
    nn.ReLU(),  # expect: VF013
    nn.Conv2d(8, 8, 3),
    nn.ReLU(inplace=True),
)
# case: a function
import torch.nn.functional as F
def forward(x):
    return F.relu(x)  # expect: VF013
# case: GELU has no such way
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Sigmoid())
# case: decided already
from torch import nn
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=False))
