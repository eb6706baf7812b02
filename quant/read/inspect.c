#include "quant/read/inspect.h"

#include <stdio.h>

#include "quant/read/dequantize.h"
#include "quant/read/fail.h"

static void print_model(const source_model *m)
{
    char name[QUANT_NAME];
    if (m->name.length)
        printf("name            %s\n", quant_name(m->name, name));
    if (m->license.length)
        printf("license         %s\n", quant_name(m->license, name));
    if (m->architecture.length == 0)
        return;
    printf("architecture    %s\n", quant_name(m->architecture, name));
    printf("layers          %u\n", m->layers);
    printf("heads           %u of %u, %u for keys and values\n", m->heads, m->head_size, m->kv_heads);
    printf("hidden          %u\n", m->hidden);
    printf("intermediate    %u\n", m->intermediate);
    printf("vocabulary      %u\n", m->vocabulary);
    printf("context         %u\n", m->context);
    printf("norm epsilon    %g\n", (double)m->norm_epsilon);
    printf("rope            base %g, %u values of a head, %s\n", (double)m->rope_base, m->rope_dims,
           m->rope_neighbours ? "pairs of neighbours" : "pairs of halves");
}

static void print_id(const char *label, const source_vocab *v, int32_t id)
{
    char name[QUANT_NAME];
    if (id >= 0)
        printf(" %s %d %s", label, (int)id, quant_name(v->tokens[id], name));
}

static void print_vocab(const source_vocab *v)
{
    char name[QUANT_NAME];
    if (v->kind == SOURCE_VOCAB_NONE) {
        printf("tokenizer       in a file of its own (--tokenizer)\n");
        return;
    }
    printf("tokenizer       %s, %u tokens",
           v->kind == SOURCE_VOCAB_BPE ? "byte-level BPE" : "SentencePiece BPE", v->count);
    if (v->kind == SOURCE_VOCAB_BPE)
        printf(", %u merges, pre-tokenizer %s", v->merge_count,
               v->pre.length ? quant_name(v->pre, name) : "not named");
    printf("\nspecial tokens ");
    print_id("bos", v, v->bos);
    print_id("eos", v, v->eos);
    print_id("eot", v, v->eot);
    print_id("unknown", v, v->unknown);
    print_id("padding", v, v->padding);
    printf("\ntext            %s bos, %s eos, %s space in front\n", v->add_bos ? "with" : "no",
           v->add_eos ? "with" : "no", v->add_space_prefix ? "with" : "no");
    printf("chat template   ");
    if (v->chat_template.length)
        printf("%zu bytes\n", v->chat_template.length);
    else
        printf("none\n");
}

static void print_tensors(const source_model *m)
{
    char name[QUANT_NAME], shape[48];
    uint64_t weights = 0, bytes = 0;
    printf("%-28s %-15s %s\n", "tensor", "shape", "type");
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const source_tensor *t = &m->tensors[i];
        snprintf(shape, sizeof shape, "%llu x %llu", (unsigned long long)t->rows, (unsigned long long)t->cols);
        printf("%-28s %-15s %s\n", quant_name(t->name, name), shape, source_type_about(t->type)->name);
        weights += t->rows * t->cols;
        bytes += t->rows * t->row_bytes;
        if (t->group_scales)
            bytes += t->rows * t->cols / t->group_size * 4;
    }
    printf("total           %u tensors, %llu weights, %.1f MiB, %.2f bits per weight\n", m->tensor_count,
           (unsigned long long)weights, (double)bytes / 1048576,
           weights ? 8 * (double)bytes / (double)weights : 0.0);
}

void inspect_source(const source *s)
{
    printf("file            %s, %s, %llu bytes\n", s->path, s->format, (unsigned long long)s->file.size);
    print_model(&s->model);
    print_vocab(&s->model.vocab);
    if (s->model.tensor_count)
        print_tensors(&s->model);
}
