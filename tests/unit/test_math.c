/* The floating-point functions of the inference path against the C library in double precision. */
#include <math.h>
#include <stdint.h>

#include "base/math.h"
#include "check.h"

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

/* Distance of a float from the true value, in units of the last place of a float there. */
static double ulps(float actual, double expected)
{
    int exponent;
    (void)frexp(expected, &exponent);
    return fabs((double)actual - expected) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void test_exp(void)
{
    double worst = 0;
    for (int sign = 0; sign < 2; sign++) {
        uint32_t first = sign ? 0x80000000u : 0u;
        uint32_t last = mk_float_bits(sign ? MK_EXP_MIN : MK_EXP_MAX);
        for (uint32_t bits = first; bits <= last; bits += 1009) {
            float x = mk_float_from_bits(bits);
            double distance = ulps(mk_exp(x), exp((double)x));
            worst = distance > worst ? distance : worst;
        }
    }
    printf("mk_exp: worst of the tried %.4f ulp\n", worst);
    CHECK_MSG(worst <= 1.0, "%f ulp", worst);
    CHECK(mk_exp(0.0f) == 1.0f && mk_exp(-0.0f) == 1.0f);
    CHECK(mk_exp(-1000.0f) == mk_exp(-87.0f) && mk_exp(1000.0f) == mk_exp(88.0f));
    CHECK(mk_exp(-87.0f) >= 0x1p-126f && mk_exp(88.0f) < HUGE_VALF);
    float below = 0;
    for (float x = -87; x < 88; x += 0.0371f) {
        CHECK(mk_exp(x) > below);
        below = mk_exp(x);
    }
}

static uint32_t fma_operand(void)
{
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
        0x00800001, 0x7f7fffff, 0xff7fffff, 0x34000000, 0x33800000, 0x33ffffff, 0x4b000000, 0x4b7fffff,
        0x3f7fffff, 0x3f800001, 0x42fe0000, 0x7f000000, 0x1f800000, 0x20000000, 0x5f800000, 0x0d800000,
    };
    uint32_t r = random32();
    switch (r >> 30) {
    case 0:
        return special[r % (sizeof special / sizeof special[0])];
    case 1: /* few bits set: ties */
        return (random32() & 0xff800000u) | 1u << (r % 23) | (r & 1u);
    case 2: /* near one, so that exponents meet */
        return (random32() & 0x81ffffffu) | 0x3e000000u;
    default:
        return random32();
    }
}

static void test_fma(void)
{
    unsigned long different = 0;
    for (int i = 0; i < 1000000; i++) {
        float a = mk_float_from_bits(fma_operand());
        float b = mk_float_from_bits(fma_operand());
        float c = mk_float_from_bits(fma_operand());
        if (i % 3 == 0) /* nearly cancels: what remains is the product's rounding error */
            c = -(a * b);
        float expected = fmaf(a, b, c);
        float actual = mk_fma(a, b, c);
        bool same =
            mk_float_bits(actual) == mk_float_bits(expected) || (actual != actual && expected != expected);
        if (!same && different++ < 3)
            fprintf(stderr, "fma(%a, %a, %a) = %a, not %a\n", (double)a, (double)b, (double)c, (double)expected,
                    (double)actual);
    }
    CHECK_MSG(different == 0, "%lu differ", different);
}

static void check_sincos(double angle, double *worst)
{
    float sine, cosine;
    mk_sincos(angle, &sine, &cosine);
    double distance = fmax(ulps(sine, sin(angle)), ulps(cosine, cos(angle)));
    *worst = distance > *worst ? distance : *worst;
}

static void test_sincos(void)
{
    double worst = 0;
    const double half_pi = 1.57079632679489661923;
    for (int i = 0; i < 300000; i++) {
        double unit = random32() * 0x1p-32 + random32() * 0x1p-64;
        check_sincos(ldexp(unit - 0.5, (int)(random32() % 60) - 31), &worst);
        check_sincos(unit * 0x1p27 * (i & 1 ? 1 : -1), &worst);
        check_sincos((double)(random32() & 0xffff) * (double)(float)unit, &worst); /* position * frequency */
        double near = (double)(random32() % 85000000u) * half_pi; /* as near to its zeros as doubles come */
        check_sincos(near, &worst);
        check_sincos(nextafter(near, 0), &worst);
        check_sincos(nextafter(near, 1e9), &worst);
    }
    check_sincos(0, &worst);
    check_sincos(134217727.999, &worst);
    check_sincos(6381956970095103.0 * 0x1p-26, &worst);
    printf("mk_sincos: worst %.6f ulp\n", worst);
    CHECK_MSG(worst <= 0.5001, "%f ulp", worst);
}

static void test_small(void)
{
    CHECK(mk_rint(0.5f) == 0 && mk_rint(1.5f) == 2 && mk_rint(2.5f) == 2 && mk_rint(-0.5f) == 0 &&
          mk_rint(-1.5f) == -2);
    CHECK(mk_rint(126.49999f) == 126 && mk_rint(-126.5f) == -126 && mk_rint(4194303.5f) == 4194304);
    CHECK(mk_sqrt(2.0f) == (float)sqrt(2.0) && mk_sqrt(0x1p-126f) == 0x1p-63f);
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double expected = h < 1024 ? ldexp(h, -24) : ldexp(1024 + (h & 1023), (int)(h >> 10) - 25);
        CHECK((double)mk_half_to_float((uint16_t)h) == expected);
        CHECK((double)mk_half_to_float((uint16_t)(h | 0x8000)) == -expected);
    }
}

int main(void)
{
    test_exp();
    test_fma();
    test_sincos();
    test_small();
    return check_end();
}
