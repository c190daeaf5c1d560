#!/usr/bin/env python3
"""Writes nfc_table.cpp: the canonical decompositions, composition exclusions and combining classes that NFC needs.

The facts are those of the Unicode Character Database, as Python's unicodedata module holds them.
Usage: nfc_table.py > nfc_table.cpp
"""
import sys
import unicodedata

HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic, not by table


def rows(entries, per_line):
    for start in range(0, len(entries), per_line):
        yield "    " + " ".join(entries[start:start + per_line])


def main():
    pairs, singletons, excluded, classes = [], [], [], []
    for point in range(sys.maxunicode + 1):
        if 0xD800 <= point < 0xE000:
            continue
        char = chr(point)
        combining = unicodedata.combining(char)
        if combining:
            if classes and classes[-1][1] == point - 1 and classes[-1][2] == combining:
                classes[-1][1] = point
            else:
                classes.append([point, point, combining])
        decomposition = unicodedata.decomposition(char)
        if not decomposition or decomposition.startswith("<") or point in HANGUL:
            continue
        parts = [int(part, 16) for part in decomposition.split()]
        if len(parts) == 1:
            singletons.append((point, parts[0]))
            continue
        pairs.append((point, *parts))
        if unicodedata.normalize("NFC", char) != char:
            excluded.append(point)
    print("// Written by nfc_table.py from the Unicode Character Database "
          f"{unicodedata.unidata_version}; do not edit.")
    print("// clang-format off")
    print('#include "engine/tokenizer/nfc_table.h"\n')
    print("namespace tare::engine {\nnamespace {\n")
    print(f"constexpr CanonicalPair kPairs[{len(pairs)}] = {{")
    print("\n".join(rows([f"{{0x{a:X}, 0x{b:X}, 0x{c:X}}}," for a, b, c in pairs], 4)))
    print(f"}};\n\nconstexpr CanonicalSingleton kSingletons[{len(singletons)}] = {{")
    print("\n".join(rows([f"{{0x{a:X}, 0x{b:X}}}," for a, b in singletons], 5)))
    print(f"}};\n\nconstexpr char32_t kExcluded[{len(excluded)}] = {{")
    print("\n".join(rows([f"0x{a:X}," for a in excluded], 12)))
    print(f"}};\n\nconstexpr CombiningRange kCombining[{len(classes)}] = {{")
    print("\n".join(rows([f"{{0x{a:X}, 0x{b:X}, {c}}}," for a, b, c in classes], 4)))
    print("};\n\n}  // namespace\n")
    print("std::span<const CanonicalPair> canonical_pairs() { return kPairs; }")
    print("std::span<const CanonicalSingleton> canonical_singletons() { return kSingletons; }")
    print("std::span<const char32_t> composition_exclusions() { return kExcluded; }")
    print("std::span<const CombiningRange> combining_ranges() { return kCombining; }")
    print("\n}  // namespace tare::engine")


main()
