#include "quant/read/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mk_status quant_fail(mk_error *err, mk_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return status;
}

const char *quant_name(source_string name, char out[QUANT_NAME])
{
    size_t length = name.length;
    bool cut = length > QUANT_NAME - 1;
    if (cut)
        length = QUANT_NAME - 4;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name.text[i];
        out[i] = c >= 32 && c < 127 ? (char)c : '?';
    }
    strcpy(out + length, cut ? "..." : "");
    return out;
}

bool source_is(source_string s, const char *text)
{
    size_t length = strlen(text);
    return s.length == length && (length == 0 || memcmp(s.text, text, length) == 0);
}

source_string source_text(const char *terminated)
{
    return (source_string){terminated, strlen(terminated)};
}
