/* fail.h - error messages of the quantizer, and the printing of names that come from a file. */
#ifndef MK_QUANT_FAIL_H
#define MK_QUANT_FAIL_H

#include "makarna.h"
#include "quant/read/source.h"

/* Writes a printf-style line into err and returns `status`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
mk_status
quant_fail(mk_error *err, mk_status status, const char *format, ...);

/* A name from a file as a terminated text that is safe to print: bytes that are not printable become
 * '?', and what is too long is cut. Valid until `out` is reused. */
enum { QUANT_NAME = 96 };
const char *quant_name(source_string name, char out[QUANT_NAME]);

bool source_is(source_string s, const char *text);

source_string source_text(const char *terminated);

#endif
