#include "quant/read/reader.h"

#include <string.h>

#include "quant/read/fail.h"
#include "quant/read/gguf.h"
#include "quant/read/llama2c.h"

static mk_status open_gguf(source *s, const source_request *request, mk_error *err)
{
    s->format = "GGUF";
    if (request->tokenizer)
        return quant_fail(err, MK_ERR_ARGUMENT,
                          "%s: a GGUF file brings its own tokenizer; leave out --tokenizer", request->path);
    return gguf_read(&s->model, &s->file, request->path, request->vocab_only, &s->memory, err);
}

static mk_status open_llama2c(source *s, const source_request *request, mk_error *err)
{
    s->format = "llama2.c";
    mk_status status = llama2c_read(&s->model, &s->file, request->path, &s->memory, err);
    if (status)
        return status;
    if (request->vocab_only)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: --vocab-only needs a GGUF file", request->path);
    if (!request->tokenizer && request->inspect)
        return MK_OK;
    if (!request->tokenizer)
        return quant_fail(
            err, MK_ERR_ARGUMENT,
            "%s: a llama2.c model has no tokenizer inside; give its tokenizer file with --tokenizer FILE",
            request->path);
    status = source_map_open(&s->tokenizer, request->tokenizer, err);
    if (status)
        return status;
    return llama2c_read_tokenizer(&s->model, &s->tokenizer, request->tokenizer, &s->memory, err);
}

mk_status source_open(source *s, const source_request *request, mk_error *err)
{
    *s = (source){.path = request->path};
    mk_status status = source_map_open(&s->file, request->path, err);
    if (status)
        return status;
    bool is_gguf = s->file.size >= 4 && memcmp(s->file.data, "GGUF", 4) == 0;
    status = is_gguf ? open_gguf(s, request, err) : open_llama2c(s, request, err);
    if (status)
        source_close(s);
    return status;
}

void source_close(source *s)
{
    source_map_close(&s->file);
    source_map_close(&s->tokenizer);
    pool_free(&s->memory);
    *s = (source){0};
}
