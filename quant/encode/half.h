/* half.h - rounding to IEEE 754 binary16 by integer arithmetic. */
#ifndef MK_QUANT_HALF_H
#define MK_QUANT_HALF_H

#include <stdint.h>
#include <string.h>

/* Nearest half, to even on a tie; x from 0 to 65504. */
static inline uint16_t half_from_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    if (exponent < -26)
        return 0;
    int shift = exponent >= -14 ? 42 : 28 - exponent; /* of a 53-bit significand; subnormals keep fewer bits */
    uint64_t significand = (bits & 0xfffffffffffffu) | 1ull << 52;
    uint64_t kept = significand >> shift, rest = significand & ((1ull << shift) - 1),
             half = 1ull << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    if (exponent >= -14) /* a carry out of the significand steps the exponent */
        kept += (uint64_t)(exponent + 14) << 10;
    return (uint16_t)kept;
}

#endif
