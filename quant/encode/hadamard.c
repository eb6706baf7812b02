#include "quant/encode/hadamard.h"

#include "image/mkn.h"

/* Sums in double, so that storing loses nothing but what encoding does. */
static void transform(float *x, uint32_t n)
{
    double values[MKN_SUPER_BLOCK];
    for (uint32_t i = 0; i < n; i++)
        values[i] = (double)x[i];
    for (uint32_t stride = 1; stride < n; stride *= 2)
        for (uint32_t begin = 0; begin < n; begin += 2 * stride)
            for (uint32_t i = begin; i < begin + stride; i++) {
                double a = values[i], b = values[i + stride];
                values[i] = a + b;
                values[i + stride] = a - b;
            }
    double norm = 1.0 / __builtin_sqrt((double)n);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float)(values[i] * norm);
}

void hadamard_row(float *row, uint32_t padded)
{
    for (uint32_t begin = 0, n; begin < padded; begin += n) {
        uint32_t left = MKN_SUPER_BLOCK - begin % MKN_SUPER_BLOCK;
        left = padded - begin < left ? padded - begin : left;
        for (n = MKN_SUPER_BLOCK; n > left;)
            n /= 2;
        transform(row + begin, n);
    }
}
