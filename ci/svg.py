# SPDX-License-Identifier: Apache-2.0
"""Pictures for docs/, written as SVG: a white sheet, shapes and words on it."""

import xml.sax.saxutils

FONT = "font-family='Helvetica, Arial, sans-serif'"


class Sheet:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.parts = []

    def rect(self, x, y, width, height, fill, stroke="none", dash=None):
        dashed = f" stroke-dasharray='{dash}'" if dash else ""
        self.parts.append(f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{fill}' stroke='{stroke}'{dashed}/>")

    def text(self, x, y, words, size=12, fill="#222", anchor="start", bold=False):
        weight = " font-weight='bold'" if bold else ""
        self.parts.append(f"<text x='{x:g}' y='{y:g}' font-size='{size:g}' fill='{fill}' text-anchor='{anchor}'{weight} {FONT}>"
                          f"{xml.sax.saxutils.escape(words)}</text>")

    def line(self, x1, y1, x2, y2, stroke="#888", width=1, arrow=False):
        end = " marker-end='url(#arrow)'" if arrow else ""
        self.parts.append(f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{stroke}' stroke-width='{width:g}'{end}/>")

    def curve(self, points, stroke, width=1.5):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f"<polyline points='{path}' fill='none' stroke='{stroke}' stroke-width='{width:g}'/>")

    def area(self, points, fill):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f"<polygon points='{path}' fill='{fill}' stroke='none'/>")

    def save(self, path):
        head = (f"<svg xmlns='http://www.w3.org/2000/svg' width='{self.width}' height='{self.height}' "
                f"viewBox='0 0 {self.width} {self.height}'>\n"
                "<defs><marker id='arrow' viewBox='0 0 10 10' refX='9' refY='5' markerWidth='6' markerHeight='6' orient='auto'>"
                "<path d='M0,0 L10,5 L0,10 z' fill='#888'/></marker></defs>\n"
                f"<rect width='{self.width}' height='{self.height}' fill='white'/>\n")
        with open(path, "w") as file:
            file.write(head + "\n".join(self.parts) + "\n</svg>\n")
