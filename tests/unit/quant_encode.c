/* Encoding: half floats, q8 and q4 by their properties, the search for tables against an exhaustive one,
 * learning. */
#include <math.h>
#include <stdint.h>

#include "base/bytes.h"
#include "check.h"
#include "quant/encode/encode.h"
#include "quant/encode/hadamard.h"
#include "quant/encode/half.h"
#include "quant/encode/learn.h"
#include "quant/encode/parallel.h"

static uint64_t random_state = 1;
static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 40) / (1 << 24);
}

static float normal(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform();
    return (float)(sum - 6);
}

/* ---- Half floats ------------------------------------------------------------------------------ */

static void halves(void)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double x = (double)mk_half_to_float((uint16_t)h);
        CHECK(half_from_double(x) == h);
        if (h == 0x7bff)
            break;
        double next = (double)mk_half_to_float((uint16_t)(h + 1)), middle = (x + next) / 2;
        CHECK(half_from_double(middle) == h + (h & 1)); /* to even */
        CHECK(half_from_double(middle - middle * 0x1p-50) == h);
        CHECK(half_from_double(middle + middle * 0x1p-50) == h + 1);
    }
    CHECK(half_from_double(0) == 0);
    CHECK(half_from_double(1e-300) == 0);
    CHECK(half_from_double(0x1p-25) == 0);
    CHECK(half_from_double(0x1.1p-25) == 1);
}

/* ---- The transform ---------------------------------------------------------------------------- */

static void transform(void)
{
    static const uint32_t sizes[] = {32, 64, 96, 192, 224, 256, 288, 576, 1536};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        float row[1536], again[1536];
        double before = 0, after = 0;
        uint32_t n = sizes[s];
        for (uint32_t i = 0; i < n; i++) {
            row[i] = again[i] = normal();
            before += (double)row[i] * (double)row[i];
        }
        hadamard_row(again, n);
        for (uint32_t i = 0; i < n; i++)
            after += (double)again[i] * (double)again[i];
        CHECK(fabs(after / before - 1) < 1e-6);
        hadamard_row(again, n);
        for (uint32_t i = 0; i < n; i++)
            CHECK(fabs((double)again[i] - (double)row[i]) < 1e-6);
    }
    float ones[256];
    for (int i = 0; i < 256; i++)
        ones[i] = 1;
    hadamard_row(ones, 224); /* 128 + 64 + 32 */
    for (int i = 0; i < 224; i++)
        CHECK(fabs((double)ones[i] - (i == 0 ? sqrt(128) : i == 128 ? 8 : i == 192 ? sqrt(32) : 0)) < 1e-6);
    CHECK(ones[224] == 1);
}

/* ---- Decoding, from mkn.h --------------------------------------------------------------------- */

enum { MAX_COLS = 1024 };

typedef struct encoded {
    uint8_t codes[MAX_COLS / 32 * 128], scales[MAX_COLS / 256 * 8 + MAX_COLS / 32 * 4];
    encode_error error;
} encoded;

static float decode_q8(const encoded *e, uint32_t row, uint32_t col)
{
    float d = mk_half_to_float(mk_load16(e->scales + col / 256 * 8 + 2 * row));
    return d * (float)(int8_t)e->codes[col / 32 * 128 + 32 * row + col % 32];
}

static float decode_q4(const encoded *e, const codebook *book, uint32_t row, uint32_t col)
{
    const uint8_t *super = e->scales + (size_t)(col / 256) * 40;
    float d = mk_half_to_float(mk_load16(super + 2 * row));
    uint32_t table = super[8 + 4 * (col / 32 % 8) + row];
    uint32_t byte = e->codes[col / 32 * 64 + 16 * row + col % 16];
    return d * (float)codebook_table(book, table)[col % 32 < 16 ? byte & 15 : byte >> 4];
}

static codebook *start_book(void)
{
    int8_t tables[MKN_TABLES][MKN_LEVELS];
    learn_start(tables);
    return codebook_create((const int8_t(*)[MKN_LEVELS])tables);
}

/* Rows with everything awkward in them. */
static void fill(float *w, uint32_t cols, int kind)
{
    for (uint32_t i = 0; i < 4 * cols; i++) {
        switch (kind) {
        case 0: /* normal */
            w[i] = normal() * 0.02f;
            break;
        case 1: /* zeros */
            w[i] = i % 2 ? 0.0f : -0.0f;
            break;
        case 2: /* one outlier a row */
            w[i] = i % cols == 7 ? 1000.0f : normal();
            break;
        case 3: /* all equal */
            w[i] = -0.125f;
            break;
        case 4: /* scales would be subnormal */
            w[i] = normal() * 2e-7f;
            break;
        case 5: /* and here 0 */
            w[i] = normal() * 1e-9f;
            break;
        case 6: /* subnormal floats */
            w[i] = normal() * 1e-42f;
            break;
        case 7: /* as large as may be, all of one sign */
            w[i] = 16 * 499999.0f;
            break;
        case 8: /* zero but for the last */
            w[i] = i % cols == cols - 1 ? 0.7f : 0;
            break;
        default: /* every super-block of another size */
            w[i] = normal() * powf(10, (float)(i % cols / 256) - 3);
        }
    }
}

static void check_errors(const encoded *e, const float *w, uint32_t cols, uint32_t rows, const codebook *book,
                         int kind)
{
    double signal = 0, noise = 0;
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t col = 0; col < cols; col++) {
            double x = (double)w[row * cols + col];
            double y = (double)(book ? decode_q4(e, book, row, col) : decode_q8(e, row, col));
            signal += x * x;
            noise += (x - y) * (x - y);
        }
    CHECK_MSG(fabs(noise - e->error.noise) <= 1e-5 * noise + 1e-40, "kind %d: noise %g, reported %g", kind,
              noise, e->error.noise);
    CHECK(fabs(signal - e->error.signal) <= 1e-5 * signal + 1e-40);
    if (kind == 0)
        CHECK_MSG(signal / noise > (book ? 100 : 10000), "signal to noise %g", signal / noise);
    CHECK_MSG(noise <= signal, "kind %d: noise %g, signal %g", kind, noise, signal);
}

/* No q8 weight is off by more than half a step, and codes stay in -127..127. */
static void check_q8_bounds(const encoded *e, const float *w, uint32_t cols, uint32_t rows)
{
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t col = 0; col < cols; col++) {
            double d = (double)mk_half_to_float(mk_load16(e->scales + col / 256 * 8 + 2 * row));
            double x = (double)w[row * cols + col], y = (double)decode_q8(e, row, col);
            CHECK((int8_t)e->codes[col / 32 * 128 + 32 * row + col % 32] != -128);
            CHECK_MSG(fabs(x - y) <= 0.5625 * d, "weight %g became %g, step %g", x, y, d);
        }
}

static void encode_kinds(void)
{
    static const uint32_t widths[] = {32, 64, 172, 256, 288, 576, 1024};
    static float w[4 * MAX_COLS];
    codebook *book = start_book();
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int kind = 0; kind < 10; kind++)
            for (uint32_t rows = 1; rows <= 4; rows += 3) {
                encoded e;
                weight_group group = {.weights = w, .rows = rows, .cols = widths[i], .stride = widths[i]};
                fill(w, widths[i], kind);
                memset(&e, 0xff, sizeof e.codes + sizeof e.scales);
                e.error = (encode_error){0};
                encode_q8(&group, e.codes, e.scales, &e.error);
                check_errors(&e, w, widths[i], rows, NULL, kind);
                check_q8_bounds(&e, w, widths[i], rows);
                memset(&e, 0xff, sizeof e.codes + sizeof e.scales);
                e.error = (encode_error){0};
                encode_q4(book, &group, e.codes, e.scales, &e.error);
                check_errors(&e, w, widths[i], rows, book, kind);
            }
    codebook_free(book);
}

/* Padding of rows and columns is zero. */
static void padding(void)
{
    float w[40];
    encoded e;
    codebook *book = start_book();
    weight_group group = {.weights = w, .rows = 1, .cols = 40, .stride = 40};
    for (int i = 0; i < 40; i++)
        w[i] = 1;
    memset(&e, 0xff, sizeof e);
    encode_q8(&group, e.codes, e.scales, &e.error);
    for (uint32_t i = 0; i < 256; i++)
        CHECK(e.codes[i] == (i < 32 || (i >= 128 && i < 136) ? 127 : 0));
    CHECK(mk_load16(e.scales) != 0 && e.codes[256] == 0xff && e.scales[8] == 0xff);
    for (uint32_t i = 2; i < 8; i++)
        CHECK(e.scales[i] == 0);
    encode_q4(book, &group, e.codes, e.scales, &e.error);
    for (uint32_t i = 16; i < 64; i++)
        CHECK(e.codes[i] == 0);
    CHECK(e.codes[128] == 127 && e.scales[16] == 0xff); /* what encode_q8 left is not touched */
    codebook_free(book);
}

static void unfit(void)
{
    float w[4] = {1, -2, 499999, -499999};
    CHECK(encode_find_unfit(w, 4) == 4);
    w[2] = NAN;
    CHECK(encode_find_unfit(w, 4) == 2);
    w[2] = -INFINITY;
    CHECK(encode_find_unfit(w, 4) == 2);
    w[0] = 500001;
    CHECK(encode_find_unfit(w, 4) == 0);
}

/* ---- Search ----------------------------------------------------------------------------------- */

/* The definition: every table, every level, in double. */
static double exhaustive(const codebook *book, const float *values, uint32_t count, uint32_t *best)
{
    double least = INFINITY;
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        double sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            double nearest = INFINITY;
            for (uint32_t l = 0; l < MKN_LEVELS; l++)
                nearest = fmin(nearest, fabs((double)values[i] - codebook_table(book, t)[l]));
            sum += nearest * nearest;
        }
        if (sum < least) {
            least = sum;
            *best = t;
        }
    }
    return least;
}

static void search(void)
{
    codebook *book = start_book();
    for (int n = 0; n < 3000; n++) {
        float values[32], error;
        uint8_t codes[32];
        uint32_t expected = 0, count = n % 5 ? 32 : 1 + (uint32_t)n % 32;
        float size = (float)(130 * uniform());
        for (uint32_t i = 0; i < count; i++)
            values[i] = n % 3 == 0   ? normal() * size / 3
                        : n % 3 == 1 ? rintf(normal() * size / 3 * 2) / 2 /* on the boundaries of cells */
                                     : (float)(uniform() - 0.3) * 2 * size;
        uint32_t found = codebook_search(book, values, count, codes, &error);
        double least = exhaustive(book, values, count, &expected), sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            CHECK(codes[i] < 16);
            double difference = (double)values[i] - codebook_table(book, found)[codes[i]];
            sum += difference * difference;
        }
        CHECK_MSG(sum <= least * (1 + 1e-5) + 1e-9, "case %d: error %g of table %u, best %g of table %u", n,
                  sum, found, least, expected);
        CHECK(fabs(sum - (double)error) <= 1e-5 * sum + 1e-9);
    }
    codebook_free(book);
}

/* ---- Learning --------------------------------------------------------------------------------- */

static double sample_error(const codebook *book, const block_sample *sample)
{
    double sum = 0;
    for (uint32_t b = 0; b < sample->count; b++) {
        uint8_t codes[32];
        float error;
        codebook_search(book, sample->values[b], 32, codes, &error);
        sum += (double)error * (double)sample->weights[b];
    }
    return sum;
}

static void learning(void)
{
    enum { COUNT = 6000 };
    static float values[COUNT][MKN_BLOCK], weights[COUNT];
    block_sample sample = {.count = COUNT, .values = values, .weights = weights};
    for (int b = 0; b < COUNT; b++) {
        float size = 20 + (float)(20 * uniform());
        weights[b] = (float)(0.5 + uniform());
        for (int i = 0; i < 32; i++)
            values[b][i] = fmaxf(-127, fminf(127, normal() * size));
    }
    codebook *one = start_book(), *three = start_book();
    double before = sample_error(one, &sample);
    CHECK(learn_tables(one, &sample, 10, 1));
    CHECK(learn_tables(three, &sample, 10, 3));
    CHECK(memcmp(codebook_table(one, 0), codebook_table(three, 0), MKN_TABLES * MKN_LEVELS) == 0);
    double after = sample_error(one, &sample);
    CHECK_MSG(after < 0.85 * before, "error %g before, %g after", before, after);
    for (uint32_t t = 0; t < MKN_TABLES; t++)
        for (uint32_t l = 0; l + 1 < MKN_LEVELS; l++)
            CHECK(codebook_table(one, t)[l] <= codebook_table(one, t)[l + 1]);
    codebook_free(one);
    sample.count = 3; /* fewer blocks than tables */
    CHECK(learn_tables(three, &sample, 6, 2));
    sample.count = 0;
    CHECK(learn_tables(three, &sample, 6, 2));
    codebook_free(three);
}

static uint32_t visits[1000];
static void visit(void *context, uint64_t index, uint32_t worker)
{
    CHECK(context == visits && worker < 7);
    visits[index]++;
}

static void parallel(void)
{
    for (uint32_t threads = 1; threads <= 7; threads += 3)
        parallel_for(threads, 1000, visit, visits);
    parallel_for(3, 0, visit, visits);
    for (int i = 0; i < 1000; i++)
        CHECK(visits[i] == 3);
    CHECK(parallel_default() >= 1 && parallel_default() <= PARALLEL_MAX);
}

int main(void)
{
    halves();
    transform();
    encode_kinds();
    padding();
    unfit();
    search();
    learning();
    parallel();
    return check_end();
}
