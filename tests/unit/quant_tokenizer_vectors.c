/* The vocabularies of GPT-2 (byte-level BPE) and Llama 2 (SentencePiece), from GGUF files: the tokens of the
 * reference vectors, decoding as the inverse, and the time for long texts. */
#include <time.h>

#include "check.h"
#include "quant/convert/tokenizer.h"
#include "quant/read/reader.h"
#include "unit/tokenizer_image.h"

#define SEPARATOR "\n__ggml_vocab_test__\n"

typedef struct loaded {
    source source;
    void *image;
    mk_model model;
} loaded;

static void load(loaded *l, const char *path)
{
    mk_error err;
    char error[512];
    uint8_t *section;
    size_t size;
    source_request request = {.path = path, .vocab_only = true};
    FILE *file = fopen(path, "rb");
    if (!file)
        CHECK_SKIP("no %s", path);
    fclose(file);
    if (source_open(&l->source, &request, &err) != MK_OK ||
        !convert_tokenizer(&l->source.model.vocab, &section, &size, error, sizeof error)) {
        fprintf(stderr, "%s: cannot be converted\n", path);
        exit(1);
    }
    l->image = test_vocab_image(section, size, l->source.model.vocab.count, NULL, &size);
    free(section);
    if (mk_model_open_memory(&l->model, l->image, size, &err) != MK_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
}

static void unload(loaded *l)
{
    mk_model_close(&l->model);
    free(l->image);
    source_close(&l->source);
}

static int32_t *tokenize(const mk_model *model, const char *text, size_t size, size_t *count)
{
    mk_error err = {""};
    size_t scratch_size = mk_tokenize_scratch_size(model, size);
    void *scratch = malloc(scratch_size);
    int32_t *ids = malloc((size + 3) * sizeof *ids);
    mk_status status = mk_tokenize(model, text, size, 0, ids, size + 3, count, scratch, scratch_size, &err);
    CHECK_MSG(status == MK_OK, "%s", err.text);
    free(scratch);
    return ids;
}

static void check_round_trip(const mk_model *model, const int32_t *ids, size_t count, const char *text,
                             size_t size)
{
    mk_detokenizer state = {0};
    char *token = malloc(mk_detokenize_capacity(model));
    size_t at = 0;
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        size_t n = mk_detokenize(model, &state, ids[i], token);
        same = same && n <= size - at && memcmp(text + at, token, n) == 0;
        at += same ? n : 0;
    }
    CHECK_MSG(same && at == size && mk_detokenize_end(&state, token) == 0, "text of %zu bytes", size);
    free(token);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (!file || fread(text, 1, (1 << 16) - 1, file) == 0)
        CHECK_SKIP("no %s", path);
    fclose(file);
    return text;
}

static void check_vectors(const mk_model *model, const char *path)
{
    char name[512];
    snprintf(name, sizeof name, "%s.inp", path);
    char *texts = read_file(name);
    snprintf(name, sizeof name, "%s.out", path);
    char *lines = read_file(name), *line = lines;
    unsigned number = 0;
    for (char *text = texts; text; number++) {
        char *end = strstr(text, SEPARATOR);
        size_t size = end ? (size_t)(end - text) : strlen(text), count, wanted = 0;
        int32_t *ids = tokenize(model, text, size, &count);
        bool same = true;
        for (char *at = line + strspn(line, " "); *at && *at != '\n'; at += strspn(at, " "), wanted++)
            same = (int32_t)strtol(at, &at, 10) == (wanted < count ? ids[wanted] : -1) && same;
        CHECK_MSG(same && wanted == count, "%s: text %u: %zu tokens, expected %zu", path, number, count,
                  wanted);
        check_round_trip(model, ids, count, text, size);
        free(ids);
        line += strcspn(line, "\n");
        line += *line == '\n';
        text = end ? end + strlen(SEPARATOR) : NULL;
    }
    CHECK_MSG(number == 47, "%u texts", number);
    free(texts);
    free(lines);
}

/* A megabyte, in processor time: the bound is for a workstation, and wide. */
static void check_speed(const mk_model *model, const char *name, const char *text, size_t size)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const double bound = 20;
#else
    const double bound = 2;
#endif
    size_t count;
    clock_t start = clock();
    free(tokenize(model, text, size, &count));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%s: %zu bytes, %zu tokens, %.2f s\n", name, size, count, seconds);
    CHECK_MSG(seconds < bound, "%s: %.2f s", name, seconds);
}

static void check_long_texts(const mk_model *model)
{
    const size_t size = 1 << 20;
    char *text = malloc(size);
    uint32_t state = 1;
    memset(text, 'a', size);
    check_speed(model, "letters", text, size);
    memset(text, ' ', size);
    check_speed(model, "spaces", text, size);
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525u + 1013904223u;
        text[i] = (char)(state >> 16);
    }
    check_speed(model, "random bytes", text, size);
    for (size_t i = 0; i < size; i++)
        text[i] = "etaoin"[(unsigned char)text[i] % 6];
    check_speed(model, "random letters", text, size);
    free(text);
}

int main(void)
{
    static const char *const paths[] = {MK_SHARED "/vectors/ggml-vocab-gpt-2.gguf",
                                        MK_SHARED "/vectors/ggml-vocab-llama-spm.gguf"};
    for (int i = 0; i < 2; i++) {
        loaded l;
        load(&l, paths[i]);
        check_vectors(&l.model, paths[i]);
        check_long_texts(&l.model);
        unload(&l);
    }
    return check_end();
}
