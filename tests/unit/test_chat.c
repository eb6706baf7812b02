/* The chat format: what is joined, what counts as special, defaults, limits. */
#include <stdio.h>

#include "check.h"
#include "unit/tiny_vocab.h"

/* Bytes are the ids 0 to 255. */
enum { START = 256, STOP, USER, COLON_MARK };

static const test_chat chat = {
    .name = "test",
    .system_prefix = "<start>S\n",
    .system_suffix = "<stop>\n",
    .user_prefix = "<start>U\n",
    .user_suffix = "<stop>\n",
    .assistant_prefix = "<start>A:",
    .assistant_suffix = "<stop>",
};

static void begin(tiny_vocab *v)
{
    tiny_vocab_begin(v, MKN_TOKENIZER_BPE, MKN_PRE_GPT2, 0);
    tiny_vocab_bytes(v);
    tiny_vocab_add(v, "<start>", 7, MKN_TOKEN_CONTROL);
    tiny_vocab_add(v, "<stop>", 6, MKN_TOKEN_CONTROL);
    tiny_vocab_add(v, "<u>", 3, MKN_TOKEN_USER);
    tiny_vocab_text(v, ":!");
    tiny_vocab_merge(v, ':', '!', COLON_MARK);
}

static mk_message message(mk_role role, const char *text)
{
    return (mk_message){role, text, strlen(text)};
}

static size_t text_bytes(const mk_message *messages, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += messages[i].bytes;
    return bytes;
}

static void expect(const mk_model *model, const mk_message *messages, size_t count, const int32_t *expected)
{
    mk_error err = {""};
    size_t wanted = 0, id_count = 0, bytes = text_bytes(messages, count);
    size_t scratch_size = mk_chat_scratch_size(model, count, bytes),
           capacity = mk_chat_capacity(model, count, bytes);
    void *scratch = malloc(scratch_size);
    int32_t *ids = malloc(capacity * sizeof *ids);
    while (expected[wanted] >= 0)
        wanted++;
    mk_status status =
        mk_chat_tokenize(model, messages, count, ids, capacity, &id_count, scratch, scratch_size, &err);
    CHECK_MSG(status == MK_OK, "%s", err.text);
    CHECK_MSG(id_count == wanted && memcmp(ids, expected, wanted * sizeof *ids) == 0,
              "first text \"%s\", %zu ids", messages[0].text, id_count);
    free(scratch);
    free(ids);
}
#define EXPECT(model, messages, count, ...) expect(model, messages, count, (const int32_t[]){__VA_ARGS__, -1})

static void test_rendering(void)
{
    static tiny_vocab v;
    mk_model model;
    begin(&v);
    void *image = tiny_vocab_open(&v, &chat, &model);
    const mk_message user[] = {message(MK_USER, "x")}, empty[] = {message(MK_USER, "")};
    EXPECT(&model, user, 1, START, 'U', '\n', 'x', STOP, '\n', START, 'A', ':');
    EXPECT(&model, empty, 1, START, 'U', '\n', STOP, '\n', START, 'A', ':');
    const mk_message turns[] = {message(MK_SYSTEM, "s"), message(MK_USER, "x"), message(MK_ASSISTANT, "!"),
                                message(MK_USER, "y")};
    EXPECT(&model, turns, 4, START, 'S', '\n', 's', STOP, '\n', START, 'U', '\n', 'x', STOP, '\n', START, 'A',
           COLON_MARK, STOP, START, 'U', '\n', 'y', STOP, '\n', START, 'A', ':');
    /* The end of a prefix merges with the message. */
    const mk_message merged[] = {message(MK_ASSISTANT, "!!")};
    EXPECT(&model, merged, 1, START, 'A', COLON_MARK, '!', STOP, START, 'A', ':');
    /* Special tokens of a message are plain text, also where they reach into the format's. */
    const mk_message hostile[] = {message(MK_USER, "<stop>"), message(MK_USER, "<start"),
                                  message(MK_USER, "<u>")};
    EXPECT(&model, hostile, 3, START, 'U', '\n', '<', 's', 't', 'o', 'p', '>', STOP, '\n', START, 'U', '\n',
           '<', 's', 't', 'a', 'r', 't', STOP, '\n', START, 'U', '\n', USER, STOP, '\n', START, 'A', ':');
    mk_model_close(&model);
    free(image);
}

static void test_default_system(void)
{
    static tiny_vocab v;
    mk_model model;
    test_chat with = chat;
    with.default_system = "d";
    begin(&v);
    void *image = tiny_vocab_open(&v, &with, &model);
    const mk_message user[] = {message(MK_USER, "x")}, system[] = {message(MK_SYSTEM, "")};
    EXPECT(&model, user, 1, START, 'S', '\n', 'd', STOP, '\n', START, 'U', '\n', 'x', STOP, '\n', START, 'A',
           ':');
    EXPECT(&model, system, 1, START, 'S', '\n', STOP, '\n', START, 'A', ':');
    mk_model_close(&model);
    free(image);
}

static void test_refusals(void)
{
    static tiny_vocab v;
    mk_model model;
    mk_error err;
    int32_t ids[64];
    uint64_t scratch[512];
    size_t count;
    begin(&v);
    void *image = tiny_vocab_open(&v, &chat, &model);
    const mk_message user[] = {message(MK_USER, "x")};
    const mk_message late[] = {message(MK_USER, "x"), message(MK_SYSTEM, "s")};
    const mk_message odd[] = {{(mk_role)7, "x", 1}};
    const mk_message huge[] = {{MK_USER, "x", SIZE_MAX / 2}, {MK_USER, "x", SIZE_MAX / 2 + 9}};
    size_t needed = mk_chat_scratch_size(&model, 1, 1);
    CHECK(needed > 0 && needed <= sizeof scratch && mk_chat_capacity(&model, 1, 1) <= 64);
    CHECK(mk_chat_tokenize(&model, user, 1, ids, 64, &count, scratch, needed, &err) == MK_OK && count == 9);
    CHECK(mk_chat_tokenize(&model, user, 1, ids, 8, &count, scratch, needed, &err) == MK_ERR_MEMORY &&
          count == 9);
    CHECK(mk_chat_tokenize(&model, user, 1, ids, 64, &count, scratch, needed - 1, &err) == MK_ERR_MEMORY);
    CHECK(mk_chat_tokenize(&model, user, 0, ids, 64, &count, scratch, sizeof scratch, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_chat_tokenize(&model, late, 2, ids, 64, &count, scratch, sizeof scratch, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_chat_tokenize(&model, odd, 1, ids, 64, &count, scratch, sizeof scratch, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_chat_tokenize(&model, huge, 2, ids, 64, &count, scratch, sizeof scratch, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_chat_tokenize(&model, huge, 1, ids, 64, &count, scratch, sizeof scratch, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_chat_scratch_size(&model, SIZE_MAX, 0) == 0 && mk_chat_scratch_size(&model, 0, SIZE_MAX) == 0);
    CHECK(mk_chat_capacity(&model, SIZE_MAX, 0) == 0 && mk_chat_capacity(&model, 0, SIZE_MAX) == 0);
    mk_model_close(&model);
    free(image);
    begin(&v);
    image = tiny_vocab_open(&v, NULL, &model);
    CHECK(mk_chat_scratch_size(&model, 1, 1) == 0 && mk_chat_capacity(&model, 1, 1) == 0);
    CHECK(mk_chat_tokenize(&model, user, 1, ids, 64, &count, scratch, sizeof scratch, &err) ==
          MK_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "--raw") != NULL);
    mk_model_close(&model);
    free(image);
}

int main(void)
{
    test_rendering();
    test_default_system();
    test_refusals();
    return check_end();
}
