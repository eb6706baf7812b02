#include "config/option.h"

#include <string.h>

#include "base/error.h"

static bool parse_digits(const char **text, uint64_t *value)
{
    const char *p = *text;
    uint64_t x = 0;
    if (*p < '0' || *p > '9')
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(x, (uint64_t)10, &x) || __builtin_add_overflow(x, (uint64_t)(*p - '0'), &x))
            return false;
    }
    *text = p;
    *value = x;
    return true;
}

static bool parse_whole(const char *text, uint64_t *value)
{
    return parse_digits(&text, value) && !*text;
}

/* Digits and a suffix in powers of 1024: K, M, G, also as KiB. */
static bool parse_size(const char *text, uint64_t *value)
{
    if (!parse_digits(&text, value))
        return false;
    int shift = 0;
    if (*text == 'K' || *text == 'k')
        shift = 10;
    else if (*text == 'M' || *text == 'm')
        shift = 20;
    else if (*text == 'G' || *text == 'g')
        shift = 30;
    if (shift) {
        text++;
        if (strcmp(text, "iB") == 0)
            text += 2;
    }
    if (*text || *value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    return true;
}

/* Decimal digits with at most one point and 15 digits, so that numerator and denominator are exact in
 * double and every machine reads the same value (strtod would also follow the locale). */
static bool parse_real(const char *text, double *value)
{
    uint64_t numerator = 0;
    double denominator = 1;
    int digits = 0;
    bool point = false;
    for (; *text; text++) {
        if (*text == '.' && !point) {
            point = true;
            continue;
        }
        if (*text < '0' || *text > '9' || ++digits > 15)
            return false;
        numerator = numerator * 10 + (uint64_t)(*text - '0');
        if (point)
            denominator *= 10;
    }
    *value = (double)numerator / denominator;
    return digits > 0;
}

/* Index of `value` among words separated by '|', or -1. */
static int find_word(const char *words, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0;; index++) {
        size_t word = strcspn(words, "|");
        if (word == length && memcmp(words, value, length) == 0)
            return index;
        if (!words[word])
            return -1;
        words += word + 1;
    }
}

static bool parse_flag(const char *text, bool *value)
{
    int word = find_word("false|true|no|yes|off|on", text);
    *value = word & 1;
    return word >= 0;
}

static bool parse_number(const mk_option *option, const char *text, uint64_t *value)
{
    if (option->words && strcmp(text, option->words) == 0) {
        *value = option->word_value;
        return true;
    }
    bool read = option->kind == MK_OPTION_SIZE ? parse_size(text, value) : parse_whole(text, value);
    return read && *value >= option->min && *value <= option->max;
}

static void store(void *target, size_t offset, const void *value, size_t size)
{
    if (target)
        memcpy((char *)target + offset, value, size);
}

bool mk_option_set(const mk_option *option, const char *value, void *target)
{
    uint64_t number = 0;
    switch (option->kind) {
    case MK_OPTION_PATH:
        if (!*value)
            return false;
        store(target, option->offset, &value, sizeof value);
        return true;
    case MK_OPTION_TEXT:
        store(target, option->offset, &value, sizeof value);
        return true;
    case MK_OPTION_NUMBER:
    case MK_OPTION_SIZE:
        if (!parse_number(option, value, &number))
            return false;
        store(target, option->offset, &number, sizeof number);
        return true;
    case MK_OPTION_COUNT:
        if (!parse_number(option, value, &number))
            return false;
        uint32_t count = (uint32_t)number;
        store(target, option->offset, &count, sizeof count);
        return true;
    case MK_OPTION_CHOICE: {
        int word = find_word(option->words, value);
        if (word < 0)
            return false;
        uint32_t choice = (uint32_t)word;
        store(target, option->offset, &choice, sizeof choice);
        return true;
    }
    case MK_OPTION_REAL: {
        double real;
        if (!parse_real(value, &real) || real * 1000 < (double)option->min || real * 1000 > (double)option->max)
            return false;
        float rounded = (float)real;
        store(target, option->offset, &rounded, sizeof rounded);
        return true;
    }
    case MK_OPTION_FLAG: {
        bool flag;
        if (!parse_flag(value, &flag))
            return false;
        store(target, option->offset, &flag, sizeof flag);
        return true;
    }
    }
    return false;
}

/* A limit in thousandths as a decimal number without needless zeros. */
static void real_limit(char out[32], uint64_t thousandths)
{
    size_t length = mk_format(out, 32, "%U", thousandths / 1000);
    uint64_t rest = thousandths % 1000;
    if (rest)
        out[length++] = '.';
    for (uint64_t unit = 100; rest; rest %= unit, unit /= 10)
        out[length++] = (char)('0' + rest / unit);
    out[length] = 0;
}

static void words_in_prose(char *out, size_t capacity, const char *words)
{
    size_t length = 0;
    while (*words && length + 1 < capacity) {
        if (*words != '|') {
            out[length++] = *words++;
            continue;
        }
        words++;
        length += mk_format(out + length, capacity - length, strchr(words, '|') ? ", " : " or ");
    }
    out[length] = 0;
}

void mk_option_expected(const mk_option *option, char *out, size_t capacity)
{
    char low[32], high[32];
    switch (option->kind) {
    case MK_OPTION_TEXT:
        mk_format(out, capacity, "a text");
        return;
    case MK_OPTION_PATH:
        mk_format(out, capacity, "the path of a file");
        return;
    case MK_OPTION_COUNT:
    case MK_OPTION_NUMBER:
        mk_format(out, capacity,
                  option->words ? "a whole number from %U to %U, or %s" : "a whole number from %U to %U",
                  option->min, option->max, option->words);
        return;
    case MK_OPTION_SIZE:
        mk_format(out, capacity, "a number of bytes like 512M or 1G");
        return;
    case MK_OPTION_REAL:
        real_limit(low, option->min);
        real_limit(high, option->max);
        mk_format(out, capacity, "a number from %s to %s", low, high);
        return;
    case MK_OPTION_CHOICE:
        words_in_prose(out, capacity, option->words);
        return;
    case MK_OPTION_FLAG:
        mk_format(out, capacity, "true or false");
        return;
    }
    mk_format(out, capacity, "something else");
}
