#include "quant/convert/rope.h"

#include <string.h>

#define LN2_HIGH 0x1.62e42fee00000p-1 /* 33 bits, so that a small integer times it is exact */
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2E 0x1.71547652b82fep+0

/* ln x for a normal x: x = m 2^e with m near 1, ln m = 2 atanh((m - 1) / (m + 1)). */
static double natural_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int k = 25; k >= 1; k -= 2) /* s^2 < 0.03: what is left out is below 2^-60 */
        sum = sum * square + 1.0 / k;
    return exponent * LN2_HIGH + (exponent * LN2_LOW + 2 * s * sum);
}

/* e^x for -70 < x <= 0. */
static double exponential(double x)
{
    int n = (int)(x * LOG2E - 0.5);
    double r = (x - n * LN2_HIGH) - n * LN2_LOW, sum = 1;
    for (int k = 18; k >= 1; k--) /* |r| < 0.35 */
        sum = 1 + sum * r / k;
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

void rope_frequencies(float base, uint32_t dims, float *out)
{
    double log_base = natural_log((double)base);
    for (uint32_t i = 0; i < dims / 2; i++)
        out[i] = (float)exponential(-log_base * (2.0 * i) / dims);
}
