/* reader.h - opens a source of any supported format. */
#ifndef MK_QUANT_READER_H
#define MK_QUANT_READER_H

#include "makarna.h"
#include "quant/read/map.h"
#include "quant/read/pool.h"
#include "quant/read/source.h"

typedef struct source {
    source_model model;
    source_map file, tokenizer; /* tokenizer: only if it is a file of its own */
    const char *path;
    const char *format; /* "GGUF", "llama2.c" */
    pool memory;
} source;

typedef struct source_request {
    const char *path;
    const char *tokenizer; /* NULL: none given */
    bool vocab_only;
    bool inspect; /* a llama2.c model may come without its tokenizer */
} source_request;

/* On failure there is nothing to close. */
mk_status source_open(source *s, const source_request *request, mk_error *err);

void source_close(source *s);

#endif
