/* reference.h - the scalar set itself against the formulas in double precision, from the plain values
 * that packed data stands for. */
#ifndef MK_TESTS_KERNELS_REFERENCE_H
#define MK_TESTS_KERNELS_REFERENCE_H

#include "inputs.h"

static bool near(double actual, double expected, double tolerance)
{
    return fabs(actual - expected) <= tolerance;
}

/* Not fmax, on whose reductions gcc 12 for aarch64 fails with an internal error at -O3. */
static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* (-1)^(number of bits set) */
static double sign_of_bits(uint32_t bits)
{
    double sign = 1;
    for (; bits; bits &= bits - 1)
        sign = -sign;
    return sign;
}

/* The transform by its definition: n cut into powers of two; entry (i, j) of each part is
 * (-1)^(common bits of i and j) / sqrt(length). */
static void plain_hadamard(const double *x, uint32_t n, double *out)
{
    while (n > 0) {
        uint32_t length = 1;
        while (2 * length <= n)
            length *= 2;
        for (uint32_t i = 0; i < length; i++) {
            out[i] = 0;
            for (uint32_t j = 0; j < length; j++)
                out[i] += sign_of_bits(i & j) * x[j];
            out[i] /= sqrt(length);
        }
        x += length;
        out += length;
        n -= length;
    }
}

static void reference_hadamard(const mk_kernels *k, uint32_t n)
{
    float *x = input_make(n * sizeof(float));
    double *plain = input_make(n * sizeof(double)), *expected = input_make(n * sizeof(double));
    fill_floats(x, n, FLOATS_NORMAL);
    for (uint32_t i = 0; i < n; i++)
        plain[i] = (double)x[i];
    plain_hadamard(plain, n, expected);
    k->hadamard(x, n);
    for (uint32_t i = 0; i < n; i++)
        CHECK(near((double)x[i], expected[i], 3e-6));
    k->hadamard(x, n);
    for (uint32_t i = 0; i < n; i++)
        CHECK(near((double)x[i], plain[i], 3e-6));
    input_free(x);
    input_free(plain);
    input_free(expected);
}

static void check_quantized(const double *x, uint32_t n, const int8_t *codes, float scale, int32_t sum)
{
    double largest = 0;
    int32_t code_sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        largest = larger(largest, fabs(x[i]));
        code_sum += codes[i];
    }
    CHECK(sum == code_sum);
    if (largest < 0x1p-41) {
        CHECK(scale == 0 && sum == 0);
        return;
    }
    CHECK(scale == 0 || near((double)scale, largest / 127, largest * 1e-6));
    for (uint32_t i = 0; i < n && scale > 0; i++)
        CHECK(codes[i] >= -127 && near((double)scale * codes[i], x[i], (double)scale * 0.51));
}

static void reference_quantize(const mk_kernels *k, uint32_t cols, bool transform, enum float_kind kind)
{
    uint32_t padded = (cols + 31) / 32 * 32, supers = mk_super_blocks(padded / 32);
    float *x = input_make(cols * sizeof(float)), *scales = input_make(supers * sizeof(float));
    int8_t *codes = input_make(padded);
    int32_t *sums = input_make(supers * sizeof(int32_t));
    fill_floats(x, cols, kind);
    k->quantize(x, cols, transform, codes, scales, sums);
    for (uint32_t s = 0; s < supers; s++) {
        double plain[256] = {0}, transformed[256];
        uint32_t n = padded - 256 * s < 256 ? padded - 256 * s : 256;
        for (uint32_t i = 0; i < n && 256 * s + i < cols; i++)
            plain[i] = (double)x[256 * s + i];
        plain_hadamard(plain, n, transformed);
        check_quantized(transform ? transformed : plain, n, codes + 256 * s, scales[s], sums[s]);
    }
    input_free(x);
    input_free(scales);
    input_free(codes);
    input_free(sums);
}

/* One output in double: sum over k of weight * activation; *scale receives the sum of magnitudes. */
static double plain_product(const test_matrix *m, uint32_t row, const mk_activations *x, uint32_t t,
                            double *scale)
{
    size_t width = 32 * (size_t)x->blocks, supers = mk_super_blocks(x->blocks);
    double sum = 0;
    *scale = 0;
    for (size_t i = 0; i < width; i++) {
        double product = (double)m->d[row * supers + i / 256] * m->plain[row * width + i] *
                         (double)x->scales[t * supers + i / 256] * x->codes[t * width + i];
        sum += product;
        *scale += fabs(product);
    }
    return sum;
}

static void reference_dequantize(const test_matrix *m, uint32_t row)
{
    uint32_t width = 32 * m->w.blocks;
    float *out = input_make(width * sizeof(float));
    mk_dequantize_row(&m->w, row, out);
    for (uint32_t at = 0; at < width; at += 256) {
        double plain[256], transformed[256], d = (double)m->d[row * mk_super_blocks(m->w.blocks) + at / 256];
        uint32_t n = width - at < 256 ? width - at : 256;
        for (uint32_t i = 0; i < n; i++)
            plain[i] = d * m->plain[row * (size_t)width + at + i];
        plain_hadamard(plain, n, transformed);
        for (uint32_t i = 0; i < n; i++)
            CHECK(near((double)out[at + i], m->w.transformed ? transformed[i] : plain[i], d * 127 * 16 * 1e-6));
    }
    input_free(out);
}

static void reference_gemm(const mk_kernels *k, uint32_t type, uint32_t rows, uint32_t cols,
                           enum matrix_kind kind)
{
    enum { TOKENS = FLOATS_KINDS };
    test_matrix m = make_matrix(type, rows, cols, kind);
    mk_activations x = make_activations(k, cols, TOKENS, FLOATS_NORMAL);
    size_t stride = 4 * m.w.groups;
    float *y = input_make(TOKENS * stride * sizeof(float));
    void *scratch = input_make(MK_GEMM_SCRATCH);
    k->gemm(&m.w, 0, m.w.groups, &x, TOKENS, y, stride, scratch);
    for (uint32_t t = 0; t < TOKENS; t++) {
        for (uint32_t row = 0; row < stride; row++) {
            double scale, expected = plain_product(&m, row, &x, t, &scale);
            CHECK(near((double)y[t * stride + row], expected, scale * 1e-6));
        }
    }
    for (uint32_t row = 0; row < rows; row++)
        reference_dequantize(&m, row);
    input_free(y);
    input_free(scratch);
    free_activations(&x);
    free_matrix(&m);
}

static void reference_elementwise(const mk_kernels *k, uint32_t n)
{
    float *x = input_make(n * sizeof(float)), *w = input_make(n * sizeof(float)),
          *y = input_make(n * sizeof(float));
    fill_floats(x, n, FLOATS_NORMAL);
    fill_floats(w, n, FLOATS_NORMAL);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    k->rms_norm(x, w, n, 1e-5f, y);
    for (uint32_t i = 0; i < n; i++) {
        double expected = (double)x[i] / sqrt(sum / n + 1e-5) * (double)w[i];
        CHECK(near((double)y[i], expected, fabs(expected) * 1e-6));
    }
    memcpy(y, x, n * sizeof(float));
    k->silu_multiply(y, w, n);
    for (uint32_t i = 0; i < n; i++) {
        double expected = (double)x[i] / (1 + exp(-(double)x[i])) * (double)w[i];
        CHECK(near((double)y[i], expected, fabs(expected) * 1e-6));
    }
    memcpy(y, x, n * sizeof(float));
    k->add(y, w, n);
    for (uint32_t i = 0; i < n; i++)
        CHECK(y[i] == x[i] + w[i]);
    input_free(x);
    input_free(w);
    input_free(y);
}

static void reference_rope(const mk_kernels *k, uint32_t heads, uint32_t head_size, uint32_t half)
{
    size_t n = (size_t)heads * head_size;
    float *x = input_make(n * sizeof(float)), *y = input_make(n * sizeof(float));
    float *c = input_make(half * sizeof(float)), *s = input_make(half * sizeof(float));
    fill_floats(x, (uint32_t)n, FLOATS_NORMAL);
    for (uint32_t i = 0; i < half; i++) {
        c[i] = (float)cos(0.37 * i + 1);
        s[i] = (float)sin(0.37 * i + 1);
    }
    memcpy(y, x, n * sizeof(float));
    k->rope(y, heads, head_size, half, c, s);
    for (size_t i = 0; i < n; i++) {
        size_t at = i % head_size;
        double expected = (double)x[i];
        if (at < half)
            expected = (double)x[i] * (double)c[at] - (double)x[i + half] * (double)s[at];
        else if (at < 2 * half)
            expected = (double)x[i - half] * (double)s[at - half] + (double)x[i] * (double)c[at - half];
        CHECK(near((double)y[i], expected, 1e-6 * (1 + fabs(expected))));
    }
    input_free(x);
    input_free(y);
    input_free(c);
    input_free(s);
}

static void reference_kv_store(const mk_kernels *k, int type, uint32_t head_size, enum float_kind kind)
{
    mk_kv_plane plane = make_kv_plane(k, type, head_size, 3, kind);
    float *x = input_make(head_size * sizeof(float));
    fill_floats(x, head_size, kind);
    k->kv_store[type](x, head_size, plane, 1);
    uint32_t block = type ? 32 : head_size;
    for (uint32_t at = 0; at < head_size; at += block) {
        double largest = 0;
        for (uint32_t i = at; i < at + block && i < head_size; i++)
            largest = larger(largest, fabs((double)x[i]));
        /* the widest gap between levels is 27 of 127, its half with bfloat16's rounding 0.111 */
        double tolerance = largest < 0x1p-40 ? largest : largest * (type ? 0.135 : 0.00398);
        for (uint32_t i = at; i < at + block && i < head_size; i++)
            CHECK(near(kv_value(type, plane, head_size, 1, i), (double)x[i], tolerance));
    }
    input_free(x);
    free_kv_plane(&plane);
}

/* The query as the kernel sees it: rounded to 127 steps of its largest value. */
static double quantized_query(const float *query, uint32_t head_size, uint32_t i)
{
    float largest = 0;
    for (uint32_t j = 0; j < head_size; j++)
        largest = fabsf(query[j]) > largest ? fabsf(query[j]) : largest;
    return largest < 0x1p-40f ? 0 : (double)(largest / 127.0f) * rint((double)(query[i] * (127.0f / largest)));
}

static void plain_attention(const mk_attention *a, int type, uint32_t h, double *out)
{
    double *s = input_make(a->count * sizeof(double)), largest = -HUGE_VAL, sum = 0;
    const float *query = a->queries + (size_t)h * a->head_size;
    for (uint32_t t = 0; t < a->count; t++) {
        s[t] = 0;
        for (uint32_t i = 0; i < a->head_size; i++)
            s[t] += quantized_query(query, a->head_size, i) *
                    kv_value(type, a->keys, a->head_size, a->first + t, i);
        s[t] *= (double)a->scale;
        largest = larger(largest, s[t]);
    }
    for (uint32_t t = 0; t < a->count; t++)
        sum += s[t] = exp(s[t] - largest);
    for (uint32_t i = 0; i < a->head_size; i++) {
        out[i] = 0;
        for (uint32_t t = 0; t < a->count; t++)
            out[i] += s[t] / sum * kv_value(type, a->values, a->head_size, a->first + t, i);
    }
    input_free(s);
}

static void reference_attend(const mk_kernels *k, int type, uint32_t head_size, uint32_t group, uint32_t count)
{
    mk_attention a = {
        .keys = make_kv_plane(k, type, head_size, count + 2, FLOATS_NORMAL),
        .values = make_kv_plane(k, type, head_size, count + 2, FLOATS_NORMAL),
        .head_size = head_size,
        .first = 2,
        .count = count,
        .scale = 1.0f / sqrtf((float)head_size),
        .group = group,
    };
    float *queries = input_make((size_t)group * head_size * sizeof(float));
    fill_floats(queries, group * head_size, FLOATS_NORMAL);
    a.queries = queries;
    a.out = input_make((size_t)group * head_size * sizeof(float));
    a.scratch = input_make(mk_attention_scratch(head_size, group, count));
    double *expected = input_make(head_size * sizeof(double));
    k->attend[type](&a);
    for (uint32_t h = 0; h < group; h++) {
        plain_attention(&a, type, h, expected);
        for (uint32_t i = 0; i < head_size; i++)
            CHECK(near((double)a.out[(size_t)h * head_size + i], expected[i], 4e-6));
    }
    input_free(queries);
    input_free(a.out);
    input_free(a.scratch);
    input_free(expected);
    free_kv_plane(&a.keys);
    free_kv_plane(&a.values);
}

static void test_reference(const mk_kernels *scalar)
{
    static const uint32_t cols[] = {8, 32, 64, 172, 192, 256, 576, 1536};
    static const uint32_t head_sizes[] = {8, 16, 64, 80, 96, 128, 256};
    for (uint32_t i = 0; i < sizeof cols / sizeof cols[0]; i++) {
        for (uint32_t kind = 0; kind < FLOATS_KINDS; kind++)
            for (int transform = 0; transform < 2; transform++)
                reference_quantize(scalar, cols[i], transform, (enum float_kind)kind);
        for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++) {
            reference_gemm(scalar, MKN_Q8, 5, cols[i], (enum matrix_kind)kind);
            reference_gemm(scalar, MKN_Q4, 5, cols[i], (enum matrix_kind)kind);
        }
        reference_elementwise(scalar, cols[i]);
        reference_hadamard(scalar, cols[i] < 1024 ? cols[i] : 1024);
    }
    for (uint32_t i = 0; i < sizeof head_sizes / sizeof head_sizes[0]; i++) {
        reference_rope(scalar, 3, head_sizes[i], head_sizes[i] / 2);
        reference_rope(scalar, 2, head_sizes[i], head_sizes[i] / 4);
        for (int type = 0; type < 2; type++) {
            for (uint32_t kind = 0; kind < FLOATS_KINDS; kind++)
                reference_kv_store(scalar, type, head_sizes[i], (enum float_kind)kind);
            reference_attend(scalar, type, head_sizes[i], 3, 17);
            reference_attend(scalar, type, head_sizes[i], 1, 150);
        }
    }
}

#endif
