# SPDX-License-Identifier: Apache-2.0
"""Draws line.png, the default picture of the example, with the font that Pillow ships."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

TEXT = "Runs with no board"


def main():
    font = ImageFont.load_default(34)
    left, top, right, bottom = font.getbbox(TEXT)
    picture = Image.new("RGB", (right - left + 24, bottom - top + 20), (250, 249, 244))
    draw = ImageDraw.Draw(picture)
    draw.text((12 - left, 10 - top), TEXT, fill=(32, 34, 40), font=font)
    picture.save(Path(__file__).with_name("line.png"), optimize=True)


if __name__ == "__main__":
    main()
