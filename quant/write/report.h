/* report.h - what the user sees: a line per tensor on stdout, progress on stderr if that is a terminal. */
#ifndef MK_QUANT_REPORT_H
#define MK_QUANT_REPORT_H

#include "quant/convert/plan.h"
#include "quant/encode/encode.h"

typedef struct report {
    bool terminal;           /* stderr is one */
    uint64_t weights, bytes; /* of the matrices so far */
    uint64_t other_bytes;    /* of vectors and tables */
    encode_error error;
    uint64_t done, total; /* weights, for the progress line */
} report;

void report_begin(report *r, const image_plan *plan);

/* One more tensor is done. */
void report_tensor(report *r, const planned_tensor *t, const encode_error *error);

/* `what` is going on now. */
void report_progress(report *r, const char *what);

/* Takes the progress line away, before other text goes to stderr. */
void report_clear(const report *r);

void report_end(report *r, const image_plan *plan, uint64_t file_size);

#endif
