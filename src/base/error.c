#include "base/error.h"

#include <errno.h>
#include <string.h>

const char *mk_status_text(mk_status status)
{
    switch (status) {
    case MK_OK:
        return "done";
    case MK_ERR_ARGUMENT:
        return "a parameter is out of its range";
    case MK_ERR_IO:
        return "the operating system refused";
    case MK_ERR_FORMAT:
        return "the image is damaged or no image";
    case MK_ERR_UNSUPPORTED:
        return "not supported by this build, CPU or model";
    case MK_ERR_MEMORY:
        return "the memory handed in is too small";
    case MK_ERR_CONTEXT_FULL:
        return "the context is full";
    }
    return "unknown status";
}

/* strerror would do, but it may allocate. */
static const struct {
    int number;
    const char *text;
} error_texts[] = {
    {EPERM, "not permitted"},
    {ENOENT, "no such file"},
    {EINTR, "interrupted"},
    {EIO, "input/output error"},
    {ENXIO, "no such device"},
    {EBADF, "not open"},
    {EAGAIN, "resource temporarily unavailable"},
    {ENOMEM, "out of memory"},
    {EACCES, "permission denied"},
    {EBUSY, "busy"},
    {EEXIST, "it exists already"},
    {ENODEV, "operation not supported by device"},
    {ENOTDIR, "not a directory"},
    {EISDIR, "is a directory"},
    {EINVAL, "invalid argument"},
    {ENFILE, "too many open files in the system"},
    {EMFILE, "too many open files"},
    {ETXTBSY, "text file busy"},
    {EFBIG, "file too large"},
    {ENOSPC, "no space left on the device"},
    {ESPIPE, "not seekable"},
    {EROFS, "read-only file system"},
    {EPIPE, "nobody reads it any more"},
    {ENAMETOOLONG, "name too long"},
    {ELOOP, "too many symbolic links"},
    {EOVERFLOW, "value too large"},
    {EDQUOT, "disk quota exceeded"},
    {ESTALE, "stale file handle"},
};

typedef struct writer {
    char *out;
    size_t capacity; /* without the terminator */
    size_t length;
    bool cut;
} writer;

static void put(writer *w, char c)
{
    if (w->length < w->capacity)
        w->out[w->length++] = c;
    else
        w->cut = true;
}

static void put_text(writer *w, const char *text)
{
    for (; *text; text++)
        put(w, *text);
}

static void put_foreign_text(writer *w, const char *text)
{
    for (; text && *text && !w->cut; text++)
        put(w, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void put_number(writer *w, uint64_t x)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = (char)('0' + x % 10);
        x /= 10;
    } while (x);
    while (count)
        put(w, digits[--count]);
}

static void put_signed(writer *w, int32_t x)
{
    if (x < 0)
        put(w, '-');
    put_number(w, x < 0 ? 0u - (uint32_t)x : (uint32_t)x);
}

static void put_hex(writer *w, uint64_t x)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        put(w, "0123456789abcdef"[x >> shift & 15]);
}

static void put_errno(writer *w, int number)
{
    for (size_t i = 0; i < sizeof error_texts / sizeof *error_texts; i++) {
        if (error_texts[i].number == number) {
            put_text(w, error_texts[i].text);
            return;
        }
    }
    put_text(w, "system error ");
    put_signed(w, number);
}

static void put_mebibytes(writer *w, uint64_t bytes)
{
    uint64_t whole = bytes >> 20;
    uint64_t tenths = ((bytes & 0xfffff) * 10 + 0x80000) >> 20;
    put_number(w, whole + tenths / 10);
    put(w, '.');
    put(w, (char)('0' + tenths % 10));
    put_text(w, " MiB");
}

/* Drops a UTF-8 sequence at the end that lost its tail. */
static void drop_partial_character(writer *w)
{
    size_t tail = 0;
    while (tail < 3 && tail < w->length && (w->out[w->length - 1 - tail] & 0xc0) == 0x80)
        tail++;
    if (tail == w->length)
        return;
    unsigned char lead = (unsigned char)w->out[w->length - 1 - tail];
    size_t wanted = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (wanted > tail)
        w->length -= tail + 1;
}

size_t mk_format_list(char *out, size_t capacity, const char *format, va_list arguments)
{
    if (capacity == 0)
        return 0;
    writer w = {out, capacity - 1, 0, false};
    for (const char *f = format; *f; f++) {
        if (*f != '%' || !f[1]) {
            put(&w, *f);
            continue;
        }
        switch (*++f) {
        case 's':
            put_foreign_text(&w, va_arg(arguments, const char *));
            break;
        case 'u':
            put_number(&w, va_arg(arguments, uint32_t));
            break;
        case 'U':
            put_number(&w, va_arg(arguments, uint64_t));
            break;
        case 'd':
            put_signed(&w, va_arg(arguments, int32_t));
            break;
        case 'x':
            put_hex(&w, va_arg(arguments, uint64_t));
            break;
        case 'e':
            put_errno(&w, va_arg(arguments, int));
            break;
        case 'M':
            put_mebibytes(&w, va_arg(arguments, uint64_t));
            break;
        default:
            if (*f != '%')
                put(&w, '%');
            put(&w, *f);
        }
    }
    if (w.cut)
        drop_partial_character(&w);
    out[w.length] = 0;
    return w.length;
}

size_t mk_format(char *out, size_t capacity, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t length = mk_format_list(out, capacity, format, arguments);
    va_end(arguments);
    return length;
}

mk_status mk_fail(mk_error *err, mk_status status, const char *format, ...)
{
    if (!err)
        return status;
    mk_error line;
    va_list arguments;
    va_start(arguments, format);
    size_t length = mk_format_list(line.text, sizeof line.text, format, arguments);
    va_end(arguments);
    memcpy(err->text, line.text, length + 1);
    return status;
}
