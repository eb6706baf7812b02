/* bytes.h - unaligned loads, half floats, and arithmetic on sizes that may overflow. */
#ifndef MK_BASE_BYTES_H
#define MK_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "makarna images are little-endian and used in place: big-endian machines are not supported"
#endif

static inline uint16_t mk_load16(const void *p)
{
    uint16_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint32_t mk_load32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t mk_load64(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline float mk_float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t mk_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* IEEE 754 binary16 to float, exact, by integer arithmetic alone (subnormals included). */
static inline float mk_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = h >> 10 & 31u;
    uint32_t mantissa = h & 1023u;
    if (exponent == 31)
        return mk_float_from_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
        if (mantissa == 0)
            return mk_float_from_bits(sign);
        exponent = 1;
        while (!(mantissa & 1024u)) {
            mantissa <<= 1;
            exponent--;
        }
        mantissa &= 1023u;
    }
    return mk_float_from_bits(sign | (exponent + 112u) << 23 | mantissa << 13);
}

static inline bool mk_mul_overflows(uint64_t a, uint64_t b, uint64_t *product)
{
    return __builtin_mul_overflow(a, b, product);
}

static inline bool mk_add_overflows(uint64_t a, uint64_t b, uint64_t *sum)
{
    return __builtin_add_overflow(a, b, sum);
}

/* Rounds up to a multiple of a power of two. The caller knows that x is far from the limit. */
static inline uint64_t mk_align_up(uint64_t x, uint64_t alignment)
{
    return (x + alignment - 1) & ~(alignment - 1);
}

#endif
