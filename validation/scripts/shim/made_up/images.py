"""Data sets of torchvision."""

import numpy

TRAIN, TEST = 640, 320
FEW = 96
PICTURES = 24


def replace(datasets):
    """Changes `torchvision.datasets`."""
    import torch
    from PIL import Image

    def pixels(seed, *shape):
        return numpy.random.RandomState(seed).randint(0, 256, shape, dtype=numpy.uint8)

    def labels(seed, count, classes):
        return numpy.random.RandomState(seed).randint(0, classes, count)

    class Made(torch.utils.data.Dataset):
        """Pictures of one size with labels; `transform` and the others are used as torchvision uses them."""

        side, channels, class_count, sizes = 28, 1, 10, (TRAIN, TEST)

        def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False, **more):
            train = train if isinstance(train, bool) else train == "train"
            if isinstance(more.get("split"), str):
                train = more["split"].startswith("train") or more["split"] == "unlabeled"
            self.root, self.train = root, train
            self.transform, self.target_transform = transform, target_transform
            count = self.sizes[0 if train else 1]
            shape = (count, self.side, self.side) + ((self.channels,) if self.channels > 1 else ())
            raw = pixels(count, *shape)
            self.data = raw if self.channels > 1 else torch.from_numpy(raw)
            # Each label occurs, as in the data set itself.
            named = numpy.concatenate([numpy.arange(self.class_count), labels(1, count, self.class_count)])[:count]
            self.targets = torch.from_numpy(named) if self.channels == 1 else named.tolist()
            self.classes = [str(number) for number in range(self.class_count)]
            self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            picture = Image.fromarray(numpy.asarray(self.data[index]))
            target = int(self.targets[index])
            if self.transform is not None:
                picture = self.transform(picture)
            if self.target_transform is not None:
                target = self.target_transform(target)
            return picture, target

    def kind(name, side, channels, class_count, sizes=(TRAIN, TEST)):
        return type(name, (Made,), {"side": side, "channels": channels, "class_count": class_count, "sizes": sizes})

    datasets.MNIST = kind("MNIST", 28, 1, 10)
    datasets.FashionMNIST = kind("FashionMNIST", 28, 1, 10)
    datasets.KMNIST = kind("KMNIST", 28, 1, 10)
    datasets.CIFAR10 = kind("CIFAR10", 32, 3, 10)
    datasets.CIFAR100 = kind("CIFAR100", 32, 3, 100)
    datasets.SVHN = kind("SVHN", 32, 3, 10)
    datasets.STL10 = kind("STL10", 96, 3, 10, (FEW * 2, FEW))
    datasets.CelebA = kind("CelebA", 178, 3, 40, (FEW, FEW))

    class ImageFolder(Made):
        side, channels, class_count, sizes = 256, 3, 10, (FEW, FEW)

        def __init__(self, root=None, transform=None, target_transform=None, **_):
            super().__init__(root, True, transform, target_transform)
            self.samples = [(f"{number}.png", target) for number, target in enumerate(self.targets)]
            self.imgs = self.samples

    datasets.ImageFolder = ImageFolder

    original = datasets.FakeData

    class FakeData(original):
        """As it is, with fewer pictures."""

        def __init__(self, size=1000, *args, **kwargs):
            super().__init__(min(size, FEW * 2), *args, **kwargs)

    datasets.FakeData = FakeData

    class VOCSegmentation(Made):
        side, channels, class_count, sizes = 300, 3, 21, (PICTURES, PICTURES // 2)

        def __init__(self, root=None, year="2012", image_set="train", download=False, transform=None, target_transform=None, transforms=None):
            super().__init__(root, image_set == "train")
            self.transforms = transforms

        def __getitem__(self, index):
            picture = Image.fromarray(self.data[index])
            target = Image.fromarray((self.data[index][:, :, 0] % 21).astype(numpy.uint8))
            return (picture, target) if self.transforms is None else self.transforms(picture, target)

    datasets.VOCSegmentation = VOCSegmentation
