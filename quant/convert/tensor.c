#include "quant/convert/tensor.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "quant/encode/hadamard.h"
#include "quant/encode/parallel.h"
#include "quant/read/dequantize.h"
#include "quant/read/fail.h"

enum { BAND_WEIGHTS = 1 << 16 };

/* A matrix while it is converted. Every band leaves its own figures, which are added up in order, so that
 * the sums do not depend on which thread came first. */
typedef struct matrix_job {
    const tensor_job *job;
    const planned_tensor *tensor;
    uint32_t groups, band_groups, bands;
    uint64_t codes_bytes, scales_bytes; /* of a group */
    encode_error *errors;               /* [bands] */
    pthread_mutex_t lock;
    uint32_t failed_band; /* lowest that failed, UINT32_MAX: none */
    mk_status status;
    mk_error error;
} matrix_job;

static void set_failed(matrix_job *m, uint32_t band, mk_status status, const mk_error *error)
{
    pthread_mutex_lock(&m->lock);
    if (band < m->failed_band) {
        m->failed_band = band;
        m->status = status;
        m->error = *error;
    }
    pthread_mutex_unlock(&m->lock);
}

static mk_status check_weights(const matrix_job *m, const float *w, uint32_t row, uint32_t cols, mk_error *err)
{
    size_t at = encode_find_unfit(w, cols);
    char name[QUANT_NAME];
    if (at == cols)
        return MK_OK;
    return quant_fail(
        err, MK_ERR_FORMAT,
        "%s: tensor %s has the weight %g at row %u, column %zu; weights must be finite and below %g, so the "
        "source is damaged or was not trained to an end",
        m->job->path, quant_name(m->tensor->source->name, name), (double)w[at], row, at, (double)ENCODE_LIMIT);
}

static uint32_t padded_cols(const planned_tensor *t)
{
    return (t->record.cols + MKN_BLOCK - 1) / MKN_BLOCK * MKN_BLOCK;
}

static mk_status encode_group(const matrix_job *m, uint32_t group, float *weights, uint8_t *codes,
                              uint8_t *scales, encode_error *error, mk_error *err)
{
    const planned_tensor *t = m->tensor;
    uint32_t first = group * MKN_GROUP, cols = t->record.cols, padded = padded_cols(t);
    uint32_t rows = t->record.rows - first < MKN_GROUP ? t->record.rows - first : MKN_GROUP;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t row = t->by_heads ? plan_source_row(m->job->model, first + i) : first + i;
        float *w = weights + (size_t)i * padded;
        source_dequantize(t->source, row, 0, cols, w);
        mk_status status = check_weights(m, w, row, cols, err);
        if (status)
            return status;
        memset(w + cols, 0, (padded - cols) * sizeof *w);
        if (t->record.flags & MKN_TRANSFORMED)
            hadamard_row(w, padded);
    }
    weight_group g = {.weights = weights, .rows = rows, .cols = padded, .stride = padded};
    if (t->record.type == MKN_Q8)
        encode_q8(&g, codes, scales, error);
    else
        encode_q4(m->job->book, &g, codes, scales, error);
    return MK_OK;
}

static mk_status encode_band(matrix_job *m, uint32_t band, uint8_t *memory, mk_error *err)
{
    const mkn_tensor *record = &m->tensor->record;
    uint32_t begin = band * m->band_groups;
    uint32_t groups = m->groups - begin < m->band_groups ? m->groups - begin : m->band_groups;
    float *weights = (float *)(void *)memory;
    uint8_t *codes = memory + (size_t)MKN_GROUP * padded_cols(m->tensor) * sizeof *weights;
    uint8_t *scales = codes + (size_t)(groups * m->codes_bytes);
    for (uint32_t i = 0; i < groups; i++) {
        mk_status status = encode_group(m, begin + i, weights, codes + i * m->codes_bytes,
                                        scales + i * m->scales_bytes, &m->errors[band], err);
        if (status)
            return status;
    }
    mk_status status = image_write_data(m->job->writer, record->offset + begin * m->codes_bytes, codes,
                                        (size_t)(groups * m->codes_bytes), err);
    if (!status)
        status = image_write_data(m->job->writer, record->scales_offset + begin * m->scales_bytes, scales,
                                  (size_t)(groups * m->scales_bytes), err);
    if (!m->tensor->by_heads) {
        const source_tensor *source = m->tensor->source;
        source_map_release(m->job->map, source->data + (uint64_t)begin * MKN_GROUP * source->row_bytes,
                           (uint64_t)groups * MKN_GROUP * source->row_bytes);
    }
    return status;
}

static void run_band(void *context, uint64_t band, uint32_t worker)
{
    matrix_job *m = context;
    mk_error error;
    (void)worker;
    pthread_mutex_lock(&m->lock);
    bool late = m->failed_band < band;
    pthread_mutex_unlock(&m->lock);
    if (late)
        return;
    size_t bytes = (size_t)MKN_GROUP * padded_cols(m->tensor) * sizeof(float) +
                   (size_t)(m->band_groups * (m->codes_bytes + m->scales_bytes));
    uint8_t *memory = malloc(bytes);
    mk_status status = memory ? encode_band(m, (uint32_t)band, memory, &error)
                              : quant_fail(&error, MK_ERR_MEMORY, "out of memory for %zu bytes", bytes);
    free(memory);
    if (status)
        set_failed(m, (uint32_t)band, status, &error);
}

static mk_status convert_matrix(const tensor_job *job, const planned_tensor *t, encode_error *error,
                                mk_error *err)
{
    matrix_job m = {.job = job, .tensor = t, .failed_band = UINT32_MAX};
    m.groups = (t->record.rows + MKN_GROUP - 1) / MKN_GROUP;
    m.codes_bytes = t->record.size / m.groups;
    m.scales_bytes = t->record.scales_size / m.groups;
    m.band_groups = BAND_WEIGHTS / (MKN_GROUP * t->record.cols);
    m.band_groups = m.band_groups ? m.band_groups : 1;
    m.bands = (m.groups + m.band_groups - 1) / m.band_groups;
    m.errors = calloc(m.bands, sizeof *m.errors);
    if (!m.errors)
        return quant_fail(err, MK_ERR_MEMORY, "out of memory");
    pthread_mutex_init(&m.lock, NULL);
    parallel_for(job->threads, m.bands, run_band, &m);
    pthread_mutex_destroy(&m.lock);
    for (uint32_t i = 0; i < m.bands; i++) {
        error->signal += m.errors[i].signal;
        error->noise += m.errors[i].noise;
    }
    free(m.errors);
    if (m.status && err)
        *err = m.error;
    return m.status;
}

/* A vector, or what else stays float32. */
static mk_status convert_vector(const tensor_job *job, const planned_tensor *t, mk_error *err)
{
    uint32_t count = t->record.cols;
    char name[QUANT_NAME];
    float *values = malloc(2 * (size_t)count * sizeof *values);
    if (!values)
        return quant_fail(err, MK_ERR_MEMORY, "out of memory for %u values", count);
    float *ordered = values + count;
    source_dequantize(t->source, 0, 0, count, values);
    mk_status status = MK_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        ordered[i] = values[t->by_heads ? plan_source_row(job->model, i) : i];
        if (!(ordered[i] - ordered[i] == 0))
            status = quant_fail(err, MK_ERR_FORMAT, "%s: tensor %s has the value %g; the source is damaged",
                                job->path, quant_name(t->source->name, name), (double)ordered[i]);
    }
    if (!status)
        status = image_write_data(job->writer, t->record.offset, ordered, count * sizeof *ordered, err);
    free(values);
    return status;
}

mk_status convert_tensor(const tensor_job *job, const planned_tensor *t, encode_error *error, mk_error *err)
{
    bool matrix = t->record.type == MKN_Q8 || t->record.type == MKN_Q4;
    *error = (encode_error){0};
    mk_status status = matrix ? convert_matrix(job, t, error, err) : convert_vector(job, t, err);
    source_map_release(job->map, t->source->data, t->source->rows * t->source->row_bytes);
    return status;
}
