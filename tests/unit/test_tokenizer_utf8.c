/* UTF-8: decoding of code points, and the detokenizer's stream against a decoder of whole texts. */
#include <stdio.h>

#include "check.h"
#include "text/utf8.h"
#include "unit/tiny_vocab.h"

/* ---- Code points ---------------------------------------------------------------------------- */

/* Encodes by arithmetic, without regard to what is allowed. */
static size_t encode(uint32_t code, size_t size, uint8_t *out)
{
    static const uint8_t lead[5] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)(lead[size] | code);
    return size;
}

static void test_decode(void)
{
    for (uint32_t code = 0; code < 0x200000; code++) {
        size_t shortest = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        bool allowed = code < 0x110000 && (code < 0xD800 || code >= 0xE000);
        for (size_t size = shortest; size <= 4; size++) {
            uint8_t bytes[4];
            uint32_t found;
            encode(code, size, bytes);
            uint32_t used = mk_utf8_decode(bytes, size, &found);
            if (allowed && size == shortest)
                CHECK(used == size && found == code);
            else
                CHECK(used == 1 && found == MK_UTF8_INVALID);
            if (size > 1)
                CHECK(mk_utf8_decode(bytes, size - 1, &found) == 1 && found == MK_UTF8_INVALID);
        }
    }
}

/* ---- Streaming ------------------------------------------------------------------------------ */

/* The well-formed sequences of table 3-7 of the Unicode standard, as ranges of bytes. */
static const uint8_t table[][9] = {
    {1, 0x00, 0x7F},
    {2, 0xC2, 0xDF, 0x80, 0xBF},
    {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
    {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
    {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
    {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
    {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
    {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
    {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
};

/* Longest prefix of text that a row of the table begins with; *whole if that is all of the row. */
static size_t longest_prefix(const uint8_t *text, size_t size, bool *whole)
{
    size_t longest = 0;
    *whole = false;
    for (size_t row = 0; row < sizeof table / sizeof table[0]; row++) {
        size_t n = 0;
        while (n < table[row][0] && n < size && text[n] >= table[row][1 + 2 * n] &&
               text[n] <= table[row][2 + 2 * n])
            n++;
        if (n > longest) {
            longest = n;
            *whole = n == table[row][0];
        }
    }
    return longest;
}

/* The whole text with U+FFFD for each maximal invalid part. */
static size_t replace_invalid(const uint8_t *text, size_t size, char *out)
{
    size_t written = 0;
    for (size_t i = 0; i < size;) {
        bool whole;
        size_t n = longest_prefix(text + i, size - i, &whole);
        if (whole)
            memcpy(out + written, text + i, n);
        else
            memcpy(out + written, "\xEF\xBF\xBD", 3);
        written += whole ? n : 3;
        i += n ? n : 1;
    }
    return written;
}

static size_t stream(const mk_model *model, const int32_t *ids, size_t count, char *out)
{
    mk_detokenizer state = {0};
    size_t written = 0, capacity = mk_detokenize_capacity(model);
    char *exact = malloc(capacity);
    for (size_t i = 0; i < count; i++) {
        size_t n = mk_detokenize(model, &state, ids[i], exact);
        CHECK(n <= capacity);
        memcpy(out + written, exact, n);
        written += n;
    }
    free(exact);
    return written + mk_detokenize_end(&state, out + written);
}

static void test_stream(const mk_model *model)
{
    static const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF,
                                    0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE,
                                    0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    const uint32_t n = sizeof edges;
    for (uint32_t i = 0; i < n * n * n * n; i++) {
        uint8_t text[4] = {edges[i % n], edges[i / n % n], edges[i / n / n % n], edges[i / n / n / n]};
        int32_t ids[4] = {text[0], text[1], text[2], text[3]};
        char expected[16], out[16];
        size_t wanted = replace_invalid(text, 4, expected), size = stream(model, ids, 4, out);
        CHECK_MSG(size == wanted && memcmp(out, expected, size) == 0, "%02x %02x %02x %02x", text[0], text[1],
                  text[2], text[3]);
    }
}

/* A code point appears with its last byte, not before. */
static void test_waiting(const mk_model *model)
{
    mk_detokenizer state = {0};
    char out[16];
    CHECK(mk_detokenize(model, &state, 0xF0, out) == 0);
    CHECK(mk_detokenize(model, &state, 0x9F, out) == 0);
    CHECK(mk_detokenize(model, &state, 0x98, out) == 0);
    CHECK(mk_detokenize(model, &state, 0x80, out) == 4 && memcmp(out, "\xF0\x9F\x98\x80", 4) == 0);
    CHECK(mk_detokenize(model, &state, 0xE2, out) == 0);
    CHECK(mk_detokenize(model, &state, 'a', out) == 4 && memcmp(out,
                                                                "\xEF\xBF\xBD"
                                                                "a",
                                                                4) == 0);
    CHECK(mk_detokenize_end(&state, out) == 0);
    CHECK(mk_detokenize(model, &state, 0xE2, out) == 0);
    CHECK(mk_detokenize_end(&state, out) == 3 && memcmp(out, "\xEF\xBF\xBD", 3) == 0);
    CHECK(mk_detokenize_end(&state, out) == 0);
    CHECK(mk_detokenize(model, &state, -1, out) == 0 && mk_detokenize(model, &state, 100000, out) == 0);
}

/* Tokens of several bytes that split code points, and a control token, which has no text. */
static void test_split(const mk_model *model, int32_t head, int32_t tail, int32_t control)
{
    const int32_t ids[] = {control, head, control, tail, head, head, tail};
    char out[64];
    size_t size = stream(model, ids, sizeof ids / sizeof ids[0], out);
    CHECK(size == 14 && memcmp(out, "x\xE2\x82\xACyx\xEF\xBF\xBDx\xE2\x82\xACy", 14) == 0);
}

/* The first space of an answer of a SentencePiece model is dropped, wherever it comes from. */
static void test_first_space(void)
{
    static tiny_vocab v;
    mk_model model;
    char out[16];
    for (int prefix = 0; prefix < 2; prefix++) {
        tiny_vocab_begin(&v, MKN_TOKENIZER_SPM, MKN_PRE_NONE, prefix ? MKN_TOKENIZER_SPACE_PREFIX : 0);
        int32_t control = (int32_t)tiny_vocab_add(&v, "<s>", 3, MKN_TOKEN_CONTROL);
        int32_t word = (int32_t)tiny_vocab_text(&v, " ab");
        void *image = tiny_vocab_open(&v, NULL, &model);
        const int32_t ids[] = {control, word, word};
        const char *expected = prefix ? "ab ab" : " ab ab";
        size_t size = stream(&model, ids, 3, out);
        CHECK_MSG(size == strlen(expected) && memcmp(out, expected, size) == 0, "prefix %d", prefix);
        mk_model_close(&model);
        free(image);
    }
}

int main(void)
{
    static tiny_vocab v;
    mk_model model;
    test_decode();
    tiny_vocab_begin(&v, MKN_TOKENIZER_BPE, MKN_PRE_GPT2, 0);
    tiny_vocab_bytes(&v);
    int32_t head = (int32_t)tiny_vocab_text(&v, "x\xE2"), tail = (int32_t)tiny_vocab_text(&v, "\x82\xACy");
    int32_t control = (int32_t)tiny_vocab_add(&v, "<end>", 5, MKN_TOKEN_CONTROL);
    void *image = tiny_vocab_open(&v, NULL, &model);
    test_stream(&model);
    test_waiting(&model);
    test_split(&model, head, tail, control);
    mk_model_close(&model);
    free(image);
    test_first_space();
    return check_end();
}
