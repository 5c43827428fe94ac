"""loss(outputs, targets), where a model does not return its loss itself."""

from torch.nn import functional


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets)


def token_cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


def mean_squared_error(outputs, targets):
    return functional.mse_loss(outputs, targets)


def binary_cross_entropy(outputs, targets):
    return functional.binary_cross_entropy_with_logits(outputs, targets)


def segmentation(outputs, targets):
    """torchvision's reference training: the auxiliary head counts half."""
    loss = functional.cross_entropy(outputs["out"], targets)
    if "aux" in outputs:
        loss = loss + 0.5 * functional.cross_entropy(outputs["aux"], targets)
    return loss


def variational(outputs, targets):
    """An autoencoder's: the picture's error and how far its code is from a normal distribution."""
    picture, mean, variance = outputs
    error = functional.mse_loss(picture, targets, reduction="sum")
    return error - 0.5 * (1 + variance - mean.pow(2) - variance.exp()).sum()
