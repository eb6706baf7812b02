/* inputs.h - what the kernel tests feed: a generator, buffers with guards, and matrices packed from
 * plain rows by the definition in mkn.h. */
#ifndef MK_TESTS_KERNELS_INPUTS_H
#define MK_TESTS_KERNELS_INPUTS_H

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "check.h"
#include "kernels/kernels.h"

static uint64_t random_state = 1;

static uint32_t random32(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 32);
}

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)((uint64_t)random32() * n >> 32);
}

/* Sum of twelve uniforms: near enough to normal. */
static float random_normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)(random32() >> 8) * 0x1p-24f;
    return sum - 6.0f;
}

/* ---- Buffers with guards: 64 bytes on either side that nobody may write. --------------------- */

enum { GUARD = 64, GUARD_BYTE = 0xa5 };

typedef struct buffer {
    void *data; /* 64-byte aligned */
    size_t size;
} buffer;

static buffer buffer_make(size_t size)
{
    void *memory;
    if (posix_memalign(&memory, 64, size + 2 * GUARD) != 0)
        abort();
    memset(memory, GUARD_BYTE, size + 2 * GUARD);
    return (buffer){(uint8_t *)memory + GUARD, size};
}

static bool buffer_guards_whole(buffer b)
{
    const uint8_t *before = (const uint8_t *)b.data - GUARD, *after = (const uint8_t *)b.data + b.size;
    for (int i = 0; i < GUARD; i++) {
        if (before[i] != GUARD_BYTE || after[i] != GUARD_BYTE)
            return false;
    }
    return true;
}

static void buffer_free(buffer b)
{
    free((uint8_t *)b.data - GUARD);
}

/* Inputs end at a page that nobody may touch (or at the sanitizer's own guard), so that a kernel that
 * reads too far is caught, assembly included. */
#if defined(__SANITIZE_ADDRESS__)
#define INPUTS_BY_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define INPUTS_BY_MALLOC 1
#endif
#endif

#ifdef INPUTS_BY_MALLOC
static void *input_make(size_t size)
{
    void *memory;
    if (posix_memalign(&memory, 64, size ? size : 1) != 0)
        abort();
    return memory;
}

static void input_free(void *input)
{
    free(input);
}
#else
/* The size of the mapping is kept in the 64 bytes before the input. */
static void *input_make(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (size + 63) / 64 * 64;
    size_t mapped = (rounded + 64 + page - 1) / page * page + page;
    uint8_t *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + mapped - page, page, PROT_NONE) != 0)
        abort();
    uint8_t *input = base + mapped - page - rounded;
    memcpy(input - 64, &mapped, sizeof mapped);
    return input;
}

static void input_free(void *input)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped;
    if (!input)
        return;
    uint8_t *header = (uint8_t *)input - 64; /* in the first page */
    memcpy(&mapped, header, sizeof mapped);
    munmap(header - (uintptr_t)header % page, mapped);
}
#endif

/* ---- Kinds of float vectors ------------------------------------------------------------------ */

enum float_kind {
    FLOATS_NORMAL,
    FLOATS_ZERO,
    FLOATS_EQUAL,     /* all +v or all -v */
    FLOATS_ALTERNATE, /* +v, -v */
    FLOATS_OUTLIER,   /* one a thousand times the others */
    FLOATS_TINY,      /* about the smallest magnitude that is not quantized to zero */
    FLOATS_DENORMAL,
    FLOATS_HUGE,
    FLOATS_KINDS,
};

static float float_of_kind(enum float_kind kind, uint32_t i, uint32_t outlier, float sign)
{
    switch (kind) {
    case FLOATS_ZERO:
        return i % 3 ? 0.0f : -0.0f;
    case FLOATS_EQUAL:
        return sign * 1.37f;
    case FLOATS_ALTERNATE:
        return i % 2 ? 0.7f : -0.7f;
    case FLOATS_OUTLIER:
        return random_normal() * (i == outlier ? 1000.0f : 1.0f);
    case FLOATS_TINY:
        return random_normal() * 0x1p-41f;
    case FLOATS_DENORMAL:
        return random_normal() * 0x1p-130f;
    case FLOATS_HUGE:
        return random_normal() * 1e17f;
    default:
        return random_normal();
    }
}

static void fill_floats(float *x, uint32_t n, enum float_kind kind)
{
    uint32_t outlier = random_below(n ? n : 1);
    float sign = random32() & 1 ? 1.0f : -1.0f;
    for (uint32_t i = 0; i < n; i++)
        x[i] = float_of_kind(kind, i, outlier, sign);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

enum matrix_kind {
    MATRIX_RANDOM,
    MATRIX_HIGH, /* every weight code +127 */
    MATRIX_LOW,  /* every weight code -127 */
    MATRIX_ZERO,
    MATRIX_OUTLIER,
    MATRIX_SMALL_D, /* subnormal fp16 scales */
    MATRIX_LARGE_D, /* the largest fp16 scales */
    MATRIX_ZERO_D,
    MATRIX_KINDS,
};

typedef struct test_matrix {
    mk_matrix w;
    int8_t *plain; /* [4 * groups][32 * blocks], padding included */
    float *d;      /* [4 * groups][super-blocks] */
    int8_t *tables;
    uint8_t *codes, *scales;
} test_matrix;

static int8_t weight_of_kind(enum matrix_kind kind, bool outlier)
{
    switch (kind) {
    case MATRIX_HIGH:
        return 127;
    case MATRIX_LOW:
        return -127;
    case MATRIX_ZERO:
        return 0;
    case MATRIX_OUTLIER:
        return outlier ? 127 : (int8_t)(random_below(3) - 1);
    default:
        return (int8_t)((int)random_below(255) - 127);
    }
}

static uint16_t d_of_kind(enum matrix_kind kind)
{
    switch (kind) {
    case MATRIX_SMALL_D:
        return (uint16_t)(1 + random_below(1023));
    case MATRIX_LARGE_D:
        return 0x7bff; /* 65504 */
    case MATRIX_ZERO_D:
        return 0;
    default: /* 2^-14 to 2^1 */
        return (uint16_t)(0x0400 + random_below(0x3c00));
    }
}

static int compare_int8(const void *a, const void *b)
{
    return *(const int8_t *)a - *(const int8_t *)b;
}

/* 256 ascending tables; with 127 and -127 at their ends, and a constant one for each extreme kind. */
static int8_t *make_tables(enum matrix_kind kind)
{
    int8_t *tables = input_make(MKN_TABLES * MKN_LEVELS);
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        int8_t *table = tables + t * MKN_LEVELS;
        for (uint32_t i = 0; i < MKN_LEVELS; i++)
            table[i] = weight_of_kind(kind, i == 3);
        if (kind == MATRIX_RANDOM && t % 4 == 0) {
            table[0] = -127;
            table[1] = 127;
        }
        qsort(table, MKN_LEVELS, 1, compare_int8);
    }
    return tables;
}

/* Packs one block of one row, and its table where the matrix is q4, by the definition in mkn.h. */
static void pack_block(test_matrix *m, uint32_t row, uint32_t b, enum matrix_kind kind)
{
    mk_matrix *w = &m->w;
    size_t group = row / 4, r = row % 4, blocks = w->blocks;
    int8_t *plain = m->plain + (row * blocks + b) * 32;
    if (w->type == MKN_Q8) {
        uint32_t outlier = random_below(32);
        for (uint32_t i = 0; i < 32; i++)
            plain[i] = 32 * b + i < w->cols ? weight_of_kind(kind, i == outlier) : 0;
        memcpy(m->codes + (group * blocks + b) * 128 + 32 * r, plain, 32);
        return;
    }
    size_t supers = mk_super_blocks(w->blocks);
    uint32_t pick = random_below(256);
    m->scales[group * (8 * supers + 4 * blocks) + b / 8 * 40 + 8 + b % 8 * 4 + r] = (uint8_t)pick;
    uint8_t *codes = m->codes + (group * blocks + b) * 64 + 16 * r;
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t code = random_below(16);
        plain[i] = m->tables[16 * pick + code];
        if (i < 16)
            codes[i] = (uint8_t)code;
        else
            codes[i - 16] = (uint8_t)(codes[i - 16] | code << 4);
    }
}

static test_matrix make_matrix(uint32_t type, uint32_t rows, uint32_t cols, enum matrix_kind kind)
{
    test_matrix m = {.w = {.type = type, .rows = rows, .cols = cols, .transformed = random32() & 1}};
    m.w.groups = (rows + 3) / 4;
    m.w.blocks = (cols + 31) / 32;
    size_t groups = m.w.groups, blocks = m.w.blocks, supers = mk_super_blocks(m.w.blocks);
    bool q4 = type == MKN_Q4;
    m.plain = input_make(groups * 4 * blocks * 32);
    m.d = input_make(groups * 4 * supers * sizeof(float));
    m.codes = input_make(groups * blocks * (q4 ? 64 : 128));
    m.scales = input_make(groups * (8 * supers + (q4 ? 4 * blocks : 0)));
    m.tables = q4 ? make_tables(kind) : NULL;
    for (uint32_t row = 0; row < 4 * groups; row++) {
        for (uint32_t s = 0; s < supers; s++) {
            uint16_t d = d_of_kind(kind);
            m.d[row * supers + s] = mk_half_to_float(d);
            size_t at = row / 4 * (8 * supers + (q4 ? 4 * blocks : 0)) + s * (q4 ? 40u : 8u) + row % 4 * 2;
            memcpy(m.scales + at, &d, 2);
        }
        for (uint32_t b = 0; b < blocks; b++)
            pack_block(&m, row, b, kind);
    }
    m.w.codes = m.codes;
    m.w.scales = m.scales;
    m.w.tables = m.tables;
    return m;
}

static void free_matrix(test_matrix *m)
{
    input_free(m->plain);
    input_free(m->d);
    input_free(m->codes);
    input_free(m->scales);
    input_free(m->tables);
}

/* Activations of `tokens` tokens, quantized by the reference; kinds rotate over the tokens. */
static mk_activations make_activations(const mk_kernels *scalar, uint32_t cols, uint32_t tokens,
                                       enum float_kind first_kind)
{
    mk_activations x = {.blocks = (cols + 31) / 32};
    size_t supers = mk_super_blocks(x.blocks), width = (size_t)x.blocks * 32;
    x.codes = input_make(tokens * width);
    x.scales = input_make(tokens * supers * sizeof(float));
    x.sums = input_make(tokens * supers * sizeof(int32_t));
    float *values = input_make(cols * sizeof(float));
    for (uint32_t t = 0; t < tokens; t++) {
        fill_floats(values, cols, (enum float_kind)((first_kind + t) % FLOATS_KINDS));
        scalar->quantize(values, cols, t % 3 != 2, x.codes + t * width, x.scales + t * supers,
                         x.sums + t * supers);
    }
    input_free(values);
    return x;
}

/* Codes that no transform would give: every one +127, -127, or of random sign. */
static void make_codes_extreme(mk_activations *x, uint32_t tokens)
{
    size_t supers = mk_super_blocks(x->blocks), width = (size_t)x->blocks * 32;
    memset(x->sums, 0, tokens * supers * sizeof *x->sums);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t i = 0; i < width; i++) {
            int code = t % 3 == 0 || (t % 3 == 2 && random32() & 1) ? 127 : -127;
            x->codes[t * width + i] = (int8_t)code;
            x->sums[t * supers + i / 256] += code;
        }
    }
}

static void free_activations(mk_activations *x)
{
    input_free(x->codes);
    input_free(x->scales);
    input_free(x->sums);
}

/* ---- Keys and values -------------------------------------------------------------------------- */

static mk_kv_plane make_kv_plane(const mk_kernels *scalar, int type, uint32_t head_size, uint32_t positions,
                                 enum float_kind kind)
{
    mk_kv_plane plane = {
        .codes = input_make((size_t)positions * mk_kv_stride(type, head_size)),
        .scales = input_make((size_t)positions * mk_kv_scales(type, head_size) * sizeof(uint16_t)),
    };
    float *x = input_make(head_size * sizeof(float));
    for (uint32_t t = 0; t < positions; t++) {
        fill_floats(x, head_size, kind);
        scalar->kv_store[type](x, head_size, plane, t);
    }
    input_free(x);
    return plane;
}

static void free_kv_plane(mk_kv_plane *plane)
{
    input_free(plane->codes);
    input_free(plane->scales);
}

/* Value i of position t, by the definition in kernels.h. */
static double kv_value(int type, mk_kv_plane plane, uint32_t head_size, uint32_t t, uint32_t i)
{
    const uint8_t *codes = plane.codes + (size_t)t * mk_kv_stride(type, head_size);
    const uint16_t *scales = plane.scales + (size_t)t * mk_kv_scales(type, head_size);
    double scale = (double)mk_float_from_bits((uint32_t)scales[type ? i / 32 : 0] << 16);
    if (!type)
        return scale * (int8_t)codes[i];
    uint8_t byte = codes[i / 32 * 16 + i % 16];
    return scale * mk_kv_levels[i % 32 < 16 ? byte & 15 : byte >> 4];
}

#endif
