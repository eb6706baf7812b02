/* Whole images from tiny models: every weight comes out where the decoder looks for it, bytes do not depend on
 * threads, and equal sources in different formats give equal weights. */
#define _GNU_SOURCE
#include <math.h>

#include "base/bytes.h"
#include "image/image.h"
#include "quant/encode/hadamard.h"
#include "quant/read/dequantize.h"
#include "quant/read/fail.h"
#include "unit/quant_files.h"

/* ---- Reading an image, from mkn.h -------------------------------------------------------------- */

/* Row of a matrix as the decoder sees it. */
static void image_row(const mk_image *image, const mkn_tensor *t, uint32_t row, float *out)
{
    uint32_t blocks = (t->cols + 31) / 32, group = row / 4, lane = row % 4;
    uint64_t super_bytes = t->type == MKN_Q4 ? 40 : 8;
    uint64_t group_scales =
        t->type == MKN_Q4 ? (uint64_t)(blocks + 7) / 8 * 8 + 4 * blocks : (uint64_t)(blocks + 7) / 8 * 8;
    const int8_t *tables = (const int8_t *)(const void *)(image->base + image->tensors[0].offset);
    for (uint32_t col = 0; col < 32 * blocks; col++) {
        uint32_t b = col / 32;
        const uint8_t *super = image->base + t->scales_offset + group * group_scales + b / 8 * super_bytes;
        float d = mk_half_to_float(mk_load16(super + 2 * lane));
        if (t->type == MKN_Q8) {
            const uint8_t *block = image->base + t->offset + (uint64_t)(group * blocks + b) * 128;
            out[col] = d * (float)(int8_t)block[32 * lane + col % 32];
        } else {
            const uint8_t *block = image->base + t->offset + (uint64_t)(group * blocks + b) * 64;
            uint32_t byte = block[16 * lane + col % 16];
            uint32_t table = super[8 + 4 * (b % 8) + lane];
            out[col] = d * (float)tables[16 * table + (col % 32 < 16 ? byte & 15 : byte >> 4)];
        }
    }
    if (t->flags & MKN_TRANSFORMED)
        hadamard_row(out, 32 * blocks);
}

static const source_tensor *source_of(const source_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (source_is(m->tensors[i].name, name))
            return &m->tensors[i];
    return NULL;
}

/* Where value `place` of a head lies in a source that pairs neighbours. */
static uint32_t neighbour_place(uint32_t place, uint32_t dims)
{
    return place < dims / 2 ? 2 * place : place < dims ? 2 * (place - dims / 2) + 1 : place;
}

typedef struct tensor_name {
    enum mkn_role role;
    const char *name;
    bool heads;
} tensor_name;

static const tensor_name matrices[] = {
    {MKN_Q, "attn_q.weight", true},       {MKN_K, "attn_k.weight", true},
    {MKN_V, "attn_v.weight", false},      {MKN_O, "attn_output.weight", false},
    {MKN_GATE, "ffn_gate.weight", false}, {MKN_UP, "ffn_up.weight", false},
    {MKN_DOWN, "ffn_down.weight", false}};
static const tensor_name vectors[] = {{MKN_ATTENTION_NORM, "attn_norm.weight", false},
                                      {MKN_MLP_NORM, "ffn_norm.weight", false},
                                      {MKN_Q_BIAS, "attn_q.bias", true},
                                      {MKN_K_BIAS, "attn_k.bias", true},
                                      {MKN_V_BIAS, "attn_v.bias", false},
                                      {MKN_Q_NORM, "attn_q_norm.weight", true},
                                      {MKN_K_NORM, "attn_k_norm.weight", true}};

/* Signal to noise of a matrix against its source, rows put in the source's order. */
static void compare_matrix(const mk_image *image, const mkn_tensor *t, const source_model *m, const char *name,
                           bool heads)
{
    float expected[256], found[256];
    const source_tensor *s = source_of(m, name);
    double signal = 0, noise = 0;
    CHECK_MSG(t && s && t->rows == s->rows && t->cols == s->cols, "%s", name);
    if (!t || !s || t->cols > 256)
        return;
    for (uint32_t row = 0; row < t->rows; row++) {
        uint32_t place = row % m->head_size, from = row;
        if (heads)
            from = row - place + neighbour_place(place, m->rope_dims);
        image_row(image, t, row, found);
        source_dequantize(s, from, 0, s->cols, expected);
        for (uint32_t i = 0; i < t->cols; i++) {
            double difference = (double)expected[i] - (double)found[i];
            signal += (double)expected[i] * (double)expected[i];
            noise += difference * difference;
        }
    }
    double db = 10 * log10(signal / noise);
    CHECK_MSG(db > (t->type == MKN_Q8 ? 40 : 20), "%s: %.2f dB", name, db);
}

static void compare_vector(const mk_image *image, const mkn_tensor *t, const source_model *m, const char *name,
                           bool heads)
{
    float expected[256];
    const source_tensor *s = source_of(m, name);
    CHECK_MSG((t != NULL) == (s != NULL), "%s", name);
    if (!t || !s)
        return;
    CHECK_MSG(t->type == MKN_F32 && t->rows == 1 && t->cols == s->cols && t->size == 4 * s->cols, "%s", name);
    source_dequantize(s, 0, 0, s->cols, expected);
    for (uint32_t i = 0; i < t->cols; i++) {
        uint32_t place = i % m->head_size, from = heads ? i - place + neighbour_place(place, m->rope_dims) : i;
        CHECK_MSG(memcmp(image->base + t->offset + 4 * i, &expected[from], 4) == 0, "%s: value %u", name, i);
    }
}

static void compare_rope(const mk_image *image, const source_model *m)
{
    const mkn_tensor *t = mk_image_tensor(image, MKN_ROPE_FREQUENCIES, 0);
    CHECK(t && t->rows == 1 && t->cols == m->rope_dims / 2);
    for (uint32_t i = 0; t && i < t->cols; i++) {
        float found = mk_float_from_bits(mk_load32(image->base + t->offset + 4 * i));
        double expected = pow((double)m->rope_base, -2.0 * i / m->rope_dims);
        CHECK_MSG(fabs((double)found / expected - 1) < 6.0e-8, "frequency %u: %g, expected %g", i,
                  (double)found, expected);
    }
}

static void compare_model(const mk_image *image, const source_model *m)
{
    char name[64];
    const mkn_tensor *head = mk_image_tensor(image, MKN_OUTPUT_HEAD, 0);
    compare_matrix(image, mk_image_tensor(image, MKN_TOKEN_EMBEDDING, 0), m, "token_embd.weight", false);
    if (source_of(m, "output.weight"))
        compare_matrix(image, head, m, "output.weight", false);
    else
        CHECK(!head && image->header->flags & MKN_TIED);
    compare_vector(image, mk_image_tensor(image, MKN_OUTPUT_NORM, 0), m, "output_norm.weight", false);
    compare_rope(image, m);
    for (uint32_t layer = 0; layer < m->layers; layer++) {
        for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
            snprintf(name, sizeof name, "blk.%u.%s", layer, matrices[i].name);
            compare_matrix(image, mk_image_tensor(image, matrices[i].role, layer), m, name, matrices[i].heads);
        }
        for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
            snprintf(name, sizeof name, "blk.%u.%s", layer, vectors[i].name);
            compare_vector(image, mk_image_tensor(image, vectors[i].role, layer), m, name, vectors[i].heads);
        }
    }
}

static void compare_header(const mkn_header *h, const source_model *m)
{
    CHECK(h->layers == m->layers && h->heads == m->heads && h->kv_heads == m->kv_heads);
    CHECK(h->head_size == m->head_size && h->hidden == m->hidden && h->intermediate == m->intermediate);
    CHECK(h->vocabulary == m->vocabulary && h->context == m->context && h->rope_dims == m->rope_dims);
    CHECK(h->norm_epsilon == m->norm_epsilon && h->rope_base == m->rope_base);
    CHECK(h->sections[MKN_DIRECTORY].offset == 512);
    for (uint32_t i = 0; i < MKN_SECTIONS; i++)
        CHECK(h->sections[i].size > 0);
}

static void compare_image(const char *output, const char *input, const char *tokenizer)
{
    mk_model model;
    mk_error err = {""};
    source s;
    char input_path[512], tokenizer_path[512];
    snprintf(input_path, sizeof input_path, "%s", in_folder(input));
    snprintf(tokenizer_path, sizeof tokenizer_path, "%s", in_folder(tokenizer ? tokenizer : ""));
    source_request request = {.path = input_path, .tokenizer = tokenizer ? tokenizer_path : NULL};
    CHECK_MSG(source_open(&s, &request, &err) == MK_OK, "%s", err.text);
    CHECK_MSG(mk_model_open(&model, in_folder(output), MK_LOAD_MAP, &err) == MK_OK, "%s", err.text);
    CHECK_MSG(mk_model_verify(&model, &err) == MK_OK, "%s", err.text);
    mk_model_info info;
    mk_model_get_info(&model, &info);
    CHECK(info.source_checksum == mk_hash(s.file.data, (size_t)s.file.size, 0));
    CHECK_STR(info.source, input);
    CHECK_STR(info.quantizer, "makarna-quant " MK_VERSION);
    compare_header(mk_image_of(&model)->header, &s.model);
    compare_model(mk_image_of(&model), &s.model);
    mk_model_close(&model);
    source_close(&s);
}

/* ---- Cases ------------------------------------------------------------------------------------ */

static void quantize_and_compare(quantize_case c)
{
    mk_error err = {""};
    mk_status status = quantize_files(&c, &err);
    CHECK_MSG(status == MK_OK, "%s: %s", c.input, err.text);
    if (!status)
        compare_image(c.output, c.input, c.tokenizer);
}

static bool same_files(const char *a, const char *b)
{
    size_t size_a = 0, size_b = 1;
    uint8_t *bytes_a = read_whole(in_folder(a), &size_a), *bytes_b = read_whole(in_folder(b), &size_b);
    bool same = bytes_a && bytes_b && size_a == size_b && memcmp(bytes_a, bytes_b, size_a) == 0;
    free(bytes_a);
    free(bytes_b);
    return same;
}

static uint64_t data_checksum(const char *name)
{
    mkn_header h;
    memset(&h, 0, sizeof h);
    FILE *f = fopen(in_folder(name), "rb");
    CHECK(f && fread(&h, sizeof h, 1, f) == 1);
    if (f)
        fclose(f);
    return h.sections[MKN_DATA].checksum;
}

/* Weights depend on source and options alone; this tells of a machine, or a change, that gives others. */
static void check_data(const char *name, uint64_t expected)
{
    uint64_t found = data_checksum(name);
    CHECK_MSG(found == expected, "%s: checksum of the data %016llx, expected %016llx", name,
              (unsigned long long)found, (unsigned long long)expected);
}

/* Which matrices are stored under the transform: all, but for inputs whose q4 matrices all come from 4-bit
 * blocks. */
static void transforms(const char *name, uint32_t grid_layers)
{
    mk_model model;
    mk_error err = {""};
    CHECK_MSG(mk_model_open(&model, in_folder(name), MK_LOAD_MAP, &err) == MK_OK, "%s", err.text);
    const mk_image *image = mk_image_of(&model);
    for (uint32_t i = 0; i < image->header->tensor_count; i++) {
        const mkn_tensor *t = &image->tensors[i];
        bool matrix = t->type == MKN_Q8 || t->type == MKN_Q4;
        bool grid = (t->role == MKN_GATE || t->role == MKN_UP) && t->layer < grid_layers;
        CHECK(t->flags == (matrix && !grid ? MKN_TRANSFORMED : 0));
    }
    mk_model_close(&model);
}

static void gguf(void)
{
    tiny_gguf(in_folder("tiny.gguf"));
    quantize_and_compare((quantize_case){"tiny.gguf", NULL, "q8.mkn", MKN_Q8, MKN_Q8, MKN_Q8, 1});
    quantize_and_compare((quantize_case){"tiny.gguf", NULL, "q4.mkn", MKN_Q4, MKN_Q8, MKN_Q8, 1});
    quantize_and_compare((quantize_case){"tiny.gguf", NULL, "q4-3.mkn", MKN_Q4, MKN_Q8, MKN_Q8, 3});
    quantize_and_compare((quantize_case){"tiny.gguf", NULL, "all-q4.mkn", MKN_Q4, MKN_Q4, MKN_Q4, 2});
    quantize_and_compare((quantize_case){"tiny.gguf", NULL, "mixed.mkn", MKN_Q8, MKN_Q4, MKN_Q8, 2});
    CHECK(same_files("q4.mkn", "q4-3.mkn"));
    transforms("q8.mkn", 0);
    transforms("q4.mkn", 2);
    check_data("q8.mkn", 0xf1a029c05f3c1ca0);
    check_data("q4.mkn", 0xab998571b72e59bf);
}

static void llama2c(void)
{
    static const char *const inputs[] = {"0.bin", "1.bin", "2.bin"}, *const outputs[] = {"0.mkn", "1.mkn",
                                                                                         "2.mkn"};
    for (uint32_t version = 0; version < 3; version++) {
        tiny_llama2c(version, in_folder(inputs[version]), in_folder("tokenizer.bin"));
        quantize_and_compare(
            (quantize_case){inputs[version], "tokenizer.bin", outputs[version], MKN_Q4, MKN_Q8, MKN_Q8, 2});
    }
    CHECK(data_checksum("0.mkn") == data_checksum("1.mkn"));
    CHECK(data_checksum("0.mkn") != data_checksum("2.mkn"));
}

int main(void)
{
    files_begin();
    gguf();
    llama2c();
    files_end();
    return check_end();
}
