#include "text/utf8.h"

uint32_t mk_utf8_length(uint8_t first, uint8_t *low, uint8_t *high)
{
    *low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

uint32_t mk_utf8_decode(const uint8_t *text, size_t size, uint32_t *code)
{
    uint8_t low, high;
    uint32_t length = mk_utf8_length(text[0], &low, &high);
    if (length == 1) {
        *code = text[0];
        return 1;
    }
    *code = MK_UTF8_INVALID;
    if (length == 0 || length > size || text[1] < low || text[1] > high)
        return 1;
    uint32_t value = (text[0] & (0x7Fu >> length)) << 6 | (text[1] & 0x3Fu);
    for (uint32_t i = 2; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 1;
        value = value << 6 | (text[i] & 0x3Fu);
    }
    *code = value;
    return length;
}
