#include "quant/encode/learn.h"

#include <stdlib.h>
#include <string.h>

#include "base/math.h"
#include "quant/encode/parallel.h"

/* Half of a symmetric set of 16 levels with its ends at 1, dense around zero. */
static const double half_shape[8] = {0.0458, 0.1417, 0.2417, 0.3500, 0.4750, 0.6167, 0.7875, 1.0};

static int8_t to_level(double x)
{
    double rounded = (double)mk_rint((float)x);
    return (int8_t)(rounded > 127 ? 127 : rounded < -127 ? -127 : rounded);
}

void learn_start(int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    static const double low[5] = {1, 1, 0.75, 1, 0.55}, high[5] = {1, 0.75, 1, 0.55, 1};
    const double step = 0.9589; /* 52 sizes from 127 down to an eighth of it */
    double size = 127;
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        uint32_t shape = t % 5;
        for (uint32_t i = 0; i < 8; i++) {
            tables[t][7 - i] = to_level(-half_shape[i] * low[shape] * size);
            tables[t][8 + i] = to_level(half_shape[i] * high[shape] * size);
        }
        if (shape == 4)
            size *= step;
    }
}

/* ---- Assignment ------------------------------------------------------------------------------- */

typedef struct assignment {
    const codebook *book;
    const block_sample *sample;
    uint8_t *tables;             /* [count] */
    uint8_t (*codes)[MKN_BLOCK]; /* [count] */
    float *errors;               /* [count] */
    uint32_t *order;             /* [count] blocks by table, those of table t from start[t] to start[t + 1] */
    uint32_t start[MKN_TABLES + 1];
    double *keys; /* [count] scratch */
} assignment;

enum { CHUNK = 1024 };

static void assign_chunk(void *context, uint64_t chunk, uint32_t worker)
{
    assignment *a = context;
    (void)worker;
    uint32_t begin = (uint32_t)chunk * CHUNK;
    uint32_t end = a->sample->count - begin < CHUNK ? a->sample->count : begin + CHUNK;
    for (uint32_t b = begin; b < end; b++)
        a->tables[b] =
            (uint8_t)codebook_search(a->book, a->sample->values[b], MKN_BLOCK, a->codes[b], &a->errors[b]);
}

static void assign(assignment *a, uint32_t threads)
{
    uint32_t next[MKN_TABLES], count = a->sample->count;
    parallel_for(threads, (count + CHUNK - 1) / CHUNK, assign_chunk, a);
    memset(a->start, 0, sizeof a->start);
    for (uint32_t b = 0; b < count; b++)
        a->start[a->tables[b] + 1]++;
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        a->start[t + 1] += a->start[t];
        next[t] = a->start[t];
    }
    for (uint32_t b = 0; b < count; b++)
        a->order[next[a->tables[b]]++] = b;
}

static uint32_t users(const assignment *a, uint32_t t)
{
    return a->start[t + 1] - a->start[t];
}

/* ---- Moving levels ---------------------------------------------------------------------------- */

/* Weighted sums of the values that use each level of a table. */
typedef struct level_sums {
    double sums[MKN_LEVELS], weights[MKN_LEVELS];
} level_sums;

static void add_block(level_sums *s, const assignment *a, uint32_t b)
{
    double weight = (double)a->sample->weights[b];
    for (uint32_t i = 0; i < MKN_BLOCK; i++) {
        s->sums[a->codes[b][i]] += weight * (double)a->sample->values[b][i];
        s->weights[a->codes[b][i]] += weight;
    }
}

static double mean_of(const level_sums *s, uint32_t level, const int8_t *table)
{
    return s->weights[level] > 0 ? s->sums[level] / s->weights[level] : table[level];
}

static void move_levels(const assignment *a, int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        level_sums s = {0};
        for (uint32_t i = a->start[t]; i < a->start[t + 1]; i++)
            add_block(&s, a, a->order[i]);
        for (uint32_t l = 0; l < MKN_LEVELS; l++)
            tables[t][l] = to_level(mean_of(&s, l, codebook_table(a->book, t)));
    }
}

/* ---- Splitting --------------------------------------------------------------------------------
 *
 * Without it, 45 of the 256 tables ended with no block of SmolLM2 (from Q4_1) and 150 with few; with it the
 * signal-to-noise ratio of the matrices is 1.4 dB better. */

/* How a block differs from its table: by a factor, a shift, or a factor of opposite sign on either side of
 * zero. */
enum { BY_SIZE, BY_SHIFT, BY_SKEW, SPLITS };

static double split_key(const assignment *a, uint32_t b, int split)
{
    const int8_t *table = codebook_table(a->book, a->tables[b]);
    double key = 0, norm = 0;
    for (uint32_t i = 0; i < MKN_BLOCK; i++) {
        double level = table[a->codes[b][i]], residue = (double)a->sample->values[b][i] - level;
        double direction = split == BY_SIZE ? level : split == BY_SHIFT ? 1 : level < 0 ? -level : level;
        key += residue * direction;
        norm += direction * direction;
    }
    return norm > 0 ? key / norm : 0;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Halves the users of table t at the median of a key; returns by how much the two means lower the error. */
static double try_split(const assignment *a, uint32_t t, int split, int8_t halves[2][MKN_LEVELS])
{
    const int8_t *table = codebook_table(a->book, t);
    level_sums sums[2] = {{{0}, {0}}, {{0}, {0}}};
    uint32_t count = users(a, t);
    for (uint32_t i = 0; i < count; i++)
        a->keys[i] = split_key(a, a->order[a->start[t] + i], split);
    qsort(a->keys, count, sizeof *a->keys, compare_doubles);
    double median = a->keys[count / 2], gain = 0;
    for (uint32_t i = a->start[t]; i < a->start[t + 1]; i++)
        add_block(&sums[split_key(a, a->order[i], split) >= median], a, a->order[i]);
    for (int half = 0; half < 2; half++)
        for (uint32_t l = 0; l < MKN_LEVELS; l++) {
            double mean = mean_of(&sums[half], l, table);
            halves[half][l] = to_level(mean);
            gain += sums[half].weights[l] * (mean - table[l]) * (mean - table[l]);
        }
    return gain;
}

/* Replaces table `idle` and table t by the halves of t. */
static void split_table(const assignment *a, uint32_t t, uint32_t idle, int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    double best = -1;
    int8_t halves[2][MKN_LEVELS];
    for (int split = 0; split < SPLITS; split++) {
        double gain = try_split(a, t, split, halves);
        if (gain <= best)
            continue;
        best = gain;
        memcpy(tables[t], halves[0], MKN_LEVELS);
        memcpy(tables[idle], halves[1], MKN_LEVELS);
    }
}

/* The table with the largest error that was not split yet in this round. */
static uint32_t worst_table(const double *errors, const bool *split)
{
    uint32_t worst = MKN_TABLES;
    for (uint32_t t = 0; t < MKN_TABLES; t++)
        if (!split[t] && (worst == MKN_TABLES || errors[t] > errors[worst]))
            worst = t;
    return worst;
}

enum { FEW_USERS = 8 };

static void replace_idle(const assignment *a, int8_t tables[MKN_TABLES][MKN_LEVELS])
{
    double errors[MKN_TABLES] = {0};
    bool split[MKN_TABLES] = {false};
    for (uint32_t b = 0; b < a->sample->count; b++)
        errors[a->tables[b]] += (double)a->errors[b] * (double)a->sample->weights[b];
    for (uint32_t t = 0; t < MKN_TABLES; t++) {
        uint32_t worst;
        if (users(a, t) >= FEW_USERS)
            continue;
        worst = worst_table(errors, split);
        if (worst == MKN_TABLES || errors[worst] <= 0 || users(a, worst) < 2 * FEW_USERS)
            return;
        split[worst] = true;
        split_table(a, worst, t, tables);
    }
}

/* ---- Lloyd's iteration ------------------------------------------------------------------------ */

static void iterate(assignment *a, codebook *book, uint32_t rounds, uint32_t threads)
{
    int8_t tables[MKN_TABLES][MKN_LEVELS];
    for (uint32_t round = 0; round < rounds; round++) {
        assign(a, threads);
        move_levels(a, tables);
        if (round + 4 < rounds) /* the last rounds settle */
            replace_idle(a, tables);
        codebook_set(book, (const int8_t(*)[MKN_LEVELS])tables);
    }
}

bool learn_tables(codebook *book, const block_sample *sample, uint32_t rounds, uint32_t threads)
{
    size_t count = sample->count;
    if (count == 0)
        return true;
    assignment a = {.book = book, .sample = sample};
    a.tables = malloc(count);
    a.codes = malloc(count * sizeof *a.codes);
    a.errors = malloc(count * sizeof *a.errors);
    a.order = malloc(count * sizeof *a.order);
    a.keys = malloc(count * sizeof *a.keys);
    bool ok = a.tables && a.codes && a.errors && a.order && a.keys;
    if (ok)
        iterate(&a, book, rounds, threads);
    free(a.tables);
    free(a.codes);
    free(a.errors);
    free(a.order);
    free(a.keys);
    return ok;
}
