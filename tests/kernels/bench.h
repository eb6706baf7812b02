/* bench.h - times of each kernel: one table, a column for each set. */
#ifndef MK_TESTS_KERNELS_BENCH_H
#define MK_TESTS_KERNELS_BENCH_H

#include <time.h>

#include "inputs.h"

#define BENCH_ROWS 512u
#define BENCH_COLS 1536u
#define BENCH_TOKENS 64u
#define BENCH_HEAD 64u
#define BENCH_GROUP 3u
#define BENCH_POSITIONS 512u

typedef struct bench_data {
    test_matrix q4, q8;
    mk_activations x;
    float *values, *weight, *y, *cosines, *sines;
    int8_t *codes;
    float *scales;
    int32_t *sums;
    mk_attention attention[2];
    void *scratch;
} bench_data;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bench_gemv_q4(const mk_kernels *k, bench_data *d)
{
    k->gemv(&d->q4.w, 0, BENCH_ROWS / 4, &d->x, d->y);
}

static void bench_gemv_q8(const mk_kernels *k, bench_data *d)
{
    k->gemv(&d->q8.w, 0, BENCH_ROWS / 4, &d->x, d->y);
}

static void bench_gemm_q4(const mk_kernels *k, bench_data *d)
{
    k->gemm(&d->q4.w, 0, BENCH_ROWS / 4, &d->x, BENCH_TOKENS, d->y, BENCH_ROWS, d->scratch);
}

static void bench_gemm_q8(const mk_kernels *k, bench_data *d)
{
    k->gemm(&d->q8.w, 0, BENCH_ROWS / 4, &d->x, BENCH_TOKENS, d->y, BENCH_ROWS, d->scratch);
}

static void bench_quantize(const mk_kernels *k, bench_data *d)
{
    k->quantize(d->values, BENCH_COLS, true, d->codes, d->scales, d->sums);
}

static void bench_hadamard(const mk_kernels *k, bench_data *d)
{
    memcpy(d->y, d->values, BENCH_COLS * sizeof(float));
    for (uint32_t i = 0; i < BENCH_COLS; i += 256)
        k->hadamard(d->y + i, 256);
}

static void bench_rms_norm(const mk_kernels *k, bench_data *d)
{
    k->rms_norm(d->values, d->weight, BENCH_COLS, 1e-5f, d->y);
}

static void bench_silu(const mk_kernels *k, bench_data *d)
{
    memcpy(d->y, d->values, BENCH_COLS * sizeof(float));
    k->silu_multiply(d->y, d->weight, BENCH_COLS);
}

static void bench_add(const mk_kernels *k, bench_data *d)
{
    memset(d->y, 0, BENCH_COLS * sizeof(float));
    k->add(d->y, d->weight, BENCH_COLS);
}

static void bench_rope(const mk_kernels *k, bench_data *d)
{
    k->rope(d->values, BENCH_COLS / BENCH_HEAD, BENCH_HEAD, BENCH_HEAD / 2, d->cosines, d->sines);
}

static void bench_kv_store_q8(const mk_kernels *k, bench_data *d)
{
    k->kv_store[0](d->values, BENCH_HEAD, d->attention[0].keys, 0);
}

static void bench_kv_store_q4(const mk_kernels *k, bench_data *d)
{
    k->kv_store[1](d->values, BENCH_HEAD, d->attention[1].keys, 0);
}

static void bench_attend_q8(const mk_kernels *k, bench_data *d)
{
    k->attend[0](&d->attention[0]);
}

static void bench_attend_q4(const mk_kernels *k, bench_data *d)
{
    k->attend[1](&d->attention[1]);
}

typedef struct bench_case {
    const char *name, *unit;
    double work; /* units of one run */
    void (*run)(const mk_kernels *k, bench_data *d);
} bench_case;

#define BENCH_MACS ((double)BENCH_ROWS * BENCH_COLS)
#define BENCH_READS ((double)BENCH_GROUP * BENCH_POSITIONS)

static const bench_case bench_cases[] = {
    {"gemv q4", "128 weights", BENCH_MACS / 128, bench_gemv_q4},
    {"gemv q8", "128 weights", BENCH_MACS / 128, bench_gemv_q8},
    {"gemm q4, 64 tokens", "2048 products", BENCH_MACS *BENCH_TOKENS / 2048, bench_gemm_q4},
    {"gemm q8, 64 tokens", "2048 products", BENCH_MACS *BENCH_TOKENS / 2048, bench_gemm_q8},
    {"quantize", "256 values", BENCH_COLS / 256.0, bench_quantize},
    {"hadamard of 256", "256 values", BENCH_COLS / 256.0, bench_hadamard},
    {"rms_norm", "256 values", BENCH_COLS / 256.0, bench_rms_norm},
    {"silu_multiply", "256 values", BENCH_COLS / 256.0, bench_silu},
    {"add", "256 values", BENCH_COLS / 256.0, bench_add},
    {"rope", "256 values", BENCH_COLS / 256.0, bench_rope},
    {"kv_store q8", "head of 64", 1, bench_kv_store_q8},
    {"kv_store q4", "head of 64", 1, bench_kv_store_q4},
    {"attend q8, head of 64", "query, position", BENCH_READS, bench_attend_q8},
    {"attend q4, head of 64", "query, position", BENCH_READS, bench_attend_q4},
};

static mk_attention bench_attention(const mk_kernels *scalar, int type, const float *queries, float *out)
{
    return (mk_attention){
        .keys = make_kv_plane(scalar, type, BENCH_HEAD, BENCH_POSITIONS, FLOATS_NORMAL),
        .values = make_kv_plane(scalar, type, BENCH_HEAD, BENCH_POSITIONS, FLOATS_NORMAL),
        .head_size = BENCH_HEAD,
        .count = BENCH_POSITIONS,
        .scale = 0.125f,
        .queries = queries,
        .group = BENCH_GROUP,
        .out = out,
        .scratch = input_make(mk_attention_scratch(BENCH_HEAD, BENCH_GROUP, BENCH_POSITIONS)),
    };
}

static bench_data make_bench_data(const mk_kernels *scalar)
{
    bench_data d = {
        .q4 = make_matrix(MKN_Q4, BENCH_ROWS, BENCH_COLS, MATRIX_RANDOM),
        .q8 = make_matrix(MKN_Q8, BENCH_ROWS, BENCH_COLS, MATRIX_RANDOM),
        .x = make_activations(scalar, BENCH_COLS, BENCH_TOKENS, FLOATS_NORMAL),
        .values = input_make(BENCH_COLS * sizeof(float)),
        .weight = input_make(BENCH_COLS * sizeof(float)),
        .y = input_make((size_t)BENCH_ROWS * BENCH_TOKENS * sizeof(float)),
        .cosines = input_make(BENCH_HEAD * sizeof(float)),
        .sines = input_make(BENCH_HEAD * sizeof(float)),
        .codes = input_make(BENCH_COLS),
        .scales = input_make(BENCH_COLS * sizeof(float)),
        .sums = input_make(BENCH_COLS * sizeof(int32_t)),
        .scratch = input_make(MK_GEMM_SCRATCH),
    };
    fill_floats(d.values, BENCH_COLS, FLOATS_NORMAL);
    fill_floats(d.weight, BENCH_COLS, FLOATS_NORMAL);
    for (uint32_t i = 0; i < BENCH_HEAD; i++) {
        d.cosines[i] = 0.6f;
        d.sines[i] = 0.8f;
    }
    d.attention[0] = bench_attention(scalar, 0, d.values, d.y);
    d.attention[1] = bench_attention(scalar, 1, d.values, d.y);
    return d;
}

/* Nanoseconds of one run: the best of many short stretches, for what else the machine does. */
static double bench_time(const bench_case *c, const mk_kernels *k, bench_data *d)
{
    double best = 1e9;
    long runs = 1;
    for (int stretch = 0; stretch < 25;) {
        double begin = now();
        for (long i = 0; i < runs; i++)
            c->run(k, d);
        double seconds = now() - begin;
        if (seconds < 0.002 && runs < 1l << 24) {
            runs *= 2;
            continue;
        }
        best = seconds / (double)runs < best ? seconds / (double)runs : best;
        stretch++;
    }
    return best * 1e9;
}

/* Of one set, or of all that this CPU can run. */
static void print_bench(const mk_kernels *only)
{
    const mk_kernels *scalar = mk_kernels_find("scalar");
    bench_data d = make_bench_data(scalar);
    printf("ns per unit (times as fast as scalar)\n%-24s%-18s%10s", "kernel", "unit", "scalar");
    for (size_t i = 1; mk_kernels_at(i); i++) {
        if (mk_kernels_available(mk_kernels_at(i)) && (!only || only == mk_kernels_at(i)))
            printf("%20s", mk_kernels_at(i)->name);
    }
    printf("\n");
    for (size_t c = 0; c < sizeof bench_cases / sizeof bench_cases[0]; c++) {
        const bench_case *b = &bench_cases[c];
        double reference = bench_time(b, scalar, &d);
        printf("%-24s%-18s%10.2f", b->name, b->unit, reference / b->work);
        for (size_t i = 1; mk_kernels_at(i); i++) {
            const mk_kernels *k = mk_kernels_at(i);
            if (!mk_kernels_available(k) || (only && only != k))
                continue;
            double time = bench_time(b, k, &d);
            printf("%11.3f (%6.1f)", time / b->work, reference / time);
        }
        printf("\n");
        fflush(stdout);
    }
}

#endif
