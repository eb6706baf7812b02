#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "text/utf8.h"

static char buffer[4096];
static size_t buffered;
static bool broken; /* standard output failed */

bool cli_write(int fd, const void *data, size_t size)
{
    const char *p = data;
    while (size) {
        ssize_t written = write(fd, p, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN) { /* somebody else made it non-blocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (written < 0)
            return false;
        p += written;
        size -= (size_t)written;
    }
    return true;
}

static void write_line(const char *prefix, const char *format, va_list arguments)
{
    char line[1024];
    size_t length = mk_format(line, sizeof line - 1, "%s", prefix);
    length += mk_format_list(line + length, sizeof line - 1 - length, format, arguments);
    line[length++] = '\n';
    cli_write(STDERR_FILENO, line, length);
}

void cli_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line("", format, arguments);
    va_end(arguments);
}

int cli_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line("makarna: ", format, arguments);
    va_end(arguments);
    return CLI_FAILED;
}

static bool write_output(const void *data, size_t size)
{
    if (!broken && !cli_write(STDOUT_FILENO, data, size)) {
        broken = true;
        if (errno != EPIPE)
            cli_error("cannot write to standard output: %e", errno);
    }
    return !broken;
}

bool cli_flush(void)
{
    size_t size = buffered;
    buffered = 0;
    return size ? write_output(buffer, size) : !broken;
}

bool cli_put(const void *data, size_t size)
{
    if (size > sizeof buffer - buffered && !cli_flush())
        return false;
    if (size > sizeof buffer)
        return write_output(data, size);
    memcpy(buffer + buffered, data, size);
    buffered += size;
    return !broken;
}

bool cli_say(const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    size_t length = mk_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    return cli_put(text, length);
}

int cli_finish(int status)
{
    return cli_flush() ? status : CLI_FAILED;
}

const char *cli_fixed(char out[32], double value, int decimals)
{
    double unit = 1;
    for (int i = 0; i < decimals; i++)
        unit *= 10;
    if (!(value >= 0 && value * unit < 9e18)) {
        mk_format(out, 32, value < 0 ? "negative" : value > 0 ? "inf" : "nan");
        return out;
    }
    uint64_t scaled = (uint64_t)(value * unit + 0.5), whole = (uint64_t)unit;
    size_t length = mk_format(out, 32, decimals ? "%U." : "%U", scaled / whole);
    for (uint64_t rest = scaled % whole; decimals-- > 0; rest %= whole) {
        whole /= 10;
        out[length++] = (char)('0' + rest / whole);
    }
    out[length] = 0;
    return out;
}

size_t cli_character(const char *text, size_t size)
{
    uint32_t code, length = mk_utf8_decode((const uint8_t *)text, size, &code);
    return code == MK_UTF8_INVALID ? 0 : length;
}

void cli_put_escaped(const char *text, size_t size)
{
    static const char plain[] = "\n\t\r\\\"", letters[] = "ntr\\\"";
    for (size_t i = 0; i < size;) {
        const unsigned char *at = (const unsigned char *)text + i;
        const char *known = *at ? strchr(plain, *at) : NULL;
        size_t length = cli_character(text + i, size - i);
        bool control = *at < 0x20 || *at == 0x7f || (length == 2 && at[0] == 0xc2 && at[1] < 0xa0);
        if (known) {
            cli_put((char[]){'\\', letters[known - plain]}, 2);
        } else if (control || !length) {
            length = 1;
            cli_put((char[]){'\\', 'x', "0123456789abcdef"[*at >> 4], "0123456789abcdef"[*at & 15]}, 4);
        } else {
            cli_put(at, length);
        }
        i += length;
    }
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double age_begin; /* 0: the clock has not started */

double cli_age(void)
{
    if (age_begin == 0)
        age_begin = cli_now();
    return cli_now() - age_begin;
}

void cli_deduct(double seconds)
{
    age_begin += seconds;
}
