/* damage_image.c - opens damaged and hostile images: damage_image IMAGE [CASES]
 *
 * Damage: each byte of the header changed, random single bits of header, directory and layers flipped,
 * the image cut at every section's ends and at random lengths. Each must be refused with a message.
 *
 * Hostile: fields and bytes anywhere changed and the checksums made right again, so that only the checks
 * behind them are left. Such an image is either refused, or used like any other; what counts is that
 * nothing is read or written out of bounds, which the sanitizers tell, and that all ends in time. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"
#include "image/mkn.h"
#include "makarna.h"

#define SECONDS_PER_CASE 60

static uint64_t random_state = 20240229;
static uint32_t random_below(uint64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

/* A copy that ends where its allocation ends. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
    void *p = NULL;
    if (posix_memalign(&p, MKN_ALIGN, size ? size : 1))
        abort();
    memcpy(p, bytes, size);
    return p;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        CHECK_SKIP("there is no %s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    void *p = NULL;
    if (posix_memalign(&p, MKN_ALIGN, *size) || fread(p, 1, *size, f) != *size)
        abort();
    fclose(f);
    return p;
}

/* ---- Damage ------------------------------------------------------------------------------------ */

static void must_refuse(const uint8_t *bytes, size_t size, const char *what, size_t where)
{
    uint8_t *copy = copy_of(bytes, size);
    mk_model model;
    mk_error err;
    err.text[0] = 0;
    alarm(SECONDS_PER_CASE);
    mk_status status = mk_model_open_memory(&model, copy, size, &err);
    CHECK_MSG(status != MK_OK && err.text[0], "%s %zu was accepted", what, where);
    free(copy);
}

static void damage_header(uint8_t *image, size_t size)
{
    for (size_t i = 0; i < sizeof(mkn_header); i++) {
        for (int bit = 0; bit <= 8; bit++) {
            uint8_t change = (uint8_t)(bit == 8 ? 0xff : 1 << bit);
            image[i] = (uint8_t)(image[i] ^ change);
            must_refuse(image, size, "changed header byte", i);
            image[i] = (uint8_t)(image[i] ^ change);
        }
    }
}

static void flip_bits(uint8_t *image, size_t size, unsigned cases)
{
    const mkn_header *h = (const mkn_header *)(void *)image;
    const mkn_section areas[] = {
        {0, sizeof *h, 0}, h->sections[MKN_DIRECTORY], h->sections[MKN_DIRECTORY], h->sections[MKN_LAYERS]};
    for (unsigned n = 0; n < cases; n++) {
        const mkn_section *area = &areas[random_below(4)];
        if (area->size == 0)
            continue;
        size_t at = (size_t)(area->offset + random_below(area->size));
        uint8_t change = (uint8_t)(1u << random_below(8));
        image[at] = (uint8_t)(image[at] ^ change);
        must_refuse(image, size, "flipped bit at byte", at);
        image[at] = (uint8_t)(image[at] ^ change);
    }
}

static void truncate_image(const uint8_t *image, size_t size, unsigned cases)
{
    const mkn_header *h = (const mkn_header *)(const void *)image;
    for (uint32_t i = 0; i < MKN_SECTIONS; i++) {
        uint64_t ends[] = {h->sections[i].offset, h->sections[i].offset + h->sections[i].size};
        for (int e = 0; e < 2; e++)
            for (uint64_t length = ends[e] ? ends[e] - 1 : 0; length <= ends[e] + 1; length++)
                if (length < size)
                    must_refuse(image, (size_t)length, "cut to bytes", (size_t)length);
    }
    for (unsigned n = 0; n < cases; n++) {
        size_t length = random_below(n % 4 ? size : 1024 < size ? 1024 : size);
        must_refuse(image, length, "cut to bytes", length);
    }
}

/* ---- Hostile ----------------------------------------------------------------------------------- */

static void use_text(const mk_model *model)
{
    static const char text[] = "Hello <|im_start|> w\xc3\xb6rld,  \xf0\x9f\x8d\xa3 1234\n\n\xff\xc0 <s>";
    enum { CAPACITY = sizeof text + 3 };
    int32_t ids[CAPACITY];
    size_t count = 0, scratch_bytes = mk_tokenize_scratch_size(model, sizeof text - 1);
    if (scratch_bytes > 1u << 26)
        return;
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, scratch_bytes ? scratch_bytes : 1))
        abort();
    for (unsigned flags = 0; flags < 4; flags++)
        mk_tokenize(model, text, sizeof text - 1, flags, ids, CAPACITY, &count, scratch, scratch_bytes, NULL);
    free(scratch);

    size_t capacity = mk_detokenize_capacity(model);
    CHECK(capacity < 1u << 28);
    char *out = malloc(capacity + 4);
    mk_detokenizer state = {0};
    mk_model_info info;
    mk_model_get_info(model, &info);
    for (int32_t id = -2; id < 600; id++)
        CHECK(mk_detokenize(model, &state, id, out) <= capacity);
    for (int32_t id = (int32_t)info.vocabulary - 3; id < (int32_t)info.vocabulary + 3; id++)
        CHECK(mk_detokenize(model, &state, id, out) <= capacity);
    CHECK(mk_detokenize_end(&state, out) <= 4);
    mk_is_end(model, 2);
    free(out);
}

static void use_chat(const mk_model *model)
{
    const mk_message messages[] = {{MK_SYSTEM, "Be brief.", 9}, {MK_USER, "Why?", 4}};
    size_t scratch_bytes = mk_chat_scratch_size(model, 2, 13), capacity = mk_chat_capacity(model, 2, 13), count;
    if (scratch_bytes > 1u << 26 || capacity > 1u << 24)
        return;
    void *scratch = NULL;
    int32_t *ids = malloc((capacity + 1) * sizeof *ids);
    if (!ids || posix_memalign(&scratch, 64, scratch_bytes ? scratch_bytes : 1))
        abort();
    mk_chat_tokenize(model, messages, 2, ids, capacity, &count, scratch, scratch_bytes, NULL);
    free(scratch);
    free(ids);
}

static void use_strings(const mk_model *model)
{
    mk_model_info info;
    mk_model_get_info(model, &info);
    size_t total = strlen(info.name) + strlen(info.license) + strlen(info.source) + strlen(info.chat_format) +
                   strlen(info.quantizer) + strlen(info.options) + strlen(info.embedding_type) +
                   strlen(info.head_type) + strlen(info.layer_type);
    CHECK(total < info.image_bytes + 64);
}

static bool use_decoder(const mk_model *model)
{
    mk_params params = mk_params_default(model);
    mk_memory_plan plan;
    mk_context *ctx;
    params.context = params.context < 12 ? params.context : 12;
    params.batch = 3;
    params.threads = 1 + random_below(2);
    params.kv = random_below(2) ? MK_KV_Q4 : MK_KV_Q8;
    if (mk_plan_memory(model, &params, &plan, NULL) || plan.total > 1u << 26)
        return false;
    uint8_t *arena = NULL;
    if (posix_memalign((void **)&arena, 64, (size_t)plan.total))
        abort();
    bool created = mk_context_create(model, &params, arena, (size_t)plan.total, &ctx, NULL) == MK_OK;
    if (created) {
        const int32_t tokens[] = {1, 5, 3, 7, 2};
        mk_sampling sampling = {.temperature = 0.7f,
                                .top_k = 9,
                                .top_p = 0.9f,
                                .min_p = 0.01f,
                                .repeat_penalty = 1.1f,
                                .repeat_last = 8};
        mk_rng rng = mk_rng_seed(1);
        mk_eval(ctx, tokens, sizeof tokens / sizeof *tokens, NULL);
        for (int i = 0; i < 2 && mk_position(ctx); i++) {
            int32_t token = mk_sample(ctx, &sampling, &rng);
            mk_eval(ctx, &token, 1, NULL);
        }
        mk_context_destroy(ctx);
    }
    free(arena);
    return created;
}

static uint32_t interesting(uint32_t now)
{
    const uint32_t values[] = {0,
                               1,
                               2,
                               now + 1,
                               now - 1,
                               now * 2,
                               now / 2,
                               31,
                               64,
                               255,
                               4096,
                               65535,
                               0x7fffffffu,
                               0x80000000u,
                               0xffffffffu,
                               0x7fc00000u,
                               1u << random_below(32)};
    return values[random_below(sizeof values / sizeof *values)];
}

/* Changes one 32-bit field, or one byte, of a random part. */
static void change_something(uint8_t *image, size_t size)
{
    const mkn_header *h = (const mkn_header *)(void *)image;
    const mkn_section fields = {32, 16 * 4 + 4 * 4 + 8 * sizeof(mkn_section), 0};
    uint32_t part = random_below(MKN_SECTIONS + 4);
    const mkn_section *area = part < MKN_SECTIONS ? &h->sections[part] : &fields;
    if (area->size < 4 || area->offset > size || area->size > size - area->offset)
        return;
    uint32_t head = part == MKN_DATA || random_below(2) ? 4096 : UINT32_MAX;
    size_t reach = (size_t)(area->size < head ? area->size : head);
    size_t at = (size_t)area->offset + random_below(reach - 3);
    if (random_below(4) == 0) {
        image[at] = (uint8_t)random_below(256);
        return;
    }
    uint32_t value;
    at = at / 4 * 4;
    memcpy(&value, image + at, 4);
    value = interesting(value);
    memcpy(image + at, &value, 4);
}

static void repair_checksums(uint8_t *image, size_t size)
{
    mkn_header *h = (mkn_header *)(void *)image;
    memcpy(h->magic, MKN_MAGIC, sizeof h->magic);
    for (uint32_t i = 0; i < MKN_SECTIONS; i++) {
        mkn_section *s = &h->sections[i];
        if (i != MKN_DATA && s->offset <= size && s->size <= size - s->offset)
            s->checksum = mk_hash(image + s->offset, (size_t)s->size, 0);
    }
    h->checksum = 0;
    h->checksum = mk_hash(h, sizeof *h, 0);
}

static void attack(const uint8_t *image, size_t size, unsigned cases)
{
    unsigned opened = 0, ran = 0;
    for (unsigned n = 0; n < cases; n++) {
        uint8_t *copy = copy_of(image, size);
        for (uint32_t changes = 1 + random_below(3); changes; changes--)
            change_something(copy, size);
        repair_checksums(copy, size);
        mk_model model;
        mk_error err;
        err.text[0] = 0;
        alarm(SECONDS_PER_CASE);
        check_count++;
        if (mk_model_open_memory(&model, copy, size, &err) == MK_OK) {
            opened++;
            use_strings(&model);
            use_text(&model);
            use_chat(&model);
            ran += use_decoder(&model);
            mk_model_close(&model);
        } else {
            CHECK(err.text[0]);
        }
        free(copy);
    }
    printf("%u hostile images: %u opened, %u ran\n", cases, opened, ran);
    CHECK(opened > 0 && opened < cases);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: damage_image IMAGE [CASES]\n");
        return 2;
    }
    size_t size;
    unsigned cases = argc > 2 ? (unsigned)atoi(argv[2]) : 1000;
    uint8_t *image = read_file(argv[1], &size);
    mk_model model;
    mk_error err;
    if (mk_model_open_memory(&model, image, size, &err)) {
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
        return 1;
    }
    damage_header(image, size);
    flip_bits(image, size, 10 * cases);
    truncate_image(image, size, cases);
    attack(image, size, cases);
    free(image);
    return check_end();
}
