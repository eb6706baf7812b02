/* Tokenizing with small vocabularies: merging against a plain search, special tokens, both kinds of
 * vocabulary, limits, and damaged sections. */
#include <stdio.h>

#include "check.h"
#include "unit/tiny_vocab.h"

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* Checks the tokens of a text against ids up to -1. */
static void expect(const mk_model *model, const char *text, unsigned flags, const int32_t *expected)
{
    int32_t ids[256];
    size_t wanted = 0, count = tiny_vocab_tokenize(model, text, strlen(text), flags, ids, 256);
    while (expected[wanted] >= 0)
        wanted++;
    CHECK_MSG(count == wanted && memcmp(ids, expected, wanted * sizeof *ids) == 0, "text \"%s\": %zu tokens",
              text, count);
}
#define EXPECT(model, text, flags, ...) expect(model, text, flags, (const int32_t[]){__VA_ARGS__, -1})

/* ---- Byte-level BPE: ids 0 to 255 are the bytes --------------------------------------------- */

enum { AB = 256, ABC, AA, SPACE_A, END, USER, USER_LONG, END_MARK };

static void begin_bpe(tiny_vocab *v, uint32_t rule)
{
    tiny_vocab_begin(v, MKN_TOKENIZER_BPE, rule, MKN_TOKENIZER_ADD_BOS);
    tiny_vocab_bytes(v);
    tiny_vocab_text(v, "ab");
    tiny_vocab_text(v, "abc");
    tiny_vocab_text(v, "aa");
    tiny_vocab_text(v, " a");
    tiny_vocab_add(v, "<end>", 5, MKN_TOKEN_CONTROL);
    tiny_vocab_add(v, "<u>", 3, MKN_TOKEN_USER);
    tiny_vocab_add(v, "<u><v>", 6, MKN_TOKEN_USER);
    tiny_vocab_add(v, "<end>!", 6, MKN_TOKEN_CONTROL);
    tiny_vocab_merge(v, 'a', 'b', AB);
    tiny_vocab_merge(v, ' ', 'a', SPACE_A);
    tiny_vocab_merge(v, AB, 'c', ABC);
    tiny_vocab_merge(v, 'a', 'a', AA);
    v->head.bos = END;
    v->end_tokens[v->end_count++] = END;
}

static void test_bpe(void)
{
    static tiny_vocab v;
    mk_model model;
    begin_bpe(&v, MKN_PRE_GPT2);
    void *image = tiny_vocab_open(&v, NULL, &model);
    CHECK(tiny_vocab_tokenize(&model, "", 0, 0, NULL, 0) == 0);
    EXPECT(&model, "", MK_TOKENIZE_BOS, END);
    EXPECT(&model, "abc", 0, ABC);
    EXPECT(&model, "aabc", 0, 'a', ABC);
    EXPECT(&model, "aaa", 0, AA, 'a');
    EXPECT(&model, "aaaa", MK_TOKENIZE_BOS, END, AA, AA);
    EXPECT(&model, " ab", 0, ' ', AB); /* "ab" ranks before " a" */
    EXPECT(&model, " a", 0, SPACE_A);
    EXPECT(&model, "  a", 0, ' ', SPACE_A);
    EXPECT(&model, "a'b", 0, 'a', '\'', 'b');
    EXPECT(&model, "\xff\xc3", 0, 0xff, 0xc3);
    EXPECT(&model, "<end>", 0, '<', 'e', 'n', 'd', '>');
    EXPECT(&model, "<end>", MK_TOKENIZE_SPECIAL, END);
    EXPECT(&model, "a<end>!b", MK_TOKENIZE_SPECIAL, 'a', END_MARK, 'b');
    EXPECT(&model, "a<end><end", MK_TOKENIZE_SPECIAL, 'a', END, '<', 'e', 'n', 'd');
    EXPECT(&model, "a<u>b", 0, 'a', USER, 'b'); /* user tokens always count */
    EXPECT(&model, "<u><u><v><v>", 0, USER, USER_LONG, '<', 'v', '>');
    CHECK(mk_is_end(&model, END) && !mk_is_end(&model, USER) && !mk_is_end(&model, -1) &&
          !mk_is_end(&model, 1 << 30));
    mk_model_close(&model);
    free(image);
}

/* A byte without a token is left out; its neighbours then touch. */
static void test_missing_byte(void)
{
    static tiny_vocab v;
    mk_model model;
    begin_bpe(&v, MKN_PRE_GPT2);
    v.bytes[1] = MKN_NO_TOKEN;
    void *image = tiny_vocab_open(&v, NULL, &model);
    EXPECT(&model, "\x01", MK_TOKENIZE_BOS, END);
    EXPECT(&model, "!\x01!", 0, '!', '!');
    mk_model_close(&model);
    free(image);
}

static void test_limits(void)
{
    static tiny_vocab v;
    mk_model model;
    mk_error err;
    int32_t ids[8];
    uint64_t scratch[64];
    size_t count;
    begin_bpe(&v, MKN_PRE_GPT2);
    void *image = tiny_vocab_open(&v, NULL, &model);
    size_t needed = mk_tokenize_scratch_size(&model, 4);
    CHECK(needed > 0 && needed <= sizeof scratch);
    CHECK(mk_tokenize_scratch_size(&model, SIZE_MAX) == 0);
    CHECK(mk_tokenize_scratch_size(&model, SIZE_MAX / 24) == 0);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 8, &count, scratch, needed, &err) == MK_OK && count == 4);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 4, &count, scratch, needed, &err) == MK_OK && count == 4);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 3, &count, scratch, needed, &err) == MK_ERR_MEMORY &&
          count == 4);
    CHECK_STR(err.text, "the text has 4 tokens, there is room for 3");
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, NULL, 0, &count, scratch, needed, NULL) == MK_ERR_MEMORY &&
          count == 4);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 8, &count, scratch, needed - 1, &err) == MK_ERR_MEMORY);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 8, &count, (char *)scratch + 1, 256, &err) == MK_ERR_MEMORY);
    CHECK(mk_tokenize(&model, "bbbb", 4, 0, ids, 8, &count, NULL, 256, &err) == MK_ERR_MEMORY);
    CHECK(mk_tokenize(&model, "bbbb", 4, 4, ids, 8, &count, scratch, needed, &err) == MK_ERR_ARGUMENT);
    CHECK(mk_tokenize(&model, "bbbb", SIZE_MAX, 0, ids, 8, &count, scratch, needed, &err) == MK_ERR_ARGUMENT);
    mk_model_close(&model);
    free(image);
}

/* ---- Merging against a plain search --------------------------------------------------------- */

enum { LETTERS = 3, MERGES = 60 };

typedef struct random_merges {
    uint32_t left[MERGES], right[MERGES], rank[MERGES], count;
} random_merges;

/* Merges of random known tokens; token 256 + i is the result of merge i. Every second rank is shared. */
static void make_merges(tiny_vocab *v, random_merges *m)
{
    for (m->count = 0; m->count < MERGES;) {
        uint32_t known = LETTERS + m->count, l = draw(known), r = draw(known);
        l = l < LETTERS ? 'a' + l : 256 + l - LETTERS;
        r = r < LETTERS ? 'a' + r : 256 + r - LETTERS;
        bool fresh = true;
        for (uint32_t i = 0; i < m->count; i++)
            fresh = fresh && (m->left[i] != l || m->right[i] != r);
        if (!fresh)
            continue;
        char text[8] = "";
        snprintf(text, sizeof text, "#%u", m->count);
        tiny_vocab_text(v, text);
        m->left[m->count] = l;
        m->right[m->count] = r;
        m->rank[m->count] = draw(MERGES / 2);
        tiny_vocab_merge_ranked(v, l, r, m->rank[m->count], 256 + m->count);
        m->count++;
    }
}

static size_t merge_plainly(const random_merges *m, int32_t *ids, size_t count)
{
    for (;;) {
        size_t best = 0;
        uint32_t merge = MERGES;
        for (size_t i = 0; i + 1 < count; i++)
            for (uint32_t k = 0; k < m->count; k++)
                if (m->left[k] == (uint32_t)ids[i] && m->right[k] == (uint32_t)ids[i + 1] &&
                    (merge == MERGES || m->rank[k] < m->rank[merge])) {
                    merge = k;
                    best = i;
                }
        if (merge == MERGES)
            return count;
        ids[best] = (int32_t)(256 + merge);
        memmove(ids + best + 1, ids + best + 2, (count - best - 2) * sizeof *ids);
        count--;
    }
}

static void test_merging(void)
{
    static tiny_vocab v;
    random_merges merges;
    mk_model model;
    for (int round = 0; round < 40; round++) {
        tiny_vocab_begin(&v, MKN_TOKENIZER_BPE, MKN_PRE_GPT2, 0);
        tiny_vocab_bytes(&v);
        make_merges(&v, &merges);
        void *image = tiny_vocab_open(&v, NULL, &model);
        for (size_t size = 1; size < 70; size++) {
            char text[70];
            int32_t expected[70], ids[70];
            for (size_t i = 0; i < size; i++)
                expected[i] = text[i] = (char)('a' + draw(LETTERS));
            size_t wanted = merge_plainly(&merges, expected, size);
            size_t count = tiny_vocab_tokenize(&model, text, size, 0, ids, 70);
            CHECK_MSG(count == wanted && memcmp(ids, expected, wanted * sizeof *ids) == 0, "round %d, %.*s",
                      round, (int)size, text);
        }
        mk_model_close(&model);
        free(image);
    }
}

/* ---- SentencePiece -------------------------------------------------------------------------- */

enum { UNKNOWN, BOS, BYTES, PIECES = BYTES + 256 };

static void begin_spm(tiny_vocab *v, uint32_t flags, bool bytes)
{
    tiny_vocab_begin(v, MKN_TOKENIZER_SPM, MKN_PRE_NONE, flags);
    tiny_vocab_add(v, "<unk>", 5, MKN_TOKEN_CONTROL);
    tiny_vocab_add(v, "<s>", 3, MKN_TOKEN_CONTROL);
    tiny_vocab_bytes(v);
    if (!bytes)
        memset(v->bytes, 0xff, sizeof v->bytes);
    v->head.unknown = UNKNOWN;
    v->head.bos = BOS;
}

static void test_spm(void)
{
    static tiny_vocab v;
    mk_model model;
    begin_spm(&v, MKN_TOKENIZER_SPACE_PREFIX | MKN_TOKENIZER_ADD_BOS, true);
    int32_t space = (int32_t)tiny_vocab_text(&v, " "), a = (int32_t)tiny_vocab_text(&v, "a");
    int32_t space_a = (int32_t)tiny_vocab_text(&v, " a"), e_acute = (int32_t)tiny_vocab_text(&v, "\xc3\xa9");
    int32_t xy = (int32_t)tiny_vocab_text(&v, "xy"),
            user = (int32_t)tiny_vocab_add(&v, "<u>", 3, MKN_TOKEN_USER);
    v.tokens = v.count; /* x and y are no tokens, but parts of one */
    uint32_t x = tiny_vocab_text(&v, "x"), y = tiny_vocab_text(&v, "y");
    tiny_vocab_merge(&v, (uint32_t)space, (uint32_t)a, (uint32_t)space_a);
    tiny_vocab_merge(&v, x, y, (uint32_t)xy);
    void *image = tiny_vocab_open(&v, NULL, &model);
    CHECK(tiny_vocab_tokenize(&model, "", 0, 0, NULL, 0) == 0);
    EXPECT(&model, "a", 0, space_a);
    EXPECT(&model, "a", MK_TOKENIZE_BOS, BOS, space_a);
    EXPECT(&model, " a", 0, space, space_a);
    EXPECT(&model,
           "\xe2\x96\x81"
           "a",
           0, space, space_a);
    EXPECT(&model, "aa\xc3\xa9", 0, space_a, a, e_acute);
    EXPECT(&model, "xy", 0, space, xy);
    EXPECT(&model, "xxy", 0, space, BYTES + 'x', xy);
    EXPECT(&model, "y\n", 0, space, BYTES + 'y', BYTES + '\n');
    EXPECT(&model, "\xf0\x9f\x98\x80", 0, space, BYTES + 0xf0, BYTES + 0x9f, BYTES + 0x98, BYTES + 0x80);
    EXPECT(&model, "\xc3\xc3\xa9\xa9", 0, space, BYTES + 0xc3, e_acute, BYTES + 0xa9);
    EXPECT(&model, "a<u>a", 0, space_a, user, space_a);
    EXPECT(&model, "<s>a", MK_TOKENIZE_SPECIAL, BOS, space_a);
    EXPECT(&model, "<s>", 0, space, BYTES + '<', BYTES + 's', BYTES + '>');
    mk_model_close(&model);
    free(image);
}

static void test_unknown(void)
{
    static tiny_vocab v;
    mk_model model;
    begin_spm(&v, 0, false);
    int32_t a = (int32_t)tiny_vocab_text(&v, "a");
    void *image = tiny_vocab_open(&v, NULL, &model);
    EXPECT(&model, "a", 0, a);
    EXPECT(&model, "xaxxya\xff\xc3\xa9", 0, UNKNOWN, a, UNKNOWN, a, UNKNOWN);
    mk_model_close(&model);
    free(image);
}

/* ---- Damage --------------------------------------------------------------------------------- */

static void use(const mk_model *model)
{
    static const char text[] = "abc <u><v> aab<end>!  xy\xe2\x96\x81\xf0\x9f\x98\x80\xff'll 12 \n\n";
    int32_t ids[sizeof text + 2];
    char out[4 * MKN_MAX_TOKEN_BYTES];
    unsigned flags = draw(4);
    size_t count = tiny_vocab_tokenize(model, text, sizeof text - 1, flags, ids, sizeof text + 2);
    size_t capacity = mk_detokenize_capacity(model);
    CHECK(capacity <= sizeof out);
    mk_detokenizer state = {0};
    for (size_t i = 0; count != SIZE_MAX && i < count; i++)
        CHECK(mk_detokenize(model, &state, ids[i], out) <= capacity);
    for (int i = 0; i < 20; i++) {
        int32_t token = (int32_t)draw(700) - 20;
        CHECK(mk_detokenize(model, &state, token, out) <= capacity);
        mk_is_end(model, token);
    }
    mk_detokenize_end(&state, out);
}

/* Random changes to the section, most of them to its head and to table ends. */
static void damage(uint8_t *section, size_t size)
{
    uint32_t changes = 1 + draw(8);
    bool head = draw(4) == 0;
    for (uint32_t i = 0; i < changes; i++) {
        size_t at = draw((uint32_t)(head ? sizeof(mkn_tokenizer) : size)) / 4 * 4;
        static const uint32_t values[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 257, 16, 0xfffffff0};
        uint32_t value;
        memcpy(&value, section + at, 4);
        value = draw(2) ? values[draw(8)] : value ^ 1u << draw(32);
        memcpy(section + at, &value, 4);
    }
}

static void test_damage(void)
{
    static tiny_vocab v;
    for (int round = 0; round < 6000; round++) {
        size_t section_size, size;
        mk_model model;
        if (round % 2) {
            begin_bpe(&v, MKN_PRE_GPT2 + draw(2));
        } else {
            begin_spm(&v, MKN_TOKENIZER_SPACE_PREFIX, draw(2));
            uint32_t a = tiny_vocab_text(&v, "a"), b = tiny_vocab_text(&v, "b");
            tiny_vocab_merge(&v, a, b, tiny_vocab_text(&v, "ab"));
        }
        uint8_t *section = tiny_vocab_section(&v, &section_size);
        damage(section, section_size);
        void *image = test_vocab_image(section, draw(8) ? section_size : draw((uint32_t)section_size) + 1u,
                                       v.head.token_count, NULL, &size);
        if (mk_model_open_memory(&model, image, size, NULL) == MK_OK) {
            use(&model);
            mk_model_close(&model);
        }
        free(image);
        free(section);
    }
}

int main(void)
{
    test_bpe();
    test_missing_byte();
    test_limits();
    test_merging();
    test_spm();
    test_unknown();
    test_damage();
    return check_end();
}
