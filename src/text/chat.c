/* The chat format: a conversation to token ids. The format's own texts come from the strings section and
 * may name special tokens; the messages are plain text, whatever they contain. Text between two special
 * tokens is tokenized as one piece, so that a role's prefix and the message after it merge as they do when
 * the rendered conversation is tokenized as a whole. */
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"
#include "text/encoder.h"

typedef struct chat_texts {
    const char *prefix[3], *suffix[3]; /* by mk_role */
    const char *default_system;        /* NULL: none */
} chat_texts;

/* The piece of text since the last special token, and where it goes. */
typedef struct renderer {
    mk_encoder encoder;
    uint8_t *piece;
    size_t size, capacity;
} renderer;

static bool chat_texts_of(const mk_model *model, chat_texts *texts)
{
    const mk_image *image = mk_image_of(model);
    const mkn_strings *s = mk_image_strings(image);
    if (!s || !s->chat_format)
        return false;
    texts->prefix[MK_SYSTEM] = mk_image_string(image, s->system_prefix);
    texts->suffix[MK_SYSTEM] = mk_image_string(image, s->system_suffix);
    texts->prefix[MK_USER] = mk_image_string(image, s->user_prefix);
    texts->suffix[MK_USER] = mk_image_string(image, s->user_suffix);
    texts->prefix[MK_ASSISTANT] = mk_image_string(image, s->assistant_prefix);
    texts->suffix[MK_ASSISTANT] = mk_image_string(image, s->assistant_suffix);
    texts->default_system = s->default_system ? mk_image_string(image, s->default_system) : NULL;
    return true;
}

/* Most bytes of a rendered conversation; false on overflow. */
static bool rendered_bytes(const chat_texts *texts, size_t messages, size_t text_bytes, uint64_t *total)
{
    uint64_t longest = 0;
    for (int role = 0; role < 3; role++) {
        uint64_t around = strlen(texts->prefix[role]) + (uint64_t)strlen(texts->suffix[role]);
        longest = around > longest ? around : longest;
    }
    /* Two more: the default system message and the answer to come. */
    uint64_t rounds = (uint64_t)messages + 2;
    uint64_t system = texts->default_system ? strlen(texts->default_system) : 0;
    return rounds >= 2 && !mk_mul_overflows(rounds, longest, total) &&
           !mk_add_overflows(*total, system, total) && !mk_add_overflows(*total, text_bytes, total) &&
           *total <= MK_ENCODER_MAX_BYTES;
}

size_t mk_chat_scratch_size(const mk_model *model, size_t messages, size_t text_bytes)
{
    chat_texts texts;
    uint64_t bytes;
    if (!chat_texts_of(model, &texts) || !rendered_bytes(&texts, messages, text_bytes, &bytes))
        return 0;
    size_t encoder = mk_encoder_scratch((size_t)bytes), total;
    if (encoder == 0 || __builtin_add_overflow(encoder, (size_t)bytes, &total))
        return 0;
    return total;
}

size_t mk_chat_capacity(const mk_model *model, size_t messages, size_t text_bytes)
{
    chat_texts texts;
    uint64_t bytes;
    if (!chat_texts_of(model, &texts) || !rendered_bytes(&texts, messages, text_bytes, &bytes))
        return 0;
    return (size_t)bytes + 3;
}

static void append(renderer *r, const char *text, size_t size)
{
    if (size == 0 || size > r->capacity - r->size)
        return; /* never more: the capacity counts every text */
    memcpy(r->piece + r->size, text, size);
    r->size += size;
}

static void end_piece(renderer *r)
{
    mk_encoder_text(&r->encoder, false, r->piece, r->size);
    r->size = 0;
}

/* A text of the format: its special tokens end the piece. */
static void append_format(renderer *r, const char *text)
{
    size_t size = strlen(text), plain = 0;
    for (size_t i = 0; i < size;) {
        size_t length = 0;
        uint32_t token = mk_vocab_special(r->encoder.vocab, true, (const uint8_t *)text + i, size - i, &length);
        if (token == MKN_NO_TOKEN) {
            i++;
            continue;
        }
        append(r, text + plain, i - plain);
        end_piece(r);
        mk_encoder_add_special(&r->encoder, token);
        plain = i += length;
    }
    append(r, text + plain, size - plain);
}

static void append_message(renderer *r, const chat_texts *texts, mk_role role, const char *text, size_t size)
{
    append_format(r, texts->prefix[role]);
    append(r, text, size);
    append_format(r, texts->suffix[role]);
}

static mk_status check_messages(const mk_message *messages, size_t count, size_t *text_bytes, mk_error *err)
{
    *text_bytes = 0;
    if (count == 0)
        return mk_fail(err, MK_ERR_ARGUMENT, "a conversation needs at least one message");
    for (size_t i = 0; i < count; i++) {
        if ((unsigned)messages[i].role > MK_ASSISTANT)
            return mk_fail(err, MK_ERR_ARGUMENT, "message %U has the unknown role %u", (uint64_t)i,
                           (uint32_t)messages[i].role);
        if (messages[i].role == MK_SYSTEM && i > 0)
            return mk_fail(err, MK_ERR_ARGUMENT,
                           "message %U is a system message: only the first of a conversation may be one",
                           (uint64_t)i);
        if (__builtin_add_overflow(*text_bytes, messages[i].bytes, text_bytes))
            return mk_fail(err, MK_ERR_ARGUMENT, "the conversation is too long");
    }
    return MK_OK;
}

/* What a conversation is rendered with, and the most bytes that it can have; checks the scratch. */
static mk_status prepare(const mk_model *model, const mk_message *messages, size_t count, const void *scratch,
                         size_t scratch_bytes, chat_texts *texts, uint64_t *rendered, mk_error *err)
{
    size_t text_bytes;
    if (!chat_texts_of(model, texts))
        return mk_fail(
            err, MK_ERR_UNSUPPORTED,
            "the image has no chat format: run with --raw, or quantize again with --chat-format NAME");
    mk_status status = check_messages(messages, count, &text_bytes, err);
    if (status != MK_OK)
        return status;
    size_t needed = mk_chat_scratch_size(model, count, text_bytes);
    if (needed == 0 || !rendered_bytes(texts, count, text_bytes, rendered))
        return mk_fail(err, MK_ERR_ARGUMENT, "a conversation of %U bytes is too long for the tokenizer",
                       (uint64_t)text_bytes);
    if (!scratch || (uintptr_t)scratch % 8 || scratch_bytes < needed)
        return mk_fail(err, MK_ERR_MEMORY,
                       "this conversation needs %U bytes of scratch aligned to 8, there are %U",
                       (uint64_t)needed, (uint64_t)scratch_bytes);
    return MK_OK;
}

mk_status mk_chat_tokenize(const mk_model *model, const mk_message *messages, size_t count, int32_t *ids,
                           size_t capacity, size_t *id_count, void *scratch, size_t scratch_bytes,
                           mk_error *err)
{
    chat_texts texts;
    mk_vocab vocab;
    uint64_t rendered = 0;
    *id_count = 0;
    mk_status status = prepare(model, messages, count, scratch, scratch_bytes, &texts, &rendered, err);
    if (status == MK_OK)
        status = mk_vocab_open(model, &vocab, err);
    if (status != MK_OK)
        return status;
    renderer r = {
        .encoder = mk_encoder_begin(&vocab, ids, capacity, scratch),
        .piece = (uint8_t *)scratch + mk_encoder_scratch((size_t)rendered),
        .capacity = (size_t)rendered,
    };
    if (messages[0].role != MK_SYSTEM && texts.default_system)
        append_message(&r, &texts, MK_SYSTEM, texts.default_system, strlen(texts.default_system));
    for (size_t i = 0; i < count; i++)
        append_message(&r, &texts, messages[i].role, messages[i].text, messages[i].bytes);
    append_format(&r, texts.prefix[MK_ASSISTANT]);
    end_piece(&r);
    return mk_encoder_end(&r.encoder, id_count, err);
}
