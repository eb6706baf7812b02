/* Building tokenizer sections and finding chat formats: what comes out for small vocabularies, and what is
 * refused, by name. */
#include "check.h"
#include "image/mkn_tokenizer.h"
#include "quant/convert/chat_format.h"
#include "quant/convert/tokenizer.h"
#include "unit/tokenizer_image.h"

enum { TOKENS = 300, MERGES = 16 };

typedef struct test_vocab {
    source_vocab vocab;
    source_string tokens[TOKENS], merges[MERGES];
    uint8_t types[TOKENS];
    float scores[TOKENS];
    char bytes[256][8]; /* texts of byte tokens */
} test_vocab;

static source_string text_of(const char *text)
{
    return (source_string){text, strlen(text)};
}

static uint32_t add(test_vocab *t, const char *text, uint8_t type, float score)
{
    uint32_t id = t->vocab.count++;
    t->tokens[id] = text_of(text);
    t->types[id] = type;
    t->scores[id] = score;
    return id;
}

static void add_merge(test_vocab *t, const char *text)
{
    t->merges[t->vocab.merge_count++] = text_of(text);
}

static void begin(test_vocab *t, source_vocab_kind kind, const char *pre)
{
    memset(t, 0, sizeof *t);
    t->vocab = (source_vocab){.kind = kind,
                              .pre = text_of(pre),
                              .tokens = t->tokens,
                              .types = t->types,
                              .scores = kind == SOURCE_VOCAB_SPM ? t->scores : NULL,
                              .merges = t->merges,
                              .bos = -1,
                              .eos = -1,
                              .unknown = -1,
                              .padding = -1,
                              .eot = -1};
}

/* a b c, the byte 0x20 as U+0120, e acute as its two bytes, and some merges. */
static void begin_bpe(test_vocab *t)
{
    begin(t, SOURCE_VOCAB_BPE, "gpt-2");
    add(t, "a", SOURCE_TOKEN_NORMAL, 0);
    add(t, "b", SOURCE_TOKEN_NORMAL, 0);
    add(t, "\xC4\xA0", SOURCE_TOKEN_NORMAL, 0);
    add(t, "\xC3\x83", SOURCE_TOKEN_NORMAL, 0); /* byte C3 */
    add(t, "\xC2\xA9", SOURCE_TOKEN_NORMAL, 0); /* byte A9 */
    add(t, "ab", SOURCE_TOKEN_NORMAL, 0);       /* 5 */
    add(t,
        "\xC4\xA0"
        "ab",
        SOURCE_TOKEN_NORMAL, 0);
    add(t, "\xC3\x83\xC2\xA9", SOURCE_TOKEN_NORMAL, 0); /* 7: e acute */
    add(t, "<|im_start|>", SOURCE_TOKEN_CONTROL, 0);
    add(t, "<|im_end|>", SOURCE_TOKEN_CONTROL, 0);
    add(t, "\xC3\xA9", SOURCE_TOKEN_USER, 0); /* 10: e acute as it stands */
    add_merge(t, "a b");
    add_merge(t, "\xC4\xA0 ab");
    add_merge(t, "\xC3\x83 \xC2\xA9");
    t->vocab.eos = 9;
}

static void begin_spm(test_vocab *t)
{
    begin(t, SOURCE_VOCAB_SPM, "default");
    add(t, "<unk>", SOURCE_TOKEN_UNKNOWN, 0);
    add(t, "<s>", SOURCE_TOKEN_CONTROL, 0);
    add(t, "</s>", SOURCE_TOKEN_CONTROL, 0);
    for (unsigned i = 0; i < 256; i++) {
        snprintf(t->bytes[i], sizeof t->bytes[i], "<0x%02X>", i);
        add(t, t->bytes[i], SOURCE_TOKEN_BYTE, 0);
    }
    add(t, "\xE2\x96\x81", SOURCE_TOKEN_NORMAL, -10); /* 259 */
    add(t, "a", SOURCE_TOKEN_NORMAL, -11);
    add(t, "b", SOURCE_TOKEN_NORMAL, -12);
    add(t, "ab", SOURCE_TOKEN_NORMAL, -1); /* 262 */
    add(t, "ba", SOURCE_TOKEN_NORMAL, -1); /* 263: as good as ab */
    add(t,
        "\xE2\x96\x81"
        "a",
        SOURCE_TOKEN_NORMAL, -3);           /* 264 */
    add(t, "bab", SOURCE_TOKEN_NORMAL, -4); /* 265 */
    add(t, "xay", SOURCE_TOKEN_NORMAL, -5); /* 266: x and y are no tokens */
    add(t, "ay", SOURCE_TOKEN_NORMAL, -6);  /* 267 */
    t->vocab.unknown = 0;
    t->vocab.bos = 1;
    t->vocab.eos = 2;
    t->vocab.add_bos = t->vocab.add_space_prefix = true;
}

/* ---- What is built -------------------------------------------------------------------------- */

static void expect(test_vocab *t, const char *text, unsigned flags, const int32_t *expected)
{
    uint8_t *section;
    size_t size, image_size, count = 0, wanted = 0, bytes = strlen(text);
    char error[256] = "";
    int32_t ids[64];
    uint64_t scratch[256];
    mk_model model;
    mk_error err = {""};
    CHECK_MSG(convert_tokenizer(&t->vocab, &section, &size, error, sizeof error), "%s", error);
    if (!section)
        return;
    void *image = test_vocab_image(section, size, t->vocab.count, NULL, &image_size);
    CHECK(mk_model_open_memory(&model, image, image_size, &err) == MK_OK);
    mk_status status = mk_tokenize(&model, text, bytes, flags, ids, 64, &count, scratch, sizeof scratch, &err);
    CHECK_MSG(status == MK_OK, "%s", err.text);
    while (expected[wanted] >= 0)
        wanted++;
    CHECK_MSG(count == wanted && memcmp(ids, expected, wanted * sizeof *ids) == 0, "text \"%s\": %zu tokens",
              text, count);
    mk_model_close(&model);
    free(image);
    free(section);
}
#define EXPECT(t, text, flags, ...) expect(t, text, flags, (const int32_t[]){__VA_ARGS__, -1})

static void test_building(void)
{
    static test_vocab t;
    begin_bpe(&t);
    EXPECT(&t, "ab ab", 0, 5, 6);
    EXPECT(&t, "aab  ab", 0, 0, 5, 2, 6);
    EXPECT(&t, "<|im_start|>a", MK_TOKENIZE_SPECIAL, 8, 0);
    EXPECT(&t, "a\xC3\xA9", 0, 0, 10);
    t.types[10] = SOURCE_TOKEN_UNUSED;
    EXPECT(&t, "a\xC3\xA9", 0, 0, 7);
    begin_spm(&t);
    EXPECT(&t, "a", MK_TOKENIZE_BOS, 1, 264);
    EXPECT(&t, "aba", 0, 259, 262, 260); /* the left one of equals */
    EXPECT(&t, "abab", 0, 259, 262, 262);
    EXPECT(&t, "bbab", 0, 259, 261, 265);
    EXPECT(&t, "xay", 0, 259, 266);
    EXPECT(&t, "xya", 0, 259, 3 + 'x', 3 + 'y', 260);
    EXPECT(&t, "</s>", 0, 259, 3 + '<', 3 + '/', 3 + 's', 3 + '>');
    EXPECT(&t, "</s>a", MK_TOKENIZE_SPECIAL, 2, 264);
}

static void test_same_bytes(void)
{
    static test_vocab t;
    uint8_t *a, *b;
    size_t a_size, b_size;
    char error[256];
    begin_spm(&t);
    CHECK(convert_tokenizer(&t.vocab, &a, &a_size, error, sizeof error));
    CHECK(convert_tokenizer(&t.vocab, &b, &b_size, error, sizeof error));
    CHECK(a_size == b_size && memcmp(a, b, a_size) == 0);
    free(a);
    free(b);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void refuse(test_vocab *t, const char *expected)
{
    uint8_t *section;
    size_t size;
    char error[512] = "", small[8];
    CHECK_MSG(!convert_tokenizer(&t->vocab, &section, &size, error, sizeof error), "expected: %s", expected);
    CHECK(section == NULL && size == 0);
    CHECK_MSG(strstr(error, expected) != NULL, "got \"%s\", expected \"%s\"", error, expected);
    CHECK(!convert_tokenizer(&t->vocab, &section, &size, small, sizeof small));
}

static void test_general_refusals(void)
{
    static test_vocab t;
    static char long_text[MKN_MAX_TOKEN_BYTES + 2];
    memset(long_text, 'a', sizeof long_text - 1);
    begin_bpe(&t);
    t.vocab.pre = text_of("qwen99");
    refuse(&t, "pre-tokenizer \"qwen99\"");
    t.vocab.pre = text_of("");
    refuse(&t, "does not name its pre-tokenizer");
    begin_spm(&t);
    t.vocab.pre = text_of("gpt-2");
    refuse(&t, "pre-tokenizer \"gpt-2\"");
    begin(&t, SOURCE_VOCAB_NONE, "");
    refuse(&t, "no vocabulary");
    begin(&t, SOURCE_VOCAB_BPE, "gpt-2");
    refuse(&t, "0 tokens");
    begin_bpe(&t);
    t.vocab.eos = 11;
    refuse(&t, "the EOS token is 11, there are 11 tokens");
    begin_bpe(&t);
    t.vocab.add_bos = true;
    refuse(&t, "names no BOS token");
    begin_bpe(&t);
    add(&t, long_text, SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "1025 bytes");
    begin_bpe(&t);
    t.types[3] = 7;
    refuse(&t, "token 3 (\"??\") has the unknown type 7");
    begin_bpe(&t);
    add(&t, "<|im_end|>", SOURCE_TOKEN_USER, 0);
    refuse(&t, "9 and 11 have the same text \"<|im_end|>\"");
    begin_bpe(&t);
    add(&t, "ab", SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "tokens 5 and 11 have the same text \"ab\"");
}

static void test_bpe_refusals(void)
{
    static test_vocab t;
    begin_bpe(&t);
    t.vocab.add_space_prefix = true;
    refuse(&t, "add_space_prefix");
    begin_bpe(&t);
    add(&t, "a b", SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "token 11 (\"a b\") has a character outside the byte alphabet");
    begin_bpe(&t);
    add(&t, "\xE2\x96\x81", SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "outside the byte alphabet");
    begin_bpe(&t);
    add(&t, "<0x0A>", SOURCE_TOKEN_BYTE, 0);
    refuse(&t, "token 11 (\"<0x0A>\") is marked as a byte");
    begin(&t, SOURCE_VOCAB_BPE, "gpt-2");
    add(&t, "ab", SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "not byte-level BPE");
    static const struct {
        const char *merge, *expected;
    } merges[] = {
        {"ab", "is not two texts"},
        {"", "is not two texts"},
        {"a ", "byte alphabet"},
        {" a", "byte alphabet"},
        {"a b a", "byte alphabet"},
        {"c a", "its left part is no token"},
        {"a c", "its right part is no token"},
        {"b a", "its result is no token"},
        {"a b", "merges 0 and 3"},
    };
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        begin_bpe(&t);
        add_merge(&t, merges[i].merge);
        refuse(&t, merges[i].expected);
    }
}

static void test_spm_refusals(void)
{
    static test_vocab t;
    begin_spm(&t);
    t.vocab.scores = NULL;
    refuse(&t, "no scores");
    begin_spm(&t);
    t.scores[262] = (float)strtod("nan", NULL);
    refuse(&t, "token 262 (\"ab\") is not a finite number");
    begin_spm(&t);
    add(&t, "\xC3", SOURCE_TOKEN_NORMAL, -7);
    refuse(&t, "not valid UTF-8");
    begin_spm(&t);
    t.types[262] = SOURCE_TOKEN_UNUSED;
    refuse(&t, "token 262 (\"ab\") is marked unused");
    begin_spm(&t);
    t.tokens[10] = text_of("<0x0g>");
    refuse(&t, "token 10");
    begin_spm(&t);
    t.tokens[10] = text_of("<0x00>");
    refuse(&t, "both stand for the byte 0x00");
    begin_spm(&t);
    t.types[10] = SOURCE_TOKEN_CONTROL;
    refuse(&t, "255 byte tokens");
    begin_spm(&t);
    add(&t, "\n", SOURCE_TOKEN_USER, 0);
    refuse(&t, "special token of one byte");
    begin(&t, SOURCE_VOCAB_SPM, "");
    add(&t, "a", SOURCE_TOKEN_NORMAL, 0);
    refuse(&t, "neither byte tokens nor an unknown token");
}

/* ---- Chat formats --------------------------------------------------------------------------- */

static const char smollm2[] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != "
                              "'system' %}{{ '<|im_start|>system\n"
                              "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                              "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
                              "' + message['content'] + '<|im_end|>' + '\n"
                              "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
                              "' }}{% endif %}";

static void expect_chat(test_vocab *t, const char *requested, chat_result expected, const char *text)
{
    chat_format format;
    char message[512];
    chat_result result = convert_chat_format(&t->vocab, requested, &format, message, sizeof message);
    CHECK_MSG(result == expected, "%d, expected %d: %s", (int)result, (int)expected, message);
    CHECK_MSG(strstr(message, text) != NULL, "got \"%s\", expected \"%s\"", message, text);
    CHECK((result == CHAT_FOUND) == (format.name != NULL));
    if (result == CHAT_FOUND) {
        CHECK_STR(message, "");
        CHECK_STR(format.name, "chatml");
        CHECK_STR(format.user_prefix, "<|im_start|>user\n");
        CHECK_STR(format.assistant_suffix, "<|im_end|>\n");
        CHECK((format.default_system != NULL) ==
              (!requested && t->vocab.chat_template.length == strlen(smollm2)));
    }
}

static void test_chat_formats(void)
{
    static test_vocab t;
    begin_bpe(&t);
    expect_chat(&t, NULL, CHAT_NONE, "--raw");
    t.vocab.chat_template = text_of(smollm2);
    expect_chat(&t, NULL, CHAT_FOUND, "");
    t.vocab.chat_template.length--;
    expect_chat(&t, NULL, CHAT_NONE, "--chat-format");
    expect_chat(&t, "chatml", CHAT_FOUND, "");
    expect_chat(&t, "none", CHAT_NONE, "");
    expect_chat(&t, "ChatML", CHAT_FAILED, "unknown chat format \"ChatML\"");
    t.vocab.chat_template = text_of(
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
        "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
        "{% endif %}");
    expect_chat(&t, NULL, CHAT_FOUND, "");
    t.tokens[9] = text_of("<|im_stop|>");
    expect_chat(&t, NULL, CHAT_NONE, "<|im_end|>");
    expect_chat(&t, "chatml", CHAT_FAILED, "<|im_end|>");
}

int main(void)
{
    test_building();
    test_same_bytes();
    test_general_refusals();
    test_bpe_refusals();
    test_spm_refusals();
    test_chat_formats();
    return check_end();
}
