/* math.c - sine and cosine in double precision with basic operations alone, so that every machine
 * gives the same bits. */
#include "base/math.h"

/* pi / 2 = sum of the parts, to 2^-157. The first four have 26 bits each, so that their products with
 * a quarter-turn count below 2^27 are exact. */
static const double half_pi[5] = {
    0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a6262p-54, 0x1.3145cp-78, 0x1.b839a252049c1p-104,
};

/* sum + *error = a + b exactly (Knuth's two-sum). */
static double two_sum(double a, double b, double *error)
{
    double sum = a + b;
    double back = sum - a;
    *error = (a - (sum - back)) + (b - back);
    return sum;
}

/* Subtracts the nearest multiple of pi / 2, whose count is returned: angle = count * pi / 2 + *high +
 * *low, |high| <= pi / 4. The first two differences are exact: what cancels leaves few bits. */
static int64_t reduce(double angle, double *high, double *low)
{
    const double magic = 0x1.8p52; /* adding it rounds to an integer */
    double count = (angle * 0x1.45f306dc9c883p-1 + magic) - magic;
    double rest = (angle - count * half_pi[0]) - count * half_pi[1];
    double error3, error4;
    rest = two_sum(rest, -count * half_pi[2], &error3);
    rest = two_sum(rest, -count * half_pi[3], &error4);
    *high = two_sum(rest, error3 + (error4 - count * half_pi[4]), low);
    return (int64_t)count;
}

/* Taylor series: what is cut off is below 2^-60 for |x| <= pi / 4. */
static double sine_series(double x, double low)
{
    double z = x * x;
    double p =
        -1.0 / 6 +
        z * (1.0 / 120 +
             z * (-1.0 / 5040 +
                  z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                           z * (1.0 / 6227020800.0 + z * (-1.0 / 1307674368000.0 +
                                                                          z * (1.0 / 355687428096000.0)))))));
    return x + (low * (1.0 - 0.5 * z) + x * z * p);
}

static double cosine_series(double x, double low)
{
    double z = x * x;
    double p =
        1.0 / 24 +
        z * (-1.0 / 720 +
             z * (1.0 / 40320 +
                  z * (-1.0 / 3628800 +
                       z * (1.0 / 479001600.0 + z * (-1.0 / 87178291200.0 + z * (1.0 / 20922789888000.0))))));
    return 1.0 - (0.5 * z - (z * z * p - x * low));
}

void mk_sincos(double angle, float *sine, float *cosine)
{
    double high, low;
    int64_t quarter = reduce(angle, &high, &low);
    double s = sine_series(high, low);
    double c = cosine_series(high, low);
    if (quarter & 1) {
        double swap = s;
        s = c;
        c = -swap;
    }
    if (quarter & 2) {
        s = -s;
        c = -c;
    }
    *sine = (float)s;
    *cosine = (float)c;
}
