"""Makes the pictures of the README and the guide: pages of `vramfit … --html` in Chromium, cut to a section, few colours.

    python3 docs/images/make.py [path/to/vramfit]           # needs chromium and Pillow
"""

import pathlib
import subprocess
import sys
import tempfile

from PIL import Image, ImageChops

ROOT = pathlib.Path(__file__).resolve().parents[2]
BERT = ["bert-base", "--batch", "32", "--seq", "128"]
COLOURS = 128
MARGIN = 12


def only(section):
    """Style that hides everything but one section."""
    return f"header, main > :not({section}) {{ display: none !important }}"


# Name, width, height, what to hide, the command.
PICTURES = [
    ("estimate-page", 1100, 1150, "#peak, #holders, #layers, #reproduce { display: none }", ["estimate", *BERT, "--gpu", "RTX 3060"]),
    ("treemap", 1100, 560, only("#holders"), ["estimate", *BERT]),
    ("timeline", 1100, 1000, only("#time") + "#time .columns, #help { display: none !important }", ["estimate", *BERT]),
    (
        "segments", 1100, 1400,
        only("#time") + "#time > .bar, #legend, #help { display: none !important } #timeline, #overview-box { position: absolute; left: -3000px; width: 1000px }",
        ["explain", "validation/recordings/varying.pickle.gz"],
    ),
    ("frontier", 1100, 1400, only("#frontier"), ["plan", "bert-base", "--batch", "64", "--seq", "128", "--vram", "6GiB"]),
]


def main(vramfit):
    with tempfile.TemporaryDirectory() as folder:
        for name, width, height, style, command in PICTURES:
            page, shot = pathlib.Path(folder, f"{name}.html"), pathlib.Path(folder, f"{name}.png")
            done = subprocess.run([vramfit, *command, "--html", page], cwd=ROOT, stdout=subprocess.DEVNULL)
            if done.returncode > 1:
                sys.exit(f"{command}: exit code {done.returncode}")
            page.write_text(page.read_text().replace("</head>", f"<style>footer, nav {{ display: none !important }} {style}</style></head>"))
            subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000",
                 f"--window-size={width},{height}", f"--screenshot={shot}", f"file://{page}"],
                check=True, stderr=subprocess.DEVNULL,
            )
            target = pathlib.Path(__file__).parent / f"{name}.png"
            reduced(Image.open(shot).convert("RGB")).save(target, optimize=True)
            print(f"{target.relative_to(ROOT)}: {target.stat().st_size} bytes")


def reduced(image):
    """Without the empty margin, in few colours."""
    ground = Image.new("RGB", image.size, image.getpixel((0, 0)))
    left, top, right, bottom = ImageChops.difference(image, ground).getbbox()
    box = (max(left - MARGIN, 0), max(top - MARGIN, 0), min(right + MARGIN, image.width), min(bottom + MARGIN, image.height))
    return image.crop(box).quantize(COLOURS, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/vramfit"))
