# SPDX-License-Identifier: Apache-2.0
"""A picture of a group's rows as SVG: a bar for each ratio, the spread around its end, and a mark at the goal."""

from xml.sax.saxutils import escape

from results import ratio_text

WIDTH, LEFT, RIGHT = 780, 230, 90  # of all, of the names, of the numbers
TOP, ROW, BAR = 52, 24, 14
INK, PALE, GOOD, BAD, MARK = "#1f2328", "#8c959f", "#4a8f5c", "#c2483d", "#1f2328"


def draw(group, entries):
    """The picture's text. Rows that could not be measured have their reason in place of a bar."""
    measured = [entry for entry in entries if entry.ratio is not None]
    longest = max([1.0, *(entry.ratio * (1 + (entry.spread or 0) / 2) for entry in measured),
                   *(entry.goal for entry in measured if entry.goal is not None)])
    scale = (WIDTH - LEFT - RIGHT) / longest
    height = TOP + ROW * len(entries) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{INK}">',
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
             f'<text x="12" y="20" font-size="14" font-weight="bold">{escape(group)}</text>',
             f'<text x="12" y="38" fill="{PALE}">ratio to the limit, or to the peer (1: the grey line); less is better; '
             "the black mark is the goal</text>",
             _line(LEFT + scale, TOP - 6, TOP + ROW * len(entries), PALE, 1)]
    for i, entry in enumerate(entries):
        parts += _row(entry, TOP + ROW * i, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(entry, top, scale):
    middle = top + ROW / 2 - 2
    yield f'<text x="{LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">{escape(entry.name)}</text>'
    if entry.ratio is None:
        yield f'<text x="{LEFT + 4}" y="{middle + 4:.0f}" fill="{PALE}">{escape(_cut(entry.note))}</text>'
        return
    colour = PALE if entry.met is None else GOOD if entry.met else BAD
    width = entry.ratio * scale
    yield f'<rect x="{LEFT}" y="{middle - BAR / 2}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
    if entry.spread:
        half = width * entry.spread / 2
        yield (f'<line x1="{LEFT + width - half:.1f}" y1="{middle}" x2="{LEFT + width + half:.1f}" y2="{middle}" '
               f'stroke="{INK}" stroke-width="1"/>')
    if entry.goal is not None:
        yield _line(LEFT + entry.goal * scale, top, top + ROW - 4, MARK, 2)
    goal = "" if entry.goal is None else f" / {entry.goal:g}"
    yield f'<text x="{WIDTH - RIGHT + 8}" y="{middle + 4:.0f}">{ratio_text(entry.ratio)}{goal}</text>'


def _line(x, top, bottom, colour, width):
    return f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>'


def _cut(text):
    return text if len(text) <= 80 else text[:79] + "…"
