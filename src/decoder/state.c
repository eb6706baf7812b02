/* Saving and loading a context: a small header, the tokens, and of each layer and head the positions
 * in use. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "decoder/context.h"

#define STATE_MAGIC 0x31545341544b4dull /* "MKTAST1" */

typedef struct state_header {
    uint64_t magic;
    uint64_t image;    /* checksum of the image's header, which covers its sections' checksums */
    uint64_t checksum; /* of all that follows this header */
    uint32_t kv, position;
} state_header;

typedef void (*visit)(void *cursor, void *part, size_t bytes);

/* Calls f for each part of the state: tokens, then codes and scales of every layer and head. */
static void each_part(const mk_context *ctx, uint32_t positions, visit f, void *cursor)
{
    const mk_kv_cache *cache = &ctx->cache;
    f(cursor, ctx->tokens, positions * sizeof *ctx->tokens);
    for (int which = 0; which < 2; which++)
        for (uint32_t layer = 0; layer < cache->layers; layer++)
            for (uint32_t head = 0; head < cache->heads; head++) {
                mk_kv_plane plane = mk_kv_cache_plane(cache, which, layer, head);
                f(cursor, plane.codes, (size_t)positions * cache->stride);
                f(cursor, plane.scales, (size_t)positions * cache->scale_count * sizeof *plane.scales);
            }
}

static void count_part(void *cursor, void *part, size_t bytes)
{
    (void)part;
    *(size_t *)cursor += bytes;
}

static void save_part(void *cursor, void *part, size_t bytes)
{
    memcpy(*(uint8_t **)cursor, part, bytes);
    *(uint8_t **)cursor += bytes;
}

static void load_part(void *cursor, void *part, size_t bytes)
{
    memcpy(part, *(const uint8_t **)cursor, bytes);
    *(const uint8_t **)cursor += bytes;
}

static size_t size_at(const mk_context *ctx, uint32_t position)
{
    size_t size = sizeof(state_header);
    each_part(ctx, position, count_part, &size);
    return size;
}

size_t mk_state_size(const mk_context *ctx)
{
    return size_at(ctx, ctx->position);
}

size_t mk_state_save(const mk_context *ctx, void *out, size_t capacity)
{
    size_t size = mk_state_size(ctx);
    if (capacity < size)
        return 0;
    uint8_t *body = (uint8_t *)out + sizeof(state_header), *end = body;
    each_part(ctx, ctx->position, save_part, &end);
    state_header header = {STATE_MAGIC, ctx->model->checksum, mk_hash(body, (size_t)(end - body), 0),
                           (uint32_t)ctx->params.kv, ctx->position};
    memcpy(out, &header, sizeof header);
    return size;
}

static mk_status check_state(const mk_context *ctx, const state_header *h, size_t size, mk_error *err)
{
    if (h->magic != STATE_MAGIC)
        return mk_fail(err, MK_ERR_FORMAT, "not a saved state of this version of makarna");
    if (h->image != ctx->model->checksum)
        return mk_fail(err, MK_ERR_FORMAT, "the state was saved with another model image");
    if (h->kv != (uint32_t)ctx->params.kv)
        return mk_fail(err, MK_ERR_UNSUPPORTED, "the state has KV type %u, the context %u", h->kv,
                       (uint32_t)ctx->params.kv);
    if (h->position > ctx->params.context)
        return mk_fail(err, MK_ERR_CONTEXT_FULL, "the state holds %u tokens, the context %u", h->position,
                       ctx->params.context);
    if (size != size_at(ctx, h->position))
        return mk_fail(err, MK_ERR_FORMAT, "the state has %U bytes, expected %U", (uint64_t)size,
                       (uint64_t)size_at(ctx, h->position));
    return MK_OK;
}

mk_status mk_state_load(mk_context *ctx, const void *state, size_t size, mk_error *err)
{
    state_header header;
    if (size < sizeof header)
        return mk_fail(err, MK_ERR_FORMAT, "the state has %U bytes, its header alone %u", (uint64_t)size,
                       (uint32_t)sizeof header);
    memcpy(&header, state, sizeof header);
    mk_status s = check_state(ctx, &header, size, err);
    const uint8_t *body = (const uint8_t *)state + sizeof header;
    if (!s && mk_hash(body, size - sizeof header, 0) != header.checksum)
        s = mk_fail(err, MK_ERR_FORMAT, "the state is damaged");
    if (s)
        return s;
    each_part(ctx, header.position, load_part, &body);
    ctx->position = header.position;
    ctx->logits_count = 0;
    return MK_OK;
}
