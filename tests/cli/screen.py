# SPDX-License-Identifier: Apache-2.0
"""A terminal's screen, as far as the command draws on it: printing, carriage return, clearing to the end, resizing."""
import re

ESCAPE = re.compile(rb"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """Rows of text that wrap at the width. On a new width a terminal either wraps its lines again or cuts them."""

    def __init__(self, width, rewraps):
        self.width, self.rewraps = width, rewraps
        self.rows, self.continued = [""], [False]  # continued: the row goes on with the next one
        self.row = self.column = 0

    def write(self, data):
        at = 0
        while at < len(data):
            if escape := ESCAPE.match(data, at):
                at = escape.end()
                if escape.group(2) == b"J":
                    self.rows[self.row] = self.rows[self.row][:self.column]
                    self.continued[self.row] = False
                    del self.rows[self.row + 1:], self.continued[self.row + 1:]
                else:
                    assert escape.group(2) == b"m", f"the screen does not know {escape.group()!r}"
                continue
            byte, at = data[at:at + 1], at + 1
            if byte == b"\r":
                self.column = 0
            elif byte == b"\n":
                self.next_row()
            else:
                if self.column == self.width:
                    self.continued[self.row] = True
                    self.next_row()
                    self.column = 0
                text = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = text[:self.column] + byte.decode("latin-1") + text[self.column + 1:]
                self.column += 1

    def next_row(self):
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append("")
            self.continued.append(False)

    def resize(self, width):
        self.width = width
        if not self.rewraps:
            self.rows = [row[:width] for row in self.rows]
            self.column = min(self.column, width)
            return
        rows, continued, at = [], [], (0, 0)
        line, cursor = "", None
        for i, row in enumerate(self.rows):
            if i == self.row:
                cursor = len(line) + self.column
            line += row
            if self.continued[i]:
                continue
            parts = [line[k:k + width] for k in range(0, len(line), width)] or [""]
            if cursor is not None:
                part = min(cursor // width, len(parts) - 1)
                at, cursor = (len(rows) + part, cursor - part * width), None
            rows += parts
            continued += [True] * (len(parts) - 1) + [False]
            line = ""
        self.rows, self.continued, (self.row, self.column) = rows, continued, at

    def text(self):
        return "\n".join(row.rstrip() for row in self.rows)
