/* error.h - text without stdio: filling an mk_error, and formatting in general. */
#ifndef MK_BASE_ERROR_H
#define MK_BASE_ERROR_H

#include <stdarg.h>

#include "makarna.h"

/* Writes a formatted line into err (which may be NULL) and returns `status`. Knows %s (a string; control
 * characters in it become '?', NULL is empty), %u (uint32_t), %U (uint64_t), %d (int32_t), %x (uint64_t,
 * 16 hex digits), %e (an errno value, as text for the common ones), %M (uint64_t bytes as "12.3 MiB") and
 * %%; anything else is copied. A text that is too long is cut between two characters. The arguments may
 * point into err itself. */
mk_status mk_fail(mk_error *err, mk_status status, const char *format, ...);

/* The same into any buffer, always terminated where capacity is not 0; returns the length. The arguments
 * must not point into `out`. */
size_t mk_format(char *out, size_t capacity, const char *format, ...);
size_t mk_format_list(char *out, size_t capacity, const char *format, va_list arguments);

#endif
