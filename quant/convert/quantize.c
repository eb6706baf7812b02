#include "quant/convert/quantize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "quant/convert/chat_format.h"
#include "quant/convert/rope.h"
#include "quant/convert/sample.h"
#include "quant/convert/tensor.h"
#include "quant/convert/tokenizer.h"
#include "quant/encode/learn.h"
#include "quant/read/fail.h"
#include "quant/write/report.h"
#include "quant/write/texts.h"

enum { SAMPLE_BLOCKS = 1 << 17, LEARN_ROUNDS = 16 };

/* All that an image is made of besides its tensors' data. */
typedef struct image_parts {
    image_plan plan;
    mkn_tensor *directory;
    mkn_layer *layers;
    uint8_t *tokenizer;
    size_t tokenizer_size;
    texts strings, provenance;
    codebook *book;
} image_parts;

static void parts_free(image_parts *p)
{
    free(p->directory);
    free(p->layers);
    free(p->tokenizer);
    texts_free(&p->strings);
    texts_free(&p->provenance);
    codebook_free(p->book);
}

/* ---- Texts ------------------------------------------------------------------------------------ */

static source_string base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return source_text(slash ? slash + 1 : path);
}

static uint32_t add_text(texts *t, const char *text)
{
    return text ? texts_add(t, source_text(text)) : 0;
}

static mk_status make_strings(image_parts *p, const source *s, const char *requested, mk_error *err)
{
    chat_format chat;
    char message[sizeof err->text] = "";
    mkn_strings record = {0};
    chat_result found = convert_chat_format(&s->model.vocab, requested, &chat, message, sizeof message);
    if (found == CHAT_FAILED)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: %s", s->path, message);
    if (message[0])
        fprintf(stderr, "makarna-quant: note: %s: %s\n", s->path, message);
    texts *t = &p->strings;
    texts_begin(t, sizeof record);
    record.name = texts_add(t, s->model.name);
    record.license = texts_add(t, s->model.license);
    record.source = texts_add(t, base_name(s->path));
    if (found == CHAT_FOUND) {
        record.chat_format = add_text(t, chat.name);
        record.system_prefix = add_text(t, chat.system_prefix);
        record.system_suffix = add_text(t, chat.system_suffix);
        record.user_prefix = add_text(t, chat.user_prefix);
        record.user_suffix = add_text(t, chat.user_suffix);
        record.assistant_prefix = add_text(t, chat.assistant_prefix);
        record.assistant_suffix = add_text(t, chat.assistant_suffix);
        record.default_system = add_text(t, chat.default_system);
    }
    if (!t->data)
        return quant_fail(err, MK_ERR_MEMORY, "out of memory");
    memcpy(t->data, &record, sizeof record);
    return MK_OK;
}

static const char *type_option(uint32_t type)
{
    return type == MKN_Q4 ? "q4" : "q8";
}

/* The options that shaped the image, in one spelling; no paths and no thread count. */
static mk_status make_provenance(image_parts *p, const source *s, const quantize_options *o, mk_error *err)
{
    char options[128];
    mkn_provenance record = {.source_checksum = source_map_checksum(&s->file)};
    if (o->vocab_only)
        snprintf(options, sizeof options, "--vocab-only");
    else if (p->plan.flags & MKN_TIED)
        snprintf(options, sizeof options, "--type %s --embedding %s", type_option(o->types.layers),
                 type_option(o->types.embedding));
    else
        snprintf(options, sizeof options, "--type %s --embedding %s --head %s", type_option(o->types.layers),
                 type_option(o->types.embedding), type_option(o->types.head));
    if (o->chat_format)
        snprintf(options + strlen(options), sizeof options - strlen(options), " --chat-format %.32s",
                 o->chat_format);
    texts_begin(&p->provenance, sizeof record);
    record.quantizer = add_text(&p->provenance, "makarna-quant " MK_VERSION);
    record.options = add_text(&p->provenance, options);
    if (!p->provenance.data)
        return quant_fail(err, MK_ERR_MEMORY, "out of memory");
    memcpy(p->provenance.data, &record, sizeof record);
    return MK_OK;
}

/* ---- Parts ------------------------------------------------------------------------------------ */

static mk_status make_tokenizer(image_parts *p, const source *s, mk_error *err)
{
    char message[sizeof err->text];
    if (convert_tokenizer(&s->model.vocab, &p->tokenizer, &p->tokenizer_size, message, sizeof message))
        return MK_OK;
    return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: %s", s->path, message);
}

static mk_status make_parts(image_parts *p, source *s, const quantize_options *o, mk_error *err)
{
    mk_status status = MK_OK;
    if (!o->vocab_only)
        status = plan_image(&p->plan, &s->model, &o->types, s->path, &s->memory, err);
    else
        p->plan = (image_plan){.model = &s->model, .flags = MKN_VOCAB_ONLY};
    if (status || (status = make_tokenizer(p, s, err)) || (status = make_strings(p, s, o->chat_format, err)) ||
        (status = make_provenance(p, s, o, err)))
        return status;
    p->directory = calloc((size_t)p->plan.tensor_count + 1, sizeof *p->directory);
    p->layers = calloc((size_t)s->model.layers + 1, sizeof *p->layers); /* no windows, rope set 0 */
    if (!p->directory || !p->layers)
        return quant_fail(err, MK_ERR_MEMORY, "out of memory");
    return MK_OK;
}

static bool needs_tables(const image_plan *plan)
{
    return plan->tensor_count > 0 && plan->tensors[0].record.role == MKN_Q4_TABLES;
}

static mk_status make_tables(image_parts *p, const source *s, uint32_t threads, report *r, mk_error *err)
{
    block_sample sample;
    int8_t tables[MKN_TABLES][MKN_LEVELS];
    if (!needs_tables(&p->plan))
        return MK_OK;
    report_progress(r, "learning the q4 tables");
    mk_status status = sample_blocks(&p->plan, &s->file, SAMPLE_BLOCKS, &sample, err);
    if (status)
        return status;
    learn_start(tables);
    p->book = codebook_create((const int8_t(*)[MKN_LEVELS])tables);
    bool learned = p->book && learn_tables(p->book, &sample, LEARN_ROUNDS, threads);
    sample_free(&sample);
    return learned ? MK_OK : quant_fail(err, MK_ERR_MEMORY, "out of memory for the q4 tables");
}

/* ---- Writing ---------------------------------------------------------------------------------- */

static void fill_header(mkn_header *h, const image_plan *plan)
{
    const source_model *m = plan->model;
    h->vocabulary = m->vocabulary;
    h->flags = plan->flags;
    if (plan->flags & MKN_VOCAB_ONLY)
        return;
    h->layers = m->layers;
    h->heads = m->heads;
    h->kv_heads = m->kv_heads;
    h->head_size = m->head_size;
    h->hidden = m->hidden;
    h->intermediate = m->intermediate;
    h->context = m->context;
    h->norm_epsilon = m->norm_epsilon;
    h->rope_base = m->rope_base;
    h->rope_dims = m->rope_dims;
    h->tensor_count = plan->tensor_count;
}

static mk_status begin_image(image_writer *w, output_file *file, image_parts *p, mk_error *err)
{
    const image_plan *plan = &p->plan;
    bool whole = !(plan->flags & MKN_VOCAB_ONLY);
    uint64_t directory_size = plan->tensor_count * sizeof *p->directory;
    uint64_t layers_size = whole ? plan->model->layers * sizeof *p->layers : 0;
    uint64_t data =
        mk_align_up(mk_align_up(sizeof(mkn_header) + directory_size, MKN_ALIGN) + layers_size, MKN_ALIGN);
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        p->directory[i] = plan->tensors[i].record;
        p->directory[i].offset += data;
        if (p->directory[i].scales_size)
            p->directory[i].scales_offset += data;
    }
    const section_content sections[MKN_SECTIONS] = {
        [MKN_DIRECTORY] = {whole ? p->directory : NULL, directory_size},
        [MKN_LAYERS] = {whole ? p->layers : NULL, layers_size},
        [MKN_DATA] = {NULL, plan->data_size},
        [MKN_TOKENIZER] = {p->tokenizer, p->tokenizer_size},
        [MKN_STRINGS] = {p->strings.data, p->strings.size},
        [MKN_PROVENANCE] = {p->provenance.data, p->provenance.size},
    };
    fill_header(&w->header, plan);
    return image_begin(w, file, sections, err);
}

/* Tables and frequencies, which no source holds. */
static mk_status write_made(const image_writer *w, const planned_tensor *t, const image_parts *p, mk_error *err)
{
    float frequencies[MKN_MAX_HEAD_SIZE / 2];
    if (t->record.role == MKN_Q4_TABLES)
        return image_write_data(w, t->record.offset, codebook_table(p->book, 0), MKN_TABLES * MKN_LEVELS, err);
    rope_frequencies(p->plan.model->rope_base, p->plan.model->rope_dims, frequencies);
    return image_write_data(w, t->record.offset, frequencies, (size_t)t->record.size, err);
}

static mk_status write_tensors(const image_writer *w, const source *s, const image_parts *p, uint32_t threads,
                               report *r, mk_error *err)
{
    tensor_job job = {
        .model = &s->model, .map = &s->file, .path = s->path, .book = p->book, .writer = w, .threads = threads};
    mk_status status = MK_OK;
    for (uint32_t i = 0; !status && i < p->plan.tensor_count; i++) {
        const planned_tensor *t = &p->plan.tensors[i];
        encode_error error = {0};
        char name[QUANT_NAME];
        report_progress(r, t->source ? quant_name(t->source->name, name) : "");
        status = t->source ? convert_tensor(&job, t, &error, err) : write_made(w, t, p, err);
        if (!status)
            report_tensor(r, t, &error);
    }
    return status;
}

static mk_status write_image(output_file *file, source *s, const quantize_options *o, image_parts *p,
                             mk_error *err)
{
    image_writer w = {0};
    report r;
    report_begin(&r, &p->plan);
    mk_status status = begin_image(&w, file, p, err);
    if (status || (status = make_tables(p, s, o->threads, &r, err)) ||
        (status = write_tensors(&w, s, p, o->threads, &r, err))) {
        report_clear(&r);
        return status;
    }
    report_progress(&r, "checksums");
    status = image_finish(&w, err);
    report_clear(&r);
    if (!status)
        report_end(&r, &p->plan, w.header.file_size);
    return status;
}

mk_status quantize(source *s, const quantize_options *o, mk_error *err)
{
    const source_map *const inputs[] = {&s->file, &s->tokenizer};
    image_parts parts = {0};
    output_file file;
    mk_status status = make_parts(&parts, s, o, err);
    if (!status)
        status = output_file_create(&file, o->output, inputs, sizeof inputs / sizeof inputs[0], err);
    if (!status) {
        status = write_image(&file, s, o, &parts, err);
        if (!status)
            status = output_file_commit(&file, err);
        else
            output_file_abort(&file);
    }
    parts_free(&parts);
    return status;
}
