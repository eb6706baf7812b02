/* math.h - floating-point functions of the inference path, the same bits on every machine. libm is not
 * used there: it differs between C libraries. */
#ifndef MK_BASE_MATH_H
#define MK_BASE_MATH_H

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

/* a * b + c, rounded once. Where the CPU has no fused multiply-add the sum is formed in double, rounded
 * to odd, so that the second rounding is harmless (Boldo and Melquiond 2008). */
static inline float mk_fma(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(a, b, c);
#else
    double product = (double)a * b; /* exact: 48 bits */
    double addend = c;
    double sum = product + addend;
    double back = sum - product;
    double error = (product - (sum - back)) + (addend - back); /* Knuth's two-sum */
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && !(bits & 1) && sum - sum == 0) {
        bits += (error > 0) == (sum > 0) ? 1u : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
#endif
}

/* sqrt is correctly rounded everywhere; the build uses -fno-math-errno so that it is one instruction. */
static inline float mk_sqrt(float x)
{
    return __builtin_sqrtf(x);
}

/* Nearest integer, half to even, for |x| < 2^22. */
static inline float mk_rint(float x)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    return (x + magic) - magic;
}

#define MK_EXP_LOG2E 1.44269504088896341f
#define MK_EXP_LN2_HIGH 0.693145751953125f     /* 16 bits, so that n * high is exact */
#define MK_EXP_LN2_LOW 1.42860682030941723e-6f /* ln 2 - high */
#define MK_EXP_MIN (-87.0f)
#define MK_EXP_MAX 88.0f

/* Coefficients of exp(r) = 1 + r + r^2 (c2 + r (c3 + ...)) on |r| <= ln 2 / 2: minimax in relative
 * error (3.2e-9) with each rounded to float in turn. */
#define MK_EXP_C2 0x1.fffffcp-2f
#define MK_EXP_C3 0x1.555492p-3f
#define MK_EXP_C4 0x1.5558b0p-5f
#define MK_EXP_C5 0x1.12399cp-7f
#define MK_EXP_C6 0x1.6a4eccp-10f

/* exp(x) with x clamped to [-87, 88]; within 0.9 ulp (every float tried). Results are never
 * denormal. Vector versions repeat these operations. */
static inline float mk_exp(float x)
{
    x = x < MK_EXP_MIN ? MK_EXP_MIN : x;
    x = x > MK_EXP_MAX ? MK_EXP_MAX : x;
    float n = mk_rint(x * MK_EXP_LOG2E);
    float r = mk_fma(n, -MK_EXP_LN2_HIGH, x);
    r = mk_fma(n, -MK_EXP_LN2_LOW, r);
    float p = mk_fma(MK_EXP_C6, r, MK_EXP_C5);
    p = mk_fma(p, r, MK_EXP_C4);
    p = mk_fma(p, r, MK_EXP_C3);
    p = mk_fma(p, r, MK_EXP_C2);
    p = mk_fma(p, r, 1.0f);
    p = mk_fma(p, r, 1.0f);
    return p * mk_float_from_bits((uint32_t)((int32_t)n + 127) << 23);
}

/* sin and cos of an angle of magnitude below 2^27, in double with basic operations alone, then rounded
 * to float: within 0.5001 ulp. */
void mk_sincos(double angle, float *sine, float *cosine);

#endif
