/* utf8.h - UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates,
 * nothing above U+10FFFF. */
#ifndef MK_UTF8_H
#define MK_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define MK_UTF8_INVALID 0xffffffffu
#define MK_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Bytes of a sequence by its first byte, 0 if none begins so, and the range of its second byte. */
uint32_t mk_utf8_length(uint8_t first, uint8_t *low, uint8_t *high);

/* The code point at text[0 .. size), size > 0; returns its bytes. A byte that begins no valid sequence is
 * a unit of its own: MK_UTF8_INVALID, 1 byte. */
uint32_t mk_utf8_decode(const uint8_t *text, size_t size, uint32_t *code);

#endif
