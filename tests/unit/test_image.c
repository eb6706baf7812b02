/* Damaged and hostile images: every one is refused with a text, or, where its checksums were made to
 * fit, at least never leads outside of the image. Run under the address sanitizer to mean it. */
#include "check.h"
#include "tiny_image.h"

/* A copy that ends where its allocation ends, so that a read past it is caught. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = aligned_alloc(64, (size_t)mk_align_up(size, 64));
    memcpy(copy, bytes, size);
    return copy;
}

static void expect_refusal(uint8_t *bytes, size_t size, const char *what, size_t where)
{
    mk_model model;
    mk_error err = {""};
    mk_status s = mk_model_open_memory(&model, bytes, size, &err);
    CHECK_MSG(s != MK_OK, "%s %zu was accepted", what, where);
    CHECK_MSG(s == MK_OK || strlen(err.text) > 10, "%s %zu gives no text", what, where);
}

static void flip_every_header_bit(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < 8 * sizeof(mkn_header); i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        expect_refusal(bytes, size, "flipped header bit", i);
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static void flip_directory_bits(uint8_t *bytes, size_t size)
{
    const mkn_header *h = (const mkn_header *)(void *)bytes;
    uint64_t begin = h->sections[MKN_DIRECTORY].offset, bits = 8 * h->sections[MKN_DIRECTORY].size;
    for (uint64_t i = 0; i < bits; i++) {
        bytes[begin + i / 8] ^= (uint8_t)(1u << i % 8);
        expect_refusal(bytes, size, "flipped directory bit", (size_t)i);
        bytes[begin + i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

static void truncate_everywhere(const uint8_t *bytes, size_t size)
{
    for (size_t n = 0; n < size; n += n < 1024 ? 1 : 61) {
        uint8_t *copy = copy_of(bytes, n);
        expect_refusal(copy, n, "truncated to", n);
        free(copy);
    }
    uint8_t *longer = copy_of(bytes, size);
    longer = realloc(longer, size + 64);
    uint8_t *aligned = copy_of(longer, size + 64);
    expect_refusal(aligned, size + 64, "longer than", size);
    free(aligned);
    free(longer);
}

/* Changes one field and makes the checksums fit again: what is accepted must still be safe to run. */
static void hostile_fields(const uint8_t *bytes, size_t size)
{
    static const uint32_t values[] = {0, 1, 2, 3, 7, 31, 33, 255, 1025, 0x7fffffff, 0x80000000, 0xffffffff};
    const mkn_header *h = (const mkn_header *)(const void *)bytes;
    size_t directory = (size_t)h->sections[MKN_DIRECTORY].offset;
    size_t end = (size_t)(h->sections[MKN_LAYERS].offset + h->sections[MKN_LAYERS].size);
    unsigned accepted = 0, refused = 0;
    for (size_t at = 8; at + 4 <= end; at += 4) {
        if (at == sizeof(mkn_header))
            at = directory;
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            uint8_t *copy = copy_of(bytes, size);
            memcpy(copy + at, &values[v], 4);
            /* sections must lie inside for their checksums to be computed */
            mkn_header *changed = (mkn_header *)(void *)copy;
            bool inside = true;
            for (int i = 0; i < MKN_SECTIONS; i++)
                inside = inside && changed->sections[i].offset <= size &&
                         changed->sections[i].size <= size - changed->sections[i].offset;
            if (inside)
                tiny_seal(copy);
            else {
                changed->checksum = 0;
                changed->checksum = mk_hash(changed, sizeof *changed, 0);
            }
            mk_model model;
            mk_error err;
            if (mk_model_open_memory(&model, copy, size, &err) == MK_OK) {
                accepted++;
                mk_model_info info;
                mk_model_get_info(&model, &info);
                CHECK(strlen(info.name) < size);
                mk_params p = mk_params_default(&model);
                p.threads = 1;
                p.context = p.context < 8 ? p.context : 8;
                mk_memory_plan plan;
                mk_context *ctx;
                if (mk_plan_memory(&model, &p, &plan, &err) == MK_OK && plan.total < 1u << 26) {
                    void *arena = aligned_alloc(64, (size_t)plan.total);
                    CHECK(mk_context_create(&model, &p, arena, (size_t)plan.total, &ctx, &err) == MK_OK);
                    int32_t tokens[] = {0, 0, 0};
                    mk_eval(ctx, tokens, p.context < 3 ? p.context : 3, &err);
                    mk_context_destroy(ctx);
                    free(arena);
                }
                mk_model_close(&model);
            } else {
                refused++;
            }
            free(copy);
        }
    }
    printf("fields changed under fitting checksums: %u refused, %u accepted and run\n", refused, accepted);
    CHECK(refused > 0 && accepted > 0);
}

/* What the header, directory and layers may not say, and the frequencies that angles come from. */
static void hostile_rope_and_counts(const uint8_t *bytes, size_t size)
{
    static const uint32_t frequencies[] = {0x7fc00000 /* NaN */, 0x7f800000 /* infinity */,
                                           0x41010000 /* 8.06 */, 0xbf800000 /* -1 */};
    uint8_t *copy = copy_of(bytes, size);
    mkn_header *h = (mkn_header *)(void *)copy;
    mkn_tensor *t = (mkn_tensor *)(void *)(copy + h->sections[MKN_DIRECTORY].offset);
    t += t->role == MKN_Q4_TABLES;
    for (size_t i = 0; i < sizeof frequencies / sizeof *frequencies; i++) {
        memcpy(copy + t->offset + t->size - 4, &frequencies[i], 4);
        tiny_seal(copy);
        expect_refusal(copy, size, "frequency", i);
    }
    memcpy(copy, bytes, size);
    h->tensor_count = 0; /* an empty section may have any offset */
    h->sections[MKN_DIRECTORY] = (mkn_section){0, 0, 0};
    tiny_seal(copy);
    h->sections[MKN_DIRECTORY].offset = UINT64_MAX - 63;
    h->checksum = 0;
    h->checksum = mk_hash(h, sizeof *h, 0);
    expect_refusal(copy, size, "no tensors", 0);
    free(copy);
}

static void verify_finds_damage(uint8_t *bytes, size_t size)
{
    mk_model model;
    mk_error err = {""};
    CHECK(mk_model_open_memory(&model, bytes, size, &err) == MK_OK);
    CHECK(mk_model_verify(&model, &err) == MK_OK);
    const mkn_section *data = &((const mkn_header *)(const void *)bytes)->sections[MKN_DATA];
    bytes[data->offset + data->size / 2] ^= 4;
    CHECK(mk_model_verify(&model, &err) == MK_ERR_FORMAT && strstr(err.text, "data"));
    bytes[data->offset + data->size / 2] ^= 4;
    mk_model_close(&model);
}

static void open_paths(void)
{
    mk_model model;
    mk_error err = {""};
    CHECK(mk_model_open(&model, "/nonexistent/model.mkn", MK_LOAD_MAP, &err) == MK_ERR_IO);
    CHECK_MSG(strstr(err.text, "/nonexistent/model.mkn"), "%s", err.text);
    CHECK(mk_model_open(&model, "/", MK_LOAD_MAP, &err) == MK_ERR_IO);
    CHECK(mk_model_open(&model, "/dev/null", MK_LOAD_MAP, &err) == MK_ERR_IO);
    CHECK(mk_model_open_memory(&model, NULL, 0, &err) == MK_ERR_ARGUMENT);
}

int main(void)
{
    const tiny_options variants[] = {tiny_default,
                                     {.layers = 1,
                                      .heads = 2,
                                      .kv_heads = 1,
                                      .head_size = 8,
                                      .hidden = 16,
                                      .intermediate = 300,
                                      .vocabulary = 10,
                                      .context = 16,
                                      .flags = MKN_ATTENTION_BIAS | MKN_QK_NORM,
                                      .rope_dims = 8,
                                      .type = MKN_Q4}};
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        uint8_t *bytes = tiny_image(&variants[i], 7, &size);
        flip_every_header_bit(bytes, size);
        flip_directory_bits(bytes, size);
        truncate_everywhere(bytes, size);
        hostile_fields(bytes, size);
        hostile_rope_and_counts(bytes, size);
        verify_finds_damage(bytes, size);
        free(bytes);
    }
    open_paths();
    return check_end();
}
