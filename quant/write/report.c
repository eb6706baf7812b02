#define _GNU_SOURCE /* isatty */
#include "quant/write/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "quant/read/dequantize.h"
#include "quant/read/fail.h"

static const char *type_name(uint32_t type)
{
    return type == MKN_Q4 ? "q4" : type == MKN_Q8 ? "q8" : type == MKN_I8 ? "i8" : "f32";
}

static bool is_matrix(const planned_tensor *t)
{
    return t->record.type == MKN_Q4 || t->record.type == MKN_Q8;
}

void report_clear(const report *r)
{
    if (r->terminal)
        fputs("\r\033[K", stderr);
}

void report_begin(report *r, const image_plan *plan)
{
    *r = (report){.terminal = isatty(STDERR_FILENO) == 1};
    for (uint32_t i = 0; i < plan->tensor_count; i++)
        r->total += (uint64_t)plan->tensors[i].record.rows * plan->tensors[i].record.cols;
    if (plan->tensor_count)
        printf("%-28s %-16s %-15s %-6s %-4s %6s %8s\n", "tensor", "role", "shape", "source", "type", "bits",
               "SNR dB");
}

void report_progress(report *r, const char *what)
{
    if (!r->terminal)
        return;
    unsigned percent = r->total ? (unsigned)(r->done * 100 / r->total) : 100;
    fprintf(stderr, "\r\033[K%3u %% %s", percent, what);
    fflush(stderr);
}

static void print_error(const encode_error *e)
{
    if (e->noise > 0 && e->signal > 0)
        printf(" %8.2f\n", 10 * log10(e->signal / e->noise));
    else
        printf(" %8s\n", "exact");
}

void report_tensor(report *r, const planned_tensor *t, const encode_error *error)
{
    char name[QUANT_NAME], shape[32];
    uint64_t weights = (uint64_t)t->record.rows * t->record.cols,
             bytes = t->record.size + t->record.scales_size;
    report_clear(r);
    snprintf(shape, sizeof shape, "%u x %u", t->record.rows, t->record.cols);
    printf("%-28s %-16s %-15s %-6s %-4s %6.2f", t->source ? quant_name(t->source->name, name) : "-",
           plan_role_name(t->record.role), shape, t->source ? source_type_about(t->source->type)->name : "-",
           type_name(t->record.type), 8 * (double)bytes / (double)weights);
    r->done += weights;
    if (is_matrix(t)) {
        print_error(error);
        r->weights += weights;
        r->bytes += bytes;
        r->error.signal += error->signal;
        r->error.noise += error->noise;
    } else {
        printf(" %8s\n", "exact");
        r->other_bytes += bytes;
    }
    fflush(stdout);
}

void report_end(report *r, const image_plan *plan, uint64_t file_size)
{
    report_clear(r);
    if (plan->tensor_count == 0) {
        printf("total: %u tokens, image %.1f MiB\n", plan->model->vocabulary, (double)file_size / 1048576);
        return;
    }
    printf("total: %llu weights in %.1f MiB, %.2f bits per weight, SNR", (unsigned long long)r->weights,
           (double)r->bytes / 1048576, r->weights ? 8 * (double)r->bytes / (double)r->weights : 0);
    if (r->error.noise > 0)
        printf(" %.2f dB", 10 * log10(r->error.signal / r->error.noise));
    else
        printf(" exact");
    printf("; vectors and tables %.1f KiB; image %.1f MiB\n", (double)r->other_bytes / 1024,
           (double)file_size / 1048576);
}
