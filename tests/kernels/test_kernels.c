/* Every kernel of every set that this CPU can run against the scalar reference, bit for bit, on random
 * and extreme inputs; and the scalar reference against double precision.
 *
 *     test_kernels                 all sets; prints which were tested
 *     test_kernels --isa NAME      this set alone, which must be there
 *     test_kernels --bench         times of each kernel of each set */
#define _GNU_SOURCE

#include "inputs.h"
#include "reference.h"
#include "bench.h"

static const mk_kernels *scalar;
static const char *set_name;

#define CHECK_SAME(actual, expected, ...)                                                                      \
    do {                                                                                                       \
        CHECK_MSG(memcmp((actual).data, (expected).data, (expected).size) == 0, __VA_ARGS__);                  \
        CHECK_MSG(buffer_guards_whole(actual), __VA_ARGS__);                                                   \
    } while (0)

static void compare_hadamard(const mk_kernels *k, uint32_t n, enum float_kind kind)
{
    buffer actual = buffer_make(n * sizeof(float)), expected = buffer_make(n * sizeof(float));
    fill_floats(actual.data, n, kind);
    memcpy(expected.data, actual.data, n * sizeof(float));
    k->hadamard(actual.data, n);
    scalar->hadamard(expected.data, n);
    CHECK_SAME(actual, expected, "%s: hadamard, n %u, kind %d", set_name, n, kind);
    buffer_free(actual);
    buffer_free(expected);
}

static void compare_quantize(const mk_kernels *k, uint32_t cols, bool transform, enum float_kind kind)
{
    size_t padded = (cols + 31) / 32 * 32, supers = mk_super_blocks((uint32_t)padded / 32);
    float *x = input_make(cols * sizeof(float));
    fill_floats(x, cols, kind);
    buffer codes[2], scales[2], sums[2];
    for (int i = 0; i < 2; i++) {
        codes[i] = buffer_make(padded);
        scales[i] = buffer_make(supers * sizeof(float));
        sums[i] = buffer_make(supers * sizeof(int32_t));
        (i ? scalar : k)->quantize(x, cols, transform, codes[i].data, scales[i].data, sums[i].data);
    }
    CHECK_SAME(codes[0], codes[1], "%s: quantize, cols %u, kind %d: codes", set_name, cols, kind);
    CHECK_SAME(scales[0], scales[1], "%s: quantize, cols %u, kind %d: scales", set_name, cols, kind);
    CHECK_SAME(sums[0], sums[1], "%s: quantize, cols %u, kind %d: sums", set_name, cols, kind);
    for (int i = 0; i < 2; i++) {
        buffer_free(codes[i]);
        buffer_free(scales[i]);
        buffer_free(sums[i]);
    }
    input_free(x);
}

static void compare_gemv(const mk_kernels *k, const test_matrix *m, const mk_activations *x,
                         enum matrix_kind kind)
{
    uint32_t groups = m->w.groups;
    for (int part = 0; part < 2; part++) { /* all groups, and all but the first and last */
        uint32_t begin = part && groups > 2 ? 1 : 0, end = part && groups > 2 ? groups - 1 : groups;
        buffer actual = buffer_make(groups * 4 * sizeof(float)),
               expected = buffer_make(groups * 4 * sizeof(float));
        k->gemv(&m->w, begin, end, x, actual.data);
        scalar->gemv(&m->w, begin, end, x, expected.data);
        CHECK_SAME(actual, expected, "%s: gemv %s, rows %u, cols %u, kind %d", set_name,
                   m->w.type == MKN_Q4 ? "q4" : "q8", m->w.rows, m->w.cols, kind);
        buffer_free(actual);
        buffer_free(expected);
    }
}

static void compare_gemm(const mk_kernels *k, const test_matrix *m, const mk_activations *x, uint32_t tokens,
                         enum matrix_kind kind)
{
    uint32_t groups = m->w.groups, begin = groups > 5 ? 1 : 0, end = groups > 5 ? groups - 1 : groups;
    size_t stride = groups * 4 + 3;
    buffer actual = buffer_make(tokens * stride * sizeof(float));
    buffer expected = buffer_make(tokens * stride * sizeof(float));
    buffer scratch = buffer_make(MK_GEMM_SCRATCH);
    k->gemm(&m->w, begin, end, x, tokens, actual.data, stride, scratch.data);
    CHECK(buffer_guards_whole(scratch));
    scalar->gemm(&m->w, begin, end, x, tokens, expected.data, stride, scratch.data);
    CHECK_SAME(actual, expected, "%s: gemm %s, rows %u, cols %u, tokens %u, kind %d", set_name,
               m->w.type == MKN_Q4 ? "q4" : "q8", m->w.rows, m->w.cols, tokens, kind);
    buffer_free(actual);
    buffer_free(expected);
    buffer_free(scratch);
}

static void compare_products(const mk_kernels *k, uint32_t type, uint32_t rows, uint32_t cols, uint32_t tokens,
                             enum matrix_kind kind)
{
    test_matrix m = make_matrix(type, rows, cols, kind);
    for (uint32_t float_kind = 0; float_kind < FLOATS_KINDS; float_kind += kind == MATRIX_RANDOM ? 1 : 2) {
        mk_activations x = make_activations(scalar, cols, 1, (enum float_kind)float_kind);
        compare_gemv(k, &m, &x, kind);
        free_activations(&x);
    }
    mk_activations x = make_activations(scalar, cols, tokens, FLOATS_NORMAL);
    compare_gemm(k, &m, &x, tokens, kind);
    make_codes_extreme(&x, tokens);
    compare_gemv(k, &m, &x, kind);
    compare_gemm(k, &m, &x, tokens, kind);
    free_activations(&x);
    free_matrix(&m);
}

static void test_products(const mk_kernels *k)
{
    static const uint32_t cols[] = {8, 32, 64, 172, 192, 256, 288, 576, 1536, 4096};
    static const uint32_t rows[] = {1, 4, 6, 13, 37, 67, 130};
    static const uint32_t types[] = {MKN_Q4, MKN_Q8};
    for (int i = 0; i < 2; i++) {
        for (uint32_t c = 0; c < sizeof cols / sizeof cols[0]; c++) {
            for (uint32_t kind = 0; kind < MATRIX_KINDS; kind++)
                compare_products(k, types[i], 6, cols[c], 5, (enum matrix_kind)kind);
            for (uint32_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
                if ((uint64_t)rows[r] * cols[c] <= 60000)
                    compare_products(k, types[i], rows[r], cols[c], 1 + random_below(20), MATRIX_RANDOM);
            }
        }
        for (uint32_t tokens = 1; tokens <= 70; tokens++) {
            compare_products(k, types[i], 21 + tokens % 31, 192, tokens, MATRIX_RANDOM);
            compare_products(k, types[i], 5, 352, tokens, (enum matrix_kind)(tokens % MATRIX_KINDS));
        }
    }
}

static void compare_elementwise(const mk_kernels *k, uint32_t n, enum float_kind kind)
{
    size_t bytes = n * sizeof(float);
    float *w = input_make(bytes), *x = input_make(bytes);
    fill_floats(x, n, kind);
    fill_floats(w, n, kind == FLOATS_HUGE ? FLOATS_NORMAL : kind);
    buffer actual = buffer_make(bytes), expected = buffer_make(bytes);
    k->rms_norm(x, w, n, 1e-5f, actual.data);
    scalar->rms_norm(x, w, n, 1e-5f, expected.data);
    CHECK_SAME(actual, expected, "%s: rms_norm, n %u, kind %d", set_name, n, kind);
    memcpy(actual.data, x, bytes);
    k->rms_norm(actual.data, w, n, 1e-5f, actual.data);
    CHECK_SAME(actual, expected, "%s: rms_norm in place, n %u, kind %d", set_name, n, kind);

    memcpy(actual.data, x, bytes);
    memcpy(expected.data, x, bytes);
    k->add(actual.data, w, n);
    scalar->add(expected.data, w, n);
    CHECK_SAME(actual, expected, "%s: add, n %u, kind %d", set_name, n, kind);

    for (int wide = 0; wide < 2; wide++) { /* gates near 0, and far into both ends of exp */
        for (uint32_t i = 0; i < n; i++)
            ((float *)actual.data)[i] = wide ? x[i] * 40.0f : x[i];
        memcpy(expected.data, actual.data, bytes);
        k->silu_multiply(actual.data, w, n);
        scalar->silu_multiply(expected.data, w, n);
        CHECK_SAME(actual, expected, "%s: silu_multiply, n %u, kind %d", set_name, n, kind);
    }
    buffer_free(actual);
    buffer_free(expected);
    input_free(w);
    input_free(x);
}

static void compare_rope(const mk_kernels *k, uint32_t heads, uint32_t head_size, uint32_t half,
                         enum float_kind kind)
{
    size_t bytes = (size_t)heads * head_size * sizeof(float);
    float *cosines = input_make(half * sizeof(float)), *sines = input_make(half * sizeof(float));
    for (uint32_t i = 0; i < half; i++) {
        double angle = random_normal() * 100.0f;
        cosines[i] = (float)cos(angle);
        sines[i] = (float)sin(angle);
    }
    buffer actual = buffer_make(bytes), expected = buffer_make(bytes);
    fill_floats(actual.data, heads * head_size, kind);
    memcpy(expected.data, actual.data, bytes);
    k->rope(actual.data, heads, head_size, half, cosines, sines);
    scalar->rope(expected.data, heads, head_size, half, cosines, sines);
    CHECK_SAME(actual, expected, "%s: rope, %u heads of %u, half %u, kind %d", set_name, heads, head_size, half,
               kind);
    buffer_free(actual);
    buffer_free(expected);
    input_free(cosines);
    input_free(sines);
}

static void test_elementwise(const mk_kernels *k)
{
    static const uint32_t sizes[] = {1,  3,  4,   7,   8,   9,   15,  16,   17,  32,
                                     33, 64, 172, 255, 256, 257, 576, 1536, 4096};
    for (uint32_t kind = 0; kind < FLOATS_KINDS; kind++) {
        for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            compare_elementwise(k, sizes[i], (enum float_kind)kind);
            compare_quantize(k, sizes[i], false, (enum float_kind)kind);
            compare_quantize(k, sizes[i], true, (enum float_kind)kind);
            if (sizes[i] <= 1024)
                compare_hadamard(k, sizes[i], (enum float_kind)kind);
        }
        for (uint32_t n = 1; n <= 1024; n = n < 100 ? n + 1 : 2 * n - n % 7)
            compare_hadamard(k, n, (enum float_kind)kind);
        compare_hadamard(k, 512, (enum float_kind)kind);
        compare_hadamard(k, 1024, (enum float_kind)kind);
        for (uint32_t half = 1; half <= 40; half += half < 20 ? 1 : 5) {
            compare_rope(k, 3, 2 * half, half, (enum float_kind)kind);
            compare_rope(k, 2, 80, half, (enum float_kind)kind);
        }
        compare_rope(k, 9, 64, 32, (enum float_kind)kind);
        compare_rope(k, 1, 256, 128, (enum float_kind)kind);
    }
}

static void compare_kv_store(const mk_kernels *k, int type, uint32_t head_size, enum float_kind kind)
{
    float *x = input_make(head_size * sizeof(float));
    fill_floats(x, head_size, kind);
    buffer codes[2], scales[2];
    for (int i = 0; i < 2; i++) {
        codes[i] = buffer_make(3 * mk_kv_stride(type, head_size));
        scales[i] = buffer_make(3 * mk_kv_scales(type, head_size) * sizeof(uint16_t));
        mk_kv_plane plane = {codes[i].data, scales[i].data};
        (i ? scalar : k)->kv_store[type](x, head_size, plane, 1);
    }
    CHECK_SAME(codes[0], codes[1], "%s: kv_store q%d, head %u, kind %d", set_name, type ? 4 : 8, head_size,
               kind);
    CHECK_SAME(scales[0], scales[1], "%s: kv_store q%d scales, head %u, kind %d", set_name, type ? 4 : 8,
               head_size, kind);
    for (int i = 0; i < 2; i++) {
        buffer_free(codes[i]);
        buffer_free(scales[i]);
    }
    input_free(x);
}

static void compare_attend(const mk_kernels *k, int type, uint32_t head_size, uint32_t group, uint32_t count,
                           enum float_kind kind)
{
    uint32_t first = random_below(4);
    size_t bytes = (size_t)group * head_size * sizeof(float);
    float *queries = input_make(bytes);
    mk_attention a = {
        .keys = make_kv_plane(scalar, type, head_size, first + count, kind),
        .values = make_kv_plane(scalar, type, head_size, first + count, kind),
        .head_size = head_size,
        .first = first,
        .count = count,
        .scale = 1.0f / sqrtf((float)head_size),
        .queries = queries,
        .group = group,
    };
    fill_floats(queries, group * head_size, kind);
    if (count % 2) { /* sharper: many weights vanish */
        for (uint32_t i = 0; i < group * head_size; i++)
            queries[i] *= 12.0f;
    }
    buffer out[2];
    for (int i = 0; i < 2; i++) {
        buffer scratch = buffer_make(mk_attention_scratch(head_size, group, count));
        out[i] = buffer_make(bytes);
        a.out = out[i].data;
        a.scratch = scratch.data;
        (i ? scalar : k)->attend[type](&a);
        CHECK(buffer_guards_whole(scratch));
        buffer_free(scratch);
    }
    CHECK_SAME(out[0], out[1], "%s: attend q%d, head %u, group %u, count %u, kind %d", set_name, type ? 4 : 8,
               head_size, group, count, kind);
    buffer_free(out[0]);
    buffer_free(out[1]);
    input_free(queries);
    free_kv_plane(&a.keys);
    free_kv_plane(&a.values);
}

static void test_attention(const mk_kernels *k)
{
    static const uint32_t head_sizes[] = {2, 8, 16, 20, 32, 64, 80, 96, 128, 256, 1024};
    static const uint32_t counts[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 101};
    for (int type = 0; type < 2; type++) {
        for (uint32_t h = 0; h < sizeof head_sizes / sizeof head_sizes[0]; h++) {
            for (uint32_t kind = 0; kind < FLOATS_KINDS; kind++) {
                compare_kv_store(k, type, head_sizes[h], (enum float_kind)kind);
                compare_attend(k, type, head_sizes[h], 1 + kind % 4, 5 + random_below(30),
                               (enum float_kind)kind);
            }
            for (uint32_t i = 0; head_sizes[h] <= 256 && i < sizeof counts / sizeof counts[0]; i++)
                compare_attend(k, type, head_sizes[h], 1 + (i + h) % 9, counts[i], FLOATS_NORMAL);
        }
        compare_attend(k, type, 64, 3, 700, FLOATS_NORMAL);
    }
}

static void test_selection(void)
{
    size_t count = 0;
    bool available = false;
    for (; mk_kernels_at(count); count++) {
        const mk_kernels *k = mk_kernels_at(count);
        CHECK(mk_kernels_find(k->name) == k);
        available = mk_kernels_available(k);
        if (available)
            CHECK(k == mk_kernels_find(NULL) || mk_kernels_at(count + 1));
    }
    CHECK(mk_kernels_at(0) == scalar && mk_kernels_available(scalar));
    CHECK(!mk_kernels_at(count) && !mk_kernels_at(count + 1));
    CHECK(mk_kernels_available(mk_kernels_find(NULL)));
    CHECK(!mk_kernels_find("") && !mk_kernels_find("Scalar") && !mk_kernels_find("scalar "));
    if (available)
        CHECK(mk_kernels_find(NULL) == mk_kernels_at(count - 1));
}

static void test_set(const mk_kernels *k)
{
    unsigned long before = check_count;
    set_name = k->name;
    random_state = 7;
    test_products(k);
    test_elementwise(k);
    test_attention(k);
    printf("%s: %lu checks\n", k->name, check_count - before);
}

/* The set that --isa asks for, or NULL with the reason printed. */
static const mk_kernels *required_set(const char *name)
{
    const mk_kernels *k = mk_kernels_find(name);
    if (k && mk_kernels_available(k))
        return k;
    fprintf(stderr, "%s: %s\n", name, k ? "this CPU cannot run it" : "not in this build");
    return NULL;
}

int main(int argc, char **argv)
{
    const mk_kernels *only = NULL;
    bool bench = false;
    scalar = mk_kernels_find("scalar");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) {
            bench = true;
        } else if (strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
            only = required_set(argv[++i]);
            if (!only)
                return 1;
        } else {
            fprintf(stderr, "usage: %s [--isa NAME] [--bench]\n", argv[0]);
            return 2;
        }
    }
    if (bench) {
        print_bench(only);
        return 0;
    }
    test_selection();
    if (!only || only == scalar)
        test_reference(scalar);
    for (size_t i = 0; mk_kernels_at(i); i++) {
        const mk_kernels *k = mk_kernels_at(i);
        if (!mk_kernels_available(k))
            printf("%s: not on this CPU\n", k->name);
        else if (k != scalar && (!only || k == only))
            test_set(k);
    }
    printf("fastest here: %s\n", mk_kernels_find(NULL)->name);
    return check_end();
}
