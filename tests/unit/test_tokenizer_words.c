/* Pre-tokenizers: the class of every code point, and the words of the golden texts. */
#include "check.h"
#include "golden/golden_text.h"
#include "text/pre_tokenizer.h"

static size_t put_utf8(uint32_t code, uint8_t *out)
{
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)((0xF00u >> size) | code);
    return size;
}

/* Whether a character forms one word with the one before it. */
static bool joins(char before, const uint8_t *character, size_t size)
{
    uint8_t text[8] = {(uint8_t)before};
    size_t begin, end;
    memcpy(text + 1, character, size);
    mk_scanner s = mk_scanner_begin(MKN_PRE_GPT2, text, size + 1);
    return mk_scanner_next(&s, &begin, &end) && begin == 0 && end == size + 1;
}

/* Each code point goes on a word of exactly one class. The counts are those of UnicodeData.txt 15.0: general
 * categories L* and N*, and the property White_Space. */
static void test_classes(void)
{
    unsigned letters = 0, numbers = 0, spaces = 0, others = 0;
    for (uint32_t code = 0; code < 0x110000; code++) {
        uint8_t character[4];
        if (code >= 0xD800 && code < 0xE000)
            continue;
        size_t size = put_utf8(code, character);
        bool letter = joins('a', character, size), number = joins('1', character, size);
        bool other = joins('!', character, size), space = joins('\n', character, size);
        CHECK_MSG(letter + number + other + space == 1, "U+%04X: letter %d number %d other %d space %d", code,
                  letter, number, other, space);
        letters += letter;
        numbers += number;
        others += other;
        spaces += space;
    }
    CHECK_MSG(letters == 136104 && numbers == 1831 && spaces == 25, "%u letters, %u numbers, %u spaces",
              letters, numbers, spaces);
    CHECK(letters + numbers + spaces + others == 0x110000 - 0x800);
}

static void check_words(const char *line)
{
    static char text[GOLDEN_LINE], word[GOLDEN_LINE];
    static size_t ends[GOLDEN_LINE];
    enum mkn_pre_tokenizer rule = strncmp(line, "gpt2\t", 5) == 0 ? MKN_PRE_GPT2 : MKN_PRE_SMOLLM;
    size_t size = 0, words = 0, begin, end, at = 0, i = 0;
    for (const char *p = strchr(line, '\t'); p; p = strchr(p + 1, '\t')) {
        size_t length = strcspn(p + 1, "\t");
        memcpy(word, p + 1, length);
        word[length] = 0;
        length = golden_unescape(word);
        memcpy(text + size, word, length);
        ends[words++] = size += length;
    }
    uint8_t *exact = malloc(size);
    memcpy(exact, text, size);
    mk_scanner s = mk_scanner_begin(rule, exact, size);
    for (; mk_scanner_next(&s, &begin, &end); at = end, i++)
        CHECK_MSG(begin == at && i < words && end == ends[i], "%s: word %zu ends at %zu", line, i, end);
    CHECK_MSG(i == words && at == size, "%s: %zu words", line, i);
    free(exact);
}

/* Any bytes: words are not empty and leave nothing out. */
static void test_any_bytes(void)
{
    static const char alphabet[] = "a1 '!s\n\xc3\xa9\xe2\x96\x81\xf0\x9f\xff";
    uint32_t state = 7;
    for (int round = 0; round < 20000; round++) {
        uint8_t text[12];
        size_t size = 1 + (size_t)round % sizeof text, begin, end, at = 0;
        for (size_t i = 0; i < size; i++) {
            state = state * 1664525u + 1013904223u;
            text[i] = (uint8_t)alphabet[(state >> 8) % (sizeof alphabet - 1)];
        }
        mk_scanner s = mk_scanner_begin(round % 3 ? MKN_PRE_SMOLLM : MKN_PRE_GPT2, text, size);
        for (; mk_scanner_next(&s, &begin, &end); at = end)
            if (begin != at || end <= begin || end > size)
                break;
        CHECK(at == size);
    }
}

int main(void)
{
    static char line[GOLDEN_LINE];
    unsigned long lines = 0;
    test_classes();
    test_any_bytes();
    FILE *file = golden_open(MK_TEST_DATA "/golden/token_words.txt");
    for (; golden_line(file, line); lines++)
        check_words(line);
    fclose(file);
    CHECK(lines >= 800);
    return check_end();
}
