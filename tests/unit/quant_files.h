/* quant_files.h - for tests of the quantizer: a folder of its own for files, and quantizing in it. */
#ifndef MK_TESTS_QUANT_FILES_H
#define MK_TESTS_QUANT_FILES_H

#include <dirent.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "quant/convert/quantize.h"
#include "tools/tiny_model.h"

static char test_folder[64];

static inline void files_begin(void)
{
    strcpy(test_folder, "/tmp/makarna-quant-XXXXXX");
    if (!mkdtemp(test_folder)) {
        perror(test_folder);
        exit(1);
    }
}

/* Path of a file in the folder; good for a few calls. */
static inline const char *in_folder(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

/* How many files there are, hidden ones included. */
static inline unsigned files_count(void)
{
    unsigned count = 0;
    DIR *folder = opendir(test_folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (folder)
        closedir(folder);
    return count;
}

static inline void files_end(void)
{
    DIR *folder = opendir(test_folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            unlink(in_folder(entry->d_name));
    if (folder)
        closedir(folder);
    rmdir(test_folder);
}

/* A file's bytes, malloc'd. */
static inline uint8_t *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size + 1);
    if (!bytes || fread(bytes, 1, *size, f) != *size)
        *size = 0;
    fclose(f);
    return bytes;
}

static inline void write_whole(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(bytes, 1, size, f) == size);
    if (f)
        fclose(f);
}

typedef struct quantize_case {
    const char *input, *tokenizer, *output; /* names in the folder; tokenizer may be NULL */
    uint32_t layers, embedding, head, threads;
} quantize_case;

static inline mk_status quantize_files(const quantize_case *c, mk_error *err)
{
    char input[512], output[512], tokenizer[512];
    source s;
    snprintf(input, sizeof input, "%s", in_folder(c->input));
    snprintf(output, sizeof output, "%s", in_folder(c->output));
    snprintf(tokenizer, sizeof tokenizer, "%s", in_folder(c->tokenizer ? c->tokenizer : ""));
    source_request request = {.path = input, .tokenizer = c->tokenizer ? tokenizer : NULL};
    quantize_options options = {.output = output,
                                .types = {c->layers, c->embedding, c->head},
                                .chat_format = "none",
                                .threads = c->threads};
    mk_status status = source_open(&s, &request, err);
    if (status)
        return status;
    status = quantize(&s, &options, err);
    source_close(&s);
    return status;
}

#endif
