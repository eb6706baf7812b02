/* golden_text.h - reading the golden files of tokens: lines of escaped texts and of ids. */
#ifndef MK_TESTS_GOLDEN_TEXT_H
#define MK_TESTS_GOLDEN_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOLDEN_LINE = 8192, GOLDEN_IDS = 2048 };

static inline FILE *golden_open(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        exit(1);
    }
    return file;
}

/* A line without its end; false at the end of the file. */
static inline bool golden_line(FILE *file, char line[GOLDEN_LINE])
{
    if (!fgets(line, GOLDEN_LINE, file))
        return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

/* Resolves \\ \n \t \r \xNN in place; returns the bytes of the text. */
static inline size_t golden_unescape(char *text)
{
    size_t size = 0;
    for (const char *p = text; *p; p++) {
        if (*p != '\\') {
            text[size++] = *p;
            continue;
        }
        unsigned byte = 0;
        p++;
        if (*p == 'x' && sscanf(p + 1, "%2x", &byte) == 1)
            p += 2;
        else
            byte = (unsigned char)(*p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : *p);
        text[size++] = (char)byte;
    }
    return size;
}

/* Ids separated by spaces; returns their number. */
static inline size_t golden_ids(const char *line, int32_t ids[GOLDEN_IDS])
{
    size_t count = 0;
    char *end;
    for (long id; count < GOLDEN_IDS && (id = strtol(line, &end, 10), end != line); line = end)
        ids[count++] = (int32_t)id;
    return count;
}

/* The path of an image: the program's argument, or that file in the folder MK_IMAGES; NULL if there is
 * none. */
static inline const char *golden_image(int argc, char **argv, const char *name, char path[4096])
{
    const char *folder = getenv("MK_IMAGES");
    if (argc > 1)
        return argv[1];
    if (!folder)
        return NULL;
    snprintf(path, 4096, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fclose(file);
    return path;
}

#endif
