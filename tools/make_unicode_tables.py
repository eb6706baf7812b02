#!/usr/bin/env python3
"""Writes src/text/unicode_tables.h from the Unicode character database.

    python3 tools/make_unicode_tables.py [/usr/share/unicode] > src/text/unicode_tables.h

The default folder is that of Debian's package unicode-data. The table gives each code point one of four
classes, the ones that the pre-tokenizers' expressions tell apart: \\p{L}, \\p{N}, \\s and the rest. It has
two stages: a page number for every 128 code points, and the distinct pages, two bits a code point.
"""
import re
import sys
from pathlib import Path

PAGE = 128
CODE_POINTS = 0x110000
OTHER, LETTER, NUMBER, SPACE = range(4)


def general_categories(path):
    """(first, last, category) of every assigned code point or range."""
    first = None
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split(";")
        code, name, category = int(fields[0], 16), fields[1], fields[2]
        if name.endswith(", First>"):
            first = code
        elif name.endswith(", Last>"):
            yield first, code, category
        else:
            yield code, code, category


def white_space(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        match = re.match(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*;\s*White_Space\b", line)
        if match:
            yield int(match[1], 16), int(match[2] or match[1], 16)


def classes(folder):
    table = bytearray(CODE_POINTS)
    for first, last, category in general_categories(folder / "UnicodeData.txt"):
        value = {"L": LETTER, "N": NUMBER}.get(category[0], OTHER)
        table[first:last + 1] = bytes([value]) * (last + 1 - first)
    for first, last in white_space(folder / "PropList.txt"):
        table[first:last + 1] = bytes([SPACE]) * (last + 1 - first)
    return table


def version(folder):
    return re.match(r"# PropList-([0-9.]+)\.txt", (folder / "PropList.txt").read_text(encoding="utf-8"))[1]


def rows(values, per_line):
    for i in range(0, len(values), per_line):
        yield "    " + " ".join(f"{v}," for v in values[i:i + per_line])


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/unicode")
    table = classes(folder)
    pages, numbers, index = [], {}, []
    for start in range(0, CODE_POINTS, PAGE):
        page = bytes(table[start:start + PAGE])
        if page not in numbers:
            numbers[page] = len(pages)
            pages.append(page)
        index.append(numbers[page])
    while index and index[-1] == numbers[bytes(PAGE)]:
        index.pop()
    assert len(pages) <= 256
    packed = [sum(page[i + k] << 2 * k for k in range(4)) for page in pages for i in range(0, PAGE, 4)]
    print(f"""/* Unicode {version(folder)}, written by tools/make_unicode_tables.py: do not edit. */
/* clang-format off */
#ifndef MK_UNICODE_TABLES_H
#define MK_UNICODE_TABLES_H

#include <stdint.h>

#define MK_UNICODE_PAGE {PAGE}u
#define MK_UNICODE_INDEX {len(index)}u /* pages; code points past them are of class 0 */

static const uint8_t mk_unicode_index[{len(index)}] = {{""")
    print("\n".join(rows(index, 26)))
    print(f"""}};

/* Classes of {len(pages)} pages, 2 bits each, low bits first: 0 other, 1 letter, 2 number, 3 white space. */
static const uint8_t mk_unicode_pages[{len(pages)}][MK_UNICODE_PAGE / 4] = {{""")
    for page in range(len(pages)):
        part = packed[page * PAGE // 4:(page + 1) * PAGE // 4]
        print("    {" + ",".join(map(str, part)) + "},")
    print("""};

#endif""")


if __name__ == "__main__":
    main()
