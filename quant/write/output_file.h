/* output_file.h - a file that appears under its name complete and synced, or not at all. */
#ifndef MK_QUANT_OUTPUT_FILE_H
#define MK_QUANT_OUTPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "makarna.h"
#include "quant/read/map.h"

typedef struct output_file {
    const char *name; /* as the user gave it, for messages */
    char *path;       /* links resolved */
    char *temporary; /* in the same folder; removed by output_file_abort, and by signals that end the program */
    int fd;
} output_file;

/* Fails if `name` is something other than a regular file, or one of the given sources (maps that are not open
 * are passed over). One output file may be open at a time. */
mk_status output_file_create(output_file *file, const char *name, const source_map *const sources[],
                             size_t count, mk_error *err);

/* Sets the size and claims the space for it, so that a full disk shows now. The content is zeros. */
mk_status output_file_reserve(output_file *file, uint64_t size, mk_error *err);

/* May be called from several threads. */
mk_status output_file_write(const output_file *file, uint64_t offset, const void *data, size_t size,
                            mk_error *err);

mk_status output_file_read(const output_file *file, uint64_t offset, void *data, size_t size, mk_error *err);

/* Syncs, renames over `name`, syncs the folder. Whatever the result, the file is closed afterwards. */
mk_status output_file_commit(output_file *file, mk_error *err);

void output_file_abort(output_file *file);

#endif
