/* quantize.h - a source into an image, from end to end. */
#ifndef MK_QUANT_QUANTIZE_H
#define MK_QUANT_QUANTIZE_H

#include "quant/convert/plan.h"
#include "quant/read/reader.h"

typedef struct quantize_options {
    const char *output;
    plan_types types;
    bool vocab_only;
    const char *chat_format; /* NULL: by the source's template */
    uint32_t threads;
} quantize_options;

/* Prints a line per tensor to stdout and notices to stderr. */
mk_status quantize(source *s, const quantize_options *options, mk_error *err);

#endif
